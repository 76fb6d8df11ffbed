"""Sections next to those of the paper."""

from collections.abc import Sequence

import numpy as np

from dse.reproduce.rdu.published import Denied, read_published
from dse.reproduce.rdu.study import VERSIONS, Measured, ModelLayer, PlacedGraph, Study
from dse.reproduce.section import Chart, Comparison, Section, Series, Table, shown
from dse.results.result import percent, relative_gap

TITLES = {
    "table1": "Table I: accuracy of cost models on held-out graphs",
    "fig2": "Figure 2: rank correlation by kind of block",
    "table2": "Table II: BERT-large and GPT2-XL under two versions of the compiler",
    "table3": "Table III: without edge and without node embeddings",
    "annotations": "Without performance annotations (time of operators on a unit)",
    "left-out": "Generalisation: each kind of block predicted by models trained on the other kinds",
    "effort": "Cost of samples and models",
    "placement": "MLP and MHA: placements with the heuristic and the learned cost",
}

KINDS = ("gemm", "mlp", "ffn", "mha")

KIND_LEFT_OUT = "kind left out"
"""Suffix of a model's name if it has not learned from the kind of block that it predicts."""

_MODELS = ("expert", "route", "ridge", "trees", "trees-all", "stack", "paper", "graph")
_RIVAL = "trees-all"
"""The best plain model that sees all features: what others add to it is what they are worth."""

_LEARNED = ("ridge", "trees", "stack", "paper", "graph")
"""Models that are compared with it."""

MODELS = ("bert-large", "gpt2-xl")
"""Those of Table II, in its order, as wholes."""

_LAYER_MODELS = ("expert", "route", "ridge", "trees", "stack", "paper", "graph")
_LAYER_COSTS = ("expert rule", "mixture", "learned")
_ERROR_HEAD = ("graph", "cost model", "RE, past", "RE, present", "ρ, past", "ρ, present")
_RATE_HEAD = ("graph", "cost", *(f"{what}, {version}" for version in VERSIONS for what in ("samples/s", "gain", "gap")))
_HEAD = ("cost model", "RE", "RE, placer", "ρ", "ρ, placer", "RE relative to trees-all, 90 % interval")
_WHAT = {
    "expert": "expert rule: isolated speeds, then congestion",
    "route": "conservative route rule",
    "ridge": "ridge regression, 21 handcrafted features",
    "trees": "boosted trees, same features",
    "trees-all": "boosted trees with 16 contention features added (trees-all)",
    "stack": "stack of trees and perceptrons on all features",
    "paper": "the paper's model (Algorithm 1)",
    "graph": "ours: mean of the stack and a graph network",
}


def table1(study: Study) -> Section:
    """All models on all placements."""
    paper = read_published().accuracy
    of = {model: study.accuracy(model).whole for model in _MODELS}
    rows = [
        ("the paper: baseline", shown(paper["heuristic"].error), "", shown(paper["heuristic"].correlation), "", ""),
        ("the paper: GNN", shown(paper["learned"].error), "", shown(paper["learned"].correlation), "", ""),
        *((_WHAT[model], *_figures(measured), _beside_rival(study, model)) for model, measured in of.items()),
    ]
    comparisons = []
    counterparts = {"expert": paper["heuristic"], "paper": paper["learned"], "graph": paper["learned"]}
    for model, published in counterparts.items():
        comparisons.append(Comparison(model, "", "relative error", "1", of[model].error, published.error, _OTHER_DATA))
        comparisons.append(
            Comparison(model, "", "rank correlation", "1", of[model].correlation, published.correlation, _OTHER_DATA)
        )
    count = of["ridge"].placements
    notes = (f"{count:,} held-out placements, in five folds by graph; the paper does not describe its split.",)
    return Section("table1", TITLES["table1"], (Table(_HEAD, tuple(rows)),), notes, tuple(comparisons))


def _beside_rival(study: Study, model: str) -> str:
    """The ratio of a model's error to that of :data:`_RIVAL`; nothing for rules."""
    if model not in _LEARNED:
        return "1" if model == _RIVAL else ""
    ratio = study.error_ratio(model, _RIVAL)
    return f"{shown(ratio.value)} [{shown(ratio.low)}, {shown(ratio.high)}]"


