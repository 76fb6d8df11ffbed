"""The check of one setting of a sensitivity analysis: the architectures that its point names, evaluated again.

The answer's, today's and those that have the optimum at an HBM size must lie in the space at that setting, and are
evaluated under the turned problem as deep as is stated (:mod:`dse.codesign.check_metrics.reevaluation`). That no other
one does better there, which is what the bound says, is not proven again.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from dse.codesign.check import choice_faults
from dse.codesign.check_metrics.optimum import size_faults
from dse.codesign.check_metrics.reevaluation import Allowance, Depths, Reevaluation, Reevaluator, Request
from dse.codesign.evaluation.evaluator import Evaluator
from dse.codesign.problem import CodesignProblem
from dse.codesign.search.exhaustive import NODES
from dse.codesign.sensitivity.probe import Architecture, PlanSummary, Point, summaries
from dse.results.differences import differences
from dse.results.result import PROOF_TOLERANCE, proven_status
from hardware.machines import Machines
from hardware.units import gib_from_bytes


@dataclass(frozen=True)
class _Claim:
    """That an architecture has this score at an HBM size, its schedules searched so deep, and these plans if any."""

    name: str
    architecture: Architecture
    row: int
    depths: Depths
    score: float
    plans: tuple[PlanSummary, ...] = ()


def nothing_fits(problem: CodesignProblem, machines: Machines) -> bool:
    """Whether there is no architecture, or none trains all models: memory does not depend on the architecture."""
    return not len(machines) or not all(Evaluator(job, machines.one(0)).fits() for job in problem.jobs)


def point_faults(
    problem: CodesignProblem, machines: Machines, point: Point, today: Architecture, allowance: Allowance
) -> list[str]:
    """What is wrong with ``point``.

    Args:
        problem: the question at this setting.
        machines: the space at this setting.
        point: what is stated.
        today: the architecture of today's answer.
        allowance: for deeper evaluations.
    """
    if point.score is None:
        return _unanswered(problem, machines, point)
    sizes = [gib_from_bytes(size) for size in problem.hbm_bytes]
    rows = {sizes.index(plan.hbm_gb) for plan in (*point.plans, *point.today_plans) if plan.hbm_gb in sizes}
    if len(rows) != 1 or len(point.optima) != len(sizes) or len(point.reached_by) != len(sizes):
        return [f"plans must have one of the HBM sizes {sizes} GB, and optima must cover all of them"]
    row = rows.pop()
    faults = _relations(problem, machines, point, today) + differences("optima", point.optima[row], point.score)
    claims, claim_faults = _claims(point, today, row)
    faults += claim_faults
    for claim in claims:
        if len(claim.depths) != len(problem.jobs) or any(nodes not in NODES for nodes in claim.depths):
            faults.append(f"{claim.name}: schedule_nodes must be one of {NODES} for each model, but got {claim.depths}")
        if (place := claim.architecture.position(machines)) is None:
            faults.append(f"{claim.name}: {claim.architecture} is not in the space")
        else:
            faults += differences(claim.name, asdict(claim.architecture), asdict(Architecture.of(machines, place)))
    return faults or _reevaluate(problem, machines, claims, point, allowance)


def _unanswered(problem: CodesignProblem, machines: Machines, point: Point) -> list[str]:
    """A point without an answer says nothing more, and nothing fits."""
    if point.status != "infeasible" or not nothing_fits(problem, machines):
        return [f"score must be given unless nothing fits, but the status is {point.status}"]
    empty = (point.bound, point.architecture, point.plans, point.today_score, point.today_plans)
    none = (None,) * len(problem.hbm_bytes)
    if empty != (None, None, (), None, ()) or any(point.optima) or point.reached_by != none:
        return ["entries other than the status must be empty, because nothing fits"]
    return []


def _relations(problem: CodesignProblem, machines: Machines, point: Point, today: Architecture) -> list[str]:
    """What score, bound and status say of each other, and whether the plans are those of the models."""
    score, bound, faults = point.score or 0.0, point.bound, []
    if bound is None or max(score, point.today_score or 0.0) > bound * (1 + PROOF_TOLERANCE):
        faults.append(
            f"bound must be at least the score {score} and the score of today's architecture, but got {bound}"
        )
    status = proven_status(score, bound)
    if point.status not in (status, "feasible"):
        faults.append(f"status must be {status}, but got {point.status}")
    names = tuple(job.name for job in problem.jobs)
    fits = today.position(machines) is not None
    models = [tuple(plan.model for plan in plans) for plans in (point.plans, point.today_plans)]
    if point.architecture is None or models != [names, names if fits else ()] or (point.today_score is None) == fits:
        faults.append(
            f"plans must be given for {names}, and for today's architecture, with a score, if it is in the space"
        )
    return faults


def _claims(point: Point, today: Architecture, row: int) -> tuple[list[_Claim], list[str]]:
    """All that the point says of architectures, and optima of which it does not say who has them."""
    claims, faults = [], []
    if point.architecture is not None and point.score is not None:
        claims.append(_Claim("score", point.architecture, row, _depths(point.plans), point.score, point.plans))
    if point.today_score is not None:
        depths = _depths(point.today_plans)
        claims.append(_Claim("today_score", today, row, depths, point.today_score, point.today_plans))
    for size, (optimum, who) in enumerate(zip(point.optima, point.reached_by, strict=True)):
        if who is not None:
            claims.append(_Claim(f"optima[{size}]", who.architecture, size, who.schedule_nodes, optimum))
        elif optimum:
            faults.append(f"reached_by[{size}] must name the architecture that reaches {optimum}")
    return claims, faults


def _depths(plans: Sequence[PlanSummary]) -> Depths:
    return tuple(plan.schedule_nodes for plan in plans)


def _reevaluate(
    problem: CodesignProblem, machines: Machines, claims: Sequence[_Claim], point: Point, allowance: Allowance
) -> list[str]:
    """What evaluating the named architectures says of the ``claims``, of which the first is the answer's."""
    places = {claim.architecture: claim.architecture.position(machines) for claim in claims}
    order = list(places)
    reevaluator = Reevaluator(problem, machines.take(np.array([places[each] for each in order])), allowance)
    proven = point.status == "optimal"
    requests = [Request(order.index(claim.architecture), claim.row, claim.depths, proven) for claim in claims]
    answers, faults = reevaluator.evaluate(requests), []
    for claim, each, answer in zip(claims, requests, answers, strict=True):
        faults += answer.faults(claim.name, claim.score, claim.row)
        faults += [f"{claim.name}: {fault}" for fault in _plan_faults(problem, claim, answer)]
        if reevaluator.is_too_deep(each, NODES):
            faults.append(
                f"{claim.name}: schedule_nodes must be lower than {claim.depths}: a plan is already proven with "
                "fewer nodes"
            )
    optima = list(point.optima)
    fits = (answers[0].scores > 0).tolist()
    if fits != [optimum > 0 for optimum in optima]:
        faults.append(f"optima must be 0 if and only if nothing fits, but got {optima}")
    return faults + size_faults("optima", problem, optima, claims[0].row, answers[0])


