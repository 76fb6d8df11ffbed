"""Checkpoints and settings that cannot be: each is one line that says where and why."""

import hashlib
import json
import math

import numpy as np
import pytest
from ray.rllib.core import DEFAULT_MODULE_ID
from safetensors.numpy import save

from hardware.inputs import InputError
from policies.learning.checkpoint import CARD_FILE, WEIGHTS_FILE
from policies.partition.checkpoint import POLICY, PolicyCheckpoint
from policies.partition.search import training_of
from policies.partition.settings import PAPER, LearningSettings
from tests.policies.examples import context, problem

SMALL = LearningSettings(layers=2, width=32, prior="none")


@pytest.fixture(scope="module")
def weights():
    own = training_of(context(problem(), 1), SMALL).learner.module[DEFAULT_MODULE_ID].get_state()
    return {name: np.ascontiguousarray(weight) for name, weight in own.items()}


def test_broken_checkpoints_are_one_line(tmp_path, weights):
    folder = tmp_path / "policy"

    def broken(change):
        POLICY.save(folder, PolicyCheckpoint(SMALL, weights, {}))
        card = json.loads((folder / CARD_FILE).read_text())
        change(card)
        (folder / CARD_FILE).write_text(json.dumps(card))
        with pytest.raises(InputError) as error:
            POLICY.load(folder)
        (fault,) = error.value.faults
        return str(fault)

    with pytest.raises(InputError, match="cannot be read"):
        POLICY.load(folder)
    assert "schema" in broken(lambda card: card.update(schema="other"))
    assert "features" in broken(lambda card: card.update(features=["rank"]))
    assert "settings" in broken(lambda card: card["settings"].update(width="wide"))
    assert "settings" in broken(lambda card: card["settings"].update(unknown=1))
    assert "its card describes" in broken(lambda card: (folder / WEIGHTS_FILE).write_bytes(b"torn"))
    assert "cannot be read" in broken(lambda card: (folder / WEIGHTS_FILE).unlink())
    assert "card.json: settings: `1 <= layers <= 64` must hold" in broken(
        lambda card: card["settings"].update(layers=100_000)
    )
    for key in ("settings", "provenance"):
        assert f"card.json: {key}: [1]: must be an object" in broken(lambda card, key=key: card.update({key: [1]}))
        assert f"card.json: {key}: null: must be an object" in broken(lambda card, key=key: card.pop(key))
    # The largest network there may be has 13 GB of weights: none of it is made.
    told = broken(lambda card: card["settings"].update(layers=64, width=4096))
    assert "network.hidden.bias: float32 [32]: must be float32 [4096]" in told


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda weights: b"junk", "is not a safetensors file"),
        (lambda weights: save(weights)[:-1], "is not a safetensors file"),
        (
            lambda weights: save(weights).replace(b'"F32"', b'"I32"', 1),
            "network.hidden.bias: int32 [32]: must be float32",
        ),
        (lambda weights: save(weights).replace(b'"F32"', b'"F8_E5M2"'), "is not a safetensors file"),
        (lambda weights: weights | {"more": np.zeros(2, np.float32)}, "more: float32 [2]: must be none"),
        (lambda weights: {}, "network.hidden.bias: missing: must be float32 [32]"),
        (
            lambda weights: {name: weight.astype(np.int32) for name, weight in weights.items()},
            "network.hidden.bias: int32 [32]: must be float32 [32]",
        ),
        (
            lambda weights: weights | {"network.hidden.bias": np.full(32, np.nan, np.float32)},
            "network.hidden.bias: must be finite",
        ),
    ],
    ids=["junk", "truncated", "one of another type", "header torn", "one more", "none", "whole numbers", "not finite"],
)
def test_weights_that_the_network_cannot_have_are_one_line(tmp_path, weights, change, told):
    POLICY.save(tmp_path, PolicyCheckpoint(SMALL, weights, {}))
    found = change(weights)
    content = found if isinstance(found, bytes) else save(found)
    card = json.loads((tmp_path / CARD_FILE).read_text()) | {"sha256": hashlib.sha256(content).hexdigest()}
    (tmp_path / CARD_FILE).write_text(json.dumps(card))
    (tmp_path / WEIGHTS_FILE).write_bytes(content)
    with pytest.raises(InputError) as error:
        POLICY.load(tmp_path)
    assert f"{WEIGHTS_FILE}: {told}" in str(error.value)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"head": "ordnal"},
        {"head": ["ordinal"]},
        {"layers": 4.0},
        {"layers": 100_000},
        {"width": 1_000_000},
        {"heads": 1.5},
        {"heads": 3, "attention": "full"},
        {"passes": 0},
        {"passes": True},
        {"minibatches": 1.5},
        {"epochs": "8"},
        {"warmup": -1},
        {"focus": math.nan},
        {"focus": False},
        {"clip": -1.0},
        {"gradient_clip": 0.0},
        {"entropy_weight": math.inf},
        {"policy_weight": None},
        {"learning_rate": 0.0},
        {"correlation": 1.0},
        {"correlation_width": 1e-9},
        {"temperature": 10**400},
        {"advantage": "better"},
    ],
    ids=str,
)
def test_invalid_settings_state_the_rule(wrong):
    with pytest.raises(ValueError, match=f"`.*{next(iter(wrong))}.*`.* but got") as error:
        LearningSettings(**wrong)
    assert len(str(error.value).splitlines()) == 1


def test_settings_survive_their_document():
    assert LearningSettings.from_document(PAPER.document()) == PAPER
    # JSON of others writes a whole number without a point.
    assert LearningSettings.from_document({"focus": 1, "correlation": 0}) == LearningSettings(
        focus=1.0, correlation=0.0
    )
    with pytest.raises(ValueError, match="must be known, but got unknown"):
        LearningSettings.from_document({"unknown": 1})
