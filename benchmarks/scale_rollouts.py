"""What runners and learners in actors are worth in pretraining, with 1, 2 and 4 of them, and modelled beyond.

Target: two runner actors make episodes at least 1.7 times as fast as one on two idle cores, solver and simulator
included.

Method, all in one run, for the partition policy (under both evaluators) and for the pipeline policy. The same
iterations of the same seed are made in this process (0 runners, the serial baseline), and with 1, 2 and 4 runner
actors; the weights after them must be the same. A first iteration, in which whoever makes episodes prepares its
environments, is not timed. Medians of wall seconds are printed beside CPU seconds, because only the latter can be
compared when the machine has other work: its load is printed, too. With learners the weights are updated from the same
episodes by 1 and 2 learner actors.

Model: a runner takes c CPU seconds for a group of episodes where this process takes w (both measured; c includes the
transport of episodes and weights). The groups of an iteration, W CPU seconds together, go to N runners as each becomes
free, which takes at most W c/w / N + (1 - 1/N) times the longest group (Graham, 1966). The trainer plans and takes
them meanwhile, in D CPU seconds (measured with one runner), and learns afterwards, in L. An iteration takes
max(W c/w / N + (1 - 1/N) longest, D) + L. With fewer cores than processes that compute, that cannot be reached.
"""

import argparse
import os
import statistics
import sys
import time
from dataclasses import dataclass, replace

import numpy as np
from rich.console import Console
from rich.table import Table

TARGET = 1.7
RUNNERS, MODELLED, LEARNERS = (0, 1, 2, 4), (8, 16, 32), (1, 2)
SEED = 0


@dataclass(frozen=True)
class Costs:
    """Seconds of an iteration, medians.

    Attributes:
        collect_s, update_s: wall.
        trainer_cpu_s: of this process while episodes are made.
        runners_cpu_s: of all runner actors.
        weights: after the last iteration.
    """

    collect_s: float
    update_s: float
    trainer_cpu_s: float
    runners_cpu_s: float
    weights: dict


def cpu_seconds(training) -> float:
    """Of all runner actors so far."""
    if training.runners is None:
        return 0.0
    return sum(training.runners.group.foreach_env_runner(lambda _: time.process_time(), local_env_runner=False))


def begun(task, runners=0, learners=0):
    from dse.run.progress import never_stop, silent
    from policies.learning.actors import TrainingActors

    return task.begin(SEED, never_stop, silent, TrainingActors(runners, learners))


def measured(task, runners: int, iterations: int) -> Costs:
    """Iterations with so many runners."""
    training = begun(task, runners)
    rows = []
    for _ in range(iterations + 1):
        before = (time.perf_counter(), time.process_time(), cpu_seconds(training))
        begin_s = time.perf_counter()
        episodes = training.collect()
        collect_s = time.perf_counter() - begin_s
        cpu_s, runners_s = time.process_time() - before[1], cpu_seconds(training) - before[2]
        begin_s = time.perf_counter()
        training.learn(episodes)
        rows.append((collect_s, time.perf_counter() - begin_s, cpu_s, runners_s))
    weights = {name: np.array(value) for name, value in training.tensors().items()}
    training.close()
    return Costs(*(statistics.median(column) for column in zip(*rows[1:], strict=True)), weights)


def group_seconds(task, iterations: int) -> list[float]:
    """CPU seconds of each group in this process, an iteration after the first."""
    training = begun(task)
    times, make = [], training.runner.make

    def timed(order):
        begin_s = time.process_time()
        made = make(order)
        times.append(time.process_time() - begin_s)
        return made

    training.runner.make = timed
    for _ in range(iterations + 1):
        training.iterate()
    groups = len(times) // (iterations + 1)
    return times[groups:]


def update_seconds(task, learners: int, iterations: int) -> float:
    """Wall seconds of an iteration's learning by so many actors; 0: by this process."""
    training = begun(task, 0, learners)
    times = []
    for _ in range(iterations + 1):
        episodes = training.collect()
        begin_s = time.perf_counter()
        training.learn(episodes)
        times.append(time.perf_counter() - begin_s)
    training.close()
    return statistics.median(times[1:])


def modelled_s(own_s: list[float], overhead: float, runners: int, groups: int, driver_s: float) -> float:
    """Of an iteration's episodes (see the top)."""
    runners = min(runners, groups)
    work_s, longest_s = overhead * float(np.mean(own_s)) * groups, overhead * max(own_s)
    return max(work_s / runners + (1 - 1 / runners) * longest_s, driver_s)


