"""Curves: read by another reader, begun again, gone on with; those of the RLlib algorithm."""

import pytest
from ray.rllib.algorithms.algorithm import Algorithm

from hardware.inputs import InputError
from policies.learning.curves import CurveWriter
from policies.partition.config import config_of
from policies.partition.graph_store import GraphStore
from policies.partition.settings import LearningSettings
from tests.policies.events import crc32c, scalars
from tests.policies.examples import stored

STEPS = [(step, {"loss": 1 / step, "reward": float(step)}) for step in (1, 2, 5)]


def written(folder, first_step=0, steps=STEPS):
    curves = CurveWriter(folder / "tensorboard", first_step)
    for step, values in steps:
        curves.append(step, values)
    return curves


def files(folder):
    return sorted((folder / "tensorboard").iterdir())


def test_the_readers_checksum_is_that_of_the_standard():
    assert crc32c(b"123456789") == 0xE3069283


def test_another_reader_finds_what_was_appended_before_the_file_is_closed(tmp_path):
    curves = CurveWriter(tmp_path / "tensorboard", 0)
    appended = {}
    for step, values in STEPS:
        curves.append(step, values)
        for tag, value in values.items():
            appended.setdefault(tag, []).append((step, pytest.approx(value)))
        assert scalars(tmp_path) == appended


def test_nothing_is_made_before_there_is_something_to_write(tmp_path):
    written(tmp_path, 0, [(1, {})]).close()
    assert not (tmp_path / "tensorboard").exists()


def test_a_curve_that_begins_again_replaces_the_earlier_one(tmp_path):
    written(tmp_path, 0, [*STEPS, (6, {"other": 1.0})]).close()
    (torn,) = files(tmp_path)
    torn.write_bytes(torn.read_bytes()[:-3])
    for _ in range(3):
        written(tmp_path).close()
    assert len(files(tmp_path)) == 1
    assert scalars(tmp_path) == {
        "loss": [(step, pytest.approx(1 / step)) for step in (1, 2, 5)],
        "reward": [(1, 1.0), (2, 2.0), (5, 5.0)],
    }


def test_a_curve_that_goes_on_supersedes_what_was_written_behind_its_first_step(tmp_path):
    written(tmp_path).close()
    written(tmp_path, 2, [(2, {"loss": 9.0}), (3, {"loss": 8.0})]).close()
    assert len(files(tmp_path)) == 2
    assert scalars(tmp_path) == {"loss": [(1, 1.0), (2, 9.0), (3, 8.0)], "reward": [(1, 1.0)]}


def test_a_curve_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "tensorboard").write_text("no folder")
    with pytest.raises(InputError, match="tensorboard: cannot be written"):
        written(tmp_path)


@pytest.mark.ray_interface
@pytest.mark.usefixtures("ray_executor", "quiet_home")
def test_an_algorithm_that_goes_on_from_a_checkpoint_repeats_no_step(tmp_path):
    settings = LearningSettings(layers=1, width=8, rollouts=4, graphs=2, epochs=1, passes=2)
    store = GraphStore([stored(9, 3, 0, "first"), stored(12, 3, 1, "second")]).save(tmp_path / "graphs.json")
    algorithm = config_of(settings, store, events=tmp_path / "tensorboard").build_algo()
    algorithm.train()
    saved = algorithm.save_to_path(str(tmp_path / "checkpoint"))
    algorithm.train()
    algorithm.stop()
    once = scalars(tmp_path)
    for name in ("reward", "infeasible", "loss", "policy_loss", "imitation_loss", "entropy"):
        assert [step for step, _ in once[f"training/{name}"]] == [8, 16]
    resumed = Algorithm.from_checkpoint(saved)
    resumed.train()
    again = scalars(tmp_path)
    assert {tag: [step for step, _ in points] for tag, points in again.items()} == {
        tag: [step for step, _ in points] for tag, points in once.items()
    }
    assert {tag: points[0] for tag, points in again.items()} == {tag: points[0] for tag, points in once.items()}
    resumed.train()
    resumed.stop()
    assert [step for step, _ in scalars(tmp_path)["training/loss"]] == [8, 16, 24]
