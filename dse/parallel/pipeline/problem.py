"""The problem of cutting a training step into a pipeline of stages, and a plan."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from dse.parallel.pipeline.share_times import EqualShares
from hardware.network import Network, Ring

DeviceCutting = Literal["equal", "near", "free"]
"""Devices of the stages: equally many, at most :data:`RADIUS` from that before each cut, or any."""

StateName = Literal["weights", "gradients", "optimizer"]
"""What a device keeps of trained tensors: these, with their gradients, and with the optimizer's state."""

RADIUS = 3
"""Of the paper's search (5.2.3)."""

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SharedWeights:
    """Trained tensors that the same points read (tied weights).

    A stage that reads them holds a copy. They count with the first point that reads them; in a stage that begins behind
    it they count again if it reads them.

    Attributes:
        names: of the tensors.
        weight_bytes: of all of them.
        readers: two points or more, rising.
    """

    names: tuple[str, ...]
    weight_bytes: int
    readers: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Profile:
    """The forward part of a training step, point by point in the order in which it runs (paper, 3.5.2: C, A and W).

    Cut c, from 0 to N, is before point c; behind it is point c - 1. All figures are of a whole batch.

    Attributes:
        forward_s: of every point on one device, [N].
        backward_s: of the part of the backward pass that belongs to the point, on one device, [N].
        cut_bytes: activations that pass each cut, [N + 1]; their gradients, as many bytes, come back. 0 at both ends.
        weight_bytes: of the trained tensors that a point is the first to read, [N].
        variables: number of the trained tensors that a point reads, [N].
        stash_bytes: what a point leaves for its backward pass, [N].
        shared: the trained tensors that several points read.

    Raises:
        ValueError: arrays whose lengths do not fit together, a figure that is negative or not finite, or readers that
            are not points.
    """

    forward_s: Floats
    backward_s: Floats
    cut_bytes: Integers
    weight_bytes: Integers
    variables: Integers
    stash_bytes: Integers
    shared: tuple[SharedWeights, ...] = ()

    def __post_init__(self) -> None:
        points = len(self.forward_s)
        for name in ("forward_s", "backward_s", "cut_bytes", "weight_bytes", "variables", "stash_bytes"):
            values, length = getattr(self, name), points + (name == "cut_bytes")
            if values.shape != (length,):
                raise ValueError(f"`{name}` must have {length} entries, but its shape is {values.shape}")
            if not (np.isfinite(values).all() and (values >= 0).all()):
                raise ValueError(f"`{name}` must be finite and not negative")
        for each in self.shared:
            rising = len(each.readers) > 1 and all(one < other for one, other in itertools.pairwise(each.readers))
            if not rising or each.readers[0] < 0 or each.readers[-1] >= points or each.weight_bytes < 0:
                raise ValueError(f"`shared` must list readers in increasing order, below {points}, but got {each}")

    @property
    def points(self) -> int:
        """N."""
        return len(self.forward_s)

    def of_batch(self, times: float) -> "Profile":
        """The profile of a batch ``times`` as large: everything but the weights grows with it."""
        return replace(
            self,
            forward_s=self.forward_s * times,
            backward_s=self.backward_s * times,
            cut_bytes=np.rint(self.cut_bytes * times).astype(np.int64),
            stash_bytes=np.rint(self.stash_bytes * times).astype(np.int64),
        )

    def stage_variables(self, points: range) -> int:
        """Number of the trained tensors that neighbouring points read, each once."""
        read = int(self.variables[points.start : points.stop].sum())
        for each in self.shared:
            times = sum(reader in points for reader in each.readers)
            read -= len(each.names) * max(0, times - 1)
        return read

    def stage_weight_bytes(self, points: range) -> int:
        """Bytes of the trained tensors that neighbouring points read."""
        own = int(self.weight_bytes[points.start : points.stop].sum())
        for each in self.shared:
            if each.readers[0] < points.start and any(reader in points for reader in each.readers):
                own += each.weight_bytes
        return own


