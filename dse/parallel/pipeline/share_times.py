"""How long points take where the devices of a stage do equal shares (:mod:`dse.parallel.pipeline.shares`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dse.parallel.problem import Device
from dse.parallel.resharding import PICO
from hardware.network import Ring

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


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
        once_s: of each point, of the operations that run once per batch, without the update, [N].
        joined: (point, bytes) of each array that is all-reduced once per batch.
        copied: of each group of trained tensors with several readers, the bytes of each.
    """

    points: int
    device: Device
    place: Integers
    is_forward: npt.NDArray[np.bool_]
    repeats: Integers
    computing_s: Floats
    divided: npt.NDArray[np.bool_]
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
