"""The main job as one function: options in, checked result out."""

import math
import time
from typing import Any

from dse.codesign.baseline import baselines
from dse.codesign.check import answer_metrics, violations
from dse.codesign.evaluator import Choice, Evaluator
from dse.codesign.exhaustive import EvaluationStore, search
from dse.codesign.formats import architecture_solution, layer_solution, plan_solution, problem_document
from dse.codesign.layer_problem import schedule_problem
from dse.codesign.options import CodesignOptions
from dse.codesign.problem import CodesignProblem, LayerSchedules, SearchOutcome, TrainingPlan
from dse.executor import Executor, InProcessExecutor
from dse.placement.answer import shortfall_document
from dse.placement.problem import MemoryShortfall
from dse.placement.solve import solve as place
from dse.progress import ProgressCallback, StopSignal, never_stop, silent
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
    stop: StopSignal = never_stop,
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
    value = infeasibility = None
    solution: dict[str, Any] = {"settings": options.document()}
    if Evaluator(problem, machines.one(0)).fits():
        with executor or InProcessExecutor() as running:
            outcome = search(problem, machines, running, {} if store is None else store, progress, stop)
    else:
        # Memory does not depend on the architecture, so there is nothing to search.
        outcome = SearchOutcome.nothing_fits(len(machines))
        infeasibility = infeasibility_document(why_nothing_fits(problem, machines))
    bound = outcome.bound_per_s if 0 < outcome.bound_per_s < math.inf else None
    metrics = _search_metrics(machines, outcome)
    if outcome.best is not None and outcome.plan is not None:
        value = outcome.plan.throughput_per_s(problem.global_batch)
        solution |= _solution(problem, machines, outcome.best, outcome.plan)
        faults = violations(problem, solution)
        if faults:
            raise FailedCheckError("; ".join(faults))
        metrics |= answer_metrics(problem, solution, machines) | {"baselines": baselines(problem)}
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
    return "feasible" if status == "optimal" and not outcome.proven else status


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


def infeasibility_document(shortfall: MemoryShortfall) -> dict[str, Any]:
    """A memory shortfall as JSON types, in the terms of this command's options."""
    document = shortfall_document(shortfall)
    needed_gb = math.ceil(100 * gib_from_bytes(shortfall.needed_bytes)) / 100
    remedy = f"It would fit with --hbm-gb {needed_gb:g}, a smaller model, or more tensor parallelism."
    explanation = str(document["explanation"]).removesuffix(shortfall.remedy) + remedy
    return document | {"remedy": remedy, "explanation": explanation}
