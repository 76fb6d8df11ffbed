"""The learning kit serves any learner: one folder and one line of the registry make ``dse pretrain NAME``."""

import json

import numpy as np
import pytest

from dse.run.progress import StoppedError, never_stop, silent
from hardware.inputs import InputError
from policies import learners
from policies.learning.checkpoint import chosen_folder
from policies.learning.pretraining import PretrainingPlan
from policies.learning.pretraining_run import PretrainingRun, pretrain
from tests.policies.events import scalars
from tests.policies.linear import LineSettings, LineTask

PLAN = PretrainingPlan(LineTask(LineSettings()), samples=80, checkpoints=5)


class After:
    """A stop signal that lets so many questions pass."""

    def __init__(self, passes):
        self._left = passes

    def __call__(self):
        self._left -= 1
        return "interrupted" if self._left < 0 else None


def pretrained(folder, stop=never_stop):
    """(scores, weights of every checkpoint, curves) of a run in ``folder``."""
    with PretrainingRun(folder, PLAN) as run:
        pretrain(run, silent, stop)
        weights = [run.checkpoint(number).checkpoint.tensors["weights"].tolist() for number in range(1, 6)]
        return run.scores(), weights, scalars(folder)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return pretrained(tmp_path_factory.mktemp("line") / "run")


def test_it_learns_and_every_checkpoint_is_scored(undisturbed):
    scores, weights, curves = undisturbed
    assert [(score.number, score.samples) for score in scores] == [(number, 16 * number) for number in range(1, 6)]
    assert all(set(score.values["fit"]) == {"c", "d"} for score in scores)
    # Knowing nothing has the score 1.
    assert scores[-1].mean("fit") > 2 * scores[0].mean("fit") > 2
    assert len({tuple(values) for values in weights}) == 5
    assert [step for step, _ in curves["training/loss"]] == list(range(8, 81, 8))
    assert curves["validation/fit"] == [(score.number, pytest.approx(score.mean("fit"))) for score in scores]


@pytest.mark.parametrize("passes", range(15))
def test_an_interrupted_run_goes_on_to_the_same_weights_scores_and_curves(tmp_path, undisturbed, passes):
    with pytest.raises(StoppedError, match="interrupted"):
        pretrained(tmp_path, After(passes))
    assert pretrained(tmp_path) == undisturbed


def test_the_best_checkpoint_has_a_card_and_the_weights_that_were_scored(tmp_path, undisturbed):
    with PretrainingRun(tmp_path, PLAN) as run:
        pretrain(run, silent, never_stop)
        best = run.choose("fit")
    assert best.mean("fit") == max(score.mean("fit") for score in undisturbed[0])
    checkpoint = LineTask.checkpoint_format.load(chosen_folder(tmp_path))
    assert checkpoint.tensors["weights"].tolist() == undisturbed[1][best.number - 1]
    assert checkpoint.settings == LineSettings()
    assert checkpoint.provenance["scores"] == best.document()
    assert checkpoint.provenance["plan"] == json.loads(json.dumps(PLAN.document()))
    assert checkpoint.provenance["lines"] == 2


def test_weights_of_other_settings_are_refused(tmp_path):
    with PretrainingRun(tmp_path, PLAN) as run:
        pretrain(run, silent, never_stop)
    card = tmp_path / "checkpoints" / "0001" / "card.json"
    card.write_text(card.read_text().replace('"inputs": 3', '"inputs": 4'))
    with pytest.raises(InputError, match=r"weights: float32 \[3\]: must be float32 \[4\]"):
        LineTask.checkpoint_format.load(card.parent)


def test_a_run_that_is_open_is_refused_to_others(tmp_path):
    with PretrainingRun(tmp_path, PLAN), pytest.raises(InputError, match="another process"):
        PretrainingRun(tmp_path, PLAN)


@pytest.fixture
def registered(monkeypatch):
    line = learners.Learner("A line.", "tests.policies.linear:LineOptions")
    known = {**learners.LEARNERS, "line": line}
    monkeypatch.setattr("dse.cli.pretrain.LEARNERS", known)


def test_one_entry_of_the_registry_makes_its_command(dse, tmp_path, registered):
    out = tmp_path / "run"
    answer = dse("pretrain", "line", "--samples", 80, "--workers", 0, "--out", out)
    assert answer.code == 0
    assert "5 checkpoints scored" in answer.out
    assert "error of knowing nothing over own error" in " ".join(answer.out.split())
    checkpoint = LineTask.checkpoint_format.load(out / "best")
    assert np.isfinite(checkpoint.tensors["weights"]).all()
    again = dse("pretrain", "line", "--samples", 80, "--workers", 0, "--out", out, "--resume", "--json")
    assert json.loads(again.out)["best"] == checkpoint.provenance["number"]
    swept = dse("pretrain", "line", "--sweep", 2, "--workers", 0, "--json", "--out", tmp_path / "sweep")
    assert len(json.loads(swept.out)["choices"]) == 4


@pytest.mark.parametrize(
    ("asked", "rule"),
    [
        (("lien",), "did you mean line?"),
        (("line", "--samples", 4), "learns from 8 samples at a time"),
        (("line", "--samples", 16), "at most 2 with 16 samples"),
        (("line", "--samples", 0), "--samples"),
        (("line", "--batch", "4,8"), "one value, or several with --sweep"),
        (("line", "--batch", "101"), "at most 100"),
        (("line", "--choose-by", "luck"), "luck"),
    ],
)
def test_forbidden_options_are_one_line(dse, tmp_path, registered, asked, rule):
    answer = dse("pretrain", *asked, "--workers", 0, "--out", tmp_path / "run")
    assert answer.code == 2
    assert len(answer.error_lines) == 1
    assert rule in answer.err
    assert not (tmp_path / "run").exists()
