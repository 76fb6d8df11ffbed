"""Stages whose devices do equal shares of each microbatch: what they take, and what sharded ones take at least."""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from dse.parallel.hybrid.chain import Point
from dse.parallel.hybrid.problem import HybridProblem
from dse.parallel.pipeline.problem import Floats, Integers


class EqualShares:
    """Stages whose devices do equal shares, by prefix sums over the points."""

    def __init__(self, problem: HybridProblem) -> None:
        self._problem = problem
        base = problem.base
        self._ends = [0, *problem.cuts, problem.steps.points]
        forward_s, backward_s = base.passes_s(1)
        self._forward_s, self._work_s = (_prefix(each)[self._ends] for each in (forward_s, forward_s + backward_s))
        self._stash = _prefix(base.profile.stash_bytes)[self._ends]
        self._sums = lru_cache(maxsize=None)(self._summed)
        self._cache: dict[tuple[int, int, int, int], list[Point]] = {}

    def forward_s(self, begin: int, end: int, width: int) -> float:
        """The forward pass of a microbatch at least."""
        return float(self._forward_s[end] - self._forward_s[begin]) / width

    def pieces_s(self, width: int) -> Floats:
        """The passes of a microbatch in each piece between neighbouring cuts, on so many devices."""
        forward_s, backward_s = self._sums(width)
        pieces_s: Floats = np.diff(forward_s + backward_s)
        return pieces_s

    def min_s(self, begin: int, end: int, width: int, mesh: int) -> tuple[float, float]:
        """Passes of a batch and closing of a sharded stage at least: its work, and its trained tensors all-reduced.

        These are split over a replica; fewer bytes at once never take longer than the same in several arrays.
        """
        base, ends = self._problem.base, self._ends
        work_s = base.microbatches * float(self._work_s[end] - self._work_s[begin])
        weights = base.profile.stage_weight_bytes(range(ends[begin], ends[end])) // mesh
        joined_s = base.network.collective_s("all_reduce", weights * (1 - 1e-3), width // mesh, mesh, groups=mesh)
        return max(0.0, work_s - self._problem.rounding_s) / width, joined_s

    def points(self, begin: int, end: int, width: int, behind: int) -> list[Point]:
        """The stage, if it fits into memory."""
        key = (begin, end, width, behind)
        if key not in self._cache:
            self._cache[key] = list(self._made(*key))
        return list(self._cache[key])

    def _made(self, begin: int, end: int, width: int, behind: int) -> Iterator[Point]:
        base = self._problem.base
        points = range(self._ends[begin], self._ends[end])
        flying = min(base.microbatches, behind + 1)
        stash = float(self._stash[end] - self._stash[begin])
        stash = stash + flying * int(base.profile.cut_bytes[points.start]) if base.recompute else stash * flying
        weights = base.profile.stage_weight_bytes(points)
        held = weights * base.state_factor + stash / (base.microbatches * width)
        if base.memory_bytes is not None and held > base.memory_bytes:
            return
        forward_s, backward_s = (float(sums[end] - sums[begin]) for sums in self._sums(width))
        # Stages of equal width begin at like places of servers.
        yield Point(forward_s + backward_s, backward_s, base.stage_closing_s(points, range(width)), None)

    def _summed(self, width: int) -> tuple[Floats, Floats]:
        forward_s, backward_s = (_prefix(each)[self._ends] for each in self._problem.base.passes_s(width))
        return forward_s, backward_s


def _prefix(values: Floats | Integers) -> Floats:
    return np.concatenate(([0.0], np.cumsum(values)))
