"""The graph of what a user gives: a model of any kind, or a graph of their own."""

from dse.graph.trace import Granularity
from dse.partition.formats import GRAPH_SCHEMA, graph_from_document
from dse.partition.graphs.from_trace import graph_from_trace
from dse.partition.graphs.prepare import prepare
from dse.partition.problem import PartitionGraph
from dse.sources.kinds import CatalogueNetwork, Model, ProblemFormat, ProblemInput
from dse.sources.resolve import resolve
from dse.sources.traces import inference_trace_of
from hardware.inputs import fail
from hardware.packages import ELEMENT_BYTES

GRAPH = ProblemFormat(f"a .json of schema {GRAPH_SCHEMA}", schema=GRAPH_SCHEMA, object_type=PartitionGraph)
"""A user's own graph."""


def graph_of(
    source: object,
    *,
    microbatch: int | None = None,
    sequence: int | None = None,
    granularity: Granularity | None = None,
    element_bytes: int = ELEMENT_BYTES,
) -> PartitionGraph:
    """The operators of the inference forward pass of ``source``.

    Args:
        source: what :func:`~dse.sources.resolve.resolve` takes, or a graph (``dse.graph/1``), which stays as it is.
        microbatch: samples of one input; 1 when None. Not for a graph, which states its sizes.
        sequence: tokens of a sample, for a source that lets one choose.
        granularity: what one operator is; when None ``operator``, or as the catalogue has the graph. Not for a graph.
        element_bytes: of a floating-point number; for a graph of no matter.

    Raises:
        InputError: a source of no kind that is known, one that cannot be read or traced, or a size or granularity that
            it does not take.
    """
    resolved = resolve(source, (GRAPH,))
    if isinstance(resolved, ProblemInput):
        return _own_graph(resolved, microbatch, sequence, granularity)
    return _graph_of_model(resolved, microbatch, sequence, granularity, element_bytes)


def prepared_graph_of(
    source: object,
    *,
    microbatch: int | None = None,
    sequence: int | None = None,
    granularity: Granularity | None = None,
    element_bytes: int = ELEMENT_BYTES,
) -> PartitionGraph:
    """As :func:`graph_of`; what is imported is made so that many chips can share it, a user's graph stays as it is.

    See :mod:`~dse.partition.graphs.prepare`.
    """
    resolved = resolve(source, (GRAPH,))
    if isinstance(resolved, ProblemInput):
        return _own_graph(resolved, microbatch, sequence, granularity)
    return prepare(_graph_of_model(resolved, microbatch, sequence, granularity, element_bytes)).graph


def _own_graph(
    source: ProblemInput, microbatch: int | None, sequence: int | None, granularity: Granularity | None
) -> PartitionGraph:
    for option, given in (("microbatch", microbatch), ("sequence", sequence), ("granularity", granularity)):
        if given is not None:
            raise fail(source.where, option, given, "cannot be chosen: the graph states its operators and their sizes")
    if isinstance(source.content, PartitionGraph):
        return source.content
    return graph_from_document(source.content, source.where)


def _graph_of_model(
    source: Model, microbatch: int | None, sequence: int | None, granularity: Granularity | None, element_bytes: int
) -> PartitionGraph:
    trace = inference_trace_of(source, 1 if microbatch is None else microbatch, sequence)
    usual: Granularity = source.entry.granularity if isinstance(source, CatalogueNetwork) else "operator"
    return graph_from_trace(trace, granularity or usual, element_bytes)
