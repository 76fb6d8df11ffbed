"""The Ray executor: maps over actors on this machine or on a cluster, which survive the death of any worker.

Each actor is a thin shell around the mapped function, built once a worker, so whatever the function caches (priced
operators, built graphs) is kept between its items. How calls are sized, repeated and given up is in
:mod:`actors.windowed_map`.
"""

import logging
import os
import socket
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import ray
from ray._private import grpc_utils, services
from ray._private.node import Node
from ray.exceptions import AuthenticationError

from actors.in_band import InBand
from actors.limits import Limits
from actors.metrics import MapMetrics, Watched
from actors.windowed_map import WindowedMap, WorkersBrokenError
from actors.worker import Worker
from dse.run.executor import Arrived, Executor, Failed, ignore
from dse.run.owned_folder import OwnedFolder
from dse.run.progress import StoppedError, StopSignal, never_stop
from hardware.inputs import InputError, fail, shown

Item = TypeVar("Item")
Value = TypeVar("Value")

_CONNECT_TIMEOUT_S = 5.0

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_SETTINGS, _FRAME_TYPE = 4, 3
_EMPTY_SETTINGS = bytes([0, 0, 0, _SETTINGS, 0, 0, 0, 0, 0])
"""What a client sends first in HTTP/2, and the frame that both sides then send: its fourth byte is its type."""

_CHECK_ALIVE, _CLUSTER_INFO = "/ray.rpc.NodeInfoGcsService/CheckAlive", "/ray.rpc.RayletDriver/ClusterInfo"
"""Questions without consequences that need the token: to a head node, and to its server for Ray Client."""

_NEEDS_TOKEN = (
    "set RAY_AUTH_MODE=token, and the cluster's token by RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token"
)

_OBJECT_STORE_BYTES = 150 * 1024**2
"""Results are small; the default store would claim 30 % of the machine's memory."""

_SPARED = ("start_api_server", "start_log_monitor", "start_monitor")
"""Methods with which Ray starts processes that a private instance does not need: the dashboard's server (which starts
even without a dashboard, and which ``ray.init`` waits for), the reader of logs and the autoscaler."""


@dataclass(frozen=True)
class WorkerKind:
    """Workers that need the same: how many, and the CPUs and GPUs of each."""

    count: int
    cpus: float = 1.0
    gpus: float = 0.0

    @property
    def needs(self) -> str:
        """What one of them needs, for people."""
        return " and ".join(f"{amount:g} {name}" for amount, name in ((self.cpus, "CPU"), (self.gpus, "GPU")) if amount)

    def __str__(self) -> str:
        return f"{self.count} need {self.needs} each"


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
        extra: what actors need in all that the work itself starts, beside the workers.

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
        self._session: OwnedFolder | None = None
        self._function: Callable[[Any], Any] | None = None
        self._actors: list[Any] = []
        self._map: WindowedMap | None = None

    def __enter__(self) -> Self:
        if self._address is not None:
            _connect(self._address)
            if self._all:
                self._kinds = (WorkerKind(self._all_workers(self._address)),)
            return self
        # Unix socket paths are limited to about 100 characters, so the private session lives in a short folder.
        self._session = OwnedFolder("dse-", Path("/tmp") if Path("/tmp").is_dir() else Path(tempfile.gettempdir()))
        try:
            self._start(self._session)
        except BaseException:
            # Without a context to leave, nobody else would end what has started or remove the folder.
            self.__exit__(None, None, None)
            raise
        return self

    def _start(self, session: OwnedFolder) -> None:
        """Start a private Ray, whose files lie in ``session``."""
        kinds = self._kinds if self._extra is None else (*self._kinds, self._extra)
        with _spared():
            ray.init(
                address="local",
                num_cpus=int(sum(kind.count * kind.cpus for kind in kinds)),
                num_gpus=int(sum(kind.count * kind.gpus for kind in kinds)),
                object_store_memory=_OBJECT_STORE_BYTES,
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
                _temp_dir=str(session.path),
            )

    def _all_workers(self, address: str) -> int:
        """One for every CPU of the cluster that the actors of the work itself leave.

        Raises:
            InputError: the cluster cannot hold these beside one worker, so that the work would wait for ever.
        """
        there, extra = _resources()[0], self._extra or WorkerKind(0, 0.0)
        workers = int(there.get("CPU", 0) - extra.cpus)
        if self._extra is not None and (workers < 1 or there.get("GPU", 0) < extra.gpus):
            ray.shutdown()
            needs = replace(extra, cpus=extra.cpus + 1).needs
            has = " and ".join(f"{there.get(name, 0):g} {name}" for name in ("CPU", "GPU"))
            rule = f"the cluster must have {needs} for a worker and its own actors, but has {has}"
            raise fail("dse", "--address", address, rule)
        return max(1, workers)

    def outcomes(
        self,
        function: Callable[[Item], Value],
        items: Iterable[Item],
        stop: StopSignal = never_stop,
        arrived: Arrived = ignore,
    ) -> Iterator[Value | Failed]:
        """``function`` of every item, or why there is none, in order; a stop ends the actors, whatever they do."""
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
        extra = "" if self._extra is None else f"; their own actors {self._extra.needs} in all"
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
        """Whether the cluster is accessed through Ray Client, so that this process is no driver in it."""
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
        ray.shutdown()
        if self._session is not None:
            self._session.close()
            self._session = None


