"""What a user may name for a graph, and the graph of it."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dse.graph.trace import Trace
from dse.importer.cache import cached, keep
from dse.importer.canonical import canonical
from dse.models.hyperparameters import SCHEMA as MODEL_SCHEMA
from dse.partition.formats import graph_from_document
from dse.partition.graphs.from_trace import Granularity, graph_from_trace
from dse.partition.graphs.prepare import prepare
from dse.partition.problem import PartitionGraph
from dse.sources import catalogue
from dse.sources.built_in import inference_trace
from dse.sources.workloads import list_models, model
from hardware.inputs import fail, nearest, read_document
from hardware.packages import ELEMENT_BYTES

_DOCUMENTS = (".json", ".yaml", ".yml")
_HLO = (".hlo", ".txt", ".mlir", ".stablehlo", ".pb", ".pbtxt")
_KINDS = (
    "a built-in model (`dse models`), a name of the catalogue, FILE.py:FUNCTION, a .onnx file, a config.json of"
    " transformers, a .yaml of hyper-parameters, or a .json of schema dse.graph/1"
)


def graph_of(
    source: str,
    *,
    microbatch: int | None = None,
    sequence: int | None = None,
    granularity: Granularity | None = None,
    element_bytes: int = ELEMENT_BYTES,
) -> PartitionGraph:
    """The operators of the inference forward pass of ``source``.

    Args:
        source: a built-in model or one of :mod:`~dse.sources.catalogue` by name; ``FILE.py:FUNCTION``, a
            function that returns a PyTorch module and example inputs; a ``.onnx`` file; a ``config.json`` of
            transformers; a file of hyper-parameters; or a graph (``dse.graph/1``), which is read as it is.
        microbatch: samples of one input; 1 when None. Not for a graph, which states its sizes.
        sequence: tokens of a sample, for a source that lets one choose.
        granularity: what one operator is; when None ``operator``, or as the catalogue has the graph. Not for a graph.
        element_bytes: of a floating-point number; for a graph of no matter.

    Raises:
        InputError: a source of no kind that is known, one that cannot be read or traced, or a size or granularity that
            it does not take.
    """
    return _read(source, microbatch, sequence, granularity, element_bytes)[0]


def prepared_graph_of(
    source: str,
    *,
    microbatch: int | None = None,
    sequence: int | None = None,
    granularity: Granularity | None = None,
    element_bytes: int = ELEMENT_BYTES,
) -> PartitionGraph:
    """As :func:`graph_of`; what is imported is made so that many chips can share it, a user's graph stays as it is.

    See :mod:`~dse.partition.graphs.prepare`.
    """
    graph, imported = _read(source, microbatch, sequence, granularity, element_bytes)
    return prepare(graph).graph if imported else graph


def _read(
    source: str,
    microbatch: int | None,
    sequence: int | None,
    granularity: Granularity | None,
    element_bytes: int,
) -> tuple[PartitionGraph, bool]:
    """(the operators, whether they were imported from a model)."""
    if source.endswith(_HLO):
        raise fail(source, "", "", f"HLO files are not read yet; give {_KINDS}")
    if microbatch is not None and microbatch < 1:
        raise fail(source, "microbatch", microbatch, "must be at least 1")
    document = read_document(source) if source.endswith(_DOCUMENTS) else None
    if isinstance(document, dict) and "model_type" not in document and document.get("schema") != MODEL_SCHEMA:
        for option, given in (("microbatch", microbatch), ("sequence", sequence), ("granularity", granularity)):
            if given is not None:
                raise fail(source, option, given, "cannot be chosen: the file states the operators and their sizes")
        return graph_from_document(document, source), False
    trace = trace_of(source, document, microbatch or 1, sequence)
    return graph_from_trace(trace, granularity or _usual(source, document), element_bytes), True


def _usual(source: str, document: Any) -> Granularity:
    """The granularity that a source has when none is asked for."""
    of_catalogue = document is None and source not in list_models() and source in catalogue.names()
    return catalogue.entry(source).granularity if of_catalogue else "operator"


def trace_of(source: str, document: Any, microbatch: int, sequence: int | None) -> Trace:
    """The canonical trace of the inference forward pass of a ``source`` that is no graph; ``document``: its content.

    Raises:
        InputError: as :func:`graph_of`.
    """
    path, separator, function = source.rpartition(":")
    if separator and path.endswith(".py"):
        if not function.isidentifier():
            raise fail(source, "", function, "must be FILE.py:FUNCTION, with the name of a function in the file")
        return _of_function(Path(os.path.realpath(path)), function, microbatch, sequence)
    if source.endswith(".py"):
        raise fail(source, "", "", "must be FILE.py:FUNCTION, where FUNCTION returns a module and example inputs")
    if source.endswith(".onnx"):
        _no_sequence(source, sequence)
        return _of_onnx(Path(os.path.realpath(source)), microbatch)
    if isinstance(document, dict) and "model_type" in document:
        return _of_config(Path(os.path.realpath(source)), microbatch, sequence)
    if document is not None or source in list_models():
        _no_sequence(source, sequence)
        return canonical(inference_trace(model(source), microbatch))
    if source in catalogue.names():
        _no_sequence(source, sequence)
        if microbatch != 1:
            raise fail(source, "microbatch", microbatch, "graphs of the catalogue are of one sample")
        return catalogue.entry(source).trace()
    known = [*list_models(), *catalogue.names()]
    raise fail("", "graph", source, f"must be {_KINDS}", nearest(source, known))


def _no_sequence(source: str, sequence: int | None) -> None:
    if sequence is not None:
        raise fail(source, "sequence", sequence, "the model has a sequence length of its own")


def _of_function(path: Path, function: str, microbatch: int, sequence: int | None) -> Trace:
    from dse.importer.torch.source import parameters_of, trace_function

    if sequence is not None and "sequence" not in parameters_of(path, function):
        _no_sequence(f"{path}:{function}", sequence)
    sizes = {"microbatch": microbatch, "tensor_parallel": 1} | ({} if sequence is None else {"sequence": sequence})
    request = {"path": str(path), "function": function, **sizes}
    return _kept(request, lambda: trace_function(path, function, function, sizes, "inference"))


def _of_onnx(path: Path, microbatch: int) -> Trace:
    from dse.importer.onnx.file import read_onnx

    request = {"path": str(path), "microbatch": microbatch}
    return _kept(request, lambda: (read_onnx(path, microbatch), (path,)))


def _of_config(path: Path, microbatch: int, sequence: int | None) -> Trace:
    from dse.importer.torch.transformers_config import trace_config

    name = path.parent.name if path.stem == "config" and path.parent.name else path.stem
    request = {"path": str(path), "microbatch": microbatch, "sequence": sequence}
    return _kept(request, lambda: (trace_config(path, name, microbatch, sequence, "inference"), (path,)))


def _kept(request: dict[str, Any], make: Callable[[], tuple[Trace, tuple[Path, ...]]]) -> Trace:
    """The canonical trace from the user's cache, or made and kept there."""
    request = request | {"mode": "inference"}
    found = cached(request)
    if found is None:
        trace, files = make()
        found = canonical(trace)
        keep(request, files, found)
    return found
