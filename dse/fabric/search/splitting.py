"""How one operator is spread over compute units: which numbers of parts there are, and what each part works and reads.

A matrix product is split over its batch, beyond that over the tile columns of its result, and beyond that over its tile
rows. A part reads its rows of the left operand and its columns of the right one, as do others with the same rows or
columns. All other operators are split over their elements.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from dse.graph.dataflow.graph import DataflowGraph
from dse.graph.dataflow.operators import Pass
from hardware.fabrics import Fabric
from hardware.operations import Gemm
from hardware.operator_slots import OperatorSlots


@dataclass(frozen=True, slots=True)
class Range:
    """Flits ``first`` to ``end`` − 1 of a tensor."""

    first: int
    end: int

    @property
    def size(self) -> int:
        """How many."""
        return self.end - self.first

    def overlap(self, other: "Range") -> int:
        """Flits in both."""
        return max(0, min(self.end, other.end) - max(self.first, other.first))


def held(holder: int, holders: int, flits: int) -> Range:
    """What one of several units holds of a tensor: equal parts that together are the whole."""
    return Range(holder * flits // holders, (holder + 1) * flits // holders)


def read(reader: int, readers: int, flits: int) -> Range:
    """What one of several units reads of a tensor: as :func:`held`, and at least one flit."""
    part = held(reader, readers, flits)
    return Range(part.first, max(part.end, part.first + 1))


def flits_of(elements: int, fabric: Fabric) -> int:
    """Flits that carry this many elements."""
    return -(-elements // fabric.tile**2)


def _even_parts(flits: int) -> Iterator[int]:
    """Numbers of parts each of which has a smaller largest part than all before it."""
    parts = 1
    while True:
        yield parts
        largest = -(-flits // parts)
        if largest <= 1:
            return
        parts = -(-flits // (largest - 1))


def left_operands(graph: DataflowGraph, position: int) -> int:
    """How many of an operator's incoming edges, the first ones, carry the left operand of a matrix product."""
    operator, incoming = graph.operators[position], graph.incoming[position]
    if not isinstance(operator.work, Gemm):
        return 0
    if operator.weight_elements:
        return len(incoming)
    needed, count = operator.work.batch * operator.work.m * operator.work.k, 0
    while count < len(incoming) and needed > 0:
        needed -= incoming[count].elements
        count += 1
    return count


Options = tuple[tuple[int, int], ...]
"""(parts, slots of work of each)."""

OptionsCache = dict[tuple[str, Gemm | Pass, int], Options]
"""Options by kind, work and flits of the largest tensor that is written, for one fabric and table."""


@dataclass(frozen=True)
class Splitting:
    """The ways to split an operator.

    Attributes:
        position: of the operator in the graph.
        graph, fabric, slots: what it is part of, runs on, and takes.
        known: options of operators that are alike.
    """

    position: int
    graph: DataflowGraph
    fabric: Fabric
    slots: OperatorSlots
    known: OptionsCache = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def weight_flits(self) -> int:
        """Flits of what stays with the operator."""
        return flits_of(self.graph.operators[self.position].weight_elements, self.fabric)

    @cached_property
    def out_flits(self) -> int:
        """Flits of the largest tensor that it writes, or of the sum that it adds to."""
        written = [flits_of(edge.elements, self.fabric) for edge in self.graph.outgoing[self.position]]
        return max(written, default=self.weight_flits)

    @cached_property
    def read_weight_flits(self) -> int:
        """Flits of its weights that it reads for a sample: of a table, no more than it looks up."""
        is_table = self.graph.operators[self.position].kind in ("embedding", "embedding_backward")
        looked_up = sum(flits_of(edge.elements, self.fabric) for edge in self.graph.incoming[self.position])
        return min(self.weight_flits, max(self.out_flits, looked_up)) if is_table else self.weight_flits

    @cached_property
    def _gemm(self) -> Gemm | None:
        work = self.graph.operators[self.position].work
        return work if isinstance(work, Gemm) else None

    @property
    def is_gemm(self) -> bool:
        """Whether the operator is a matrix product."""
        return self._gemm is not None

    def _grid(self, parts: int) -> tuple[int, int, int] | None:
        """(parts of the batch, of the rows, of the columns) of a matrix product; None if they are not ``parts``."""
        assert self._gemm is not None
        batches = min(parts, self._gemm.batch)
        columns = min(parts // batches, self.fabric.tiles(self._gemm.n))
        rows = parts // batches // columns
        return (batches, rows, columns) if batches * rows * columns == parts else None

    def work_slots(self, parts: int) -> int:
        """Slots of work of the largest of so many parts, one of :attr:`options`.

        Raises:
            InputError: the table has no entry for the operator.
        """
        operator = self.graph.operators[self.position]
        if isinstance(operator.work, Gemm):
            split = self._grid(parts)
            assert split is not None
            gemm, (batches, rows, columns) = operator.work, split
            sides = [(gemm.batch, batches), (self.fabric.tiles(gemm.m), rows), (self.fabric.tiles(gemm.n), columns)]
            tiles = self.fabric.tiles(gemm.k) * math.prod(-(-side // many) for side, many in sides)
        else:
            tiles = -(-flits_of(operator.work.elements, self.fabric) // parts)
        return self.slots.work_slots(operator.kind, tiles)

    @cached_property
    def options(self) -> Options:
        """(parts, slots of work of each), with ever more parts and ever fewer slots; each part writes a flit."""
        operator = self.graph.operators[self.position]
        key = (operator.kind, operator.work, self.out_flits)
        if key not in self.known:
            self.known[key] = self._options()
        return self.known[key]

    def _options(self) -> Options:
        sites = self.fabric.grid.site_kind.count("compute")
        options: list[tuple[int, int]] = []
        for parts in self._possible_parts():
            if parts > min(self.out_flits, sites):
                break
            slots = self.work_slots(parts)
            if not options or slots < options[-1][1]:
                options.append((parts, slots))
        return tuple(options)

    def _possible_parts(self) -> Iterable[int]:
        """Numbers of parts, ascending, with more of the batch, then of the columns, then of the rows."""
        work = self.graph.operators[self.position].work
        if not isinstance(work, Gemm):
            return _even_parts(flits_of(work.elements, self.fabric))
        batch, columns, rows = work.batch, self.fabric.tiles(work.n), self.fabric.tiles(work.m)
        ranges = (range(1, batch + 1), range(2, columns + 1), range(2, rows + 1))
        return (many * unit for unit, part in zip((1, batch, batch * columns), ranges, strict=True) for many in part)

    def parts_for(self, target_slots: int) -> int:
        """The fewest parts that each work no longer than this, or those that work least."""
        return next((parts for parts, slots in self.options if slots <= target_slots), self.options[-1][0])

    def reads(self, part: int, parts: int, flits: int, is_right: bool) -> Range:
        """What a part reads of an operand with so many flits; ``is_right``: weights, or a right operand."""
        if self._gemm is None:
            return read(part, parts, flits)
        split = self._grid(parts)
        assert split is not None
        batches, rows, columns = split
        if is_right:
            return read(part // (rows * columns) * columns + part % columns, batches * columns, flits)
        return read(part // columns, batches * rows, flits)

    @cached_property
    def left_operands(self) -> int:
        """How many of the operator's incoming edges carry the left operand (:func:`left_operands`)."""
        return left_operands(self.graph, self.position)
