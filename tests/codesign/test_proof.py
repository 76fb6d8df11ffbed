"""The proof that no architecture is better, made again: in each check where that is short, else where one asks."""

import json

import pytest

from dse.codesign.check_metrics import proof
from dse.codesign.contract import PROBLEM
from dse.problem import pose
from dse.results.result import seal_of
from dse.run.run import Run
from tests.codesign.tiny import tiny_options

SMALL = {"tensor_parallel": "1", "microbatch": "1", "area_budget": "1.6759"}


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    posed = pose(PROBLEM, tiny_options(tmp_path_factory.mktemp("one"), **SMALL))
    return posed, PROBLEM.answer(posed, Run())


def lowered(result):
    """A bound that is above the answer, which is said not to be the best, and below the optimum."""
    score = 0.9 * result.objective.value
    metrics = result.metrics | {"proven_optimum": None, "distance_from_proven": None}
    return result.model_copy(update={"bound": score, "status": "feasible", "metrics": metrics})


def test_a_true_proof_passes_and_leaves_nothing_open(answered):
    posed, result = answered
    assert result.status == "optimal"
    assert PROBLEM.faults(result, posed) == []
    assert PROBLEM.open_claims(result, posed) == {}


def test_a_bound_that_an_architecture_exceeds_is_found(answered):
    posed, result = answered
    (fault,) = PROBLEM.proof_faults(lowered(result), posed)
    assert fault.startswith(f"bound must be at least {result.objective.value}")


def test_an_optimum_that_is_none_is_found(answered):
    posed, result = answered
    optima = result.metrics["optimum_by_hbm"]
    forged = {**result.metrics, "optimum_by_hbm": {size: 0.9 * score for size, score in optima.items()}}
    found = PROBLEM.proof_faults(result.model_copy(update={"metrics": forged}), posed)
    assert any(fault.startswith("metrics.optimum_by_hbm") for fault in found)


def test_an_answer_that_is_not_the_best_is_not_optimal(answered, tmp_path):
    """The optimum of a part of the space, claimed of all of it."""
    _, slower = answered
    posed = pose(PROBLEM, tiny_options(tmp_path, **SMALL | {"area_budget": "1.7159"}))
    result = PROBLEM.answer(posed, Run())
    assert slower.objective.value < result.objective.value
    forged = slower.model_copy(update={"settings": result.settings, "problem": result.problem})
    assert any(fault.startswith("bound must be at least") for fault in PROBLEM.proof_faults(forged, posed))


def test_a_long_proof_is_repeated_where_that_is_asked(dse, tmp_path, monkeypatch):
    monkeypatch.setattr(proof, "_AFFORDABLE_S", 0.0)
    options = tiny_options(tmp_path, **SMALL)
    words = [part for key, value in {**SMALL, "accelerators": 16, "global_batch": 32, "hbm_gb": "1"}.items()
             for part in (f"--{key.replace('_', '-')}", value)]  # fmt: skip
    out = tmp_path / "run"
    assert dse("codesign", *options.models, *words, "--workers", 0, "--quiet", "--out", out).code == 0
    checked = dse("check", out)
    assert checked.out == "ok\n"
    assert "not checked: bound: proving again that no architecture exceeds it takes as long" in checked.err
    proven = dse("check", "--prove", out)
    assert proven.out == "ok\n"
    assert "not checked: bound" not in proven.err
    document = json.loads((out / "result.json").read_text())
    document["metrics"]["optimum_by_hbm"]["1"] *= 1 - 1e-6
    document["seal"] = ""
    document["seal"] = seal_of(document)
    (out / "result.json").write_text(json.dumps(document))
    assert dse("check", "--prove", out).code == 1
