"""Placements by single rules, the untuned mixture and the tuned rules at equal CPU time, on graphs not tuned on.

Target: the tuned rules are no worse than the mixture and every single rule. Each cost anneals one chain a seed for as
many moves as fit into the budget by its measured speed on that graph; the simulator judges the placement afterwards and
takes no part in the search. Share of the bound: bound over simulated slots of a sample, mean over graphs, with a 90 %
interval from 10,000 resamples of the graphs; "to mixture" is the mean difference on the same graphs and seeds. Open
graphs are those that a pilot run of the tuned rules (of the mixture, where none are given), with another seed and the
same budget, leaves more than 1 % from the bound.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from dse.fabric.bound import bound
from dse.fabric.cases import block_case
from dse.fabric.evaluators.measure import throughput
from dse.fabric.evaluators.simulator import Simulator
from dse.fabric.rules import RULES, single_rule
from dse.fabric.search.anneal import Annealing, AnnealSettings, Chain
from dse.fabric.setting import Setting, read_tuned
from hardware.fabric_specs import fabric
from hardware.operator_slots import operator_slots

PILOT_SEED = 10**6
SPEED_MOVES = 10_000
WITHIN = 0.99


class Graph:
    """A graph that is not among those that were tuned on, and what judges its placements."""

    def __init__(self, seed, grid):
        self.grid = grid
        self.pipeline = block_case(seed, grid, operator_slots()).expansion.pipeline
        self.simulator = Simulator(self.pipeline, grid)
        self.bound_slots = bound(self.pipeline, grid).slots

    def share(self, setting, budget_s, seed):
        """Share of the bound after about ``budget_s`` CPU seconds, and how many they were."""
        annealing = Annealing(self.pipeline, self.grid, setting.weights, setting.schedule(AnnealSettings(SPEED_MOVES)))
        one_s = timed(annealing, SPEED_MOVES, seed)[1]
        two_s = timed(annealing, 2 * SPEED_MOVES, seed)[1]
        more_s = max(two_s - one_s, 0.1 * one_s)
        moves = SPEED_MOVES * (1 + max(0.0, budget_s - one_s) / more_s)
        annealed, used_s = timed(annealing, int(moves), seed)
        interval_slots = throughput(self.simulator, annealed.placement).interval_slots
        return (0.0 if interval_slots is None else self.bound_slots / interval_slots), used_s


def timed(annealing, moves, seed):
    """A chain of so many moves, and its CPU seconds with what it needs to begin."""
    fresh = replace(annealing, settings=replace(annealing.settings, moves=moves))
    start = time.process_time()
    annealed = fresh(Chain(seed))
    return annealed, time.process_time() - start


def interval(values):
    """Mean of values of graphs, [G], with a 90 % interval over resampled graphs."""
    resampled = np.random.default_rng(0).choice(values, (10_000, len(values))).mean(axis=1)
    low, high = np.quantile(resampled, (0.05, 0.95))
    return f"{values.mean():+.3f} [{low:+.3f}, {high:+.3f}]"


def table(settings, graphs, budget_s, seeds, pilot):
    """Print a budget's rows."""
    shares, used_s = {}, {}
    for name, setting in settings.items():
        results = np.array([[graph.share(setting, budget_s, seed) for seed in range(seeds)] for graph in graphs])
        shares[name], used_s[name] = results[..., 0].mean(axis=1), results[..., 1].mean()
    is_open = np.array([graph.share(pilot, budget_s, PILOT_SEED)[0] < WITHIN for graph in graphs])
    print(f"\n{budget_s:g} s CPU, {len(graphs)} graphs, {seeds} seeds, {is_open.sum()} open")
    head = ("of the bound", "to mixture", "to mixture, open graphs")
    print(f"{'cost':13}{head[0]:>26}{head[1]:>26}{head[2]:>26}{'within 1 %':>12}{'CPU s':>7}")
    for name, share in shares.items():
        gain = share - shares["mixture"]
        cells = [interval(share), interval(gain), interval(gain[is_open]) if is_open.any() else "-"]
        within = f"{(share > WITHIN).sum()}/{len(share)}"
        print(f"{name:13}" + "".join(f"{cell:>26}" for cell in cells) + f"{within:>12}{used_s[name]:7.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fabric", default="plasticine-8x16")
    parser.add_argument("--first-graph", type=int, default=90_000)
    parser.add_argument("--graphs", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--budgets", default="0.3,1,3,10", help="CPU seconds, separated by commas")
    parser.add_argument("--tuned", type=Path, help="a file that `dse fabric tune` has written (default: left out)")
    parser.add_argument("--no-single-rules", action="store_true")
    given = parser.parse_args()
    untuned = Setting.untuned()
    tuned = {} if given.tuned is None else {"tuned": read_tuned(given.tuned).setting.setting()}
    rules = {} if given.no_single_rules else {rule: replace(untuned, weights=single_rule(rule)) for rule in RULES}
    settings = {"mixture": untuned, **tuned, **rules}
    grid = fabric(given.fabric)
    graphs = [Graph(given.first_graph + number, grid) for number in range(given.graphs)]
    graphs[0].share(untuned, 0.01, 0)  # loads compiled code
    for budget in given.budgets.split(","):
        table(settings, graphs, float(budget), given.seeds, tuned.get("tuned", untuned))


if __name__ == "__main__":
    main()
