"""Plans of ``dse parallel`` in the words of ``dse predict``, which reads them."""

import pytest

from dse.parallel.baselines import baselines
from dse.parallel.export.training_plan import PLAN_FILE, pipeline_training_plan, training_plan
from dse.parallel.formats import plan_document
from dse.parallel.pipeline.problem import PipelinePlan, PipelineProblem
from dse.parallel.prices import Prices
from dse.plan.options import PredictOptions, posed_problem
from dse.plan.training_plan import read_plan
from dse.predict.contract import PROBLEM
from dse.run.run import Run
from hardware.network_specs import network
from tests.parallel.pipeline.cases import profile_of
from tests.parallel.problems import mlp


def words(problem, plan, folder):
    """What a training plan reads in the file of a plan."""
    text = training_plan(problem, plan_document(problem, Prices(problem), plan)["arguments"])
    path = folder / PLAN_FILE
    path.write_text(text)
    return read_plan(str(path))


@pytest.mark.parametrize(
    ("mesh", "name", "expected"),
    [
        ("4", "data parallel", {"tensor": 1, "data": 4, "zero": 0, "microbatch": 16, "sequence_parallel": False}),
        ("4", "FSDP", {"tensor": 1, "data": 4, "zero": 3, "microbatch": 16}),
        ("4", "Megatron", {"tensor": 4, "data": 1, "zero": 0, "microbatch": 64}),
        ("data=2,model=4", "Megatron", {"tensor": 4, "data": 2, "zero": 0, "microbatch": 32}),
        ("pods=2,data=2,model=2", "Megatron", {"tensor": 2, "data": 4, "microbatch": 16}),
    ],
)
def test_the_words_are_those_of_plans_that_people_know(tmp_path, mesh, name, expected):
    problem = mlp(mesh)
    plan = baselines(problem, Prices(problem))[name]
    read = words(problem, plan, tmp_path)
    assert {key: read[key] for key in expected} == expected
    assert read["pipeline"] == read["context"] == 1
    assert read["tensor"] * read["data"] == problem.mesh.devices


def test_predict_takes_the_file(tmp_path):
    problem = mlp("data=2,model=4")
    path = tmp_path / PLAN_FILE
    plan = baselines(problem, Prices(problem))["Megatron"]
    path.write_text(training_plan(problem, plan_document(problem, Prices(problem), plan)["arguments"]))
    options = PredictOptions("llama3-8b", accelerators=8, global_batch=64, sequence=512, plan=str(path))
    result = PROBLEM.answer(posed_problem(options), Run())
    assert result.solution["plan"]["tensor"] == 4
    assert result.solution["plan"]["microbatch"] == 32


@pytest.mark.parametrize(
    "splits",
    [
        {"params['w1']": [[], []], "params['w2']": [[], []], "batch['x']": [[], []], "batch['y']": [[], []]},
        {"params['w1']": [[], []], "params['w2']": [[], []], "batch['x']": [["x"], []], "batch['y']": [[], ["x"]]},
        {"params['w1']": [[], []], "params['w2']": [["x"], []], "batch['x']": [[], []], "batch['y']": [[], []]},
    ],
    ids=["nothing is split", "samples and features", "the smaller matrix alone"],
)
def test_other_plans_have_no_words(splits):
    problem = mlp("x=4")
    assert set(splits) == {argument.name for argument in problem.graph.arguments}
    assert training_plan(problem, splits) is None


def test_an_input_may_stay_whole_and_most_bytes_decide_what_is_shared_out():
    problem = mlp("x=4")
    splits = {"params['w1']": [["x"], []], "params['w2']": [[], []], "batch['x']": [["x"], []], "batch['y']": [[], []]}
    assert "zero: 3" in training_plan(problem, splits).splitlines()
    splits |= {"params['w1']": [[], []], "params['w2']": [["x"], []]}
    assert "zero: 0" in training_plan(problem, splits).splitlines()


def test_tensors_outside_of_replicas_have_no_words():
    inside, outside = mlp("data=2,model=4"), mlp("model=4,data=2")
    splits = plan_document(inside, Prices(inside), baselines(inside, Prices(inside))["Megatron"])["arguments"]
    assert training_plan(inside, splits) is not None
    assert training_plan(outside, splits) is None


def test_a_pipeline_of_equal_widths_has_words(tmp_path):
    posed = PipelineProblem(profile_of(6, 1, 10**7), network("dapple"), 4, 2, 8, recompute=True)
    path = tmp_path / PLAN_FILE
    path.write_text(pipeline_training_plan("six points", posed, PipelinePlan((3,), (2,))))
    read = read_plan(str(path))
    assert (read["pipeline"], read["data"], read["recompute"], read["schedule"]) == (2, 2, "full", "1f1b")
    assert "microbatch" not in read
    assert pipeline_training_plan("six points", posed, PipelinePlan((3,), (1,))) is None
