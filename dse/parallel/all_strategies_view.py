"""The answer of ``--strategy all`` for people: all strategies, then the best plan as its own strategy shows it."""

from collections.abc import Sequence
from typing import Any

from dse.parallel.all_strategies import AllMetrics, AllQuestion, AllSolution, StrategyDocument, own_result
from dse.parallel.strategies import STRATEGIES
from dse.report.units import counted, memory_text, time_text
from dse.report.view import Decisive, Heading, Paragraph, Part, Row, Table, View
from dse.results.result import PROOF_TOLERANCE, Result, percent


def view(result: Result, question: AllQuestion) -> View:
    """The strategies side by side, then the best plan as its own strategy shows it."""
    name = next(iter(question.posed.values())).name
    title = f"{name}: all strategies"
    others = [Decisive(f"{each} is not applicable: {reason}") for each, reason in question.not_applicable.items()]
    if result.infeasibility is not None:
        return View(title, f"Proven infeasible: {result.infeasibility.explanation}", notes=others)
    if not result.solution:
        return View(title, "The run was stopped before a plan was found.", notes=others)
    solution, metrics = AllSolution.model_validate(result.solution), AllMetrics.model_validate(result.metrics)
    table = Table(
        ("strategy", "training step", "bound", "own objective", "memory", "relative"),
        [
            *(_row(each, of, metrics.step_s) for each, of in metrics.strategies.items()),
            *((each, "not applicable", "", "", "", "") for each in question.not_applicable),
        ],
        "Strategies",
    )
    posed = question.posed[solution.best]
    stated = metrics.strategies[solution.best]
    own = own_result(result, solution.best, posed, stated, solution, metrics)
    of_best = STRATEGIES[solution.best].view(own.model_copy(update={"seconds": result.seconds}), posed.problem)
    proof = "proven optimal" if result.status == "optimal" else f"gap {percent(result.gap or 0.0)}"
    notes = [_ABOUT, f"The bound covers {_space(question)}.", *others]
    return View(
        title=title,
        verdict=f"{time_text(metrics.step_s)} per training step with {solution.best}; {proof} over all strategies "
        f"({time_text(result.seconds)})",
        notes=[*notes, *of_best.notes],
        tables=[table, *of_best.tables],
        page=lambda: _page(table, solution.best, of_best),
        files=of_best.files,
        cards=of_best.cards,
    )


_ABOUT = (
    "A training step consists of the forward and backward passes of all microbatches, the exposed part of the gradient "
    "all-reduce, and the optimizer update. Strategies are compared by this time only. Memory includes everything that "
    "a device stores."
)


def _space(question: AllQuestion) -> str:
    """The plans that the bound holds for."""
    parts = ["sharded steps"] if "sharding" in question.posed else []
    if (cut := question.posed.get("pipeline")) is not None:
        asked = cut.problem
        parts.append(
            f"pipelines of exactly {counted(asked.problem.stages, 'stage')} (--device-cuts {asked.device_cutting})"
        )
    if (mixed := question.posed.get("hybrid")) is not None:
        hybrids = mixed.problem.problems[0]
        stages = counted(hybrids.base.stages, "stage")
        parts.append(f"hybrid plans of at most {stages} (candidate cuts: {len(hybrids.cuts)})")
    return ", and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else parts[0]


def _page(table: Table, best: str, of_best: View) -> Sequence[Part]:
    return [
        Heading("Strategies"),
        Table(table.headers, table.rows),
        Heading(f"Best plan: {best}"),
        Paragraph(of_best.verdict, True),
        *of_best.page(),
    ]


def _row(name: str, of: StrategyDocument, best_s: float) -> Row:
    if of.step_s is None:
        why = (
            "no plan found"
            if of.lacking_bytes is None
            else f"does not fit: needs at least {of.lacking_bytes:,.0f} bytes more"
        )
        return (name, why, "" if of.bound_s is None else time_text(of.bound_s), "", "", "")
    return (
        name,
        time_text(of.step_s),
        "" if of.bound_s is None else time_text(of.bound_s),
        f"{of.objective} {time_text(of.value or 0.0)}",
        memory_text(of.device_bytes or 0.0),
        f"{of.step_s / best_s:.2f} ×" if of.step_s > best_s * (1 + PROOF_TOLERANCE) else "best",
    )


def compared(results: Sequence[Result]) -> dict[str, tuple[Any, ...]]:
    """What ``dse compare`` shows: the step of each strategy's plan."""
    metrics = [AllMetrics.model_validate(each.metrics) if each.metrics else None for each in results]
    rows: dict[str, tuple[Any, ...]] = {
        "best": tuple(each.solution.get("best") if each.solution else None for each in results)
    }
    for name in STRATEGIES:
        rows[f"{name} step_s"] = tuple(
            each.strategies[name].step_s if each is not None and name in each.strategies else None for each in metrics
        )
    return rows
