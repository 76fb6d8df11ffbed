"""Table 5: model FLOPs utilisation of TPUv4 and of the common architecture."""

from collections.abc import Iterator, Sequence

from dse.codesign.baseline import PAPERS_REFERENCE
from dse.reproduce.phaze.baselines import (
    COMMON,
    EXPERT,
    EXPERTS_CHOICES,
    PAPERS_COMMON,
    SOLVER,
    strategies,
    traced_utilisations,
)
from dse.reproduce.phaze.context import TRACED, Context
from dse.reproduce.section import Comparison, Row, Section, Table, not_measured, ratio, shown, times
from hardware.specs import accelerator

_COLUMNS = {EXPERT: "tpuv4_expert", SOLVER: "tpuv4_solver", COMMON: "common"}
_TRACED_COLUMNS = {EXPERT: "tpuv4_expert", SOLVER: "tpuv4_solver", PAPERS_COMMON: "common"}

_NEAR = 1.5
"""Two utilisations are near when they differ by less."""

_OPERATIONS = 2
"""FLOPs of a multiply-accumulate."""

HEADERS = ("model", "cost model", *(text for name in _COLUMNS for text in (f"{name}, %", "paper, %", "ours / paper")))

TRACED_HEADERS = (
    "model",
    *(text for name in _TRACED_COLUMNS for text in (f"{name}, %", "paper, %", "ours / paper", "doubled / paper")),
)

_DOUBLED = "doubled: inferred, the paper cites PaLM, appendix B, whose peak counts a multiply-accumulate as two FLOPs"

_NOTES = (
    "Model FLOPs utilisation (PaLM, appendix B, which the paper says it follows): model FLOPs a second over the peak "
    "of all tensor cores. The paper's follows from its latencies, ours from ours.",
    "The paper's common architecture has TPUv4's peak; ours need not, so its utilisation and throughput are not "
    "proportional.",
    "phaze-2024 leaves out the weight-gradient products that model FLOPs count, so its utilisation can pass 100 %.",
)
_TRACED_NOTES = (
    "Traced: layers as the published tool traces them (table4).",
    "Doubled: ours times two, which is the utilisation of a peak that counts a multiply-accumulate once. That the "
    "paper has such a peak is inferred from its figures (docs/reproduce.md) and contradicts the formula that it cites; "
    "only ours / paper compares what the paper defines.",
)


def table5(context: Context) -> Section:
    """Ours under every cost model beside the paper's, and with traced layers."""
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
    traced_rows, traced = _traced(context)
    tables = (Table(HEADERS, tuple(rows)), *([Table(TRACED_HEADERS, traced_rows)] if traced_rows else []))
    comparisons += traced
    title = "Table 5: model FLOPs utilisation"
    notes = [*_within(comparisons), *_NOTES]
    if traced_rows:
        notes += _TRACED_NOTES
    return Section("table5", title, tables, tuple(notes), tuple(comparisons))


def _traced(context: Context) -> tuple[tuple[Row, ...], list[Comparison]]:
    """Rows and comparisons with traced layers, for every model that has them."""
    rows: list[Row] = []
    comparisons: list[Comparison] = []
    for model in context.models:
        published = context.paper.models[model].table_5
        if published is None or TRACED not in context.ways(model):
            continue
        cells: list[str] = []
        achieved = traced_utilisations(context, model)
        for name, key in _TRACED_COLUMNS.items():
            ours, paper = achieved[name], float(getattr(published, key))
            doubled = None if ours is None else _OPERATIONS * ours
            cells += [shown(ours), shown(paper), times(ratio(ours, paper)), times(ratio(doubled, paper))]
            cause = traced_cause(context, name, doubled, paper)
            comparisons += [
                Comparison(model, TRACED, f"utilisation, {name}", "%", ours, paper, cause=cause),
                Comparison(model, TRACED, f"utilisation doubled, {name}", "%", doubled, paper, _DOUBLED),
            ]
        rows.append((model, *cells))
    return tuple(rows), comparisons


def traced_cause(context: Context, name: str, doubled: float | None, paper: float) -> str:
    """Why a utilisation with traced layers differs: by what is left of it when ours is ``doubled``."""
    left = ratio(doubled, paper)
    if left is None:
        return ""
    readings = ["the paper's peak counts a multiply-accumulate once"]
    if name == EXPERT and left > _NEAR:
        readings.append(EXPERTS_CHOICES)
    elif not 1 / _NEAR <= left <= _NEAR:
        readings.append(f"the cycles of the paper's mapper on {_arrays(context, name)} are not at hand")
    return f"ours doubled is {left:.2f} times the paper's; {not_measured(*readings)}"


def _arrays(context: Context, name: str) -> str:
    """The tensor cores of the machine of a traced column, for people."""
    if name == PAPERS_COMMON:
        common = context.paper.common.accelerator
        return f"{common.tensor_cores} cores of {common.width} × {common.depth}"
    tpuv4 = accelerator(PAPERS_REFERENCE).machines
    return f"{tpuv4.tensor_cores[0]} cores of {tpuv4.core_width[0]} × {tpuv4.core_depth[0]}"


def _within(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """How many utilisations are near the paper's, by cost model; traced ones also where they are doubled."""
    for cost_model in dict.fromkeys(each.cost_model for each in comparisons):
        own = [each for each in comparisons if each.cost_model == cost_model]
        ratios = [each.ratio for each in own if each.ratio is not None]
        yield f"{cost_model}: {_near(ratios)} of {len(ratios)} utilisations are within {_NEAR:g} times the paper's."
        doubled = [ratio(each.ours, each.paper) or 0.0 for each in own if each.reason == _DOUBLED]
        if doubled:
            yield f"{cost_model}: {_near(doubled)} of {len(doubled)} are within {_NEAR:g} times if ours are doubled."


def _near(ratios: Sequence[float]) -> int:
    return sum(1 / _NEAR <= value <= _NEAR for value in ratios)
