"""Hybrid plans with a bound: chains of stages of which at first only a bound is known, solved where they matter.

A stage takes at least its work and the all-reduce of its trained tensors, split over a replica. The shortest chain of
such stages is a bound on all plans. For the numbers of devices of its stages, what pieces take at least on replicas of
any size (:mod:`dse.parallel.hybrid.pieces`) is worked out next, and so on, until the shortest chain has no others. Then
its stages are solved as sharding problems of their own, which lifts their bounds and gives plans of them, until the
shortest chain of plans is proven, no stage of the bound's chain is left to be solved, or :data:`ROUNDS` have passed.
Stages of equal shares are known exactly from the start.

Pipelines of equal shares that may be cut anywhere are solved first, by their own search: only chains below the shortest
of them count.

A plan of one stage takes the sum of its passes and its closing. Where the shortest chain is such a plan, each mesh of
it is solved exactly for that sum, below the best plan so far, as a sharded step is, and chains have two stages at least
from then on.

For which sums of its passes and its closing a stage is solved, :mod:`dse.parallel.hybrid.solved_stage` says.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dse.algorithms.pairwise.problem import FORBIDDEN
from dse.parallel.hybrid.chain import Chain, ChainSearch, Link, Point, PointsOf
from dse.parallel.hybrid.equal_shares import EqualShares
from dse.parallel.hybrid.frontier import corners, tightest
from dse.parallel.hybrid.pieces import Pieces, signature
from dse.parallel.hybrid.problem import HybridPlan, HybridProblem, Sharding
from dse.parallel.hybrid.solved_stage import SolvedStage, next_directions
from dse.parallel.hybrid.stage_problem import Direction, StageFigures
from dse.parallel.hybrid.step_times import step_time
from dse.parallel.pipeline.exact import Answer as Pipelined
from dse.parallel.pipeline.methods import exact
from dse.parallel.pipeline.problem import Floats
from dse.parallel.prices import Prices
from dse.parallel.resharding import PICO
from dse.results.result import PROOF_TOLERANCE
from dse.run.progress import StoppedError, StopSignal, never_stop

ROUNDS = 24
"""In which stages are solved, at most, unless fewer are requested: a search ends in the same state on every machine."""

GAP = 5e-3
"""Share of the shortest chain below which its bound need not be lifted."""


TOLERANCE = 1e-4
"""Share of a program's limit by which labels of bounds may differ for each stage, so that there are not too many."""

COARSE = 1e-2
"""The same where the shortest chain of bounds is looked for at first, to know below which limit it is."""


