"""What runners and learners in actors are worth in pretraining, with 1, 2 and 4 of them, and modelled beyond.

Target: two runner actors make episodes at least 1.7 times as fast as one on two idle cores, solver and simulator
included.

Method, all in one run, for the partition policy (under both evaluators) and for the pipeline policy. The same
iterations of the same seed are made in this process (0 runners, the serial baseline), and with 1, 2 and 4 runner
actors, in turn within each iteration, because the speed of a core drifts by half within minutes on a virtual machine;
the weights after them must be the same. A first iteration, in which whoever makes episodes prepares its environments,
is not timed. Seconds are medians, wall next to CPU, and gains are medians over the iterations of what two rows took in
the same iteration, with quartiles. The gain of two runners is shown next to what two processes that share nothing do
together over one alone: cores of virtual machines may be halves of one. When the machine has other work, by its load
before the run, the model decides. With learners the weights are updated from the same episodes by 1 and 2 learner
actors.

Model: the runners take W CPU seconds for the groups of an iteration, transport of episodes and weights included, and
the trainer meanwhile D to plan and take them (both the least measured, since waiting costs, too). As each runner
becomes free it gets groups, so that N of them take at most W / N + (1 - 1/N) times the longest group (Graham, 1966; the
longest over the mean is the median of the iterations). An iteration takes max(W / N + (1 - 1/N) longest, D), and then L
to learn, where every process has a core of its own, and on c cores no less than (W + D) / c. The columns of the model
are for the former, the last line also for the cores here.
"""

import os
import statistics
import sys
import time
from dataclasses import dataclass, replace

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.recording import Record, Results, parser_of

TARGET = 1.7
RUNNERS, MODELLED, LEARNERS = (0, 1, 2, 4), (8, 16, 32), (1, 2)
RECORD = Record(
    "scale_rollouts",
    ("two", "learner.trainer", "learner.one", "learner.two"),
    {
        "main": (
            "episodes of",
            "one process",
            "one runner",
            "two runners",
            "two over one, paired",
            "modelled",
            "two processes that share nothing",
        )
    },
)
SEED = 0
IDLE_LOAD = 0.25
"""Processes a core that want to run, in the last one and five minutes, up to which a machine counts as idle."""


@dataclass(frozen=True)
class Costs:
    """Seconds of each iteration, shape (iterations,).

    Attributes:
        collect_s, update_s: wall.
        trainer_cpu_s: of this process while episodes are made.
        runners_cpu_s: of all runner actors.
        learning_cpu_s: of this process while it learns.
        weights: after the last iteration.
    """

    collect_s: np.ndarray
    update_s: np.ndarray
    trainer_cpu_s: np.ndarray
    runners_cpu_s: np.ndarray
    learning_cpu_s: np.ndarray
    weights: dict


def gains(before: np.ndarray, after: np.ndarray) -> tuple[float, float, float]:
    """The median and the quartiles of how many times as fast each iteration is."""
    low, middle, high = np.quantile(before / after, (0.25, 0.5, 0.75))
    return middle, low, high


def cpu_seconds(training) -> float:
    """Of all runner actors so far."""
    if training.runners is None:
        return 0.0
    return sum(training.runners.group.foreach_env_runner(lambda _: time.process_time(), local_env_runner=False))


def begun(task, runners=0, learners=0):
    from dse.run.progress import never_stop, silent
    from policies.learning.actors import TrainingActors

    return task.begin(SEED, never_stop, silent, TrainingActors(runners, learners))


