"""Strategy ``all``: every strategy is solved, and the plan with the shortest training step is the answer.

Plans are compared by the time of a whole step alone (:mod:`dse.parallel.step_time`), for which each strategy also has a
bound; the least of the bounds holds for the plans of all strategies together.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from dse.parallel import sharded
from dse.parallel.hybrid import strategy as hybrid
from dse.parallel.mesh import mesh_of
from dse.parallel.options import ParallelOptions
from dse.parallel.pipeline import strategy as pipeline
from dse.parallel.pipeline.exchange import profiled_graph
from dse.parallel.step_time import whole_step
from dse.parallel.strategies import STRATEGIES
from dse.problem import Posed, result_of
from dse.results.differences import differences
from dse.results.infeasibility import Infeasibility
from dse.results.result import Objective, Result
from dse.run.remembered import Remembered, Same
from dse.run.run import Run
from dse.sources.kinds import ProblemInput
from dse.sources.steps import STEP, resolve_step, step_of
from hardware.inputs import Document, InputError, fail, validate

_COMMAND = "dse parallel"

_AGAIN: Remembered[Result] = Remembered(8, is_mutable=True)
"""Of the last questions that were checked, what a strategy without a plan answers."""

ROUNDING = 1e-12
"""Relative: the sums of seconds of the same plan under two strategies can differ by so much."""


@dataclass(frozen=True, eq=False)
class AllQuestion:
    """The problems of all strategies for one step on one machine.

    Attributes:
        posed: by name, in the order in which they are solved.
        not_applicable: why the others do not apply, by name.
    """

    posed: Mapping[str, Posed[ParallelOptions, Any]]
    not_applicable: Mapping[str, str]


class StrategyDocument(Document):
    """The outcome of a strategy.

    Attributes:
        status: of its answer.
        objective: the name of its own objective.
        value: of its own objective; None without a plan.
        step_s: the time of a whole step of its plan.
        bound_s: no plan of the strategy has a shorter step; None where nothing fits or nothing is known.
        gap: between the two, as a share of the step; None where one of them is missing.
        device_bytes: the maximum that a device stores.
        lacking_bytes: missing bytes of the smallest plan, if none fits; of a hybrid plan a lower bound.
    """

    status: str
    objective: str
    value: float | None
    step_s: float | None
    bound_s: float | None
    gap: float | None
    device_bytes: float | None
    lacking_bytes: float | None


class AllSolution(Document):
    """``solution`` of ``--strategy all``.

    Attributes:
        best: the strategy of the shortest step.
        plans: the ``solution`` of each strategy, by name.
    """

    best: str
    plans: dict[str, dict[str, Any]]


class AllMetrics(Document):
    """``metrics`` of ``--strategy all``.

    Attributes:
        step_s: of the best plan.
        strategies: the outcome of each, by name.
        plans: the ``metrics`` of each strategy, by name.
    """

    step_s: float
    strategies: dict[str, StrategyDocument]
    plans: dict[str, dict[str, Any]]


def posed(options: ParallelOptions) -> Posed[ParallelOptions, Any]:
    """The problems of all strategies.

    Raises:
        InputError: a method that is none of all of them, a profile, another state than the optimizer's, or no strategy
            can be asked: then as by the first.
    """
    if options.method not in ("auto", "exact"):
        raise fail(
            _COMMAND,
            "--method",
            options.method,
            "must be exact with --strategy all, which compares proven optimal plans",
        )
    if profiled_graph(options.step) is not None:
        rule = "must be pipeline, because a profile has no tensors to split"
        raise fail(_COMMAND, "--strategy", options.strategy, rule)
    if options.state != "optimizer":
        rule = "must be optimizer with --strategy all, because a sharded step stores all of its arguments"
        raise fail(_COMMAND, "--state", options.state, rule)
    mesh_of(options.mesh)
    source = resolve_step(options.step)
    once = replace(options, step=ProblemInput(STEP, source.where, step_of(source)))  # a function runs for seconds
    each: dict[str, Posed[ParallelOptions, Any]] = {}
    errors: dict[str, InputError] = {}
    for name, poser in _POSERS.items():
        try:
            each[name] = poser(once)
        except InputError as error:
            errors[name] = error
    if not each:
        raise next(iter(errors.values()))
    document = {name: one.document for name, one in each.items()}
    goal = Objective(name="step_s", value=None, unit="s", sense="min")
    reasons = {name: str(error).splitlines()[0] for name, error in errors.items()}
    return Posed(options, AllQuestion(each, reasons), next(iter(each.values())).name, document, goal)


def _sharding_posed(options: ParallelOptions) -> Posed[ParallelOptions, Any]:
    return sharded.posed(replace(options, strategy="sharding", activations=True))


def _pipeline_posed(options: ParallelOptions) -> Posed[ParallelOptions, Any]:
    cut = pipeline.posed(replace(options, strategy="pipeline", mesh=str(mesh_of(options.mesh).devices)))
    return replace(cut, problem=whole_step(cut.problem))


def _hybrid_posed(options: ParallelOptions) -> Posed[ParallelOptions, Any]:
    # Unlike pipelines, hybrid plans are of at most --stages stages.
    asked = replace(options, strategy="hybrid", mesh=str(mesh_of(options.mesh).devices))
    return hybrid.posed(asked, at_most=True)


_POSERS: Mapping[str, Callable[[ParallelOptions], Posed[ParallelOptions, Any]]] = MappingProxyType(
    {"sharding": _sharding_posed, "pipeline": _pipeline_posed, "hybrid": _hybrid_posed}
)


def answer(posed: Posed[ParallelOptions, Any], question: AllQuestion, run: Run) -> Result:
    """The plan of the shortest step, with the least of all bounds."""
    started = time.perf_counter()
    results = {
        name: STRATEGIES[name].answer(each, each.problem, run.with_share((number + 1) / len(question.posed)))
        for number, (name, each) in enumerate(question.posed.items())
    }
    documents = {name: _document(name, each, question) for name, each in results.items()}
    best = _best(documents)
    planned = {name: each for name, each in results.items() if each.solution}
    return result_of(
        "parallel",
        posed,
        value=None if best is None else documents[best].step_s,
        bound=_bound(documents),
        solution=None
        if best is None
        else AllSolution(best=best, plans={name: each.solution for name, each in planned.items()}).model_dump(),
        metrics=None if best is None else _metrics(best, documents, results),
        infeasibility=_infeasibility(results),
        evaluations=sum(each.evaluations for each in results.values()),
        seconds=time.perf_counter() - started,
        seed=run.seed,
        method="exact",
    )


def _document(name: str, result: Result, question: AllQuestion) -> StrategyDocument:
    """The outcome of a strategy, from its own result."""
    strategy, lack = STRATEGIES[name], result.infeasibility
    return StrategyDocument(
        status=result.status,
        objective=strategy.objective,
        value=strategy.own_value(result, question.posed[name].problem) if result.solution else None,
        step_s=result.objective.value,
        bound_s=result.bound,
        gap=result.gap,
        device_bytes=strategy.device_bytes(result.metrics) if result.solution else None,
        lacking_bytes=None if lack is None else lack.demand - lack.limit,
    )


def _metrics(best: str, documents: Mapping[str, StrategyDocument], results: Mapping[str, Result]) -> dict[str, Any]:
    return AllMetrics(
        step_s=documents[best].step_s or 0.0,
        strategies=dict(documents),
        plans={name: each.metrics for name, each in results.items() if each.solution},
    ).model_dump()


def _best(documents: Mapping[str, StrategyDocument]) -> str | None:
    """The strategy of the shortest step, of those equal but for rounding the first; None where none has a plan."""
    times = {name: each.step_s for name, each in documents.items() if each.step_s is not None}
    min_s = min(times.values(), default=0.0) * (1 + ROUNDING)
    return next((name for name, step_s in times.items() if step_s <= min_s), None)


def _bound(documents: Mapping[str, StrategyDocument]) -> float | None:
    """The least bound of those strategies that can have a plan; None where one of them has none."""
    bounds = [each.bound_s for each in documents.values() if each.status != "infeasible"]
    return min((each for each in bounds if each is not None), default=None) if None not in bounds else None


def _infeasibility(results: Mapping[str, Result]) -> Infeasibility | None:
    """Where nothing fits under any strategy: what each of them needs.

    They are not ranked: what a hybrid plan is said to need is a lower bound.
    """
    lacks = {name: each.infeasibility for name, each in results.items() if each.infeasibility is not None}
    if len(lacks) < len(results):
        return None
    lack = min(lacks.values(), key=lambda each: each.demand)
    text = " ".join(["No strategy has a plan that fits in memory.", *(each.explanation for each in lacks.values())])
    where = {"least_demands": {name: each.demand for name, each in lacks.items()}}
    return lack.model_copy(update={"explanation": text, "where": where})


def faults(result: Result, question: AllQuestion) -> list[str]:
    """Every strategy's plan by its own check, and what follows for all of them."""
    if not result.solution:
        return _faults_without_plan(result, question)
    solution = validate(AllSolution, result.solution, "result: solution")
    metrics = validate(AllMetrics, result.metrics, "result: metrics")
    if set(metrics.strategies) != set(question.posed):
        return [f"metrics.strategies must be {', '.join(question.posed)}"]
    if not set(solution.plans) <= set(question.posed):
        return [f"solution.plans must contain only {', '.join(question.posed)}"]
    again = {
        name: own_result(result, name, posed, metrics.strategies[name], solution, metrics)
        for name, posed in question.posed.items()
    }
    documents = {name: _document(name, each, question) for name, each in again.items()}
    best = _best(documents)
    if best is None:
        return ["a plan must be given"]
    if solution.best != best:
        return [f"solution.best must be {best}, but got {solution.best}"]
    violations = [
        *(f"{name}: {each}" for name in again for each in _claims(again[name], metrics.strategies[name])),
        *differences("bound", result.bound, _bound(documents)),
        *differences("objective.value", result.objective.value, documents[best].step_s),
        *differences("metrics", result.metrics, _metrics(best, documents, again)),
    ]
    if violations:
        return violations
    for name, posed in question.posed.items():
        of = STRATEGIES[name].faults(again[name], posed.options, posed.problem)
        violations += [f"{name}: {each}" for each in of]
    return violations


