"""Where the time of a search goes: estimation, operator scheduling, placement, without a profiler.

The functions that the evaluator calls for each phase are wrapped while one piece of work runs, wherever it runs; they
do not call each other, so their times add up. The clock is the wall's, one piece of work at a time in each worker:
summed over workers it is work, not the time that somebody waited.
"""

import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from dse.codesign.evaluation import pricing
from dse.codesign.evaluation.job_placements import JobPlacements
from dse.run.executor import Arrived, Executor, Failed, ignore
from dse.run.progress import StopSignal, never_stop
from hardware.inputs import shown

Phase = Literal["estimation", "scheduling", "placement"]

_SEAMS: tuple[tuple[Any, str, Phase], ...] = (
    (pricing, "estimate", "estimation"),
    (pricing.PricedGraph, "optimistic", "scheduling"),
    (pricing.PricedGraph, "scheduled", "scheduling"),
    (JobPlacements, "bound", "placement"),
    (JobPlacements, "solve", "placement"),
)
"""Where each phase is called: operators priced; layers bounded or scheduled; placements bounded or solved."""


@dataclass(frozen=True)
class PhaseSeconds:
    """Seconds of work by phase; ``total_s`` has building graphs and everything else too."""

    estimation_s: float = 0.0
    scheduling_s: float = 0.0
    placement_s: float = 0.0
    total_s: float = 0.0

    def __add__(self, other: "PhaseSeconds") -> "PhaseSeconds":
        return PhaseSeconds(
            self.estimation_s + other.estimation_s,
            self.scheduling_s + other.scheduling_s,
            self.placement_s + other.placement_s,
            self.total_s + other.total_s,
        )

    def percent(self, phase: Phase) -> float:
        """The phase's share of all work."""
        return 100 * float(getattr(self, f"{phase}_s")) / self.total_s if self.total_s else 0.0


@dataclass(frozen=True)
class Work:
    """One piece of work of a search and what it took."""

    item: Any
    seconds: PhaseSeconds


Call = tuple[str, Callable[[Any], Any], Any]
"""A function's key, the function, and the item that it is applied to."""


class TimedExecutor(Executor):
    """An executor that notes what every item took; each search has one of its own.

    It leaves starting and ending ``inner`` to its owner, and gives it the same function in every search: ``inner``
    keeps its workers then, where new ones would take seconds to start.
    """

    def __init__(self, inner: Executor, worker: "TimedWorker") -> None:
        self._inner = inner
        self._worker = worker
        self._function: Callable[[Any], Any] | None = None
        self._key = ""
        self.work: list[Work] = []

    @property
    def workers(self) -> int:
        """Those of the inner executor."""
        return self._inner.workers

    def outcomes(
        self,
        function: Callable[[Any], Any],
        items: Iterable[Any],
        stop: StopSignal = never_stop,
        arrived: Arrived = ignore,
    ) -> Iterator[Any]:
        """``function`` of every item, or why there is none, in order."""
        if self._function is not function:
            self._function, self._key = function, uuid.uuid4().hex
        waiting: deque[Any] = deque()

        def calls() -> Iterator[Call]:
            # Items may be made while earlier answers come in, so they are taken one by one.
            for item in items:
                waiting.append(item)
                yield self._key, function, item

        def untimed(finished: Sequence[tuple[Call, Any]]) -> None:
            arrived([(call[2], got if isinstance(got, Failed) else got[0]) for call, got in finished])

        for outcome in self._inner.outcomes(self._worker, calls(), stop, untimed):
            item = waiting.popleft()
            if isinstance(outcome, Failed):
                yield outcome
                continue
            answer, seconds = outcome
            self.work.append(Work(item, seconds))
            yield answer


class TimedWorker:
    """Applies the function that comes with every item, and times its phases.

    The function of the last item stays with all that it has cached, until one with another key comes.
    """

    def __init__(self) -> None:
        self._key = ""
        self._function: Callable[[Any], Any] | None = None

    def describe(self, call: Call) -> str:
        """A call for people."""
        _, function, item = call
        return str(getattr(function, "describe", shown)(item))

    def __call__(self, call: Call) -> tuple[Any, PhaseSeconds]:
        """The answer and what it took."""
        key, function, item = call
        if self._function is None or key != self._key:
            self._key, self._function = key, function
        spent: dict[Phase, float] = {"estimation": 0.0, "scheduling": 0.0, "placement": 0.0}
        started = time.perf_counter()
        with _watching(spent):
            answer = self._function(item)
        total_s = time.perf_counter() - started
        return answer, PhaseSeconds(spent["estimation"], spent["scheduling"], spent["placement"], total_s)


@contextmanager
def _watching(spent: dict[Phase, float]) -> Iterator[None]:
    """Add the time of every call at a seam to ``spent``, until the end of the block."""
    originals = [(owner, name, getattr(owner, name)) for owner, name, _ in _SEAMS]
    for owner, name, phase in _SEAMS:
        setattr(owner, name, _timing(getattr(owner, name), spent, phase))
    try:
        yield
    finally:
        for owner, name, original in originals:
            setattr(owner, name, original)


def _timing(function: Callable[..., Any], spent: dict[Phase, float], phase: Phase) -> Callable[..., Any]:
    def timed(*arguments: Any, **named: Any) -> Any:
        started = time.perf_counter()
        try:
            return function(*arguments, **named)
        finally:
            spent[phase] += time.perf_counter() - started

    return timed
