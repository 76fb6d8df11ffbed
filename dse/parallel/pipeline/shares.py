"""What stages take whose devices do equal shares of each microbatch, by the prices of a whole step.

Every device runs all operations of its stage on its share of the arrays of the batch, and reads and writes all other
arrays whole, weights above all (:mod:`dse.parallel.pipeline.microbatching`). The gradient of each trained tensor is
all-reduced by itself. So a stage of one microbatch takes what a sharded step takes whose batch is split over its
devices (:mod:`dse.parallel.prices`), where these divide it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dse.parallel.pipeline.microbatching import Microbatching, microbatching_of
from dse.parallel.pipeline.problem import Floats, Integers
from dse.parallel.pipeline.profiling import StepProfile
from dse.parallel.prices import work_of
from dse.parallel.problem import Device
from dse.parallel.resharding import PICO
from dse.parallel.storage import Storage
from hardware.network import Ring


@dataclass(frozen=True, eq=False)
class EqualShares:
    """The operations of a step and what is joined, by the points of its forward part; N points, F operations.

    Attributes:
        points: N.
        device: that runs the operations.
        place: the point of each operation that every microbatch runs, [F].
        is_forward: whether it is part of the forward pass, [F].
        repeats: how often it runs, [F].
        computing_s: of a batch, [F].
        divided: whether a share of that is computed at a time, [F].
        batch_bytes, whole_bytes: to and from memory, of arrays of the batch and of others, [F].
        once_s: of each point, of the operations that run once a batch, without the update, [N].
        joined: (point, bytes) of each array that is all-reduced once a batch.
        copied: of each group of trained tensors with several readers, the bytes of each.
    """

    points: int
    device: Device
    place: Integers
    is_forward: np.typing.NDArray[np.bool_]
    repeats: Integers
    computing_s: Floats
    divided: np.typing.NDArray[np.bool_]
    batch_bytes: Floats
    whole_bytes: Floats
    once_s: Floats
    joined: tuple[tuple[int, int], ...]
    copied: tuple[tuple[int, ...], ...]

    def passes_s(self, microbatches: int, devices: int) -> tuple[Floats, Floats]:
        """Forward and backward seconds of a microbatch at every point, on each of so many devices, [N] each."""
        if (microbatches, devices) not in self._passes:
            parts = microbatches * devices
            computing_s = np.where(self.divided, self.computing_s / parts, self.computing_s)
            moved = self.batch_bytes / parts + self.whole_bytes
            seconds = np.maximum(computing_s, moved / self.device.bytes_per_s)
            spent_s = self.repeats * np.rint(seconds / PICO) * PICO
            self._passes[microbatches, devices] = (
                np.bincount(self.place, np.where(self.is_forward, spent_s, 0.0), self.points).astype(np.float64),
                np.bincount(self.place, np.where(self.is_forward, 0.0, spent_s), self.points).astype(np.float64),
            )
        return self._passes[microbatches, devices]

    def closing_s(self, rings: tuple[Ring, ...]) -> Floats:
        """What every point adds to the closing of its stage, whose all-reduce is these rings, but the update, [N]."""
        if rings not in self._closing:
            added_s = self.once_s.copy()
            for point, size in self.joined:
                added_s[point] += _rings_s(rings, size)
            self._closing[rings] = added_s
        return self._closing[rings]

    def copied_s(self, rings: tuple[Ring, ...]) -> Floats:
        """What each group of trained tensors with several readers adds to that of a stage that has copies of them."""
        return np.array([sum(_rings_s(rings, size) for size in sizes) for sizes in self.copied], dtype=np.float64)

    @cached_property
    def _passes(self) -> dict[tuple[int, int], tuple[Floats, Floats]]:
        return {}

    @cached_property
    def _closing(self) -> dict[tuple[Ring, ...], Floats]:
        return {}


def _rings_s(rings: Sequence[Ring], size_bytes: float) -> float:
    return sum(ring.seconds(size_bytes) for ring in rings)


def equal_shares(step: StepProfile) -> EqualShares:
    """Of a step with its profile; O(operations)."""
    graph = step.forward.units.graph
    times = microbatching_of(graph, step.forward)
    storage = Storage(graph)
    sizes = np.array([each.size_bytes for each in graph.values], dtype=np.float64)
    of_batch = np.array(times.of_batch)
    split = (np.where(of_batch, sizes, 0.0).tolist(), np.where(of_batch, 0.0, sizes).tolist())
    once_s, rows = np.zeros(step.profile.points), list[tuple[float, ...]]()
    for number, place, is_forward in _placed(step):
        operation = graph.operations[number]
        of = [
            work_of(operation, graph.values, step.device, part, storage.read[number], storage.stored) for part in split
        ]
        batch_bytes, whole_bytes = (sum(each.operands) + sum(each.results) for each in of)
        if times.runs_once[number]:
            seconds = max(of[0].computing_s, whole_bytes / step.device.bytes_per_s)
            once_s[place] += operation.repeats * round(seconds / PICO) * PICO
        else:
            divided = times.divided[number]
            rows.append((place, is_forward, operation.repeats, of[0].computing_s, divided, batch_bytes, whole_bytes))
    columns = np.array(rows, dtype=np.float64).T
    return EqualShares(
        points=step.profile.points,
        device=step.device,
        place=columns[0].astype(np.int64),
        is_forward=columns[1] > 0,
        repeats=columns[2].astype(np.int64),
        computing_s=columns[3],
        divided=columns[4] > 0,
        batch_bytes=columns[5],
        whole_bytes=columns[6],
        once_s=once_s,
        joined=tuple(_joined(step, times)),
        copied=_copied(step),
    )


def _placed(step: StepProfile) -> Iterator[tuple[int, int, bool]]:
    """Each operation of forward part and backward pass with its point, and whether it is part of the former."""
    forward = step.forward
    places = [(unit, place, True) for unit, place in forward.place.items()]
    places += [(unit, points[0] if points else -1, True) for unit, points in forward.prepared.items()]
    places += [(unit, place, False) for unit, place in step.backward.place.items()]
    for unit, place, is_forward in places:
        for number in forward.units.members[unit]:
            yield number, place % step.profile.points, is_forward


def _joined(step: StepProfile, times: Microbatching) -> Iterator[tuple[int, int]]:
    """Gradients, where their trained tensors are first read, and what is summed up to one number."""
    graph = step.forward.units.graph
    for argument in graph.trainable:
        if readers := step.forward.readers.get(argument.value, ()):
            yield readers[0], graph.values[argument.value].size_bytes
    for number, place, _ in _placed(step):
        if times.summed[number]:
            yield place, sum(graph.values[value].size_bytes for value in graph.operations[number].results)


def _copied(step: StepProfile) -> tuple[tuple[int, ...], ...]:
    graph = step.forward.units.graph
    sizes = {each.name: graph.values[each.value].size_bytes for each in graph.trainable}
    return tuple(tuple(sizes[name] for name in each.names) for each in step.profile.shared)
