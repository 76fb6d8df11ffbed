"""Dataflow graphs made of others: one behind the other, or side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

from dse.graph.dataflow.graph import DataflowEdge, DataflowGraph
from dse.graph.dataflow.operators import Pass
from dse.graph.flows import Flow, Flows, share_of


def side_by_side(name: str, parts: Sequence[tuple[str, DataflowGraph]]) -> DataflowGraph:
    """Graphs that have nothing to do with each other, each with a prefix for the names of its operators."""
    starts = accumulate((len(graph.operators) for _, graph in parts), initial=0)
    return DataflowGraph(
        name,
        tuple(
            replace(operator, name=f"{prefix}.{operator.name}")
            for prefix, graph in parts
            for operator in graph.operators
        ),
        tuple(
            edge._replace(source=edge.source + start, target=edge.target + start)
            for (_, graph), start in zip(parts, starts, strict=False)
            for edge in graph.edges
        ),
    )


def chained(name: str, parts: Sequence[tuple[str, DataflowGraph]]) -> DataflowGraph:
    """Graphs each of which reads what the one before it writes, with prefixes as :func:`side_by_side` has them.

    The forward outputs of a graph are the forward inputs of the next one, in order; in training steps the gradients of
    a graph's inputs are the gradients that come to the one before it.

    Raises:
        ValueError: a graph with another number of outputs than the next one has inputs, or of other sizes.
    """
    starts = list(accumulate((len(graph.operators) for _, graph in parts), initial=0))
    output_of: dict[int, int] = {}
    for before, after in pairwise(range(len(parts))):
        for source, target, is_backward in ((before, after, False), (after, before, True)):
            outputs = _ports(parts[source][1], "output", is_backward)
            inputs = _ports(parts[target][1], "input", is_backward)
            if list(outputs.values()) != list(inputs.values()):
                ends = f"inputs of {parts[target][0]} must match the outputs of {parts[source][0]}"
                raise ValueError(f"{ends}, but have {list(inputs.values())}, not {list(outputs.values())} elements")
            pairs = zip(outputs, inputs, strict=True)
            output_of.update((arrival + starts[target], output + starts[source]) for output, arrival in pairs)
    return _joined(side_by_side(name, parts), output_of)


def _ports(graph: DataflowGraph, kind: str, is_backward: bool) -> dict[int, int]:
    """Positions and elements of the inputs or outputs of one pass."""
    return {
        position: operator.work.elements
        for position, operator in enumerate(graph.operators)
        if isinstance(operator.work, Pass) and operator.kind == kind and operator.is_backward == is_backward
    }


def _joined(graph: DataflowGraph, output_of: Mapping[int, int]) -> DataflowGraph:
    """``graph`` without the inputs of ``output_of``, whose readers read what goes to the output of each."""

    def flows(edge: DataflowEdge) -> Flows:
        """What ``edge`` carries, from operators that stay."""
        if edge.source not in output_of:
            return (Flow(edge.source, edge.elements, edge.tensor),)
        sources = tuple(flow for before in graph.incoming[output_of[edge.source]] for flow in flows(before))
        return share_of(sources, edge.elements, edge.tensor)

    gone = {*output_of, *output_of.values()}
    position = {old: new for new, old in enumerate(old for old in range(len(graph.operators)) if old not in gone)}
    edges = (
        DataflowEdge(position[int(flow.operator)], position[edge.target], flow.elements, flow.tensor)
        for edge in graph.edges
        if edge.target in position
        for flow in flows(edge)
    )
    return DataflowGraph(graph.name, tuple(graph.operators[old] for old in position), tuple(edges))
