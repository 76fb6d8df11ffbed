"""Operator and data plans: deep Q-learning next to the exact plan, and next to search without learning.

    python -m benchmarks.parallel_linkage [--steps vgg19,t5-6] [--seeds 5] [--devices 8]

Every method decides the same dimensions in the same order and is stopped after as many episodes as Q-learning had with
the same seed: ``random`` draws every decision, ``greedy`` splits whatever can still be split (it knows what conflicts),
``annealing`` changes one linkage group at a time. The bound is that of CP-SAT. Networks have one thread.
"""

import time
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

import torch

from benchmarks.recording import Record, Results, parser_of
from dse.parallel.inputs import device_of
from dse.parallel.linkage_plans import linkage_plan
from dse.parallel.mesh import mesh_of
from dse.parallel.prices import Prices
from dse.parallel.problem import ParallelProblem
from dse.reproduce.automap.models import step_of
from dse.sharding.hlo.table import step_factors
from hardware.chips import chip
from hardware.network_specs import network
from policies.parallel.linkage.contenders import annealed, greedy, max_dimensions, random_decisions
from policies.parallel.linkage.dimensions import Decided, Dimensions, dimensions_of
from policies.parallel.linkage.search import trained

RECORD = Record(
    "parallel_linkage",
    ("vgg", "t5", "cp_sat"),
    {"main": ("step", "decided", "method", "median", "worst", "behind", "episodes", "CPU s", "conflicts")},
)
"""Figures are CPU seconds of operator plans."""


class Row(NamedTuple):
    """One method on one step.

    Attributes:
        method: its name.
        split: dimensions that it splits, by seed.
        episodes: that it had, by seed.
        cpu_s: by seed.
        conflicts: the share of episodes that end in one.
    """

    method: str
    split: list[int]
    episodes: list[int]
    cpu_s: list[float]
    conflicts: str = ""


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
    conflicts = sum(each.conflicts for each in outcomes) / max(1, sum(episodes))
    split = [each.second or 0 for each in outcomes]
    found = [Row("dqn", split, episodes, cpu_s, f"{100 * conflicts:.0f} %")]
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
    device, mesh = device_of(chip("v100")), mesh_of(f"model={devices}")
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
    parser, results, proofs_s = parser_of(__doc__), Results(RECORD), []
    parser.add_argument("--steps", default="vgg19,t5-6")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--devices", type=int, default=8)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    for step in asked.steps.split(","):
        problem = problem_of(step, asked.devices)
        decisions: tuple[Decided, ...] = ("variables", "inputs")
        for decided in decisions:
            of = dimensions_of(problem, decided)
            value, cpu_s = exact(problem, of, decided)
            print(f"\n{step}, {decided}: {len(of.places)} dimensions in {len(of.numbers)} linkage groups")
            results.row("main", step, decided, "exact", value, value, "0.0 %", "", f"{cpu_s:.2f}", "")
            proofs_s.append(cpu_s)
            for row in rows(of, decided, asked.seeds):
                behind = f"{100 * (1 - median(row.split) / value) if value else 0.0:.1f} %"
                values = f"{median(row.split):g}", min(row.split), behind, f"{median(row.episodes):g}"
                seconds = median(row.cpu_s)
                results.row("main", step, decided, row.method, *values, f"{seconds:.2f}", row.conflicts)
                if row.method == "dqn" and decided == "variables":
                    results.figure("vgg" if step == "vgg19" else "t5", f"{seconds:.0f}")
    results.figure("cp_sat", f"{max(proofs_s):.1f}")
    results.save(asked.record)


if __name__ == "__main__":
    main()
