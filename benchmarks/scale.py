"""How far one driver goes: what its work costs, a model of it checked against real runs, and 10 to 1,000 nodes.

Claim: the model (:mod:`benchmarks.scale_model`) is within 10 % of real runs at 1, 2 and 4 workers, on 1 to 3 local
nodes, and of one driver with hundreds of workers; it predicts that 1,000 nodes spend at least 90 % of their time on
items of 1 s. The authors of DeepHyper report 95 % at 1,920 workers.

Method, all in one run. (1) What the driver, a worker and the journal take is measured, each part by itself. (2) The map
of :mod:`actors.windowed_map` runs on real workers, its answers journalled with fsync; items sleep, so that a machine
with two cores can have more workers than that. Every row is the median of three runs of the same items; the model is
given the times of the items and the costs of (1), nothing fitted to the runs. Hundreds of workers ("pretended") live
in one process that keeps their calls apart, so that the driver waits for as many calls as in a cluster; they take one
item a call, because the first guess at the speed of items, which sizes the calls, hangs on which of them end first.
(3) The model predicts clusters: how much of the workers' time goes into items of 1 s, start of the workers and end of
the run included, how busy driver, journal and object store are, and which is the first to fill up; with one item a
call, with the calls of the map as it is, and with other constants and laws in their place.

Taken from elsewhere: the latency and speed of a network (:data:`NETWORK_LATENCY_S`, :data:`NETWORK_BYTES_PER_S`) and
the rate at which a cluster starts actors (:data:`ACTORS_PER_S`). Not in the model: deaths of workers, and what Ray's
own head does for its nodes.
"""

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
import ray
from ray.cluster_utils import Cluster
from rich.console import Console
from rich.table import Table

import dse
from actors import windowed_map
from actors.environment import environment
from actors.ray_executor import RayExecutor
from benchmarks.scale_costs import DOCUMENT, Nap, map_over, measured_costs, nap_overrun, start_times, started_workers
from benchmarks.scale_model import Costs, Policy, SimulatedMap, Usage
from dse.run.journal import Journal

REPEATS = 3
ERROR_LIMIT = 0.10
EFFICIENCY_LIMIT = 0.90
SPREAD = 0.5
"""Standard deviation of the logarithm of an item's time."""

NETWORK_LATENCY_S = 0.25e-3
"""One way between two nodes: assumed, as usual between machines of one zone of a cloud."""

NETWORK_BYTES_PER_S = 1.25e9
"""Of the driver's node: assumed, 10 Gbit/s."""

ACTORS_PER_S = 550.0
"""At which a cluster starts actors: Ray's release test with 10,000 (release/perf_metrics/benchmarks/many_actors)."""

RUN_S = 200
"""Work for each worker in a predicted run."""


class Crowd:
    """Many workers in one process: each works off its calls in order, and sleeps for their items."""

    def __init__(self):
        self._turns = defaultdict(asyncio.Lock)

    async def ready(self):
        return dse.__version__

    async def apply(self, seat, items):
        async with self._turns[seat]:
            started = time.perf_counter()
            await asyncio.sleep(sum(seconds for _, seconds in items))
            return [json.loads(DOCUMENT) for _ in items], time.perf_counter() - started


@dataclass(frozen=True)
class _Method:
    """What a handle has under the name of a method, its first arguments given."""

    bound: object
    first: tuple

    def remote(self, _reference, *arguments):
        return self.bound.remote(*self.first, *arguments)


class OneOfCrowd:
    """The handle of one worker of a :class:`Crowd`."""

    def __init__(self, crowd, seat):
        self.ready = _Method(crowd.ready, ())
        self.apply = _Method(crowd.apply, (seat,))


def times_of(count: int, typical_s: float) -> np.ndarray:
    """Seconds of items whose mean is ``typical_s``."""
    normal = np.random.default_rng(count).normal(-(SPREAD**2) / 2, SPREAD, count)
    return typical_s * np.exp(normal)


class Recorder:
    """Journals whatever arrives."""

    def __init__(self, folder: Path) -> None:
        self._journal = Journal(Path(tempfile.mkdtemp(dir=folder)) / "journal.jsonl")

    def __call__(self, arrived) -> None:
        self._journal.append_all({f"sha256:{item[0]:064}": value for item, value in arrived})

    def __len__(self) -> int:
        return len(self._journal)


def map_s(actors, folder: Path, items_s) -> float:
    """The time of a map over started workers."""
    items = list(enumerate(items_s.tolist()))
    reference, recorder = ray.put(Nap()), Recorder(folder)
    begun = time.perf_counter()
    work = map_over(actors, reference)
    answers = sum(1 for _ in work.outcomes(items, lambda: None, recorder))
    seconds = time.perf_counter() - begun
    assert answers == len(recorder) == len(items)
    return seconds


