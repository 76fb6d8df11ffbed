"""What the study of the multi-chip partitioning paper prints: tables, comparisons and curves of finished trials."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dse.partition.options import EvaluatorName
from dse.reproduce.section import Chart, Comparison, Row, Section, Series, Table, geometric_mean, ratio, shown

GREEDY = "greedy"

TITLES: Mapping[str, str] = {
    "table2": "Table 2 and Figure 5: samples needed by each method",
    "table3": "Table 3 and Figure 6: samples needed by each method",
    "simulator": "Test graphs and BERT, simulated: samples needed by each method",
    "ablation": "Ablation: the learned policy with one change at a time",
}

LEVELS = (0.8, 0.9, 0.95)
"""Shares of the best throughput known."""

LEVELS_OVER_GREEDY = (1.1, 1.2, 1.3)
"""Multiples of the throughput of our greedy heuristic."""

Curve = tuple[tuple[int, float], ...]
"""(evaluations, best cost in seconds) wherever a method improved on its best."""

PAPER_LEVELS: Mapping[str, tuple[float, ...]] = {"table2": (1.6, 1.7, 1.8), "table3": (2.55, 2.6, 2.65)}
"""Multiples of the throughput of the paper's greedy heuristic."""

UNLIKE = "each is relative to its own heuristic, and the paper does not describe its heuristic"

_PAPER: Mapping[str, Mapping[str, tuple[int | None, ...]]] = {
    "table2": {
        "random": (305, 915, 3612),
        "anneal": (255, 979, None),
        "paper rl": (330, 676, 1496),
        "paper rl zero-shot": (196, 600, 3652),
        "paper rl fine-tuned": (171, 503, 1362),
    },
    "table3": {
        "random": (447, None, None),
        "anneal": (576, None, None),
        "paper rl": (112, 423, 607),
        "paper rl zero-shot": (None, None, None),
        "paper rl fine-tuned": (20, 20, 161),
    },
}
"""Samples to reach each of :data:`PAPER_LEVELS`."""


LEARNED = "plain rl"
"""Our learned method in the place of the paper's: it has no prior either."""

TEN_MINUTES = 22
"""Samples in ten minutes, of 26.97 s each (section 5.3)."""

OTHER_FORM = "ours is a different form of learning"

_NOT_STATED, _CONVERGED = "samples not stated", "at convergence"
_IN_TEN_MINUTES = f"up to, within ten minutes ({TEN_MINUTES} samples)"


@dataclass(frozen=True)
class Claim:
    """What the paper says in its text: by how many per cent one method's throughput is above another's.

    Attributes:
        method, baseline: names of ours.
        samples: after which; None after all.
        percent: the paper's.
        condition: under which the paper has it.
    """

    method: str
    baseline: str
    samples: int | None
    percent: float
    condition: str


CLAIMS: Mapping[str, tuple[Claim, ...]] = {
    "table2": (
        Claim(LEARNED, "random", None, 4.36, _NOT_STATED),
        Claim(LEARNED, "anneal", None, 6.49, _NOT_STATED),
    ),
    "table3": (
        Claim(LEARNED, "random", None, 6.11, _CONVERGED),
        Claim(LEARNED, "anneal", None, 5.85, _CONVERGED),
        Claim(f"{LEARNED} fine-tuned", "random", TEN_MINUTES, 15.18, _IN_TEN_MINUTES),
        Claim(f"{LEARNED} fine-tuned", "anneal", TEN_MINUTES, 15.18, _IN_TEN_MINUTES),
    ),
}
"""Of sections 5.2 and 5.3; the last figure is of random search and annealing together."""


def _published(part: str, method: str) -> tuple[int | None, ...]:
    """The paper's samples of a method; our method without a prior takes the place of its own."""
    return _PAPER.get(part, {}).get(method.replace(LEARNED, "paper rl"), ())


@dataclass(frozen=True)
class Trial:
    """One method with one seed on one graph."""

    graph: str
    evaluator: EvaluatorName
    method: str
    seed: int
    samples: int


def at(curve: Curve, samples: int) -> float:
    """The best cost after so many evaluations; infinite before any partition that can run."""
    return min((cost_s for count, cost_s in curve if count <= samples), default=np.inf)


def samples_to(shares: Sequence[float], level: float) -> int | None:
    """The first place, from 1 on, at which ``shares`` reach ``level``; None if they never do."""
    return next((place for place, share in enumerate(shares, start=1) if share >= level), None)


@dataclass(frozen=True)
class Shares:
    """A method over all graphs: geometric means by seed and evaluation, ``[seeds][samples]``.

    Attributes:
        of_best: throughput over the best known.
        over_greedy: throughput over the greedy heuristic's, on the graphs where that can run; 0 where it never can.
    """

    of_best: list[list[float]]
    over_greedy: list[list[float]]

    def samples_to(self, level: float) -> list[int | None]:
        """Evaluations to reach a share of the best, by seed."""
        return [samples_to(shares, level) for shares in self.of_best]

    def samples_over_greedy(self, level: float) -> list[int | None]:
        """Evaluations to reach a multiple of greedy's throughput, by seed."""
        return [samples_to(shares, level) for shares in self.over_greedy]


