"""Tables 2 and 3, Figures 5 and 6 of the multi-chip partitioning paper: how many samples each method needs.

Every method partitions every graph with several seeds, and what it has found after each evaluation is kept. The paper
counts samples until the geometric mean over 16 unseen graphs (Table 2, Figure 5: analytical model) or the throughput of
BERT (Table 3, Figure 6: hardware, here the simulator) reaches some multiple of a greedy heuristic's. Its multiples
depend on its heuristic, so ours are shares of the best throughput that any method has found for a graph; the
improvement over our greedy heuristic is beside them. Two parts are not in the paper: the simulator on the test graphs
and BERT together, and what the learned policy is worth without its parts.

Methods that do not sample (dynamic programming, portfolio) count as one evaluation; what they compute is not counted in
samples. Learned methods come from outside (the command line), by name.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

import numpy as np

from dse.executor import Executor, Failed, InProcessExecutor
from dse.journal import Journal
from dse.partition.graphs.catalogue import split
from dse.partition.methods import METHODS, Method
from dse.partition.options import EvaluatorName, PartitionOptions, Question, question_of
from dse.partition.problem import Chips, Floats
from dse.partition.search.context import Evaluator, SearchContext
from dse.progress import ProgressCallback, StopSignal
from dse.reproduce.section import Chart, Comparison, Row, Section, Series, Table, geometric_mean, shown
from dse.result import digest

GREEDY = "greedy"

STUDIES = ("table2", "table3", "simulator", "ablation")
"""The parts that are made here."""

UNSAMPLED = ("dp", "portfolio")
"""Methods whose answer counts as one evaluation of the reference evaluator, which they know by heart.

What they ask of a simulator counts as everyone's.
"""

SAMPLED: Mapping[str, Method] = {
    name: METHODS[name] for name in (GREEDY, "random", "anneal", "hill-climb", "refine", *UNSAMPLED)
}
"""What the learned methods are compared with."""

_TITLES: Mapping[str, str] = {
    "table2": "Table 2 and Figure 5: samples that methods need",
    "table3": "Table 3 and Figure 6: samples that methods need",
    "simulator": "Test graphs and BERT, simulated: samples that methods need",
    "ablation": "Ablation: what the learned policy is worth with one thing changed",
}

LEVELS = (0.8, 0.9, 0.95)
"""Shares of the best throughput known."""

_PRICED: Mapping[EvaluatorName, str] = {"analytical": "reference evaluator", "simulator": "simulator"}

PACKAGE, BERT = "mcm-36", "bert-large-primitive"

Curve = tuple[tuple[int, float], ...]
"""(evaluations, best cost in seconds) wherever a method has found something better."""

_PAPER: Mapping[str, Mapping[str, tuple[int | None, ...]]] = {
    "table2": {
        "random": (305, 915, 3612),
        "anneal": (255, 979, None),
        "rl": (330, 676, 1496),
        "rl zero-shot": (196, 600, 3652),
        "rl fine-tuned": (171, 503, 1362),
    },
    "table3": {
        "random": (447, None, None),
        "anneal": (576, None, None),
        "rl": (112, 423, 607),
        "rl zero-shot": (None, None, None),
        "rl fine-tuned": (20, 20, 161),
    },
}
"""Samples to reach 1.6, 1.7 and 1.8 (Table 2) and 2.55, 2.6 and 2.65 (Table 3) times the paper's heuristic."""


@dataclass(frozen=True)
class StudyBudget:
    """How much is tried: evaluations of each method, and seeds."""

    samples: int = 300
    seeds: int = 5


@dataclass(frozen=True)
class Trial:
    """One method with one seed on one graph."""

    graph: str
    evaluator: EvaluatorName
    method: str
    seed: int
    samples: int


