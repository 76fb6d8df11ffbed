"""Operator and data plans: deep Q-learning beside the exact plan, and beside search without learning.

    python -m benchmarks.parallel_linkage [--steps vgg19,t5-6] [--seeds 5] [--devices 8]

Every method decides the same dimensions in the same order and is stopped after as many episodes as Q-learning had with
the same seed: ``random`` draws every decision, ``greedy`` splits whatever can still be split (it knows what conflicts),
``annealing`` changes one linkage group at a time. The bound is that of CP-SAT.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

from dse.parallel.inputs import device_of
from dse.parallel.linkage_plans import linkage_plan
from dse.parallel.mesh import mesh_of
from dse.parallel.prices import Prices
from dse.parallel.problem import ParallelProblem
from dse.reproduce.automap.models import step_of
from dse.sharding.hlo.table import step_factors
from hardware.network_specs import network
from hardware.specs import accelerator
from policies.parallel.linkage.contenders import annealed, greedy, max_dimensions, random_decisions
from policies.parallel.linkage.dimensions import Decided, Dimensions, dimensions_of
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


CONTENDERS: dict[str, Callable[[Dimensions, Decided, int, int], int]] = {
    "random": random_decisions, "greedy": greedy, "annealing": annealed,
}  # fmt: skip


def rows(of: Dimensions, decided: Decided, seeds: int) -> list[Row]:
    """Every method."""
    outcomes, cpu_s = [], []
    for seed in range(seeds):
        started = time.process_time()
        outcomes.append(trained(of, decided, seed))
        cpu_s.append(time.process_time() - started)
    episodes = [each.evaluations for each in outcomes]
    first = f"first stage {median(each.first or 0 for each in outcomes):g}"
    conflicts = sum(each.conflicts for each in outcomes) / max(1, sum(episodes))
    split = [each.second or 0 for each in outcomes]
    found = [Row("dqn", split, episodes, cpu_s, f"{first}, {conflicts:.0%} conflicts")]
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
    return max_dimensions(of), time.process_time() - started


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", default="vgg19,t5-6")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--devices", type=int, default=8)
    asked = parser.parse_args()
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