@dataclass(frozen=True, eq=False)
class PipelineProblem:
    """A profile to be cut into stages.

    Attributes:
        profile: what is cut.
        network: of the devices, whose ranks are their places in the line.
        devices: how many there are; all are used.
        stages: K; each has a device and a variable at least (paper, 4.4).
        microbatches: M, in which a batch is sent through the pipeline.
        memory_bytes: of a device; None for no limit.
        state_factor: bytes on a device for each byte of weights: 1 for weights, 2 with gradients, 4 with Adam's
            moments.
        recompute: whether a stage keeps only its input of a microbatch and computes the rest again.
        update_s_per_byte: of the optimizer's update on one device, for each byte of a stage's trained tensors, where
            the length counts it (:mod:`dse.parallel.step_time`); 0 where it does not.
        shares: where the length is that of a whole step, what equal shares take; otherwise a stage of D devices takes
            the time of one device divided by D, and all-reduces its gradients as one array.

    Raises:
        ValueError: fewer than one stage, microbatch or device for each stage, or a factor below 1.
    """

    profile: Profile
    network: Network
    devices: int
    stages: int
    microbatches: int
    memory_bytes: int | None = None
    state_factor: float = 1.0
    recompute: bool = False
    update_s_per_byte: float = 0.0
    shares: EqualShares | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.stages <= self.devices:
            raise ValueError(f"`1 <= stages <= devices` must hold, but got {self.stages} and {self.devices}")
        if self.microbatches < 1:
            raise ValueError(f"`microbatches >= 1` must hold, but got {self.microbatches}")
        if not self.state_factor >= 1:
            raise ValueError(f"`state_factor >= 1` must hold, but got {self.state_factor}")

    @cached_property
    def backward_s(self) -> Floats:
        """Of every point with what it computes again, [N]."""
        profile = self.profile
        return profile.backward_s + profile.forward_s if self.recompute else profile.backward_s

    def passes_s(self, devices: int) -> tuple[Floats, Floats]:
        """Forward and backward seconds of a microbatch at every point, on each of so many devices, [N] each.

        More devices never take longer, and D of them no less than a D-th of what one takes.
        """
        if self.shares is None:
            share = 1 / (self.microbatches * devices)
            return self.profile.forward_s * share, self.backward_s * share
        forward_s, backward_s = self.shares.passes_s(self.microbatches, devices)
        return forward_s, backward_s + forward_s if self.recompute else backward_s

    def closing_rings(self, ranks: range) -> tuple[Ring, ...]:
        """What follows the last microbatch of a stage, in sequence, as rings of all its trained tensors."""
        rings = self.network.all_reduce_rings(ranks) if self.shares is None else ()
        if self.update_s_per_byte == 0:
            return rings
        return (*rings, Ring(0.0, 0.0, 1 / self.update_s_per_byte, 1, 1, 1.0))

    def closing_s(self, ranks: range) -> tuple[Floats, Floats]:
        """What else follows: of every point, [N], and of each group of copies of shared trained tensors, [groups]."""
        if self.shares is None:
            return np.zeros(self.profile.points), np.zeros(len(self.profile.shared))
        rings = self.network.all_reduce_rings(ranks)
        return self.shares.closing_s(rings), self.shares.copied_s(rings)

    def stage_closing_s(self, points: range, ranks: range) -> float:
        """The closing of a stage: all-reduces of its gradients, and, where it counts, the update."""
        weight_bytes = self.profile.stage_weight_bytes(points)
        of_points, of_copies = self.closing_s(ranks)
        seconds = sum(ring.seconds(weight_bytes) for ring in self.closing_rings(ranks))
        copies = (
            copy_s
            for copy_s, each in zip(of_copies, self.profile.shared, strict=True)
            if each.readers[0] < points.start and any(reader in points for reader in each.readers)
        )
        return float(seconds + of_points[points.start : points.stop].sum() + sum(copies))

    def in_flight(self, stage: int) -> int:
        """Microbatches whose activations a stage holds at once: one forward, one backward (Narayanan et al., 2019)."""
        return min(self.microbatches, self.stages - stage)


@dataclass(frozen=True)
class PipelinePlan:
    """Where a pipeline is cut.

    Attributes:
        cuts: of the points, [K - 1], rising; stage s has the points from cut s - 1 up to cut s.
        device_cuts: of the devices, [K - 1], rising, in the same way.
    """

    cuts: tuple[int, ...]
    device_cuts: tuple[int, ...]

    def ranges(self, problem: PipelineProblem) -> Iterator[tuple[range, range]]:
        """The points and the devices of every stage."""
        points = (0, *self.cuts, problem.profile.points)
        devices = (0, *self.device_cuts, problem.devices)
        for stage in range(len(points) - 1):
            yield range(*points[stage : stage + 2]), range(*devices[stage : stage + 2])
