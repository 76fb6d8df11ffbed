"""``dse parallel --strategy all``: one definition of a step's time for every strategy, and the best of their plans."""

import json

import pytest

from dse.parallel import all_strategies
from dse.parallel.formats import plan_of, stated_from_document
from dse.parallel.options import ParallelOptions
from dse.parallel.pipeline import strategy as pipeline
from dse.parallel.pipeline.formats import plan_of as pipeline_plan_of
from dse.parallel.pipeline.length import length
from dse.parallel.pipeline.methods import exact
from dse.parallel.pipeline.problem import PipelinePlan
from dse.parallel.plan import picoseconds_of
from dse.parallel.prices import Prices
from dse.parallel.step_time import whole_step
from dse.problem import pose, problem_type
from dse.run.run import Run
from tests.parallel.pipeline.cases import plans
from tests.parallel.problems import DUMPS, mlp_text


@pytest.fixture
def step(tmp_path):
    path = tmp_path / "step.hlo"
    path.write_text(mlp_text(64))
    return str(path)


def _question(step, **asked):
    options = ParallelOptions(step, strategy="pipeline", mesh="4", stages=2, **asked)
    return pipeline.posed(options).problem


def test_a_step_is_a_pipeline_whose_stages_join_each_gradient_and_the_loss_and_update(step):
    question = _question(step, microbatches=3)
    plan = exact(question.context()).plan
    problem = whole_step(question).problem
    whole = length(problem, plan)
    weights = question.problem.profile.weight_bytes
    for (points, devices), of in zip(plan.ranges(problem), whole.stages, strict=True):
        own = weights[points.start : points.stop]
        loss = [4] if points.stop == len(weights) else []
        rings = problem.network.all_reduce_rings(devices)
        joined_s = sum(ring.seconds(size) for size in (*own[own > 0].tolist(), *loss) for ring in rings)
        update_s = question.source.update_s * own.sum() / weights.sum()
        assert of.all_reduce_s == pytest.approx(joined_s + update_s)
    assert whole.length_s > length(question.problem, plan).length_s


def test_one_stage_and_one_microbatch_on_one_device_take_the_whole_step(step):
    options = ParallelOptions(step, strategy="pipeline", mesh="1", stages=1, microbatches=1)
    whole = length(whole_step(pipeline.posed(options).problem).problem, PipelinePlan((), ()))
    sharding = pose(problem_type("parallel"), ParallelOptions(step, mesh="1")).problem
    prices = Prices(sharding)
    nothing = plan_of(prices, stated_from_document(sharding, _whole(sharding), "solution"))
    assert whole.length_s == pytest.approx(picoseconds_of(sharding, prices, nothing) * 1e-12)


def _whole(problem):
    arguments = {each.name: [[] for _ in problem.graph.values[each.value].dims] for each in problem.graph.arguments}
    return {"mesh": problem.mesh.text, "arguments": arguments, "operations": {}}


@pytest.mark.parametrize("microbatches", [1, 4])
def test_the_pipeline_of_the_shortest_step_is_that_of_all_enumerated_ones(step, microbatches):
    question = whole_step(_question(step, microbatches=microbatches))
    problem, context = question.problem, question.context()
    best_s = min(length(problem, plan).length_s for plan in plans(problem, list(context.device_cuts())))
    answer = exact(context)
    assert answer.length_s == pytest.approx(best_s, rel=1e-12)
    assert answer.bound_s == pytest.approx(best_s, rel=1e-9)


def test_a_users_function_runs_once_for_all_strategies(dse, tmp_path):
    runs = tmp_path / "runs.txt"
    source = tmp_path / "step.py"
    source.write_text(
        f"""
import torch

def small():
    with open({str(runs)!r}, "a") as file:
        file.write("run ")
    return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)), (torch.empty(64, 64),)

def loss(outputs):
    return outputs.sum()
"""
    )
    answer = dse("parallel", f"{source}:small", "--mesh", "2", "--strategy", "all", "--out", tmp_path / "out", "--json")
    assert answer.code == 0, answer.err
    assert runs.read_text().split() == ["run"]
    assert set(json.loads(answer.out)["metrics"]["strategies"]) == {"sharding", "pipeline", "hybrid"}
    checked = dse("check", tmp_path / "out")
    assert checked.code == 0, checked.err


def test_the_best_plan_is_that_of_the_shortest_step_and_its_bound_the_least(dse, step, tmp_path):
    out = tmp_path / "out"
    asked = ("parallel", step, "--mesh", "4", "--accelerator", "v100", "--microbatches", "4")
    answer = dse(*asked, "--strategy", "all", "--out", out, "--json")
    assert answer.code == 0, answer.err
    result = json.loads(answer.out)
    of = result["metrics"]["strategies"]
    alone = {name: json.loads(dse(*asked[:6], "--strategy", name, "--json").out) for name in ("sharding", "pipeline")}
    assert of["sharding"]["step_s"] == alone["sharding"]["objective"]["value"]
    question = _question(step, accelerator="v100", microbatches=4)
    plan = pipeline_plan_of(question, result["solution"]["plans"]["pipeline"], "result")
    assert of["pipeline"]["value"] == pytest.approx(length(question.problem, plan).length_s)
    assert of["pipeline"]["step_s"] == pytest.approx(length(whole_step(question).problem, plan).length_s)
    times = {name: each["step_s"] for name, each in of.items()}
    assert result["solution"]["best"] == min(times, key=times.get)
    assert result["objective"]["value"] == min(times.values())
    assert result["bound"] == min(each["bound_s"] for each in of.values())
    assert dse("check", out / "result.json").code == 0
    assert "Strategies" in (out / "report.html").read_text()
    other = tmp_path / "other"
    assert dse(*asked[:-1], "2", "--strategy", "all", "--out", other).code == 0
    compared = dse("compare", out / "result.json", other / "result.json")
    assert compared.code == 0
    assert "pipeline step" in compared.out


