import os
import socket
import subprocess
import sys
import threading
import time
from concurrent import futures
from pathlib import Path
from types import SimpleNamespace

import grpc
import pytest
import ray

from actors import joining, private_ray
from actors import ray_executor as executors
from actors.ray_executor import RayExecutor
from actors.worker_kind import WorkerKind
from dse.run.executor import InProcessExecutor
from dse.run.owned_folder import OWNER_FILE
from hardware.inputs import InputError
from tests.actors import inside


class Square:
    """Squares; refuses 13."""

    def __call__(self, item):
        if item == 13:
            raise ValueError("13 is refused")
        return item * item


class DieOnce:
    """Kills its worker process the first time it sees item 3."""

    def __init__(self, marker):
        self.marker = marker

    def __call__(self, item):
        if item == 3 and not os.path.exists(self.marker):
            open(self.marker, "w").close()
            os._exit(1)
        return -item


@pytest.mark.ray_interface
@pytest.mark.parametrize("count", [0, 1, 2, 37])
def test_results_come_in_order(ray_executor, count):
    function = Square()
    items = range(20, 20 + count)
    assert list(ray_executor.map(function, items)) == list(InProcessExecutor().map(function, items))


def test_a_private_instance_that_does_not_start_leaves_nothing_behind(monkeypatch):
    made = []

    def init(**_settings):
        made.append(Path(os.environ["RAY_TMPDIR"]))
        assert made[0].is_dir()
        raise RuntimeError("no room")

    before = dict(os.environ)
    monkeypatch.setattr(
        private_ray, "ray", SimpleNamespace(__version__="2.60.0", init=init, shutdown=lambda: made.append("shut down"))
    )
    with pytest.raises(RuntimeError, match="no room"), RayExecutor(1):
        pytest.fail("the context was entered")
    folder, *after = made
    assert not folder.exists()
    assert after == ["shut down"]
    assert dict(os.environ) == before


@pytest.mark.ray_interface
def test_an_exception_of_the_function_reaches_the_caller(ray_executor):
    with pytest.raises(ValueError, match="13 is refused"):
        list(ray_executor.map(Square(), range(20)))


class Adds:
    """Adds a number, and says in which process."""

    def __init__(self, number):
        self._number = number

    def __call__(self, item):
        return item + self._number, os.getpid()


def test_workers_stay_where_the_function_changes(ray_executor):
    processes = set()
    for number in (1, 10, 100):
        found = list(ray_executor.map(Adds(number), range(20)))
        assert [value for value, _ in found] == [item + number for item in range(20)]
        processes |= {process for _, process in found}
    assert len(processes) <= ray_executor.workers


def test_a_map_that_was_left_does_not_reach_the_next(ray_executor):
    first = ray_executor.map(Adds(1), range(50))
    assert next(iter(first))[0] == 1
    first.close()
    assert [value for value, _ in ray_executor.map(Adds(5), range(9))] == list(range(5, 14))


@pytest.mark.ray_interface
def test_released_workers_free_their_cpus_whoever_holds_them(ray_executor):
    list(ray_executor.map(Adds(1), range(9)))
    held = list(ray_executor._actors)  # as the traceback of an error does
    ray_executor.release()
    with inside.workers(ray_executor.workers) as following:
        assert [value for value, _ in following.map(Adds(5), range(9))] == list(range(5, 14))
    assert held


@pytest.mark.ray_interface
def test_a_killed_worker_loses_nothing(ray_executor, tmp_path):
    function = DieOnce(str(tmp_path / "died"))
    assert list(ray_executor.map(function, range(10))) == [-item for item in range(10)]
    assert (tmp_path / "died").exists()


@pytest.fixture
def ray_that(monkeypatch):
    """``ray_that(error)``: Ray cannot join a cluster, for that reason; without one it must not be asked."""

    def fails(error=None):
        def init(**_):
            raise error or AssertionError("Ray was asked to connect")

        monkeypatch.setattr(joining, "ray", SimpleNamespace(init=init))

    return fails


