"""Stages that are solved: the plans and bounds that are known of one, and for which sum it is solved next.

A stage is solved for weighted sums of its passes and its closing. Whenever the bound's chain needs it between two of
its plans, the next sum is the one that both have as much of: it gives a plan below their line, or proves that there is
none (Aneja and Nair, Bicriteria transportation problem, Management Science 1979).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import NamedTuple

from dse.algorithms.pairwise.problem import FORBIDDEN
from dse.parallel.hybrid.problem import Sharding
from dse.parallel.hybrid.stage_problem import (
    GAP as STAGE_GAP,
)
from dse.parallel.hybrid.stage_problem import (
    Direction,
    StageFigures,
    StageProblem,
    device_bytes,
    figures,
    solve_stage,
)
from dse.parallel.plan import Plan
from dse.parallel.prices import Prices
from dse.run.progress import StopSignal

MAX_WEIGHT = 64
"""The larger of the weights of passes and closing, at most."""


class Taken(NamedTuple):
    """What a plan of a stage takes: with one microbatch in flight, and bytes for each further one."""

    figures: StageFigures
    further_bytes: int

    def device_bytes(self, in_flight: int) -> int:
        """With so many microbatches in flight."""
        return self.figures.device_bytes + (in_flight - 1) * self.further_bytes


@dataclass(frozen=True, eq=False)
class SolvedStage:
    """A stage that is solved, with its memory or without: plans and bounds, by the directions that are done.

    Attributes:
        problem: of the stage; its microbatches in flight count where it has a limit of memory.
        prices: of its operations.
        bounds: on the sum in each direction.
        plans: that were the best of some direction.
        directions: in which it is solved.
    """

    problem: StageProblem
    prices: Prices
    bounds: dict[Direction, float] = field(default_factory=dict)
    plans: dict[Sharding, Taken] = field(default_factory=dict)
    directions: set[Direction] = field(default_factory=set)

    @property
    def is_impossible(self) -> bool:
        """Whether it is proven that no plan fits."""
        return bool(self.directions) and not self.plans and not self.bounds

    def solve(
        self, directions: Iterable[Direction], seed: int, stop: StopSignal, gap: float = STAGE_GAP,
        below_ps: int = FORBIDDEN,
    ) -> bool:  # fmt: skip
        """Solve it in directions for plans below a sum; whether any of them is not done yet."""
        fresh = [each for each in directions if each not in self.directions]
        for direction in fresh:
            solution = solve_stage(self.problem, self.prices, direction, seed, stop, gap, below_ps)
            self.directions.add(direction)
            if solution.bound_ps is not None:
                self.bounds[direction] = float(solution.bound_ps)
            if solution.plan is not None:
                self.plans[Sharding(self.problem.neighbours, solution.plan)] = self._taken(solution.plan)
        return bool(fresh)

    def _taken(self, plan: Plan) -> Taken:
        one, two = (device_bytes(replace(self.problem, in_flight=each), self.prices, plan) for each in (1, 2))
        return Taken(figures(self.problem, self.prices, plan)._replace(device_bytes=one), two - one)


def next_directions(solved: SolvedStage, passes_ps: float) -> Iterator[Direction]:
    """What is minimised next, so that more is known of a stage where it takes these passes."""
    if not solved.plans:
        return
    taken = [each.figures for each in solved.plans.values()]
    plans = sorted(((each.passes_ps, each.closing_ps) for each in taken), key=lambda each: each[0])
    before = [each for each in plans if each[0] <= passes_ps]
    behind = [each for each in plans if each[0] > passes_ps]
    if before and behind:
        yield _direction(before[-1][1] - behind[0][1], behind[0][0] - before[-1][0])
        return
    ratios = [alpha / beta for alpha, beta in solved.directions if alpha and beta]
    ratio = max(ratios) * 2 if behind else min(ratios) / 2
    if 1 / MAX_WEIGHT <= ratio <= MAX_WEIGHT:
        yield _direction(ratio, 1.0)


def _direction(alpha: float, beta: float) -> Direction:
    """Weights of passes and closing in about this ratio, as whole numbers of at most :data:`MAX_WEIGHT`."""
    if alpha <= 0 or beta <= 0:
        return 1, 1
    ratio = Fraction(alpha / beta if alpha >= beta else beta / alpha).limit_denominator(8)
    large, small = min(ratio.numerator, MAX_WEIGHT * ratio.denominator), ratio.denominator
    return (large, small) if alpha >= beta else (small, large)