class _Tracked:
    """An evaluator that keeps what its cheapest partition cost after each evaluation."""

    def __init__(self, evaluator: Evaluator, most: int) -> None:
        self._evaluator, self._most = evaluator, most
        self._asked = 0
        self.points: list[tuple[int, float]] = []

    def costs(self, chips: Chips) -> Floats:
        """As the evaluator's own."""
        costs = self._evaluator.costs(chips)
        for cost_s in costs.tolist():
            self._asked += 1
            best_s = self.points[-1][1] if self.points else np.inf
            if self._asked <= self._most and cost_s < best_s:
                self.points.append((self._asked, cost_s))
        return costs

    def busy_s(self, chips: Chips) -> Floats:
        """As the evaluator's own."""
        return self._evaluator.busy_s(chips)


@cache
def _question(graph: str) -> Question:
    return question_of(PartitionOptions(graph, package=PACKAGE))


class Trials:
    """Makes trials, wherever it is sent.

    Args:
        methods: by name.
    """

    def __init__(self, methods: Mapping[str, Method]) -> None:
        self._methods = dict(methods)

    def describe(self, trial: Trial) -> str:
        """A trial for people."""
        return f"{trial.method} on {trial.graph}, seed {trial.seed}"

    def __call__(self, trial: Trial) -> Curve:
        """What the method had found after each evaluation."""
        question = _question(trial.graph)
        tracked = _Tracked(question.evaluator(trial.evaluator), trial.samples)
        context = SearchContext(question.problem, tracked, InProcessExecutor(), trial.seed, trial.samples)
        found = self._methods[trial.method](context)
        if trial.method in UNSAMPLED and trial.evaluator == "analytical":
            return ((1, found.cost_s),) if found.chip is not None else ()
        return tuple(tracked.points)


@dataclass(frozen=True)
class Study:
    """What is run, and where.

    Attributes:
        methods: the learned ones by name; the others are :data:`SAMPLED`.
        variants: of one learned method, for the ablation.
        executor, journal, progress, stop: of the run.
        budget: evaluations and seeds.
        first_seed: of the first trial of each.
        graphs: of Table 2; the test graphs of the split as a rule.
        large: the graph of Table 3.
    """

    methods: Mapping[str, Method]
    variants: Mapping[str, Method]
    executor: Executor
    journal: Journal
    progress: ProgressCallback
    stop: StopSignal
    budget: StudyBudget = StudyBudget()
    first_seed: int = 0
    graphs: tuple[str, ...] = ()
    large: str = BERT

    def section(self, part: str) -> Section:
        """One of :data:`STUDIES`, with its figure.

        Raises:
            StoppedError: the stop signal gave a reason; finished trials are in the journal.
        """
        graphs = self.graphs or split()["test"]
        if part == "table3":
            return self._section(part, (self.large,), "simulator", {**SAMPLED, **self.methods})
        if part == "simulator":
            own = graphs if self.graphs else (*graphs, self.large)
            return self._section(part, own, "simulator", {**SAMPLED, **self.methods})
        if part == "ablation":
            greedy = {GREEDY: SAMPLED[GREEDY]}
            return self._section(part, graphs, "analytical", {**greedy, **self.variants})
        return self._section(part, graphs, "analytical", {**SAMPLED, **self.methods})

    def _section(
        self, part: str, graphs: Sequence[str], evaluator: EvaluatorName, known: Mapping[str, Method]
    ) -> Section:
        seeds = range(self.first_seed, self.first_seed + self.budget.seeds)
        trials = [
            Trial(graph, evaluator, method, seed, self.budget.samples)
            for graph in graphs
            for method in known
            for seed in (seeds if method not in (GREEDY, "portfolio") else seeds[:1])
        ]
        curves, failed = self._curves(trials, Trials(known), part)
        samples = self.budget.samples
        asked = (
            f"{PACKAGE}, {_PRICED[evaluator]}; mean ± deviation over {len(seeds)} seeds, at most {samples} "
            "evaluations; levels are shares of the best throughput that any method here has found"
        )
        return _section(part, curves, failed, graphs, list(known), asked, samples)

    def _curves(self, trials: list[Trial], work: Trials, part: str) -> tuple[dict[Trial, Curve], list[str]]:
        """(curves of trials, reasons of those that failed)."""
        keys = {trial: digest(asdict(trial)) for trial in trials}
        missing = [trial for trial in trials if keys[trial] not in self.journal]
        failed: list[str] = []

        def keep(arrived: Sequence[tuple[Any, Any]]) -> None:
            done = {keys[trial]: outcome for trial, outcome in arrived if not isinstance(outcome, Failed)}
            self.journal.append_all(done)

        for number, outcome in enumerate(self.executor.outcomes(work, missing, self.stop, keep)):
            if isinstance(outcome, Failed):
                failed.append(f"{work.describe(missing[number])}: {outcome.reason}")
            self.progress(f"trials of {part}", number + 1, len(missing))
        found = {trial: self.journal[key] for trial, key in keys.items() if key in self.journal}
        return {trial: tuple((int(n), float(c)) for n, c in curve) for trial, curve in found.items()}, failed


