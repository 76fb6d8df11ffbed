"""The map over actors: order, deaths, poison, limits, room."""

import itertools
import os
import signal
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import ray

from actors import windowed_map
from actors.limits import Limits
from actors.ray_executor import RayExecutor
from actors.worker_kind import WorkerKind
from benchmarks.process_table import processes
from dse.run.executor import Failed, InProcessExecutor, ItemFailedError
from hardware.inputs import InputError
from tests.actors import inside


class Once:
    """Negates; does what ``fault`` says the first time that it sees ``item``."""

    def __init__(self, marker, item, fault):
        self.marker, self.item, self.fault = str(marker), item, fault

    def __call__(self, item):
        if item == self.item and not os.path.exists(self.marker):
            open(self.marker, "w").close()
            self.fault()
        return -item


class Always:
    """Negates; does what ``fault`` says whenever it sees ``item``."""

    def __init__(self, item, fault):
        self.item, self.fault = item, fault

    def __call__(self, item):
        if item == self.item:
            self.fault()
        return -item


def die():
    os._exit(1)


def refuse():
    raise ValueError("refused\nand more")


def begin_and_sleep(folder):
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(3600)


class Clock:
    """A clock that jumps ahead whenever it is read while a process sleeps, so that no other item is ever late."""

    sleep = staticmethod(time.sleep)

    def __init__(self, folder):
        self._folder, self._ahead_s = folder, 0.0

    def monotonic(self):
        if {int(each) for each in os.listdir(self._folder)} & processes().keys():
            self._ahead_s += 1e6
        return time.monotonic() + self._ahead_s


class UnsendableError(Exception):
    def __init__(self, first, second):
        super().__init__(first)


def refuse_unsendably():
    raise UnsendableError("cannot be rebuilt", "from one argument")


@pytest.fixture(scope="module")
def workers(ray_executor):
    """Two workers for all tests of this file that need no others: starting a process takes seconds."""
    ray_executor.release()
    with inside.workers(2) as shared:
        yield shared


@pytest.fixture
def executor(workers):
    """The shared workers with limits of a test's own, and what is said of them."""

    def with_limits(**allowed):
        heard = []
        workers.limits, workers.notice = Limits(**allowed), heard.append
        if workers._map is not None:
            workers._map._limits, workers._map._notice = workers.limits, workers.notice
        return workers, heard

    return with_limits


@pytest.fixture
def room(ray_executor, workers):
    """The session's Ray with nobody in it."""
    workers.release()
    yield
    ray_executor.release()


ITEMS = range(40)


@pytest.mark.parametrize("fault", [refuse, refuse_unsendably])
def test_an_item_on_which_the_function_fails_stops_no_other(executor, fault):
    ours, _ = executor()
    arrived = []
    found = list(ours.outcomes(Always(13, fault), ITEMS, arrived=arrived.extend))
    assert [value for value in found if not isinstance(value, Failed)] == [-item for item in ITEMS if item != 13]
    assert isinstance(found[13], Failed)
    assert found[13].reason in ("ValueError: refused", "UnsendableError: cannot be rebuilt")
    assert sorted(item for item, _ in arrived) == list(ITEMS)
    assert dict(arrived)[13] == found[13]
    assert list(InProcessExecutor().outcomes(Always(13, fault), ITEMS)) == found


def test_an_item_that_kills_its_worker_is_found_and_given_up(executor):
    ours, heard = executor(deaths=2)
    found = list(ours.outcomes(Always(13, die), ITEMS))
    assert found[13] == Failed("2 worker processes died on it")
    assert [value for value in found if not isinstance(value, Failed)] == [-item for item in ITEMS if item != 13]
    assert any("13" in text for text in heard)


def test_where_every_item_is_needed_a_failed_one_is_an_error(executor):
    ours, _ = executor(deaths=1)
    with pytest.raises(ItemFailedError, match="1 worker processes died"):
        list(ours.map(Always(3, die), ITEMS))


def test_items_that_only_waited_are_not_charged(executor, monkeypatch):
    monkeypatch.setattr(windowed_map, "MAX_ITEMS", 1)
    ours, _ = executor(deaths=1)
    # Whatever waits behind the poison would fail too if it were charged with the same death.
    found = list(ours.outcomes(Always(0, die), range(6)))
    assert [isinstance(value, Failed) for value in found] == [True] + 5 * [False]


