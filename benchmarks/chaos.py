"""What dies loses nothing: drivers, nodes and workers are killed in runs whose answer is known; and what actors cost.

1. Driver: `kill -9` at 20 random moments of one sweep (BERT-large, until no new best in 4,000 groups, two workers),
   each followed by `--resume`: every fourth within 12 s of its start, the others within 4 s after they have recorded
   something new. Target: every evaluation is in the journal exactly once, with the same values, and the result is the
   same as that of an undisturbed run, which is the baseline. Workers look ahead of the stopping rule, so more than the
   walk counts may be recorded. A driver's Ray must end by itself; how long that takes is shown (without Ray's two
   agents, which take another minute and are ended here).
2. Node: of two nodes with one CPU each, in a cluster of this machine, the one that is not a head is killed without
grace
   amid an item of a map of 75 ms items, and a new one is added. Target: all outcomes, in order, and work on the new
   node within 60 s; five runs with Ray's own health checks. The baseline is the map that negates in this process.
3. Workers: a random worker process is killed every two seconds under plain actors (50 ms items), and every five under a
   Tune sweep whose evaluations are slowed down by 50 ms each (its workers take three to start). Target: all outcomes,
   the answer of the same walk in-process, and nothing recorded as failed.
4. Rate: two actors against two bare processes that evaluate the same architectures of BERT-large, the largest first,
   in turns, three times. The bare ones share a counter and return nothing: nothing is faster. Starts, and what is
   loaded for the first evaluation, do not count. Target: at least 90 % of their rate (medians).

Ends with 1 if a target is missed.
"""

import argparse
import multiprocessing
import os
import pickle
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections import deque
from pathlib import Path

from ray import cloudpickle

from benchmarks.killing import Run, difference, in_own_process

SWEEP = ("codesign", "bert-large", "--search", "hysteresis", "--hysteresis-rule", "no-new-best", "--hysteresis", "4000")
KILLS, STARTING, STARTING_S, WORKING_S = 20, 5, 12.0, 4.0
NODES, NODE_ITEMS, NODE_ITEM_S = 5, 200, 0.075
ACTOR_ITEMS, ACTOR_ITEM_S, PERIOD_S, TRIAL_PERIOD_S = 1_000, 0.05, 2.0, 5.0
TRIALS = {"options": {"models": ["bert-large"]}, "level": 50, "each_s": 0.05}
RATE_MODEL, RATE_ARCHITECTURES, RATE_CHUNK, REPEATS = "bert-large", 1_536, 8, 3
SEED = 0
RECOVERY_LIMIT_S, RATE_LIMIT = 60.0, 0.9