def executor_s(workers: int, folder: Path, items_s) -> float:
    """The time of a map of a new :class:`RayExecutor`, the start of its workers included."""
    executor, recorder = RayExecutor(workers), Recorder(folder)
    items = list(enumerate(items_s.tolist()))
    begun = time.perf_counter()
    deque(executor.outcomes(Nap(), items, arrived=recorder), maxlen=0)
    seconds = time.perf_counter() - begun
    for actor in executor._actors:
        ray.kill(actor)
    return seconds


def crowd_s(workers: int, folder: Path, items_s) -> tuple[float, list[float]]:
    """The time of a map over pretended workers, and when each of them answers a first question."""
    crowd = ray.remote(num_cpus=0, max_concurrency=4 * workers)(Crowd).remote()
    ray.get(crowd.ready.remote())
    begun, starts_s = time.perf_counter(), []
    for answer in [crowd.ready.remote() for _ in range(workers)]:
        ray.get(answer)
        starts_s.append(time.perf_counter() - begun)
    try:
        return map_s([OneOfCrowd(crowd, seat) for seat in range(workers)], folder, items_s), starts_s
    finally:
        ray.kill(crowd)


@dataclass(frozen=True)
class Row:
    """A real run next to the model's: medians of :data:`REPEATS` runs, and their minimum and maximum."""

    where: str
    workers: int
    item_s: float
    items: int
    predicted_s: float
    measured_s: list[float]

    @property
    def error(self) -> float:
        """Relative, of the prediction."""
        return self.predicted_s / statistics.median(self.measured_s) - 1

    def cells(self) -> list[str]:
        """The row of the table."""
        low, middle, high = (f"{pick(self.measured_s):.2f}" for pick in (min, statistics.median, max))
        item = f"{self.item_s * 1e3:g} ms"
        seconds = (f"{self.predicted_s:.2f}", middle, f"{low}–{high}")
        return [self.where, str(self.workers), item, str(self.items), *seconds, f"{100 * self.error:+.1f} %"]


def compared(where, workers, item_s, count, costs, run) -> Row:
    """One row: ``run`` takes the items' times and gives seconds; the workers have started before."""
    items_s = times_of(count, item_s)
    # The map asks each of them once.
    starts_s = (1 + np.arange(workers)) * costs.send_s + 2 * costs.latency_s + costs.call_s
    measured_s = [run(items_s) for _ in range(REPEATS)]
    predicted = SimulatedMap(items_s + nap_overrun(), starts_s, costs).run().wall_s
    return Row(where, workers, item_s, count, predicted, measured_s)


def restarted(workers, item_s, count, costs, folder) -> Row:
    """One row of whole runs of the executor; between two of them, workers start with nothing to do."""
    items_s = times_of(count, item_s)
    starts_s, measured_s = [], []
    for _ in range(REPEATS):
        starts_s.append(start_times(workers))
        measured_s.append(executor_s(workers, folder, items_s))
    usual_s = np.median(starts_s, axis=0).tolist()
    predicted_s = SimulatedMap(items_s + nap_overrun(), usual_s, costs).run().wall_s
    return Row("restarted", workers, item_s, count, predicted_s, measured_s)


def pretended(workers, item_s, count, costs, folder) -> Row:
    """One row of a driver with many workers, one item a call: they say that they have started in sequence."""
    items_s = times_of(count, item_s)
    with patch.object(windowed_map, "MAX_ITEMS", 1):
        measured_s, starts_s = zip(*(crowd_s(workers, folder, items_s) for _ in range(REPEATS)), strict=True)
    model = SimulatedMap(items_s, np.median(starts_s, axis=0).tolist(), costs, Policy(max_items=1))
    return Row("pretended", workers, item_s, count, model.run().wall_s, list(measured_s))


ITEMS = ((0.005, 200), (0.05, 30), (0.2, 8), (1.0, 4))
"""(seconds of an item, items for each worker) of the real runs."""


def rows_on_one_machine(costs: Costs, folder: Path) -> Iterator[Row]:
    """1, 2 and 4 workers, started before or not; then hundreds of pretended ones."""
    for workers in (1, 2, 4):
        actors, _ = started_workers(workers)
        for item_s, count in ITEMS:
            run = partial(map_s, actors, folder)
            yield compared("one machine", workers, item_s, count * workers, costs, run)
        for actor in actors:
            ray.kill(actor)
        yield restarted(workers, 0.2, 16 * workers, costs, folder)
    yield pretended(400, 1.0, 4 * 400, costs, folder)


@contextmanager
def own_ray(folder: Path):
    """A private Ray on this machine, with room for four workers."""
    with environment({"RAY_TMPDIR": str(folder / "r")}):
        ray.init(
            address="local", num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="error",
            object_store_memory=150 << 20,
        )  # fmt: skip
    try:
        yield
    finally:
        ray.shutdown()


def rows_on_nodes(costs: Costs, folder: Path) -> Iterator[Row]:
    """One worker on each of 1 to 3 nodes, which are Ray nodes of this machine."""
    os.environ["RAY_TMPDIR"] = str(folder)  # the address of the cluster is nobody else's business
    node = {"num_cpus": 1, "object_store_memory": 100 << 20}
    cluster = Cluster(initialize_head=True, head_node_args=node | {"include_dashboard": False})
    try:
        for nodes in (1, 2, 3):
            if nodes > 1:
                cluster.add_node(**node)
            ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
            try:
                yield from _rows_on(nodes, costs, folder)
            finally:
                ray.shutdown()
    finally:
        cluster.shutdown()


