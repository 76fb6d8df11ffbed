"""Ordered maps over independent work: the seam between an algorithm and where it runs.

A solver with parallel work takes an :class:`Executor` and nothing else changes between a laptop and a cluster. Results
come back in the order of the items, so a search that commits them in that order gives the same answer for any number
of workers. Results to be recorded are handed over as they arrive, in any order, so that an interrupted run loses
nothing that is finished behind a slow item.

A *poison* item, one on which the function fails, its process dies, or a limit is exceeded, becomes a :class:`Failed`
with its reason; the others go on.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from types import TracebackType
from typing import Any, Self, TypeVar

from dse.run.progress import StoppedError, StopSignal, ask, never_stop

Item = TypeVar("Item")
Value = TypeVar("Value")


@dataclass(frozen=True)
class Failed:
    """The outcome of an item that has no value.

    Attributes:
        reason: why, for people, in one line.
        error: the exception of the function, where it was one.
    """

    reason: str
    error: Exception | None = field(default=None, compare=False)

    @classmethod
    def with_error(cls, error: Exception) -> Self:
        """The function raised ``error``."""
        text = str(error).strip().splitlines()
        return cls(": ".join([type(error).__name__, *text[:1]]), error)


class ItemFailedError(Exception):
    """An item became :class:`Failed` where every one is needed."""


Arrived = Callable[[Sequence[tuple[Any, Any]]], object]
"""Called with (item, value or :class:`Failed`) of the items that have just been finished, in any order."""


def ignore(_arrived: Sequence[tuple[Any, Any]]) -> None:
    """Record nothing on arrival."""


class Executor(ABC):
    """An ordered map. ``function`` must be picklable and depend only on its item and its own (constant) state.

    Lifecycle: enter the context, call :meth:`map` or :meth:`outcomes` any number of times, leave the context to free
    the workers.
    """

    @property
    @abstractmethod
    def workers(self) -> int:
        """Work that runs at the same time (1 in-process): a hint for how many items to hand over at once."""

    @abstractmethod
    def outcomes(
        self,
        function: Callable[[Item], Value],
        items: Iterable[Item],
        stop: StopSignal = never_stop,
        arrived: Arrived = ignore,
    ) -> Iterator[Value | Failed]:
        """``function`` of every item, or why there is none, in the order of ``items``.

        ``arrived`` is called once with every item, before it is yielded. ``stop`` is called after every item, and while
        waiting for workers; work in flight is abandoned when the run is stopped.

        Raises:
            StoppedError: ``stop`` gave a reason.
        """

    def map(
        self,
        function: Callable[[Item], Value],
        items: Iterable[Item],
        stop: StopSignal = never_stop,
        arrived: Arrived = ignore,
    ) -> Iterator[Value]:
        """As :meth:`outcomes`, where every item is needed.

        Raises:
            StoppedError: ``stop`` gave a reason.
            Exception: that of ``function``.
            ItemFailedError: an item has failed otherwise.
        """
        for outcome in self.outcomes(function, items, stop, arrived):
            if isinstance(outcome, Failed):
                raise outcome.error or ItemFailedError(outcome.reason)
            yield outcome

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        return None


class InProcessExecutor(Executor):
    """The executor of ``--workers 0``: a plain loop, lazy."""

    @property
    def workers(self) -> int:
        """One: this process."""
        return 1

    def outcomes(
        self,
        function: Callable[[Item], Value],
        items: Iterable[Item],
        stop: StopSignal = never_stop,
        arrived: Arrived = ignore,
    ) -> Iterator[Value | Failed]:
        """``function`` of every item, or why there is none, in order."""
        for item in items:
            outcome = applied(function, item)
            arrived([(item, outcome)])
            yield outcome
            ask(stop)


def _at_once() -> bool:
    """Nothing is done in this process."""
    return False


class LateExecutor(Executor):
    """Another executor, whose workers are started when there is work for them, and not after the run is stopped.

    Args:
        executor: has the workers.
        alone: called before each item until they are started: whether this process still does it, as it should where
            the work may end before the workers are ready.
    """

    def __init__(self, executor: Executor, alone: Callable[[], bool] = _at_once) -> None:
        self._executor = executor
        self._alone = alone
        self._started: Executor | None = None
        self._ending = ExitStack()

    @property
    def workers(self) -> int:
        """Of the other one, if they are known before they are started."""
        return (self._started or self._executor).workers

    def outcomes(
        self,
        function: Callable[[Item], Value],
        items: Iterable[Item],
        stop: StopSignal = never_stop,
        arrived: Arrived = ignore,
    ) -> Iterator[Value | Failed]:
        """``function`` of every item, or why there is none, in order."""
        waiting = iter(items)
        while self._started is None:
            ask(stop)
            if not self._alone():
                self._started = self._ending.enter_context(self._executor)
                break
            first = list(islice(waiting, 1))
            if not first:
                return
            yield from InProcessExecutor().outcomes(function, first, stop, arrived)
        yield from self._started.outcomes(function, waiting, stop, arrived)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._started = None
        self._ending.__exit__(kind, error, traceback)


def applied(function: Callable[[Item], Value], item: Item) -> Value | Failed:
    """``function`` of ``item``, or why there is none; StoppedError is raised, because it is not the item's fault."""
    try:
        return function(item)
    except StoppedError:
        raise
    except Exception as error:
        return Failed.with_error(error)
