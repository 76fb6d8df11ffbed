"""The Ray executor: maps over actors on this machine or on a cluster, which survive the death of any worker.

Each actor is a thin shell around the mapped function, built once per worker, so everything that the function caches
(priced operators, built graphs) is kept between its items. How calls are sized, repeated and given up is in
:mod:`actors.windowed_map`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, TypeVar

import ray

from actors.in_band import InBand
from actors.joining import join
from actors.limits import Limits
from actors.metrics import MapMetrics, Watched
from actors.private_ray import PrivateRay
from actors.windowed_map import WindowedMap, WorkersBrokenError
from actors.worker import Worker
from actors.worker_kind import WorkerKind
from dse.run.executor import Arrived, Executor, Failed, ignore
from dse.run.progress import StoppedError, StopSignal, never_stop
from hardware.inputs import InputError, fail, shown

Item = TypeVar("Item")
Value = TypeVar("Value")


def _unheard(_text: str) -> None:
    """The listener of executors that nobody watches."""


class RayExecutor(Executor):
    """:class:`dse.run.executor.Executor` on Ray actors.

    Args:
        workers: the number of actors, one CPU each, or their kinds: faster ones take more of the work. None: one for
            every CPU that the cluster at ``address`` has when it is joined, and that ``extra`` leaves.
        address: an existing cluster (``auto``, ``ray://…``); None starts a private one on this machine, which never
            attaches to a cluster that happens to be running.
        limits: when an item is given up.
        notice: receives messages for people about waits for room and workers that died; items are named by the
            function's own ``describe(item)``, where it has one.
        watched: figures of the run that belong to its metrics.
        extra: what the actors need in total that the work itself starts, in addition to the workers.

    Raises:
        InputError: nothing answers at ``address``, or wants another token, or its workers cannot run this program, or
            all of it does not hold a worker and ``extra``.
    """

    def __init__(
        self,
        workers: int | tuple[WorkerKind, ...] | None,
        address: str | None = None,
        limits: Limits | None = None,
        notice: Callable[[str], None] = _unheard,
        watched: Watched | None = None,
        extra: WorkerKind | None = None,
    ) -> None:
        self._kinds = workers if isinstance(workers, tuple) else (WorkerKind(workers or 1),)
        self._all = workers is None
        self._address = address
        self.limits = limits or Limits()
        self.notice = notice
        self._watched = watched or {}
        self._extra = extra
        self._private: PrivateRay | None = None
        self._function: Callable[[Any], Any] | None = None
        self._actors: list[Any] = []
        self._map: WindowedMap | None = None

    def __enter__(self) -> Self:
        if self._address is None:
            self._private = PrivateRay(self._kinds if self._extra is None else (*self._kinds, self._extra), self.notice)
            return self
        join(self._address)
        if self._all:
            self._kinds = (WorkerKind(self._all_workers(self._address)),)
        return self

    def _all_workers(self, address: str) -> int:
        """One for every CPU of the cluster that the actors of the work itself leave.

        Raises:
            InputError: the cluster cannot hold these and one worker, so the work would wait forever.
        """
        there, extra = _resources()[0], self._extra or WorkerKind(0, 0.0)
        workers = int(there.get("CPU", 0) - extra.cpus)
        if self._extra is not None and (workers < 1 or there.get("GPU", 0) < extra.gpus):
            ray.shutdown()
            needs = replace(extra, cpus=extra.cpus + 1).needs
            has = " and ".join(f"{there.get(name, 0):g} {name}" for name in ("CPU", "GPU"))
            rule = f"the cluster must have {needs} for one worker and the run's own actors, but has {has}"
            raise fail("dse", "--address", address, rule)
        return max(1, workers)

    def outcomes(
        self,
        function: Callable[[Item], Value],
        items: Iterable[Item],
        stop: StopSignal = never_stop,
        arrived: Arrived = ignore,
    ) -> Iterator[Value | Failed]:
        """``function`` of every item, or why there is none, in order; stopping ends the actors, even while they
        work.
        """
        try:
            yield from self._map_of(function).outcomes(items, stop, arrived)
        except StoppedError:
            self.release()
            raise
        except WorkersBrokenError as error:
            self.release()
            raise self.broken(error) from error

    def broken(self, error: WorkersBrokenError) -> InputError:
        """The message for people where no worker can do the work."""
        return fail("dse", "--address", self._address or "local", str(error))

    def _map_of(self, function: Callable[[Any], Any]) -> WindowedMap:
        """The map over actors that hold ``function``; those of an earlier function stay, and hold this one from now."""
        describe = getattr(function, "describe", shown)
        if self._map is None:
            self._actors = [
                ray.remote(num_cpus=kind.cpus, num_gpus=kind.gpus, max_restarts=-1)(Worker).remote()
                for kind in self._kinds
                for _ in range(kind.count)
            ]
            self._map = WindowedMap(
                self._actors,
                ray.put(InBand(function)),
                self.limits,
                self.notice,
                describe,
                self.metrics(),
                self.notice_wait,
            )
        elif function is not self._function:
            self._map.hold(ray.put(InBand(function)), describe)
        self._function = function
        return self._map

    def _waiting_for(self) -> str:
        """What the workers need and what the cluster has, for people."""
        there, free = _resources()
        has = ", ".join(f"{there.get(name, 0):g} {name} ({free.get(name, 0):g} free)" for name in ("CPU", "GPU"))
        extra = "" if self._extra is None else f"; the run's own actors need {self._extra.needs} in total"
        return f"{'; '.join(map(str, self._kinds))}{extra}; the cluster has {has}"

    def metrics(self) -> MapMetrics:
        """What reports to Ray's metrics for this executor."""
        return MapMetrics(self._watched)

    @property
    def workers(self) -> int:
        """The number of actors."""
        return sum(kind.count for kind in self._kinds)

    def notice_wait(self) -> None:
        """Tell, for people, that no worker runs (yet, or any more), and what they need."""
        self.notice(f"waiting for workers: none of {self.workers} runs; {self._waiting_for()}")

    @property
    def through_client(self) -> bool:
        """Whether the cluster is accessed through Ray Client, so that this process is not a driver in it."""
        return self._address is not None and self._address.startswith("ray://")

    def release(self) -> None:
        """End the actors, which frees their CPUs, until the next map.

        To drop the handles is not enough: what else holds one (the traceback of an error) would hold its CPU too, and
        whatever is started next would wait for it forever.
        """
        for actor in self._actors if ray.is_initialized() else ():
            ray.kill(actor)
        self._actors = []
        self._function = self._map = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()
        if self._private is None:
            ray.shutdown()
        else:
            self._private.close()
            self._private = None


def _resources() -> tuple[dict[str, float], dict[str, float]]:
    """(resources of the cluster, those that are free), by name."""
    of_cluster: dict[str, Callable[[], dict[str, float]]] = vars(ray)
    return of_cluster["cluster_resources"](), of_cluster["available_resources"]()
