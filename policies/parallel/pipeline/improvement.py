"""Plans improved cut by cut: what every search of a pipeline ends with, whether it learns or not."""

from collections.abc import Callable, Sequence

import numpy as np

from dse.parallel.pipeline.problem import Integers, PipelinePlan
from policies.parallel.pipeline.inference import Coarse
from policies.parallel.pipeline.online import SHORTEST, STARTS, Best
from policies.parallel.pipeline.pricing import prefix


def improve(each: Coarse, best: Best, starts: int = STARTS) -> None:
    """Improve each of the shortest plans of a search, until no move of one cut makes it shorter.

    A cut moves to every candidate between its neighbouring cuts, with all devices in front of it that are allowed
    there; where that makes nothing shorter, to the instructions around it, its device cut by one either way. All that
    is priced counts.

    Args:
        each: the problem.
        best: of the search; gets the improved plans.
        starts: how many.
    """
    for length_s, plan in best.shortest[:starts]:
        own = Best.of(plan, length_s)
        _descend(each, own)
        best.evaluations += own.evaluations
        for other_s, other in own.shortest:
            best.add(other, other_s)


def improved(each: Coarse, searches: Sequence[Best], starts: int = SHORTEST) -> Best:
    """The best plans of several searches, those of each improved by themselves (:func:`improve`)."""
    for search in searches:
        improve(each, search, starts)
    return Best.of_all(searches)


def _descend(each: Coarse, best: Best) -> None:
    before = np.inf
    while best.length_s < before:
        before = best.length_s
        for moves in (_between, _around):
            _round_by_round(each, best, moves)


def _round_by_round(each: Coarse, best: Best, moves: "_Moves") -> None:
    """Until a round over all cuts makes the plan no shorter."""
    before = np.inf
    while best.plan is not None and best.length_s < before:
        before = best.length_s
        for cut in range(each.pricing.problem.stages - 1):
            points, steps = moves(each, best.plan, cut)
            _take(each, best, cut, points, steps)


def _take(each: Coarse, best: Best, cut: int, points: Integers, steps: Integers) -> None:
    """Price the plan with one cut at every one of ``points``, with each of ``steps`` devices in front, where legal."""
    plan, problem = best.plan, each.pricing.problem
    assert plan is not None
    own, ranks = (0, *plan.cuts, problem.profile.points), (0, *plan.device_cuts, problem.devices)
    variables = prefix(problem.profile.variables)
    points = points[(variables[points] > variables[own[cut]]) & (variables[points] < variables[own[cut + 2]])]
    center = problem.devices * (cut + 1) / problem.stages
    steps = steps[(np.abs(steps - center) <= each.radius) & (steps > ranks[cut]) & (steps < ranks[cut + 2])]
    if not len(points) * len(steps):
        return
    cuts = np.tile(plan.cuts, (len(points) * len(steps), 1))
    device_cuts = np.tile(plan.device_cuts, (len(points) * len(steps), 1))
    cuts[:, cut], device_cuts[:, cut] = np.repeat(points, len(steps)), np.tile(steps, len(points))
    best.take(cuts, device_cuts, each.pricing.prices(cuts, device_cuts))


_Moves = Callable[[Coarse, PipelinePlan, int], tuple[Integers, Integers]]
"""Legal points where a cut of a plan may move, and legal numbers of devices in front of it."""


def _between(each: Coarse, _plan: PipelinePlan, _cut: int) -> tuple[Integers, Integers]:
    """Every candidate, every number of devices."""
    return each.cuts, np.arange(1, each.pricing.problem.devices)


def _around(each: Coarse, plan: PipelinePlan, cut: int) -> tuple[Integers, Integers]:
    """Every point up to the neighbouring candidates, one device more or less."""
    place = int(np.searchsorted(each.cuts, plan.cuts[cut]))
    points = np.arange(each.cuts[max(0, place - 1)], each.cuts[min(len(each.cuts) - 1, place + 1)] + 1)
    return points, plan.device_cuts[cut] + np.array([-1, 0, 1])
