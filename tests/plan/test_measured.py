"""Predictions beside profiles of the run that they predict."""

import json

import pytest

from dse.plan.measured import comparison
from dse.problem import pose, problem_type
from dse.results.check import faults_of
from dse.run.run import Run
from dse.run.tables import Tables
from hardware.inputs import InputError
from tests.trace.profiles import GEMM, document, kernel, training_step, write

MODEL = {
    "schema": "dse.transformer/1", "name": "small", "layers": 4, "hidden": 512, "heads": 8, "kv_heads": 4,
    "vocabulary": 32000, "sequence": 512, "feed_forward": 1408,
}  # fmt: skip


@pytest.fixture
def model(tmp_path):
    (tmp_path / "model.yaml").write_text(json.dumps(MODEL))
    return str(tmp_path / "model.yaml")


def answered(model, profiles, **options):
    kind = problem_type("predict")
    given = {"accelerators": 2, "global_batch": 16, "plan": "data=2,recompute=none", **options}
    posed = pose(kind, kind.Options(model, measured=tuple(map(str, profiles)), **given))
    result = kind.answer(posed, Run())
    assert faults_of(result, posed) == []
    return posed, result, kind.view(result, posed, Tables())


def test_every_part_is_predicted_and_measured(model, tmp_path):
    _, result, view = answered(model, [write(tmp_path / "rank0.json", training_step(rank=0))])
    parts = result.metrics["measured"]
    measured_us = {name: pytest.approx(1e6 * part["measured_s"]) for name, part in parts.items()}
    assert measured_us == {
        "linear": 80.25, "attention": 41.0, "vector": 8.5, "optimizer": 0.0, "communication": 54.25, "copies": 5.0,
        "idle": 211.0, "step": 400.0,
    }  # fmt: skip
    assert parts["step"]["predicted_s"] == pytest.approx(result.metrics["step_s"])
    assert sum(part["predicted_s"] for name, part in parts.items() if name != "step") == pytest.approx(
        result.metrics["step_s"]
    )
    assert "400 µs measured" in view.first_notes[0]
    assert view.first_notes[0].count(" more)") + view.first_notes[0].count(" less)") == 3
    assert [table.title for table in view.first_tables][-1] == "Predicted and measured [ms]"


def test_a_profile_without_an_optimizer_is_doubted(model, tmp_path):
    _, _, view = answered(model, [write(tmp_path / "rank0.json", training_step(rank=0))])
    assert any("they may be of forward passes alone" in note for note in view.first_notes)


def test_recomputed_work_is_compared_with_what_it_repeats(model, tmp_path):
    path = write(tmp_path / "rank0.json", training_step(rank=0))
    posed, result, _ = answered(model, [path], plan="data=2,recompute=full")
    parts = result.metrics["measured"]
    assert "linear" not in parts
    assert parts["work"]["measured_s"] == pytest.approx(129.75e-6)
    times = result.metrics["time_s"]
    assert parts["work"]["predicted_s"] == pytest.approx(
        sum(times[part] for part in ("linear", "attention", "vector", "recompute"))
    )
    assert comparison(posed, times) == parts


def test_of_several_ranks_the_one_that_computes_longest_counts(model, tmp_path):
    content = training_step(rank=1)
    content["traceEvents"] += [kernel(GEMM, at, 20.0) for at in (300.0, 700.0)]
    paths = [write(tmp_path / "rank0.json", training_step(rank=0)), write(tmp_path / "rank1.json", content)]
    _, result, _ = answered(model, paths)
    assert result.metrics["measured"]["linear"]["measured_s"] == pytest.approx(100.25e-6)


def test_a_run_of_another_size_is_said(model, tmp_path):
    path = write(tmp_path / "rank0.json", training_step(rank=0, ranks=8))
    _, _, view = answered(model, [path])
    assert "the profile is of 8 ranks, the plan of 2 accelerators" in " ".join(view.notes)


def test_a_profile_without_steps_is_refused(model, tmp_path):
    path = write(tmp_path / "one.json", document([kernel(GEMM, 0, 5)]))
    with pytest.raises(InputError, match="must be a profile with marked steps"):
        answered(model, [path])


def test_another_profile_is_another_problem(model, tmp_path):
    first, second = (
        answered(model, [write(tmp_path / f"{rank}.json", training_step(rank=rank, arrives=9.0 * rank))])[0]
        for rank in range(2)
    )
    assert first.digest != second.digest


def test_a_profile_of_another_model_or_accelerator_is_said_to_be_one(model, tmp_path):
    content = training_step(rank=0)
    content["deviceProperties"] = [{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}]
    path = write(tmp_path / "rank0.json", content)
    notes = " ".join(answered(model, [path])[2].first_notes)
    assert "the profile is of NVIDIA A100-SXM4-80GB, the plan of h100-sxm" in notes
    assert "may be a profile of another model" not in notes
    assert "A100" not in " ".join(answered(model, [path], on="a100-sxm")[2].first_notes)
    wider = tmp_path / "wider.yaml"
    wider.write_text(json.dumps(MODEL | {"hidden": 768}))
    other = " ".join(answered(str(wider), [path], on="a100-sxm")[2].first_notes)
    assert "may be a profile of another model" in other


def test_a_profile_without_sizes_of_products_is_said_to_have_none(model, tmp_path):
    content = training_step(rank=0)
    for event in content["traceEvents"]:
        event.get("args", {}).pop("Input Dims", None)
    notes = " ".join(answered(model, [write(tmp_path / "rank0.json", content)])[2].first_notes)
    assert "the profile has no sizes of products" in notes
