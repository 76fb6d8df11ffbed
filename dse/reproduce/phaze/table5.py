"""Table 5: model FLOPs utilisation of TPUv4 and of the common architecture."""

from collections.abc import Sequence

from dse.reproduce.phaze.baselines import COMMON, EXPERT, SOLVER, strategies
from dse.reproduce.phaze.context import Context
from dse.reproduce.section import Comparison, Row, Section, Table, ratio, shown, times

_COLUMNS = {EXPERT: "tpuv4_expert", SOLVER: "tpuv4_solver", COMMON: "common"}

_NEAR = 1.5
"""Two utilisations are near when they differ by less."""

HEADERS = ("model", "cost model", *(text for name in _COLUMNS for text in (f"{name}, %", "paper, %", "ours / paper")))

_NOTES = (
    "Model FLOPs utilisation (PaLM, appendix B): model FLOPs a second over the peak of all tensor cores. The paper's "
    "follows from its latencies, ours from ours.",
    "The paper's common architecture has TPUv4's peak; ours need not, so its utilisation and throughput are not "
    "proportional.",
    "phaze-2024 leaves out the weight-gradient products that model FLOPs count, so its utilisation can pass 100 %.",
)


def table5(context: Context) -> Section:
    """Ours under every cost model beside the paper's."""
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
                comparisons.append(Comparison(model, cost_model, f"utilisation, {name}", "%", ours, paper, reason))
            rows.append((model if cost_model == context.cost_models[0] else "", cost_model, *cells))
    title = "Table 5: model FLOPs utilisation"
    notes = (*(_within(cost_model, comparisons) for cost_model in context.cost_models), *_NOTES)
    return Section("table5", title, (Table(HEADERS, tuple(rows)),), notes, tuple(comparisons))


def _within(cost_model: str, comparisons: Sequence[Comparison]) -> str:
    """How many utilisations are near the paper's."""
    ratios = [each.ratio for each in comparisons if each.cost_model == cost_model and each.ratio is not None]
    near = sum(1 / _NEAR <= value <= _NEAR for value in ratios)
    return f"{cost_model}: {near} of {len(ratios)} utilisations are within {_NEAR:g} times the paper's."