@contextmanager
def _spared() -> Iterator[None]:
    """For the time of the context: Ray starts without the processes of :data:`_SPARED`; it has no option for that."""
    starts = {name: getattr(Node, name) for name in _SPARED}
    for name in _SPARED:
        setattr(Node, name, lambda _node, **_options: None)
    try:
        yield
    finally:
        for name, start in starts.items():
            setattr(Node, name, start)


def _resources() -> tuple[dict[str, float], dict[str, float]]:
    """(resources of the cluster, those that are free), by name."""
    of_cluster: dict[str, Callable[[], dict[str, float]]] = vars(ray)
    return of_cluster["cluster_resources"](), of_cluster["available_resources"]()


def _connect(address: str) -> None:
    """Join the cluster at ``address``.

    Raises:
        InputError: nothing answers there, or a cluster that wants another token, or one of another version of Ray or
            Python.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        if host and port.isdigit():
            _greet(host, int(port))
            _show_token(f"{host}:{port}", _CLUSTER_INFO if address.startswith("ray://") else _CHECK_ALIVE)
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except ConnectionError:
            if address == "auto" and (head := services.canonicalize_bootstrap_address(address)):
                # Only now: Ray has decided in between whether this process uses a token there.
                _show_token(head, _CHECK_ALIVE)
            raise
    except AuthenticationError as error:
        raise fail(
            "dse", "--address", address, f"refuses this process ({shown(error.message)}): {_NEEDS_TOKEN}"
        ) from error
    except (OSError, OverflowError, ValueError, RuntimeError) as error:
        reason = "it must run this version" if "ersion mismatch" in str(error) else "no Ray cluster answers there"
        raise fail("dse", "--address", address, f"{reason}: {shown(str(error))}") from error


def _show_token(target: str, question: str) -> None:
    """Ask ``question`` of the gRPC server at ``target`` with this process's token, if it has one.

    Ray itself asks for 20 to 30 s, and then says no more than that it got no connection. Whatever else comes of this
    is left to Ray.

    Raises:
        AuthenticationError: the server does not accept the token, or the lack of one.
    """
    channel = grpc_utils.init_grpc_channel(target)
    try:
        answer = channel.unary_unary(question).future(b"", timeout=_CONNECT_TIMEOUT_S)
        if answer.code().name == "UNAUTHENTICATED":
            raise AuthenticationError(answer.details())
    finally:
        channel.close()


def _greet(host: str, port: int) -> None:
    """Exchange the first frames of HTTP/2, which gRPC and so Ray speaks (RFC 9113, 3.4).

    Ray itself tries for a minute and more where nothing listens, and for ever where something does that never answers.

    Raises:
        OSError: nothing listens there, or what does is no gRPC server.
    """
    with socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT_S) as connection:
        if os.environ.get("RAY_USE_TLS", "0") != "0":
            return
        connection.sendall(_PREFACE + _EMPTY_SETTINGS)
        frame = connection.recv(len(_EMPTY_SETTINGS))
        if len(frame) <= _FRAME_TYPE or frame[_FRAME_TYPE] != _SETTINGS:
            raise OSError("what listens there does not speak gRPC")
