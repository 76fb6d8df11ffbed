"""The answer of a co-search: the best architecture with a plan and schedules for each model, checked."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dse.codesign.baseline import baselines
from dse.codesign.check import answer_metrics, violations
from dse.codesign.context import SearchContext
from dse.codesign.evaluation.evaluator import Evaluator
from dse.codesign.evaluation.job_evaluators import EvaluationStore
from dse.codesign.extras import extras
from dse.codesign.formats import (
    architecture_solution,
    failed_document,
    layer_solution,
    plan_solution,
)
from dse.codesign.layer_problem import schedule_problem
from dse.codesign.notes import notes
from dse.codesign.options import CodesignOptions, Search
from dse.codesign.problem import CodesignProblem, LayerSchedules, SearchOutcome, SizeOptimum, TrainingJob, TrainingPlan
from dse.codesign.proven_optima import Judgement, ProvenOptima, judge
from dse.codesign.search import exhaustive
from dse.codesign.search.first import first_answer
from dse.codesign.vocabulary import missing_parallelism, plan_vocabulary
from dse.graph.operator_graph import ModelGraph
from dse.placement.contract import infeasibility as placement_infeasibility
from dse.placement.problem import MemoryShortfall
from dse.placement.solve import solve as place
from dse.problem import Posed, result_of
from dse.results.infeasibility import Infeasibility
from dse.results.result import PROOF_TOLERANCE, FailedCheckError, Result, Status, proven_status
from dse.run.progress import never_stop
from dse.run.run import Run
from dse.schedule.search.segment_search import SearchLimits
from dse.schedule.solve import solve_search
from dse.sources.describe import note_on_scores
from hardware.machines import Machines
from hardware.units import gib_from_bytes

SearchFunction = Callable[[SearchContext], SearchOutcome]
"""How a space is searched."""


@dataclass(frozen=True)
class Space:
    """The question: the jobs and the objective, and the architectures that may train them."""

    problem: CodesignProblem
    machines: Machines


CodesignPosed = Posed[CodesignOptions, Space]


def solve(
    posed: CodesignPosed,
    run: Run,
    search: SearchFunction = exhaustive.search,
    store: EvaluationStore | None = None,
    optima: ProvenOptima | None = None,
) -> tuple[Result, SearchOutcome]:
    """The best architecture and plans; with the exhaustive search, proven over the whole space.

    The answer of another search is set next to the proven optimum where that is known or quickly found.

    Args:
        posed: the question.
        run: how; its journal holds the finished steps of the sensitivity analysis.
        search: how the space is searched.
        store: finished evaluations, read and added to.
        optima: proven optima of earlier runs, read and added to.

    Returns:
        The result, passed by the checker, and what the search saw (for tables and the report).

    Raises:
        FailedCheckError: the checker refuses the answer (a fault of this program).
    """
    started = time.perf_counter()
    options, problem, machines = posed.options, posed.problem.problem, posed.problem.machines
    infeasibility = infeasibility_of(problem, machines)
    if infeasibility is None:
        may_stop = run.stop is not never_stop and run.stop() is None
        first = first_answer(problem, machines) if may_stop else None
        with run.executor as workers:
            context = SearchContext(
                problem,
                machines,
                workers,
                {} if store is None else store,
                run.progress,
                run.stop,
                deadline_s=run.began_s + run.time_limit_s,
            )
            outcome = search(context)
            if outcome.best is None and outcome.stopped is not None and first is not None:
                outcome = first if first.proven else replace(first, stopped=outcome.stopped)
            judgement = judge(outcome, context, optima)
            parts = extras(options, judgement.outcome, context, run.journal) | {"failed": failed_document(context)}
    else:
        # Memory does not depend on the architecture, so there is nothing to search.
        judgement, parts = Judgement(SearchOutcome.nothing_fits(len(machines)), None), {"unfinished": [], "failed": []}
    cut_short = bool(parts["unfinished"]) and run.stop() == "interrupted"
    result = _result(posed, judgement, parts, cut_short, infeasibility, run.seed)
    return result.model_copy(update={"seconds": time.perf_counter() - started}), judgement.outcome


def _result(
    posed: CodesignPosed,
    judgement: Judgement,
    parts: dict[str, Any],
    cut_short: bool,
    infeasibility: Infeasibility | None,
    seed: int,
) -> Result:
    """The checked result of a search; ``parts``: what else was requested; ``cut_short``: an interrupt ended that."""
    problem, machines, search = posed.problem.problem, posed.problem.machines, posed.options.search
    outcome, value = judgement.outcome, None
    bound = outcome.bound if 0 < outcome.bound < math.inf else None
    solution: dict[str, Any] = {}
    metrics = _search_metrics(machines, outcome, search) | parts
    if outcome.best is not None:
        solution = _solution(problem, machines, outcome.best, outcome.plans)
        metrics |= _checked_metrics(problem, solution, machines, judgement)
        value = metrics["score"]
    metrics["notes"] = [*map(str, notes(problem, solution.get("models", {}), metrics.get("models")))]
    return result_of(
        "codesign",
        posed,
        status=_status(outcome, value, bound, cut_short),
        value=value,
        bound=bound,
        solution=solution,
        metrics=metrics,
        infeasibility=infeasibility,
        evaluations=outcome.evaluations,
        seed=seed,
        method=search,
    )


def _checked_metrics(
    problem: CodesignProblem, solution: dict[str, Any], machines: Machines, judgement: Judgement
) -> dict[str, Any]:
    """What the checker, which must pass the solution, says of it, with the proven optimum and the baselines."""
    faults = violations(problem, solution)
    if faults:
        raise FailedCheckError("; ".join(faults))
    metrics = answer_metrics(problem, solution, machines)
    assert judgement.outcome.best is not None, "there is an answer"
    searched = judgement.outcome.evaluated[judgement.outcome.best]
    if not math.isclose(metrics["score"], searched, rel_tol=PROOF_TOLERANCE):
        raise FailedCheckError(f"score must be {metrics['score']}, but the search found {searched}")
    metrics |= {"proven_optimum": judgement.optimum, "distance_from_proven": judgement.distance(metrics["score"])}
    metrics["baselines"] = {job.name: baselines(job) for job in problem.jobs} if problem.fixed is None else {}
    return metrics


def _status(outcome: SearchOutcome, value: float | None, bound: float | None, cut_short: bool) -> Status:
    """``cut_short``: an interrupt has ended what was requested in addition to the answer."""
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
        "best_by_hbm": {f"{gib_from_bytes(size):g}": _best(machines, best) for size, best in outcome.optima.items()},
    }


def _best(machines: Machines, optimum: SizeOptimum) -> dict[str, Any]:
    """Who has an optimum: an evaluation of the architecture to so many states, by model, has it again."""
    architecture = architecture_solution(machines, optimum.architecture)
    return {"architecture": architecture, "schedule_nodes": list(optimum.schedule_nodes)}


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
    microbatch, hbm_bytes = job.microbatch_sizes[0], job.hbm_bytes[-1]
    shortfalls = [
        place(evaluator.placement_problem(evaluator.choice((microbatch, width), hbm_bytes, recompute), None)).shortfall
        for width in [width for width in job.tensor_parallel if width <= job.accelerators] or job.tensor_parallel
        for recompute in (False, True)
    ]
    return min((each for each in shortfalls if each is not None), key=lambda each: each.excess_bytes)


def infeasibility_of(problem: CodesignProblem, machines: Machines) -> Infeasibility | None:
    """Why the first job that fits nowhere does not, in the terms of this command's options; None where all fit."""
    job = next((job for job in problem.jobs if not Evaluator(job, machines.one(0)).fits()), None)
    if job is None:
        return None
    shortfall = why_nothing_fits(job, machines)
    proof = placement_infeasibility(shortfall)
    needed_gb = math.ceil(100 * gib_from_bytes(shortfall.needed_bytes)) / 100
    remedy = f"It would fit with --hbm-gb {needed_gb:g}, a smaller model, or more tensor parallelism."
    graph = job.workload.graph(job.microbatch_sizes[0], shortfall.tensor, job.recipe)
    whole = job.workload.graph(job.microbatch_sizes[0], min(job.workload.tensor_parallel), job.recipe)
    scores = note_on_scores(graph) if _needs_activations(job, graph, shortfall) else None
    remarks = (scores, missing_parallelism(whole), plan_vocabulary(job))
    sentences = [each for each in remarks if each is not None]
    explanation = " ".join([proof.explanation, remedy, *sentences])
    return proof.model_copy(
        update={"levers": [remedy], "explanation": explanation, "where": {**proof.where, "model": job.name}}
    )


_ACTIVATIONS_SHARE = 0.25
"""Of what the fullest stage needs: from here on activations are called a reason that it does not fit."""


def _needs_activations(job: TrainingJob, graph: ModelGraph, shortfall: MemoryShortfall) -> bool:
    """Whether activations, and not weights and their state alone, are what the stage of ``shortfall`` needs."""
    layers = [graph.layers[graph.names.index(name)] for name in shortfall.stage_layers]
    factor = job.cost_model.state_factor
    state_bytes = sum(factor * layer.weight_bytes + layer.frozen_bytes for layer in layers)
    return shortfall.needed_bytes - state_bytes >= _ACTIVATIONS_SHARE * shortfall.needed_bytes
