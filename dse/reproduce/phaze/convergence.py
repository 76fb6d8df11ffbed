"""Figures 8 and 9: time and answer of the area walk by hysteresis level.

One walk at the highest level visits the groups of every lower level first, so what a level costs and finds is read off
its prefix: with the same evaluations the rules are evaluated again for each level.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import inf

from dse.codesign.evaluation.evaluator import Evaluate, EvaluateMany
from dse.codesign.formats import architecture_solution
from dse.codesign.options import CodesignOptions
from dse.codesign.search import hysteresis
from dse.codesign.search.hysteresis import DecreasingRule, NoNewBestRule, StoppingRule, area_groups
from dse.reproduce.phaze.context import Answered, Context
from dse.reproduce.phaze.published import Convergence
from dse.reproduce.phaze.table2 import cores_text, our_cores
from dse.reproduce.section import Chart, Comparison, Row, Section, Series, Table, not_measured, ratio, shown, times

NO_NEW_BEST, PRINTED = "no new best", "decreasing"

_RULES: dict[str, type[NoNewBestRule] | type[DecreasingRule]] = {NO_NEW_BEST: NoNewBestRule, PRINTED: DecreasingRule}

_RULE_NOTE = (
    f"Two interpretations of the level: “{NO_NEW_BEST}” stops after that many areas without a new best; "
    f"“{PRINTED}”, Algorithm 1 as printed, after that many areas with only decreasing values. –: not reached in the "
    "budget."
)

_WALKED = "which areas a level visits depends on the scores, and therefore on the cost model"


class BothRules:
    """Stops when every rule would have."""

    def __init__(self, level: int) -> None:
        self._rules: list[StoppingRule] = [rule(level) for rule in _RULES.values()]

    def tell(self, score: float) -> None:
        """The score of the next group, 0 where nothing fits."""
        for rule in self._rules:
            rule.tell(score)

    @property
    def finished(self) -> bool:
        """Whether to stop."""
        return all(rule.finished for rule in self._rules)

    @property
    def min_groups_left(self) -> int:
        """Groups that will be looked at in any case before it stops."""
        return max(rule.min_groups_left for rule in self._rules if not rule.finished or self.finished)


@dataclass(frozen=True)
class Stop:
    """Where a rule stops at one level: architectures walked, the work for them, the best of them and its score.

    ``last_mm2`` is the area of the group behind which it stops, the smallest that it walks.
    """

    architectures: int
    seconds: float
    best: int
    score: float
    last_mm2: float


@dataclass(frozen=True)
class Walk:
    """A finished walk, from which every level's stop is read."""

    answered: Answered

    @cached_property
    def seconds(self) -> dict[int, float]:
        """Work of each architecture; those that were evaluated together share it equally."""
        shares_s: dict[int, float] = {}
        for work in self.answered.work:
            match work.item.task:
                case EvaluateMany(indices=indices):
                    shares_s |= dict.fromkeys(indices, work.seconds.total_s / len(indices))
                case Evaluate(index=index):
                    shares_s[index] = work.seconds.total_s
        return shares_s

    def stop(self, rule: StoppingRule) -> Stop | None:
        """Where ``rule`` stops, at the latest at the end of the space; None where the walk ended before."""
        scores = self.answered.outcome.evaluated
        walked, seconds, best, best_score, last_mm2 = 0, 0.0, -1, 0.0, inf
        areas_mm2 = self.answered.machines.area_mm2
        for group in area_groups(areas_mm2):
            if not all(index in scores for index in group):
                return None
            for index in group:
                walked += 1
                seconds += self.seconds.get(index, 0.0)
                # The walk goes towards smaller areas, so that a tie is the smaller one.
                if scores[index] > 0 and scores[index] >= best_score:
                    best, best_score = index, scores[index]
            last_mm2 = min(last_mm2, *(float(areas_mm2[index]) for index in group))
            rule.tell(max(scores[index] for index in group))
            if rule.finished:
                break
        return Stop(walked, seconds, best, best_score, last_mm2)