def table2(study: Study) -> Section:
    """Whole models, which are cut into pieces."""
    paper = read_published().models
    errors: list[tuple[str, ...]] = []
    rates: list[tuple[str, ...]] = []
    comparisons, notes = [], []
    for name, published in zip(MODELS, (paper["bert"], paper["gpt"]), strict=True):
        layers = {version: study.layer(name, version, _LAYER_MODELS, _LAYER_COSTS) for version in VERSIONS}
        for rival in _LAYER_MODELS:
            own = [layer.accuracy[rival] for layer in layers.values()]
            correlations = (_with_interval(each.correlation, each.correlation_interval) for each in own)
            errors.append((name, _WHAT[rival], *(shown(each.error) for each in own), *correlations))
        errors.append((name, _PRINTED, *(shown(published.error[version]) for version in ("past", "present")), "", ""))
        for cost in _LAYER_COSTS:
            rates.append((name, cost, *(cell for layer in layers.values() for cell in _rate_cells(layer, cost))))
        gains = (f"{100 * published.throughput_gain[version]:+.1f} %" for version in ("past", "present"))
        rates.append((name, _PRINTED, *(cell for gain in gains for cell in ("", gain, ""))))
        for (version, layer), error, gain in zip(
            layers.items(), published.error.values(), published.throughput_gain.values(), strict=True
        ):
            own_error, own_gains = layer.accuracy["graph"].error, _gains(layer, "learned")
            own_gain = float(np.mean(own_gains)) if own_gains else None
            comparisons += [
                Comparison(name, "", f"relative error, {version}", "1", own_error, error, _OTHER_DATA),
                Comparison(name, "", f"gain in throughput, {version}", "1", own_gain, gain, _OTHER_DATA),
            ]
        notes.append(f"{name}: {layer.size.pieces} pieces in {layer.size.turns:,} turns.")
    tables = (Table(_ERROR_HEAD, tuple(errors)), Table(_RATE_HEAD, tuple(rates)))
    notes += [
        "In the present version, a change of track costs two slots more, a hop one more, and buffers are a "
        "third smaller; models and the learned cost have learned from the same placements, simulated again.",
        f"RE and ρ: {study.budget.placements} placements per piece, without deadlocks. Brackets: 90 % interval from "
        "a bootstrap over pieces; a dash if there are too few pieces or placements.",
        f"Samples/s: the mean of {study.budget.seeds} seeds, one chain of {study.budget.moves:,} moves per piece. "
        "Gain: over the expert rule; ± is the 90 % interval of the mean. The gap is to the lower bound on the time of "
        "these pieces over all placements. The paper runs the models on its own chip.",
    ]
    return Section("table2", TITLES["table2"], tables, tuple(notes), tuple(comparisons))


_PRINTED = "the paper: GNN, whole model"


def _rate_cells(layer: ModelLayer, cost: str) -> tuple[str, str, str]:
    """Samples per second, gain over the expert rule, and gap."""
    rate = float(np.mean(layer.samples_per_s[cost]))
    gap = relative_gap(rate, layer.size.bound_per_s)
    return shown(rate), _percent(_gains(layer, cost)), "–" if gap is None else percent(gap)


def _gains(layer: ModelLayer, cost: str) -> list[float]:
    """Of every seed over the expert rule; none where that ends in a deadlock."""
    pairs = zip(layer.samples_per_s[cost], layer.samples_per_s["expert rule"], strict=True)
    return [rate / expert - 1 for rate, expert in pairs if expert]


_ABLATIONS: tuple[tuple[Denied, str], ...] = (("full", ""), ("edges", ", no edges"), ("nodes", ", no nodes"))

_OTHER_DATA = "different graphs and machines: a simulated fabric here, a real chip in the paper"


def fig2(study: Study) -> Section:
    """Rank correlation by kind of block."""
    of = {model: study.accuracy(model).by_kind for model in ("expert", "ridge", "paper", "graph")}
    series = tuple(
        Series(_WHAT[model], KINDS, tuple(by_kind[kind].correlation for kind in KINDS)) for model, by_kind in of.items()
    )
    rows = tuple((_WHAT[model], *(shown(by_kind[kind].correlation) for kind in KINDS)) for model, by_kind in of.items())
    chart = Chart("bars", TITLES["fig2"], "kind of block", "Spearman's ρ", series)
    notes = ("The paper prints no numbers: “up to 58 % higher Spearman rank correlation” than its baseline.",)
    return Section("fig2", TITLES["fig2"], (Table(("cost model", *KINDS), rows),), notes, charts=(chart,))


def table3(study: Study) -> Section:
    """Both forms without parts of what they see."""
    paper = read_published().ablation
    rows, comparisons = [], []
    for denied, label in _ABLATIONS:
        for form in ("paper", "graph"):
            by_kind = study.accuracy(form + label).by_kind
            cells = [f"{shown(by_kind[kind].error)} / {shown(by_kind[kind].correlation)}" for kind in KINDS]
            rows.append((_WHAT[form] + label, *cells))
        printed = {kind: paper[kind][denied] for kind in paper}
        cells = [
            f"{shown(printed[kind].error)} / {shown(printed[kind].correlation)}" if kind in printed else "–"
            for kind in KINDS
        ]
        rows.append((f"the paper{label}", *cells))
        measured = study.accuracy("paper" + label).by_kind
        comparisons += [
            Comparison(kind, "", f"relative error{label}", "1", measured[kind].error, each.error, _OTHER_DATA)
            for kind, each in printed.items()
        ]
    notes = ("Each cell: RE / ρ. Ours has the stack and handcrafted features in every row.",)
    head = ("cost model", *KINDS)
    return Section("table3", TITLES["table3"], (Table(head, tuple(rows)),), notes, tuple(comparisons))


