"""Co-search answers as JSON types: the ``solution`` of a result, and evaluations for the journal."""

import math
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from dse.codesign.context import SearchContext
from dse.codesign.evaluation.evaluator import Evaluate
from dse.codesign.evaluation.job_evaluators import JobTask
from dse.codesign.problem import CodesignProblem, Evaluation, LayerSchedules, TrainingJob, TrainingPlan
from dse.placement.problem import Placement, Stage
from dse.results.result import digest
from dse.run.journal import Journal
from dse.schedule.formats import schedule_document
from hardware.area import area_model
from hardware.cost_model import vector_cycles
from hardware.machines import Machines
from hardware.units import gib_from_bytes

SIZES = ("tensor_cores", "core_width", "core_depth", "vector_cores", "vector_lanes", "global_buffer_bytes")
"""What distinguishes one architecture from another."""


def problem_document(problem: CodesignProblem) -> dict[str, Any]:
    """Everything that decides the answer, as JSON types (its digest names the problem)."""
    objective = problem.objective
    return {
        "jobs": [job_document(job) for job in problem.jobs],
        "area_model": area_model().model_dump(mode="json"),
        "area_budget_mm2": problem.area_budget_mm2,
        "space": problem.space.model_dump(mode="json"),
        "fixed": None if problem.fixed is None else machine_document(problem.fixed.machines, 0),
        "objective": {**asdict(objective), "weights": None if objective.weights is None else list(objective.weights)},
    }


def job_document(job: TrainingJob) -> dict[str, Any]:
    """Everything that decides what an architecture is worth for one job, as JSON types."""
    return {
        "model": job.workload.document(),
        "cost_model": job.cost_model.model_dump(mode="json"),
        "vector_cycles": vector_cycles(job.cost_model.hardware.vector_cycles).model_dump(mode="json"),
        "network": job.network.document(),
        "accelerators": job.accelerators,
        "global_batch": job.global_batch,
        "microbatches": list(job.microbatch_sizes),
        "hbm_bytes": list(job.hbm_bytes),
        "tensor_parallel": list(job.tensor_parallel),
        "pipeline_schedule": job.pipeline_schedule,
    }


def machine_document(machines: Machines, index: int) -> dict[str, Any]:
    """Everything that decides the times of one machine, as JSON types."""
    return {
        **architecture_solution(machines, index),
        "clock_hz": machines.clock_hz,
        "hbm_bytes_per_s": machines.hbm_bytes_per_s,
        "global_buffer_words_per_cycle": machines.global_buffer_words_per_cycle,
        "element_bytes": machines.element_bytes,
        "process_nm": machines.process_nm,
        "rules": machines.rules.model_dump(mode="json"),
        "kernels": {kind: asdict(constants) for kind, constants in machines.kernels.items()},
        "block_tiles": [list(tile) for tile in machines.block_tiles],
        **({} if machines.process_nm is None else {"energy": asdict(machines.energy)}),
        **({"dies": machines.dies, "d2d_bytes_per_s": machines.d2d_bytes_per_s} if machines.dies > 1 else {}),
    }


def position(machines: Machines, sizes: Mapping[str, Any]) -> int | None:
    """Position of the architecture of these sizes, by name, in ``machines``; None if it is not there."""
    same = np.flatnonzero(np.logical_and.reduce([getattr(machines, name) == sizes[name] for name in SIZES]))
    return int(same[0]) if len(same) == 1 else None


def architecture_solution(machines: Machines, index: int) -> dict[str, Any]:
    """The architecture's parameters by name."""
    return {
        "tensor_cores": int(machines.tensor_cores[index]),
        "core_width": int(machines.core_width[index]),
        "core_depth": int(machines.core_depth[index]),
        "vector_cores": int(machines.vector_cores[index]),
        "vector_lanes": int(machines.vector_lanes[index]),
        "global_buffer_bytes": int(machines.global_buffer_bytes[index]),
        "tensor_l2_bytes": int(machines.tensor_l2_bytes[index]),
        "vector_l2_bytes": int(machines.vector_l2_bytes[index]),
        "area_mm2": float(machines.area_mm2[index]),
    }


def plan_summary(job: TrainingJob, plan: TrainingPlan) -> dict[str, Any]:
    """One model's plan without its stages: the choices, {p, d, t}, batch time, throughput, and ``schedule_nodes``.

    An evaluation of the architecture to that many states finds the plan again.
    """
    placement = plan.placement
    return {
        "pipeline": len(placement.stages),
        "data": placement.data,
        "tensor": placement.tensor,
        "microbatch": plan.microbatch,
        "recompute": plan.recompute,
        "hbm_gb": gib_from_bytes(plan.hbm_bytes),
        "accelerators_used": placement.data * sum(stage.accelerators for stage in placement.stages),
        "batch_s": placement.batch_s,
        "throughput_per_s": plan.throughput_per_s(job.global_batch),
        "schedule_nodes": plan.schedule_nodes,
    }


