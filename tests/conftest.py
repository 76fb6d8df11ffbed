import gc
import os
import re
import sys

import pytest
from hypothesis import HealthCheck, settings

# Output is as wide as its rows, whatever terminal the tests run in.
os.environ.pop("COLUMNS", None)

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

# Its agent looks through all processes of the machine every five seconds, for a dashboard that nobody opens.
os.environ.setdefault("REPORTER_UPDATE_INTERVAL_MS", "86400000")

# Its handler of crashes takes more than the three seconds that it gives itself on a busy machine: then a crash leaves
# no stack, neither its own nor that of faulthandler.
os.environ.setdefault("RAY_DISABLE_FAILURE_SIGNAL_HANDLER", "1")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """Two processes more than there are cores (pytest-xdist): many tests wait, for Ray's processes or for a timeout."""
    return (os.cpu_count() or 1) + 2


ON_RAY = "on ray"
"""In the name of every test that asks for :func:`ray_executor`, as its parameter."""

RUNNING_RAY = pytest.StashKey[list]()


def is_on_ray(name):
    """Whether a test of that name shares Ray."""
    return ON_RAY in re.split(r"[\[\]-]", name)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Tests that wait for other processes come first: those that share Ray in a row, then other slow files. All that
    come later compute, and leave no core idle.

    With ``--dist loadgroup``, a process takes whole files, without their tests on Ray: one process takes all of those,
    for each instance of Ray takes a share of a core all the time (pytest-xdist).
    """
    slow = {item.path for item in items if item.get_closest_marker("slow") and not is_on_ray(item.name)}
    # Backwards: the wafers and the conformance of all problems, which come last by name, compute longest.
    backwards = {path: place for place, path in enumerate(dict.fromkeys(item.path for item in reversed(items)))}
    items.sort(key=lambda item: (not is_on_ray(item.name), item.path not in slow, backwards[item.path]))
    for item in items:
        item.add_marker(pytest.mark.xdist_group(ON_RAY if is_on_ray(item.name) else item.location[0]))


def pytest_collection_finish():
    """What tests share (steps that were read, compiled kernels, modules) stays, too: each look at all of it takes a
    fifth of a second, and few tests leave cycles of large objects behind.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """The tests keep out of the user's cache, and start with an empty one.

    Test processes share traces, which take seconds to make and are the same whoever makes them. What else is stored may
    change an answer (a proven optimum is a bound), so no process gets it from another.
    """
    cache, base = tmp_path_factory.mktemp("cache"), tmp_path_factory.getbasetemp()
    traces = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "traces"
    traces.mkdir(exist_ok=True)
    (cache / "traces").symlink_to(traces)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DSE_CACHE_DIR", str(cache))
        yield


@pytest.fixture(scope="module", params=[ON_RAY])
def ray_executor(pytestconfig):
    """The one private Ray instance of the test process, with two workers; one of them has a pretended GPU."""
    from actors.ray_executor import RayExecutor
    from actors.worker_kind import WorkerKind

    running = pytestconfig.stash.setdefault(RUNNING_RAY, [])
    if not running:
        running.append(RayExecutor((WorkerKind(1), WorkerKind(1, gpus=1))).__enter__())
    return running[0]


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """The Ray instance goes on from test to test, and ends behind the last one that shares it."""
    running = item.config.stash.get(RUNNING_RAY, [])
    if running and (nextitem is None or not is_on_ray(nextitem.name)):
        running.pop().__exit__(None, None, None)


@pytest.fixture
def dse(monkeypatch, capsys):
    """The command line: ``dse("place", "x.json")`` gives exit code, stdout and stderr."""
    from tests.command_line import CommandLine

    return CommandLine(monkeypatch, capsys)


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem):
    """Name the test in which a worker died at once: pytest-xdist may wait for ever afterwards."""
    sys.stderr.write(f"\na worker died in {crashitem}\n")
