"""Figures 6 and 7: where the time of a search goes."""

from dataclasses import replace
from functools import partial

from dse.codesign.search import hysteresis
from dse.reproduce.phaze.context import Answered, Context
from dse.reproduce.phaze.stopwatch import Phase
from dse.reproduce.section import Chart, Comparison, Row, Section, Series, Table, not_measured, shown

_PHASES: dict[Phase, str] = {
    "estimation": "estimation",
    "scheduling": "operator scheduling",
    "placement": "placement",
}

_SHARES = tuple(f"{name}, %" for name in _PHASES.values())

_AVERAGE = "the paper gives the average over its models"

_OTHER_WORK = not_measured(
    "estimation, which dominates the paper's time, is vectorised over architectures here, so the other phases have "
    "larger shares; layers are scheduled exactly by compiled search code, not by an ILP"
)

HEADERS = ("model", "cost model", "search", "architectures", "elapsed, s", "CPU time, s", *_SHARES)

_NOTES = (
    "CPU time is summed over workers and excludes results that a resumed run reads from its journal; the rest of each "
    "row is graphs and bookkeeping. Exhaustive: bounds all architectures, schedules and places the promising ones.",
    "Estimation computes operator costs (the paper: Sunstone; here: vectorised), operator scheduling bounds or "
    "solves layers (the paper: ILP), placement bounds or solves pipelines (the paper: dynamic program).",
)


def figure6(context: Context) -> Section:
    """Total work of each model's search, and the parts of estimation, scheduling and placement."""
    published = context.paper.search_time
    searches = _searches(context)
    rows: list[Row] = []
    comparisons: list[Comparison] = []
    for (model, cost_model, kind), answered in searches.items():
        spent = answered.spent
        shares = [spent.percent(phase) for phase in _PHASES]
        looked_at = len(answered.machines) if kind == "exhaustive" else len(answered.outcome.evaluated)
        counted = f"{looked_at:,}" + (f" ({answered.outcome.stopped})" if answered.outcome.stopped else "")
        seconds = (shown(answered.seconds), shown(spent.total_s))
        rows.append((model, cost_model, kind, counted, *seconds, *(f"{share:.0f}" for share in shares)))
        comparisons.append(Comparison(model, cost_model, f"work, {kind}", "s", spent.total_s, None))
        for phase, share in zip(_PHASES, shares, strict=True):
            paper = _paper_share(context, model, phase) if kind != "exhaustive" else None
            reason = _AVERAGE if phase == "estimation" and paper is not None else ""
            quantity = f"{phase}, {kind}"
            comparisons.append(Comparison(model, cost_model, quantity, "%", share, paper, reason, _OTHER_WORK))
    notes = (f"Paper (hysteresis {published.hysteresis}): {published.statement}.", *_NOTES)
    charts = tuple(
        _chart(context, searches, cost_model, f"hysteresis {published.hysteresis}")
        for cost_model in context.cost_models
    )
    title = "Figure 6: CPU time of a search"
    return Section("fig6", title, (Table(HEADERS, tuple(rows)),), notes, tuple(comparisons), charts)


def figure7(context: Context) -> Section:
    """The solver alone: operator scheduling against placement."""
    rows: list[Row] = []
    comparisons: list[Comparison] = []
    for (model, cost_model, kind), answered in _searches(context).items():
        spent = answered.spent
        solver_s = spent.scheduling_s + spent.placement_s
        share = 100 * spent.placement_s / solver_s if solver_s else 0.0
        seconds = (shown(spent.scheduling_s), shown(spent.placement_s))
        rows.append((model, cost_model, kind, *seconds, f"{share:.0f}"))
        comparisons.append(Comparison(model, cost_model, f"placement share of the solver, {kind}", "%", share, None))
    headers = ("model", "cost model", "search", "scheduling, s", "placement, s", "placement, % of total")
    notes = (
        "Paper: placement (the dynamic program) takes most of the solver's time, except for OPT, where the ILP does.",
    )
    title = "Figure 7: operator scheduling and placement"
    return Section("fig7", title, (Table(headers, tuple(rows)),), notes, tuple(comparisons))


def _searches(context: Context) -> dict[tuple[str, str, str], Answered]:
    """The exhaustive search of Table 2 and the walk of the paper, by (model, cost model, name)."""
    level = context.paper.search_time.hysteresis
    searches = {}
    for model in context.models:
        for cost_model in context.cost_models:
            searches[model, cost_model, "exhaustive"] = context.model_search(model, cost_model)
            searches[model, cost_model, f"hysteresis {level}"] = context.search(
                replace(context.options((model,), cost_model), search="hysteresis", hysteresis=level),
                f"{model}, {cost_model}, hysteresis {level}",
                context.budget.walk_s,
                partial(hysteresis.search, level=level),
                journalled=False,
            )
    return searches


def _paper_share(context: Context, model: str, phase: Phase) -> float | None:
    """The share that the text gives, where it gives one."""
    published = context.paper.search_time
    if phase == "estimation":
        return published.estimation_percent
    return published.scheduling_percent_gpt3 if phase == "scheduling" and model == "gpt3-175b" else None


def _chart(context: Context, searches: dict[tuple[str, str, str], Answered], cost_model: str, walk: str) -> Chart:
    """Stacked bars, the exhaustive search next to the walk for each model."""
    kinds = {"exhaustive": "ex.", walk: "walk"}
    keys = [(model, kind) for model in context.models for kind in kinds]
    spent = [searches[model, cost_model, kind].spent for model, kind in keys]
    x = tuple(f"{model}, {kinds[kind]}" for model, kind in keys)
    series = [Series(name, x, tuple(getattr(each, f"{phase}_s") for each in spent)) for phase, name in _PHASES.items()]
    rest = tuple(each.total_s - each.estimation_s - each.scheduling_s - each.placement_s for each in spent)
    series.append(Series("rest", x, rest))
    title = f"CPU time of the exhaustive search and of {walk} ({cost_model})"
    return Chart("stacked bars", title, "", "CPU seconds", tuple(series))
