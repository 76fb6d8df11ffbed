"""Table 5: model FLOPs utilisation of TPUv4 and of the common architecture."""

from collections.abc import Iterator, Sequence

from dse.reproduce.phaze.baselines import (
    COMMON,
    EXPERT,
    EXPERTS_CHOICES,
    PAPERS_COMMON,
    SOLVER,
    strategies,
    traced_utilisations,
)
from dse.reproduce.phaze.context import MAPPED, TRACED, Context
from dse.reproduce.section import Comparison, Row, Section, Table, not_measured, ratio, shown, times

_COLUMNS = {EXPERT: "tpuv4_expert", SOLVER: "tpuv4_solver", COMMON: "common"}
_TRACED_COLUMNS = {EXPERT: "tpuv4_expert", SOLVER: "tpuv4_solver", PAPERS_COMMON: "common"}

_SHORT = {TRACED: "traced", MAPPED: "Sunstone"}
"""What a table calls its way of pricing, so that its columns fit a terminal."""

_NEAR = 1.5
"""Two utilisations are near when they differ by less."""

_OPERATIONS = 2
"""FLOPs of a multiply-accumulate."""

HEADERS = ("model", "cost model", *(text for name in _COLUMNS for text in (f"{name}, %", "paper, %", "ours / paper")))

TRACED_HEADERS = (
    *(text for name in _TRACED_COLUMNS for text in (f"{name}, %", "paper, %", "ours / paper", "doubled / paper")),
)

_DOUBLED = "doubled: inferred; the paper cites PaLM, appendix B, whose peak counts a multiply-accumulate as two FLOPs"

_NOTES = (
    "Model FLOPs utilisation (PaLM, appendix B, which the paper says it follows): model FLOPs per second divided by "
    "the peak of all tensor cores. The paper's is computed from its latencies, ours from ours.",
    "The paper's common architecture has TPUv4's peak, but ours may differ, so its utilisation and throughput are not "
    "proportional.",
    "phaze-2024 omits the weight-gradient products that model FLOPs include, so its utilisation can exceed 100 %.",
)
_TRACED_NOTES = (
    "Traced: layers as the published tool traces them (table4). Sunstone: product cycles come from our own "
    "implementation of the paper's mapper (dse/reproduce/phaze/mapper.py); everything else is the same.",
    "Doubled: twice our value, which is the utilisation if the peak counts a multiply-accumulate as one FLOP. That "
    "the paper uses such a peak is inferred from its figures (docs/evidence/phaze.md) and contradicts the formula that "
    "it cites; only ours / paper compares values as the paper defines them.",
)


def table5(context: Context) -> Section:
    """Ours under every cost model next to the paper's, and with traced layers."""
    rows: list[Row] = []
    comparisons: list[Comparison] = []
    for model in context.models:
        published = context.paper.models[model].table_5
        for cost_model in context.cost_models:
            achieved = strategies(context, model, cost_model)
            cells: list[str] = []
            for name, key in _COLUMNS.items():
                ours = achieved[name][1]
                paper = None if published is None else float(getattr(published, key))
                cells += [shown(ours), shown(paper), times(ratio(ours, paper))]
                reason = context.unlike_all_models if name == COMMON else ""
                cause = not_measured(context.prices(cost_model))
                comparisons.append(
                    Comparison(model, cost_model, f"utilisation, {name}", "%", ours, paper, reason, cause)
                )
            rows.append((model if cost_model == context.cost_models[0] else "", cost_model, *cells))
    tables = [Table(HEADERS, tuple(rows))]
    models = [each for each in context.models if TRACED in context.ways(each) and context.paper.models[each].table_5]
    for way in (TRACED, MAPPED) if models else ():
        table, traced = _traced(context, models, way)
        tables.append(table)
        comparisons += traced
    title = "Table 5: model FLOPs utilisation"
    notes = [*_within(comparisons), *_NOTES, *(_TRACED_NOTES if models else ())]
    return Section("table5", title, tuple(tables), tuple(notes), tuple(comparisons))


def _traced(context: Context, models: Sequence[str], way: str) -> tuple[Table, list[Comparison]]:
    """Utilisations with traced layers, by our cycles or by those of the paper's mapper, of ``models``."""
    rows: list[Row] = []
    comparisons: list[Comparison] = []
    for model in models:
        published = context.paper.models[model].table_5
        assert published is not None
        cells: list[str] = []
        achieved = traced_utilisations(context, model, way)
        mapped = traced_utilisations(context, model, MAPPED) if way == TRACED else {}
        for name, key in _TRACED_COLUMNS.items():
            ours, paper = achieved[name], float(getattr(published, key))
            doubled, of_mapper = _doubled(ours), _doubled(mapped.get(name))
            cells += [shown(ours), shown(paper), times(ratio(ours, paper)), times(ratio(doubled, paper))]
            cause = traced_cause(name, doubled, of_mapper, paper)
            comparisons += [
                Comparison(model, way, f"utilisation, {name}", "%", ours, paper, cause=cause),
                Comparison(model, way, f"utilisation doubled, {name}", "%", doubled, paper, _DOUBLED),
            ]
        rows.append((model, *cells))
    return Table((_SHORT[way], *TRACED_HEADERS), tuple(rows)), comparisons


def _doubled(utilisation: float | None) -> float | None:
    return None if utilisation is None else _OPERATIONS * utilisation


def traced_cause(name: str, doubled: float | None, of_mapper: float | None, paper: float) -> str:
    """Why a utilisation with traced layers differs: by what is left when ours is ``doubled``.

    ``of_mapper`` is the doubled one with the cycles of the paper's mapper, where those are not its own.
    """
    left, left_of_mapper = ratio(doubled, paper), ratio(of_mapper, paper)
    if left is None:
        return ""
    mapper = "" if left_of_mapper is None else f", {left_of_mapper:.2f} times with the paper's mapper"
    readings = ["the paper's peak counts a multiply-accumulate once"]
    if name == EXPERT and left > _NEAR:
        readings.append(EXPERTS_CHOICES)
    elif not 1 / _NEAR <= left <= _NEAR:
        readings.append("the remaining factor is unexplained")
    return f"ours doubled is {left:.2f} times the paper's{mapper}; {not_measured(*readings)}"


def _within(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """How many utilisations are near the paper's, by cost model; traced ones also where they are doubled."""
    for cost_model in dict.fromkeys(each.cost_model for each in comparisons):
        own = [each for each in comparisons if each.cost_model == cost_model]
        ratios = [each.ratio for each in own if each.ratio is not None]
        yield (
            f"{cost_model}: {_near(ratios)} of {len(ratios)} utilisations are within a factor of {_NEAR:g} of the "
            "paper's."
        )
        doubled = [ratio(each.ours, each.paper) or 0.0 for each in own if each.reason == _DOUBLED]
        if doubled:
            yield (
                f"{cost_model}: {_near(doubled)} of {len(doubled)} are within a factor of {_NEAR:g} if ours are "
                "doubled."
            )


def _near(ratios: Sequence[float]) -> int:
    return sum(1 / _NEAR <= value <= _NEAR for value in ratios)
