"""The heuristic searches against the proven optimum, and what Tune costs.

1. Levels (paper, Figures 8 and 9): BERT-large at hysteresis 1–8, 50 and 300 under both cost models, in-process on one
   core: architectures evaluated, seconds, best found, distance from the proven optimum. Two readings of the rule: "no
   new best in the last LEVEL groups" and "the last LEVEL groups only decrease" (Algorithm 1 as printed). A walk
   that has not stopped after two minutes is ended, and marked so. Target: 60 s. The TPUv4-like machine, where the
   walk starts, is the first row.
2. Black boxes at equal budget: Optuna's TPE and random draws with as many evaluations as the walk at level 50 needs,
   over five seeds (median, and worst to best), next to that walk; CPU seconds next to evaluations.
3. Tune's overhead in a walk of more than a minute on two workers (no new best in 4,000 groups), with Tune, with plain
   actors, and without Ray: wall time × workers beyond the time of evaluations, as a share of that. Target: 5 % in
   sweeps over 60 s. Workers look ahead of the stopping rule, so some evaluations do not count; the last column has
   those that do, by the wall clock. Ray's start is not counted, what a worker loads for its first trial is.
"""

import argparse
import statistics
import time
from collections import deque
from collections.abc import Iterator

import numpy as np

from dse.codesign.context import SearchContext
from dse.codesign.options import CodesignOptions
from dse.codesign.search import exhaustive, hysteresis, sweep
from dse.codesign.search.bayesian import ArchitectureStudy
from dse.codesign.search.hysteresis import AreaWalk, DecreasingRule, NoNewBestRule
from dse.codesign.search.sweep import Sweep
from dse.run.executor import InProcessExecutor
from dse.run.progress import never_stop, silent

MODEL = "bert-large"
COST_MODELS = ("consistent", "phaze-2024")
LEVELS = (1, 2, 3, 4, 5, 6, 7, 8, 50, 300)
LIMIT_S = 120.0
SEEDS = range(5)
BUDGET_LEVEL, LONG_LEVEL = 50, 4_000
RAY_START_S = 5.0
RULES = {"no new best": NoNewBestRule, "only decreasing": DecreasingRule}


def problem_of(cost_model):
    problem = CodesignOptions((MODEL,), cost_model=cost_model).problem()
    machines = problem.machines()
    # Graphs and compiled kernels are there before anything is timed.
    hysteresis.search(SearchContext(problem, machines, InProcessExecutor(), {}), level=1)
    return problem, machines


def proven(problem, machines):
    begun = time.perf_counter()
    proof = exhaustive.search(SearchContext(problem, machines, InProcessExecutor(), {}))
    assert proof.proven
    return proof.optimum_by_hbm, time.perf_counter() - begun


def distance(outcome, optima):
    size = outcome.plans[0].hbm_bytes
    return max(0.0, 1 - outcome.optimum_by_hbm[size] / optima[size])


def shown(machines, index):
    buffer_mb = machines.global_buffer_bytes[index] >> 20
    cores = (machines.tensor_cores[index], machines.vector_cores[index])
    sizes = (machines.core_width[index], machines.core_depth[index])
    return f"{{{', '.join(map(str, (*cores, *sizes)))}}} {buffer_mb} MB, {machines.area_mm2[index]:.1f} mm²"


def row(name, machines, outcome, seconds, optima):
    value = outcome.optimum_by_hbm[outcome.plans[0].hbm_bytes]
    end = "" if outcome.stopped is None else "  (not stopped by then)"
    print(
        f"{name:<24} {len(outcome.evaluated):>10,} {seconds:>8.1f} {value:>12,.1f} "
        f"{100 * distance(outcome, optima):>8.2f} %  {shown(machines, outcome.best)}{end}",
        flush=True,
    )


def levels(cost_models):
    for cost_model in cost_models:
        problem, machines = problem_of(cost_model)
        optima, proof_s = proven(problem, machines)
        print(f"\n{MODEL}, {cost_model}: proven optimum {max(optima.values()):,.1f} samples/s in {proof_s:.1f} s")
        print(f"{'rule':<16} {'level':>7} {'evaluated':>10} {'seconds':>8} {'samples/s':>12} {'below':>10}  found")
        first = AreaWalk(machines.area_mm2, NoNewBestRule(1)).ask(1)
        start = search_of(problem, machines, Fixed(first))
        row("start (largest area)", machines, *start, optima)
        for name, rule in RULES.items():
            for level in LEVELS:
                walked = search_of(problem, machines, AreaWalk(machines.area_mm2, rule(level)))
                row(f"{name:<16} {level:>7}", machines, *walked, optima)
                if walked[0].stopped:
                    break


def search_of(problem, machines, proposer):
    """(outcome, seconds) of a fresh search on one core."""
    begun = time.perf_counter()

    def stop():
        return "time limit" if time.perf_counter() - begun > LIMIT_S else None

    outcome = sweep.search(SearchContext(problem, machines, InProcessExecutor(), {}, silent, stop), proposer=proposer)
    return outcome, time.perf_counter() - begun