def _plan_faults(problem: CodesignProblem, claim: _Claim, answer: Reevaluation) -> list[str]:
    """What is wrong with the summaries of plans; those of a less deep evaluation confine them."""
    if not claim.plans:
        return []
    plans = [
        replace(plan, schedule_nodes=nodes) for plan, nodes in zip(answer.plans(claim.row), claim.depths, strict=True)
    ]
    expected = [asdict(each) for each in summaries(problem, plans)]
    if answer.complete:
        return differences("plans", [asdict(plan) for plan in claim.plans], expected)
    faults = []
    for job, stated, slowest, evaluation in zip(problem.jobs, claim.plans, expected, answer.evaluations, strict=True):
        faults += choice_faults(job, asdict(stated))
        lower, upper = slowest["throughput_per_s"], job.global_batch / evaluation.bound_s[claim.row]
        if not lower * (1 - PROOF_TOLERANCE) <= stated.throughput_per_s <= upper * (1 + PROOF_TOLERANCE):
            faults.append(f"throughput_per_s must be in [{lower}, {upper}], but got {stated.throughput_per_s}")
    if problem.objective.per == "throughput":
        rates = np.array([[plan.throughput_per_s] for plan in claim.plans])
        faults += differences(claim.name, claim.score, float(problem.objective.score(rates)[0]))
    return faults
