"""The Ray executor: an ordered, windowed map over actors that survives the death of any worker.

Each actor is a thin shell around the mapped function, built once a worker, so whatever the function caches (priced
operators, built graphs) is kept between its items. Actors restart for ever and their calls are retried, so the function
must be rebuildable from its pickle and its calls repeatable; exceptions of the function itself are not retried. One
call costs about 0.7 ms of dispatch: give it items of 20 ms or more.
"""

import logging
import shutil
import socket
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import ray

from dse.progress import StoppedError, StopSignal, ask, never_stop
from hardware.inputs import fail, shown

Item = TypeVar("Item")
Value = TypeVar("Value")

_WINDOW_PER_WORKER = 2
"""Calls in flight for each actor: one that runs and one that waits, so that no actor idles between items."""

_CONNECT_TIMEOUT_S = 5.0

_STOP_POLL_S = 0.5
"""How long a wait for workers lasts before the caller is asked whether to stop."""

_OBJECT_STORE_BYTES = 150 * 1024**2
"""Results are small; the default store would claim 30 % of the machine's memory."""


class _Worker:
    """Holds one function and applies it.

    Every call brings a reference to the function inside a list, which the executor keeps alive, so that a worker that
    was restarted finds it again; an argument of the constructor could be lost before a restart.
    """

    def __init__(self) -> None:
        self._function: Callable[[Any], Any] | None = None

    def apply(self, reference: list[Any], item: Any) -> Any:
        if self._function is None:
            function: Callable[[Any], Any] = ray.get(reference[0])
            self._function = function
        return self._function(item)


class RayExecutor:
    """:class:`dse.executor.Executor` on Ray actors.

    Args:
        workers: the number of actors, one CPU each.
        address: an existing cluster (``auto``, ``ray://…``); None starts a private one on this machine, which never
            attaches to a cluster that happens to be running.
    """

    def __init__(self, workers: int, address: str | None = None) -> None:
        self.workers = workers
        self._address = address
        self._temporary: Path | None = None
        self._actors: list[Any] = []
        self._reference: Any = None
        self._function: Callable[[Any], Any] | None = None

    def __enter__(self) -> Self:
        if self._address is not None:
            _connect(self._address)
            return self
        # Unix socket paths are limited to about 100 characters, so the private session lives in a short folder.
        self._temporary = Path(tempfile.mkdtemp(prefix="dse-", dir="/tmp" if Path("/tmp").is_dir() else None))
        ray.init(
            address="local",
            num_cpus=self.workers,
            object_store_memory=_OBJECT_STORE_BYTES,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            _temp_dir=str(self._temporary),
        )
        return self

    def map(
        self, function: Callable[[Item], Value], items: Iterable[Item], stop: StopSignal = never_stop
    ) -> Iterator[Value]:
        """``function`` of every item, in the order of ``items``; at most two calls an actor are in flight."""
        actors = self._actors_for(function)
        idle = deque(actors * _WINDOW_PER_WORKER)
        pending: deque[Any] = deque()
        running: dict[Any, Any] = {}
        remaining = iter(items)
        exhausted = False
        while True:
            while idle and not exhausted:
                try:
                    item = next(remaining)
                except StopIteration:
                    exhausted = True
                    break
                actor = idle.popleft()
                call = actor.apply.remote([self._reference], item)
                running[call] = actor
                pending.append(call)
            if not pending:
                return
            while pending[0] in running:
                ready, _ = ray.wait(list(running), num_returns=1, timeout=_STOP_POLL_S)
                for call in ready:
                    idle.append(running.pop(call))
                self._end_if(stop)
            while pending and pending[0] not in running:
                yield ray.get(pending.popleft())
                self._end_if(stop)

    def _end_if(self, stop: StopSignal) -> None:
        """StoppedError where ``stop`` gives a reason; the actors end at once, whatever they do."""
        try:
            ask(stop)
        except StoppedError:
            for actor in self._actors:
                ray.kill(actor)
            self.release()
            raise

    def _actors_for(self, function: Callable[[Any], Any]) -> list[Any]:
        """The actors that hold ``function``; those of an earlier function are let go."""
        if function is not self._function:
            worker = ray.remote(max_restarts=-1, max_task_retries=-1)(_Worker)
            self._reference = ray.put(function)
            self._actors = [worker.remote() for _ in range(self.workers)]
            self._function = function
        return self._actors

    @property
    def through_client(self) -> bool:
        """Whether the cluster is reached through Ray Client, so that this process is no driver in it."""
        return self._address is not None and self._address.startswith("ray://")

    def release(self) -> None:
        """Let the actors go, and their CPUs, until the next :meth:`map`."""
        self._actors = []
        self._reference = self._function = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()
        ray.shutdown()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)


def _connect(address: str) -> None:
    """Join the cluster at ``address``.

    Raises:
        InputError: nothing answers there.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        if host and port.isdigit():
            # Ray itself tries for a minute and more before it gives up.
            socket.create_connection((host, int(port)), timeout=_CONNECT_TIMEOUT_S).close()
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, OverflowError, ValueError, RuntimeError) as error:
        raise fail("dse", "--address", address, f"no Ray cluster answers there: {shown(str(error))}") from error
