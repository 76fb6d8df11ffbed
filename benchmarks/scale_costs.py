"""What the parts of a map over actors take on this machine, each measured by itself (for :mod:`benchmarks.scale`)."""

import json
import statistics
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import ray

from actors.limits import Limits
from actors.metrics import MapMetrics
from actors.windowed_map import WindowedMap, _Seat
from actors.worker import Worker
from benchmarks.scale_model import Costs
from dse.run.journal import Journal

PLAN = {"stages": [[list(range(26)), 1, []], [list(range(26, 52)), 1, []]], "batch_s": 0.3194066509621428, "data": 512}
DOCUMENT = json.dumps({"architecture": 11400, "bound_s": [0.3194066509621428] * 3, "plans": [PLAN] * 3})
"""An answer as the co-search has it: 1 kB."""


class Nap:
    """Sleeps for (number, seconds), and answers with a document."""

    def __call__(self, item):
        _, seconds = item
        if seconds:
            time.sleep(seconds)
        return json.loads(DOCUMENT)


def mean_s(times) -> float:
    """The mean without the slowest and fastest tenth: what a machine does between its other duties."""
    ordered = sorted(times)
    cut = len(ordered) // 10
    return statistics.fmean(ordered[cut : len(ordered) - cut])


def line(sizes, seconds) -> tuple[float, float]:
    """(what nothing takes, and each one more): a least-squares line in relative error, neither below 0."""
    sizes, seconds = np.asarray(sizes, float), np.asarray(seconds)
    rows = np.stack([np.ones_like(sizes), sizes], axis=1) / seconds[:, None]
    base, slope = np.linalg.lstsq(rows, np.ones_like(seconds), rcond=None)[0]
    return max(float(base), 0.0), max(float(slope), 0.0)


def clock(function, *arguments, **named) -> float:
    """Seconds of one call."""
    begun = time.perf_counter()
    function(*arguments, **named)
    return time.perf_counter() - begun


def journal_costs(folder: Path) -> dict[str, float]:
    """Writes of 1 to 256 entries."""
    groups, seconds = (1, 4, 16, 64, 256), []
    with Journal(folder / "costs.jsonl") as journal:
        for group in groups:
            batches = [
                {f"sha256:{group}-{turn}-{number:056}": json.loads(DOCUMENT) for number in range(group)}
                for turn in range(20)
            ]
            seconds.append(mean_s([clock(journal.append_all, batch) for batch in batches]))
    base, slope = line(groups, seconds)
    return {"journal_s": base, "journal_item_s": slope}


def send_costs(sleeper, reference) -> tuple[dict[str, float], list]:
    """Calls of 1 to 32 items to a worker that is busy: (costs, the calls)."""
    sizes, seconds, calls = (1, 8, 32), [], []
    for size in sizes:
        items, times = [(number, 0.5) for number in range(size)], []
        for _ in range(1400):
            begun = time.perf_counter()
            calls.append(sleeper.apply.remote([reference], items))
            times.append(time.perf_counter() - begun)
        seconds.append(mean_s(times))
    base, slope = line(sizes, seconds)
    return {"send_s": base, "send_item_s": slope}, calls


def call_costs(actor, reference) -> dict[str, float]:
    """Calls of 1 to 32 empty items: to have them done in sequence, and to take their answers."""
    sizes, worked, taken = (1, 8, 32), [], []
    for size in sizes:
        items = [(number, 0.0) for number in range(size)]
        begun = time.perf_counter()
        calls = [actor.apply.remote([reference], items) for _ in range(400)]
        ray.wait(calls, num_returns=len(calls))
        worked.append((time.perf_counter() - begun) / len(calls))
        taken.append(mean_s([clock(ray.get, call) for call in calls]))
    (take_s, take_item_s), (call_s, item_s) = line(sizes, taken), line(sizes, worked)
    return {"take_s": take_s, "take_item_s": take_item_s, "call_s": call_s, "item_s": item_s}


