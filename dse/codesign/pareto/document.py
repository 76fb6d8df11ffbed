"""The Pareto front as JSON types."""

from typing import Any

from dse.codesign.formats import architecture_solution, plan_summary
from dse.codesign.pareto.front import ParetoFront
from dse.codesign.problem import CodesignProblem
from hardware.machines import Machines
from hardware.units import gib_from_bytes


def front_document(problem: CodesignProblem, machines: Machines, front: ParetoFront) -> dict[str, Any]:
    """The front by falling score: each point with its architecture, the plan of each model, and whether it is exact."""
    points = [
        {
            "score": point.score,
            "area_mm2": point.area_mm2,
            "power_w": point.power_w,
            "proven": point.proven,
            "architecture": architecture_solution(machines, point.architecture),
            "models": {job.name: plan_summary(job, plan) for job, plan in zip(problem.jobs, point.plans, strict=True)},
        }
        for point in front.points
    ]
    return {
        "hbm_gb": gib_from_bytes(front.hbm_bytes),
        "mean": problem.objective.mean,
        "proven": front.proven,
        "architectures_in_space": front.architectures,
        "architectures_evaluated": len(front.evaluated),
        "architectures_pruned": 0 if front.stopped else front.architectures - len(front.evaluated),
        "undecided": [architecture_solution(machines, index) for index in front.undecided],
        "stopped": front.stopped,
        "points": points,
    }
