"""The main job as one function: problem in, checked result out."""

import math
import time
from typing import Any

import numpy as np

from dse.codesign.check import violations
from dse.codesign.evaluator import Evaluator
from dse.codesign.exhaustive import EvaluationStore, search
from dse.codesign.formats import architecture_solution, layer_solution, plan_solution, problem_document
from dse.codesign.pricing import schedule_problem
from dse.codesign.problem import CodesignProblem, LayerSchedules, SearchOutcome, TrainingPlan
from dse.executor import Executor, InProcessExecutor
from dse.placement.solve import solve as place
from dse.progress import ProgressCallback, silent
from dse.result import FailedCheck, Objective, ProblemReference, Result, digest, proven_status, relative_gap
from dse.schedule.solve import solve as schedule
from hardware.machines import Machines
from hardware.space import architecture_space


def solve(
    problem: CodesignProblem,
    executor: Executor | None = None,
    store: EvaluationStore | None = None,
    progress: ProgressCallback = silent,
    deadline_s: float | None = None,
    seed: int = 0,
) -> tuple[Result, SearchOutcome]:
    """The best architecture and plan for ``problem``, proven over the whole space.

    Returns:
        The result, passed by the checker, and what the search saw (for tables and the report).

    Raises:
        InputError: the area budget is below the smallest architecture.
        FailedCheck: the checker refuses the answer.
    """
    started = time.perf_counter()
    machines = architecture_space(problem.area_budget_mm2, problem.cost_model)
    with executor or InProcessExecutor() as running:
        outcome = search(problem, machines, running, {} if store is None else store, progress, deadline_s)
    solution: dict[str, Any] = {}
    metrics: dict[str, Any] = {
        "architectures_in_space": len(machines),
        "architectures_evaluated": outcome.evaluations,
        "architectures_pruned": len(machines) - outcome.evaluations if outcome.stopped is None else 0,
        "optimum_by_hbm_per_s": {f"{size / 2**30:g}": value for size, value in outcome.optimum_by_hbm_per_s.items()},
    }
    infeasibility = None
    if outcome.best is not None and outcome.plan is not None:
        solution = _solution(problem, machines, outcome.best, outcome.plan)
        faults = violations(problem, solution)
        if faults:
            raise FailedCheck("; ".join(faults))
        metrics |= _metrics(problem, machines, outcome.best, outcome.plan)
        value = outcome.plan.throughput_per_s(problem.global_batch)
    else:
        value = None
        infeasibility = None if outcome.stopped else why_nothing_fits(problem, machines)
    bound = outcome.bound_per_s if math.isfinite(outcome.bound_per_s) and value is not None else None
    status = _status(outcome, value, bound, infeasibility)
    result = Result(
        command="codesign",
        problem=ProblemReference(name=problem.model.name, digest=digest(problem_document(problem))),
        status=status,
        objective=Objective(name="throughput", value=value, unit="samples/s", sense="max"),
        bound=bound,
        gap=relative_gap(value, bound),
        solution=solution,
        metrics=metrics,
        infeasibility=infeasibility,
        evaluations=outcome.evaluations,
        seconds=time.perf_counter() - started,
        seed=seed,
        method="exhaustive",
    )
    return result, outcome


def _status(outcome: SearchOutcome, value: float | None, bound: float | None, infeasibility: object) -> Any:
    if infeasibility is not None:
        return "infeasible"
    if outcome.stopped == "interrupted":
        return "interrupted"
    status = proven_status(value, bound)
    return "feasible" if outcome.stopped and status == "optimal" else status


def layer_schedules(
    problem: CodesignProblem, machines: Machines, index: int, plan: TrainingPlan
) -> tuple[dict[str, LayerSchedules], dict[str, dict[str, tuple[str, ...]]]]:
    """The schedule of every distinct layer of the plan's graph on machine ``index``, and its operators' names."""
    graph = Evaluator(problem, machines).graphs[plan.microbatch, plan.placement.tensor]
    schedules, names = {}, {}
    for layer in graph.distinct_layers:
        parts = {"forward": layer.forward, "backward": layer.backward, "update": layer.update}
        schedules[layer.kind] = LayerSchedules(
            **{
                part: schedule(schedule_problem(f"{layer.kind} {part}", operators, machines, index, problem.network))
                for part, operators in parts.items()
            }
        )
        names[layer.kind] = {part: tuple(operator.name for operator in graph_) for part, graph_ in parts.items()}
    return schedules, names


def _solution(problem: CodesignProblem, machines: Machines, best: int, plan: TrainingPlan) -> dict[str, Any]:
    graph = Evaluator(problem, machines).graphs[plan.microbatch, plan.placement.tensor]
    return {
        "architecture": architecture_solution(machines, best),
        "models": {
            problem.model.name: plan_solution(problem, plan, graph.names)
            | {"layers": layer_solution(*layer_schedules(problem, machines, best, plan))}
        },
    }


def _metrics(problem: CodesignProblem, machines: Machines, best: int, plan: TrainingPlan) -> dict[str, Any]:
    return {
        "area_budget_used": float(machines.area_mm2[best]) / budget_mm2(problem),
        "model_flops_utilisation": utilisation(problem, machines, best, plan),
        "peak_memory_gb": peak_memory_bytes(problem, machines, best, plan) / 2**30,
    }


def utilisation(problem: CodesignProblem, machines: Machines, index: int, plan: TrainingPlan) -> float:
    """Model FLOPs utilisation (PaLM, appendix B): model FLOPs a second over the peak of all accelerators bought."""
    graph = Evaluator(problem, machines).graphs[plan.microbatch, plan.placement.tensor]
    peak_flops = problem.accelerators * float(machines.peak_flops[index])
    return plan.throughput_per_s(problem.global_batch) * graph.flops_per_sample / peak_flops
