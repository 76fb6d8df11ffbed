"""The policy in the package is for today's features and machines, and as good as its card says."""

import json
import shutil
from pathlib import Path

import pytest

from benchmarks.parallel_episodes import excess_of
from policies.learning.checkpoint import CARD_FILE, CheckpointFormat
from policies.learning.scores import Score
from policies.parallel.pipeline.inference import FEATURES
from policies.parallel.pipeline.machines import CONFIGS
from policies.parallel.pipeline.methods import SHIPPED, weights_digest
from policies.parallel.pipeline.options import PipelinePretraining
from policies.parallel.pipeline.policy import PIPELINE_POLICY
from policies.parallel.pipeline.task import PipelineTask

STEP = Path(__file__).parents[2] / "data" / "hlo" / "vgg-tiny.hlo"
ASKED = ("parallel", str(STEP), "--strategy", "pipeline", "--network", "dapple", "--accelerator", "v100")
INFERENCE = ("--method", "inference")


def test_its_card_is_that_of_the_default_training_with_more_episodes():
    card = json.loads((SHIPPED / CARD_FILE).read_text())
    assert card["features"] == list(FEATURES)
    checkpoint = PIPELINE_POLICY.load(SHIPPED)
    assert checkpoint.settings.machines == CONFIGS
    of = PipelinePretraining(samples=1_000_000, checkpoints=50).plan(seed=0)
    assert checkpoint.provenance["plan"] == json.loads(json.dumps(of.document()))
    assert checkpoint.provenance["chosen_by"] == PipelinePretraining().choose_by
    assert checkpoint.provenance["samples"] == PipelinePretraining().plan(seed=0).samples


def test_its_card_says_first_what_it_is_worth_on_families_that_it_did_not_learn_from():
    card = json.loads((SHIPPED / CARD_FILE).read_text())
    assert next(iter(card["provenance"])) == "out_of_family"
    scores = Score.from_document(card["provenance"]["scores"])
    stated = card["provenance"]["out_of_family"]["longer_than_the_optimum_by"]
    own, explored = (
        excess_of(scores, PIPELINE_POLICY.load(SHIPPED).settings.families, each)[1] for each in scores.values
    )
    assert (stated["own_plan"], stated["best_of_50"]) == pytest.approx((own, explored))


def test_it_reproduces_the_scores_of_its_card():
    checkpoint = PIPELINE_POLICY.load(SHIPPED)
    plan = checkpoint.provenance["plan"]
    stated = checkpoint.provenance["scores"]
    again = PipelineTask(checkpoint.settings, validation=1).score(checkpoint, plan["seed"], lambda: None)
    for name, values in again.items():
        # Another machine's sums may round otherwise, and then another action is the best.
        assert sum(values.values()) == pytest.approx(sum(stated[name][problem] for problem in values), rel=0.02)


def test_it_is_the_policy_where_no_other_is_given(dse, tmp_path, monkeypatch):
    folders, load = [], CheckpointFormat.load

    def loaded(of, folder):
        folders.append(folder)
        return load(of, folder)

    # Other weights may find the same solution.
    monkeypatch.setattr(CheckpointFormat, "load", loaded)
    answered = dse(*ASKED, *INFERENCE, "--mesh", "16", "--out", str(tmp_path / "run"), "--json")
    assert answered.code == 0
    assert folders == [SHIPPED]
    assert weights_digest(None) == json.loads((SHIPPED / CARD_FILE).read_text())["sha256"]
    result = json.loads(answered.out)
    assert 0 < result["bound"] <= result["objective"]["value"]
    assert dse("check", str(tmp_path / "run" / "result.json"), str(STEP)).code == 0


@pytest.mark.parametrize("cutting", ["near", "free", "equal"])
def test_by_default_devices_are_cut_as_the_policy_was_trained_to(dse, tmp_path, cutting):
    folder = _policy(tmp_path, lambda card: card["settings"].update(cutting=cutting))
    out = tmp_path / "run"
    answered = dse(*ASKED, *INFERENCE, "--mesh", "16", "--checkpoint", str(folder), "--out", str(out), "--json")
    assert answered.code == 0
    assert json.loads(answered.out)["settings"]["device_cuts"] == cutting
    # The check does not need the policy.
    shutil.rmtree(folder)
    assert dse("check", str(out / "result.json"), str(STEP)).code == 0


def test_what_it_was_not_trained_for_is_refused_without_naming_options_that_are_not_given(dse):
    refused = dse(*ASKED, *INFERENCE, "--mesh", "64")
    assert refused.code == 2
    (line,) = refused.error_lines
    assert "was not trained for 64 devices, 8 stages, 16 microbatches" in line
    assert "--device-cuts" not in line


@pytest.mark.parametrize(
    ("asked", "rule"),
    [
        (("--mesh", "8", "--stages", "4"), "8 devices, 4 stages, 16 microbatches"),
        (("--mesh", "16", "--stages", "8"), "16 devices, 8 stages, 16 microbatches"),
        (("--mesh", "16", "--microbatches", "5"), "16 devices, 2 stages, 5 microbatches"),
        (("--mesh", "16", "--network", "v100-ethernet"), "16 devices, 2 stages, 16 microbatches"),
    ],
)
def test_another_topology_is_refused_in_one_line(dse, asked, rule):
    refused = dse(*ASKED, *INFERENCE, *asked)
    assert refused.code == 2
    (line,) = refused.error_lines
    start = "error: dse parallel: --method: inference: the policy in the package was not trained for"
    assert line == f"{start} {rule} on this network, only for: {'; '.join(map(str, CONFIGS))}"


@pytest.mark.parametrize("cutting", ["free", "equal"])
def test_another_way_to_cut_devices_is_refused_in_one_line(dse, cutting):
    refused = dse(*ASKED, *INFERENCE, "--mesh", "16", "--device-cuts", cutting)
    assert refused.code == 2
    (line,) = refused.error_lines
    rule = f"the policy in the package was trained for --device-cuts near, not {cutting}"
    assert line == f"error: dse parallel: --method: inference: {rule}"


def test_a_copy_of_other_features_is_refused_in_one_line(dse, tmp_path):
    folder = _policy(tmp_path, lambda card: card["features"].append("phase of the moon"))
    refused = dse(*ASKED, *INFERENCE, "--mesh", "16", "--checkpoint", str(folder))
    assert refused.code == 2
    (line,) = refused.error_lines
    differs = "has unknown features phase of the moon"
    rule = f"must be the features that this version computes, but the card {differs}; retrain it"
    assert line == f"error: {folder / CARD_FILE}: features: {rule}"


@pytest.mark.parametrize("settings", [None, {}, {"cutting": 3, "machines": 3}, {"machines": [{"devices": 16}]}])
def test_a_card_without_machines_is_refused_in_one_line(dse, tmp_path, settings):
    folder = _policy(tmp_path, lambda card: card.update(settings=settings))
    refused = dse(*ASKED, *INFERENCE, "--mesh", "16", "--checkpoint", str(folder))
    assert refused.code == 2
    (line,) = refused.error_lines
    assert line.startswith(f"error: {folder / CARD_FILE}: settings")


def _policy(tmp_path, altered):
    """A copy of the policy in the package, its card altered."""
    folder = tmp_path / "policy"
    shutil.copytree(SHIPPED, folder)
    card = json.loads((folder / CARD_FILE).read_text())
    altered(card)
    (folder / CARD_FILE).write_text(json.dumps(card))
    return folder
