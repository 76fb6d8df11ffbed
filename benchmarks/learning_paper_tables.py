"""What :mod:`benchmarks.learning_paper` prints of finished trials: tables, paired gains, CPU seconds missing."""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dse.reproduce.mcm.study import question_about
from dse.reproduce.mcm.tables import GREEDY, Trial, all_shares, method_table
from policies.partition.contenders import Contender
from policies.partition.settings import FORMS

PAPER_SCRATCH = "paper rl"
"""The paper's own form, learning from scratch."""


def paper_contenders(checkpoint: Path | None = None) -> Mapping[str, Contender]:
    """By name: the paper's form from scratch and, from a checkpoint of that form, zero-shot and fine-tuned."""
    form = FORMS["paper"]
    scratch = {PAPER_SCRATCH: Contender(form)}
    if checkpoint is None:
        return scratch
    return scratch | {
        f"{PAPER_SCRATCH} zero-shot": Contender(form, checkpoint, tune=False),
        f"{PAPER_SCRATCH} fine-tuned": Contender(form, checkpoint),
    }


BASELINES = (GREEDY, "dp", "portfolio", "random", "anneal")
ONCE = (GREEDY, "dp", "portfolio")
"""Methods that have no seed, or no use for more than one."""

LEARNED = tuple(paper_contenders(Path()))
TRANSFERRED = tuple(name for name in LEARNED if name != PAPER_SCRATCH)
PLACES = (20, 100, 300, 1000)
CONFIDENCE = 0.95
"""Of the interval of a paired difference."""


def operators(graph: str) -> int:
    """How many a graph has."""
    return len(question_about(graph).problem.graph)


def missing_s(units: Sequence[Any], values: Mapping[Any, Any]) -> float | None:
    """CPU seconds that the missing ones of ``units`` may take; None where none has finished.

    A method takes on a graph what it took there with other seeds, or what a line through its finished graphs says of
    one of that size.
    """
    missing = [unit for unit in units if unit not in values]
    if not missing:
        return 0.0
    spent: dict[str, dict[str, list[float]]] = {}
    for unit in units:
        if unit in values:
            spent.setdefault(unit.method, {}).setdefault(unit.graph, []).append(values[unit]["cpu_s"])
    if not spent:
        return None
    every = statistics.mean(each for by_graph in spent.values() for seconds in by_graph.values() for each in seconds)
    return sum(_expected_s(spent.get(unit.method, {}), unit.graph, every) for unit in missing)


def _expected_s(by_graph: Mapping[str, Sequence[float]], graph: str, otherwise: float) -> float:
    if graph in by_graph:
        return statistics.mean(by_graph[graph])
    means = {operators(name): statistics.mean(seconds) for name, seconds in by_graph.items()}
    if len(means) < 2:
        return statistics.mean(means.values()) if means else otherwise
    slope, fixed = np.polyfit(list(means), list(means.values()), 1)
    return max(0.0, float(fixed + slope * operators(graph)))


def show_tables(title: str, part: str, units: Mapping[Trial, Any], graphs: Sequence[str]) -> None:
    """Over the graphs on which all methods have finished with the first seed; at first without what is transferred."""
    started = {unit.method for unit in units}
    methods = [name for name in (*BASELINES, *LEARNED) if name in started]
    begun = {(unit.graph, unit.method) for unit in units if unit.seed == 0}
    tables = {}
    for compared in ([name for name in methods if name not in TRANSFERRED], methods):
        finished_on = tuple(graph for graph in graphs if all((graph, name) in begun for name in compared))
        if compared and finished_on:
            # Where more methods have finished on the same graphs, their table is the better one.
            tables[finished_on] = compared
    for finished_on, compared in tables.items():
        print(f"{title}: {len(finished_on)} of {len(graphs)} graphs ({', '.join(finished_on)})")
        _show_table(part, units, finished_on, compared)


