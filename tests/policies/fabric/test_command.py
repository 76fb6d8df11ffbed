"""``dse fabric train`` and ``dse fabric evaluate`` from end to end, on very few graphs."""

import json
from functools import partial

import pytest

pytest.importorskip("torch")
pytest.importorskip("sklearn")

from policies.fabric.data.rounds import round_of
from policies.fabric.model.ensemble import EnsembleLearner
from policies.fabric.student import StudentLearner, StudentSettings
from policies.fabric.train import VALIDATION_EVERY
from tests.policies.fabric.quick import QUICK_STACK

SMALL = ("--epochs", 1, "--width", 4, "--layers", 1, "--members", 1)
TRAIN = ("fabric", "train", "--placements", 2, "--workers", 0, *SMALL)


def test_half_of_the_graphs_and_of_those_held_out_are_placed_by_followers_of_a_model():
    rounds = [round_of(graph, 3) for graph in range(120)]
    assert [rounds.count(number) for number in range(4)] == [60, 20, 20, 20]
    held_out = [round_of(graph, 3) for graph in range(120) if graph // 2 % VALIDATION_EVERY == 0]
    assert [held_out.count(number) for number in range(4)] == [6, 2, 2, 2]
    assert [round_of(graph, 0) for graph in range(4)] == [0, 0, 0, 0]


@pytest.fixture
def few_steps(monkeypatch):
    """Perceptrons and students take few steps: what training does around them is the same."""
    students = StudentSettings(steps=20)
    monkeypatch.setattr("policies.fabric.train.EnsembleLearner", partial(EnsembleLearner, stack=QUICK_STACK))
    monkeypatch.setattr("policies.fabric.train.StudentSettings", lambda: students)
    monkeypatch.setattr("policies.fabric.data.rounds.StudentLearner", partial(StudentLearner, students))


@pytest.mark.usefixtures("few_steps")
def test_a_model_is_trained_grown_judged_and_refused_elsewhere(dse, tmp_path):
    out = tmp_path / "run"
    trained = dse(*TRAIN, "--graphs", 12, "--out", out, "--json", "--quiet")
    assert trained.code == 0, trained.err
    outcome = json.loads(trained.out)
    assert (outcome["placements"], outcome["graphs"]) == (20, 10)
    collected = (out / "journal.jsonl").read_bytes()
    assert all(f'"round-{number}/' in collected.decode() for number in range(4))
    assert (out / "best" / "student" / "card.json").is_file()

    grown = dse(*TRAIN, "--graphs", 14, "--out", out, "--resume", "--json", "--quiet")
    assert json.loads(grown.out)["graphs"] == 12
    assert (out / "journal.jsonl").read_bytes().startswith(collected)

    judged = dse("fabric", "evaluate", out, "--checkpoint", out, "--json", "--out", tmp_path / "judged")
    assert judged.code == 0, judged.err
    rows = json.loads(judged.out)
    assert json.loads((tmp_path / "judged" / "evaluation.json").read_text()) == rows
    whole = {row["model"]: row for row in rows if not row["part"]}
    assert whole["checkpoint"]["placements"] == 4
    assert whole["hops"]["error"] is None
    assert whole["max_load"]["error"] > 0

    anew = dse("fabric", "evaluate", out, "--model", "ridge", "--table", "random", "--table", "left-out")
    assert anew.code == 0, anew.err
    assert all(word in anew.out for word in ("random folds", "kind of block left out", "ridge"))

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
        (("fabric", "evaluate", out, "--table", "annotations", "--deny", "slots"), "--deny slots must go"),
        (("fabric", "evaluate", tmp_path / "nothing"), "no such table"),
        (("fabric", "evaluate", out, "--checkpoint", tmp_path / "nothing"), "card.json"),
    ):
        refused = dse(*arguments)
        assert refused.code == 2, arguments
        assert len(refused.error_lines) == 1
        assert words in refused.err