def figure8(context: Context) -> Section:
    """Seconds of work by level for every chosen model."""
    published = context.paper.convergence
    rows: list[Row] = []
    comparisons: list[Comparison] = []
    series: dict[str, list[Series]] = {cost_model: [] for cost_model in context.cost_models}
    faster = published.faster_than_level_8
    for model in context.models:
        for cost_model in context.cost_models:
            walk = _walk(context, model, cost_model)
            for name, rule in _RULES.items():
                stops = {level: walk.stop(rule(level)) for level in published.levels}
                seconds = {level: None if stop is None else stop.seconds for level, stop in stops.items()}
                last = seconds[max(published.levels)]
                gains = {level: ratio(last, seconds[level]) for level in faster}
                rows.append((model, cost_model, name, *map(shown, seconds.values()), *map(times, gains.values())))
                comparisons += [
                    Comparison(
                        model,
                        cost_model,
                        f"level {level} relative to 8, {name}",
                        "×",
                        gain,
                        faster[level],
                        cause=not_measured(_WALKED, context.prices(cost_model)),
                    )
                    for level, gain in gains.items()
                ]
                values = tuple(seconds.values())
                series[cost_model].append(Series(f"{model}, {name}", tuple(map(float, published.levels)), values))
    headers = ("model", "cost model", "rule", *(f"H = {level}" for level in published.levels))
    headers = (*headers, *(f"8 / {level}" for level in faster))
    paper = ", ".join(f"{gain:g}× at level {level}" for level, gain in faster.items())
    notes = (
        f"CPU seconds, microbatch {published.microbatch}, {published.hbm_gb} GB of HBM. Ours chooses between "
        "storing and recomputing activations; the paper recomputes.",
        _RULE_NOTE,
        f"Paper: time reduction relative to level 8: {paper}.",
    )
    charts = tuple(
        Chart("lines", f"CPU time by level ({name})", "hysteresis level", "seconds", tuple(lines), logarithmic=True)
        for name, lines in series.items()
    )
    title = "Figure 8: time by hysteresis level"
    return Section("fig8", title, (Table(headers, tuple(rows)),), notes, tuple(comparisons), charts)


def figure9(context: Context) -> Section:
    """What each level chooses for the paper's model, and how far that is from the proven optimum."""
    published = context.paper.convergence
    rows: list[Row] = []
    comparisons: list[Comparison] = []
    charts: list[Chart] = []
    for cost_model in context.cost_models:
        walk = _walk(context, published.model, cost_model)
        best = _proven(context, published.model, cost_model)
        area_mm2 = None if best.value is None else best.result.solution["architecture"]["area_mm2"]
        chosen: dict[str, list[Stop]] = {name: [] for name in _RULES}
        for name, rule in _RULES.items():
            for level in published.levels:
                stop = walk.stop(rule(level))
                rows.append(_level_row(cost_model, name, level, walk, stop, best.value, published))
                share = None if stop is None else ratio(stop.score, best.value)
                comparisons.append(
                    Comparison(
                        published.model,
                        cost_model,
                        f"share of the proven optimum, level {level}, {name}",
                        "%",
                        None if share is None else 100 * share,
                        100.0 if level >= published.optimal_from_level else None,
                        cause="" if stop is None or area_mm2 is None else ends(stop.last_mm2, area_mm2),
                    )
                )
                if stop is not None:
                    chosen[name].append(stop)
        charts.append(_scatter(cost_model, walk, chosen))
    title = f"Figure 9: architectures visited for {published.model}"
    notes = (_RULE_NOTE, *_figure9_notes(context))
    return Section("fig9", title, (Table(_LEVEL_HEADERS, tuple(rows)),), notes, tuple(comparisons), tuple(charts))


def ends(last_mm2: float, optimum_mm2: float) -> str:
    """Why a level is below the optimum, if its walk ends before it; empty if not. The walk begins at large areas."""
    if last_mm2 <= optimum_mm2:
        return ""
    return f"the search ends at {last_mm2:.1f} mm², before reaching the optimum at {optimum_mm2:.1f} mm²"