def _show_table(part: str, units: Mapping[Trial, Any], graphs: Sequence[str], methods: Sequence[str]) -> None:
    own = {unit: value for unit, value in units.items() if unit.graph in graphs and unit.method in methods}
    samples = max(unit.samples for unit in own)
    curves = {
        unit: tuple((int(place), float(cost_s)) for place, cost_s in value["curve"]) for unit, value in own.items()
    }
    shares = all_shares(curves, graphs, methods, samples)
    table = method_table(part, shares, PLACES, samples)
    _print_aligned(
        [("seeds", *table.headers), *((str(len(shares[row[0]].of_best)), *row) for row in table.rows)],
    )
    best = {unit: curve[-1][1] for unit, curve in curves.items() if curve}
    greedy_s = {unit.graph: cost_s for unit, cost_s in best.items() if unit.method == GREEDY}
    for name in methods:
        throughputs = {unit: value["throughputs"] for unit, value in own.items() if unit.method == name}
        if name not in ONCE and (means := first_and_last(throughputs, greedy_s)):
            first, last = means
            print(f"  {name}: mean throughput over greedy, first hundred {first:.3f}, last {last:.3f}")
        if name in LEARNED and (gains := paired(best, name, "random")):
            print(f"  {name} over random after {samples}: {described(gains)}")
        if name not in ONCE and len(graphs) == 1:
            needed = samples_to_end_of("random", curves, name)
            cells = ", ".join("–" if each is None else f"{each}" for each in needed)
            print(f"  {name}: samples to the mean of random after {samples}, by seed: {cells}")
    print()


def _print_aligned(rows: Sequence[Sequence[str]]) -> None:
    """Headers are long, so each is on its own line, with the number of its column."""
    headers, *cells = rows
    for number, header in enumerate(headers[2:], start=1):
        print(f"  ({number}) {header}")
    numbered = [(*headers[:2], *(f"({number})" for number in range(1, len(headers) - 1))), *cells]
    widths = [max(len(row[place]) for row in numbered) for place in range(len(headers))]
    for row in numbered:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def samples_to_end_of(other: str, curves: Mapping[Trial, Sequence[tuple[int, float]]], method: str) -> list[int | None]:
    """Samples, by seed, to the geometric mean over seeds of what ``other`` has at its end; None where never.

    Args:
        other: the method that sets the level.
        curves: (samples, seconds of the best partition) at every improvement, of trials on one graph.
        method: whose samples are counted.
    """
    ends = [curve[-1][1] for trial, curve in curves.items() if trial.method == other and curve]
    if not ends:
        return []
    level_s = float(np.exp(np.mean(np.log(ends))))
    own = sorted((trial.seed, curve) for trial, curve in curves.items() if trial.method == method)
    return [next((place for place, cost_s in curve if cost_s <= level_s), None) for _, curve in own]


def first_and_last(
    throughputs: Mapping[Trial, Sequence[float]], greedy_s: Mapping[str, float]
) -> tuple[float, float] | None:
    """Mean throughput of the first and of the last hundred samples over greedy's, geometric means over the trials.

    Trials in which one of the two has nothing that can run are left out; None where all are.
    """
    logs = [
        np.log(np.array([each[0], each[-1]]) * greedy_s[trial.graph])
        for trial, each in throughputs.items()
        if trial.graph in greedy_s and each and min(each[0], each[-1]) > 0
    ]
    if not logs:
        return None
    first, last = np.exp(np.mean(logs, axis=0)).tolist()
    return first, last


def paired(best: Mapping[Trial, float], method: str, other: str) -> dict[str, float]:
    """log of throughput over the other method's at the end, by graph: the mean over the seeds that both have."""
    cost_s = {(unit.graph, unit.method, unit.seed): value for unit, value in best.items()}
    gains: dict[str, list[float]] = {}
    for (graph, name, seed), value in cost_s.items():
        if name == method and (graph, other, seed) in cost_s:
            gains.setdefault(graph, []).append(float(np.log(cost_s[graph, other, seed] / value)))
    return {graph: statistics.mean(each) for graph, each in gains.items()}


def described(gains: Mapping[str, float]) -> str:
    """The geometric mean of paired gains with an interval over the graphs, and on how many it is one."""
    logs = np.array(list(gains.values()))
    better, worse = int((logs > 1e-9).sum()), int((logs < -1e-9).sum())
    text = f"{100 * np.expm1(logs.mean()):+.2f} %"
    if len(logs) > 1:
        from scipy.stats import t

        reach = t.ppf((1 + CONFIDENCE) / 2, len(logs) - 1) * logs.std(ddof=1) / np.sqrt(len(logs))
        low, high = (100 * np.expm1(logs.mean() + sign * reach) for sign in (-1, 1))
        text += f" [{low:+.2f}, {high:+.2f}]"
    return f"{text}; better on {better}, equal on {len(logs) - better - worse}, worse on {worse} of {len(logs)} graphs"
