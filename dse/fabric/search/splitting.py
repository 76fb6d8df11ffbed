"""How one operator is spread over compute units: which numbers of parts there are, and what each part works and reads.

A matrix product is split over its batch, and beyond that over the tile columns of its result; every part of a batch
reads the same left operand and its own columns of the right one. All other operators are split over their elements.
"""

from dataclasses import dataclass
from functools import cached_property

from dse.graph.dataflow.graph import DataflowGraph
from hardware.fabrics import Fabric
from hardware.operations import Gemm
from hardware.operator_slots import OperatorSlots


@dataclass(frozen=True, slots=True)
class Range:
    """Flits ``first`` to ``end`` − 1 of a tensor."""

    first: int
    end: int

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


@dataclass(frozen=True)
class Splitting:
    """The ways to split an operator.

    Attributes:
        position: of the operator in the graph.
        graph, fabric, slots: what it is part of, runs on, and takes.
    """

    position: int
    graph: DataflowGraph
    fabric: Fabric
    slots: OperatorSlots

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

    def work_slots(self, parts: int) -> int:
        """Slots of work of the largest of so many parts.

        Raises:
            InputError: the table has no entry for the operator.
        """
        operator = self.graph.operators[self.position]
        if isinstance(operator.work, Gemm):
            gemm = operator.work
            batches = -(-gemm.batch // parts)
            columns = -(-self.fabric.tiles(gemm.n) // max(1, parts // gemm.batch))
            tiles = batches * self.fabric.tiles(gemm.m, gemm.k) * columns
        else:
            tiles = -(-flits_of(operator.work.elements, self.fabric) // parts)
        return self.slots.work_slots(operator.kind, tiles)

    @cached_property
    def options(self) -> tuple[tuple[int, int], ...]:
        """(parts, slots of work of each), with ever more parts and ever fewer slots; one part at least writes a flit."""
        operator = self.graph.operators[self.position]
        batch = operator.work.batch if isinstance(operator.work, Gemm) else 1
        sites = self.fabric.grid.site_kind.count("compute")
        options: list[tuple[int, int]] = []
        for parts in range(1, min(self.out_flits, sites) + 1):
            if parts > batch and parts % batch:
                continue
            slots = self.work_slots(parts)
            if not options or slots < options[-1][1]:
                options.append((parts, slots))
        return tuple(options)

    def parts_for(self, target_slots: int) -> int:
        """The fewest parts that each work no longer than this, or those that work least."""
        return next((parts for parts, slots in self.options if slots <= target_slots), self.options[-1][0])

    def groups(self, parts: int) -> int:
        """Groups of parts that read the same left operand; as many as parts where there is none."""
        operator = self.graph.operators[self.position]
        return min(parts, operator.work.batch) if isinstance(operator.work, Gemm) else parts

    @cached_property
    def left_operands(self) -> int:
        """How many of the operator's incoming edges, the first ones, carry the left operand of a matrix product."""
        operator, incoming = self.graph.operators[self.position], self.graph.incoming[self.position]
        if not isinstance(operator.work, Gemm):
            return 0
        if operator.weight_elements:
            return len(incoming)
        needed, count = operator.work.batch * operator.work.m * operator.work.k, 0
        while count < len(incoming) and needed > 0:
            needed -= incoming[count].elements
            count += 1
        return count
