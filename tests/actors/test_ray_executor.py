import os
import socket
import threading
import time

import pytest
import ray

from actors.ray_executor import RayExecutor, _greet
from dse.executor import InProcessExecutor
from hardware.inputs import InputError


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


@pytest.mark.parametrize("count", [0, 1, 2, 37])
def test_results_come_in_order(ray_executor, count):
    function = Square()
    items = range(20, 20 + count)
    assert list(ray_executor.map(function, items)) == list(InProcessExecutor().map(function, items))


def test_an_exception_of_the_function_reaches_the_caller(ray_executor):
    with pytest.raises(ValueError, match="13 is refused"):
        list(ray_executor.map(Square(), range(20)))


def test_a_killed_worker_loses_nothing(ray_executor, tmp_path):
    function = DieOnce(str(tmp_path / "died"))
    assert list(ray_executor.map(function, range(10))) == [-item for item in range(10)]
    assert (tmp_path / "died").exists()


def test_a_cluster_of_another_version_is_named_as_such(monkeypatch):
    def refuse(**_):
        raise RuntimeError("Version mismatch: The cluster was started with Ray: 2.9.0")

    monkeypatch.setattr("ray.init", refuse)
    with pytest.raises(InputError, match=r"--address: auto: it must run this version: Version mismatch: .* Ray: 2.9.0"):
        RayExecutor(1, "auto").__enter__()


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"], ids=["nothing", "another protocol"])
def test_what_listens_and_is_no_ray_is_refused(monkeypatch, answer):
    monkeypatch.setattr("actors.ray_executor._CONNECT_TIMEOUT_S", 0.5)
    monkeypatch.setattr("ray.init", lambda **_: pytest.fail("Ray was asked to connect"))
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


def test_a_real_cluster_is_greeted(ray_executor):
    host, port = ray.get_runtime_context().gcs_address.rsplit(":", 1)
    _greet(host, int(port))
