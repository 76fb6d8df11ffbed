"""What a user may name for a kernel graph: a ``.kgraph`` file, a network of the contest, or any network to import."""

from dataclasses import replace

from dse.graph.trace import Trace
from dse.sources.kinds import CatalogueNetwork, Model, ProblemFormat, ProblemInput, Source
from dse.sources.resolve import resolve
from dse.sources.traces import inference_trace_of
from dse.wafer.files.kgraph import TITLE_KEY, KernelGraph, parse_kgraph, read_kgraph, write_kgraph
from dse.wafer.from_trace import kernel_graph
from dse.wafer.kernels import KernelLibrary
from dse.wafer.networks import NETWORKS
from hardware.input_files import absolute

FILE = ProblemFormat("a .kgraph file", suffixes=(".kgraph",))
"""A kernel graph in the contest's format."""

CONTEST = ProblemFormat(f"a contest network ({', '.join(NETWORKS)})", names=tuple(NETWORKS))
"""The networks of the contest, by name."""


def graph_of(source: object, library: KernelLibrary) -> KernelGraph:
    """The kernel graph of ``source``.

    Args:
        source: one of :data:`~dse.wafer.networks.NETWORKS` by name, a file in the contest's format, or what
            :func:`~dse.sources.resolve.resolve` takes.
        library: has the kernel types.

    Raises:
        InputError: a name that nothing has (the nearest one is offered), a file that cannot be read or traced, one
            fault for each line of a ``.kgraph`` that is wrong, or an operator that no kernel type computes.
    """
    resolved = _resolved(source)
    if not isinstance(resolved, ProblemInput):
        graph = kernel_graph(_trace(resolved), resolved.where)
        return _judged(replace(graph, header={**graph.header, TITLE_KEY: resolved.name}), resolved.where, library)
    if resolved.format is CONTEST:
        return _judged(NETWORKS[resolved.where].graph(resolved.where), resolved.where, library)
    return read_kgraph(resolved.where, library)


def name_of(source: object) -> str:
    """What the problem is called, and its files in a run directory: the name, the function's, or the file's."""
    resolved = _resolved(source)
    if not isinstance(resolved, ProblemInput):
        return resolved.name
    return resolved.where if resolved.format is CONTEST else absolute(resolved.where).stem


def _resolved(source: object) -> Source:
    return resolve(source, (FILE, CONTEST))


def _judged(graph: KernelGraph, source: str, library: KernelLibrary) -> KernelGraph:
    """``graph`` as if it had been read: kernel types that a user has replaced by others may not fit it."""
    return parse_kgraph(write_kgraph(graph), source, library)


def _trace(source: Model) -> Trace:
    """The canonical trace of one image."""
    trace = inference_trace_of(source)
    if isinstance(source, CatalogueNetwork):  # the lines are not the user's
        return replace(trace, steps=tuple(replace(step, where="") for step in trace.steps))
    return trace
