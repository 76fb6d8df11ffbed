"""How long samples stay in buffers, and operators that are split further so that they stay for less time.

A place of a buffer is taken from when a sample begins to be written until its last reader has ended it, and no sooner
can it take another one. What an activation that is kept for the backward pass waits for is all the operators in
between, in sequence. Where memory units are too few for buffers as deep as that, the time between two samples
is this time over the places, however fast the slowest operator is; then compute units that are left over are worth
more where they shorten it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from dse.fabric.search.demand import Demand, Tensor


class _Stay(NamedTuple):
    """Slots between two samples that a buffer allows, and the operators that its samples wait for, by position."""

    slots: float
    operators: tuple[int, ...]


@dataclass(frozen=True)
class Residence:
    """How long samples stay in the buffers of a graph.

    Attributes:
        demand: of the graph.
        places: samples that each buffer holds.
    """

    demand: Demand
    places: Mapping[Tensor, int]

    def hastened(self, parts: Mapping[int, int], target_slots: int, available: int) -> dict[int, int]:
        """Parts of every operator, by position, with which samples leave the buffers in time, as far as they can.

        As long as a buffer has longer between two samples than the target, that operator is split further, among those
        that its samples wait for, whose next split saves most slots for each unit; until no unit is left, or no such
        operator can be split.

        Args:
            parts: of every operator, by position, at least.
            target_slots: between two samples.
            available: compute units.
        """
        parts, left = dict(parts), available - sum(parts.values())
        while True:
            longest = self._longest(parts)
            step = self._best_step(longest, parts, left) if longest.slots > target_slots else None
            if step is None:
                return parts
            position, many = step
            left -= many - parts[position]
            parts[position] = many

    def _best_step(self, longest: _Stay, parts: Mapping[int, int], left: int) -> tuple[int, int] | None:
        """The operator to be split further, and its parts."""
        best, step = 0.0, None
        for position in longest.operators:
            splitting = self.demand.splittings[position]
            assert splitting is not None
            now = splitting.work_slots(parts[position])
            for many, slots in splitting.options:
                if parts[position] < many <= parts[position] + left:
                    saved = (now - slots) / (many - parts[position])
                    if saved > best:
                        best, step = saved, (position, many)
                    break
        return step

    def _longest(self, parts: Mapping[int, int]) -> _Stay:
        """The buffer that allows the fewest samples."""
        work = {
            position: splitting.work_slots(parts[position]) if splitting else 0
            for position, splitting in enumerate(self.demand.splittings)
        }
        return max((self._stay(tensor, places, work) for tensor, places in self.places.items()), default=_Stay(0.0, ()))

    def _stay(self, tensor: Tensor, places: int, work: Mapping[int, int]) -> _Stay:
        """Of one buffer: operators work in sequence, but together with one that streams to them."""
        ends = {tensor.source: 0}
        before: dict[int, int] = {}
        for position in self._behind[tensor.source]:
            for edge in self.demand.graph.incoming[position]:
                if edge.source not in ends or (edge.source == tensor.source and edge not in tensor.edges):
                    continue
                end = ends[edge.source] + self._way_slots + work[position]
                if (edge.source, edge.tensor) in self._streamed:
                    end = max(ends[edge.source], end - work[edge.source])
                if end > ends.get(position, -1):
                    ends[position], before[position] = end, edge.source
        last = max((edge.target for edge in tensor.edges), key=lambda each: ends[each])
        slots = (work[tensor.source] + ends[last] + self._way_slots) / places
        return _Stay(slots, tuple(self._path(before, last, tensor.source)))

    def _path(self, before: Mapping[int, int], last: int, first: int) -> list[int]:
        path = [last]
        while path[-1] != first:
            path.append(before[path[-1]])
        return [position for position in path if self.demand.splittings[position]]

    @property
    def _way_slots(self) -> int:
        """From a unit to its neighbour, at least."""
        return self.demand.fabric.port_slots + self.demand.fabric.hop_slots

    @cached_property
    def _streamed(self) -> set[tuple[int, str]]:
        return {(tensor.source, tensor.name) for tensor in self.demand.tensors if tensor.is_streamed}

    @cached_property
    def _behind(self) -> dict[int, tuple[int, ...]]:
        """Operators that each buffer's source reaches, in topological order."""
        graph = self.demand.graph
        behind = {}
        for source in {tensor.source for tensor in self.places}:
            reachable = {source}
            for position in graph.topological_order:
                if any(edge.source in reachable for edge in graph.incoming[position]):
                    reachable.add(position)
            behind[source] = tuple(each for each in graph.topological_order if each in reachable and each != source)
        return behind
