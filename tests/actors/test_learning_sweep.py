"""The sweep over how a network learns, through Tune: the table of one process, whatever happens to its workers.

The network is as small as can be: its workers import no RLlib.
"""

import os
import signal

import pytest

from actors import learning_sweep
from dse.run.progress import StoppedError, never_stop, silent
from hardware.inputs import InputError
from policies.learning.pretraining import PretrainingPlan
from policies.learning.sweep import SweepPlan, SweepRun, sweep
from tests.actors import inside
from tests.policies.linear import LineSettings, LineTask
from tests.policies.test_pretraining import Once
from tests.policies.test_sweep import found

BUDGET = PretrainingPlan(LineTask(LineSettings()), samples=24, checkpoints=3)
ASKED = SweepPlan.over(BUDGET, {"batch": (4, 8)}, seeds=1)
TOTAL = BUDGET.checkpoints * len(ASKED.trials)


@pytest.fixture(scope="module")
def undisturbed_run(tmp_path_factory):
    run = SweepRun(tmp_path_factory.mktemp("sweep"), ASKED)
    sweep(run, silent, never_stop)
    return run


@pytest.fixture(scope="module")
def undisturbed(undisturbed_run):
    return found(undisturbed_run)


class StopsAfter:
    """A stop signal that gives its reason once so many checkpoints were told of."""

    def __init__(self, checkpoints):
        self.left = checkpoints

    def progress(self, *_):
        self.left -= 1

    def __call__(self):
        return "time limit" if self.left <= 0 else None


@pytest.fixture
def alone(ray_executor):
    """One worker: to start another one takes seconds."""
    ray_executor.release()
    with inside.workers(1) as executor:
        yield executor


@pytest.mark.ray_interface
def test_a_sweep_that_was_stopped_twice_has_the_table_of_one_process(tmp_path, undisturbed, alone, capfd):
    run, stops, told = SweepRun(tmp_path, ASKED), StopsAfter(2), []
    with pytest.raises(StoppedError, match="interrupted"):
        # In this process, between the first checkpoint and its score.
        sweep(run, silent, Once(run.folder / "trials" / ASKED.trials[0].name / "training.npz"))
    with run.opened(ASKED.trials[0]) as own:
        assert own.unscored() == [1]
    with pytest.raises(StoppedError, match="time limit"):
        learning_sweep.sweep(run, alone, stops.progress, stops)
    kept = {trial: scores for trial, scores in found(run).items() if scores}
    scored = sum(map(len, kept.values()))
    assert 2 <= scored < TOTAL
    for trial, scores in kept.items():
        assert scores == undisturbed[trial][: len(scores)]
    learning_sweep.sweep(run, alone, lambda *done: told.append(done[1:]), never_stop)
    assert found(run) == undisturbed
    assert told == [(done, TOTAL) for done in range(scored + 1, TOTAL + 1)]
    assert capfd.readouterr().out == ""
    learning_sweep.sweep(run, alone, lambda *_: pytest.fail("a trial was made again"), never_stop)


def test_what_goes_wrong_in_the_driver_ends_the_sweep_and_is_raised(tmp_path, undisturbed_run):
    def full(*_):
        raise OSError("no space left on the disk")

    (trial, *_) = ASKED.trials
    with undisturbed_run.opened(trial) as own:
        result = {"trial": 0, "made": own.checkpoint(1), "score": own.scores()[0]}
    driver = learning_sweep._Driver(SweepRun(tmp_path, ASKED), list(ASKED.trials), full, never_stop)
    watch = learning_sweep._Watch(driver, None)
    assert not watch.stop_all()
    driver.take(result)
    # As a stop signal ends it.
    assert watch.stop_all()
    with pytest.raises(OSError, match="no space left"):
        driver.finish([])


@pytest.mark.slow
def test_a_worker_that_dies_costs_nothing_but_time(tmp_path, undisturbed, alone, monkeypatch):
    take, killed = learning_sweep._Driver.take, []

    def taking(driver, result):
        take(driver, result)
        if "made" in result and not killed:
            killed.append(result["pid"])
            os.kill(result["pid"], signal.SIGKILL)

    monkeypatch.setattr(learning_sweep._Driver, "take", taking)
    run = SweepRun(tmp_path, ASKED)
    learning_sweep.sweep(run, alone, silent, never_stop)
    assert killed
    assert found(run) == undisturbed


def test_trials_that_are_given_up_are_told(tmp_path):
    driver = learning_sweep._Driver(SweepRun(tmp_path, ASKED), list(ASKED.trials), silent, never_stop)
    with pytest.raises(InputError, match="2 trials failed; the first: ValueError: no such graph"):
        driver.finish(["Traceback\n  a line\nValueError: no such graph\n", "ValueError: another"])
    driver.finish([])


def test_ray_client_is_refused(tmp_path):
    class Client:
        through_client = True

    with pytest.raises(InputError, match="needs a driver in the cluster"):
        learning_sweep.sweep(SweepRun(tmp_path, ASKED), Client(), silent, never_stop)
