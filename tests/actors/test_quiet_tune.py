"""What Tune does otherwise as a part of a command."""

import os
import sys
from typing import ClassVar

import pytest
from ray import cloudpickle, tune

from actors.quiet_tune import run_trials

# What workers are given brings its code along: this file is in no package that they have.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Counts(tune.Trainable):
    """Reports twice, whatever it was given, and where its process works."""

    def setup(self, config, offset):
        self.offset = offset
        self.reset_config(config)

    def reset_config(self, new_config):
        self.number, self.reports = new_config["number"], 0
        return True

    def step(self):
        self.reports += 1
        return {"done": self.reports == 2, "sum": self.offset + self.number, "folder": os.getcwd()}


class Heard(tune.Callback):
    """Keeps what trials report, in the driver."""

    reports: ClassVar = []

    def on_trial_result(self, iteration, trials, trial, result, **info):
        self.reports.append(result)


@pytest.mark.ray_interface
def test_trials_share_an_actor_in_the_folder_of_the_command(ray_executor, tmp_path, capfd):
    ray_executor.release()
    Heard.reports.clear()
    before = dict(os.environ)
    errors = run_trials(
        Counts,
        {"offset": 100},
        tmp_path,
        1,
        tune.stopper.NoopStopper(),
        [Heard()],
        space={"number": tune.grid_search([1, 2, 3])},
        max_concurrent_trials=1,
    )
    assert errors == []
    assert [report["sum"] for report in Heard.reports] == [101, 101, 102, 102, 103, 103]
    assert len({report["pid"] for report in Heard.reports}) == 1
    assert not any(report["folder"].startswith(str(tmp_path)) for report in Heard.reports)
    assert capfd.readouterr().out == ""
    assert dict(os.environ) == before


class Fails(Counts):
    """Reports nothing."""

    def step(self):
        raise ValueError(f"no {self.number}")


@pytest.mark.ray_interface
def test_trials_that_are_given_up_are_told_of(ray_executor, tmp_path):
    ray_executor.release()
    (error,) = run_trials(
        Fails, {"offset": 0}, tmp_path, 1, tune.stopper.NoopStopper(), space={"number": tune.grid_search([7])}
    )
    assert "ValueError: no 7" in error
