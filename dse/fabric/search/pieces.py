"""Pieces of a dataflow graph that is too large for a fabric: subgraphs that run on it in turn, each for a whole batch.

A tensor between two pieces goes off chip: the piece that writes it has an output for it, every piece that reads it an
input, for every sample. Weights come from off chip when a piece is configured, and new sums go back when it has ended.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from dse.fabric.search.demand import Demand, Sizing
from dse.fabric.search.dividing import Divided, TensorKey
from dse.fabric.search.splitting import OptionsCache
from dse.graph.dataflow.graph import DataflowEdge, DataflowGraph
from dse.graph.dataflow.operators import DataflowOperator, Pass
from hardware.fabric_grid import SiteKind
from hardware.fabrics import Fabric
from hardware.operator_slots import OperatorSlots


@dataclass(frozen=True)
class Machine:
    """What pieces run on: a fabric, the slots of operators, and the units by kind of site that may be used.

    ``options`` holds the ways to split operators that are known already.
    """

    fabric: Fabric
    slots: OperatorSlots
    available: dict[SiteKind, int]
    options: OptionsCache = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True)
class Estimate:
    """How long a piece takes.

    Attributes:
        sizing: units and estimated slots of a sample.
        stages: buffers on the longest path: samples that the last one is behind the first one.
        load_slots: in which weights and sums come from off chip, and sums go back.
    """

    sizing: Sizing
    stages: int
    load_slots: int

    def time_s(self, batch: int, fabric: Fabric) -> float:
        """Seconds for ``batch`` samples, with the configuration of the fabric before them."""
        slots = self.load_slots + (batch + self.stages) * self.sizing.period_slots
        return fabric.configuration_s + slots * fabric.slot_s


def piece_graph(whole: Divided, positions: Sequence[int], name: str) -> DataflowGraph:
    """The subgraph of some operators, none of them an input or output, with inputs and outputs of its own.

    Parts of one tensor come in by one input if the same operators read them, and leave by one output.
    """
    number = {position: index for index, position in enumerate(positions)}
    arriving: dict[TensorKey, set[int]] = defaultdict(set)
    leaving: dict[TensorKey, DataflowEdge] = {}
    elements: dict[TensorKey, int] = {}
    for edge in (touching := _touching(whole.graph, positions)):
        tensor = (edge.source, edge.tensor)
        elements[tensor] = edge.elements
        if edge.source not in number:
            arriving[tensor].add(edge.target)
        elif edge.target not in number:
            leaving[tensor] = edge
    groups = {tensor: (whole.tensors[tensor], frozenset(readers)) for tensor, readers in arriving.items()}
    inputs: Counter[tuple[TensorKey, frozenset[int]]] = Counter()
    for tensor, group in groups.items():
        inputs[group] += elements[tensor]
    outputs: Counter[TensorKey] = Counter()
    for tensor in leaving:
        outputs[whole.tensors[tensor]] += elements[tensor]
    operators = [whole.graph.operators[position] for position in positions]
    for index, ((origin, _), many) in enumerate(inputs.items()):
        operators.append(_end(whole, origin, f"input{index}", Pass("input", many)))
    for origin, many in outputs.items():
        operators.append(_end(whole, origin, "output", Pass("output", many)))
    first_output = len(positions) + len(inputs)
    input_of = {group: len(positions) + index for index, group in enumerate(inputs)}
    output_of = {origin: first_output + index for index, origin in enumerate(outputs)}
    edges: dict[DataflowEdge, None] = {}  # parts that come in together have one edge
    for edge in touching:
        tensor = (edge.source, edge.tensor)
        if edge.target in number and edge.source in number:
            edges[edge._replace(source=number[edge.source], target=number[edge.target])] = None
        elif edge.target in number:
            group = groups[tensor]
            edges[DataflowEdge(input_of[group], number[edge.target], inputs[group])] = None
    for tensor, edge in leaving.items():
        output = output_of[whole.tensors[tensor]]
        edges[edge._replace(source=number[edge.source], target=output)] = None
    return DataflowGraph(name, tuple(operators), tuple(edges))


def _touching(graph: DataflowGraph, positions: Sequence[int]) -> list[DataflowEdge]:
    """The edges to or from some operators, in the order of the operators that they go to."""
    inside = set(positions)
    targets = {edge.target for position in positions for edge in graph.outgoing[position]} | inside
    return [
        edge
        for target in sorted(targets)
        for edge in graph.incoming[target]
        if target in inside or edge.source in inside
    ]


def signature(graph: DataflowGraph) -> tuple[object, ...]:
    """What graphs have in common that differ in names alone."""
    tensors: dict[TensorKey, int] = {}
    edges = [
        (edge.source, edge.target, edge.elements, tensors.setdefault((edge.source, edge.tensor), len(tensors)))
        for edge in graph.edges
    ]
    return (*((each.work, each.weight_elements, each.is_backward) for each in graph.operators), *edges)


def _end(whole: Divided, origin: TensorKey, kind: str, work: Pass) -> DataflowOperator:
    source, tensor = origin
    example = whole.graph.operators[whole.operators.index(source)]
    name = ".".join(filter(None, (example.name, tensor, kind)))
    return DataflowOperator(name, work, is_backward=example.is_backward)


def estimate(graph: DataflowGraph, machine: Machine) -> Estimate | None:
    """How long the graph of a piece takes; None where units are missing."""
    fabric = machine.fabric
    demand = Demand(graph, fabric, machine.slots, machine.options)
    sizing = demand.sizing(machine.available)
    if sizing is None:
        return None
    flits = sum(
        splitting.weight_flits * (2 if demand.adds_to_sum(position) else 1)
        for position, splitting in enumerate(demand.splittings)
        if splitting is not None
    )
    load_slots = -(-flits * fabric.channel_slots // fabric.channel_count)
    return Estimate(sizing, max(demand.stage), load_slots)
