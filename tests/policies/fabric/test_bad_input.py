"""Samples and checkpoints that do not belong to what they are used on: one line each, and exit code 2."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import yaml

pytest.importorskip("torch")

from dse.run.executor import InProcessExecutor
from dse.run.journal import Journal
from hardware.fabric_specs import fabric, fabric_spec
from hardware.inputs import InputError
from hardware.operator_slots import operator_slots
from policies.fabric.data.collection import Collector, Piece, collect, provenance_of, samples_in
from policies.fabric.data.distribution import ALL_KINDS, BLOCKS
from policies.fabric.data.placers import RandomAnnealer
from policies.fabric.data.tables import read_samples, write_samples
from policies.fabric.methods import SHIPPED
from policies.fabric.model.checkpoint import COST, load_for
from policies.fabric.model.contention import CONTENTION
from policies.fabric.model.features import FEATURES
from policies.fabric.model.tree_kernels import LEAF
from policies.fabric.student_checkpoint import STUDENT
from policies.learning.checkpoint import CARD_FILE, WEIGHTS_FILE
from tests.extras import needs
from tests.fabric.documents import FEED_FORWARD

pytestmark = needs("sklearn")

PLASTICINE = "plasticine-8x16"
ALL = len(FEATURES) + len(CONTENTION)
"""Features that a member of the stack may see."""

PLACE = ("fabric", "place", "graph.json", "--cost", "learned", "--chains", 1, "--moves", 100, "--workers", 0, "--quiet")
TRAIN = ("fabric", "train", "--workers", 0, "--quiet", "--out", "new")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "graph.json").write_text(json.dumps(FEED_FORWARD))
    shutil.copytree(SHIPPED, tmp_path / "model")
    document = fabric_spec(PLASTICINE).model_dump(mode="json", exclude_none=True)
    document["links"]["switch_slots"]["value"] = 3
    (tmp_path / "other.yaml").write_text(yaml.safe_dump(document))
    return tmp_path


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A directory with samples of one graph."""
    out, here, slots = tmp_path_factory.mktemp("samples"), fabric(PLASTICINE), operator_slots()
    with Journal(out / "journal.jsonl") as journal:
        collector = Collector(here, slots, RandomAnnealer(100), ALL_KINDS)
        collect(journal, collector, [Piece(0, 0, 1, seed=0)], InProcessExecutor())
        write_samples(out / "tables", samples_in(journal))
    return out


def require_refusal(refused, *words):
    assert refused.code == 2, refused
    assert refused.out == ""
    assert refused.err.splitlines() == refused.error_lines
    assert len(refused.error_lines) == 1
    assert all(word in refused.err for word in words), refused.err


@pytest.mark.parametrize("part", ["", STUDENT])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda names: names[1:], "but the card lacks {first}; retrain it"),
        (
            lambda names: [*names, "phase_of_the_moon"],
            "but the card has unknown features phase_of_the_moon; retrain it",
        ),
        (lambda names: names[::-1], "but the card has them in another order; retrain it"),
        (lambda names: None, "but the card lacks {first}"),
    ],
    ids=["one less", "one more", "another order", "none"],
)
def test_a_checkpoint_of_other_features_is_refused(dse, folder, part, change, words):
    path = folder / "model" / part / CARD_FILE
    card = json.loads(path.read_text())
    path.write_text(json.dumps({**card, "features": change(card["features"])}))
    refused = dse(*PLACE, "--fabric", PLASTICINE, "--checkpoint", "model")
    require_refusal(refused, f"{CARD_FILE}: features: ", words.format(first=card["features"][0]))


def test_a_checkpoint_of_another_fabric_is_refused_in_placing(dse, folder):
    asked = (*PLACE, "--checkpoint", "model")
    for other in ("sn10", "other.yaml"):
        refused = dse(*asked, "--fabric", other)
        require_refusal(refused, "provenance.samples.simulator", f"trained on {PLASTICINE}", "dse fabric train")
    own = {kind: {"value": 2.0, "source": "for a test"} for kind in ("gemm", "gelu", "add", "layer_norm")}
    (folder / "slots.json").write_text(json.dumps({"name": "own", "slots": own}))
    refused = dse(*asked, "--fabric", PLASTICINE, "--slots", "slots.json")
    require_refusal(refused, "provenance.samples.operator_slots")
    card = json.loads((folder / "model" / CARD_FILE).read_text())
    card["provenance"]["samples"] = "elsewhere"
    (folder / "model" / CARD_FILE).write_text(json.dumps(card))
    require_refusal(dse(*asked, "--fabric", PLASTICINE), "provenance.samples.simulator", "dse fabric train")


def test_samples_of_another_simulator_are_refused(dse, folder, run):
    refused = dse("fabric", "evaluate", run, "--fabric", "other.yaml")
    require_refusal(refused, str(run), "simulator", f"samples are from another fabric or simulator ({PLASTICINE})")


def test_a_model_is_not_judged_on_samples_of_another_simulator(dse, folder, run):
    path = folder / "model" / CARD_FILE
    card = json.loads(path.read_text())
    card["provenance"]["samples"]["simulator"] = "sha256:0"
    path.write_text(json.dumps(card))
    refused = dse("fabric", "evaluate", run, "--checkpoint", "model")
    require_refusal(refused, f"{CARD_FILE}: provenance.samples.simulator: sha256:0", "train a cost model")


