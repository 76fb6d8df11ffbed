"""What a user may name for a kernel graph: a ``.kgraph`` file, a network of the contest, or any network to import."""

import os
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from dse.graph.trace import Trace
from dse.partition.graphs.source import trace_of
from dse.sources import catalogue
from dse.sources.workloads import list_models
from dse.wafer.files.kgraph import TITLE_KEY, KernelGraph, parse_kgraph, read_kgraph, write_kgraph
from dse.wafer.from_trace import kernel_graph
from dse.wafer.kernels import KernelLibrary
from dse.wafer.networks import NETWORKS
from hardware.inputs import InputError, fail, nearest, read_document

_DOCUMENTS = (".json", ".yaml", ".yml")
_IMPORTED = (".onnx", *_DOCUMENTS)
_KINDS = (
    "a .kgraph file, a network of the contest ({}), FILE.py:FUNCTION, a .onnx file, or a network of the catalogue"
    " (docs/partition.md)"
)
_EXTRA = "tracing a PyTorch module needs the extra learn: pip install 'dse[learn]'"


def graph_of(source: str, library: KernelLibrary) -> KernelGraph:
    """The kernel graph of ``source``.

    Args:
        source: one of :data:`~dse.wafer.networks.NETWORKS` by name; ``FILE.py:FUNCTION``, a function that returns a
            PyTorch module and example inputs; a ``.onnx`` file, a ``config.json`` of transformers or a network of the
            catalogue of ``dse partition``; anything else is a file in the contest's format.
        library: has the kernel types.

    Raises:
        InputError: a name that nothing has (the nearest one is offered), a file that cannot be read or traced, one
            fault for each line of a ``.kgraph`` that is wrong, or an operator that no kernel type computes.
    """
    if source in NETWORKS:
        return _judged(NETWORKS[source].graph(source), source, library)
    named = source in catalogue.names() or source in list_models()
    if named or source.endswith((".py", *_IMPORTED)) or _is_function(source):
        graph = kernel_graph(_trace(source), source)
        return _judged(replace(graph, header={**graph.header, TITLE_KEY: name_of(source)}), source, library)
    if Path(source).suffix or "/" in source or os.path.exists(source):
        return read_kgraph(source, library)
    known = [*NETWORKS, *catalogue.names()]
    raise fail("", "case", source, f"must be {_KINDS.format(', '.join(NETWORKS))}", nearest(source, known))


def name_of(source: str) -> str:
    """What the problem is called, and its files in a run directory: the name, the function's, or the file's."""
    if source in NETWORKS or source in catalogue.names():
        return source
    if _is_function(source):
        return source.rpartition(":")[2]
    path = Path(os.path.realpath(source))
    return path.parent.name if path.name == "config.json" and path.parent.name else path.stem


def _is_function(source: str) -> bool:
    path, separator, _ = source.rpartition(":")
    return bool(separator) and path.endswith(".py")


def _judged(graph: KernelGraph, source: str, library: KernelLibrary) -> KernelGraph:
    """``graph`` as if it had been read: kernel types that a user has replaced by others may not fit it."""
    return parse_kgraph(write_kgraph(graph), source, library)


def _trace(source: str) -> Trace:
    """The canonical trace of one image.

    Raises:
        InputError: it cannot be made; where PyTorch is missing, what to install.
    """
    document = read_document(source) if source.endswith(_DOCUMENTS) else None
    try:
        trace = trace_of(source, document, 1, None)
    except (InputError, ImportError) as error:
        if _is_function(source) and find_spec("torch") is None:
            raise fail(source, "", "", _EXTRA) from error
        raise
    if source in catalogue.names():  # the lines are not the user's
        return replace(trace, steps=tuple(replace(step, where="") for step in trace.steps))
    return trace