def test_an_item_that_has_cost_a_worker_has_the_next_to_itself(executor, monkeypatch, tmp_path):
    # A process that dies could take the answer of the call before along, whose item then would be charged again.
    sent, send = [], windowed_map.WindowedMap._send

    def watched(self, seat, remaining):
        given = send(self, seat, remaining)
        sent.append([[(entry.item, entry.deaths) for entry in entries] for entries in seat.calls.values()])
        return given

    monkeypatch.setattr(windowed_map.WindowedMap, "_send", watched)
    monkeypatch.setattr(windowed_map, "MAX_ITEMS", 1)
    ours, _ = executor(deaths=2)
    found = list(ours.outcomes(Once(tmp_path / "died", 13, die), ITEMS))
    assert found == [-item for item in ITEMS]
    again = [calls for calls in sent if any(deaths for entries in calls for _, deaths in entries)]
    # The one before 13 where its answer was taken along.
    assert len(again) == 1
    assert len(again[0]) == len(again[0][0]) == 1


@pytest.mark.ray_interface
@pytest.mark.usefixtures("room")
def test_an_item_that_takes_too_long_is_given_up(monkeypatch, tmp_path):
    monkeypatch.setattr(windowed_map, "time", Clock(tmp_path))
    heard, slow = [], partial(begin_and_sleep, str(tmp_path))
    with inside.workers(1, limits=Limits(timeout_s=8e5, compiles_s=0.0), notice=heard.append) as alone:
        found = list(alone.outcomes(Always(13, slow), ITEMS))
    assert found[13] == Failed("took longer than 800000 s")
    assert [value for value in found if not isinstance(value, Failed)] == [-item for item in ITEMS if item != 13]
    assert heard


class Pid:
    def __call__(self, item):
        time.sleep(0.05)
        return os.getpid()


@pytest.mark.ray_interface
def test_workers_killed_from_outside_lose_nothing(executor):
    ours, _ = executor()
    killed, sent, pids = set(), [], []

    def items():
        """As many as it takes until three workers are killed."""
        while len(killed) < 3:
            sent.append(len(sent))
            yield sent[-1]

    for pid in ours.outcomes(Pid(), items()):
        pids.append(pid)
        if pid not in killed and len(killed) < 3 and len(pids) >= 10 * (len(killed) + 1):
            killed.add(pid)
            os.kill(pid, signal.SIGKILL)
    assert len(pids) == len(sent)
    assert not any(isinstance(pid, Failed) for pid in pids)
    assert len(killed) == 3


def test_short_items_travel_together_and_arrive_once(executor):
    ours, _ = executor()
    calls = []
    found = list(ours.outcomes(Always(-1, die), range(5000), arrived=lambda done: calls.append(len(done))))
    assert found == [-item for item in range(5000)]
    assert sum(calls) == 5000
    assert max(calls) > 1


def test_items_are_taken_as_they_are_sent(executor):
    ours, _ = executor()
    taken = []
    endless = (taken.append(item) or item for item in itertools.count())
    found = ours.map(Always(-1, die), endless)
    assert list(itertools.islice(found, 30)) == [-item for item in range(30)]
    assert taken == list(range(len(taken)))


class Writable:
    """Whether the arrays that it holds and is given can be written to; and an array."""

    def __init__(self):
        self.held, self.fixed = np.zeros(100_000), np.zeros(3)
        self.fixed.flags.writeable = False

    def __call__(self, item):
        return self.held.flags.writeable, self.fixed.flags.writeable, item.flags.writeable, np.copy(item)


@pytest.mark.ray_interface
def test_arrays_are_no_less_writable_on_the_other_side(executor):
    ours, _ = executor()
    for held, fixed, given, answer in ours.map(Writable(), [np.zeros(3), np.zeros(100_000)]):
        assert (held, fixed, given, answer.flags.writeable) == (True, False, True, True)


def test_an_abandoned_map_leaves_nothing_to_the_next(executor):
    ours, _ = executor()
    function = Always(-1, die)
    first = ours.map(function, range(100))
    assert next(first) == 0
    first.close()
    arrived = []
    assert list(ours.map(function, range(200, 230), arrived=arrived.extend)) == [-item for item in range(200, 230)]
    assert sorted(item for item, _ in arrived) == list(range(200, 230))


@pytest.mark.usefixtures("room")
def test_more_workers_than_the_cluster_has_room_for():
    with inside.workers(5) as crowd:
        assert list(crowd.map(Always(-1, die), range(50))) == [-item for item in range(50)]