def test_a_model_is_not_judged_on_graphs_of_other_kinds_whose_numbers_mean_others(dse, folder, run):
    samples = shutil.copytree(run, folder / "samples") / "tables"
    read = read_samples(samples)
    write_samples(samples, replace(read, provenance={**read.provenance, "kinds": list(BLOCKS.kinds)}))
    refused = dse("fabric", "evaluate", "samples", "--checkpoint", "model")
    require_refusal(refused, "samples: kinds: ", f"must be {', '.join(ALL_KINDS.kinds)}")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--table", "main", "--table", "annotations"), "--table: annotations: "),
        (("--model", "ridge"), "--model: ridge: "),
        (("--deny", "slots"), "--deny: slots: "),
        (("--epochs", "3"), "--epochs: 3: "),
    ],
)
def test_a_model_that_is_judged_as_it_is_takes_no_options_of_training(dse, folder, run, given, words):
    asked = ("fabric", "evaluate", run, "--checkpoint", "model")
    require_refusal(dse(*asked, *given), words, "as it was trained")
    assert dse(*asked, "--table", "main").code == 0


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("feature", ALL, f"must be a feature, less than {ALL}"),
        ("feature", -2, "must be a feature"),
        ("left", 0, "must be a node after its parent"),
        ("right", 1000, "must be a node after its parent"),
        ("right", -1, "must be a node after its parent"),
    ],
)
def test_trees_that_lead_nowhere_are_refused(folder, name, value, words):
    labelled_by = provenance_of(fabric(PLASTICINE), operator_slots())
    kept = load_for(folder / "model", labelled_by)
    tree = int(np.flatnonzero(kept.tensors["trees.feature"][:, 0] != LEAF)[0])
    changed = kept.tensors[f"trees.{name}"].copy()
    changed[tree, 0] = value
    COST.save(folder / "model", replace(kept, tensors={**kept.tensors, f"trees.{name}": changed}))
    with pytest.raises(InputError, match=words) as raised:
        load_for(folder / "model", labelled_by)
    (fault,) = raised.value.faults
    assert (fault.key, fault.value) == (f"trees.{name}", str(value))
    assert fault.file.endswith(WEIGHTS_FILE)


def test_samples_of_another_simulator_are_not_added_to_nor_learned_from(folder, run):
    from dse.run.progress import never_stop, silent
    from policies.fabric.data.rounds import Rounds

    for graphs in (1, 2):  # the journal has all that is asked for, or less
        rounds = Rounds(fabric("other.yaml"), operator_slots(), graphs, 1, 0, 0, ALL_KINDS)
        with Journal(run / "journal.jsonl") as journal, pytest.raises(InputError) as raised:
            rounds.collect(journal, InProcessExecutor(), silent, never_stop)
        (fault,) = raised.value.faults
        assert fault.file.endswith("journal.jsonl")
        assert fault.key == "simulator"
        assert "use a new directory" in fault.rule


def test_a_run_does_not_go_on_with_samples_or_weights_that_have_changed(dse, folder, run):
    samples = shutil.copytree(run, folder / "samples") / "tables"
    asked = ("fabric", "evaluate", "samples", "--checkpoint", "model", "--out", "judged", "--resume")
    read = read_samples(samples)
    write_samples(samples, read)  # as resumed training does that adds nothing
    assert dse(*asked).code == 0
    write_samples(samples, replace(read, samples=read.samples * 2))
    require_refusal(dse(*asked), "run.yaml: inputs.samples: this input has changed since this run began")
    write_samples(samples, read)
    assert dse(*asked).code == 0
    (folder / "model" / WEIGHTS_FILE).write_bytes(b"others")
    require_refusal(dse(*asked), "run.yaml: inputs.checkpoint: this input has changed since this run began")
    shutil.rmtree(samples)
    require_refusal(dse(*asked[:-1], "--out", "new"), "no such table")
    assert not (folder / "new").exists()


BAD_INPUTS = {
    "links of no width": ("--fabric", {"links": {"tracks": 0}}, "links.tracks.value: 0: must be at least 1"),
    "disconnected grid": ("--fabric", {"grid": {"absent": [[0, 1], [1, 0]]}}, "cells are unreachable"),
    "capacity no unit has": ("--fabric", {"memory": {"bytes": 512}}, "must hold at least one flit"),
    "operators without an entry": ("--slots", None, "slots.relu: the key is missing"),
}


@pytest.mark.parametrize(("option", "changes", "words"), BAD_INPUTS.values(), ids=BAD_INPUTS)
def test_training_refuses_bad_input_before_it_writes_anything(dse, folder, option, changes, words):
    document = {"name": "own", "slots": {"gemm": {"value": 1.0, "source": "for a test"}}}
    if changes is not None:
        document = fabric_spec(PLASTICINE).model_dump(mode="json", exclude_none=True)
        for part, values in changes.items():
            document[part] |= {key: {"value": value, "source": "for a test"} for key, value in values.items()}
    (folder / "bad.json").write_text(json.dumps(document))
    require_refusal(dse(*TRAIN, option, "bad.json"), words)
    assert not (folder / "new").exists()