_LEVEL_HEADERS = (
    "cost model",
    "rule",
    "H",
    "architectures",
    "{tc, vc, x, y, vc lanes}",
    "area, mm²",
    "PEs per core",
    "samples/s",
    "share of optimum",
    "paper",
)


def _level_row(
    cost_model: str, name: str, level: int, walk: Walk, stop: Stop | None, optimum: float | None, published: Convergence
) -> Row:
    """One level under one rule."""
    paper = "better"
    if level <= published.tpuv4_up_to_level:
        paper = "TPUv4"
    elif level >= published.optimal_from_level:
        paper = "optimum"
    if stop is None:
        return (cost_model, name, f"{level}", "–", "", "", "", "", "", paper)
    machine = architecture_solution(walk.answered.machines, stop.best)
    share = ratio(stop.score, optimum)
    return (
        cost_model,
        name,
        f"{level}",
        f"{stop.architectures:,}",
        cores_text(our_cores(machine)),
        f"{machine['area_mm2']:.1f}",
        f"{machine['core_width'] * machine['core_depth']:,}",
        shown(stop.score),
        "–" if share is None else f"{100 * share:.1f} %",
        paper,
    )


def _figure9_notes(context: Context) -> Iterator[str]:
    """What the paper says of areas, next to the proven optimum's."""
    published = context.paper.convergence
    yield (
        f"Paper: from level {published.optimal_from_level} onwards, the answer is {cores_text(published.converged)}, "
        f"which is optimal and within {published.largest_areas_percent:g} % of the largest areas."
    )
    for cost_model in context.cost_models:
        best = _proven(context, published.model, cost_model)
        if best.value is not None:
            area_mm2 = best.result.solution["architecture"]["area_mm2"]
            larger = int((best.machines.area_mm2 > area_mm2).sum())
            share = 100 * larger / len(best.machines)
            yield (
                f"{cost_model}: the optimum of the whole space ({best.proof}) has {shown(best.value)} samples/s at "
                f"{area_mm2:.1f} mm²; {larger:,} architectures ({share:.1f} %) are larger."
            )


def _proven(context: Context, model: str, cost_model: str) -> Answered:
    """The best of the whole space for the job of the walk."""
    name = f"{model}, {cost_model}, walk's optimum"
    return context.search(_walk_options(context, model, cost_model), name, context.budget.model_s)


def _scatter(cost_model: str, walk: Walk, chosen: dict[str, list[Stop]]) -> Chart:
    """Throughput over area of everything walked, and what each level chooses."""
    machines, scores = walk.answered.machines, walk.answered.outcome.evaluated
    areas = tuple(float(machines.area_mm2[index]) for index in scores)
    dots = Series("walked", areas, tuple(scores.values()), tuple(machines.describe(index) for index in scores))
    marks = [
        Series(
            f"chosen, {name}",
            tuple(float(machines.area_mm2[stop.best]) for stop in stops),
            tuple(stop.score for stop in stops),
            tuple(machines.describe(stop.best) for stop in stops),
        )
        for name, stops in chosen.items()
    ]
    title = f"Architectures visited ({cost_model})"
    return Chart("dots", title, "area [mm²]", "samples/s", (dots, *marks))


def _walk(context: Context, model: str, cost_model: str) -> Walk:
    """The walk of one model at the highest level, with one microbatch and one HBM size."""
    level = max(context.paper.convergence.levels)
    function = partial(hysteresis.search, level=level, rule=BothRules)
    name = f"{model}, {cost_model}, walk"
    options = replace(_walk_options(context, model, cost_model), search="hysteresis", hysteresis=level)
    return Walk(context.search(options, name, context.budget.walk_s, function, journalled=False))


def _walk_options(context: Context, model: str, cost_model: str) -> CodesignOptions:
    published = context.paper.convergence
    options = context.options((model,), cost_model)
    return replace(options, microbatch=published.microbatch, hbm_gb=published.hbm_gb)
