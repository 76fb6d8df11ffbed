"""The main job as one function: options in, checked result out."""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from dse.codesign.baseline import baselines
from dse.codesign.check import answer_metrics, violations
from dse.codesign.context import SearchContext
from dse.codesign.evaluation.evaluator import Evaluator
from dse.codesign.evaluation.job_evaluators import EvaluationStore
from dse.codesign.formats import (
    architecture_solution,
    failed_document,
    layer_solution,
    plan_solution,
    problem_document,
)
from dse.codesign.further import further
from dse.codesign.layer_problem import schedule_problem
from dse.codesign.options import CodesignOptions, Search
from dse.codesign.problem import CodesignProblem, LayerSchedules, SearchOutcome, TrainingJob, TrainingPlan
from dse.codesign.proven import Judged, ProvenOptima, judged
from dse.codesign.search import exhaustive
from dse.codesign.sensitivity.analysis import ProbeStore
from dse.placement.answer import shortfall_document
from dse.placement.problem import MemoryShortfall
from dse.placement.solve import solve as place
from dse.results.result import (
    FailedCheckError,
    Objective,
    ProblemReference,
    Result,
    Status,
    digest,
    proven_status,
    relative_gap,
)
from dse.run.executor import Executor, InProcessExecutor
from dse.run.progress import ProgressCallback, StopSignal, never_stop, silent
from dse.schedule.search.segment_search import SearchLimits
from dse.schedule.solve import solve_search
from dse.sources.describe import note_on_scores
from hardware.machines import Machines
from hardware.units import gib_from_bytes

SearchFunction = Callable[[SearchContext], SearchOutcome]
"""How a space is searched."""


def solve(
    options: CodesignOptions,
    executor: Executor | None = None,
    store: EvaluationStore | None = None,
    progress: ProgressCallback = silent,
    stop: StopSignal = never_stop,
    seed: int = 0,
    search: SearchFunction = exhaustive.search,
    optima: ProvenOptima | None = None,
    probes: ProbeStore | None = None,
) -> tuple[Result, SearchOutcome]:
    """The best architecture and plans for ``options``; with the exhaustive search, proven over the whole space.

    The answer of another search is set beside the proven optimum where that is known or quickly found.

    Args:
        options: what is asked.
        executor: where the work runs; in this process when None.
        store: finished evaluations, read and added to.
        progress: told of each phase.
        stop: asked between pieces of work.
        seed: of searches that draw.
        search: how the space is searched.
        optima: proven optima of earlier runs, read and added to.
        probes: finished steps of the sensitivity analysis, read and added to.

    Returns:
        The result, passed by the checker, and what the search saw (for tables and the report).

    Raises:
        InputError: options that break a rule, or an area budget below the smallest architecture.
        FailedCheckError: the checker refuses the answer (a fault of this program).
    """
    started = time.perf_counter()
    problem = options.problem()
    machines = problem.machines()
    infeasibility = None
    misfit = next((job for job in problem.jobs if not Evaluator(job, machines.one(0)).fits()), None)
    if misfit is None:
        with executor or InProcessExecutor() as running:
            context = SearchContext(problem, machines, running, {} if store is None else store, progress, stop)
            judgement = judged(search(context), context, optima)
            besides = further(options, judgement.outcome, context, probes) | {"failed": failed_document(context)}
    else:
        # Memory does not depend on the architecture, so there is nothing to search.
        judgement, besides = Judged(SearchOutcome.nothing_fits(len(machines)), None), {"unfinished": [], "failed": []}
        infeasibility = infeasibility_document(misfit, why_nothing_fits(misfit, machines))
    cut_short = bool(besides["unfinished"]) and stop() == "interrupted"
    result = _result(options, problem, machines, judgement, besides, cut_short)
    ended = {"infeasibility": infeasibility, "seconds": time.perf_counter() - started, "seed": seed}
    return result.model_copy(update=ended), judgement.outcome


def _result(
    options: CodesignOptions,
    problem: CodesignProblem,
    machines: Machines,
    judgement: Judged,
    besides: dict[str, Any],
    cut_short: bool,
) -> Result:
    """The checked result of a search; ``besides``: what else was asked; ``cut_short``: an interrupt ended that."""
    outcome, value = judgement.outcome, None
    bound = outcome.bound if 0 < outcome.bound < math.inf else None
    solution: dict[str, Any] = {"settings": options.document()}
    metrics = _search_metrics(machines, outcome, options.search) | besides
    if outcome.best is not None:
        solution |= _solution(problem, machines, outcome.best, outcome.plans)
        metrics |= _checked_metrics(problem, solution, machines, judgement)
        value = metrics["score"]
    return Result(
        command="codesign",
        problem=ProblemReference(name=problem.name, digest=digest(problem_document(problem))),
        status=_status(outcome, value, bound, cut_short),
        objective=Objective(name=problem.objective.per, value=value, unit=problem.objective.unit, sense="max"),
        bound=bound,
        gap=relative_gap(value, bound),
        solution=solution,
        metrics=metrics,
        evaluations=outcome.evaluations,
        method=options.search,
    )