class Fixed:
    """A given list of architectures as a proposer."""

    def __init__(self, architectures):
        self._left = deque(int(index) for index in architectures)
        self._total = len(self._left)
        self.counted = []

    def ask(self, max_tasks):
        return tuple(self._left.popleft() for _ in range(min(max_tasks, len(self._left))))

    def tell(self, architecture, score):
        self.counted.append(architecture)

    @property
    def finished(self):
        return len(self.counted) == self._total

    @property
    def progress(self):
        return len(self.counted), self._total


def black_boxes(cost_models):
    for cost_model in cost_models:
        problem, machines = problem_of(cost_model)
        optima, _ = proven(problem, machines)
        walk, walk_s = search_of(problem, machines, AreaWalk(machines.area_mm2, NoNewBestRule(BUDGET_LEVEL)))
        budget = len(walk.evaluated)
        print(f"\n{MODEL}, {cost_model}: {budget} evaluations each, {len(SEEDS)} seeds")
        print(f"{'search':<18} {'below the optimum: median':>26} {'worst':>9} {'best':>9} {'median s':>9}")
        below = distance(walk, optima)
        print(f"{'hysteresis ' + str(BUDGET_LEVEL):<18} {100 * below:>24.2f} % {'':>9} {'':>9} {walk_s:>9.1f}")
        searches = {
            "bayesian (TPE)": lambda seed, count=budget, space=machines: ArchitectureStudy(space, count, seed),
            "random": lambda seed, count=budget, space=machines: Fixed(
                np.random.default_rng(seed).choice(len(space), count, replace=False)
            ),
        }
        for name, proposer in searches.items():
            searches = [search_of(problem, machines, proposer(seed)) for seed in SEEDS]
            shares = sorted(100 * distance(outcome, optima) for outcome, _ in searches)
            seconds = statistics.median(took for _, took in searches)
            print(
                f"{name:<18} {statistics.median(shares):>24.2f} % {shares[-1]:>7.2f} % {shares[0]:>7.2f} % "
                f"{seconds:>9.1f}",
                flush=True,
            )


class Timed:
    """Evaluators that say how long they took."""

    def __init__(self, evaluators):
        self._evaluators = evaluators

    def __call__(self, task):
        begun = time.perf_counter()
        return self._evaluators(task), time.perf_counter() - begun


def on_executor(state, executor):
    """(evaluation seconds, outcome) of a sweep on plain actors or in-process, as :func:`sweep.search` drives it."""
    waiting, busy_s = deque(), 0.0

    def tasks() -> Iterator:
        while tasks := state.ask(16):
            waiting.extend(tasks)
            yield from tasks

    for answers, seconds in executor.map(Timed(state.evaluators), tasks()):
        busy_s += seconds
        task = waiting.popleft()
        state.keep([(task, answers)])
        state.take(task, answers)
        if state.proposer.finished:
            break
    return busy_s, state.outcome(None)


def on_tune(state, executor):
    """(evaluation seconds, outcome) of a sweep through Tune."""
    from actors.tune_sweep import SweepSearcher, run

    executor.release()
    searcher = SweepSearcher(state, executor.workers, never_stop)
    run(searcher, state.evaluators)
    return searcher.busy_s, state.outcome(None)


def overhead(cost_models):
    from actors.ray_executor import RayExecutor

    problem, machines = problem_of(cost_models[0])
    print(f"\n{MODEL}, walk until no new best in {LONG_LEVEL:,} groups, two workers")
    print(f"{'driver':<14} {'workers':>7} {'evaluated':>9} {'wall s':>8} {'evaluation s':>13} {'overhead':>9}  counted")
    with RayExecutor(2) as ray_executor:
        time.sleep(RAY_START_S)
        drivers = {
            "Tune": (on_tune, ray_executor),
            "plain actors": (on_executor, ray_executor),
            "in-process": (on_executor, InProcessExecutor()),
        }
        for name, (drive, executor) in drivers.items():
            walk, store = AreaWalk(machines.area_mm2, NoNewBestRule(LONG_LEVEL)), {}
            state = Sweep(SearchContext(problem, machines, executor, store), walk)
            begun = time.perf_counter()
            busy_s, outcome = drive(state, executor)
            wall_s = time.perf_counter() - begun
            evaluated = sum(job_task.task.nodes == sweep.SWEEP_NODES for job_task in store)
            counted = len(outcome.evaluated)
            print(
                f"{name:<14} {executor.workers:>7} {evaluated:>9,} {wall_s:>8.1f} {busy_s:>13.1f} "
                f"{100 * (wall_s * executor.workers / busy_s - 1):>7.1f} %  {counted:,} ({counted / wall_s:.0f}/s)",
                flush=True,
            )


PARTS = {"levels": levels, "black-boxes": black_boxes, "overhead": overhead}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, action="append")
    parser.add_argument("--cost-model", choices=COST_MODELS, action="append")
    arguments = parser.parse_args()
    for part in arguments.part or PARTS:
        PARTS[part](arguments.cost_model or COST_MODELS)
