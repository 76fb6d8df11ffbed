"""Hybrid plans with a bound: chains of stages of which at first only a bound is known, solved where they matter.

Every stage can take what its pieces take at least (:mod:`dse.parallel.hybrid.pieces`). The shortest chain of such
stages is a bound on all plans. The stages of this chain are solved as sharding problems of their own, with their
memory, which lifts their bounds and gives plans of them; and so on, until the shortest chain of plans is proven, no
stage of the bound's chain is left to be solved, or :data:`ROUNDS` have passed. Stages of equal shares are known exactly
from the start.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dse.parallel.hybrid.chain import Chain, ChainSearch, Link, Point, PointsOf
from dse.parallel.hybrid.frontier import SOLVED, corners
from dse.parallel.hybrid.pieces import Pieces, signature
from dse.parallel.hybrid.problem import HybridPlan, HybridProblem, Sharding
from dse.parallel.hybrid.stage_problem import Direction, StageFigures, figures, solve_stage
from dse.parallel.hybrid.stage_step import StageStep
from dse.parallel.hybrid.step_times import step_time
from dse.parallel.pipeline.problem import Floats, Integers
from dse.parallel.prices import Prices
from dse.parallel.resharding import PICO
from dse.run.progress import StoppedError, StopSignal, never_stop

ROUNDS = 12
"""At most: a search ends in the same state on every machine."""

GAP = 5e-3
"""Share of the shortest chain below which its bound need not be lifted."""


@dataclass(frozen=True)
class HybridAnswer:
    """What the search knows when it ends.

    Attributes:
        plan: the best one; None without one.
        step_s: its time, infinite without one.
        bound_s: no plan takes less; infinite where it is proven that none fits.
        solved: sharding problems that were solved.
    """

    plan: HybridPlan | None
    step_s: float
    bound_s: float
    solved: int


class _Solved(NamedTuple):
    """A stage that was solved: plans with what they take, and the bounds; both empty where none fits."""

    plans: tuple[tuple[Sharding, StageFigures], ...]
    bounds: dict[Direction, float]


class _Key(NamedTuple):
    """A sharded stage: its pieces, devices, those of a replica, and stages behind it."""

    begin: int
    end: int
    width: int
    mesh: int
    behind: int


def solve(problem: HybridProblem, seed: int = 0, stop: StopSignal = never_stop) -> HybridAnswer:
    """The best hybrid plan with its bound.

    Args:
        problem: of the plan.
        seed: of the solver of stages.
        stop: asked between pieces of work; where it gives a reason, the best so far is the answer.
    """
    search = _Search(problem, seed, stop)
    with suppress(StoppedError):
        search.run()
    return search.answer()


class _Search:
    def __init__(self, problem: HybridProblem, seed: int, stop: StopSignal) -> None:
        self.problem, self.seed, self.stop = problem, seed, stop
        self.pieces = Pieces(problem, seed, stop)
        self.chains = ChainSearch(problem, stop)
        self.equal = _EqualShares(problem)
        self.solved: dict[_Key, _Solved] = {}
        self._by_signature: dict[tuple[object, ...], _Solved] = {}
        self._points: dict[_Key, tuple[Point, ...]] = {}
        self.best = Chain(np.inf, ())
        self.bound_s = self.chains.least_s

    def run(self) -> None:
        """Rounds of a bound, the stages of its chain, and the shortest chain of plans."""
        self.best = self._within(self._plans, self.chains.least_s, np.inf)
        for _ in range(ROUNDS):
            lowest = self._within(self._optimistic, self.bound_s, self.best.step_s * (1 + 1e-12))
            self.bound_s = max(self.bound_s, min(lowest.step_s, self.best.step_s))
            open_ = [key for key in map(_key_of, lowest.links) if key is not None and key not in self.solved]
            if not open_ or self.bound_s >= self.best.step_s * (1 - GAP):
                break
            for key in open_:
                self._solve(key)
            better = self._within(self._plans, self.bound_s, self.best.step_s)
            self.best = better if better.links else self.best

    def answer(self) -> HybridAnswer:
        """The best plan, by the definition of a step's time, and the bound."""
        solved = self.pieces.solved + len(SOLVED) * len(self._by_signature)
        if not self.best.links:
            return HybridAnswer(None, np.inf, np.inf if np.isinf(self.bound_s) else self.bound_s, solved)
        ends = (0, *self.problem.cuts, self.problem.steps.points)
        links = self.best.links
        plan = HybridPlan(
            tuple(ends[each.begin] for each in links[1:]),
            tuple(each.first for each in links[1:]),
            tuple(each.point.choice for each in links),
        )
        step_s = step_time(self.problem, plan).length_s
        return HybridAnswer(plan, step_s, min(self.bound_s, step_s), solved)

    def _within(self, points_of: PointsOf, least_s: float, most_s: float) -> Chain:
        """The shortest chain, looked for under limits that rise until there is one below them."""
        factor = 1.02
        while True:
            limit_s = min(least_s * factor, most_s)
            found = self.chains.shortest(points_of, limit_s)
            if found.links or limit_s >= most_s or factor > _MAX_FACTOR:
                return found
            factor *= 1.2

    def _plans(self, begin: int, end: int, width: int, behind: int, limit_s: float) -> list[Point]:
        """What plans of a stage take."""
        del limit_s
        points = self.equal.points(begin, end, width, behind)
        count = self.problem.base.microbatches
        for mesh in self.problem.meshes(width)[1:]:
            solved = self.solved.get(_Key(begin, end, width, mesh, behind))
            for sharding, of in () if solved is None else solved.plans:
                passes_s, backward_s = (each * PICO / count for each in (of.passes_ps, of.backward_ps))
                points.append(Point(passes_s, backward_s, of.closing_ps * PICO, sharding))
        return points

    def _optimistic(self, begin: int, end: int, width: int, behind: int, limit_s: float) -> list[Point]:
        """What a stage takes at least."""
        count = self.problem.base.microbatches
        points = self.equal.points(begin, end, width, behind)
        for mesh in self.problem.meshes(width)[1:]:
            key = _Key(begin, end, width, mesh, behind)
            if key not in self._points:
                if self.equal.least_s(begin, end, width, mesh) > limit_s:
                    continue
                self._points[key] = tuple(self._corners(key))
            points += self._points[key]
        return _lowest([each for each in points if count * each.passes_s + each.closing_s < limit_s])

    def _corners(self, key: _Key) -> Iterator[Point]:
        begin, end, width, mesh, behind = key
        solved = self.solved.get(key)
        if solved is not None and not solved.plans:
            return
        limit = self.problem.base.memory_bytes
        in_flight = min(self.problem.base.microbatches, behind + 1)
        if limit is not None and self.pieces.least_bytes(width, mesh, begin, end, in_flight) > limit:
            return
        bounds = solved.bounds if solved is not None else self.pieces.bounds(width, mesh, begin, end)
        slack_s = self.problem.rounding_s / self.problem.base.microbatches
        forward_s = max(0.0, self.equal.forward_s(begin, end, width) - slack_s)
        for corner in corners(bounds):
            passes_s = corner.passes_ps * PICO / self.problem.base.microbatches
            yield Point(passes_s, max(0.0, passes_s - forward_s), corner.closing_ps * PICO, key)

    def _solve(self, key: _Key) -> None:
        """Solve a stage in all directions."""
        ends = (0, *self.problem.cuts, self.problem.steps.points)
        step = self.problem.steps.stage(range(ends[key.begin], ends[key.end]))
        in_flight = min(self.problem.base.microbatches, key.behind + 1)
        alike = (signature(step), key.width, key.mesh, in_flight)
        if alike not in self._by_signature:
            self._by_signature[alike] = self._solved(key, step, in_flight)
        self.solved[key] = self._by_signature[alike]
        self._points.pop(key, None)

    def _solved(self, key: _Key, step: StageStep, in_flight: int) -> _Solved:
        problem = self.problem.stage_problem(step, key.width, key.mesh, in_flight)
        prices = Prices(problem)
        pieces = self.pieces.bounds(key.width, key.mesh, key.begin, key.end)
        plans: dict[Sharding, StageFigures] = {}
        bounds: dict[Direction, float] = dict(pieces)
        for direction in SOLVED:
            found = solve_stage(problem, prices, direction, self.seed, self.stop)
            if found.bound_ps is None:
                return _Solved((), {})
            bounds[direction] = max(float(found.bound_ps), pieces[direction])
            if found.plan is not None:
                plans[Sharding(key.mesh, found.plan)] = figures(problem, prices, found.plan)
        return _Solved(tuple(plans.items()), bounds)


_MAX_FACTOR = 1e6


def _lowest(points: list[Point]) -> list[Point]:
    """Those points that no other is below in passes and closing.

    Fewer passes hide less of what other stages close, but by no more than they are shorter.
    """
    found: list[Point] = []
    for point in sorted(points, key=lambda each: (each.passes_s, each.closing_s)):
        if not found or point.closing_s < found[-1].closing_s:
            found.append(point)
    return found


def _key_of(link: Link) -> _Key | None:
    return link.point.choice if isinstance(link.point.choice, _Key) else None


class _EqualShares:
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

    def least_s(self, begin: int, end: int, width: int, mesh: int) -> float:
        """What a sharded stage takes at least: its work, and its trained tensors split over a replica, all-reduced."""
        base, ends = self._problem.base, self._ends
        work_s = base.microbatches * float(self._work_s[end] - self._work_s[begin])
        weights = base.profile.stage_weight_bytes(range(ends[begin], ends[end])) // mesh
        joined_s = base.network.collective_s("all_reduce", weights * (1 - 1e-3), width // mesh, mesh, groups=mesh)
        return max(0.0, work_s - self._problem.rounding_s) / width + joined_s

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