def own_result(
    result: Result, name: str, posed: Posed[ParallelOptions, Any], stated: StrategyDocument, solution: AllSolution,
    metrics: AllMetrics,
) -> Result:  # fmt: skip
    """A strategy's own result, of what the result of all of them says."""
    own = result_of(
        "parallel",
        posed,
        method=result.method,
        seed=result.seed,
        value=stated.step_s,
        bound=stated.bound_s,
        solution=solution.plans.get(name),
        metrics=metrics.plans.get(name),
    )
    if stated.status == "infeasible":
        lack = _asked_again(name, posed, result.seed).infeasibility
        return own.model_copy(update={"status": "infeasible", "infeasibility": lack})
    return own if own.solution else own.model_copy(update={"status": stated.status})


def _claims(own: Result, stated: StrategyDocument) -> list[str]:
    """What a strategy's entry says of itself: its status follows from its value and bound."""
    if own.solution and own.status != stated.status and stated.status != "interrupted":
        return [f"status must be {own.status}, but got {stated.status}"]
    if own.solution and stated.status == "interrupted" and own.status == "optimal":
        return ["status must be optimal"]
    if not own.solution and stated.status not in ("infeasible", "unknown", "interrupted"):
        return ["a plan must be given"]
    return []


def _faults_without_plan(result: Result, question: AllQuestion) -> list[str]:
    """Whether it is true that nothing fits."""
    violations = differences("metrics", result.metrics, {})
    if result.status != "infeasible":
        return violations if result.status in ("unknown", "interrupted") else [*violations, "a plan must be given"]
    results = {name: _asked_again(name, each, result.seed) for name, each in question.posed.items()}
    expected = _infeasibility(results)
    if expected is None:
        return [*violations, "status must not be infeasible, because a plan fits"]
    stated = None if result.infeasibility is None else result.infeasibility.model_dump()
    return violations + differences("infeasibility", stated, expected.model_dump())


def _asked_again(name: str, posed: Posed[ParallelOptions, Any], seed: int) -> Result:
    return _AGAIN.get((name, Same(posed), seed), lambda: STRATEGIES[name].answer(posed, posed.problem, Run(seed=seed)))