def plan_solution(job: TrainingJob, plan: TrainingPlan, names: Sequence[str]) -> dict[str, Any]:
    """:func:`plan_summary` with the stages, in the model's layer names."""
    stages = [
        {"layers": [names[layer] for layer in stage.layers], "accelerators": stage.accelerators}
        for stage in plan.placement.stages
    ]
    return {**plan_summary(job, plan), "stages": stages}


def layer_solution(schedules: LayerSchedules, names: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The operator schedules of one distinct layer: forward, backward and update, each with its proof."""
    return {
        part: {
            "makespan_s": getattr(schedules, part).schedule.makespan_s,
            "bound_s": getattr(schedules, part).bound_s,
            **schedule_document(getattr(schedules, part).schedule, names[part]),
        }
        for part in ("forward", "backward", "update")
    }


class JournalledEvaluations(MutableMapping[JobTask, Evaluation]):
    """Finished evaluations of one problem, kept in a journal under the hash of job, architecture and effort."""

    def __init__(self, journal: Journal, problem: CodesignProblem, machines: Machines) -> None:
        self._journal = journal
        self._jobs = [digest(job_document(job)) for job in problem.jobs]
        self._machines = machines

    def _key(self, task: JobTask) -> str:
        assert isinstance(task.task, Evaluate)
        return digest([self._jobs[task.job], machine_document(self._machines, task.task.index), _nodes(task)])

    def __getitem__(self, task: JobTask) -> Evaluation:
        try:
            return evaluation_from_document(self._journal[self._key(task)])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._journal.damaged(self._key(task), error) from error

    def __contains__(self, task: object) -> bool:
        return isinstance(task, JobTask) and self._key(task) in self._journal

    def __setitem__(self, task: JobTask, evaluation: Evaluation) -> None:
        self.update({task: evaluation})

    def update(self, other: Any = (), /, **named: Any) -> None:
        """Record evaluations together, as one write."""
        evaluations: dict[JobTask, Evaluation] = dict(other, **named)
        self._journal.append_all(
            {
                self._key(task): {"job": task.job, "nodes": _nodes(task), **evaluation_document(evaluation)}
                for task, evaluation in evaluations.items()
            }
        )

    def __delitem__(self, task: JobTask) -> None:
        raise TypeError("a journal only grows")

    def __iter__(self) -> Iterator[JobTask]:
        return (
            JobTask(int(value["job"]), Evaluate(int(value["architecture"]), int(value["nodes"])))
            for value in self._journal.values()
        )

    def __len__(self) -> int:
        return len(self._journal)


def failed_document(context: SearchContext) -> list[dict[str, Any]]:
    """The architectures on which evaluations have failed, each once per model, as JSON types."""
    reasons = {
        (task.job, task.task.index): reason
        for task, reason in context.failures.items()
        if isinstance(task.task, Evaluate)
    }
    return [
        {
            "model": context.problem.jobs[job].name,
            "architecture": architecture_solution(context.machines, index),
            "reason": reason,
        }
        for (job, index), reason in sorted(reasons.items())
    ]


def _nodes(task: JobTask) -> int:
    """States to which an evaluation searches the schedules."""
    assert isinstance(task.task, Evaluate)
    return task.task.nodes


def evaluation_document(evaluation: Evaluation) -> dict[str, Any]:
    """An evaluation as JSON types; infinite bounds (nothing fits) become None."""
    bounds = {"bound_s": evaluation.bound_s, "bound_j": evaluation.bound_j}
    return {
        "architecture": evaluation.architecture,
        **{key: [None if math.isinf(bound) else bound for bound in values] for key, values in bounds.items()},
        "plans": [None if plan is None else _plan_document(plan) for plan in evaluation.plans],
    }


def evaluation_from_document(document: dict[str, Any]) -> Evaluation:
    """The inverse of :func:`evaluation_document`."""
    bounds = {
        key: tuple(math.inf if bound is None else bound for bound in document[key]) for key in ("bound_s", "bound_j")
    }
    plans = tuple(None if plan is None else _plan_from_document(plan) for plan in document["plans"])
    return Evaluation(document["architecture"], plans, **bounds)


def _plan_document(plan: TrainingPlan) -> dict[str, Any]:
    placement = plan.placement
    return {
        "microbatch": plan.microbatch,
        "hbm_bytes": plan.hbm_bytes,
        "recompute": plan.recompute,
        "bound_s": plan.bound_s,
        "schedule_nodes": plan.schedule_nodes,
        "tensor": placement.tensor,
        "data": placement.data,
        "batch_s": placement.batch_s,
        "stages": [
            [list(stage.layers), stage.accelerators, [list(group) for group in stage.groups]]
            for stage in placement.stages
        ],
    }


def _plan_from_document(document: dict[str, Any]) -> TrainingPlan:
    placement = Placement(
        tensor=document["tensor"],
        data=document["data"],
        stages=tuple(
            Stage(tuple(layers), accelerators, tuple(map(tuple, groups)))
            for layers, accelerators, groups in document["stages"]
        ),
        batch_s=document["batch_s"],
    )
    return TrainingPlan(
        microbatch=document["microbatch"],
        hbm_bytes=document["hbm_bytes"],
        recompute=document["recompute"],
        placement=placement,
        bound_s=document["bound_s"],
        schedule_nodes=document["schedule_nodes"],
    )
