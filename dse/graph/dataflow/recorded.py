"""From what a tape recorded of a layer to a dataflow graph.

Operators from which nothing leads to an output or to weights are left out: attention masks, for example, are made of
constants by operators of their own, and read where no edge says so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count

import rustworkx

from dse.graph.dataflow.graph import DataflowEdge, DataflowGraph
from dse.graph.dataflow.operators import DataflowOperator, Pass, PassKind
from dse.graph.dataflow.rules import IMAGE
from dse.graph.flows import Flows
from dse.graph.tape import Recorded, Tape, Tensor
from hardware.operations import Convolution, Gemm, Operation, Vector


def output_names(outputs: Sequence[Tensor]) -> dict[str, Tensor]:
    """Names for the outputs of a layer: ``output``, or ``output0`` … for several."""
    if len(outputs) == 1:
        return {"output": outputs[0]}
    return {f"output{number}": tensor for number, tensor in enumerate(outputs)}


def forward_dataflow(name: str, tape: Tape, outputs: Mapping[str, Tensor]) -> DataflowGraph:
    """The forward pass of the layer on ``tape``; ``outputs`` are what leaves it, by name.

    Raises:
        ValueError: an operator of several accelerators.
    """
    return _forward(tape, outputs).finished(name)


def training_dataflow(name: str, tape: Tape, outputs: Mapping[str, Tensor]) -> DataflowGraph:
    """Forward and backward pass of the layer on ``tape``, which is differentiated here and used up.

    Raises:
        ValueError: an operator of several accelerators, or a tensor that nothing reads.
    """
    draft = _forward(tape, outputs)
    tape.differentiate(*outputs.values())
    draft.called.update((f"{tensor.name}_gradient", f"{output}_gradient") for output, tensor in outputs.items())
    for position, each in enumerate(tape.backward):
        draft.add_recorded(position, each, True)
    for gradient in tape.accumulated:
        draft.accumulate(gradient)
    for source, gradient in tape.input_gradients.items():
        draft.add_output(f"{source}_gradient", gradient, True)
    return draft.finished(name)


def _forward(tape: Tape, outputs: Mapping[str, Tensor]) -> "_Draft":
    draft = _Draft(tape.arriving)
    for position, each in enumerate(tape.forward):
        draft.add_recorded(position, each, False)
    for name, tensor in outputs.items():
        draft.add_output(name, tensor.flows, False)
    return draft


Node = tuple[bool, int | str]
"""Whether an operator is of the backward pass, and its position or, of inputs, outputs and sums, its name."""


@dataclass
class _Draft:
    """A graph under construction.

    ``arriving`` are the elements of what may come from outside, ``called`` the names that some of it has in the graph;
    ``ends`` are the operators that nothing needs to read.
    """

    arriving: Mapping[str, int]
    operators: dict[Node, DataflowOperator] = field(default_factory=dict)
    edges: dict[tuple[Node, Node, str], int] = field(default_factory=dict)
    called: dict[str, str] = field(default_factory=dict)
    ends: list[Node] = field(default_factory=list)
    _names: set[str] = field(default_factory=set)

    def add_recorded(self, position: int, recorded: Recorded, is_backward: bool) -> None:
        node, operator = (is_backward, position), recorded.operator
        work = _work(operator.name, operator.operation)
        self._add(node, DataflowOperator(operator.name, work, recorded.resident_elements, is_backward))
        operands = [(recorded.reads, is_backward), *((tensor.flows, False) for tensor in recorded.saved)]
        for flows, is_of_backward in reversed(operands) if recorded.is_saved_left else operands:
            self.join(flows, is_of_backward, node)
        if isinstance(work, Pass) and work.kind == "embedding_backward":  # adds to its table
            self.ends.append(node)

    def add_output(self, name: str, flows: Flows, is_backward: bool) -> None:
        if flows:
            self._add_end(name, "output", flows, is_backward)

    def accumulate(self, gradient: Flows) -> None:
        writer = gradient[0].operator
        name = self.operators[True, writer].name if isinstance(writer, int) else writer
        self._add_end(f"{name}_accumulation", "add", gradient, True)

    def _add_end(self, name: str, kind: PassKind, flows: Flows, is_backward: bool) -> None:
        elements = sum(flow.elements for flow in dict.fromkeys(flows))
        node = is_backward, f"{name} {kind} {len(self.ends)}"
        held = elements if kind == "add" else 0
        self._add(node, DataflowOperator(name, Pass(kind, elements), held, is_backward))
        self.join(flows, is_backward, node)
        self.ends.append(node)

    def join(self, flows: Flows, is_backward: bool, reader: Node) -> None:
        """Edges for what flows from operators of a pass, or from outside, to ``reader``."""
        for flow in flows:
            node = is_backward, flow.operator
            if isinstance(flow.operator, str) and node not in self.operators:
                name, elements = self.called.get(flow.operator, flow.operator), self.arriving[flow.operator]
                self._add(node, DataflowOperator(name, Pass("input", elements), 0, is_backward))
            self.edges[node, reader, flow.tensor] = flow.elements

    def _add(self, node: Node, operator: DataflowOperator) -> None:
        """Add an operator, with a number where its name is taken."""
        numbered = (f"{operator.name}_{number}" for number in count(2))
        name = next(each for each in chain([operator.name], numbered) if each not in self._names)
        self._names.add(name)
        self.operators[node] = replace(operator, name=name)

    def finished(self, name: str) -> DataflowGraph:
        """The graph of what leads to an end; inputs first, then in the order of recording."""
        needed = self._needed()
        nodes = sorted(
            (node for node in self.operators if node in needed),
            key=lambda node: (node[0], _place(self.operators[node], node)),
        )
        position = {node: index for index, node in enumerate(nodes)}
        edges = (
            DataflowEdge(position[source], position[target], elements, tensor or self._result(source, elements))
            for (source, target, tensor), elements in self.edges.items()
            if source in position and target in position
        )
        return DataflowGraph(name, tuple(self.operators[node] for node in nodes), tuple(edges))

    def _result(self, source: Node, elements: int) -> str:
        """The name of an operator's result, which it has where the products of a convolution are summed into it."""
        work = self.operators[source].work
        return IMAGE if isinstance(work, Gemm) and elements != work.output_elements else ""

    def _needed(self) -> set[Node]:
        graph: rustworkx.PyDiGraph[Node, None] = rustworkx.PyDiGraph()
        index = {node: graph.add_node(node) for node in self.operators}
        graph.add_edges_from_no_data([(index[source], index[target]) for source, target, _ in self.edges])
        needed = set(self.ends)
        for end in self.ends:
            needed.update(graph[each] for each in rustworkx.ancestors(graph, index[end]))
        return needed


def _place(operator: DataflowOperator, node: Node) -> int:
    """Inputs, then what was recorded, then sums of gradients and outputs."""
    return 0 if operator.kind == "input" else 1 if isinstance(node[1], int) else 2


def _work(name: str, operation: Operation) -> Gemm | Pass:
    match operation:
        case Gemm():
            return operation
        case Convolution():
            return operation.gemm
        case Vector():
            return Pass(operation.kind, operation.elements, operation.row)
        case _:
            raise ValueError(f"{name} must run on one accelerator, but is a {type(operation).__name__.lower()}")
