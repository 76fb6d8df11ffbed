"""Screened refinement next to what evaluates every change, with equal numbers of simulated partitions.

    python -m benchmarks.partition_screening --journal DIR            # goes on wherever it was stopped
    python -m benchmarks.partition_screening --journal DIR --show     # prints what is finished, and makes nothing

The protocol, fixed before any score on a test graph was looked at:

- On ``mcm-36``, simulated, throughput: the 16 test graphs, five seeds, 600 partitions of each method; looked at after
  20, 100 and 600. All partitions that a method prices with the simulator count, also those that it begins with; the
  reference evaluator is free.
- ``screen`` evaluates, of 16 changes of the best partition, that of largest expected improvement by stage times
  (:mod:`dse.partition.search.screening`). It is compared with ``refine`` and with ``portfolio`` as it was when the
  protocol was written, ending with refinement: the best two of before.
- ``refine`` and ``screen`` begin with the same partitions, of the same seed.
- The number compared is the throughput over that of another method with the same graph and seed: geometric mean over
  graphs and seeds, with a 95 % bootstrap interval over the graphs, each with its mean over the seeds. "The best of
  before" at each count is that of ``refine`` and ``portfolio`` with the higher geometric mean there. Graphs are left
  out on which some method has nothing that can run after the first count with some seed, and are named.
- Settings were chosen on validation graphs and by what a choice costs, with 300 partitions and three seeds.
- Seed 0 comes first on all graphs, and so on: a study that was stopped has fewer seeds.
"""

import argparse
import statistics
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dse.partition.methods import Method
from dse.partition.problem import Floats
from dse.partition.search.context import SearchContext, SearchResult
from dse.partition.search.portfolio import by_samples
from dse.partition.search.refining import refine, refine_from, starts_of
from dse.partition.search.screening import screen
from dse.reproduce.mcm.study import Trials, question_about
from dse.reproduce.mcm.tables import Curve, Trial, at
from dse.reproduce.trials import finished
from dse.results.result import digest
from dse.run.directory import JOURNAL_FILE
from dse.run.executor import InProcessExecutor
from dse.run.journal import Journal
from dse.run.run import Run
from dse.sources.catalogue import split

BEFORE: Mapping[str, Method] = {"refine": refine, "portfolio": partial(by_samples, climb=refine_from)}
SCREEN = "screen"
METHODS: Mapping[str, Method] = {**BEFORE, SCREEN: screen}
COUNTS = (20, 100, 600)
CONFIDENCE, RESAMPLES = 0.95, 10_000
ALIKE = 1e-9
"""Difference of logarithms below which two throughputs are the same."""

Costs = Mapping[tuple[str, str, int], Curve]
"""The best cost after each evaluation, by graph, method and seed."""


@dataclass
class Maker:
    """Makes trials; methods that begin with the same partitions share what it takes to find them."""

    starts: dict[tuple[str, int], Sequence[tuple[int, ...]]] = field(default_factory=dict)

    def __call__(self, trial: Trial) -> dict[str, Any]:
        """A trial's curve and its CPU seconds, without those of the shared partitions."""
        problem, key = question_about(trial.graph).problem, (trial.graph, trial.seed)
        if key not in self.starts:
            question = question_about(trial.graph)
            context = SearchContext(problem, question.evaluator("simulator"), InProcessExecutor(), trial.seed)
            self.starts = {key: [tuple(chip) for chip in starts_of(context).tolist()]}
        begun = time.process_time()
        made = Trials({trial.method: self._method(trial.method, key)}).made(trial)
        return {"curve": made.curve, "cpu_s": time.process_time() - begun}

    def _method(self, name: str, key: tuple[str, int]) -> Method:
        method, starts = METHODS[name], self.starts[key]
        if name == "portfolio":
            return method

        def begun(context: SearchContext) -> SearchResult:
            return method(replace(context, starts=starts))

        return begun


def trials(graphs: Iterable[str], seeds: Iterable[int], samples: int) -> Iterator[Trial]:
    """All of them, seed after seed, so that a study that was stopped says something about every graph."""
    graphs = list(graphs)
    for seed in seeds:
        for graph in graphs:
            for method in METHODS:
                yield Trial(graph, "simulator", method, seed, samples)