@dataclass(frozen=True)
class HybridAnswer:
    """What the search knows when it ends.

    Attributes:
        problem: of which the plan is.
        plan: the best one; None without one.
        step_s: its time, infinite without one.
        bound_s: no plan takes less; infinite where it is proven that none fits.
        solved: sharding problems that were solved.
    """

    problem: HybridProblem
    plan: HybridPlan | None
    step_s: float
    bound_s: float
    solved: int


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
        stop: checked between pieces of work; where it gives a reason, the best so far is the answer.
    """
    return solve_several((problem,), seed, stop)


def solve_several(
    problems: Sequence[HybridProblem], seed: int = 0, stop: StopSignal = never_stop, rounds: int = ROUNDS,
    enough_s: float = np.inf,
) -> HybridAnswer:  # fmt: skip
    """The best of the plans of several problems, with a bound on all of them; otherwise as :func:`solve`.

    The problem whose plans without any sharding are the shortest comes first. Of the others only shorter plans count.

    Args:
        problems: of the plans.
        seed: of the solver of stages.
        stop: as of :func:`solve`.
        rounds: of each problem, at most.
        enough_s: the search ends where its bound reaches this.
    """
    searches: list[_Search] = []

    def stop_or_enough() -> str | None:
        is_enough = all(min(each.bound_s, each.pipelined.bound_s) >= enough_s for each in searches)
        return stop() or ("the bound is proven" if is_enough and len(searches) == len(problems) else None)

    searches += [_Search(each, seed, stop_or_enough, enough_s) for each in problems]
    with suppress(StoppedError):
        for search in searches:
            search.start()
        for search in sorted(searches, key=lambda each: each.step_s):
            search.run(min(each.step_s for each in searches), rounds)
    answers = [search.answer() for search in searches]
    best = min(answers, key=lambda each: each.step_s)
    return replace(best, bound_s=min(each.bound_s for each in answers), solved=sum(each.solved for each in answers))


class _Search:
    def __init__(self, problem: HybridProblem, seed: int, stop: StopSignal, enough_s: float = np.inf) -> None:
        self.problem, self.seed, self.stop, self._enough_s = problem, seed, stop, enough_s
        self.pieces = Pieces(problem, seed, stop)
        self.chains = ChainSearch(problem, stop)
        self.equal = EqualShares(problem)
        self.solved: dict[_Key, list[SolvedStage]] = {}
        self._by_signature: dict[tuple[object, ...], SolvedStage] = {}
        self._with_pieces: set[tuple[int, int]] = set()
        self._points: dict[tuple[int, int], dict[_Key, tuple[Point, ...]]] = defaultdict(dict)
        self._one_stage_s: float | None = None
        self.best = Chain(np.inf, np.inf, ())
        self.bound_s = self.chains.min_s
        self.pipelined = Pipelined(None, np.inf, np.inf if problem.device_cutting is None else 0.0, 0)

    @property
    def step_s(self) -> float:
        """Of the best plan so far."""
        return min(self.best.step_s, self.pipelined.length_s)

    def start(self) -> None:
        """The shortest chain of stages of equal shares, and the shortest pipeline."""
        self.best = self._within(self._plans, self.chains.min_s, np.inf, 0.0)
        pipelines = self.problem.pipelines(self.seed, self.stop)
        if pipelines is not None:
            self.pipelined = exact(pipelines, self._enough_s)

    def run(self, below_s: float, max_rounds: int) -> None:
        """Rounds of a bound, the stages of its chain, and the shortest chain of plans, if it is below a limit."""
        if below_s < self.best.step_s:
            self.best = Chain(below_s, below_s, ())
        rounds = 0
        while rounds < max_rounds:
            lowest = self._lowest()
            is_one_stage = len(lowest.links) == 1 and self._one_stage_s is None
            if not is_one_stage and self.bound_s >= self.best.step_s * (1 - GAP):
                break
            if is_one_stage and self.problem.shards_whole_steps:
                self._solve_one_stage()
                continue
            sharded = [(key, link.point) for link in lowest.links if (key := _key_of(link)) is not None]
            if unknown := self._without_pieces(lowest):
                self._with_pieces |= unknown
                self.chains.passes_s = {width: self._pieces_s(width) for width in self.problem.widths}
                continue
            if is_one_stage:
                self._solve_one_stage()
                continue
            if not sum(self._refine(key, point) for key, point in sharded):
                break
            rounds += 1
            self._improve()

    def _lowest(self) -> Chain:
        """The shortest chain of bounds, which lifts the bound on all plans."""
        slack = TOLERANCE * self.problem.base.stages
        # Where no chain is below the best plan by more than the tolerance, the plan is proven.
        max_s = self.best.step_s * (1 + 1e-12) / (1 - slack)
        lowest = self._within(self._optimistic, self.bound_s, max_s, COARSE)
        if not self._without_pieces(lowest) and (lowest.links or not np.isinf(max_s)):
            # A chain as short as the coarse one is not dropped below this limit.
            limit_s = min(max_s, lowest.step_s * (1 + PROOF_TOLERANCE) / (1 - slack))
            lowest = self.chains.shortest(self._optimistic, limit_s, TOLERANCE * limit_s)
        one_stage_s = np.inf if self._one_stage_s is None else self._one_stage_s
        self.bound_s = max(self.bound_s, min(lowest.bound_s, one_stage_s, self.best.step_s))
        return lowest

    def _without_pieces(self, chain: Chain) -> set[tuple[int, int]]:
        """The numbers of devices of sharded stages and of their replicas for which no pieces are solved yet."""
        widths = {key.width for link in chain.links if (key := _key_of(link)) is not None}
        return {(width, mesh) for width in widths for mesh in self.problem.meshes(width)[1:]} - self._with_pieces

    def _pieces_s(self, width: int) -> Floats:
        """What a stage of so many devices takes at least a microbatch of each piece, however it is sharded."""
        count, pieces = self.problem.base.microbatches, range(len(self.problem.cuts) + 1)
        rows = [self.equal.pieces_s(width)]
        for mesh in self.problem.meshes(width)[1:]:
            if (width, mesh) in self._with_pieces:
                rows.append(np.array(self.pieces.passes_ps(width, mesh)) * PICO / count)
            else:
                rows.append(np.array([self.equal.min_s(each, each + 1, width, mesh)[0] / count for each in pieces]))
        min_s: Floats = np.min(rows, axis=0) * (1 - PROOF_TOLERANCE)
        return min_s

    def _improve(self) -> None:
        """Take the shortest chain of plans, if it is better."""
        better = self._within(self._plans, self.bound_s, self.best.step_s, 0.0)
        self.best = better if better.links else self.best

    def _solve_one_stage(self) -> None:
        """Solve plans of one sharded stage exactly, but for meshes that cannot be better than the best plan."""
        width, one_stage_s = self.problem.base.devices, np.inf
        for mesh in self.problem.meshes(width)[1:]:
            key = _Key(0, len(self.problem.cuts) + 1, width, mesh, 0)
            min_s = self._one_stage_min_s(key)
            if (width, mesh) in self._with_pieces:
                min_s = max(min_s, self._bounds(key).get((1, 1), 0.0) * PICO)
            if min_s < self.best.step_s:
                free = self._posed(key)
                exact = SolvedStage(replace(free.problem, state_bytes=self.problem.base.memory_bytes), free.prices)
                below_ps = FORBIDDEN if np.isinf(self.best.step_s) else round(self.best.step_s / PICO) + 1
                exact.solve([(1, 1)], self.seed, self.stop, PROOF_TOLERANCE, below_ps)
                self.solved.setdefault(key, [free]).append(exact)
                min_s = max(min_s, exact.bounds.get((1, 1), np.inf) * PICO)
                self._improve()
            one_stage_s = min(one_stage_s, min_s)
        self._one_stage_s = one_stage_s

    def _one_stage_min_s(self, key: _Key) -> float:
        """What a plan of one stage takes at least."""
        passes_s, closing_s = self.equal.min_s(key.begin, key.end, key.width, key.mesh)
        return passes_s if self.problem.shards_whole_steps else passes_s + closing_s

    def answer(self) -> HybridAnswer:
        """The best plan, by the definition of a step's time, and the bound."""
        limited = (each for stages in self.solved.values() for each in stages[1:])
        solved = self.pieces.solved + sum(len(each.directions) for each in (*self._by_signature.values(), *limited))
        bound_s = min(self.bound_s, self.pipelined.bound_s)
        cut = self.pipelined.plan
        if cut is not None and (not self.best.links or self.pipelined.length_s < self.best.step_s):
            plan = HybridPlan(cut.cuts, cut.device_cuts, (None,) * (len(cut.cuts) + 1))
            return HybridAnswer(self.problem, plan, self.pipelined.length_s, bound_s, solved)
        if not self.best.links:
            return HybridAnswer(self.problem, None, np.inf, bound_s, solved)
        ends = (0, *self.problem.cuts, self.problem.steps.points)
        links = self.best.links
        plan = HybridPlan(
            tuple(ends[each.begin] for each in links[1:]),
            tuple(each.first for each in links[1:]),
            tuple(each.point.choice for each in links),
        )
        step_s = step_time(self.problem, plan).length_s
        return HybridAnswer(self.problem, plan, step_s, min(bound_s, step_s), solved)

    def _within(self, points_of: PointsOf, min_s: float, max_s: float, tolerance: float) -> Chain:
        """The shortest chain, looked for under limits that rise until there is one below them.

        The tolerance of labels is a share of the limit.
        """
        factor = 1.02
        while factor <= _MAX_FACTOR:
            limit_s = min(min_s * factor, max_s)
            chain = self.chains.shortest(points_of, limit_s, tolerance * limit_s)
            if chain.links or limit_s >= max_s:
                return chain
            factor *= 1.08 if factor < 4 else 10.0
        return Chain(np.inf, np.inf, ())

    def _plans(self, begin: int, end: int, width: int, behind: int, limit_s: float) -> list[Point]:
        """What plans of a stage take."""
        del limit_s
        points = self.equal.points(begin, end, width, behind)
        count = self.problem.base.microbatches
        for mesh in self.problem.meshes(width)[1:]:
            for sharding, of in self._fitting(_Key(begin, end, width, mesh, behind)):
                passes_s, backward_s = (each * PICO / count for each in (of.passes_ps, of.backward_ps))
                points.append(Point(passes_s, backward_s, of.closing_ps * PICO, sharding))
        return points

    def _optimistic(self, begin: int, end: int, width: int, behind: int, limit_s: float) -> list[Point]:
        """What a stage takes at least; of one that is all there is nothing, once it is solved exactly."""
        is_one_stage, count = begin == behind == 0, self.problem.base.microbatches
        if is_one_stage and self._one_stage_s is not None:
            return []
        points = self.equal.points(begin, end, width, behind)
        if is_one_stage and self.problem.shards_whole_steps:
            return [*points, Point(self.equal.min_s(begin, end, width, 1)[0] / count, 0.0, 0.0, None)]
        for mesh in self.problem.meshes(width)[1:]:
            key = _Key(begin, end, width, mesh, behind)
            if (width, mesh) not in self._with_pieces:
                points.append(self._point(key, *self.equal.min_s(begin, end, width, mesh), self._forward_s(key)))
                continue
            known = self._points[width, mesh]
            if key not in known:
                if sum(self.equal.min_s(begin, end, width, mesh)) > limit_s:
                    continue
                known[key] = tuple(self._corners(key))
            points += known[key]
        return _lowest([each for each in points if count * each.passes_s + each.closing_s < limit_s])

    def _corners(self, key: _Key) -> Iterator[Point]:
        begin, end, width, mesh, _ = key
        solved = self.solved.get(key, [])
        limit = self.problem.base.memory_bytes
        if limit is not None and self.pieces.min_bytes(width, mesh, begin, end, self._in_flight(key)) > limit:
            return
        if any(each.is_impossible for each in solved):
            return
        forward_s = self._forward_s(key)
        for corner in corners(self._bounds(key)):
            yield self._point(key, corner.passes_ps * PICO, corner.closing_ps * PICO, forward_s)

    def _bounds(self, key: _Key) -> dict[Direction, float]:
        """What is known of a stage, by direction."""
        bounds = self.pieces.bounds(key.width, key.mesh, key.begin, key.end)
        for each in self.solved.get(key, ()):
            for direction, bound in each.bounds.items():
                bounds[direction] = max(bound, bounds.get(direction, 0.0))
        return bounds

    def _point(self, key: _Key, passes_s: float, closing_s: float, forward_s: float) -> Point:
        """Of a stage that takes at least these passes of a batch, closing, and forward pass of a microbatch."""
        microbatch_s = passes_s / self.problem.base.microbatches
        return Point(microbatch_s, max(0.0, microbatch_s - max(0.0, forward_s)), closing_s, key)

    def _forward_s(self, key: _Key) -> float:
        """What the forward pass of a microbatch takes at least."""
        count = self.problem.base.microbatches
        forward_s = self.equal.forward_s(key.begin, key.end, key.width) - self.problem.rounding_s / count
        if (key.width, key.mesh) in self._with_pieces:
            min_s = self.pieces.forward_ps(key.width, key.mesh, key.begin, key.end) * PICO / count
            forward_s = max(forward_s, min_s)
        return forward_s

    def _refine(self, key: _Key, point: Point) -> bool:
        """Solve a stage that the bound's chain has at ``point``; whether there was anything to be solved.

        First without its memory: so it is the same for all stages that are alike, and bounds those that hold it. With
        its memory where plans do not fit.
        """
        count = self.problem.base.microbatches
        place = point.passes_s * count / PICO, point.closing_s / PICO
        nearest = tightest(self._bounds(key), *place)
        is_new = key not in self.solved
        if is_new:
            self.solved[key] = [self._posed(key)]
        is_new |= self.pieces.solve_block(key.width, key.mesh, key.begin, key.end, nearest)
        for solved in self.solved[key]:
            is_new |= solved.solve({nearest, *next_directions(solved, place[0])}, self.seed, self.stop)
        if len(self.solved[key]) == 1 and len(list(self._fitting(key))) < len(self.solved[key][0].plans):
            limit, in_flight = self.problem.base.memory_bytes, self._in_flight(key)
            free = self.solved[key][0]
            limited = replace(free.problem, state_bytes=limit, in_flight=in_flight)
            self.solved[key].append(SolvedStage(limited, free.prices))
            is_new |= self.solved[key][1].solve([nearest], self.seed, self.stop)
        # What is known of pieces, blocks and stages of these devices, and of no others, has changed.
        self._points.pop((key.width, key.mesh), None)
        return is_new

    def _in_flight(self, key: _Key) -> int:
        return min(self.problem.base.microbatches, key.behind + 1)

    def _fitting(self, key: _Key) -> Iterator[tuple[Sharding, StageFigures]]:
        """The plans of a stage that fit into memory."""
        limit = self.problem.base.memory_bytes
        for solved in self.solved.get(key, ()):
            for sharding, taken in solved.plans.items():
                if limit is None or taken.device_bytes(self._in_flight(key)) <= limit:
                    yield sharding, taken.figures

    def _posed(self, key: _Key) -> SolvedStage:
        """A stage without its memory, the same one for all that differ in names alone."""
        ends = (0, *self.problem.cuts, self.problem.steps.points)
        step = self.problem.steps.stage(range(ends[key.begin], ends[key.end]))
        alike = (signature(step), key.width, key.mesh)
        if alike not in self._by_signature:
            problem = replace(self.problem.stage_problem(step, key.width, key.mesh, 1), state_bytes=None)
            self._by_signature[alike] = SolvedStage(problem, Prices(problem))
        return self._by_signature[alike]


_MAX_FACTOR = 1e6


def _lowest(points: list[Point]) -> list[Point]:
    """Those points that no other is below in passes and closing.

    Fewer passes hide less of what other stages close, but by no more than they are shorter.
    """
    lowest: list[Point] = []
    for point in sorted(points, key=lambda each: (each.passes_s, each.closing_s)):
        if not lowest or point.closing_s < lowest[-1].closing_s:
            lowest.append(point)
    return lowest


def _key_of(link: Link) -> _Key | None:
    return link.point.choice if isinstance(link.point.choice, _Key) else None