def _checked_metrics(
    problem: CodesignProblem, solution: dict[str, Any], machines: Machines, judgement: Judged
) -> dict[str, Any]:
    """What the checker, which must pass the solution, says of it; the proven optimum and the baselines beside it."""
    faults = violations(problem, solution)
    if faults:
        raise FailedCheckError("; ".join(faults))
    metrics = answer_metrics(problem, solution, machines)
    metrics |= {"proven_optimum": judgement.optimum, "distance_from_proven": judgement.distance(metrics["score"])}
    metrics["baselines"] = {job.name: baselines(job) for job in problem.jobs} if problem.fixed is None else {}
    return metrics


def _status(outcome: SearchOutcome, value: float | None, bound: float | None, cut_short: bool) -> Status:
    """``cut_short``: an interrupt has ended what was asked besides the answer."""
    if outcome.stopped is None and value is None:
        return "infeasible"
    if outcome.stopped == "interrupted" or cut_short:
        return "interrupted"
    status = proven_status(value, bound)
    return "feasible" if status == "optimal" and not outcome.proven else status


def _search_metrics(machines: Machines, outcome: SearchOutcome, search: Search) -> dict[str, Any]:
    pruned = outcome.stopped is None and search == "exhaustive"
    return {
        "architectures_in_space": len(machines),
        "architectures_evaluated": len(outcome.evaluated),
        "architectures_pruned": len(machines) - len(outcome.evaluated) if pruned else 0,
        "optimum_by_hbm": {f"{gib_from_bytes(size):g}": value for size, value in outcome.optimum_by_hbm.items()},
    }


def _solution(problem: CodesignProblem, machines: Machines, best: int, plans: Sequence[TrainingPlan]) -> dict[str, Any]:
    return {
        "architecture": architecture_solution(machines, best),
        "models": {job.name: _plan(job, machines, best, plan) for job, plan in zip(problem.jobs, plans, strict=True)},
    }


def _plan(job: TrainingJob, machines: Machines, best: int, plan: TrainingPlan) -> dict[str, Any]:
    """One model's plan with the schedules of its layers."""
    graph = Evaluator(job, machines).graphs[plan.microbatch, plan.placement.tensor]
    layers = {}
    for layer in graph.distinct_layers:
        parts = {"forward": layer.forward, "backward": layer.backward, "update": layer.update}
        solved = {
            part: solve_search(
                schedule_problem(f"{layer.kind} {part}", operators, machines, best, job.network),
                SearchLimits(nodes=plan.schedule_nodes),
            )
            for part, operators in parts.items()
        }
        names = {part: [operator.name for operator in operators] for part, operators in parts.items()}
        layers[layer.kind] = layer_solution(LayerSchedules(**solved), names)
    return {**plan_solution(job, plan, graph.names), "layers": layers}


def why_nothing_fits(job: TrainingJob, machines: Machines) -> MemoryShortfall:
    """The shortfall of the choice that comes closest to fitting: memory does not depend on the architecture."""
    evaluator = Evaluator(job, machines.one(0))
    microbatch, hbm_bytes = job.microbatches[0], job.hbm_bytes[-1]
    shortfalls = [
        place(evaluator.placement_problem(evaluator.choice((microbatch, width), hbm_bytes, recompute), None)).shortfall
        for width in job.tensor_parallel
        for recompute in (False, True)
    ]
    return min((found for found in shortfalls if found is not None), key=lambda found: found.excess_bytes)


def infeasibility_document(job: TrainingJob, shortfall: MemoryShortfall) -> dict[str, Any]:
    """A memory shortfall of one job as JSON types, in the terms of this command's options."""
    document = shortfall_document(shortfall)
    needed_gb = math.ceil(100 * gib_from_bytes(shortfall.needed_bytes)) / 100
    remedy = f"It would fit with --hbm-gb {needed_gb:g}, a smaller model, or more tensor parallelism."
    explanation = str(document["explanation"]).removesuffix(shortfall.remedy) + remedy
    note = note_on_scores(job.workload.graph(job.microbatches[0], shortfall.tensor, job.recipe))
    explanation += "" if note is None else f" {note}"
    return document | {"model": job.name, "remedy": remedy, "explanation": explanation}
