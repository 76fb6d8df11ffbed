"""The points of a sweep next to each other: what one knows of another, and which are on the front.

Three things hold regardless of what the searches found:

- a placement that fits a wafer fits every wafer that is no smaller, turned by a right angle where need be;
- so the least cost for a wafer is no more than that for one inside it with no more memory and no smaller weights, and
  a bound on the cost for the larger wafer and the smaller weights is one for the other;
- with equal weights, a point is provably dominated where another one of no more tiles and memory *reaches* what
  bounds show that the first cannot get below, and is provably on the front where no other one of no more tiles and
  memory *can*, by its bound, be as cheap.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from dse.algorithms.dominance import non_dominated
from dse.results.result import proven_status
from dse.wafer.check import cost, memory_words, size_tiles, violations
from dse.wafer.problem import Cost, WaferPlacement, WaferProblem, Weights
from dse.wafer.sweep.axes import Setting


@dataclass(frozen=True)
class PointRun:
    """The answer of the run of one point; ``reason`` says why it is not complete, or is None."""

    setting: Setting
    problem: WaferProblem
    placement: WaferPlacement | None = None
    bound: float | None = None
    infeasibility: dict[str, Any] | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Point:
    """What is known of one point by all runs.

    Attributes:
        setting: the values that are swept.
        problem: with its wafer and weights.
        placement, cost: the cheapest that is known; None where none is.
        bound: no placement costs less; None where nothing is known, or there is no placement.
        infeasibility: the proof that no placement is legal, or None.
        reason: why its own run is not whole, or None; also None where nothing is left to find.
        found_at: the point whose run found the placement.
        front: whether no other known point of the same weights dominates it in cost, tiles and memory.
        certain: whether the bounds prove that it is on the front, or is not.
    """

    setting: Setting
    problem: WaferProblem
    placement: WaferPlacement | None
    cost: Cost | None
    bound: float | None
    infeasibility: dict[str, Any] | None
    reason: str | None
    found_at: Setting | None
    front: bool = False
    certain: bool = False


def settled(runs: Sequence[PointRun]) -> list[Point]:
    """The points, each with the best that any run says of it, and which are on the front."""
    offers = [_offer(each) for each in runs if each.placement is not None]
    points = [_point(each, offers, runs) for each in runs]
    fronts = front(points)
    certainties = certain(points, fronts)
    return [
        replace(point, front=bool(on), certain=bool(sure))
        for point, on, sure in zip(points, fronts, certainties, strict=True)
    ]


@dataclass(frozen=True)
class _Offer:
    """A placement, what it needs, and what it comes to with any weights."""

    setting: Setting
    placement: WaferPlacement
    width_tiles: int
    height_tiles: int
    memory_words: int
    parts: Cost

    def total(self, weights: Weights) -> Fraction:
        """Its cost, without rounding."""
        parts = self.parts
        pairs = (weights.time, parts.time), (weights.distance, parts.distance), (weights.adapter, parts.adapter)
        return sum((Fraction(weight) * Fraction(amount) for weight, amount in pairs), Fraction())


def _offer(run: PointRun) -> _Offer:
    placement, problem = run.placement, run.problem
    assert placement is not None
    reach = [(placed.x + size_tiles(placed)[0], placed.y + size_tiles(placed)[1]) for placed in placement.placed]
    memory = max(memory_words(*pair) for pair in zip(problem.kernels, placement.placed, strict=True))
    width, height = (max(each[axis] for each in reach) for axis in (0, 1))
    return _Offer(run.setting, placement, width, height, memory, cost(problem, placement))


def turned(placement: WaferPlacement) -> WaferPlacement:
    """The placement with across and up exchanged, at the same cost."""
    return WaferPlacement(
        tuple(
            replace(each, x=each.y, y=each.x, rotation="R90" if each.rotation == "R0" else "R0")
            for each in placement.placed
        )
    )


def _point(run: PointRun, offers: Sequence[_Offer], runs: Sequence[PointRun]) -> Point:
    """A point with the cheapest placement of all runs that fits it (of equal ones its own, or the first) and bound."""
    problem, wafer = run.problem, run.problem.wafer
    best: tuple[tuple[Fraction, bool], WaferPlacement, Setting] | None = None
    for offer in offers:
        size = offer.width_tiles, offer.height_tiles
        upright = size[0] <= wafer.width_tiles and size[1] <= wafer.height_tiles
        fits = upright or (size[1] <= wafer.width_tiles and size[0] <= wafer.height_tiles)
        if not fits or offer.memory_words > wafer.memory_words:
            continue
        placement = offer.placement if upright else turned(offer.placement)
        rank = offer.total(problem.weights), offer.setting != run.setting
        # Where adapters count, placements are to be legal by every reading of the rules; the checker knows.
        if (best is None or rank < best[0]) and not violations(problem, placement):
            best = rank, placement, offer.setting
    priced = None if best is None else cost(problem, best[1])
    bounds = [each.bound for each in runs if each.bound is not None and is_bound_for(each.problem, problem)]
    bound = max(bounds, default=None)
    if priced is not None and bound is not None:
        bound = min(bound, priced.total)
    return Point(
        setting=run.setting,
        problem=problem,
        placement=None if best is None else best[1],
        cost=priced,
        bound=None if run.infeasibility else bound,
        infeasibility=run.infeasibility,
        # What is proven needs no run of its own.
        reason=None if proven_status(None if priced is None else priced.total, bound) == "optimal" else run.reason,
        found_at=None if best is None else best[2],
    )


def is_bound_for(larger: WaferProblem, smaller: WaferProblem) -> bool:
    """Whether every placement for ``smaller`` is one for ``larger`` that costs no more there."""
    one, other = larger.wafer, smaller.wafer
    upright = other.width_tiles <= one.width_tiles and other.height_tiles <= one.height_tiles
    holds = upright or (other.height_tiles <= one.width_tiles and other.width_tiles <= one.height_tiles)
    weights, least = smaller.weights, larger.weights
    cheaper = least.time <= weights.time and least.distance <= weights.distance and least.adapter <= weights.adapter
    return holds and cheaper and other.memory_words <= one.memory_words


def front(points: Sequence[Point]) -> list[bool]:
    """Which points no other one of the same weights dominates, of those with a placement."""
    on_front = [False] * len(points)
    for weights in {each.problem.weights for each in points}:
        places = [
            place for place, each in enumerate(points) if each.problem.weights == weights and each.cost is not None
        ]
        if places:
            figures = np.array([_figures(points[place]) for place in places])
            for place, on in zip(places, non_dominated(*figures.T).tolist(), strict=True):
                on_front[place] = on
    return on_front


def _figures(point: Point) -> tuple[float, float, float]:
    total = np.inf if point.cost is None else point.cost.total
    return total, float(point.problem.wafer.tiles), float(point.problem.wafer.memory_words)


def certain(points: Sequence[Point], on_front: Sequence[bool]) -> list[bool]:
    """Of which points the bounds prove that they are on the front (where they are) or are not."""
    return [
        point.infeasibility is not None or (_unbeatable(point, points) if on else _beaten(point, points))
        for point, on in zip(points, on_front, strict=True)
    ]


def _rivals(point: Point, points: Sequence[Point]) -> list[tuple[Point, bool]]:
    """(another point of no more tiles and memory that may have a placement, whether it has less of one of them)."""
    _, tiles, memory = _figures(point)
    rivals = []
    for other in points:
        _, other_tiles, other_memory = _figures(other)
        same = other.problem.weights == point.problem.weights and other.infeasibility is None
        if same and other is not point and other_tiles <= tiles and other_memory <= memory:
            rivals.append((other, other_tiles < tiles or other_memory < memory))
    return rivals


def _unbeatable(point: Point, points: Sequence[Point]) -> bool:
    """Whether no rival can dominate the point: none can be as cheap, or, where it is as large, cheaper."""
    total = _figures(point)[0]
    for other, smaller in _rivals(point, points):
        least = -np.inf if other.bound is None else other.bound
        if least < total or (smaller and least == total):
            return False
    return True


def _beaten(point: Point, points: Sequence[Point]) -> bool:
    """Whether a rival surely dominates the point: it reaches what the point cannot get below."""
    if point.bound is None:
        return False
    for other, smaller in _rivals(point, points):
        total = _figures(other)[0]
        if total < point.bound or (smaller and total == point.bound):
            return True
    return False
