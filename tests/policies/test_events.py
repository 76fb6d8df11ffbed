"""Event files: read by another reader, gone on with, healed; those of the RLlib algorithm."""

import pytest
from ray.rllib.algorithms.algorithm import Algorithm
from tensorboardX import SummaryWriter

from policies.partition.config import config_of
from policies.partition.event_file import EventFile
from policies.partition.graph_store import GraphStore
from policies.partition.settings import LearningSettings
from tests.policies.events import crc32c, events, scalars
from tests.policies.examples import stored

STEPS = [(step, {"loss": 1 / step, "reward": float(step)}) for step in (1, 2, 5)]


def written(path, steps=STEPS):
    file = EventFile(path)
    for step, values in steps:
        file.append(step, values)
    return path


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tensorboard" / "events.out.tfevents.dse"


def test_the_readers_checksum_is_that_of_the_standard():
    assert crc32c(b"123456789") == 0xE3069283


def test_another_reader_finds_what_was_written(path, tmp_path):
    written(path)
    assert scalars(tmp_path) == {
        "loss": [(step, pytest.approx(1 / step)) for step in (1, 2, 5)],
        "reward": [(1, 1.0), (2, 2.0), (5, 5.0)],
    }


def test_nothing_is_made_before_there_is_something_to_write(path):
    EventFile(path).append(1, {})
    assert not path.parent.exists()


def test_what_the_file_has_is_not_written_again(path, tmp_path):
    written(path)
    before = path.read_bytes()
    written(path)
    assert path.read_bytes() == before
    written(path, [*STEPS, (5, {"loss": 9.0, "new": 3.0}), (6, {"loss": 0.5})])
    assert scalars(tmp_path)["loss"][2:] == [(5, pytest.approx(0.2)), (6, 0.5)]
    assert scalars(tmp_path)["new"] == [(5, 3.0)]


def test_a_file_that_was_torn_anywhere_is_made_whole(path, tmp_path):
    whole = written(path).read_bytes()
    wanted = scalars(tmp_path)
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        written(path)
        assert scalars(tmp_path) == wanted


def test_what_stands_behind_a_damaged_event_is_written_again(path, tmp_path):
    content = bytearray(written(path).read_bytes())
    wanted = scalars(tmp_path)
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    written(path)
    assert scalars(tmp_path) == wanted


def test_a_file_of_the_usual_writer_is_gone_on_with(tmp_path):
    with SummaryWriter(str(tmp_path / "tensorboard")) as usual:
        usual.add_scalar("loss", 0.25, 3)
    (path,) = (tmp_path / "tensorboard").iterdir()
    EventFile(path).append(3, {"loss": 1.0})
    EventFile(path).append(4, {"loss": 0.5})
    assert scalars(tmp_path) == {"loss": [(3, 0.25), (4, 0.5)]}
    assert sum(bool(event.file_version) for event in events(path)) == 1


@pytest.mark.usefixtures("ray_executor")
def test_an_algorithm_that_goes_on_from_a_checkpoint_repeats_no_step(tmp_path, monkeypatch):
    monkeypatch.setattr("ray.tune.trainable.trainable.DEFAULT_STORAGE_PATH", str(tmp_path))
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
    assert scalars(tmp_path) == once
    resumed.train()
    resumed.stop()
    assert [step for step, _ in scalars(tmp_path)["training/loss"]] == [8, 16, 24]
