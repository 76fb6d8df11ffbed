"""A discrete simulation of :class:`actors.windowed_map.WindowedMap`, from what its parts cost.

The driver is one thread: it sends calls, waits, takes answers and has them written to the journal, in sequence.
Workers are seats that work off their calls in order. Answers reach the driver through its network link, one at a time.
Nothing dies, and no item waits for another. Everything that takes time is in :class:`Costs`; the law by which calls are
sized is that of the map, with its constants in :class:`Policy`.
"""

import heapq
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from actors import windowed_map

INLINE_BYTES = 100 * 1024
"""Answers above this go through the object store (Ray's ``max_direct_call_object_size``)."""


@dataclass(frozen=True)
class Costs:
    """What things take, in seconds.

    Attributes:
        send_s, send_item_s: the driver, to send a call, and more for each item in it.
        take_s, take_item_s: the driver, to take an answer, and more for each item in it.
        loop_s, loop_call_s: the driver, to wait once, and more for each call that is out.
        fill_seat_s: the driver, to look once whether a worker has room.
        journal_s, journal_item_s: the driver, to write to the journal once, and more for each entry.
        latency_s: a message between driver and worker, one way.
        call_s, item_s: a worker, around a call and around an item.
        link_byte_s: the network link of the driver, for a byte.
        stored_s, stored_byte_s: the driver, to take an answer from the object store, and more for each byte.
    """

    send_s: float = 0.0
    send_item_s: float = 0.0
    take_s: float = 0.0
    take_item_s: float = 0.0
    loop_s: float = 0.0
    loop_call_s: float = 0.0
    fill_seat_s: float = 0.0
    journal_s: float = 0.0
    journal_item_s: float = 0.0
    latency_s: float = 0.0
    call_s: float = 0.0
    item_s: float = 0.0
    link_byte_s: float = 0.0
    stored_s: float = 0.0
    stored_byte_s: float = 0.0


@dataclass(frozen=True)
class Policy:
    """How calls are sized: the constants of :mod:`actors.windowed_map`, or others in their place.

    Attributes:
        growth: by how much a worker's next call may have more items than its last one; infinite in the map.
        parts: the items left, where their number is known, are split over so many calls of every worker at least; 0 in
            the map, which does not ask for their number.
    """

    window: int = windowed_map.WINDOW
    call_s: float = windowed_map.CALL_S
    dispatch_s: float = windowed_map.DISPATCH_S
    driver_share: float = windowed_map.DRIVER_SHARE
    max_items: int = windowed_map.MAX_ITEMS
    growth: float = math.inf
    parts: int = 0

    def items_of_a_call(self, workers: int, done: int, work_s: float) -> int:
        """Items in the next call, after ``done`` items that took ``work_s`` seconds in all."""
        if not done:
            return 1
        call_s = max(self.call_s, workers * self.dispatch_s / self.driver_share)
        return max(1, min(self.max_items, round(call_s * done / max(work_s, 1e-9))))

    def max_call_items(self, workers: int, last: int, left: int) -> float:
        """Items that a call may have after one of ``last`` items, with so many left."""
        share = left / (workers * self.parts) if self.parts else math.inf
        return max(1.0, min(self.growth * max(last, 1), share))


@dataclass(frozen=True)
class Usage:
    """What a simulated map took.

    Attributes:
        wall_s: from the begin of the map to its last outcome.
        work_s: time of the items themselves, in all.
        dispatch_s, journal_s: time of the driver for calls (sent, awaited, taken), and for the journal.
        store_s: time that answers took through the network link of the driver, into its object store.
        calls, writes: how many there were.
    """

    wall_s: float = 0.0
    work_s: float = 0.0
    dispatch_s: float = 0.0
    journal_s: float = 0.0
    store_s: float = 0.0
    calls: int = 0
    writes: int = 0

    def efficiency(self, workers: int) -> float:
        """Share of the workers' time that went into items."""
        return self.work_s / (workers * self.wall_s)

    def driver_share(self) -> float:
        """Share of the time that the driver's thread was busy with calls and the journal."""
        return (self.dispatch_s + self.journal_s) / self.wall_s

    def shares(self) -> dict[str, float]:
        """Share of the time that each part was busy of which there is only one."""
        busy = {"driver dispatch": self.dispatch_s, "journal": self.journal_s, "object store": self.store_s}
        return {name: seconds / self.wall_s for name, seconds in busy.items()}


class _Call(NamedTuple):
    """Items on their way; none where the message is that a worker has started."""

    seat: int
    items: int = 0
    seconds: float = 0.0


