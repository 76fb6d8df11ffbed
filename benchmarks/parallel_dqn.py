"""Learned pipelines beside the exact ones: how far from the optimum, after how many plans and CPU seconds.

    python -m benchmarks.parallel_dqn [--steps bert-48,t5-6] [--configurations ABC] [--seeds 5] [--checkpoint DIR]

Every row of the paper's Table 7 (batches of 64 in microbatches of 16, ``near`` device cuts, V100s as DAPPLE measured
them). ``dqn`` is what ``dse parallel --method dqn`` does, ``dqn, paper`` the paper's form alone, ``inference`` the
pretrained policy. Random plans and annealing get as many plans as ``dqn``, or as ``inference``; greedy is the plan of
equal computing. The best plan of each but ``dqn, paper`` is improved around its cuts, which counts. ``every coarse
plan``, where they are at most a million, is the best that learning on the 128 points can find, without improvement.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from dse.parallel.pipeline.length import faults, length
from dse.parallel.pipeline.methods import PipelineContext, exact
from dse.parallel.pipeline.problem import PipelineProblem
from dse.reproduce.automap.models import PIPELINED
from dse.reproduce.automap.pipelines import PipelineTrial, problem_of
from policies.learning.checkpoint import chosen_folder
from policies.parallel.extra import ask_for_extra
from policies.parallel.pipeline.contenders import annealed, even, every_plan, random_plans
from policies.parallel.pipeline.inference import coarse, refined
from policies.parallel.pipeline.online import Best
from policies.parallel.pipeline.policy import PIPELINE_POLICY, Policy
from policies.parallel.pipeline.search import trained, trained_as_published

CUTTING = "near"


class Row(NamedTuple):
    """A method on a problem: excess over the optimum by seed; plans and CPU seconds, medians."""

    method: str
    excess: tuple[float, ...]
    evaluations: float
    seconds: float


def measured(name: str, problem: PipelineProblem, best_s: float, search: Callable[[int], Best], seeds: int) -> Row:
    """The row of a search, a function of the seed."""
    excess, plans, seconds = [], [], []
    for seed in range(seeds):
        started = time.process_time()
        best = search(seed)
        seconds.append(time.process_time() - started)
        plans.append(best.evaluations)
        assert best.plan is not None
        assert not faults(problem, best.plan)
        excess.append(length(problem, best.plan).length_s / best_s - 1)
    return Row(name, tuple(excess), statistics.median(plans), statistics.median(seconds))


def rows(problem: PipelineProblem, policy: Policy | None, seeds: int) -> list[Row]:
    """All methods on a problem."""
    context = PipelineContext(problem, CUTTING)
    started = time.process_time()
    optimum = exact(context)
    found = [Row("exact", (0.0,), optimum.nodes, time.process_time() - started)]
    seen = coarse(problem, CUTTING)

    def contexts(seed: int) -> PipelineContext:
        return PipelineContext(problem, CUTTING, seed)

    def add(name: str, search: Callable[[int], Best], count: int = seeds) -> Row:
        found.append(measured(name, problem, optimum.length_s, search, count))
        return found[-1]

    started = time.process_time()
    every = every_plan(seen)
    if every is not None:
        excess = (every.length_s / optimum.length_s - 1,)
        found.append(Row("every coarse plan", excess, every.evaluations, time.process_time() - started))
    dqn = add("dqn", lambda seed: trained(contexts(seed)))
    add("dqn, paper", lambda seed: trained_as_published(contexts(seed)))
    for plans, of in ((round(dqn.evaluations), "dqn"), (50, "inference")):
        if of == "inference" and policy is not None and policy.machine_of(problem) is not None:
            add("inference", lambda seed: _inferred(policy, problem, seed))
        add(f"random, as {of}", lambda seed, plans=plans: random_plans(seen, plans, seed))
        add(f"annealing, as {of}", lambda seed, plans=plans: annealed(seen, plans, seed))
    add("greedy", lambda _seed: even(seen), 1)
    return found


def _inferred(policy: Policy, problem: PipelineProblem, seed: int) -> Best:
    seen, best = policy.plans(problem, CUTTING, seed)
    refined(seen, best)
    return best


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table for each step and configuration."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", default=",".join(PIPELINED))
    parser.add_argument("--configurations", default="ABC")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--checkpoint", type=Path)
    given = parser.parse_args(arguments)
    ask_for_extra("benchmarks.parallel_dqn", "--steps", given.steps)
    policy = None if given.checkpoint is None else Policy(PIPELINE_POLICY.load(chosen_folder(given.checkpoint)))
    print(f"{'step':8} {'':1} {'method':24} {'median':>8} {'worst':>8} {'plans':>7} {'CPU s':>7}")
    for step in given.steps.split(","):
        for configuration in given.configurations:
            problem = problem_of(PipelineTrial(step, configuration, "length", CUTTING, "v100", "dapple"))
            for row in rows(problem, policy, given.seeds):
                middle, worst = statistics.median(row.excess), max(row.excess)
                numbers = f"{middle:8.2%} {worst:8.2%} {row.evaluations:7.0f} {row.seconds:7.2f}"
                print(f"{step:8} {configuration} {row.method:24} {numbers}", flush=True)


if __name__ == "__main__":
    main()