@pytest.mark.ray_interface
@pytest.mark.usefixtures("room")
def test_a_wait_for_room_is_explained_and_can_be_stopped(monkeypatch):
    monkeypatch.setattr(windowed_map, "PATIENCE_S", 0.5)
    heard = []
    begun = time.monotonic()

    def stop():
        return "time limit" if heard and time.monotonic() - begun > 1 else None

    greedy = inside.workers((WorkerKind(1, cpus=1, gpus=3),), notice=heard.append)
    with greedy as executor, pytest.raises(Exception, match="time limit"):
        list(executor.map(Always(-1, die), range(3), stop))
    assert "none of 1 runs" in heard[0]
    assert "1 need 1 CPU and 3 GPU each; the cluster has 2 CPU" in heard[0]


class SlowToReturn(Once):
    """As :class:`Once`; a worker that is started anew is not ready before the file ``freed`` is there."""

    def __init__(self, marker, item, fault, freed):
        super().__init__(marker, item, fault)
        self.freed = str(freed)

    def __setstate__(self, state):
        vars(self).update(state)
        while os.path.exists(self.marker) and not os.path.exists(self.freed):
            time.sleep(0.02)


@pytest.mark.usefixtures("room")
def test_a_worker_that_runs_and_prepares_is_not_said_to_be_missing(monkeypatch, tmp_path):
    """After the death of the only worker, while the next one reads the function."""
    monkeypatch.setattr(windowed_map, "PATIENCE_S", 0.5)
    heard, freed = [], tmp_path / "freed"

    def stop():
        if any("1 of 1 workers are up and loading their input" in text for text in heard):
            freed.touch()

    slow = SlowToReturn(tmp_path / "died", 3, die, freed)
    with inside.workers(1, notice=heard.append) as alone:
        assert list(alone.map(slow, range(10), stop)) == [-item for item in range(10)]
    assert freed.exists()
    assert any("a worker died on" in text for text in heard)


class Unreadable:
    """Cannot be rebuilt in a worker."""

    def __reduce__(self):
        return (_refuse_to_exist, (os.getpid(),))

    def __call__(self, item):
        return item


def _refuse_to_exist(pid):
    if os.getpid() != pid:
        raise ModuleNotFoundError("No module named 'elsewhere'")
    return Unreadable()


@pytest.mark.ray_interface
@pytest.mark.usefixtures("room")
def test_a_function_that_cannot_be_read_is_an_error():
    with (
        inside.workers(1) as alone,
        pytest.raises(InputError, match=r"a worker cannot start: .*No module named 'elsewhere'"),
    ):
        list(alone.map(Unreadable(), range(3)))


@pytest.mark.usefixtures("room")
def test_a_worker_of_another_version_is_refused(monkeypatch):
    monkeypatch.setattr("dse.__version__", "0.0.0-other")
    with inside.workers(1) as alone, pytest.raises(InputError, match="but this is 0"):
        list(alone.map(Always(-1, die), range(3)))


class Broken:
    """A worker that cannot be made."""

    def __init__(self):
        raise ModuleNotFoundError("No module named 'dse'")

    def up(self):
        """Never reached."""

    def ready(self, reference):
        """Never reached."""


@pytest.mark.ray_interface
@pytest.mark.usefixtures("room")
def test_workers_that_cannot_start_are_an_error_and_no_wait(monkeypatch):
    monkeypatch.setattr("actors.ray_executor.Worker", Broken)
    with inside.workers(1) as alone, pytest.raises(InputError, match="a worker cannot start"):
        list(alone.map(Always(-1, die), range(3)))


class Devices:
    """Counts the GPUs of its worker, once workers of both kinds are at work."""

    def __init__(self, folder):
        self.folder = str(folder)

    def __call__(self, item):
        gpus = sum(map(len, ray.get_runtime_context().get_accelerator_ids().values()))
        open(os.path.join(self.folder, str(gpus)), "w").close()
        while len(os.listdir(self.folder)) < 2:
            time.sleep(0.02)
        return gpus


@pytest.mark.ray_interface
@pytest.mark.usefixtures("room")
def test_workers_of_two_kinds_share_the_work(ray_executor, tmp_path):
    assert set(ray_executor.map(Devices(tmp_path), range(8))) == {0, 1}


def test_as_many_workers_as_the_cluster_has_cpus(ray_executor, monkeypatch):
    monkeypatch.setattr("actors.ray_executor.join", lambda address: None)
    assert RayExecutor(None, "auto").__enter__().workers == 2
