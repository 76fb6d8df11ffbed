"""How many units the parts of a dataflow graph need on a fabric, for a target of slots that none is to exceed.

Weights and sums that need less than a memory unit may share one with those of other operators, as far as their flits
fit into it and its ports pass them within the target.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from dse.fabric.search.splitting import OptionsCache, Splitting, flits_of
from dse.graph.dataflow.graph import DataflowEdge, DataflowGraph
from hardware.fabric_grid import SiteKind
from hardware.fabrics import Fabric
from hardware.operations import Gemm
from hardware.operator_slots import OperatorSlots

DOUBLE_BUFFER = 2
"""Samples that a buffer holds at least: one is written while another one is read."""


@dataclass(frozen=True)
class Tensor:
    """What an operator writes and others read: flits of a sample, and the edges to its readers."""

    source: int
    name: str
    flits: int
    edges: tuple[DataflowEdge, ...]
    is_streamed: bool


@dataclass(frozen=True)
class Store:
    """Memory units of weights: several of one operator, or one for several, which hold their weights one by one.

    Attributes:
        operators: positions of those whose weights it holds.
        units: how many.
        is_sum: whether each operator adds to what it holds, so that as many units take the new sums.
    """

    operators: tuple[int, ...]
    units: int
    is_sum: bool


class Sizing(NamedTuple):
    """What the number of units follows from (:meth:`Demand.needed`), and the estimated slots of a sample with them."""

    target_slots: int
    period_slots: int
    depth: int
    shared_flits: int


@dataclass(frozen=True)
class Demand:
    """What the number of units depends on; ``known`` holds what graphs on the same fabric have in common."""

    graph: DataflowGraph
    fabric: Fabric
    slots: OperatorSlots
    known: OptionsCache = field(default_factory=dict, compare=False, repr=False)

    @property
    def unit_flits(self) -> int:
        """Flits that a memory unit holds."""
        return self.fabric.memory_bytes // self.fabric.flit_bytes

    @cached_property
    def splittings(self) -> tuple[Splitting | None, ...]:
        """Of every operator but inputs and outputs."""
        return tuple(
            None
            if operator.kind in ("input", "output")
            else Splitting(position, self.graph, self.fabric, self.slots, self.known)
            for position, operator in enumerate(self.graph.operators)
        )

    @cached_property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors, by operator."""
        edges: dict[tuple[int, str], list[DataflowEdge]] = defaultdict(list)
        for edge in self.graph.edges:
            edges[edge.source, edge.tensor].append(edge)
        return tuple(
            Tensor(source, name, flits_of(readers[0].elements, self.fabric), tuple(readers), self._streams(readers))
            for (source, name), readers in sorted(edges.items())
        )

    def _streams(self, readers: Sequence[DataflowEdge]) -> bool:
        reader = self.graph.operators[readers[0].target]
        if len(readers) > 1 or isinstance(reader.work, Gemm):
            return False
        return reader.kind == "output" or len(self.graph.incoming[readers[0].target]) == 1

    @cached_property
    def stage(self) -> tuple[int, ...]:
        """Buffers on the longest path to each operator."""
        streamed = {(tensor.source, tensor.name) for tensor in self.tensors if tensor.is_streamed}
        stage = [0] * len(self.graph.operators)
        for position in self.graph.topological_order:
            for edge in self.graph.incoming[position]:
                behind = (edge.source, edge.tensor) not in streamed
                stage[position] = max(stage[position], stage[edge.source] + behind)
        return tuple(stage)

    @cached_property
    def samples_wanted(self) -> dict[Tensor, int]:
        """Samples between the writer of each tensor and its last reader."""
        behind = {
            tensor: max(self.stage[edge.target] for edge in tensor.edges) - self.stage[tensor.source]
            for tensor in self.tensors
        }
        return {tensor: max(DOUBLE_BUFFER, stages + 1) for tensor, stages in behind.items()}

    @cached_property
    def smallest_target(self) -> int:
        """Slots of the operator that works longest when all are split as far as they can be, or of the off-chip
        channels.
        """
        off_chip = -(-sum(self.io_slots.values()) // self.fabric.channel_count)
        return max([off_chip, 1, *(splitting.options[-1][1] for splitting in self.splittings if splitting)])

    @cached_property
    def largest_target(self) -> int:
        """A target that asks for no more than one part, shard or unit of anything, and that the channels can meet."""
        return max(self.smallest_target, self.largest_part_slots)

    @cached_property
    def largest_part_slots(self) -> int:
        """Slots of what takes longest where nothing has more than one part, shard or unit; the channels aside, which
        all inputs and outputs share.
        """
        work = [splitting.options[0][1] for splitting in self.splittings if splitting]
        ports = [self._read_slots[tensor] + tensor.flits for tensor in self.tensors]
        weights = [splitting.weight_flits for splitting in self.splittings if splitting]
        off_chip = self.io_slots.values()
        return max([1, *work, *ports, *weights, *off_chip])

    @cached_property
    def io(self) -> tuple[int, ...]:
        """Positions of inputs and outputs."""
        return tuple(position for position, splitting in enumerate(self.splittings) if splitting is None)

    @cached_property
    def io_slots(self) -> dict[int, int]:
        """Slots of a channel for what each input or output carries, by position."""
        slots = dict.fromkeys(self.io, 0)
        for tensor in self.tensors:
            for position in (tensor.source, *(edge.target for edge in tensor.edges)):
                if position in slots:
                    slots[position] += tensor.flits * self.fabric.channel_slots
        return slots

    @cached_property
    def _read_slots(self) -> dict[Tensor, int]:
        """Slots of a read port for all readers of each tensor."""
        slow = self.fabric.transposed_read_slots
        return {
            tensor: tensor.flits * sum(slow if self.is_transposed(edge) else 1 for edge in tensor.edges)
            for tensor in self.tensors
        }

    def is_transposed(self, edge: DataflowEdge) -> bool:
        """Whether the operand of a matrix product is stored with its columns as rows, as far as shapes tell."""
        work, splitting = self.graph.operators[edge.target].work, self.splittings[edge.target]
        if not isinstance(work, Gemm) or splitting is None:
            return False
        is_left = self.graph.incoming[edge.target].index(edge) < splitting.left_operands
        rows, columns = (work.m, work.k) if is_left else (work.k, work.n)
        stored = self._rows(edge.source)
        return stored == columns and stored != rows

    def _rows(self, position: int) -> int:
        """Rows in which an operator writes: of the matrix product that it goes back to; 0 where unknown."""
        while True:
            operator, incoming = self.graph.operators[position], self.graph.incoming[position]
            if isinstance(operator.work, Gemm):
                return operator.work.m
            if not incoming or incoming[0].elements != operator.work.elements:
                return 0
            position = incoming[0].source

    @cached_property
    def max_depth(self) -> int:
        """Samples that the deepest buffer is to hold."""
        wanted = [self.samples_wanted[tensor] for tensor in self.tensors if not tensor.is_streamed]
        return max(wanted, default=DOUBLE_BUFFER)

    def shards(self, tensor: Tensor, target: int, depth: int) -> int:
        """Memory units of a tensor: none if it is streamed."""
        if tensor.is_streamed:
            return 0
        samples = max(DOUBLE_BUFFER, -(-self.samples_wanted[tensor] * depth // self.max_depth))
        flits_a_unit = max(1, self.unit_flits // samples)
        by_ports = max(
            -(-self._read_slots[tensor] // (target * self.fabric.read_ports)),
            -(-tensor.flits // (target * self.fabric.write_ports)),
        )
        return min(tensor.flits, max(by_ports, -(-tensor.flits // flits_a_unit)))

    def weight_units(self, splitting: Splitting, target: int) -> int:
        """Memory units of an operator's weights."""
        by_ports = -(-splitting.read_weight_flits // (target * self.fabric.read_ports))
        return max(by_ports, -(-splitting.weight_flits // self.unit_flits))

    def stores(self, target: int, shared_flits: int) -> tuple[Store, ...]:
        """The memory units of all weights, of which those that operators share hold up to ``shared_flits`` each.

        An operator shares the first unit that has room for it, and whose ports do, in the order of the graph.
        """
        ports = min(self.fabric.read_ports, self.fabric.write_ports)
        stores: list[Store] = []
        shared: dict[int, tuple[int, int]] = {}  # flits that some stores hold, and flits that are read of them
        for position, splitting in enumerate(self.splittings):
            units = self.weight_units(splitting, target) if splitting else 0
            if splitting is None or not units:
                continue
            own, is_sum = Store((position,), units, self.adds_to_sum(position)), self.adds_to_sum(position)
            flits, read = splitting.weight_flits, splitting.read_weight_flits
            for index, (held_flits, read_flits) in shared.items() if units == 1 else ():
                fits = held_flits + flits <= shared_flits and read_flits + read <= target * ports
                if fits and stores[index].is_sum == is_sum:
                    stores[index] = replace(own, operators=(*stores[index].operators, position))
                    shared[index] = (held_flits + flits, read_flits + read)
                    break
            else:
                if units == 1:
                    shared[len(stores)] = (flits, read)
                stores.append(own)
        return tuple(stores)

    def adds_to_sum(self, position: int) -> bool:
        """Whether an operator's result stays with it."""
        return self.splittings[position] is not None and not self.graph.outgoing[position]

    def io_units(self, position: int, target: int) -> int:
        """Units of an input or output."""
        flits = min(flits_of(edge.elements, self.fabric) for edge in self._io_edges(position))
        return max(1, min(flits, -(-self.io_slots[position] // target)))

    def _io_edges(self, position: int) -> Sequence[DataflowEdge]:
        return self.graph.incoming[position] or self.graph.outgoing[position]

    def needed(self, target: int, depth: int, shared_flits: int) -> dict[SiteKind, int]:
        """Units by kind of site.

        Args:
            target: slots that nothing is to exceed.
            depth: samples that the deepest buffer holds, of :attr:`max_depth`; others hold the same share of theirs.
            shared_flits: that :meth:`stores` hold which operators share.
        """
        return {
            "compute": self._compute_units(target),
            "memory": self._memory_units(target, depth, shared_flits),
            "io": self._io_units(target),
        }

    def _compute_units(self, target: int) -> int:
        return sum(splitting.parts_for(target) for splitting in self.splittings if splitting)

    def _memory_units(self, target: int, depth: int, shared_flits: int) -> int:
        units = sum(self.shards(tensor, target, depth) for tensor in self.tensors)
        return units + sum(store.units * (2 if store.is_sum else 1) for store in self.stores(target, shared_flits))

    def _io_units(self, target: int) -> int:
        return sum(self.io_units(position, target) for position in self.io)

    def period_slots(self, target: int, depth: int) -> int:
        """Slots of a sample, estimated: nothing takes longer than the target, but too shallow a buffer makes all wait.

        A sample is in the deepest buffer for as many targets as samples are wanted there, and every place of the buffer
        takes one sample in that time.
        """
        return -(-target * self.max_depth // depth)

    def sizing(self, available: Mapping[SiteKind, int]) -> Sizing | None:
        """The target and depth with the shortest estimated period for which the units are enough; None: none are."""
        quickest = self._min_target(DOUBLE_BUFFER, available)
        if quickest is None:
            return None
        best = (self.period_slots(quickest, DOUBLE_BUFFER), quickest, DOUBLE_BUFFER)
        for depth in range(self.max_depth, DOUBLE_BUFFER, -1):
            if self.period_slots(quickest, depth) >= best[0]:
                break
            useful = best[0] * depth // self.max_depth  # the largest target with a period that is not longer
            target = self._min_target(depth, available, useful)
            if target is not None:
                best = min(best, (self.period_slots(target, depth), target, depth))
        period, target, depth = best
        return Sizing(target, period, depth, self._min_sharing(target, depth, available))

    def _fits(self, target: int, depth: int, shared_flits: int, available: Mapping[SiteKind, int]) -> bool:
        """Whether the units are enough; those that are counted soonest come first."""
        return (
            self._compute_units(target) <= available["compute"]
            and self._io_units(target) <= available["io"]
            and self._memory_units(target, depth, shared_flits) <= available["memory"]
        )

    def _min_target(self, depth: int, available: Mapping[SiteKind, int], limit: int | None = None) -> int | None:
        """The least target with which the units are enough when operators share those of weights; None: with none.

        ``limit``: targets above it are of no use.
        """
        low, high = self.smallest_target, self.largest_target
        high = high if limit is None else min(high, limit)
        if high < low or not self._fits(high, depth, self.unit_flits, available):
            return None
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self._fits(middle, depth, self.unit_flits, available) else (middle + 1, high)
        return high

    def _min_sharing(self, target: int, depth: int, available: Mapping[SiteKind, int]) -> int:
        """Flits of the smallest shared units of weights, in powers of 2, with which the units are enough.

        Whoever shares a unit has farther to go for its weights, so units that are left over are not shared.
        """
        powers = [0, *(2**power for power in range(self.unit_flits.bit_length()))]
        return next((flits for flits in powers if self._fits(target, depth, flits, available)), self.unit_flits)

    def samples(self, tensor: Tensor, shards: int) -> int:
        """Samples that a buffer of so many memory units holds: as many as are wanted, and if it can one more.

        That one hides the time that flits and tokens are on their way; it is not worth banks that are shared.
        """
        sample_bytes = -(-tensor.flits // shards) * self.fabric.flit_bytes
        wanted, fit = self.samples_wanted[tensor], self.fabric.samples_that_fit(sample_bytes)
        spare = fit > wanted and not self.fabric.shares_banks(sample_bytes, wanted + 1)
        return min(fit, wanted + spare)

    def deepened(self, target: int, depth: int, spare: int) -> dict[Tensor, int]:
        """Memory units of every buffer, with ``spare`` more of them for the shallowest ones."""
        shards = {tensor: self.shards(tensor, target, depth) for tensor in self.tensors if not tensor.is_streamed}
        waiting = set(shards)
        while spare and waiting:
            tensor = max(waiting, key=lambda each: (self._lack(each, shards[each]), -each.source, each.name))
            more = self._shards_for_another_sample(tensor, shards[tensor])
            if more is None or more - shards[tensor] > spare:
                waiting.remove(tensor)
            else:
                spare -= more - shards[tensor]
                shards[tensor] = more
        return shards

    def _lack(self, tensor: Tensor, shards: int) -> float:
        return self.samples_wanted[tensor] / self.samples(tensor, shards)

    def _shards_for_another_sample(self, tensor: Tensor, shards: int) -> int | None:
        now = self.samples(tensor, shards)
        more = range(shards + 1, tensor.flits + 1)
        return next((number for number in more if self.samples(tensor, number) > now), None)