def shares_of(curves: Mapping[Trial, Curve], graphs: Sequence[str], method: str, samples: int) -> Shares:
    """Of the seeds for which the method has finished on all ``graphs``."""
    best = {graph: min(at(c, samples) for t, c in curves.items() if t.graph == graph) for graph in graphs}
    greedy = {t.graph: at(c, samples) for t, c in curves.items() if t.method == GREEDY}
    of_best: list[list[float]] = []
    over_greedy: list[list[float]] = []
    for seed in sorted({trial.seed for trial in curves if trial.method == method}):
        own = {t.graph: c for t, c in curves.items() if t.method == method and t.seed == seed}
        if not set(graphs) <= set(own):
            continue
        for target, wanted in ((of_best, best), (over_greedy, greedy)):
            # Nothing is so many times faster than what cannot run.
            known = [graph for graph in graphs if np.isfinite(wanted[graph])]
            costs = np.array([running(own[graph], samples) for graph in known]).reshape(-1, samples)
            reference = np.array([wanted[graph] for graph in known])[:, None]
            with np.errstate(divide="ignore"):
                shares = np.exp(np.log(reference / costs).mean(axis=0)) if known else np.zeros(samples)
            target.append(shares.tolist())
    return Shares(of_best, over_greedy)


def running(curve: Curve, samples: int) -> list[float]:
    """The best cost after each evaluation."""
    costs = np.full(samples, np.inf)
    for count, cost_s in curve:
        costs[count - 1 :] = cost_s
    best_s: list[float] = costs.tolist()
    return best_s


def section_of(
    part: str,
    curves: Mapping[Trial, Curve],
    failed: Sequence[str],
    graphs: Sequence[str],
    methods: Sequence[str],
    scope: str,
    samples: int,
) -> Section:
    """Tables of a part's methods, what they leave out, and their curves.

    Args:
        part: of the paper.
        curves: of every finished trial.
        failed: why trials failed.
        graphs: in the order of printing.
        methods: in the order of printing.
        scope: package, evaluator, seeds and samples, for people.
        samples: evaluations of each trial.
    """
    runs = [
        graph for graph in graphs if any(np.isfinite(at(c, samples)) for t, c in curves.items() if t.graph == graph)
    ]
    shares = all_shares(curves, runs, methods, samples)
    everywhere = [graph for graph in runs if all(_can_run(curves, graph, method, samples) for method in shares)]
    tables = [method_table(part, shares, (20, 100), samples)]
    notes = [f"{_over(runs)}; {scope}"]
    if 0 < len(everywhere) < len(runs):
        # Where a method finds nothing that can run it has no mean; the others of its graphs still tell something.
        tables.append(method_table(part, all_shares(curves, everywhere, methods, samples), (20, 100), samples))
        rest = ", ".join(graph for graph in runs if graph not in everywhere)
        notes.append(
            f"second table: {_over(everywhere)} on which every method finds a partition that runs, without {rest}"
        )
    if len(runs) < len(graphs):
        rest = ", ".join(graph for graph in graphs if graph not in runs)
        notes.append(f"no method found a partition that runs for {rest}")
    never = [graph for graph in runs if not _can_run(curves, graph, GREEDY, samples)]
    if never:
        notes.append(f"greedy finds no partition that runs for {', '.join(never)}, so ratios to greedy exclude it")
    if part in _PAPER and LEARNED in shares:
        notes.append(
            f"the paper's learned policy is compared with {LEARNED}, a different method that also has no prior; the "
            "ablation includes the paper's method, and python -m benchmarks.learning_paper trains it as the paper does"
        )
    if "dp" in methods:
        notes.append(
            "if simulations are counted, calls of the analytical evaluator are free; otherwise, the answers of dp and "
            "portfolio count as one evaluation each, and the starting points of refine and learned methods as three"
        )
    claims = tuple(claimed(part, shares, samples))
    if claims:
        rows = tuple(
            (each.quantity, f"{shown(each.ours)} %", f"{shown(each.paper)} %", condition) for each, condition in claims
        )
        tables.append(Table(("throughput above", "ours", "the paper's", "the paper's condition"), rows))
    return Section(
        part, TITLES[part], tuple(tables), (*notes, *failed),
        (*_comparisons(part, shares), *(each for each, _ in claims)),
        (_chart(shares, samples),),
    )  # fmt: skip


def claimed(part: str, shares: Mapping[str, Shares], samples: int) -> Iterator[tuple[Comparison, str]]:
    """What the paper says of its methods in its text, the same of ours as means over the seeds, and its condition."""
    for claim in CLAIMS.get(part, ()):
        count = samples if claim.samples is None else min(claim.samples, samples)
        if claim.method not in shares or claim.baseline not in shares:
            continue
        over = ratio(*(_mean_at(shares[name], count) for name in (claim.method, claim.baseline)))
        ours = None if over is None else 100 * (over - 1)
        quantity = f"{claim.method} over {claim.baseline} after {count} samples"
        reason = f"{OTHER_FORM}, after {count} samples; the paper's: {claim.condition}"
        yield Comparison(claim.method, "", quantity, "%", ours, claim.percent, reason), claim.condition


