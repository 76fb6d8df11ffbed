"""``dse fabric train`` and ``dse fabric evaluate`` from end to end, on very few graphs."""

import json
from collections import Counter
from dataclasses import replace
from functools import partial

import pytest

pytest.importorskip("torch")

from dse.fabric.evaluators.fingerprint import simulator_fingerprint
from dse.run.executor import InProcessExecutor
from dse.run.progress import StoppedError, never_stop, silent
from dse.run.tables import FOLDER
from hardware.fabric_specs import fabric_spec
from hardware.operator_slots import operator_slots
from policies.fabric.data.distribution import ALL_KINDS, BLOCKS
from policies.fabric.data.rounds import round_of
from policies.fabric.data.tables import GRAPHS_FILE, SAMPLES_FILE, write_samples
from policies.fabric.model.ensemble import EnsembleLearner
from policies.fabric.options import FabricTraining
from policies.fabric.placing import Placing
from policies.fabric.student import StudentLearner
from policies.fabric.student_settings import StudentSettings
from policies.fabric.study.intervals import Interval
from policies.fabric.train import VALIDATION_EVERY, Trained, train
from tests import terminal
from tests.extras import needs
from tests.policies.fabric.quick import QUICK_STACK

pytestmark = needs("sklearn")

SMALL = ("--epochs", 1, "--width", 4, "--layers", 1)
TRAIN = ("fabric", "train", "--placements", 2, "--workers", 0, *SMALL)


