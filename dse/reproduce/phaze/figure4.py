"""Figure 4: throughput relative to TPUv4 with expert placement."""

from collections.abc import Iterator

from dse.reproduce.phaze.baselines import (
    BLACK_BOX,
    COMMON,
    EXPERT,
    EXPERTS_CHOICES,
    OWN,
    SOLVER,
    SPOTLIGHT,
    SPOTLIGHT_EXPERT,
    strategies,
)
from dse.reproduce.phaze.context import Context
from dse.reproduce.phaze.published import Table5
from dse.reproduce.phaze.spotlight import NOTES, SHAPE_AND_LANES, causes, with_mapper
from dse.reproduce.section import (
    Chart,
    Comparison,
    Row,
    Section,
    Series,
    Table,
    geometric_mean,
    not_measured,
    ratio,
    times,
)

_BARS = (SOLVER, SPOTLIGHT_EXPERT, SPOTLIGHT, BLACK_BOX, COMMON, OWN)

_PRINTED = (SOLVER, COMMON)
"""The bars that follow from what the paper prints."""

HEADERS = (
    "model",
    "cost model",
    SOLVER,
    "paper*",
    SPOTLIGHT_EXPERT,
    SPOTLIGHT,
    BLACK_BOX,
    COMMON,
    "paper*",
    OWN,
)

MEAN_HEADERS = ("cost model", "geometric mean", "ours", "paper", "ours / paper")

_NOTES = (
    "Throughput relative to TPUv4 with expert placement, under the same cost model. Means are geometric, as in the "
    "paper.",
    "paper*: the paper does not print the values of single models. They follow from its Table 5: its common "
    "architecture has TPUv4's peak FLOPs, so for one model, utilisations have the same ratio as throughputs.",
    "Spotlight: its accelerators in Table 2 under our cost model. Bayesian: Optuna's TPE on our space, not in the "
    "paper.",
    *NOTES,
)

Ratios = dict[tuple[str, str], dict[str, float | None]]
"""Throughput over the expert's by (model, cost model) and strategy."""


def figure4(context: Context) -> Section:
    """Ours under every cost model, and the means next to the paper's."""
    rows: list[Row] = []
    comparisons: list[Comparison] = []
    ratios: Ratios = {}
    common_per_s: dict[tuple[str, str], float | None] = {}
    for model in context.models:
        paper = _paper(context.paper.models[model].table_5)
        for cost_model in context.cost_models:
            over = _over_expert(context, model, cost_model)
            common_per_s[model, cost_model] = strategies(context, model, cost_model)[COMMON][0]
            ratios[model, cost_model] = over
            first = model if cost_model == context.cost_models[0] else ""
            spotlight = over[SPOTLIGHT_EXPERT], over[SPOTLIGHT]
            searched = over[BLACK_BOX], over[COMMON], paper.get(COMMON), over[OWN]
            shown = (over[SOLVER], paper.get(SOLVER), *spotlight, *searched)
            rows.append((first, cost_model, *map(times, shown)))
            comparisons += [
                Comparison(
                    model,
                    cost_model,
                    f"{name} / {EXPERT}",
                    "",
                    over[name],
                    paper.get(name),
                    context.unlike_all_models if name == COMMON else "",
                    not_measured(EXPERTS_CHOICES, context.prices(cost_model)),
                )
                for name in _BARS
            ]
    means = list(_means(context, ratios))
    of_means = [
        (mean.cost_model, mean.quantity, times(mean.ours), times(mean.paper), times(mean.ratio)) for mean in means
    ]
    of_causes, changed = causes(context, common_per_s)
    of_mapper, mapped = with_mapper(context)
    tables = [Table(HEADERS, tuple(rows)), Table(MEAN_HEADERS, tuple(of_means)), of_causes]
    tables += [] if of_mapper is None else [of_mapper]
    charts = tuple(_chart(context, cost_model, ratios) for cost_model in context.cost_models)
    title = "Figure 4: throughput relative to TPUv4 with expert placement"
    return Section("fig4", title, tuple(tables), _NOTES, (*comparisons, *means, *changed, *mapped), charts)


def _over_expert(context: Context, model: str, cost_model: str) -> dict[str, float | None]:
    achieved = strategies(context, model, cost_model)
    plan = context.bayesian_search(model, cost_model).plan(model)
    per_s = {name: throughput for name, (throughput, _) in achieved.items()}
    per_s[BLACK_BOX] = None if plan is None else plan["throughput_per_s"]
    return {name: ratio(per_s[name], per_s[EXPERT]) for name in _BARS}


def _paper(published: Table5 | None) -> dict[str, float]:
    """The paper's ratios by strategy, from its utilisations."""
    if published is None:
        return {}
    expert = published.tpuv4_expert
    return {SOLVER: published.tpuv4_solver / expert, COMMON: published.common / expert}


def _means(context: Context, ratios: Ratios) -> Iterator[Comparison]:
    """The geometric means that the text of the paper gives, over the models for which both figures are known."""
    printed = context.paper.speedups
    subset = context.unlike_all_models
    for cost_model in context.cost_models:
        of_models = [ratios[model, cost_model] for model in context.models]
        prices = context.prices(cost_model)
        experts = not_measured(EXPERTS_CHOICES, prices)
        for above, below, paper, why in (
            (OWN, EXPERT, printed.per_model_over_expert, experts),
            (COMMON, EXPERT, printed.common_over_expert, experts),
            (COMMON, SOLVER, printed.common_over_tpuv4_solver, not_measured(prices)),
            (COMMON, SPOTLIGHT, printed.common_over_spotlight_solver, f"{SHAPE_AND_LANES}; {not_measured(prices)}"),
            (COMMON, BLACK_BOX, None, ""),
        ):
            known = [ratio(over[above], 1.0 if below == EXPERT else over[below]) for over in of_models]
            mean = geometric_mean([value for value in known if value is not None])
            quantity, reason = f"{above} / {below}", "" if paper is None else subset
            yield Comparison("geometric mean", cost_model, quantity, "", mean, paper, reason, why)


def _chart(context: Context, cost_model: str, ratios: Ratios) -> Chart:
    series = [
        Series(name, context.models, tuple(ratios[model, cost_model][name] for model in context.models))
        for name in _BARS
    ]
    for name in _PRINTED:
        paper = tuple(_paper(context.paper.models[model].table_5).get(name) for model in context.models)
        series.append(Series(f"paper*: {name}", context.models, paper))
    title = f"Throughput relative to TPUv4 + expert placement ({cost_model})"
    return Chart("bars", title, "", f"× {EXPERT}", tuple(series))