def wait_costs(pending, done) -> dict[str, float]:
    """The two waits of one turn of the map, with 10 to 4,000 calls out that are not done, and ``done``, that is."""
    counts, seconds = (10, 100, 1000, 4000), []
    for count in counts:
        out = dict.fromkeys([done, *pending[:count]])

        def turn(out=out):
            ray.wait([*out], num_returns=1, timeout=0.5)
            ray.wait([*out], num_returns=len(out), timeout=0)

        seconds.append(mean_s([clock(turn) for _ in range(30)]))
    base, slope = line(counts, seconds)
    return {"loop_s": base, "loop_call_s": slope}


class Sleeper:
    """Keeps its calls waiting."""

    def apply(self, _reference, _items):
        time.sleep(1e6)

    def answer(self, size):
        return bytes(size)


def store_costs(actor) -> dict[str, float]:
    """Answers of 0.2 to 8 MB, beyond a small one."""
    sizes, seconds = (200_000, 1_000_000, 8_000_000), []
    for size in sizes:
        times = []
        for _ in range(20):
            call = actor.answer.remote(size)
            ray.wait([call], fetch_local=True)
            times.append(clock(ray.get, call))
            del call
        seconds.append(mean_s(times))
    base, slope = line(sizes, seconds)
    return {"stored_s": base, "stored_byte_s": slope}


def fill_cost() -> float:
    """A look at a worker that has no room."""
    full = map_over([], None)
    full._seats = [_Seat(None, calls={0: [], 1: []}) for _ in range(2000)]
    full._order.append(None)
    return mean_s([clock(full._fill, iter(())) for _ in range(50)]) / (2 * len(full._seats))


def latency(actor, reference, costs) -> float:
    """One way: half of what an idle driver waits for an empty call, beyond what both sides do in that time."""
    times = []
    for _ in range(200):
        begun = time.perf_counter()
        ray.wait([actor.apply.remote([reference], [(0, 0.0)])])
        times.append(time.perf_counter() - begun)
        time.sleep(0.001)
    return max(0.0, statistics.median(times) - costs.send_s - costs.loop_s / 2 - costs.call_s - costs.item_s) / 2


def nap_overrun() -> float:
    """By how much a sleep is longer than requested."""
    return mean_s([clock(time.sleep, 0.005) for _ in range(100)]) - 0.005


def measured_costs(folder: Path) -> Costs:
    """Everything but the network, on this machine."""
    (worker,), _ = started_workers(1)
    reference = ray.put(Nap())
    ray.get(worker.ready.remote([reference]))
    sleeper = ray.remote(num_cpus=0)(Sleeper).remote()
    measured = {"fill_seat_s": fill_cost()} | journal_costs(folder) | call_costs(worker, reference)
    stored = store_costs(sleeper)
    measured |= stored | {"stored_s": max(0.0, stored["stored_s"] - measured["take_s"])}
    sent, pending = send_costs(sleeper, reference)
    done = worker.apply.remote([reference], [(0, 0.0)])
    ray.get(done)
    costs = Costs(**measured, **sent, **wait_costs(pending, done))
    costs = replace(costs, latency_s=latency(worker, reference, costs))
    for actor in (worker, sleeper):
        ray.kill(actor)
    return costs


def map_over(actors, reference) -> WindowedMap:
    """A map as the executor makes it."""
    return WindowedMap(actors, reference, Limits(), print, str, MapMetrics({}), str)


def started_workers(count: int) -> tuple[list, list[float]]:
    """Handles of actors that have started, and when each had."""
    begun = time.perf_counter()
    actors = [ray.remote(num_cpus=1)(Worker).remote() for _ in range(count)]
    reference = ray.put(Nap())
    left, starts_s = [actor.ready.remote([reference]) for actor in actors], []
    while left:
        (_, left) = ray.wait(left)
        starts_s.append(time.perf_counter() - begun)
    return actors, starts_s


def start_times(workers: int) -> list[float]:
    """When each of so many workers had started; they are let go."""
    actors, starts_s = started_workers(workers)
    for actor in actors:
        ray.kill(actor)
    return starts_s