def at(curve: Curve, samples: int) -> float:
    """The best cost after so many evaluations; infinite before anything was found."""
    return min((cost_s for asked, cost_s in curve if asked <= samples), default=np.inf)


def samples_to(shares: Sequence[float], level: float) -> int | None:
    """The first place, from 1 on, at which ``shares`` reach ``level``; None if they never do."""
    return next((place for place, share in enumerate(shares, start=1) if share >= level), None)


@dataclass(frozen=True)
class _Shares:
    """A method over all graphs: geometric means by seed and evaluation, [seeds][samples].

    Attributes:
        of_best: throughput over the best known.
        over_greedy: throughput over the greedy heuristic's, on the graphs where that can run; 0 where it never can.
    """

    of_best: list[list[float]]
    over_greedy: list[list[float]]

    def reached(self, level: float) -> list[int | None]:
        """Evaluations to reach a share of the best, by seed."""
        return [samples_to(shares, level) for shares in self.of_best]


def _shares(curves: Mapping[Trial, Curve], graphs: Sequence[str], method: str, samples: int) -> _Shares:
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
            costs = np.array([_running(own[graph], samples) for graph in known]).reshape(-1, samples)
            reference = np.array([wanted[graph] for graph in known])[:, None]
            with np.errstate(divide="ignore"):
                shares = np.exp(np.log(reference / costs).mean(axis=0)) if known else np.zeros(samples)
            target.append(shares.tolist())
    return _Shares(of_best, over_greedy)


def _running(curve: Curve, samples: int) -> list[float]:
    """The best cost after each evaluation."""
    costs = np.full(samples, np.inf)
    for asked, cost_s in curve:
        costs[asked - 1 :] = cost_s
    found: list[float] = costs.tolist()
    return found


def _section(
    part: str,
    curves: Mapping[Trial, Curve],
    failed: Sequence[str],
    graphs: Sequence[str],
    methods: Sequence[str],
    asked: str,
    samples: int,
) -> Section:
    runs = [
        graph for graph in graphs if any(np.isfinite(at(c, samples)) for t, c in curves.items() if t.graph == graph)
    ]
    shares = _all_shares(curves, runs, methods, samples)
    everywhere = [graph for graph in runs if all(_found(curves, graph, method, samples) for method in shares)]
    tables = [_table(part, shares, samples)]
    notes = [f"{_over(runs)}; {asked}"]
    if 0 < len(everywhere) < len(runs):
        # Where a method finds nothing that can run it has no mean; the others of its graphs still tell something.
        tables.append(_table(part, _all_shares(curves, everywhere, methods, samples), samples))
        rest = ", ".join(graph for graph in runs if graph not in everywhere)
        notes.append(f"second table: {_over(everywhere)} on which every method finds what can run, without {rest}")
    if len(runs) < len(graphs):
        rest = ", ".join(graph for graph in graphs if graph not in runs)
        notes.append(f"nothing that can run was found by any method for {rest}")
    never = [graph for graph in runs if not _found(curves, graph, GREEDY, samples)]
    if never:
        notes.append(f"greedy finds nothing that can run for {', '.join(never)}: not in what is over greedy's")
    if "dp" in methods:
        notes.append(
            "the reference evaluator is free where simulated partitions are counted; under it, the answer of dp and "
            "portfolio counts as one evaluation, and what refine and learned methods of that name begin with as three"
        )
    return Section(
        part, _TITLES[part], tuple(tables), (*notes, *failed), tuple(_comparisons(part, shares)),
        (_chart(shares, samples),),
    )  # fmt: skip