def test_a_cluster_of_another_version_is_named_as_such(ray_that):
    ray_that(RuntimeError("Version mismatch: The cluster was started with Ray: 2.9.0"))
    rule = "the cluster must run the same versions of Ray and Python"
    with pytest.raises(
        InputError,
        match=rf"--address: auto: {rule}: Version mismatch: .* Ray: 2.9.0",
    ):
        RayExecutor(1, "auto").__enter__()


def test_a_cluster_that_ray_gets_no_connection_to_may_want_a_token(ray_that):
    ray_that(ConnectionError("no connection"))
    with pytest.raises(
        InputError, match=r"--address: auto: no Ray cluster answers there, or it requires a token \(set"
    ):
        RayExecutor(1, "auto").__enter__()


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"], ids=["nothing", "another protocol"])
def test_what_listens_and_is_no_ray_is_refused(monkeypatch, ray_that, answer):
    monkeypatch.setattr(joining, "_TIMEOUT_S", 0.5)
    ray_that()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(5)

        def serve():
            connection, _ = listener.accept()
            if answer:
                connection.sendall(answer)
            connection.recv(1024)
            time.sleep(1)

        threading.Thread(target=serve, daemon=True).start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(InputError, match=f"--address: {address}: no Ray cluster answers there"):
            RayExecutor(1, address).__enter__()


def test_a_port_at_which_nothing_listens_is_refused(ray_that):
    ray_that()
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(InputError, match=f"--address: {address}: no Ray cluster answers there"):
            RayExecutor(1, address).__enter__()


class Refusing(grpc.GenericRpcHandler):
    """A server that answers every question with a status, and knows what it was asked."""

    def __init__(self, status):
        self.status, self.asked = status, []

    def service(self, call):
        self.asked.append(call.method)
        return grpc.unary_unary_rpc_method_handler(
            lambda _request, context: context.abort(self.status, "no such token")
        )


@pytest.fixture
def refusing():
    """``refusing(status)``: (a port where a gRPC server refuses so, what it was asked)."""
    servers = []

    def start(status):
        handler = Refusing(status)
        server = grpc.server(futures.ThreadPoolExecutor(1), handlers=(handler,))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        servers.append(server)
        return port, handler.asked

    yield start
    for server in servers:
        server.stop(None)


@pytest.mark.parametrize(("scheme", "service"), [("", "NodeInfoGcsService"), ("ray://", "RayletDriver")])
def test_a_cluster_that_wants_another_token_is_named_as_such(refusing, ray_that, scheme, service):
    ray_that()
    port, asked = refusing(grpc.StatusCode.UNAUTHENTICATED)
    address = f"{scheme}127.0.0.1:{port}"
    with pytest.raises(InputError, match=rf"{address}: refuses this process \(no such token\): set RAY_AUTH_MODE"):
        RayExecutor(1, address).__enter__()
    assert [method.split("/")[1] for method in asked] == [f"ray.rpc.{service}"]


def test_any_other_answer_is_left_to_ray(refusing, ray_that):
    ray_that(RuntimeError("as before"))
    port, _ = refusing(grpc.StatusCode.UNIMPLEMENTED)
    with pytest.raises(InputError, match="no Ray cluster answers there: as before"):
        RayExecutor(1, f"127.0.0.1:{port}").__enter__()


@pytest.mark.parametrize(
    ("settings", "token"),
    [
        ({}, "of the home"),
        ({"RAY_AUTH_TOKEN_PATH": "file"}, "of the file"),
        ({"RAY_AUTH_TOKEN_PATH": "file", "RAY_AUTH_TOKEN": "itself"}, "itself"),
        ({"RAY_AUTH_TOKEN_PATH": "missing"}, None),
        ({"RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN": "itself"}, None),
    ],
)
def test_the_token_is_the_one_that_ray_takes(tmp_path, monkeypatch, settings, token):
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ({"HOME": str(tmp_path)} | settings).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("of the home\n")
    (tmp_path / "file").write_text("of the file")
    assert joining._token() == token