def show(console, title: str, task, groups: int, iterations: int) -> bool:
    """The table of one task; whether the target is reached."""
    own_s = group_seconds(task, iterations)
    costs = {runners: measured(task, runners, iterations) for runners in RUNNERS}
    serial, one = costs[0], costs[1]
    for runners, each in costs.items():
        for name, value in serial.weights.items():
            assert np.array_equal(value, each.weights[name]), f"{runners} runners: other weights"
    samples = task.samples_per_iteration
    overhead = one.runners_cpu_s / (float(np.mean(own_s)) * groups)
    table = Table(title=title)
    for name in ("runners", "episodes s", "learning s", "episodes/s", "x serial", "x one runner", "whole x serial"):
        table.add_column(name, justify="right")
    for name in ("trainer CPU s", "runners CPU s", "model: episodes s", "x one runner", "whole x serial"):
        table.add_column(name, justify="right")
    learning_s = serial.update_s
    model = {n: modelled_s(own_s, overhead, n, groups, one.trainer_cpu_s) for n in (*RUNNERS[1:], *MODELLED)}
    serial_s = float(np.mean(own_s)) * groups
    for runners in (*RUNNERS, *MODELLED):
        cells = [str(runners)]
        if runners in costs:
            each = costs[runners]
            whole = (serial.collect_s + learning_s) / (each.collect_s + each.update_s)
            cells += [f"{each.collect_s:.3f}", f"{each.update_s:.3f}", f"{samples / each.collect_s:,.0f}"]
            gains = (serial.collect_s / each.collect_s, one.collect_s / each.collect_s, whole)
            cells += [f"{gain:.2f}" for gain in gains]
            cells += [f"{each.trainer_cpu_s:.3f}", f"{each.runners_cpu_s:.3f}"]
        else:
            cells += [""] * 8
        if runners in model:
            whole = (serial_s + learning_s) / (model[runners] + learning_s)
            cells += [f"{model[runners]:.3f}", f"{model[1] / model[runners]:.2f}", f"{whole:.2f}"]
        table.add_row(*cells)
    console.print(table)
    mean_s = 1e3 * float(np.mean(own_s))
    console.print(
        f"{groups} groups of {samples / groups:g} samples an iteration; a group takes {mean_s:.1f} CPU ms on average "
        f"and {1e3 * max(own_s):.1f} at most here, {overhead:.2f} times that in an actor"
    )
    updates = ", ".join(f"{n}: {update_seconds(task, n, iterations):.3f}" for n in (0, *LEARNERS))
    console.print(f"learning, seconds of an iteration by number of learner actors: {updates}")
    gain = one.collect_s / costs[2].collect_s
    verdict = "reached" if gain >= TARGET else f"missed by {TARGET - gain:.2f}"
    console.print(f"two runners over one: {gain:.2f} measured, {model[1] / model[2]:.2f} modelled")
    console.print(f"target {TARGET}: {verdict}\n")
    return gain >= TARGET


def main() -> None:
    """All tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=5, help="timed iterations of each row")
    parser.add_argument("--graphs", type=int, default=16, help="training graphs of the partition policy")
    parser.add_argument("--only", choices=("analytical", "simulator", "pipeline"), help="one of the three tables")
    given = parser.parse_args()
    from actors.ray_executor import RayExecutor
    from dse.sources.catalogue import split
    from policies.parallel.extra import ask_for_extra
    from policies.parallel.pipeline.policy import PolicySettings
    from policies.parallel.pipeline.task import PipelineTask
    from policies.partition.settings import FORMS
    from policies.partition.task import PartitionTask

    ask_for_extra("benchmarks", "scale_rollouts", "")
    console = Console(width=180)
    training = split()["training"]
    graphs = training[:: max(1, len(training) // given.graphs)][: given.graphs]
    refine = FORMS["refine"]
    pipeline = PipelineTask(replace(PolicySettings(), parts=max(RUNNERS)))
    tables = {
        name: (f"partition policy, {len(graphs)} graphs on mcm-36, {name} evaluator", task, refine.graphs)
        for name in ("analytical", "simulator")
        for task in [PartitionTask(refine, evaluator=name, training=graphs)]
    } | {"pipeline": ("pipeline policy, generated pipelines", pipeline, pipeline.settings.parts)}
    reached = []
    with RayExecutor(max(RUNNERS)):
        for name, table in tables.items():
            if given.only in (None, name):
                load = "/".join(f"{each:.1f}" for each in os.getloadavg())
                console.print(f"{os.cpu_count()} cores, load {load} before this run's own work")
                reached.append(show(console, *table, given.iterations))
    sys.exit(0 if all(reached) else 1)


if __name__ == "__main__":
    main()