def interval(logs: Floats) -> tuple[float, float]:
    """The bootstrap interval of the mean of independent values [G] (Efron's percentiles)."""
    draws = np.random.default_rng(0).integers(len(logs), size=(RESAMPLES, len(logs)))
    low, high = np.quantile(logs[draws].mean(axis=1), [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


@dataclass(frozen=True)
class Table:
    """What finished trials say.

    Attributes:
        costs: of every method with every seed on every graph.
        graphs, seeds: that are compared.
    """

    costs: Costs
    graphs: Sequence[str]
    seeds: Sequence[int]

    def logs(self, method: str, other: str, count: int) -> Floats:
        """log of the throughput over the other method's, the mean over the seeds of each graph, [G]."""
        ratios = [
            [
                at(self.costs[graph, other, seed], count) / at(self.costs[graph, method, seed], count)
                for seed in self.seeds
            ]
            for graph in self.graphs
        ]
        return np.asarray(np.log(ratios).mean(axis=1))

    def best_of_before(self, count: int) -> str:
        """The method of before with the higher geometric mean."""
        return max(BEFORE, key=lambda name: float(self.logs(name, "refine", count).mean()))

    def compared(self, method: str, other: str, count: int) -> str:
        """The gain over another method, for people."""
        logs = self.logs(method, other, count)
        low, high = interval(logs)
        better, worse = int((logs > ALIKE).sum()), int((logs < -ALIKE).sum())
        percent = [f"{100 * np.expm1(value):+.1f}" for value in (logs.mean(), low, high)]
        tally = f"better on {better}, equal on {len(logs) - better - worse}, worse on {worse}"
        return f"{percent[0]} % [{percent[1]}, {percent[2]}]; {tally} of {len(logs)} graphs"


def table_of(costs: Costs, graphs: Sequence[str], count: int) -> tuple[Table, list[str]]:
    """(the table of the seeds that have finished everywhere, graphs that it leaves out).

    Args:
        costs: of finished trials.
        graphs: all of them.
        count: after which every method must have something that can run.
    """
    seeds = [
        seed
        for seed in sorted({seed for _, _, seed in costs})
        if all((graph, name, seed) in costs for graph in graphs for name in METHODS)
    ]
    runs = [
        graph
        for graph in graphs
        if all(np.isfinite(at(costs[graph, name, seed], count)) for name in METHODS for seed in seeds)
    ]
    return Table(costs, runs, seeds), [graph for graph in graphs if graph not in runs]


def show(costs: Costs, cpu_s: Mapping[str, float], graphs: Sequence[str], samples: int) -> None:
    """The comparison of what has finished."""
    counts = sorted({min(count, samples) for count in COUNTS})
    table, left_out = table_of(costs, graphs, counts[0])
    if not table.seeds or not table.graphs:
        print("no seed has finished on all graphs yet")
        return
    print(f"{len(table.graphs)} graphs, {len(table.seeds)} seeds; left out: {', '.join(left_out) or 'none'}")
    print(
        f"{'throughput over refine':<24}"
        + "".join(f" {f'at {count}':>8}" for count in counts)
        + f" {'CPU s a trial':>14}"
    )
    for name in METHODS:
        means = [float(np.exp(table.logs(name, "refine", count).mean())) for count in counts]
        print(f"{name:<24}" + "".join(f" {mean:>8.3f}" for mean in means) + f" {cpu_s[name]:>14.2f}")
    for count in counts:
        best = table.best_of_before(count)
        print(f"{SCREEN} over the better of the two before ({best}) at {count}: {table.compared(SCREEN, best, count)}")


def main() -> None:
    """Make what is missing, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--journal", type=Path, required=True, help="folder of the journal")
    parser.add_argument("--show", action="store_true", help="only print what is finished")
    parser.add_argument("--samples", type=int, default=COUNTS[-1], help="simulated partitions of each method")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--graphs", default="", help="in place of the test graphs, separated by commas")
    given = parser.parse_args()
    graphs = tuple(filter(None, given.graphs.split(","))) or split()["test"]
    given.journal.mkdir(parents=True, exist_ok=True)
    keys = {trial: digest(asdict(trial)) for trial in trials(graphs, range(given.seeds), given.samples)}
    with Journal(given.journal / JOURNAL_FILE) as journal:
        if not given.show:
            _, failed = finished(Run(progress=_report, journal=journal), "trials", Maker(), keys)
            for trial, reason in failed.items():
                print(f"{trial}: {reason}")
        values = {trial: journal[key] for trial, key in keys.items() if key in journal}
    costs = {(t.graph, t.method, t.seed): tuple((int(n), float(c)) for n, c in v["curve"]) for t, v in values.items()}
    cpu_s = {
        name: statistics.mean(spent)
        for name in METHODS
        if (spent := [value["cpu_s"] for trial, value in values.items() if trial.method == name])
    }
    show(costs, cpu_s, graphs, given.samples)


def _report(phase: str, done: int, total: int) -> None:
    print(f"{time.strftime('%H:%M:%S')} {phase}: {done} of {total}", flush=True) if done % 20 == 0 else None


if __name__ == "__main__":
    main()
