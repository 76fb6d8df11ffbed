"""From a step of HLO operations, a training step or any other, to the operators that are partitioned."""

from collections.abc import Sequence
from math import prod

from dse.graph.step import FORWARDING, StepGraph, StepOperation
from dse.graph.step_loops import loop_owners
from dse.graph.step_work import flops_of, product_of
from dse.partition.problem import PartitionGraph
from hardware.product_rates import widest

_VIEWS = FORWARDING | {"reshape"}
"""Operations that move nothing."""

_MOVES = _VIEWS | {
    "broadcast", "transpose", "slice", "pad", "concatenate", "reverse", "copy", "convert", "gather", "dynamic-slice",
    "scatter", "dynamic-update-slice", "bitcast-convert",
}  # fmt: skip
"""Operations that compute nothing."""


def graph_from_step(graph: StepGraph) -> PartitionGraph:
    """The operators of a step, without prices (all latencies are NaN).

    Each operation is an operator, and each array that a user hands over (the role ``input``) is one too, which writes
    its bytes. Trained arrays and state are weights of the operators that read them, and count with each. A loop is one
    operator, with all that its passes do; of a conditional every branch counts. What follows from constants alone is
    made where it is read, and no operator. A multiplication and an addition of a product are two FLOPs, every element
    of an elementwise operation or a reduction is one. Elements have the width that the step gives them.
    """
    owner = loop_owners(graph)
    writer = _Writer(graph, owner)
    for number in range(len(graph.operations)):
        if not graph.is_constant(number):
            writer.add(number)
    return writer.finished()


def _read_outside(graph: StepGraph, owner: Sequence[int]) -> set[int]:
    """The values that another operator reads, or that the step returns."""
    writer = {value: owner[number] for number, each in enumerate(graph.operations) for value in each.results}
    read = {
        value
        for number, each in enumerate(graph.operations)
        for value in each.operands
        if writer.get(value) != owner[number]
    }
    return read | set(graph.results)


class _Writer:
    """The growing columns of a graph."""

    def __init__(self, graph: StepGraph, owner: Sequence[int]) -> None:
        self._graph = graph
        self._owner = owner
        self._arguments = {argument.value: argument for argument in graph.arguments}
        self._number_of: dict[int, int] = {}
        self._writer_of: dict[int, int] = {}
        self._names: dict[str, None] = {}
        self._columns: list[list[float]] = []
        self._formats: list[set[str]] = []
        self._held: list[set[int]] = []
        self._edges: dict[tuple[int, int], None] = {}
        self._read_outside = _read_outside(graph, owner)

    def finished(self) -> PartitionGraph:
        """The graph."""
        formats = ("+".join(sorted(each)) for each in self._formats)
        return PartitionGraph.unpriced(self._graph.name, self._names, self._columns, self._edges, formats)

    def add(self, number: int) -> None:
        """The operation, as an operator or as a part of one."""
        operation = self._graph.operations[number]
        owner = self._owner[number]
        read = [value for value in dict.fromkeys(operation.operands) if not self._graph.values[value].constant]
        producers = [self._producer(value) for value in read]
        if owner not in self._number_of:
            self._number_of[owner] = self._operator(self._graph.values[operation.results[0]].name)
        mine = self._number_of[owner]
        columns = self._columns[mine]
        for value in read:
            if self._is_weight(value) and value not in self._held[mine]:
                self._held[mine].add(value)
                columns[1] += self._graph.values[value].size_bytes
        columns[0] += sum(
            self._graph.values[value].size_bytes for value in operation.results if value in self._read_outside
        )
        columns[2] += operation.repeats * self._flops(operation)
        columns[3] += operation.repeats * self._moved(operation)
        if flops_of(operation, self._graph.values):
            self._formats[mine] |= widest(product_of(operation, self._graph.values)[0])
        self._writer_of.update(dict.fromkeys(operation.results, mine))
        self._edges.update(((source, mine), None) for source in producers if source is not None and source != mine)

    def _operator(self, name: str) -> int:
        unique, count = name, 1
        while unique in self._names:
            count += 1
            unique = f"{name}~{count}"
        self._names[unique] = None
        self._columns.append([0.0] * 4)
        self._formats.append(set())
        self._held.append(set())
        return len(self._columns) - 1

    def _producer(self, value: int) -> int | None:
        """The operator that writes a value, that which brings an input included; None for weights."""
        if value not in self._writer_of and not self._is_weight(value):
            number = self._operator(self._arguments[value].name)
            size = float(self._graph.values[value].size_bytes)
            self._columns[number][0] = self._columns[number][3] = size
            self._writer_of[value] = number
        return self._writer_of.get(value)

    def _is_weight(self, value: int) -> bool:
        return value in self._arguments and self._arguments[value].role != "input"

    def _flops(self, operation: StepOperation) -> int:
        if operation.opcode in _MOVES:
            return 0
        if flops := flops_of(operation, self._graph.values):
            return flops
        arrays = operation.operands[:1] if operation.opcode == "reduce" else operation.results[:1]
        return sum(prod(self._graph.values[each].dims) for each in arrays)

    def _moved(self, operation: StepOperation) -> int:
        """Bytes read and written: of a table only what is looked up or updated; of constants none."""
        if operation.opcode in _VIEWS:
            return 0
        values = [self._graph.values[each] for each in operation.operands]
        read = [0 if value.constant else value.size_bytes for value in values]
        written = sum(self._graph.values[each].size_bytes for each in operation.results)
        if operation.opcode in ("gather", "dynamic-slice"):
            read[:1] = [written]
        elif operation.opcode in ("scatter", "dynamic-update-slice"):
            read[:1] = [0]  # updated in place
            written = sum(read[1:])
        return sum(read) + written