class SimulatedMap:
    """One map, from the first call to the last answer.

    Args:
        items_s: what each item takes, in order.
        starts_s: when the driver can know that each worker has started.
        costs: what things take.
        policy: how calls are sized.
        answer_bytes: size of what an item becomes.
    """

    def __init__(
        self,
        items_s: Sequence[float],
        starts_s: Sequence[float],
        costs: Costs,
        policy: Policy | None = None,
        answer_bytes: int = 0,
    ) -> None:
        self._sums = np.concatenate(([0.0], np.cumsum(np.asarray(items_s, dtype=float))))
        self._count = len(items_s)
        self._workers = len(starts_s)
        self._costs, self._policy, self._answer_bytes = costs, policy or Policy(), answer_bytes
        self._under_way = [(start_s, number, _Call(number)) for number, start_s in enumerate(starts_s)]
        heapq.heapify(self._under_way)
        self._messages = self._workers
        self._arrived: deque[tuple[float, _Call]] = deque()
        self._out = [0] * self._workers
        self._last = [0] * self._workers
        self._free_s = [0.0] * self._workers
        self._room: set[int] = set()
        self._seats = self._sent = self._done = self._calls = self._writes = 0
        self._now_s = self._link_free_s = self._measured_s = 0.0
        self._dispatch_s = self._journal_s = self._store_s = 0.0

    def run(self) -> Usage:
        """What the map takes."""
        while True:
            self._fill()
            if self._done == self._count:
                break
            finished = self._wait()
            if finished:
                self._journal_s += self._pass(self._costs.journal_s + finished * self._costs.journal_item_s)
                self._writes += 1
        return Usage(
            wall_s=self._now_s,
            work_s=float(self._sums[-1]),
            dispatch_s=self._dispatch_s,
            journal_s=self._journal_s,
            store_s=self._store_s,
            calls=self._calls,
            writes=self._writes,
        )

    def _pass(self, seconds: float) -> float:
        """The driver is busy."""
        self._now_s += seconds
        return seconds

    def _fill(self) -> None:
        """Give every seat that has room its next call, those with the least to do first."""
        self._dispatch_s += self._pass(self._policy.window * self._seats * self._costs.fill_seat_s)
        for length in range(self._policy.window):
            for seat in sorted(self._room):
                if self._sent == self._count:
                    return
                if self._out[seat] == length:
                    self._send(seat)

    def _send(self, seat: int) -> None:
        costs = self._costs
        items = self._policy.items_of_a_call(self._workers, self._done, self._measured_s)
        left = self._count - self._sent
        items = int(min(items, left, self._policy.max_call_items(self._workers, self._last[seat], left)))
        self._last[seat] = items
        self._dispatch_s += self._pass(costs.send_s + items * costs.send_item_s)
        seconds = float(self._sums[self._sent + items] - self._sums[self._sent]) + items * costs.item_s
        begin_s = max(self._free_s[seat], self._now_s + costs.latency_s)
        end_s = self._free_s[seat] = begin_s + costs.call_s + seconds
        self._messages += 1
        heapq.heappush(self._under_way, (end_s + costs.latency_s, self._messages, _Call(seat, items, seconds)))
        self._sent += items
        self._calls += 1
        self._out[seat] += 1
        if self._out[seat] == self._policy.window:
            self._room.discard(seat)

    def _wait(self) -> int:
        """Wait for the next answer or start of a worker, and take all that is there then: the number of items."""
        half_s = (self._costs.loop_s + (len(self._under_way) + len(self._arrived)) * self._costs.loop_call_s) / 2
        self._dispatch_s += self._pass(half_s)
        if not self._arrived:
            self._transfer()
        self._now_s = max(self._now_s, self._arrived[0][0])
        while self._under_way and self._under_way[0][0] <= self._now_s:
            self._transfer()
        taken = []
        while self._arrived and self._arrived[0][0] <= self._now_s:
            taken.append(self._arrived.popleft()[1])
        self._dispatch_s += self._pass(half_s)
        return sum(map(self._take, taken))

    def _transfer(self) -> None:
        """Bring the next message through the driver's link."""
        at_s, _, call = heapq.heappop(self._under_way)
        seconds = call.items * self._answer_bytes * self._costs.link_byte_s
        self._store_s += seconds
        self._link_free_s = max(self._link_free_s, at_s) + seconds
        self._arrived.append((self._link_free_s, call))

    def _take(self, call: _Call) -> int:
        """Take an answer, or a worker in: the number of items."""
        costs = self._costs
        self._dispatch_s += self._pass(costs.take_s + call.items * costs.take_item_s)
        self._room.add(call.seat)
        if not call.items:
            self._seats += 1
            return 0
        size_bytes = call.items * self._answer_bytes
        if size_bytes > INLINE_BYTES:
            self._dispatch_s += self._pass(costs.stored_s + size_bytes * costs.stored_byte_s)
        self._out[call.seat] -= 1
        self._done += call.items
        self._measured_s += call.seconds
        return call.items