def _over(graphs: Sequence[str]) -> str:
    return graphs[0] if len(graphs) == 1 else f"the geometric mean over {len(graphs)} graphs"


def _found(curves: Mapping[Trial, Curve], graph: str, method: str, samples: int) -> bool:
    """Whether a method finds what can run on a graph, with every seed."""
    own = [at(curve, samples) for trial, curve in curves.items() if (trial.graph, trial.method) == (graph, method)]
    return bool(np.isfinite(own).all())


def _all_shares(
    curves: Mapping[Trial, Curve], graphs: Sequence[str], methods: Sequence[str], samples: int
) -> dict[str, _Shares]:
    """Of every method that has finished on all graphs."""
    shares = {method: _shares(curves, graphs, method, samples) for method in methods}
    return {method: found for method, found in shares.items() if found.of_best}


def _table(part: str, shares: Mapping[str, _Shares], samples: int) -> Table:
    """A row for each method: what it reaches over greedy, and how soon it reaches the levels."""
    looked_at = sorted({min(20, samples), min(100, samples), samples})
    paper = _PAPER.get(part, {})
    rows: list[Row] = []
    for method, found in shares.items():
        cells = [_mean([run[count - 1] for run in found.over_greedy]) for count in looked_at]
        counts = [_count(found.reached(level)) for level in LEVELS]
        published = " / ".join(shown(value) for value in paper.get(method, ())) or "–"
        rows.append((method, *cells, *counts, *([published] if paper else [])))
    headers = (
        "method",
        *(f"over greedy at {count}" for count in looked_at),
        *(f"samples to {level:g}" for level in LEVELS),
        *(["paper's three levels"] if paper else []),
    )
    return Table(headers, tuple(rows))


def _comparisons(part: str, shares: Mapping[str, _Shares]) -> Iterator[Comparison]:
    """Samples to each level, beside the paper's to its own."""
    paper = _PAPER.get(part, {})
    for method, found in shares.items():
        for level, theirs in zip(LEVELS, paper.get(method, (None,) * len(LEVELS)), strict=True):
            known = [value for value in found.reached(level) if value is not None]
            ours = statistics.mean(known) if len(known) == len(found.of_best) else None
            yield Comparison(method, "", f"samples to {level:g} of the best", "", ours, theirs)


def _mean(values: Sequence[float]) -> str:
    if not all(np.isfinite(values)) or not any(values):
        # Nothing that it found can run, or there is nothing to compare with.
        return "–"
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.3f} ± {spread:.3f}"


def _count(reached: Sequence[int | None]) -> str:
    known = [value for value in reached if value is not None]
    if not known:
        return "–"
    mean = f"{statistics.mean(known):,.0f}"
    return mean if len(known) == len(reached) else f"{mean} ({len(known)} of {len(reached)} seeds)"


def _chart(shares: Mapping[str, _Shares], samples: int) -> Chart:
    """Improvement over greedy by evaluations, the mean of the seeds' geometric means."""
    where = sorted({int(place) for place in np.geomspace(1, samples, 40)})
    series = []
    for method, found in shares.items():
        values = [geometric_mean([run[place - 1] for run in found.over_greedy]) for place in where]
        series.append(Series(method, tuple(map(float, where)), tuple(values)))
    return Chart("lines", "Improvement over greedy", "evaluations", "times greedy", tuple(series))
