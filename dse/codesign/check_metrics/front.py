"""The check of a Pareto front: every point evaluated again, and what the points say of each other.

Each architecture must lie in the space; its area is recomputed from the formula, its plans, score and power by
evaluating it as deep as its plans say they were searched (:mod:`dse.codesign.check_metrics.reevaluation` says what
happens where that takes too long). No point may dominate another. That none is missing is not proven again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dse.algorithms.dominance import non_dominated
from dse.codesign.check import architecture_faults, choice_faults
from dse.codesign.check_energy import checked_energy
from dse.codesign.check_metrics.reevaluation import Allowance, Reevaluation, Reevaluator, Request
from dse.codesign.formats import architecture_solution, plan_summary, position
from dse.codesign.pareto.front import NODES
from dse.codesign.problem import CodesignProblem, TrainingJob, TrainingPlan
from dse.results.differences import differences
from dse.results.result import PROOF_TOLERANCE
from hardware.machines import Machines
from hardware.units import gib_from_bytes

WHERE = "metrics.pareto"

_STAGES = 0.01
"""How far the power of a plan may be from that of one whose stages, of the same number, are cut elsewhere."""


def front_faults(problem: CodesignProblem, machines: Machines, stated: dict[str, Any]) -> list[str]:
    """Every fault of a front over ``machines``, which has the form of :class:`dse.codesign.documents.Front`."""
    faults = _claims(problem, machines, stated)
    named = {f"{WHERE}.points[{number}]": point["architecture"] for number, point in enumerate(stated["points"])}
    named |= {f"{WHERE}.undecided[{number}]": each for number, each in enumerate(stated["undecided"])}
    places = []
    for where, architecture in named.items():
        index, place_faults = _place(problem, machines, architecture)
        faults += [f"{where}: {fault}" for fault in place_faults]
        places.append(index)
    if len(set(places)) != len(places):
        faults.append(f"{WHERE}: no architecture may be listed twice")
    if faults:
        return faults
    front_machines = machines.take(np.array(places, dtype=np.int64))
    return _order(places, stated["points"]) + _Points(problem, front_machines, stated).faults()


def _claims(problem: CodesignProblem, machines: Machines, stated: dict[str, Any]) -> list[str]:
    """What the front says as a whole: of the space, of itself, and of its proof."""
    listed = len(stated["points"]) + len(stated["undecided"])
    evaluated, stopped = stated["architectures_evaluated"], stated["stopped"]
    proven = stopped is None and not stated["undecided"] and all(point["proven"] for point in stated["points"])
    faults = differences(
        WHERE,
        stated,
        {
            "hbm_gb": gib_from_bytes(problem.hbm_bytes[-1]),
            "mean": problem.objective.mean,
            "proven": proven,
            "architectures_in_space": len(machines),
            "architectures_evaluated": evaluated,
            "architectures_pruned": len(machines) - evaluated if stopped is None else 0,
            "undecided": stated["undecided"],
            "stopped": stopped,
            "points": stated["points"],
        },
    )
    if not listed <= evaluated <= len(machines):
        faults.append(f"{WHERE}.architectures_evaluated must be in [{listed}, {len(machines)}], but got {evaluated}")
    if stopped is not None and stated["undecided"]:
        faults.append(f"{WHERE}: undecided must be empty for a stopped search")
    return faults


def _place(problem: CodesignProblem, machines: Machines, stated: dict[str, Any]) -> tuple[int, list[str]]:
    """Position of an architecture in the space (−1: none), and what is wrong with it."""
    faults = architecture_faults(problem, stated)
    index = None if faults else position(machines, stated)
    if index is None:
        return -1, faults or ["the architecture is not in the space"]
    return index, differences("architecture", stated, architecture_solution(machines, index))


def _order(places: Sequence[int], points: Sequence[dict[str, Any]]) -> list[str]:
    """Whether the points are sorted by falling score (then rising area, then position), and none dominates another."""
    score, area, power = (np.array([point[key] for point in points]) for key in ("score", "area_mm2", "power_w"))
    faults = []
    if not np.array_equal(np.lexsort((np.array(places[: len(points)]), area, -score)), np.arange(len(points))):
        faults.append(f"{WHERE}.points must be sorted by decreasing score, then by increasing area")
    dominated = np.flatnonzero(~non_dominated(-score, area, power)).tolist()
    return faults + [f"{WHERE}.points[{number}] is dominated by another point" for number in dominated]


class _Points:
    """The points of a front on ``machines``: those of the points, then those that are undecided."""

    def __init__(self, problem: CodesignProblem, machines: Machines, stated: dict[str, Any]) -> None:
        self._problem = replace(problem, objective=replace(problem.objective, per="throughput"))
        self._machines = machines
        self._stated = stated
        self._row = len(problem.hbm_bytes) - 1
        self._reevaluator = Reevaluator(self._problem, machines, Allowance())

    def faults(self) -> list[str]:
        """What is wrong with them."""
        points, names = self._stated["points"], {job.name for job in self._problem.jobs}
        faults = []
        for number, point in enumerate(points):
            where = f"{WHERE}.points[{number}]"
            if set(point["models"]) != names:
                faults.append(f"{where}.models must be {sorted(names)}, but got {sorted(point['models'])}")
            else:
                faults += [f"{where}: {fault}" for fault in self._depth_faults(point)]
        if faults:
            return faults
        requests = [
            replace(self._request(number, self._depth(point)), proven=point["proven"])
            for number, point in enumerate(points)
        ]
        for each, answer in zip(requests, self._reevaluator.evaluate(requests), strict=True):
            point, where = points[each.place], f"{WHERE}.points[{each.place}]"
            if answer.complete:
                faults += differences(where, point, self._expected(each.place, answer))
            else:
                faults += [f"{where}: {fault}" for fault in self._confined(each.place, point, answer)]
        return faults + list(self._too_deep(requests)) + list(self._decided())

    def _request(self, place: int, nodes: int) -> Request:
        return Request(place, self._row, (nodes,) * len(self._problem.jobs))

    @staticmethod
    def _depth(point: dict[str, Any]) -> int:
        return int(next(iter(point["models"].values()))["schedule_nodes"])

    def _depth_faults(self, point: dict[str, Any]) -> list[str]:
        """A depth to which no front is searched, or one at which a search does not end that is not stopped."""
        depths = [plan["schedule_nodes"] for plan in point["models"].values()]
        if not set(depths) <= set(NODES) or len(set(depths)) != 1:
            return [f"schedule_nodes must be one of {NODES} for all models, but got {depths}"]
        if not point["proven"] and self._stated["stopped"] is None and depths[0] != NODES[-1]:
            return [f"proven must be true, or schedule_nodes must be {NODES[-1]}, where the search ends"]
        return []

    def _too_deep(self, requests: Sequence[Request]) -> Iterator[str]:
        """Points that were proven before the depth at which they are said to be."""
        deep = [each for each in requests if each.depths[0] > NODES[0]]
        before = [
            replace(self._request(each.place, NODES[NODES.index(each.depths[0]) - 1]), proven=False) for each in deep
        ]
        for each, answer in zip(before, self._reevaluator.evaluate(before), strict=True):
            if answer.exact:
                where, limit = f"{WHERE}.points[{each.place}]", each.depths[0]
                yield f"{where}: schedule_nodes must be lower: the plans are already proven at {limit}"

    def _decided(self) -> Iterator[str]:
        """Architectures that are said to be undecided, but proven at once."""
        first = len(self._stated["points"])
        requests = [self._request(place, NODES[0]) for place in range(first, len(self._machines))]
        for each, answer in zip(requests, self._reevaluator.shallow(requests), strict=True):
            if answer.exact:
                yield f"{WHERE}.undecided[{each.place - first}] is proven not to be on the front"

    def _expected(self, place: int, answer: Reevaluation) -> dict[str, Any]:
        """The point as it must be stated."""
        plans = answer.plans(self._row)
        return {
            "score": float(answer.scores[self._row]),
            "area_mm2": float(self._machines.area_mm2[place]),
            "power_w": self._power_w(place, plans),
            "proven": answer.exact,
            "architecture": architecture_solution(self._machines, place),
            "models": {job.name: plan_summary(job, plan) for job, plan in zip(self._problem.jobs, plans, strict=True)},
        }

    def _power_w(self, place: int, plans: Sequence[TrainingPlan]) -> float:
        """The mean over models of the average power of an accelerator."""
        powers = [
            checked_energy(
                job,
                self._machines.one(place),
                plan.placement,
                (plan.microbatch, plan.hbm_bytes, plan.recompute),
                self._machines.energy,
            ).power_w
            for job, plan in zip(self._problem.jobs, plans, strict=True)
        ]
        return float(np.average(powers, weights=self._problem.objective.weights))

    def _confined(self, place: int, point: dict[str, Any], answer: Reevaluation) -> Iterator[str]:
        """What is wrong with a point, given the plans and bounds of an evaluation less deep than its own."""
        models, jobs = point["models"], self._problem.jobs
        plans = []
        for job, evaluation, plan in zip(jobs, answer.evaluations, answer.plans(self._row), strict=True):
            stated = models[job.name]
            min_s, max_s = evaluation.bound_s[self._row], plan.placement.batch_s
            if not min_s * (1 - PROOF_TOLERANCE) <= stated["batch_s"] <= max_s * (1 + PROOF_TOLERANCE):
                yield f"models.{job.name}.batch_s must be in [{min_s}, {max_s}], but got {stated['batch_s']}"
            placement = replace(plan.placement, batch_s=stated["batch_s"])
            plans.append(replace(plan, placement=placement, schedule_nodes=stated["schedule_nodes"]))
            yield from (f"models.{job.name}.{fault}" for fault in _plan_faults(job, stated, plans[-1]))
        rates = [[models[job.name]["throughput_per_s"]] for job in jobs]
        recomputed = {
            "score": float(self._problem.objective.score(np.array(rates))[0]),
            "area_mm2": float(self._machines.area_mm2[place]),
        }
        free = {key: point[key] for key in ("power_w", "proven", "architecture", "models")}
        yield from differences("the point", point, recomputed | free)
        power_w = self._power_w(place, plans)
        same = all(plan_summary(job, plan) == models[job.name] for job, plan in zip(jobs, plans, strict=True))
        if same and not abs(point["power_w"] / power_w - 1) <= _STAGES:
            yield f"power_w must be within {_STAGES:.0%} of {power_w}, but got {point['power_w']}"


def _plan_faults(job: TrainingJob, stated: dict[str, Any], plan: TrainingPlan) -> list[str]:
    """What is wrong with the summary of a plan, which may be another one than the plan ``plan``."""
    expected = plan_summary(job, plan)
    counts = {key: stated[key] for key in ("pipeline", "data", "tensor", "accelerators_used", "microbatch")}
    faults = differences("plan", stated, expected | counts | {"recompute": stated["recompute"]})
    faults += choice_faults(job, stated)
    pipelines, left = divmod(stated["accelerators_used"], stated["data"])
    if left or not 1 <= stated["pipeline"] <= pipelines or stated["accelerators_used"] > job.accelerators:
        faults.append(f"accelerators_used must be the total of all pipelines, but got {counts}")
    return faults
