"""The check of a sweep's result: every point's wafer, placement, figures and standing, recomputed.

What bounds and costs say of each other is recomputed: no point may cost more than a placement of another one that fits
it, and which points are on the front, and provably so, follows from costs and bounds by definition. Recomputing the
bounds themselves takes seconds each, and is a part of every check where there are few (:func:`is_affordable`).
"""

import math
from collections.abc import Mapping
from typing import Any

from dse.results.differences import differences
from dse.results.result import PROOF_TOLERANCE, Result, proven_status
from dse.wafer.answer import cost_bound
from dse.wafer.check import cost, violations
from dse.wafer.documents import PointDocument, SweepDocument, placement_from_document
from dse.wafer.options import WaferOptions
from dse.wafer.packing import proof_like
from dse.wafer.problem import WaferProblem
from dse.wafer.search.context import SearchResult
from dse.wafer.sweep.axes import header_values, name_of
from dse.wafer.sweep.front import is_bound_for
from dse.wafer.sweep.sweep import UNFINISHED, point_problems

_AFFORDABLE_KERNELS = 100
"""Kernels of all points together, whose bounds are proven again in each check."""

_PARTS = ("cost", "time", "distance", "adapter")


def sweep_faults(options: WaferOptions, problem: WaferProblem, result: Result) -> list[str]:
    """Every way in which the points of ``result`` are not what they say.

    Raises:
        InputError: a placement that cannot be read.
    """
    problems = {name_of(setting): there for setting, there in point_problems(options, problem).items()}
    if not result.solution:
        return _infeasibility_faults(result, problems)
    points = SweepDocument.model_validate(result.solution).points
    if set(points) != set(problems):
        return [f"solution.points must be {', '.join(problems)}"]
    faults = [
        f"solution.points.{name}: {fault}"
        for name, point in points.items()
        for fault in (*_statement_faults(point, problems), *_point_faults(problems[name], point))
    ]
    return faults or _standing_faults(points) + _summary_faults(result, points)


def is_affordable(options: WaferOptions, problem: WaferProblem) -> bool:
    """Whether every check recomputes the bounds."""
    return len(point_problems(options, problem)) * len(problem.kernels) <= _AFFORDABLE_KERNELS


def bound_faults(options: WaferOptions, problem: WaferProblem, result: Result) -> list[str]:
    """Which bounds of points are above what is proven again; a bound for one point may hold for another."""
    problems = {name_of(setting): there for setting, there in point_problems(options, problem).items()}
    points = SweepDocument.model_validate(result.solution).points
    proven = {name: _proven(problems[name], point) for name, point in points.items() if point.status != "infeasible"}
    faults = []
    for name, point in points.items():
        known = [least for other, least in proven.items() if is_bound_for(problems[other], problems[name])]
        most = max(known, default=-math.inf)
        if point.bound is not None and point.bound > most * (1 + PROOF_TOLERANCE):
            faults.append(f"solution.points.{name}.bound must be at most {most}, but got {point.bound}")
    return faults


def _proven(problem: WaferProblem, point: PointDocument) -> float:
    """A bound on the cost of a point, proven here."""
    placement, priced = None, None
    if point.kernels is not None:
        placement = placement_from_document(problem, point.model_dump(include={"kernels"}), "result")
        priced = cost(problem, placement)
    bound = cost_bound(problem, SearchResult(placement, priced))
    return -math.inf if bound is None else bound


def _infeasibility_faults(result: Result, problems: Mapping[str, WaferProblem]) -> list[str]:
    """Whether a result without placements is called infeasible where no point can have one, and only there."""
    stated = None if result.infeasibility is None else result.infeasibility.document()
    proven = all(proof_like(stated, each) is not None for each in problems.values())
    if not proven:
        return ["status must not be infeasible"] if result.status == "infeasible" else []
    metrics = {"points": len(problems), "infeasible": len(problems), "front": [], "unfinished": []}
    return differences("status", result.status, "infeasible") + differences("metrics", result.metrics, metrics)


