"""The check of a sweep's result: every point's wafer, placement, figures and standing, made anew.

Bounds are not proven again; what they and the costs say of each other is: no point may cost more than a placement of
another one that fits it, and which points are on the front, and for sure, follows from costs and bounds by definition.
"""

import math
from collections.abc import Mapping
from typing import Any

from dse.results.differences import differences
from dse.results.result import PROOF_TOLERANCE, Result, proven_status
from dse.wafer.check import cost, violations
from dse.wafer.files.formats import placement_from_document
from dse.wafer.options import WaferOptions
from dse.wafer.packing import proof_like
from dse.wafer.problem import WaferProblem
from dse.wafer.sweep.axes import name_of
from dse.wafer.sweep.sweep import point_problems

Stated = Mapping[str, Any]
"""A point as the result states it."""

_ENTRIES = ("width", "height", "memlimit", "wdeltat", "wlength", "wadapter")
_PARTS = ("cost", "time", "distance", "adapter")
_KEYS = {
    *_ENTRIES,
    *_PARTS,
    "tiles",
    "status",
    "bound",
    "front",
    "certain",
    "found_at",
    "infeasibility",
    "reason",
    "kernels",
}


def sweep_faults(options: WaferOptions, problem: WaferProblem, result: Result) -> list[str]:
    """Every way in which the points of ``result`` are not what they say.

    Raises:
        InputError: a placement that cannot be read.
    """
    points = {name_of(setting): there for setting, there in point_problems(options, problem).items()}
    stated = result.solution.get("points", {})
    if not isinstance(stated, dict) or (result.solution and set(stated) != set(points)):
        return [f"solution.points must have the points {', '.join(points)}"]
    found = [
        f"solution.points.{name} must have the keys {sorted(_KEYS)}" for name in stated if not _whole(stated[name])
    ]
    if found:
        return found
    for name, point in stated.items():
        found += [f"solution.points.{name}: {fault}" for fault in _unproven_faults(point, points)]
    if found:
        return found
    for name, point in stated.items():
        found += [f"solution.points.{name}: {fault}" for fault in _point_faults(points[name], point)]
    return found or _standings(stated) + _summary(result, stated, points)


def _whole(point: Any) -> bool:
    return isinstance(point, dict) and set(point) == _KEYS


def _unproven_faults(point: Stated, points: Mapping[str, WaferProblem]) -> list[str]:
    """Which entries of a point that are not made anew cannot be what they are said to be."""
    bound, found_at, reason = point["bound"], point["found_at"], point["reason"]
    found = []
    if bound is not None and (type(bound) is not float or not 0 <= bound < math.inf):
        found.append(f"bound must be a finite number from 0, but got {bound}")
    if (found_at is None) != (point["kernels"] is None) or not (found_at is None or found_at in [*points]):
        found.append(f"found_at must be the point that found the placement, where there is one, but got {found_at}")
    if reason is not None and not (type(reason) is str and reason):
        found.append(f"reason must be words, but got {reason}")
    return found


def _point_faults(problem: WaferProblem, point: Stated) -> list[str]:
    """What is wrong with one point by itself."""
    wafer, weights = problem.wafer, problem.weights
    sizes = {"width": wafer.width_tiles, "height": wafer.height_tiles, "memlimit": wafer.memory_words}
    costs = {"wdeltat": weights.time, "wlength": weights.distance, "wadapter": weights.adapter}
    found = [
        fault
        for key, value in (sizes | costs | {"tiles": wafer.tiles}).items()
        for fault in differences(key, point[key], value)
    ]
    proof = proof_like(point["infeasibility"], problem)
    found += differences("infeasibility", point["infeasibility"], proof)
    if (proof is not None) != (point["status"] == "infeasible"):
        found.append(f"status must {'' if proof else 'not '}be infeasible")
    if point["kernels"] is None:
        keys = _PARTS if proof is None else (*_PARTS, "bound")
        figures = [key for key in keys if point[key] is not None]
        return found + [f"{key} is given without a placement" for key in figures]
    placement = placement_from_document(problem, {"kernels": point["kernels"]}, "result")
    broken = violations(problem, placement)
    if broken:
        return found + broken
    reached = cost(problem, placement)
    parts = {"cost": reached.total, "time": reached.time, "distance": reached.distance, "adapter": reached.adapter}
    for key, value in parts.items():
        found += differences(key, point[key], value)
    if point["bound"] is not None and point["bound"] > reached.total * (1 + PROOF_TOLERANCE):
        found.append(f"bound {point['bound']} is above the cost {reached.total}")
    status = proven_status(reached.total, point["bound"])
    return found + ([] if point["status"] == status else [f"status must be {status}, but got {point['status']}"])


