"""A fault-tolerant windowed map over actors: what every kind of work on the cluster goes through.

An actor (:class:`~actors.worker.Worker`) is a shell around one function. It is given calls, a few items each, and has
at most :data:`WINDOW` of them at a time: one that runs and one that waits, so that it never idles between two.

*Order.* Outcomes are yielded in the order of the items and reported to ``arrived`` as they come.

*Dispatch.* A call costs the driver and the worker some time regardless of its size, so a call holds as many items as
make :data:`CALL_S` of work by the speed measured so far, and more where there are so many workers that the driver
could not keep up (``benchmarks/scale.py``): its dispatch stays below :data:`DRIVER_SHARE` of its time.

*Room.* Only actors that have started are given work. Those for which the cluster has no room wait, and start whenever
there is some. While no actor runs, at the start or after the last one was lost, the wait is explained every
:data:`PATIENCE_S`.

*Deaths.* When a process or its node dies, Ray restarts the actor, elsewhere if necessary; its calls are retried.
The items of the call that ran are retried one by one, so that a poison item is identified: an item alone in its call
is charged with the death, and becomes :class:`~dse.run.executor.Failed` after as many as its
:class:`~actors.limits.Limits` say. Calls that only waited are not charged; but a process that dies can take the last
answer along that it has not sent yet, so that what was charged once has an actor to itself from then on. An item that
runs for longer than they allow fails; its process is ended.

State of an actor is lost with its process: functions must be rebuildable from their pickle and repeatable.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, GetTimeoutError, RayActorError, RayTaskError

import dse
from actors.in_band import InBand
from actors.limits import Limits
from actors.metrics import MapMetrics
from dse.run.executor import Arrived, Failed
from dse.run.progress import StopSignal, ask

WINDOW = 2
"""Calls that an actor has at the same time."""

CALL_S = 0.02
"""Work that a call holds at least, where items are shorter."""

DISPATCH_S = 0.0003
"""What a call costs the driver: to send it, to wait for it and to take its answer. ``benchmarks/scale.py`` measures
0.15 to 0.2 ms plus what grows with the workers and the items."""

DRIVER_SHARE = 0.5
"""Share of the driver's time that dispatch may take. In the simulation of ``benchmarks/scale.py`` 8,000 workers with
items of 1 s are busy 92 % of the time with this, 62 % with one item a call."""

MAX_ITEMS = 1024
"""Items in one call at most."""

_POLL_S = 0.5
"""How long a wait for workers lasts before the caller is asked whether to stop."""

_AGAIN_S = 0.05
"""Pause before an actor that is being restarted is polled again."""

PATIENCE_S = 10.0
"""Time without any worker after which the wait is explained, and between two explanations."""


class WorkersBrokenError(Exception):
    """The workers cannot start at all, or run another version of the program."""


@dataclass(eq=False)
class _Entry:
    """One item in flight: its position in the order, the deaths it was charged with, what became of it."""

    item: Any
    deaths: int = 0
    outcome: Any = None
    done: bool = False


@dataclass(eq=False)
class _Seat:
    """One actor with the calls it was given, oldest first, by reference; ``since``: when the oldest became that.

    ``up``: the answer that its process gives as soon as it runs. ``warm``: whether that has finished a call.
    """

    actor: Any
    up: Any
    calls: dict[Any, list[_Entry]] = field(default_factory=dict)
    since: float = 0.0
    warm: bool = False

    @property
    def suspects(self) -> bool:
        """Whether it works on an item that has cost a worker before."""
        return any(entry.deaths for entries in self.calls.values() for entry in entries)


class WindowedMap:
    """Actors that hold the same function, and maps over them, in sequence.

    Starting an actor's process takes seconds, so they stay where the function changes (:meth:`hold`).

    Args:
        actors: handles of remote :class:`~actors.worker.Worker` s.
        reference: the function in the object store.
        limits: when an item is given up.
        notice: receives messages for people about waits and deaths.
        describe: an item for people.
        metrics: counts what becomes of the items.
        notice_wait: tells what the actors need, while none runs (none has started yet, or the last one was lost).
    """

    def __init__(
        self,
        actors: Sequence[Any],
        reference: Any,
        limits: Limits,
        notice: Callable[[str], None],
        describe: Callable[[Any], str],
        metrics: MapMetrics,
        notice_wait: Callable[[], None],
    ) -> None:
        self._reference = reference
        self._before: list[Any] = []
        self._limits = limits
        self._notice = notice
        self._describe = describe
        self._metrics = metrics
        self._notice_wait = notice_wait
        self._starting: dict[Any, _Seat] = {}
        for actor in actors:
            up = actor.up.remote()
            self._starting[actor.ready.remote([reference])] = _Seat(actor, up)
        self._unavailable: list[_Seat] = []
        self._seats: list[_Seat] = []
        self._seat_of: dict[Any, _Seat] = {}
        self._order: deque[_Entry] = deque()
        self._again: deque[_Entry] = deque()
        self._workers = len(actors)
        self._done = 0
        self._work_s = 0.0
        self._explained_s = time.monotonic()

    def hold(self, reference: Any, describe: Callable[[Any], str]) -> None:
        """Continue with another function, once the maps over the one before have ended."""
        # Actors that are still starting read the function before first.
        self._before = [*self._before, self._reference] if self._starting else []
        self._reference, self._describe = reference, describe
        self._done, self._work_s, self._explained_s = 0, 0.0, time.monotonic()
        for seat in self._seats:
            seat.warm = False

    def _queued(self) -> int:
        """Items that were given to workers and are not finished."""
        return sum(len(entries) for seat in self._seats for entries in seat.calls.values())

    def outcomes(self, items: Iterable[Any], stop: StopSignal, arrived: Arrived) -> Iterator[Any]:
        """What becomes of every item, in order (:meth:`dse.run.executor.Executor.outcomes`).

        Raises:
            WorkersBrokenError: no worker can do this work.
        """
        remaining = iter(items)
        try:
            while True:
                self._fill(remaining)
                if not self._order:
                    return
                finished = self._wait()
                self._metrics.count(len(finished), sum(isinstance(entry.outcome, Failed) for entry in finished))
                self._metrics.report(self._queued)
                if finished:
                    arrived([(entry.item, entry.outcome) for entry in finished])
                ask(stop)
                while self._order and self._order[0].done:
                    yield self._order.popleft().outcome
                    ask(stop)
        finally:
            self._forget()
            self._metrics.report(self._queued, last=True)

    def _forget(self) -> None:
        """Let go of what an ended map has in flight; the actors finish it to no use."""
        self._order.clear()
        self._again.clear()
        self._seat_of.clear()
        for seat in self._seats:
            seat.calls.clear()

    def _fill(self, remaining: Iterator[Any]) -> None:
        """Give every actor that has room its next call, those with the least to do first."""
        for length in range(WINDOW):
            for seat in self._seats:
                if len(seat.calls) == length and not seat.suspects and not self._send(seat, remaining):
                    return
        if not self._order and (entry := self._taken(remaining, 1)):
            # No actor has started yet: the map is not over for want of room.
            self._again.extend(entry)

    def _send(self, seat: _Seat, remaining: Iterator[Any]) -> bool:
        """Give ``seat`` its next call; False where nothing is left to give."""
        entries = self._next(seat, remaining)
        if not entries:
            return False
        call = seat.actor.apply.remote([self._reference], InBand([entry.item for entry in entries]))
        if not seat.calls:
            seat.since = time.monotonic()
        seat.calls[call] = entries
        self._seat_of[call] = seat
        return True

    def _next(self, seat: _Seat, remaining: Iterator[Any]) -> list[_Entry]:
        """What ``seat`` may be given: an item that has cost a worker has one to itself.

        A worker that dies can take the answer of the item before along, which then is charged: once, but never again.
        """
        for place, entry in enumerate(self._again):
            if not entry.deaths or not seat.calls:
                del self._again[place]
                return [entry]
        return self._taken(remaining, self._items_of_a_call())

    def _taken(self, remaining: Iterator[Any], max_items: int) -> list[_Entry]:
        """The next items, at most so many. Items may depend on earlier outcomes, so no more are taken than are sent."""
        entries = [_Entry(item) for item in islice(remaining, max_items)]
        self._order.extend(entries)
        return entries

    def _items_of_a_call(self) -> int:
        """As many items as make a call worth its dispatch."""
        if not self._done:
            return 1
        call_s = max(CALL_S, self._workers * DISPATCH_S / DRIVER_SHARE)
        return max(1, min(MAX_ITEMS, round(call_s * self._done / max(self._work_s, 1e-9))))

    def _wait(self) -> list[_Entry]:
        """The items that have been finished, after the next event or a short while."""
        for seat in self._unavailable:
            seat.up = seat.actor.up.remote()
            self._starting[seat.actor.ready.remote([self._reference])] = seat
        self._unavailable.clear()
        ready, _ = ray.wait([*self._seat_of, *self._starting], num_returns=1, timeout=_POLL_S)
        if ready:
            # Whatever else is there by now comes along: one write to the disk for all of it.
            everything = [*self._seat_of, *self._starting]
            ready, _ = ray.wait(everything, num_returns=len(everything), timeout=0)
        finished: list[_Entry] = []
        for reference in ready:
            if reference in self._starting:
                self._start(self._starting.pop(reference), reference)
            elif reference in self._seat_of:
                finished += self._take(reference)
        finished += self._late()
        self._explain()
        return finished

    def _start(self, seat: _Seat, reference: Any) -> None:
        """Take in an actor whose process has started.

        Raises:
            WorkersBrokenError: it cannot start, or runs another version.
        """
        try:
            version = ray.get(reference)
        except ActorUnavailableError:
            # Its process or node has died and it is being restarted: polled again a little later.
            time.sleep(_AGAIN_S)
            self._unavailable.append(seat)
            return
        except RayActorError as error:
            raise WorkersBrokenError(f"a worker cannot start: {_line(error)}") from error
        except RayTaskError as error:
            raise WorkersBrokenError(f"a worker cannot start: {_line(error.cause or error)}") from error
        if version != dse.__version__:
            raise WorkersBrokenError(f"a worker runs dse {version}, but this is {dse.__version__}")
        self._seats.append(seat)

    def _take(self, call: Any) -> list[_Entry]:
        """The items of a call that has ended."""
        seat = self._seat_of[call]
        try:
            outcomes, seconds = ray.get(call)
        except RayActorError as error:
            return self._died(seat, _line(error))
        except RayTaskError as error:
            # The function itself could not be read, or an answer not be sent.
            outcomes, seconds = [Failed.with_error(error.cause or error)] * len(seat.calls[call]), 0.0
        return self._accept(call, outcomes, seconds)

    def _accept(self, call: Any, outcomes: Sequence[Any], seconds: float) -> list[_Entry]:
        seat = self._seat_of.pop(call)
        entries = seat.calls.pop(call)
        seat.since, seat.warm = time.monotonic(), True
        self._done += len(entries)
        self._work_s += seconds
        return [_finished(entry, outcome) for entry, outcome in zip(entries, outcomes, strict=True)]

    def _died(self, seat: _Seat, reason: str) -> list[_Entry]:
        """Retry the items of an actor whose process died, except one that has cost too many."""
        finished: list[_Entry] = []
        charged = False
        for call, entries in list(seat.calls.items()):
            try:
                outcomes, seconds = ray.get(call, timeout=0)
                finished += self._accept(call, outcomes, seconds)
            except (RayActorError, RayTaskError, GetTimeoutError):
                finished += self._repeated(entries, deaths=0 if charged else 1)
                if not charged:
                    self._notice(f"a worker died on {self._named(entries)}, which is retried: {reason}")
                charged = True
        self._metrics.died()
        self._restart(seat)
        return finished

    def _repeated(self, entries: list[_Entry], deaths: int) -> list[_Entry]:
        """Retry items one by one; one that alone has cost too many workers has failed."""
        finished = []
        for entry in entries:
            entry.deaths += deaths if len(entries) == 1 else 0
            if entry.deaths >= self._limits.deaths:
                finished.append(_finished(entry, Failed(f"{entry.deaths} worker processes died on it")))
            else:
                self._again.append(entry)
        return finished

    def _restart(self, seat: _Seat) -> None:
        """Give ``seat`` no work until its actor has started again."""
        for call in seat.calls:
            self._seat_of.pop(call, None)
        seat.calls.clear()
        seat.warm = False
        self._seats.remove(seat)
        self._unavailable.append(seat)

    def _late(self) -> list[_Entry]:
        """The items that have run for too long; their processes are ended."""
        limit_s = self._limits.timeout_s
        if limit_s is None:
            return []
        finished: list[_Entry] = []
        for seat in list(self._seats):
            (entries, *waiting) = [*seat.calls.values()] or [[]]
            allowed_s = self._limits.of_a_call(len(entries), warm=seat.warm)
            if not entries or time.monotonic() - seat.since <= allowed_s:
                continue
            self._again.extend(entry for call in waiting for entry in call)
            if len(entries) > 1:
                self._again.extend(entries)
            else:
                finished.append(_finished(entries[0], Failed(f"took longer than {limit_s:g} s")))
                self._notice(f"{self._named(entries)} took longer than {limit_s:g} s and was abandoned")
            ray.kill(seat.actor, no_restart=False)
            self._restart(seat)
        return finished

    def _named(self, entries: Sequence[_Entry]) -> str:
        """The items of a call for people: the first, and how many more."""
        more = f" and {len(entries) - 1} more" if len(entries) > 1 else ""
        return f"{self._describe(entries[0].item)}{more}"

    def _explain(self) -> None:
        """Say from time to time why nothing happens, while no worker has started or after the last one was lost."""
        now = time.monotonic()
        if self._seats:
            self._explained_s = now
        elif now - self._explained_s > PATIENCE_S:
            self._explained_s = now
            running = sum(_has_answered(seat.up) for seat in self._starting.values())
            if running:
                self._notice(f"{running} of {self._workers} workers are up and loading their input")
            else:
                self._notice_wait()


def _has_answered(call: Any) -> bool:
    """Whether a call of an actor has ended, and its process still lived."""
    try:
        ray.get(call, timeout=0)
    except (RayActorError, GetTimeoutError):
        return False
    return True


def _finished(entry: _Entry, outcome: Any) -> _Entry:
    entry.outcome, entry.done = outcome, True
    return entry


def _line(error: Exception) -> str:
    """The first line of a Ray error that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
