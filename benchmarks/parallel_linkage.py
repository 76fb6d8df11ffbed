"""Operator and data plans: deep Q-learning beside the exact plan, and beside search without learning.

    python -m benchmarks.parallel_linkage [--steps vgg19,t5-6] [--seeds 5] [--devices 8]

Every method decides the same dimensions in the same order and is stopped after as many episodes as Q-learning had with
the same seed: ``random`` draws every decision, ``greedy`` splits whatever can still be split (it knows what conflicts),
``annealing`` changes one linkage group at a time. The bound is that of CP-SAT.
"""

import argparse
import logging
import time
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

import numpy as np

from dse.parallel.inputs import device_of
from dse.parallel.linkage_plans import linkage_plan
from dse.parallel.mesh import mesh_of
from dse.parallel.prices import Prices
from dse.parallel.problem import ParallelProblem
from dse.reproduce.automap.models import step_of
from dse.sharding.hlo.table import step_factors
from hardware.network_specs import network
from hardware.specs import accelerator
from policies.parallel.linkage.dimensions import Decided, Dimensions, Integers, dimensions_of
from policies.parallel.linkage.episodes import OPEN, DecisionSource
from policies.parallel.linkage.search import trained


class Row(NamedTuple):
    """One method on one step.

    Attributes:
        method: its name.
        split: dimensions that it splits, by seed.
        episodes: that it had, by seed.
        cpu_s: by seed.
        text: anything else.
    """

    method: str
    split: list[int]
    episodes: list[int]
    cpu_s: list[float]
    text: str = ""


def random(of: Dimensions, decided: Decided, episodes: int, seed: int) -> int:
    """The most dimensions that random decisions split without a conflict."""
    source, draw = DecisionSource(of, decided == "variables"), np.random.default_rng(seed)
    while source.evaluations + source.conflicts < episodes:
        count = min(16, episodes - source.evaluations - source.conflicts)
        running, ended = source.episodes(0, count), np.zeros(count, dtype=bool)
        while not ended.all():
            _, ended = running.step(draw.integers(0, 2, count))
    return source.best.dimensions if source.best else 0


def greedy(of: Dimensions, _decided: Decided, _episodes: int, _seed: int) -> int:
    """Groups in their order, each split unless a split one excludes it: one episode."""
    return _value(of, of.first.argsort(), np.ones(len(of.numbers), dtype=bool))


def annealing(of: Dimensions, _decided: Decided, episodes: int, seed: int) -> int:
    """One group after the other is asked for or no longer; what is asked for is split in the order, where it can be."""
    draw, order = np.random.default_rng(seed), of.first.argsort()
    wanted = draw.random(len(of.numbers)) < 0.5
    now = best = _value(of, order, wanted)
    start = max(1.0, float(of.weights.max(initial=1)) / 2)
    for turn in range(1, episodes):
        other = wanted.copy()
        other[draw.integers(len(wanted))] ^= True
        value = _value(of, order, other)
        if value >= now or draw.random() < np.exp((value - now) / (start * 0.01 ** (turn / episodes))):
            wanted, now, best = other, value, max(best, value)
    return best


def _value(of: Dimensions, order: Integers, wanted: np.ndarray) -> int:
    statuses = np.full(len(of.numbers), OPEN)
    total = 0
    for group in order.tolist():
        if wanted[group] and statuses[group] == OPEN and of.splittable[group]:
            statuses[of.excludes[group]] = 0
            total += int(of.weights[group])
    return total


CONTENDERS: dict[str, Callable[[Dimensions, Decided, int, int], int]] = {
    "random": random, "greedy": greedy, "annealing": annealing,
}  # fmt: skip


def rows(of: Dimensions, decided: Decided, seeds: int) -> list[Row]:
    """Every method."""
    found, episodes = [], [1] * seeds
    for state in ("graph", "decisions"):
        started, outcomes, cpu_s = 0.0, [], []
        for seed in range(seeds):
            started = time.process_time()
            outcomes.append(trained(of, decided, state, seed))
            cpu_s.append(time.process_time() - started)
        episodes = [each.evaluations for each in outcomes]
        first = f"first stage {median(each.first or 0 for each in outcomes):g}"
        conflicts = sum(each.conflicts for each in outcomes) / max(1, sum(episodes))
        split = [each.second or 0 for each in outcomes]
        found.append(Row(f"dqn, {state}", split, episodes, cpu_s, f"{first}, {conflicts:.0%} conflicts"))
    for name, contender in CONTENDERS.items():
        split, cpu_s = [], []
        for seed in range(seeds):
            started = time.process_time()
            split.append(contender(of, decided, episodes[seed], seed))
            cpu_s.append(time.process_time() - started)
        found.append(Row(name, split, [1] * seeds if name == "greedy" else episodes, cpu_s))
    return found


def problem_of(step: str, devices: int) -> ParallelProblem:
    """A step of the paper's reproduction over so many V100."""
    graph = step_of(step)
    device, mesh = device_of(accelerator("v100")), mesh_of(f"model={devices}")
    return ParallelProblem(graph, mesh, device, network("dapple"), "count", rules=step_factors(graph, step))


def exact(problem: ParallelProblem, of: Dimensions, decided: Decided) -> tuple[int, float]:
    """The most dimensions that can be split, and CPU seconds."""
    started = time.process_time()
    if decided == "variables":
        value = linkage_plan(problem, Prices(problem)).value or 0
        return value, time.process_time() - started
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    taken = [model.new_bool_var("") for _ in of.numbers]
    for one, other in np.argwhere(np.triu(of.excludes)).tolist():
        model.add_at_most_one(taken[one], taken[other])
    for group in np.flatnonzero(~of.splittable).tolist():
        model.add(taken[group] == 0)
    model.maximize(sum(int(weight) * each for weight, each in zip(of.weights, taken, strict=True)))
    solver = cp_model.CpSolver()
    solver.solve(model)
    return round(solver.objective_value), time.process_time() - started


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", default="vgg19,t5-6")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--devices", type=int, default=8)
    asked = parser.parse_args()
    for name in ("ray.rllib", "ray._common.deprecation"):
        logging.getLogger(name).setLevel(logging.ERROR)
    for step in asked.steps.split(","):
        problem = problem_of(step, asked.devices)
        decisions: tuple[Decided, ...] = ("variables", "inputs")
        for decided in decisions:
            of = dimensions_of(problem, decided)
            value, cpu_s = exact(problem, of, decided)
            print(f"\n{step}, {decided}: {len(of.places)} dimensions in {len(of.numbers)} linkage groups")
            print(f"{'method':<16}{'median':>8}{'worst':>8}{'behind':>9}{'episodes':>10}{'CPU s':>9}")
            print(f"{'exact':<16}{value:>8}{value:>8}{'0.0 %':>9}{'':>10}{cpu_s:>9.2f}", flush=True)
            for row in rows(of, decided, asked.seeds):
                behind = 100 * (1 - median(row.split) / value) if value else 0.0
                print(
                    f"{row.method:<16}{median(row.split):>8g}{min(row.split):>8}{behind:>7.1f} %"
                    f"{median(row.episodes):>10g}{median(row.cpu_s):>9.2f}  {row.text}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