def _standings(points: Mapping[str, Stated]) -> list[str]:
    """What of front and certainty does not follow from costs and bounds."""
    found = []
    for name, point in points.items():
        rivals = [each for other, each in points.items() if other != name and _may_dominate(each, point)]
        on = point["cost"] is not None and not any(
            _dominates(each["cost"], each, point["cost"], point) for each in rivals
        )
        if point["front"] is not on:
            found.append(f"solution.points.{name}.front must be {on}")
        if point["status"] == "infeasible":
            sure = True
        elif on:
            sure = not any(_dominates(_or(each["bound"], -math.inf), each, point["cost"], point) for each in rivals)
        else:
            sure = any(_dominates(each["cost"], each, _or(point["bound"], -math.inf), point) for each in rivals)
        if point["certain"] is not sure:
            found.append(f"solution.points.{name}.certain must be {sure}")
    return found


def _may_dominate(other: Stated, point: Stated) -> bool:
    """Whether another point with the same weights may have a placement, and has no more tiles and memory."""
    same = all(other[key] == point[key] for key in ("wdeltat", "wlength", "wadapter"))
    small = other["tiles"] <= point["tiles"] and other["memlimit"] <= point["memlimit"]
    return same and small and other["status"] != "infeasible"


def _dominates(cost_there: float | None, other: Stated, cost_here: float, point: Stated) -> bool:
    """Whether another point of no more tiles and memory is better at these costs, and no worse in anything."""
    if cost_there is None:
        return False
    less = other["tiles"] < point["tiles"] or other["memlimit"] < point["memlimit"]
    return cost_there < cost_here or (less and cost_there == cost_here)


def _or(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value


def _summary(result: Result, stated: Mapping[str, Stated], points: Mapping[str, WaferProblem]) -> list[str]:
    """What of objective, bound and metrics does not follow from the points."""
    found, metrics = [], result.metrics
    if not stated:
        proof = None if result.infeasibility is None else result.infeasibility.document()
        proven = all(proof_like(proof, each) is not None for each in points.values())
        return (
            []
            if proven == (result.status == "infeasible")
            else [f"status must {'' if proven else 'not '}be infeasible"]
        )
    costs = [each["cost"] for each in stated.values() if each["cost"] is not None]
    bounds = [each["bound"] for each in stated.values() if each["status"] != "infeasible"]
    least = None if None in bounds else min(bounds, default=None)
    found += differences("objective.value", result.objective.value, min(costs, default=None))
    found += differences("bound", result.bound, least)
    for key, value in (
        ("points", len(points)),
        ("infeasible", sum(each["status"] == "infeasible" for each in stated.values())),
        ("front", [name for name, each in stated.items() if each["front"]]),
        ("unfinished", [n for n, each in stated.items() if each["reason"] and each["status"] != "infeasible"]),
    ):
        found += differences(f"metrics.{key}", metrics.get(key), value)
    unknown = sorted(set(metrics) - {"points", "infeasible", "front", "unfinished"})
    return found + [f"metrics.{key} is no figure of a sweep" for key in unknown]