def _mean_at(shares: Shares, samples: int) -> float | None:
    """The mean over the seeds of the throughput over the best known; None where some seed has nothing that can run."""
    values = [run[samples - 1] for run in shares.of_best]
    return statistics.mean(values) if values and all(values) else None


def _over(graphs: Sequence[str]) -> str:
    return graphs[0] if len(graphs) == 1 else f"geometric mean over {len(graphs)} graphs"


def _can_run(curves: Mapping[Trial, Curve], graph: str, method: str, samples: int) -> bool:
    """Whether a method finds what can run on a graph, with every seed."""
    own = [at(curve, samples) for trial, curve in curves.items() if (trial.graph, trial.method) == (graph, method)]
    return bool(np.isfinite(own).all())


def all_shares(
    curves: Mapping[Trial, Curve], graphs: Sequence[str], methods: Sequence[str], samples: int
) -> dict[str, Shares]:
    """Of every method that has finished on all graphs."""
    shares = {method: shares_of(curves, graphs, method, samples) for method in methods}
    return {method: of_method for method, of_method in shares.items() if of_method.of_best}


def method_table(part: str, shares: Mapping[str, Shares], looked_at: Sequence[int], samples: int) -> Table:
    """A row for each method: what it reaches, and how soon it reaches levels over greedy and over the best known.

    Args:
        part: of the paper.
        shares: of each method.
        looked_at: evaluations after which the throughput over greedy is shown, next to the last.
        samples: evaluations of each trial.
    """
    places = sorted({*(min(count, samples) for count in looked_at), samples})
    is_published = part in _PAPER
    rows: list[Row] = []
    for method, of_method in shares.items():
        cells = [_mean([run[count - 1] for run in of_method.over_greedy]) for count in places]
        cells.append(_mean([run[-1] for run in of_method.of_best]))
        cells += [_count(of_method.samples_over_greedy(level)) for level in LEVELS_OVER_GREEDY]
        cells += [_count(of_method.samples_to(level)) for level in LEVELS]
        if is_published:
            cells.append(" / ".join(_count(of_method.samples_over_greedy(level)) for level in PAPER_LEVELS[part]))
            cells.append(" / ".join(map(_whole, _published(part, method))) or "–")
        rows.append((method, *cells))
    levels = "/".join(f"{level:g}" for level in PAPER_LEVELS.get(part, ()))
    headers = (
        "method",
        *(f"relative to greedy at {count}" for count in places),
        f"share of best known at {samples}",
        *(f"samples to {level:g} × greedy" for level in LEVELS_OVER_GREEDY),
        *(f"samples to {level:g} of the best known" for level in LEVELS),
        *([f"samples to {levels} × greedy", f"the paper's to {levels} × its own"] if is_published else []),
    )
    return Table(headers, tuple(rows))


def _comparisons(part: str, shares: Mapping[str, Shares]) -> Iterator[Comparison]:
    """Samples to our levels, and the paper's to its own, which are levels of something else."""
    levels = PAPER_LEVELS.get(part, ())
    for method, of_method in shares.items():
        for level in LEVELS:
            ours = _mean_count(of_method.samples_to(level))
            yield Comparison(method, "", f"samples to {level:g} of the best", "", ours, None)
        for level in LEVELS_OVER_GREEDY:
            ours = _mean_count(of_method.samples_over_greedy(level))
            yield Comparison(method, "", f"samples to {level:g} times greedy", "", ours, None)
        for level, samples in zip(levels, _published(part, method), strict=False):
            ours = _mean_count(of_method.samples_over_greedy(level))
            yield Comparison(method, "", f"samples to {level:g} times greedy", "", ours, samples, UNLIKE)


def _whole(samples: int | None) -> str:
    return "–" if samples is None else f"{samples:,}"


def _mean_count(samples: Sequence[int | None]) -> float | None:
    """The mean of all; None where a seed never gets there."""
    known = [value for value in samples if value is not None]
    return statistics.mean(known) if known and len(known) == len(samples) else None


def _mean(values: Sequence[float]) -> str:
    if not all(np.isfinite(values)) or not any(values):
        # Nothing that it found can run, or there is nothing to compare with.
        return "–"
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.3f} ± {spread:.3f}"


def _count(samples: Sequence[int | None]) -> str:
    known = [value for value in samples if value is not None]
    if not known:
        return "–"
    mean = f"{statistics.mean(known):,.0f}"
    return mean if len(known) == len(samples) else f"{mean} ({len(known)} of {len(samples)} seeds)"


def _chart(shares: Mapping[str, Shares], samples: int) -> Chart:
    """Improvement over greedy by evaluations, the mean of the seeds' geometric means."""
    where = sorted({int(place) for place in np.geomspace(1, samples, 40)})
    series = []
    for method, of_method in shares.items():
        values = [geometric_mean([run[place - 1] for run in of_method.over_greedy]) for place in where]
        series.append(Series(method, tuple(map(float, where)), tuple(values)))
    return Chart("lines", "Improvement over greedy", "evaluations", "times greedy", tuple(series))
