"""Which arrays of a step are in memory, by the rule that :mod:`dse.parallel.prices` states."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from dse.graph.step import StepGraph
from dse.sharding.hlo.table import ELEMENTWISE

FUSED = ELEMENTWISE | {
    "broadcast", "reshape", "bitcast", "transpose", "slice", "pad", "concatenate", "reverse", "iota",
}  # fmt: skip
"""Operations that compilers fuse with what takes their results, so that these need not be stored."""

_FUSES_OPERANDS = FUSED | {"reduce"}
"""Operations that compilers fuse with what makes their operands."""


@dataclass(frozen=True)
class Storage:
    """The arrays of ``graph`` that are written to memory, and those that are read from it.

    Attributes:
        graph: the step.
        in_memory: of each value, whether it is in memory, where ``graph`` is a part of a step that says so.
    """

    graph: StepGraph
    in_memory: tuple[bool, ...] | None = None

    @cached_property
    def stored(self) -> tuple[bool, ...]:
        """Of each value: whether it is written to memory in every step."""
        values = self.graph.values
        return tuple(each and not value.constant for each, value in zip(self._in_memory, values, strict=True))

    @cached_property
    def read(self) -> tuple[tuple[bool, ...], ...]:
        """Of each operand of each operation: whether it is read from memory."""
        rows = [[self._in_memory[value] for value in each.operands] for each in self.graph.operations]
        seen: set[tuple[int, int]] = set()
        for row, operation in zip(rows, self.graph.operations, strict=True):
            if operation.kernel is not None:
                for place, value in enumerate(operation.operands):
                    row[place] = row[place] and (operation.kernel, value) not in seen
                    seen.add((operation.kernel, value))
        return tuple(map(tuple, rows))

    @cached_property
    def _in_memory(self) -> tuple[bool, ...]:
        """Of each value: whether it is read from memory; constants only where it is known that they are."""
        graph = self.graph
        if self.in_memory is not None:
            return self.in_memory
        outside = {*(argument.value for argument in graph.arguments), *graph.results}
        if graph.is_optimised:
            return tuple(each or value in outside for value, each in enumerate(self._leave_kernels()))
        fused = self._are_not_fused()
        return tuple(
            (each or value in outside) and not graph.values[value].constant for value, each in enumerate(fused)
        )

    def _leave_kernels(self) -> list[bool]:
        """Of each value: whether another kernel takes it than the one that makes it."""
        maker = {value: operation.kernel for operation in self.graph.operations for value in operation.results}
        stored = [False] * len(self.graph.values)
        for operation in self.graph.operations:
            for value in operation.operands:
                stored[value] = stored[value] or maker.get(value) != operation.kernel
        return stored

    def _are_not_fused(self) -> list[bool]:
        """Of each value: whether a compiler that fuses what it can would leave it in memory."""
        graph = self.graph
        takers = Counter(value for operation in graph.operations for value in {*operation.operands})
        stored = [takers[value] > 1 for value in range(len(graph.values))]
        for operation in graph.operations:
            if operation.opcode not in FUSED:
                for value in operation.results:
                    stored[value] = True
            if operation.opcode not in _FUSES_OPERANDS:
                for value in operation.operands:
                    stored[value] = True
        return stored
