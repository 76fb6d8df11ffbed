import os

import pytest

from actors.ray_executor import RayExecutor
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