def iteration_seconds(training) -> tuple[float, float, float, float, float]:
    """What one more iteration takes, in the order of :class:`Costs`."""
    runners_s = cpu_seconds(training)
    begin_s, begin_cpu_s = time.perf_counter(), time.process_time()
    episodes = training.collect()
    collect_s, trainer_cpu_s = time.perf_counter() - begin_s, time.process_time() - begin_cpu_s
    runners_cpu_s = cpu_seconds(training) - runners_s
    begin_s, begin_cpu_s = time.perf_counter(), time.process_time()
    training.learn(episodes)
    learned_s, learning_cpu_s = time.perf_counter() - begin_s, time.process_time() - begin_cpu_s
    return collect_s, learned_s, trainer_cpu_s, runners_cpu_s, learning_cpu_s


def measured(task, iterations: int) -> dict[int, Costs]:
    """What iterations take by number of runners, in turn within each iteration."""
    trainings = {runners: begun(task, runners) for runners in RUNNERS}
    rows = [[iteration_seconds(training) for training in trainings.values()] for _ in range(iterations + 1)]
    costs = {}
    for column, (runners, training) in enumerate(trainings.items()):
        weights = {name: np.array(value) for name, value in training.tensors().items()}
        costs[runners] = Costs(*np.array([row[column] for row in rows[1:]]).T, weights)
        training.close()
    return costs


class Separate:
    """A process that makes episodes for itself alone."""

    def __init__(self, task) -> None:
        import torch

        torch.set_num_threads(1)
        self.training = begun(task)
        self.training.iterate()

    def collect(self) -> None:
        self.training.collect()


def two_separate(task, iterations: int) -> tuple[float, float, float]:
    """What two processes that share nothing do together over one of them alone, median and quartiles."""
    import ray

    actors = [ray.remote(num_cpus=1)(Separate).remote(task) for _ in range(2)]
    seconds = []
    for turn in range(iterations + 1):
        row = []
        for busy in ([actors[turn % 2]], actors):
            begin_s = time.perf_counter()
            ray.get([actor.collect.remote() for actor in busy])
            row.append(time.perf_counter() - begin_s)
        seconds.append(row)
    for actor in actors:
        ray.kill(actor)
    alone, together = np.array(seconds[1:]).T
    return gains(2 * alone, together)


def longest_over_mean(task, iterations: int) -> float:
    """The longest group of an iteration over the mean of its groups, in CPU seconds of this process: the median."""
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
    by_iteration = np.array(times).reshape(iterations + 1, -1)[1:]
    return float(np.median(by_iteration.max(axis=1) / by_iteration.mean(axis=1)))


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


def model_of(costs: dict[int, Costs], spread: float, groups: int) -> Model:
    """The model, from the row with the least CPU seconds of each kind."""
    runners_cpu_s, trainer_cpu_s = (
        min(float(np.median(getattr(costs[runners], name))) for runners in RUNNERS[1:])
        for name in ("runners_cpu_s", "trainer_cpu_s")
    )
    return Model(runners_cpu_s, trainer_cpu_s, spread * runners_cpu_s / groups, groups)


def table_of(title: str, costs: dict[int, Costs], modelled: Model, samples: int) -> Table:
    """Measured rows and modelled ones."""
    table = Table(title=title)
    names = ("runners", "episodes s", "learning s", "episodes/s", "x serial", "x one runner", "whole x serial")
    cpu_names = ("trainer CPU s", "runners CPU s", "learning CPU s")
    for name in (*names, *cpu_names, "model: episodes s", "x one runner", "whole x serial"):
        table.add_column(name, justify="right")
    serial, one = costs[0], costs[1]
    serial_cpu_s, learning_s = (float(np.median(each)) for each in (serial.trainer_cpu_s, serial.learning_cpu_s))
    for runners in (*RUNNERS, *MODELLED):
        cells = [str(runners)]
        if runners in costs:
            each = costs[runners]
            seconds = [float(np.median(column)) for column in (each.collect_s, each.update_s)]
            whole = gains(serial.collect_s + serial.update_s, each.collect_s + each.update_s)
            faster = (gains(serial.collect_s, each.collect_s), gains(one.collect_s, each.collect_s), whole)
            cells += [f"{seconds[0]:.3f}", f"{seconds[1]:.3f}", f"{samples / seconds[0]:,.0f}"]
            cells += [f"{gain[0]:.2f}" for gain in faster]
            columns = (each.trainer_cpu_s, each.runners_cpu_s, each.learning_cpu_s)
            cells += [f"{float(np.median(column)):.3f}" for column in columns]
        else:
            cells += [""] * 9
        if runners:
            episodes_s = modelled.seconds(runners)
            whole_gain = (serial_cpu_s + learning_s) / (episodes_s + learning_s)
            cells += [f"{episodes_s:.3f}", f"{modelled.seconds(1) / episodes_s:.2f}", f"{whole_gain:.2f}"]
        table.add_row(*cells)
    return table