@pytest.mark.ray_interface
def test_a_private_ray_leaves_the_environment_as_it_was():
    """A process that joins a cluster later takes the token's mode from its user."""
    code = """
import os
from dse.cli.executors import executor_of
def ours():
    return sorted({"RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"} & os.environ.keys())
with executor_of(1, None, 99.0) as executor:
    print(*executor.map(abs, [-1]), ours())
print(ours())
"""
    own = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    root = Path(__file__).parents[2]
    found = subprocess.run([sys.executable, "-c", code], cwd=root, env=own, capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == ["1 []", "[]"]


@pytest.mark.parametrize(
    ("version", "mode", "asks"),
    [
        ("2.50.1", "token", False),
        ("2.55.0", None, False),
        ("2.55.0", "token", True),
        ("2.60.0", None, True),
        ("2.60.0", "disabled", False),
    ],
)
def test_a_private_ray_without_a_token_is_warned_of(monkeypatch, version, mode, asks):
    monkeypatch.setattr(private_ray, "expect_private_ray", dict)
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    if mode:
        monkeypatch.setenv("RAY_AUTH_MODE", mode)
    started = SimpleNamespace(__version__=version, init=lambda **_: None, shutdown=lambda: None)
    monkeypatch.setattr(private_ray, "ray", started)
    heard = []
    private_ray.PrivateRay((), heard.append).close()
    warning = (
        f"Ray {version} starts without a token here, so other users of this machine can run code in it under your name"
    )
    assert heard == ([] if asks else [f"{warning}; ray>=2.59 requires a token"])


@pytest.mark.usefixtures("ray_executor")
@pytest.mark.parametrize("mode", ["token", "disabled"])
def test_a_real_cluster_refuses_another_token_or_none(mode):
    assert os.environ.get("RAY_AUTH_MODE", "token") == "token", "the tests' own Ray asks for a token"
    join = "import sys; from actors.ray_executor import RayExecutor; RayExecutor(1, sys.argv[1]).__enter__()"
    other = {"RAY_AUTH_MODE": mode, "RAY_AUTH_TOKEN": "f" * 64}
    refused = subprocess.run(
        [sys.executable, "-c", join, ray.get_runtime_context().gcs_address],
        cwd=Path(__file__).parents[2],
        env=os.environ | other,
        capture_output=True,
        text=True,
    )
    assert "refuses this process (InvalidAuthToken" in refused.stderr.splitlines()[-1]
    # Ray itself asks again and again, and says so.
    assert "Failed to get cluster ID" not in refused.stderr


def test_the_folder_of_a_private_ray_is_known_as_ours(ray_executor):
    folder = ray_executor._private.folder.path
    assert (folder / OWNER_FILE).read_text() == f"{os.getpid()}\n"
    assert list(folder.glob("ray/session_*/sockets"))


@pytest.fixture
def cluster(monkeypatch):
    """Sets what a cluster has that is joined without Ray."""
    monkeypatch.setattr(executors, "join", lambda _: None)
    monkeypatch.setattr(executors, "ray", SimpleNamespace(shutdown=lambda: None, is_initialized=lambda: False))

    def of(**resources):
        monkeypatch.setattr(executors, "_resources", lambda: (resources, resources))

    return of


@pytest.mark.parametrize(
    ("extra", "workers"), [(None, 16), (WorkerKind(1, 8, 2), 8), (WorkerKind(1, 15), 1), (WorkerKind(1, 0, 4), 16)]
)
def test_all_workers_of_a_cluster_leave_room_for_the_actors_of_the_work(cluster, extra, workers):
    cluster(CPU=16.0, GPU=4.0)
    with RayExecutor(None, "auto", extra=extra) as executor:
        assert executor.workers == workers


@pytest.mark.parametrize(("extra", "needs"), [(WorkerKind(1, 16), "17 CPU"), (WorkerKind(1, 8, 5), "9 CPU and 5 GPU")])
def test_a_cluster_that_cannot_hold_the_actors_of_the_work_is_refused(cluster, extra, needs):
    cluster(CPU=16.0, GPU=4.0)
    rule = f"the cluster must have {needs} for one worker and the run's own actors, but has 16 CPU and 4 GPU"
    with pytest.raises(InputError, match=rule):
        RayExecutor(None, "auto", extra=extra).__enter__()
