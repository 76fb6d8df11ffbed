import gc
import os
import sys

import pytest
from hypothesis import HealthCheck, settings

# No test may depend on how fast it is: neither on a deadline nor on how long examples take to draw.
settings.register_profile("dse", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("dse")

# What is imported stays: to look for garbage among it takes a quarter of the time of the collection.
gc.disable()

# The tests start hundreds of processes: each module is compiled by one of them, and not by all.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Ray starts its workers at niceness 15, at which they hardly run beside tests that compute: they take more than the
# minute that they have to register, and are started again and again.
os.environ.setdefault("RAY_worker_niceness", "0")


def pytest_xdist_auto_num_workers(config):
    """Two processes more than there are cores (pytest-xdist): many tests wait, for Ray's processes or for a timeout."""
    return (os.cpu_count() or 1) + 2


COMPUTING_PER_WAITING = 5
"""Files that only compute, for each one that mostly waits for other processes."""


def pytest_collection_modifyitems(items):
    """Files with slow tests or Ray wait much: from the beginning they are spread among the others, so that the cores
    are never idle while several of them run at once, and none is left for the end.
    """
    waiting = {item.path for item in items if item.get_closest_marker("slow") or "ray_executor" in item.fixturenames}
    first = dict.fromkeys(item.path for item in items if item.path in waiting)
    # Backwards: the wafers, which come last by name, compute longest.
    others = dict.fromkeys(item.path for item in reversed(items) if item.path not in waiting)
    places = {path: (number, 0) for number, path in enumerate(first)}
    places |= {path: (number // COMPUTING_PER_WAITING, 1 + number) for number, path in enumerate(others)}
    items.sort(key=lambda item: places[item.path])


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """The tests keep out of the user's cache, and start with an empty one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DSE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def ray_executor():
    """The one private Ray instance of the test session, with two workers; one of them has a pretended GPU."""
    from actors.ray_executor import RayExecutor, WorkerKind

    with RayExecutor((WorkerKind(1), WorkerKind(1, gpus=1))) as executor:
        yield executor


@pytest.fixture
def dse(monkeypatch, capsys):
    """The command line: ``dse("place", "x.json")`` gives exit code, stdout and stderr."""
    from tests.command_line import CommandLine

    return CommandLine(monkeypatch, capsys)