def drivers():
    """The sweep with kills, against the sweep without; whether the target is met."""
    draw = random.Random(SEED)
    folder = Path(tempfile.mkdtemp(prefix="dse-chaos-"))
    try:
        undisturbed = Run(folder / "undisturbed", *SWEEP)
        begun = time.perf_counter()
        code, faults = undisturbed.finish("--workers", 2)
        assert code == 0, faults
        print(
            f"driver: undisturbed in {time.perf_counter() - begun:.0f} s, {undisturbed.lines():,} evaluations recorded"
        )
        run = Run(folder / "disturbed", *SWEEP)
        kills = []
        while len(kills) < KILLS:
            if len(kills) % (KILLS // STARTING) == 0:
                kill = run.killed(0, draw.uniform(0, STARTING_S), "--workers", 2)
            else:
                kill = run.killed(1, draw.uniform(0, WORKING_S), "--workers", 2)
            if kill is None:
                break
            kills.append(kill)
            print(
                f"  kill {len(kills):>2}: {len(kill.keys):>6,} recorded, its Ray gone in {kill.gone_s:.1f} s",
                flush=True,
            )
        code, faults = run.finish("--workers", 2)
        assert code == 0, faults
        losses = difference(run, undisturbed, kills)
        left = sum(len(kill.left) for kill in kills)
        gone_s = [kill.gone_s for kill in kills]
        print(f"{'kills':>6} {'lost':>6} {'repeated':>9} {'changed':>8} {'unasked':>8} {'same result':>12}", end="")
        print(f" {'ahead':>6} {'its Ray gone: median':>21} {'worst':>8} {'left over':>10}")
        print(f"{len(kills):>6} {losses.lost:>6} {losses.repeated:>9} {losses.changed:>8} {losses.unasked:>8}", end="")
        print(f" {shown(losses.same_result):>12} {losses.ahead:>6}", end="")
        print(f" {statistics.median(gone_s):>19.1f} s {max(gone_s):>6.1f} s {left:>10}", flush=True)
        faultless = not (losses.lost or losses.repeated or losses.changed or losses.unasked or left)
        return faultless and losses.same_result and len(kills) == KILLS
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def shown(right):
    return "yes" if right else "NO"


def complete(report):
    """Whether a map of ``-item`` over 0, 1, … gave all outcomes, in order, and reported each once."""
    count = len(report["arrived"])
    return report["outcomes"] == [-item for item in range(count)] and sorted(report["arrived"]) == list(range(count))


def nodes():
    """A node that is killed amid a map; whether the target is met."""
    print(f"\nnode: {'run':>3} {'items':>6} {'all, in order':>14} {'work on the new node after':>27}")
    times, all_complete = [], True
    for number in range(1, NODES + 1):
        report = in_own_process("node_killed", items=NODE_ITEMS, item_s=NODE_ITEM_S, system={})
        times.append(report["recovered_s"])
        all_complete = all_complete and complete(report)
        items = len(report["outcomes"])
        print(f"{number:>9} {items:>6} {shown(complete(report)):>14} {times[-1]:>25.1f} s", flush=True)
    print(f"{'':>31} median {statistics.median(times):.1f} s, worst {max(times):.1f} s", end="")
    print(f" (target: {RECOVERY_LIMIT_S:.0f} s)", flush=True)
    return all_complete and max(times) <= RECOVERY_LIMIT_S


def workers():
    """Worker processes that are killed in sequence; whether the target is met."""
    print(f"\n{'workers':<14} {'kills':>6} {'seconds':>8} {'done':>6} {'right':>6} {'failed':>7}")
    report = in_own_process("actors_killed", items=ACTOR_ITEMS, item_s=ACTOR_ITEM_S, period_s=PERIOD_S, seed=SEED)
    failed = sum(isinstance(outcome, str) for outcome in report["outcomes"])
    actors_right = complete(report) and len(report["outcomes"]) == ACTOR_ITEMS
    print(
        f"{'plain actors':<14} {report['kills']:>6} {report['seconds']:>8.1f} {len(report['outcomes']):>6} "
        f"{shown(actors_right):>6} "
        f"{failed:>7}",
        flush=True,
    )
    report = in_own_process("trials_killed", **TRIALS, period_s=TRIAL_PERIOD_S, seed=SEED)
    trials_right = report["same_answer"] and not report["missing"]
    print(
        f"{'Tune':<14} {report['kills']:>6} {report['seconds']:>8.1f} {report['evaluated']:>6} "
        f"{shown(trials_right):>6} {len(report['failed']):>7}",
        flush=True,
    )
    return actors_right and trials_right and not failed and not report["failed"]


class Numbered:
    """Evaluators that say in which process they work."""

    def __init__(self, evaluators):
        self._evaluators = evaluators

    def __call__(self, task):
        return os.getpid(), self._evaluators(task)


def take_turns(work, taken, barrier):
    """A bare process: evaluates the next task that nobody has taken, until none is left."""
    evaluators, warm, tasks = pickle.loads(work)
    evaluators(warm)
    barrier.wait()
    while True:
        with taken.get_lock():
            number, taken.value = taken.value, taken.value + 1
        if number >= len(tasks):
            break
        evaluators(tasks[number])
    barrier.wait()


def bare_s(evaluators, warm, tasks):
    """Seconds that two bare processes take."""
    context = multiprocessing.get_context("spawn")
    work = cloudpickle.dumps((evaluators, warm, tasks))
    taken, barrier = context.Value("i", 0), context.Barrier(3)
    started = [context.Process(target=take_turns, args=(work, taken, barrier), daemon=True) for _ in range(2)]
    for process in started:
        process.start()
    barrier.wait()
    begun = time.perf_counter()
    barrier.wait()
    seconds = time.perf_counter() - begun
    for process in started:
        process.join()
    return seconds


def actors_s(executor, evaluators, warm, tasks):
    """Seconds that two actors take."""
    function = Numbered(evaluators)
    processes: set[int] = set()
    while len(processes) < 2:
        processes = {pid for pid, _ in executor.map(function, [warm] * 8)}
    begun = time.perf_counter()
    deque(executor.map(function, tasks), maxlen=0)
    seconds = time.perf_counter() - begun
    executor.release()
    return seconds


def rate():
    """Two actors next to two bare processes; whether the target is met."""
    from actors.ray_executor import RayExecutor
    from dse.codesign.evaluation.evaluator import EvaluateMany
    from dse.codesign.evaluation.job_evaluators import JobEvaluators, JobTask
    from dse.codesign.options import CodesignOptions
    from dse.codesign.search.hysteresis import area_groups
    from dse.codesign.search.sweep import SWEEP_NODES

    problem = CodesignOptions((RATE_MODEL,)).problem()
    machines = problem.machines()
    evaluators = JobEvaluators(problem, machines)
    order = [index for group in area_groups(machines.area_mm2) for index in group]
    tasks = [
        JobTask(0, EvaluateMany(tuple(order[start : start + RATE_CHUNK]), SWEEP_NODES))
        for start in range(0, RATE_ARCHITECTURES, RATE_CHUNK)
    ]
    warm = JobTask(0, EvaluateMany((order[-1],), SWEEP_NODES))
    print(f"\nrate: {RATE_ARCHITECTURES:,} architectures of {RATE_MODEL}, {RATE_CHUNK} a task")
    print(f"{'repeat':>6} {'bare processes':>16} {'actors':>12}")
    bare, actors = [], []
    with RayExecutor(2) as executor:
        for number in range(1, REPEATS + 1):
            bare.append(RATE_ARCHITECTURES / bare_s(evaluators, warm, tasks))
            actors.append(RATE_ARCHITECTURES / actors_s(executor, evaluators, warm, tasks))
            print(f"{number:>6} {bare[-1]:>14.1f}/s {actors[-1]:>10.1f}/s", flush=True)
    share = statistics.median(actors) / statistics.median(bare)
    print(
        f"{'median':>6} {statistics.median(bare):>14.1f}/s {statistics.median(actors):>10.1f}/s  "
        f"{100 * share:.1f} % of the bare rate (target: at least {100 * RATE_LIMIT:.0f} %)",
        flush=True,
    )
    return share >= RATE_LIMIT


PARTS = {"drivers": drivers, "nodes": nodes, "workers": workers, "rate": rate}


def main(arguments=None):
    """Runs the parts that were requested, or all; 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, action="append")
    missed = [part for part in parser.parse_args(arguments).part or PARTS if not PARTS[part]()]
    print(f"TARGET MISSED: {', '.join(missed)}" if missed else "targets met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