def test_where_nothing_fits_every_strategy_says_how_many_bytes_it_lacks(dse, step):
    asked = ("parallel", step, "--strategy", "all", "--mesh", "4", "--json", "--memory-gb")
    answer = dse(*asked, "0.001")
    assert answer.code == 1
    lack = json.loads(answer.out)["infeasibility"]
    needs = lack["where"]["least_demands"]
    assert set(needs) == {"sharding", "pipeline", "hybrid"}
    for demand in needs.values():
        assert f"{int(demand - lack['limit']):,} bytes too few" in lack["explanation"]
    assert lack["demand"] == min(needs.values())
    assert "least is" not in lack["explanation"]
    answer = dse(*asked, str(needs["pipeline"] / 2**30 * (1 + 1e-9)))
    assert answer.code == 0
    assert "pipeline" in json.loads(answer.out)["solution"]["plans"]


@pytest.mark.parametrize(
    ("asked", "rule"),
    [
        (("--method", "linkage"), "--method: linkage: must be exact with --strategy all"),
        (("--state", "weights"), "--state: weights: must be optimizer with --strategy all"),
        (("--state", "gradients"), "--state: gradients: must be optimizer with --strategy all"),
        (("--objective", "count"), "--objective: applies only to --strategy sharding"),
        (("--emit-piper", "file.json"), "--emit-piper: applies only to --strategy pipeline"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_line(dse, step, asked, rule):
    answer = dse("parallel", step, "--strategy", "all", *asked)
    assert answer.code == 2
    assert rule in answer.err
    assert len(answer.err.strip().splitlines()) == 1


def test_a_strategy_that_cannot_be_asked_is_listed_with_its_reason(dse, step):
    answer = dse("parallel", step, "--strategy", "all", "--mesh", "1", "--json")
    assert answer.code == 0, answer.err
    result = json.loads(answer.out)
    assert set(result["metrics"]["strategies"]) == {"sharding"}
    shown = " ".join(dse("parallel", step, "--strategy", "all", "--mesh", "1").out.split())
    assert "pipeline is not applicable: dse parallel: --mesh: 1: must be at least 2, the default of --stages" in shown


def _all(step, **asked):
    one = pose(problem_type("parallel"), ParallelOptions(step, strategy="all", **asked))
    return one, problem_type("parallel").answer(one, Run())


def test_a_single_stage_is_compared_with_the_sharded_step(step):
    _, result = _all(step, mesh="data=2,model=2", stages=1, microbatches=1)
    of = {name: each["step_s"] for name, each in result.metrics["strategies"].items()}
    assert set(of) == {"sharding", "pipeline", "hybrid"}
    assert result.solution["best"] == "sharding"
    assert of["hybrid"] == pytest.approx(of["sharding"], rel=1e-12)
    assert of["hybrid"] < of["pipeline"]
    _, row = _all(step, mesh="4", stages=1, microbatches=1)
    assert row.metrics["strategies"]["hybrid"]["step_s"] == of["hybrid"]
    assert row.metrics["strategies"]["sharding"]["step_s"] > of["hybrid"]


def test_the_notes_say_what_the_bound_holds_for(dse, step):
    shown = " ".join(dse("parallel", step, "--strategy", "all", "--mesh", "4", "--notes").out.split())
    assert "pipelines of exactly 2 stages (--device-cuts free), and hybrid plans of at most 2 stages" in shown


def test_a_solution_without_any_plan_is_a_fault(step):
    one, result = _all(step, mesh="4")
    without = {name: {**each, "step_s": None, "value": None} for name, each in result.metrics["strategies"].items()}
    nothing = result.model_copy(
        update={
            "solution": {"best": "", "plans": {}},
            "metrics": {**result.metrics, "strategies": without, "plans": {}},
        }
    )
    assert all_strategies.faults(nothing, one.problem) == ["a plan must be given"]


@pytest.mark.parametrize(("strategy", "row"), [("sharding", "mesh"), ("pipeline", None), ("all", "best")])
def test_results_without_a_plan_are_compared_by_their_strategy(step, strategy, row):
    one = pose(problem_type("parallel"), ParallelOptions(step, strategy=strategy, mesh="4", memory_gb=0.0001))
    result = problem_type("parallel").answer(one, Run())
    assert result.status == "infeasible"
    rows = problem_type("parallel").compared([result, result])
    assert rows is None if row is None else row in rows


def test_a_single_stage_of_one_microbatch_is_proven_where_its_sharding_is():
    _, result = _all(str(DUMPS / "vgg-tiny.hlo"), mesh="4", microbatches=1)
    of = result.metrics["strategies"]
    assert of["sharding"]["status"] == of["hybrid"]["status"] == "optimal"
    assert of["hybrid"]["step_s"] == pytest.approx(of["sharding"]["step_s"], rel=1e-12)