def annotations(study: Study) -> Section:
    """Models that are not told how long operators work."""
    rows = []
    for model in ("ridge", "trees", "trees-all", "stack", "paper", "graph"):
        with_slots, without = study.accuracy(model).whole, study.accuracy(model + ", no slots").whole
        rows.append((_WHAT[model], shown(with_slots.error), shown(without.error), _quotient(without, with_slots)))
    notes = (
        "The abstract claims “no accuracy degradation after removing performance annotations”; there is no table.",
    )
    head = ("cost model", "RE", "RE without annotations", "ratio")
    return Section("annotations", TITLES["annotations"], (Table(head, tuple(rows)),), notes)


def left_out(study: Study) -> Section:
    """Each kind of block, predicted by models that have seen none of it."""
    rows = []
    for model in ("ridge", "trees", "trees-all", "stack", "paper", "graph"):
        seen, unseen = study.accuracy(model).by_kind, study.accuracy(f"{model}, {KIND_LEFT_OUT}").by_kind
        cells = [f"{shown(unseen[kind].error)}, {_quotient(unseen[kind], seen[kind])}" for kind in KINDS]
        rows.append((_WHAT[model], *cells))
    notes = (
        "Each cell: RE on the left-out kind of block, and its ratio to the RE on this kind in folds by graph.",
        "Models train on all graphs of the other kinds, but in folds by graph on four fifths of all graphs, so the "
        "numbers of training graphs differ.",
    )
    return Section("left-out", TITLES["left-out"], (Table(("cost model", *KINDS), tuple(rows)),), notes)


def effort(study: Study) -> Section:
    """CPU seconds."""
    taken, samples = study.effort(), read_published().samples
    rows = [("samples", f"{taken.placements:,} from {taken.graphs:,} graphs", shown(taken.cpu_s))]
    for model in ("ridge", "trees", "trees-all", "stack", "paper", "graph"):
        rows.append((_WHAT[model], "five folds", shown(study.accuracy(model).cpu_s)))
    notes = (
        f"{taken.followed:,} of these placements come from annealing guided by a model of earlier placements.",
        "Members shared by several models count towards the first of them: trees and perceptrons are fitted once.",
        f"The paper: {samples:,} samples in “less than one day” on a CPU farm, and 2 hours of training on a GPU.",
    )
    return Section("effort", TITLES["effort"], (Table(("item", "amount", "CPU s"), tuple(rows)),), notes)


def placement(study: Study) -> Section:
    """Simulated placements of graphs that no model has learned from."""
    graphs = study.placed()
    costs = tuple(graphs[0].cpu_s) if graphs else ()
    rows, comparisons = [], []
    for kind in sorted({graph.kind for graph in graphs}):
        own = [graph for graph in graphs if graph.kind == kind]
        for cost in costs:
            faster = [1 / value - 1 for value in _ratios(own, "interval_slots", cost)]
            slower = [value - 1 for value in _ratios(own, "latency_slots", cost)]
            cpu_s = float(np.mean([graph.cpu_s[cost] for graph in own]))
            rows.append((kind, cost, _percent(faster), _percent(slower), shown(cpu_s), str(len(own))))
            published = read_published().latency_change.get(kind)
            if cost == "learned" and published is not None:
                ours = float(np.mean(slower)) if slower else None
                comparisons.append(Comparison(kind, "", "change in latency", "1", ours, published, _OTHER_DATA))
    head = ("block", "cost", "throughput relative to expert rule", "latency", "CPU s", "graphs")
    notes = (
        f"One chain of {study.budget.moves:,} moves per cost and graph, with the same seed; ± is the 90 % interval "
        "of the mean.",
        "`python -m benchmarks.fabric_placement` compares at equal CPU time and with bounds.",
    )
    return Section("placement", TITLES["placement"], (Table(head, tuple(rows)),), notes, tuple(comparisons))


def _ratios(graphs: Sequence[PlacedGraph], what: str, cost: str) -> list[float]:
    pairs = [(getattr(graph, what)[cost], getattr(graph, what)["expert rule"]) for graph in graphs]
    return [own / expert for own, expert in pairs if own is not None and expert is not None]


def _percent(values: Sequence[float]) -> str:
    if len(values) < 2:
        return "–" if not values else f"{100 * values[0]:+.1f} %"
    spread = 1.645 * float(np.std(values, ddof=1)) / len(values) ** 0.5
    return f"{100 * float(np.mean(values)):+.1f} ± {100 * spread:.1f} %"


def _figures(measured: Measured) -> tuple[str, str, str, str]:
    return (
        shown(measured.error),
        shown(measured.placer_error),
        shown(measured.correlation),
        shown(measured.placer_correlation),
    )


def _with_interval(value: float, interval: list[float] | None) -> str:
    """A correlation with its interval; a dash where too few placements give none."""
    return "–" if interval is None else f"{shown(value)} [{', '.join(map(shown, interval))}]"


def _quotient(one: Measured, other: Measured) -> str:
    return "–" if one.error is None or not other.error else f"{one.error / other.error:.2f}×"