def _statement_faults(point: PointDocument, problems: Mapping[str, WaferProblem]) -> list[str]:
    """Which entries of a point that are not recomputed cannot be what they are said to be."""
    faults = []
    if (point.found_at is None) != (point.kernels is None) or point.found_at not in (None, *problems):
        faults.append(
            f"found_at must name the point that found the placement, or be empty without one, but got {point.found_at}"
        )
    if point.status == "infeasible" and point.reason not in (None, UNFINISHED):
        faults.append(
            f"reason of a point that is proven infeasible must be {UNFINISHED} or empty, but got {point.reason}"
        )
    return faults


def _point_faults(problem: WaferProblem, point: PointDocument) -> list[str]:
    """What is wrong with one point by itself."""
    expected: dict[str, Any] = {
        **header_values(problem),
        "tiles": problem.wafer.tiles,
        "infeasibility": proof_like(point.infeasibility, problem),
    }
    faults = []
    if point.kernels is None:
        infeasible = expected["infeasibility"] is not None
        expected["status"] = "infeasible" if infeasible else "unknown"
        keys = (*_PARTS, "bound") if infeasible else _PARTS
        faults += [f"{key} must not be given without a placement" for key in keys if getattr(point, key) is not None]
    else:
        placement = placement_from_document(problem, point.model_dump(include={"kernels"}), "result")
        broken = violations(problem, placement)
        if broken:
            return broken
        priced = cost(problem, placement)
        expected |= {
            "cost": priced.total,
            "time": priced.time,
            "distance": priced.distance,
            "adapter": priced.adapter,
            "status": proven_status(priced.total, point.bound),
        }
        if point.bound is not None and point.bound > priced.total * (1 + PROOF_TOLERANCE):
            faults.append(f"bound must be at most the cost {priced.total}, but got {point.bound}")
    return faults + [fault for key, value in expected.items() for fault in differences(key, getattr(point, key), value)]


def _standing_faults(points: Mapping[str, PointDocument]) -> list[str]:
    """What of front and certainty does not follow from costs and bounds."""
    faults = []
    for name, point in points.items():
        rivals = [each for other, each in points.items() if other != name and _may_dominate(each, point)]
        on = point.cost is not None and not any(_dominates(each.cost, each, point.cost, point) for each in rivals)
        if point.status == "infeasible":
            sure = True
        elif point.cost is not None and on:
            sure = not any(_dominates(_or_nothing(each.bound), each, point.cost, point) for each in rivals)
        else:
            sure = any(_dominates(each.cost, each, _or_nothing(point.bound), point) for each in rivals)
        faults += differences(f"solution.points.{name}.front", point.front, on)
        faults += differences(f"solution.points.{name}.certain", point.certain, sure)
    return faults


def _may_dominate(other: PointDocument, point: PointDocument) -> bool:
    """Whether another point with the same weights may have a placement, and has no more tiles and memory."""
    same = all(getattr(other, key) == getattr(point, key) for key in ("wdeltat", "wlength", "wadapter"))
    small = other.tiles <= point.tiles and other.memlimit <= point.memlimit
    return same and small and other.status != "infeasible"


def _dominates(cost_there: float | None, other: PointDocument, cost_here: float, point: PointDocument) -> bool:
    """Whether another point of no more tiles and memory is better at these costs, and no worse in anything."""
    if cost_there is None:
        return False
    less = other.tiles < point.tiles or other.memlimit < point.memlimit
    return cost_there < cost_here or (less and cost_there == cost_here)


def _or_nothing(bound: float | None) -> float:
    """A bound; below every cost where none is known."""
    return -math.inf if bound is None else bound


def _summary_faults(result: Result, points: Mapping[str, PointDocument]) -> list[str]:
    """What of objective, bound and metrics does not follow from the points."""
    costs = [each.cost for each in points.values() if each.cost is not None]
    feasible = [each for each in points.values() if each.status != "infeasible"]
    bounds = [each.bound for each in feasible if each.bound is not None]
    metrics = {
        "points": len(points),
        "infeasible": len(points) - len(feasible),
        "front": [name for name, each in points.items() if each.front],
        "unfinished": [name for name, each in points.items() if each.reason and each.status != "infeasible"],
    }
    return [
        *differences("objective.value", result.objective.value, min(costs, default=None)),
        *differences("bound", result.bound, min(bounds, default=None) if len(bounds) == len(feasible) else None),
        *differences("metrics", result.metrics, metrics),
    ]
