"""The graph of what a user gives: a model of any kind, or a graph of their own."""

from typing import TypedDict, Unpack

from dse.graph.trace import Granularity
from dse.partition.formats import GRAPH_SCHEMA, graph_from_document
from dse.partition.graphs.from_step import graph_from_step
from dse.partition.graphs.from_trace import graph_from_trace
from dse.partition.graphs.prepare import prepare
from dse.partition.problem import PartitionGraph
from dse.sharding.hlo.table import step_factors
from dse.sources.kinds import CatalogueNetwork, Model, ProblemFormat, ProblemInput
from dse.sources.resolve import resolve
from dse.sources.steps import STEP, step_of
from dse.sources.traces import inference_trace_of
from hardware.inputs import fail
from hardware.packages import ELEMENT_BYTES

GRAPH = ProblemFormat(f"a .json of schema {GRAPH_SCHEMA}", schema=GRAPH_SCHEMA, object_type=PartitionGraph)
"""A user's own graph."""


class GraphSizes(TypedDict, total=False):
    """What can be chosen of a model's graph, and not of a user's own, which states its operators and their sizes.

    Attributes:
        microbatch: samples of one input; 1 when None.
        sequence: tokens of a sample, for a source that lets one choose.
        granularity: what one operator is; when None ``operator``, or as the catalogue has the graph.
        element_bytes: of a floating-point number; ignored for a user's own graph.
    """

    microbatch: int | None
    sequence: int | None
    granularity: Granularity | None
    element_bytes: int


def graph_of(source: object, **sizes: Unpack[GraphSizes]) -> PartitionGraph:
    """The operators of the inference forward pass of ``source``.

    Args:
        source: what :func:`~dse.sources.resolve.resolve` takes; a step as HLO or StableHLO; or a graph
            (``dse.graph/1``), which stays as it is.
        sizes: of a model (:class:`GraphSizes`).

    Raises:
        InputError: a source of no kind that is known, one that cannot be read or traced, or a size or granularity that
            it does not take.
    """
    return _graph_of(resolve(source, (GRAPH, STEP)), **sizes)


def prepared_graph_of(source: object, **sizes: Unpack[GraphSizes]) -> PartitionGraph:
    """As :func:`graph_of`; a model's graph is made so that many chips can share it, a user's own stays as it is.

    See :mod:`~dse.partition.graphs.prepare`.
    """
    resolved = resolve(source, (GRAPH, STEP))
    graph = _graph_of(resolved, **sizes)
    return graph if isinstance(resolved, ProblemInput) and resolved.format is GRAPH else prepare(graph).graph


def _graph_of(
    source: Model | ProblemInput,
    microbatch: int | None = None,
    sequence: int | None = None,
    granularity: Granularity | None = None,
    element_bytes: int = ELEMENT_BYTES,
) -> PartitionGraph:
    if isinstance(source, ProblemInput):
        return _own_graph(source, microbatch=microbatch, sequence=sequence, granularity=granularity)
    trace = inference_trace_of(source, 1 if microbatch is None else microbatch, sequence)
    usual: Granularity = source.entry.granularity if isinstance(source, CatalogueNetwork) else "operator"
    return graph_from_trace(trace, granularity or usual, element_bytes)


def _graph_of_step(source: ProblemInput) -> PartitionGraph:
    step = step_of(source)
    step_factors(step, source.where)  # refuses an operation whose shapes break its rule
    graph = graph_from_step(step)
    if not len(graph):
        raise fail(source.where, "", "", "must compute something from its arguments")
    return graph


def _own_graph(source: ProblemInput, **sizes: object) -> PartitionGraph:
    for option, given in sizes.items():
        if given is not None:
            raise fail(
                source.where, option, given, "must not be given, because the graph states its own operators and sizes"
            )
    if source.format is STEP:
        return _graph_of_step(source)
    if isinstance(source.content, PartitionGraph):
        return source.content
    return graph_from_document(source.content, source.where)
