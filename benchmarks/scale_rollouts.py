"""What runners and learners in actors are worth in pretraining, with 1, 2 and 4 of them, and modelled beyond.

Target: two runner actors make episodes at least 1.7 times as fast as one on two idle cores, solver and simulator
included.

Method, all in one run, for the partition policy (under both evaluators) and for the pipeline policy. The same
iterations of the same seed are made in this process (0 runners, the serial baseline), and with 1, 2 and 4 runner
actors; the weights after them must be the same. A first iteration, in which whoever makes episodes prepares its
environments, is not timed. Medians of wall seconds are printed beside CPU seconds, because only the latter can be
compared when the machine has other work: its load is printed, too, and then the model decides. With learners the
weights are updated from the same episodes by 1 and 2 learner actors.

Model: the runners take W CPU seconds for the groups of an iteration, transport of episodes and weights included, and
the trainer meanwhile D to plan and take them (both the least measured, since waiting costs, too). As each runner
becomes free it gets groups, so that N of them take at most W / N + (1 - 1/N) times the longest group (Graham, 1966). An
iteration takes max(W / N + (1 - 1/N) longest, D), and then L to learn, where every process has a core of its own, and
on c cores no less than (W + D) / c. The columns of the model are for the former, the last line also for the cores here.
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
IDLE_LOAD = 0.25
"""Processes a core that want to run, in the last one and five minutes, up to which a machine counts as idle."""


@dataclass(frozen=True)
class Costs:
    """Seconds of an iteration, medians.

    Attributes:
        collect_s, update_s: wall.
        trainer_cpu_s: of this process while episodes are made.
        runners_cpu_s: of all runner actors.
        learning_cpu_s: of this process while it learns.
        weights: after the last iteration.
    """

    collect_s: float
    update_s: float
    trainer_cpu_s: float
    runners_cpu_s: float
    learning_cpu_s: float
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
        begin_s, begin_cpu_s = time.perf_counter(), time.process_time()
        training.learn(episodes)
        learned_s = (time.perf_counter() - begin_s, time.process_time() - begin_cpu_s)
        rows.append((collect_s, learned_s[0], cpu_s, runners_s, learned_s[1]))
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


@dataclass(frozen=True)
class Model:
    """See the top.

    Attributes:
        runners_cpu_s: W.
        trainer_cpu_s: D.
        longest_s: of a group.
        groups: of an iteration.
    """

    runners_cpu_s: float
    trainer_cpu_s: float
    longest_s: float
    groups: int

    def seconds(self, runners: int, cores: float = np.inf) -> float:
        """Of an iteration's episodes."""
        runners = min(runners, self.groups)
        in_turn_s = self.runners_cpu_s / runners + (1 - 1 / runners) * self.longest_s
        return max(in_turn_s, self.trainer_cpu_s, (self.runners_cpu_s + self.trainer_cpu_s) / cores)


def show(console, title: str, task, groups: int, iterations: int, *, idle: bool) -> bool:
    """The table of one task; whether the target is reached. ``idle``: the machine has no other work."""
    own_s = group_seconds(task, iterations)
    costs = {runners: measured(task, runners, iterations) for runners in RUNNERS}
    serial, one = costs[0], costs[1]
    for runners, each in costs.items():
        for name, value in serial.weights.items():
            assert np.array_equal(value, each.weights[name]), f"{runners} runners: other weights"
    samples = task.samples_per_iteration
    spread = max(own_s) / float(np.mean(own_s))
    table = Table(title=title)
    names = ("runners", "episodes s", "learning s", "episodes/s", "x serial", "x one runner", "whole x serial")
    cpu_names = ("trainer CPU s", "runners CPU s", "learning CPU s")
    for name in (*names, *cpu_names, "model: episodes s", "x one runner", "whole x serial"):
        table.add_column(name, justify="right")
    learning_s = serial.learning_cpu_s
    spread_over = [costs[runners] for runners in RUNNERS[1:]]
    runners_cpu_s, trainer_cpu_s = (
        min(getattr(each, name) for each in spread_over) for name in ("runners_cpu_s", "trainer_cpu_s")
    )
    modelled = Model(runners_cpu_s, trainer_cpu_s, spread * runners_cpu_s / groups, groups)
    model = {n: modelled.seconds(n) for n in (*RUNNERS[1:], *MODELLED)}
    for runners in (*RUNNERS, *MODELLED):
        cells = [str(runners)]
        if runners in costs:
            each = costs[runners]
            whole = (serial.collect_s + serial.update_s) / (each.collect_s + each.update_s)
            cells += [f"{each.collect_s:.3f}", f"{each.update_s:.3f}", f"{samples / each.collect_s:,.0f}"]
            gains = (serial.collect_s / each.collect_s, one.collect_s / each.collect_s, whole)
            cells += [f"{gain:.2f}" for gain in gains]
            cells += [f"{each.trainer_cpu_s:.3f}", f"{each.runners_cpu_s:.3f}", f"{each.learning_cpu_s:.3f}"]
        else:
            cells += [""] * 9
        if runners in model:
            whole = (serial.trainer_cpu_s + learning_s) / (model[runners] + learning_s)
            cells += [f"{model[runners]:.3f}", f"{model[1] / model[runners]:.2f}", f"{whole:.2f}"]
        table.add_row(*cells)
    console.print(table)
    console.print(
        f"{groups} groups of {samples / groups:g} samples an iteration; the longest takes {spread:.2f} times the mean; "
        f"all take {runners_cpu_s / serial.trainer_cpu_s:.2f} times the CPU seconds of this process in an actor"
    )
    updates = ", ".join(f"{n}: {update_seconds(task, n, iterations):.3f}" for n in (0, *LEARNERS))
    console.print(f"learning, seconds of an iteration by number of learner actors: {updates}")
    gain = one.collect_s / costs[2].collect_s
    cores = os.cpu_count() or 1
    here = modelled.seconds(1, cores) / modelled.seconds(2, cores)
    both = f"{model[1] / model[2]:.2f} modelled with a core for each, {here:.2f} on {cores} idle cores"
    console.print(f"two runners over one: {gain:.2f} measured, {both}")
    judged = gain if idle else here
    verdict = "reached" if judged >= TARGET else f"missed by {TARGET - judged:.2f}"
    basis = "as measured" if idle else "as modelled, because other work on this machine distorts what is measured"
    console.print(f"target {TARGET}: {verdict}, {basis}\n")
    return judged >= TARGET


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
    reached, loads, cores = [], os.getloadavg(), os.cpu_count() or 1
    idle = max(loads[:2]) < IDLE_LOAD * cores
    console.print(f"{cores} cores, load {'/'.join(f'{each:.1f}' for each in loads)} before this run's own work")
    with RayExecutor(max(RUNNERS)):
        for name, table in tables.items():
            if given.only in (None, name):
                reached.append(show(console, *table, given.iterations, idle=idle))
    sys.exit(0 if all(reached) else 1)


if __name__ == "__main__":
    main()