@pytest.mark.parametrize("row", [BLOCKS.in_a_row, ALL_KINDS.in_a_row])
def test_half_of_the_graphs_and_of_those_held_out_are_placed_by_followers_of_a_model(row):
    graphs = range(11 * 12 * row)
    rounds = [round_of(graph, 3, row) for graph in graphs]
    assert [rounds.count(number) for number in range(4)] == [66 * row, 22 * row, 22 * row, 22 * row]
    held_out = [round_of(graph, 3, row) for graph in graphs if graph // 2 % VALIDATION_EVERY == 0]
    assert [held_out.count(number) for number in range(4)] == [6 * row, 2 * row, 2 * row, 2 * row]
    assert [round_of(graph, 0, row) for graph in range(4)] == [0, 0, 0, 0]


@pytest.mark.parametrize("row", [BLOCKS.in_a_row, ALL_KINDS.in_a_row])
def test_every_round_and_what_is_held_out_have_graphs_of_all_kinds_in_both_passes(row):
    placed = Counter((round_of(graph, 3, row), graph % row) for graph in range(60 * row))
    assert placed == {(number, kind): 10 if number else 30 for number in range(4) for kind in range(row)}
    held_out = [graph for graph in range(1_176) if graph // 2 % VALIDATION_EVERY == 0]
    kinds = Counter(graph % row for graph in held_out)
    assert len(kinds) == row
    assert max(kinds.values()) - min(kinds.values()) <= 1
    followed = {(round_of(graph, 3, row) > 0, graph % 4) for graph in held_out}
    assert followed == {(x, y) for x in (False, True) for y in range(4)}


@pytest.fixture
def taught(monkeypatch):
    """The fabrics that training was asked for; it does nothing."""
    seen = []

    def train(options, *_):
        seen.append(options.fabric)
        return Trained(0, 0, {}, Placing(0, None))

    monkeypatch.setattr("policies.fabric.train.train", train)
    return seen


def test_a_run_goes_on_with_files_that_were_moved_and_not_with_edited_ones(dse, tmp_path, taught):
    document = fabric_spec("plasticine-8x16").model_dump(mode="json", exclude_none=True)
    first, moved, edited = (tmp_path / name for name in ("first.json", "moved.json", "edited.json"))
    first.write_text(json.dumps(document))
    moved.write_text(json.dumps(document))
    document["links"]["hop_slots"]["value"] += 1
    edited.write_text(json.dumps(document))
    slots = {
        "name": "streaming",
        "slots": {kind: {"value": 3.0, "source": "a test"} for kind in operator_slots().slots},
    }
    (tmp_path / "slots.json").write_text(json.dumps(slots))
    asked = ("fabric", "train", "--quiet", "--workers", 0, "--out", tmp_path / "run")
    assert dse(*asked, "--fabric", first).code == 0
    assert dse(*asked, "--fabric", moved, "--resume").code == 0
    assert dse(*asked, "--fabric", "plasticine-8x16", "--resume").code == 0
    for given in (("--fabric", edited), ("--fabric", first, "--slots", tmp_path / "slots.json")):
        refused = dse(*asked, *given, "--resume")
        assert refused.code == 2, given
        changed = "fabric_and_simulator" if given[1] == edited else "slots"
        assert f"run.yaml: inputs.{changed}: this input has changed since this run began" in refused.err
    assert taught == [str(first), str(moved), "plasticine-8x16"]


def test_an_evaluation_goes_on_with_the_same_samples_however_their_path_is_written(dse, tmp_path, monkeypatch):
    monkeypatch.setattr("policies.fabric.evaluate.evaluate", lambda *_: [])
    for name in ("here", "copy", "other"):
        (tmp_path / name / FOLDER).mkdir(parents=True)
        for table in (GRAPHS_FILE, SAMPLES_FILE):
            (tmp_path / name / FOLDER / table).write_text("other" if name == "other" else "same")
    monkeypatch.chdir(tmp_path)
    document = fabric_spec("plasticine-8x16").model_dump(mode="json", exclude_none=True)
    (tmp_path / "fabric.json").write_text(json.dumps(document))

    def ended(samples, *more):
        return dse("fabric", "evaluate", samples, "--out", "run", "--quiet", *more)

    assert ended("here").code == 0
    for samples in ("here/", tmp_path / "here", "copy"):
        assert ended(samples, "--resume").code == 0, samples
    assert ended("here", "--fabric", "fabric.json", "--resume").code == 0
    refused = ended("other", "--resume")
    assert refused.code == 2
    assert "run.yaml: inputs.samples: this input has changed since this run began" in refused.err
    refused = ended("here", "--model", "ridge", "--resume")
    assert "run.yaml: arguments.model: the directory contains a run with different options" in refused.err


@pytest.fixture
def few_steps(monkeypatch):
    """Perceptrons and students take few steps: what training does around them is the same."""
    students = StudentSettings(steps=20)
    monkeypatch.setattr("policies.fabric.train.EnsembleLearner", partial(EnsembleLearner, stack=QUICK_STACK))
    monkeypatch.setattr("policies.fabric.train.StudentSettings", lambda: students)
    monkeypatch.setattr("policies.fabric.data.rounds.StudentLearner", partial(StudentLearner, students))


@pytest.mark.usefixtures("few_steps")
def test_a_fabric_that_is_edited_after_its_samples_were_collected_does_not_change_the_model(tmp_path, monkeypatch):
    document = fabric_spec("plasticine-8x16").model_dump(mode="json", exclude_none=True)
    file, folder = tmp_path / "mine.json", tmp_path / "run"
    file.write_text(json.dumps(document))
    document["links"]["hop_slots"]["value"] += 1
    options = FabricTraining(fabric=str(file), graphs=10, placements=1, rounds=0, epochs=1, width=4, layers=1)
    seen = []

    def placing(_student, _unseen, fabric, *_):
        seen.append(simulator_fingerprint(fabric))
        return Placing(0, None)

    def edit(*arguments):
        write_samples(*arguments)
        file.write_text(json.dumps(document))

    monkeypatch.setattr("policies.fabric.train.placing", placing)
    monkeypatch.setattr("policies.fabric.train.write_samples", edit)
    folder.mkdir()
    train(options, folder, 0, InProcessExecutor(), silent, never_stop)
    card = json.loads((folder / "best" / "card.json").read_text())
    assert seen == [card["provenance"]["samples"]["simulator"]]


@pytest.mark.usefixtures("few_steps")
def test_a_run_that_is_stopped_while_it_places_has_its_model_and_goes_on_with_placing(tmp_path, monkeypatch):
    options, heard = FabricTraining(graphs=10, placements=1, rounds=0), []
    placed = Placing(7, Interval(0.5, 0.25, 0.75))
    seen = []

    def run(*outcomes, options=options, seed=0):
        """Training whose placements of unseen graphs come to these outcomes in turn."""
        left = iter(outcomes)

        def placing(student, unseen, *_):
            seen.append((student.student.weight, student.student.first.tolist(), [each.units for each in unseen]))
            outcome = next(left)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        monkeypatch.setattr("policies.fabric.train.placing", placing)
        return train(options, tmp_path, seed, InProcessExecutor(), lambda *each: heard.append(each), never_stop)

    with pytest.raises(StoppedError):
        run(StoppedError("time limit"))
    files = ("weights.safetensors", "student/weights.safetensors")
    weights = [(tmp_path / "best" / name).read_bytes() for name in files]
    assert json.loads((tmp_path / "best" / "card.json").read_text())["provenance"]["outcome"]["placing"] is None

    fitted = []
    monkeypatch.setattr("policies.fabric.train._judged", lambda model: fitted.append(model) or {})
    whole = run(placed)
    assert whole.placing == placed
    assert ("models fitted", 1, 1) in heard
    assert all(total > 0 for _, _, total in heard)
    assert whole.validation["model"].placements == 2
    assert run() == whole  # what is finished is returned at once
    assert seen[0] == seen[1]
    assert len(seen[0][2]) == 2
    assert weights == [(tmp_path / "best" / name).read_bytes() for name in files]
    for card in ("card.json", "student/card.json"):
        provenance = json.loads((tmp_path / "best" / card).read_text())["provenance"]
        assert provenance["outcome"] == json.loads(json.dumps(whole.document()))
    assert not fitted
    run(placed, options=replace(options, graphs=11))
    run(placed, options=replace(options, graphs=11, deny=("slots",)))
    assert len(fitted) == 2
    (tmp_path / "best" / "student" / "weights.safetensors").write_bytes(b"torn")
    run(placed, options=replace(options, graphs=11, deny=("slots",)))
    assert len(fitted) == 3
    monkeypatch.setattr(
        "policies.fabric.train._fitted", lambda *_: fitted.append("again") or replace(whole, placing=None)
    )
    card = tmp_path / "best" / "card.json"
    for outcome in (None, [], {}, {"placements": 1, "graphs": 1, "validation": [], "placing": None}):
        document = json.loads(card.read_text())
        document["provenance"]["outcome"] = outcome
        card.write_text(json.dumps(document))
        run(placed, options=replace(options, graphs=11, deny=("slots",)))
    assert fitted[3:] == ["again"] * 4


@pytest.mark.usefixtures("few_steps")
def test_a_model_is_trained_grown_judged_and_refused_elsewhere(dse, monkeypatch, tmp_path):
    out = tmp_path / "run"
    trained = dse(*TRAIN, "--graphs", 12, "--out", out, "--json", "--quiet")
    assert trained.code == 0, trained.err
    outcome = json.loads(trained.out)
    assert (outcome["placements"], outcome["graphs"]) == (20, 10)
    assert "too few" in outcome["placing"]["verdict"]
    collected = (out / "journal.jsonl").read_bytes()
    assert all(f'"round-{number}/' in collected.decode() for number in range(4))
    assert (out / "best" / "student" / "card.json").is_file()

    grown = dse(*TRAIN, "--model", "graph", "--graphs", 14, "--out", out, "--resume", "--json", "--quiet")
    assert json.loads(grown.out)["graphs"] == 12
    assert json.loads((out / "best" / "card.json").read_text())["settings"]["members"] == 1
    assert (out / "journal.jsonl").read_bytes().startswith(collected)

    judged = dse("fabric", "evaluate", out, "--checkpoint", out, "--json", "--out", tmp_path / "judged")
    assert judged.code == 0, judged.err
    rows = json.loads(judged.out)
    assert json.loads((tmp_path / "judged" / "evaluation.json").read_text()) == rows
    whole = {row["model"]: row for row in rows if not row["part"]}
    assert whole["checkpoint"]["placements"] == 4
    assert whole["hops"]["error"] is None
    assert whole["max_load"]["error"] > 0

    with monkeypatch.context() as patch:
        terminal.set_width(patch, 80)
        anew = dse("fabric", "evaluate", out, "--model", "ridge", "--table", "main", "--table", "left-out")
    assert anew.code == 0, anew.err
    assert terminal.faults(anew.out, 80) == []
    assert all(word in anew.out for word in ("folds by graph", "kind of block left out", "ridge"))

    left = ("fabric", "evaluate", out, "--model", "ridge", "--table", "left-out", "--out", tmp_path / "left")
    stopped = dse(*left, "--time-limit", 1e-9)
    assert stopped.code == 3
    assert f"continue with --out {tmp_path / 'left'} --resume" in stopped.err
    assert not (tmp_path / "left" / "evaluation.json").exists()
    whole = dse(*left, "--resume", "--json")
    kept = (tmp_path / "left" / "journal.jsonl").read_bytes()
    assert len(kept.splitlines()) == 5 + len({row["part"] for row in json.loads(whole.out)})
    again = dse(*left, "--resume", "--json")
    assert (again.out, (tmp_path / "left" / "journal.jsonl").read_bytes()) == (whole.out, kept)

    for arguments, words in (
        ((*TRAIN, "--graphs", 12, "--out", out), "resume"),
        ((*TRAIN, "--graphs", 12, "--out", out, "--resume", "--seed", 1), "seed"),
        (TRAIN, "--out DIR"),
        (("fabric", "evaluate", out, "--checkpoint", out, "--out", tmp_path / "judged"), "resume"),
        (("fabric", "evaluate", out, "--fabric", "sn10"), "another fabric or simulator"),
        (("fabric", "evaluate", out, "--table", "annotations", "--deny", "slots"), "omit --deny slots"),
        (("fabric", "evaluate", tmp_path / "nothing"), "no such table"),
        (("fabric", "evaluate", out, "--checkpoint", tmp_path / "nothing"), "card.json"),
    ):
        refused = dse(*arguments)
        assert refused.code == 2, arguments
        assert len(refused.error_lines) == 1
        assert words in refused.err
