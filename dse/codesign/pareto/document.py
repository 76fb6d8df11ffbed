"""The Pareto front as JSON types, as a table for people, and as a Parquet table of everything that was evaluated."""

from typing import Any

import numpy as np
import pyarrow as pa

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


def front_rows(machines: Machines, front: ParetoFront, most: int = 12) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """(headings, rows) of at most ``most`` points, evenly spread over the front from the fastest to the slowest."""
    count = len(front.points)
    chosen = sorted(set(np.linspace(0, count - 1, min(most, count)).round().astype(int).tolist())) if count else []
    headings: tuple[str, ...] = ("samples/s", "mm²", "W", "architecture", "exact")
    rows: list[tuple[str, ...]] = []
    for position in chosen:
        point = front.points[position]
        cells = (f"{point.score:,.4g}", f"{point.area_mm2:.1f}", f"{point.power_w:.0f}")
        rows.append((*cells, machines.describe(point.architecture).split(" mm²")[0], "yes" if point.proven else "no"))
    return headings, rows


def front_table(machines: Machines, front: ParetoFront) -> pa.Table:
    """One row for each architecture that was evaluated: its parameters, score, area, power, and what it is.

    ``on_front``: no evaluated one dominates it; ``proven``: so, and its plans are proven to be the fastest;
    ``undecided``: off the front, but its bounds do not keep it off.
    """
    indices = sorted(front.evaluated)
    exact = {point.architecture: point.proven for point in front.points}
    undecided = set(front.undecided)
    kept = machines.take(np.array(indices, dtype=np.int64))
    return pa.table(
        {
            "architecture": pa.array(indices, pa.int64()),
            "tensor_cores": kept.tensor_cores,
            "core_width": kept.core_width,
            "core_depth": kept.core_depth,
            "vector_cores": kept.vector_cores,
            "vector_lanes": kept.vector_lanes,
            "global_buffer_bytes": kept.global_buffer_bytes,
            "area_mm2": kept.area_mm2,
            "score": pa.array([front.evaluated[index][0] for index in indices], pa.float64()),
            "power_w": pa.array([front.evaluated[index][1] for index in indices], pa.float64()),
            "on_front": pa.array([index in exact for index in indices], pa.bool_()),
            "proven": pa.array([exact.get(index, False) for index in indices], pa.bool_()),
            "undecided": pa.array([index in undecided for index in indices], pa.bool_()),
        }
    )
