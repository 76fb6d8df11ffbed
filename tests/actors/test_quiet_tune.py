"""What Tune does otherwise as a part of a command."""

import sys

import pytest
from ray import cloudpickle, tune
from ray.tune.execution import tune_controller
from ray.tune.execution.class_cache import _ActorClassCache
from ray.tune.trainable import Trainable

from actors.plain_trial import PlainTrial
from actors.quiet_tune import AnyTrial, quiet_tune

# What workers are given brings its code along: to import this file, they would import Tune.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Counts(PlainTrial):
    """Reports twice, whatever it was given; and what its process has imported."""

    def __init__(self, trial_id, config, *, offset):
        self.offset = offset
        super().__init__(trial_id, config)

    def begin(self, config):
        self.number, self.reports = config["number"], 0

    def step(self):
        self.reports += 1
        imported = [name for name in ("ray.tune", "ray.train", "ray.data", "pandas") if name in sys.modules]
        return {"done": self.reports == 2, "sum": self.offset + self.number, "imported": imported}


class Plain(Trainable):
    """What Tune's own trials report."""

    def step(self):
        return {}


def test_trials_run_in_plain_workers_that_import_no_tune(ray_executor, tmp_path):
    ray_executor.release()
    with quiet_tune(1, Counts, offset=100):
        found = tune.Tuner(
            AnyTrial,
            param_space={"number": tune.grid_search([1, 2, 3])},
            tune_config=tune.TuneConfig(reuse_actors=True, max_concurrent_trials=1),
            run_config=tune.RunConfig(
                storage_path=str(tmp_path),
                verbose=0,
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            ),
        ).fit()
    reports = [found[place].metrics for place in range(3)]
    assert [report["sum"] for report in reports] == [101, 102, 103]
    assert [report["training_iteration"] for report in reports] == [2, 2, 2]
    assert [report["imported"] for report in reports] == 3 * [[]]
    assert len({report["pid"] for report in reports}) == 1
    assert len({report["trial_id"] for report in reports}) == 3


def test_tune_is_its_own_again_afterwards():
    def patched():
        controller = tune_controller.TuneController
        return _ActorClassCache.get, tune_controller._get_trainable_kwargs, controller._schedule_trial_task

    before = patched()
    with quiet_tune(1, Counts):
        assert not set(before) & set(patched())
    assert patched() == before
    with pytest.raises(OSError, match="disk full"), quiet_tune(1, Counts):
        raise OSError("disk full")
    assert patched() == before


def test_a_trial_reports_what_one_of_tunes_own_does():
    plain = Plain()
    ours = Counts("a", {"number": 1}, offset=0)
    added = {"sum", "imported"}
    assert ours.train().keys() - added == plain.train().keys() - {"config"}
    filled = plain.get_auto_filled_metrics(debug_metrics_only=True)
    assert ours.get_auto_filled_metrics(debug_metrics_only=True).keys() == filled.keys() - {"config"}
    assert ours.get_current_ip_pid() == plain.get_current_ip_pid()
