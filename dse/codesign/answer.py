"""The main job as one function: options in, checked result out."""

import math
import time
from typing import Any

from dse.codesign.baseline import baselines
from dse.codesign.check import violations
from dse.codesign.evaluator import Choice, Evaluator
from dse.codesign.exhaustive import EvaluationStore, search
from dse.codesign.formats import architecture_solution, layer_solution, plan_solution, problem_document
from dse.codesign.options import CodesignOptions
from dse.codesign.pricing import schedule_problem
from dse.codesign.problem import CodesignProblem, LayerSchedules, SearchOutcome, TrainingPlan
from dse.executor import Executor, InProcessExecutor
from dse.placement.answer import shortfall_document
from dse.placement.check import stage_memory_bytes
from dse.placement.problem import MemoryShortfall
from dse.placement.solve import solve as place
from dse.progress import ProgressCallback, silent
from dse.result import (
    FailedCheckError,
    Objective,
    ProblemReference,
    Result,
    Status,
    digest,
    proven_status,
    relative_gap,
)
from dse.schedule.segment_search import SearchLimits
from dse.schedule.solve import solve_search
from hardware.machines import Machines
from hardware.units import gib_from_bytes


def solve(
    options: CodesignOptions,
    executor: Executor | None = None,
    store: EvaluationStore | None = None,
    progress: ProgressCallback = silent,
    deadline_s: float | None = None,
    seed: int = 0,
) -> tuple[Result, SearchOutcome]:
    """The best architecture and plan for ``options``, proven over the whole space.

    Returns:
        The result, passed by the checker, and what the search saw (for tables and the report).

    Raises:
        InputError: options that break a rule, or an area budget below the smallest architecture.
        FailedCheckError: the checker refuses the answer (a fault of this program).
    """
    started = time.perf_counter()
    problem, machines = options.problem(), options.machines()
    with executor or InProcessExecutor() as running:
        outcome = search(problem, machines, running, {} if store is None else store, progress, deadline_s)
    value = bound = infeasibility = None
    solution: dict[str, Any] = {}
    metrics = _search_metrics(machines, outcome)
    if outcome.best is not None and outcome.plan is not None:
        value = outcome.plan.throughput_per_s(problem.global_batch)
        bound = outcome.bound_per_s if math.isfinite(outcome.bound_per_s) else None
        solution = {"settings": options.document(), **_solution(problem, machines, outcome.best, outcome.plan)}
        faults = violations(problem, solution)
        if faults:
            raise FailedCheckError("; ".join(faults))
        metrics |= _answer_metrics(problem, machines, outcome.best, outcome.plan)
    elif outcome.stopped is None:
        infeasibility = shortfall_document(why_nothing_fits(problem, machines))
    result = Result(
        command="codesign",
        problem=ProblemReference(name=problem.model.name, digest=digest(problem_document(problem))),
        status=_status(outcome, value, bound),
        objective=Objective(name="throughput", value=value, unit="samples/s", sense="max"),
        bound=bound,
        gap=relative_gap(value, bound),
        solution=solution,
        metrics=metrics,
        infeasibility=infeasibility,
        evaluations=outcome.evaluations,
        seconds=time.perf_counter() - started,
        seed=seed,
        method=options.search,
    )
    return result, outcome


def _status(outcome: SearchOutcome, value: float | None, bound: float | None) -> Status:
    if outcome.stopped is None and value is None:
        return "infeasible"
    if outcome.stopped == "interrupted":
        return "interrupted"
    status = proven_status(value, bound)
    # Other HBM sizes may still be open when a search is stopped, so the choice of the size is not proven.
    return "feasible" if outcome.stopped and status == "optimal" else status


def _search_metrics(machines: Machines, outcome: SearchOutcome) -> dict[str, Any]:
    finished = outcome.stopped is None
    return {
        "architectures_in_space": len(machines),
        "architectures_evaluated": outcome.evaluations,
        "architectures_pruned": len(machines) - outcome.evaluations if finished else 0,
        "optimum_by_hbm_per_s": {
            f"{gib_from_bytes(size):g}": value for size, value in outcome.optimum_by_hbm_per_s.items()
        },
    }


def _solution(problem: CodesignProblem, machines: Machines, best: int, plan: TrainingPlan) -> dict[str, Any]:
    evaluator = Evaluator(problem, machines)
    graph = evaluator.graphs[plan.microbatch, plan.placement.tensor]
    layers = {}
    for layer in graph.distinct_layers:
        parts = {"forward": layer.forward, "backward": layer.backward, "update": layer.update}
        solved = {
            part: solve_search(
                schedule_problem(f"{layer.kind} {part}", operators, machines, best, problem.network),
                SearchLimits(nodes=plan.schedule_nodes),
            )
            for part, operators in parts.items()
        }
        names = {part: [operator.name for operator in operators] for part, operators in parts.items()}
        layers[layer.kind] = layer_solution(LayerSchedules(**solved), names)
    return {
        "architecture": architecture_solution(machines, best),
        "models": {problem.model.name: {**plan_solution(problem, plan, graph.names), "layers": layers}},
    }


def _answer_metrics(problem: CodesignProblem, machines: Machines, best: int, plan: TrainingPlan) -> dict[str, Any]:
    evaluator = Evaluator(problem, machines)
    choice = Choice(plan.microbatch, plan.placement.tensor, plan.hbm_bytes, plan.recompute)
    placement_problem = evaluator.placement_problem(choice, None)
    graph = placement_problem.tensor_parallel[plan.placement.tensor]
    stages = plan.placement.stages
    fullest_bytes = max(
        stage_memory_bytes(placement_problem, graph, stage, len(stages) - position)
        for position, stage in enumerate(stages)
    )
    budget_mm2 = problem.area_budget_mm2 or float(machines.area_mm2.max())
    return {
        "area_budget_used": float(machines.area_mm2[best]) / budget_mm2,
        "model_flops_utilisation": evaluator.utilisation(best, plan),
        "peak_memory_gb": gib_from_bytes(fullest_bytes),
        "baselines": baselines(problem),
    }


def why_nothing_fits(problem: CodesignProblem, machines: Machines) -> MemoryShortfall:
    """The shortfall of the choice that comes closest to fitting: memory does not depend on the architecture."""
    evaluator = Evaluator(problem, machines.one(0))
    microbatch, hbm_bytes = problem.microbatches[0], problem.hbm_bytes[-1]
    shortfalls = [
        place(evaluator.placement_problem(Choice(microbatch, width, hbm_bytes, recompute), None)).shortfall
        for width in problem.tensor_parallel
        for recompute in (False, True)
    ]
    return min((found for found in shortfalls if found is not None), key=lambda found: found.excess_bytes)
