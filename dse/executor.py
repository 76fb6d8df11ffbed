"""Ordered maps over independent work: the seam between an algorithm and where it runs.

A solver with parallel work takes an :class:`Executor` and nothing else changes between a laptop and a cluster. Results
come back in the order of the items, so a search that commits them in that order gives the same answer for any number
of workers.
"""

from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Protocol, Self, TypeVar

from dse.progress import StopSignal, ask, never_stop

Item = TypeVar("Item")
Value = TypeVar("Value")


class Executor(Protocol):
    """An ordered map. ``function`` must be picklable and depend on nothing but its item and its own (constant) state.

    Lifecycle: enter the context, call :meth:`map` any number of times, leave the context to free the workers.
    """

    workers: int
    """Work that runs at the same time (1 in-process): a hint for how many items to hand over at once."""

    def map(
        self, function: Callable[[Item], Value], items: Iterable[Item], stop: StopSignal = never_stop
    ) -> Iterator[Value]:
        """``function`` of every item, in the order of ``items``. An exception of ``function`` is raised here.

        ``stop`` is asked after every item, and while workers are waited for; what they do then is abandoned.

        Raises:
            StoppedError: ``stop`` gave a reason.
        """
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


class InProcessExecutor:
    """The executor of ``--workers 0``: a plain loop, lazy."""

    workers = 1

    def map(
        self, function: Callable[[Item], Value], items: Iterable[Item], stop: StopSignal = never_stop
    ) -> Iterator[Value]:
        """``function`` of every item, in order."""
        for item in items:
            yield function(item)
            ask(stop)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        return None