def _rows_on(nodes: int, costs: Costs, folder: Path) -> Iterator[Row]:
    actors, _ = started_workers(nodes)
    name, run = f"{nodes} node{'s' if nodes > 1 else ''}", partial(map_s, actors, folder)
    for item_s, count in ((0.05, 30), (0.2, 8)):
        yield compared(name, nodes, item_s, count * nodes, costs, run)
    for actor in actors:
        ray.kill(actor)


# Predictions


@dataclass(frozen=True)
class Case:
    """A predicted run."""

    name: str
    policy: Policy
    answer_bytes: int = len(DOCUMENT)


CASES = (
    Case("one item a call", replace(Policy(), max_items=1)),
    Case("as the map is", Policy()),
    Case("1 ms a call, a quarter of the driver", replace(Policy(), dispatch_s=0.001, driver_share=0.25)),
    Case("as the map is, calls at most doubled", replace(Policy(), growth=2.0)),
    Case("as the map is, 200 kB answers", Policy(), 200_000),
)


def predicted(case: Case, nodes: int, on_each: int, costs: Costs, start_s: float) -> Usage:
    """A run of items of 1 s on a cluster."""
    workers = nodes * on_each
    starts_s = (1 + np.arange(workers)) / ACTORS_PER_S + start_s
    rng = np.random.default_rng(workers)
    items_s = rng.lognormal(-(SPREAD**2) / 2, SPREAD, workers * RUN_S)
    return SimulatedMap(items_s, starts_s, costs, case.policy, case.answer_bytes).run()


def prediction_table(costs: Costs, start_s: float) -> tuple[Table, list[float]]:
    """The table, and the efficiencies of 1,000 nodes with the calls of the map as it is."""
    costs = replace(costs, latency_s=costs.latency_s + NETWORK_LATENCY_S, link_byte_s=1 / NETWORK_BYTES_PER_S)
    table = Table(title=f"Predicted: items of 1 s (lognormal, {SPREAD:g}), {RUN_S} s of work for each worker")
    names = (
        "calls",
        "nodes",
        "workers",
        "items a call",
        "efficiency",
        "dispatch",
        "journal",
        "object store",
        "driver",
        "first",
    )
    for name in names:
        table.add_column(name, justify="left" if name in ("calls", "first") else "right")
    efficiencies = []
    for case in CASES:
        for nodes in (10, 100, 1000):
            for on_each in (1, 8):
                usage = predicted(case, nodes, on_each, costs, start_s)
                workers, shares = nodes * on_each, usage.shares()
                efficiency = usage.efficiency(workers)
                busy = (*shares.values(), usage.driver_share())
                if nodes == 1000 and case.policy == Policy() and case.answer_bytes == len(DOCUMENT):
                    efficiencies.append(efficiency)
                table.add_row(
                    case.name, str(nodes), str(workers), f"{workers * RUN_S / usage.calls:.1f}",
                    f"{100 * efficiency:.1f} %", *(f"{100 * share:.1f} %" for share in busy),
                    max(shares, key=shares.get),
                )  # fmt: skip
        table.add_section()
    return table, efficiencies


def main() -> int:
    """Prints the tables; 1 if a target is missed."""
    begun = time.perf_counter()
    console = Console(width=150)
    with tempfile.TemporaryDirectory(prefix="dse-", dir="/tmp") as name:
        folder = Path(name)
        with own_ray(folder):
            start_s = statistics.median(start_times(1)[0] for _ in range(REPEATS))
            costs = measured_costs(folder)
            for part, seconds in vars(costs).items():
                print(f"{part:<16} {seconds * 1e6:10.2f} µs")
            print(f"a worker starts in {start_s:.2f} s")
            rows = list(rows_on_one_machine(costs, folder))
        rows += rows_on_nodes(costs, folder)
    table = Table(title=f"Model beside real runs, median of {REPEATS}")
    for column in ("where", "workers", "item", "items", "model s", "real s", "min–max", "error"):
        table.add_column(column, justify="left" if column == "where" else "right")
    for row in rows:
        table.add_row(*row.cells())
    console.print(table)
    print(f"{time.perf_counter() - begun:.0f} s")
    table, efficiencies = prediction_table(costs, start_s)
    console.print(table)
    worst = max(abs(row.error) for row in rows)
    good = worst <= ERROR_LIMIT and min(efficiencies) >= EFFICIENCY_LIMIT
    print(
        f"largest error {100 * worst:.1f} % (≤ {100 * ERROR_LIMIT:.0f} %), lowest efficiency at 1,000 nodes "
        f"{100 * min(efficiencies):.1f} % (≥ {100 * EFFICIENCY_LIMIT:.0f} %); {time.perf_counter() - begun:.0f} s"
    )
    print("targets met" if good else "TARGET MISSED")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
