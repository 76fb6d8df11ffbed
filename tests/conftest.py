import gc
import os
import sys
from pathlib import Path

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

# Its log monitor looks into the files of all workers ten times a second, those that have ended too, for drivers that
# print them; ours do not.
os.environ.setdefault("LOG_NAME_UPDATE_INTERVAL_S", "86400")


def pytest_xdist_auto_num_workers(config):
    """Two processes more than there are cores (pytest-xdist): many tests wait, for Ray's processes or for a timeout."""
    return (os.cpu_count() or 1) + 2


RAY_FILES = pytest.StashKey[set[Path]]()
RUNNING_RAY = pytest.StashKey[list]()


def pytest_collection_modifyitems(config, items):
    """Files that wait for other processes come first, those that share Ray in a row: it takes a share of a core also
    while nobody uses it, and ends with the last of them. All that come later compute, and leave no core idle.
    """
    with_ray = config.stash[RAY_FILES] = {item.path for item in items if "ray_executor" in item.fixturenames}
    slow = {item.path for item in items if item.get_closest_marker("slow")} - with_ray
    # Backwards: the wafers, which come last by name, compute longest.
    others = dict.fromkeys(item.path for item in reversed(items) if item.path not in with_ray | slow)
    places = {path: number for number, path in enumerate([*sorted(slow), *sorted(with_ray), *others])}
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


@pytest.fixture(scope="module")
def ray_executor(pytestconfig):
    """The one private Ray instance of the test process, with two workers; one of them has a pretended GPU."""
    from actors.ray_executor import RayExecutor, WorkerKind

    running = pytestconfig.stash.setdefault(RUNNING_RAY, [])
    if not running:
        running.append(RayExecutor((WorkerKind(1), WorkerKind(1, gpus=1))).__enter__())
    return running[0]


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """The Ray instance goes on from file to file, and ends where the next one does not need it."""
    running = item.config.stash.get(RUNNING_RAY, [])
    if running and (nextitem is None or nextitem.path not in item.config.stash[RAY_FILES]):
        running.pop().__exit__(None, None, None)


@pytest.fixture
def dse(monkeypatch, capsys):
    """The command line: ``dse("place", "x.json")`` gives exit code, stdout and stderr."""
    from tests.command_line import CommandLine

    return CommandLine(monkeypatch, capsys)