def show(console, results: Results, title: str, task, groups: int, iterations: int, *, idle: bool) -> bool:
    """The table of one task; whether the target is reached. ``idle``: the machine has no other work."""
    spread = longest_over_mean(task, iterations)
    costs = measured(task, iterations)
    for runners, each in costs.items():
        for name, value in costs[0].weights.items():
            assert np.array_equal(value, each.weights[name]), f"{runners} runners: other weights"
    samples = task.samples_per_iteration
    modelled = model_of(costs, spread, groups)
    console.print(table_of(title, costs, modelled, samples))
    in_actors = modelled.runners_cpu_s / float(np.median(costs[0].trainer_cpu_s))
    console.print(
        f"{groups} groups of {samples / groups:g} samples an iteration; the longest takes {spread:.2f} times the mean; "
        f"all take {in_actors:.2f} times the CPU seconds of this process in an actor"
    )
    updates = [f"{update_seconds(task, n, iterations):.2f} s" for n in (0, *LEARNERS)]
    gain, low, high = gains(costs[1].collect_s, costs[2].collect_s)
    cores = os.cpu_count() or 1
    here = modelled.seconds(1, cores) / modelled.seconds(2, cores)
    everywhere = modelled.seconds(1) / modelled.seconds(2)
    console.print(
        f"two runners over one: {gain:.2f} measured (quartiles {low:.2f} to {high:.2f} of {iterations} iterations), "
        f"{everywhere:.2f} modelled with a core for each, {here:.2f} on {cores} idle cores"
    )
    limit, *quartiles = two_separate(task, iterations)
    console.print(
        f"two processes that share nothing over one: {limit:.2f} (quartiles {quartiles[0]:.2f} to {quartiles[1]:.2f})"
    )
    collect_s = (f"{float(np.median(costs[runners].collect_s)):.3f} s" for runners in (0, 1, 2))
    paired = f"{gain:.2f} [{low:.2f}, {high:.2f}]"
    apart = f"{limit:.2f} [{quartiles[0]:.2f}, {quartiles[1]:.2f}]"
    results.row("main", title, *collect_s, paired, f"{everywhere:.2f}", apart)
    if "simulator" in title:
        results.figure("two", f"{gain:.2f}")
        for name, update in zip(("trainer", "one", "two"), updates, strict=True):
            results.figure(f"learner.{name}", update)
    judged = gain if idle else here
    verdict = "reached" if judged >= TARGET else f"missed by {TARGET - judged:.2f}"
    basis = "as measured" if idle else "as modelled, because other work on this machine distorts what is measured"
    console.print(f"target {TARGET}: {verdict}, {basis}\n")
    return judged >= TARGET


def main() -> None:
    """All tables."""
    parser, results = parser_of(__doc__), Results(RECORD)
    parser.add_argument("--iterations", type=int, default=20, help="timed iterations of each row")
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
    with RayExecutor(sum(RUNNERS)):
        for name, table in tables.items():
            if given.only in (None, name):
                reached.append(show(console, results, *table, given.iterations, idle=idle))
    results.save(given.record)
    sys.exit(0 if all(reached) else 1)


if __name__ == "__main__":
    main()
