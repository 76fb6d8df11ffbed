"""Table 5: model FLOPs utilisation of TPUv4 and of the common architecture."""

from collections.abc import Sequence

from dse.reproduce.phaze.baselines import COMMON, EXPERT, PAPERS_COMMON, SOLVER, strategies, traced_utilisations
from dse.reproduce.phaze.context import TRACED, Context
from dse.reproduce.section import Comparison, Row, Section, Table, ratio, shown, times

_COLUMNS = {EXPERT: "tpuv4_expert", SOLVER: "tpuv4_solver", COMMON: "common"}
_TRACED_COLUMNS = {EXPERT: "tpuv4_expert", SOLVER: "tpuv4_solver", PAPERS_COMMON: "common"}

_NEAR = 1.5
"""Two utilisations are near when they differ by less."""

_OPERATIONS = 2
"""FLOPs of a multiply-accumulate."""

HEADERS = ("model", "cost model", *(text for name in _COLUMNS for text in (f"{name}, %", "paper, %", "ours / paper")))

TRACED_HEADERS = (
    "model",
    *(text for name in _TRACED_COLUMNS for text in (f"{name}, %", "over MAC/s, %", "paper, %", "that / paper")),
)

_NOTES = (
    "Model FLOPs utilisation (PaLM, appendix B): model FLOPs a second over the peak of all tensor cores. The paper's "
    "follows from its latencies, ours from ours.",
    "The paper's common architecture has TPUv4's peak; ours need not, so its utilisation and throughput are not "
    "proportional.",
    "phaze-2024 leaves out the weight-gradient products that model FLOPs count, so its utilisation can pass 100 %.",
    "Traced: layers as the published tool traces them (table4). Every block of Megatron's GPT models then has the "
    "logits and the cross entropy of a whole model, and scores of sequence³ a head: this is why their utilisations in "
    "the paper are a fraction of those of the models themselves.",
    "Over MAC/s: the same divided by a peak that counts a multiply-accumulate once, so twice as much. The paper's "
    "figures are of this kind, as far as one can tell: scores and weights of a sample and block of BertLarge are 4.2 "
    "million words, which pass the 64 words a cycle between L1 and arrays four times, so that its utilisation cannot "
    "pass 67 % of the peak FLOPs at any microbatch. The paper has 88.1 %.",
    "Where the traced ones are not near: on TPUv4 OPT (with our placement) and GPT3 spend nearly all of their time in "
    "large products, which on eight cores of 128² are no faster here than on one, since 64 words a cycle serve the "
    "chip; for such machines no cycles of the paper's mapper are known. GPT2 there spends 44 % in vector work on 256 "
    "lanes, without which it would have 1.10 times the paper's. BertLarge with the expert's placement is at 1.51.",
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
                comparisons.append(Comparison(model, cost_model, f"utilisation, {name}", "%", ours, paper, reason))
            rows.append((model if cost_model == context.cost_models[0] else "", cost_model, *cells))
    traced_rows, traced = _traced(context)
    tables = (Table(HEADERS, tuple(rows)), *([Table(TRACED_HEADERS, traced_rows)] if traced_rows else []))
    comparisons += traced
    ways = dict.fromkeys(each.cost_model for each in comparisons)
    title = "Table 5: model FLOPs utilisation"
    notes = (*(_within(cost_model, comparisons) for cost_model in ways), *_NOTES)
    return Section("table5", title, tables, notes, tuple(comparisons))


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
            twice = None if ours is None else _OPERATIONS * ours
            cells += [shown(ours), shown(twice), shown(paper), times(ratio(twice, paper))]
            comparisons.append(Comparison(model, TRACED, f"utilisation over MAC/s, {name}", "%", twice, paper))
        rows.append((model, *cells))
    return tuple(rows), comparisons


def _within(cost_model: str, comparisons: Sequence[Comparison]) -> str:
    """How many utilisations are near the paper's."""
    ratios = [each.ratio for each in comparisons if each.cost_model == cost_model and each.ratio is not None]
    near = sum(1 / _NEAR <= value <= _NEAR for value in ratios)
    over = " over MAC/s" if cost_model == TRACED else ""
    return f"{cost_model}: {near} of {len(ratios)} utilisations{over} are within {_NEAR:g} times the paper's."
