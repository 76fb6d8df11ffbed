"""A run of ``dse plan`` that is stopped: what it leaves, and what its check refuses."""

import numpy as np
import pytest

from dse.plan import answer as plan_answer
from dse.plan.bound import min_step_s
from dse.plan.contract import PROBLEM
from dse.plan.evaluate import evaluate
from dse.plan.options import PlanOptions, PredictOptions
from dse.plan.search import enumeration
from dse.plan.search.vocabulary import all_plans
from dse.plan.stack import list_stacks, stack
from dse.predict.contract import PROBLEM as PREDICT
from dse.results.check import faults_of
from dse.run.progress import StoppedError
from dse.run.run import Run
from tests.plan.problems import problem


def stopped_at(question, reason="time limit"):
    asked = 0

    def stop():
        nonlocal asked
        asked += 1
        return reason if asked >= question else None

    return stop


@pytest.fixture(autouse=True)
def nothing_remembered():
    """A complete search that is remembered is not stopped."""
    plan_answer._ENUMERATED.clear()


@pytest.fixture
def small_chunks(monkeypatch):
    """As many questions as a large problem asks."""
    monkeypatch.setattr(enumeration, "_CHUNK", 64)


def posed_for(model="llama3-8b"):
    return PROBLEM.pose(PlanOptions(model=model, accelerators=16, global_batch=64, sequence=1024))


def answered(question, reason="time limit", model="llama3-8b", chunk=64):
    """A run of small chunks, which asks as often as one of a large problem; its check takes them as they are."""
    posed = posed_for(model)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(enumeration, "_CHUNK", chunk)
        return posed, PROBLEM.answer(posed, Run(stop=stopped_at(question, reason)))


@pytest.fixture(scope="module")
def optimum():
    """The value of the run that is not stopped."""
    return PROBLEM.answer(posed_for(), Run()).objective.value


@pytest.mark.parametrize("reason", ["time limit", "interrupted"])
@pytest.mark.parametrize("question", [1, 2, 7])
def test_a_stopped_run_has_a_legal_plan_and_a_bound(optimum, question, reason):
    posed, result = answered(question, reason)
    assert result.metrics["stopped"] == reason
    assert result.status == ("interrupted" if reason == "interrupted" else "feasible")
    assert result.bound < optimum <= result.objective.value
    assert faults_of(result, posed) == []
    assert "before the run was stopped" in PROBLEM.view(result, posed, Run().tables).verdict


def test_what_a_stopped_run_says_is_checked_without_the_search(monkeypatch):
    """Which may take hours: nothing that it found is needed."""
    posed, result = answered(2, "time limit")
    assert result.bound == min_step_s(posed.problem)
    plan_answer._ENUMERATED.clear()
    monkeypatch.setattr(plan_answer, "enumerate_plans", None)
    assert faults_of(result, posed) == []


def test_nothing_is_priced_or_counted_after_the_stop(small_chunks, monkeypatch):
    monkeypatch.setattr(enumeration, "_BOUNDED", 64)
    monkeypatch.setattr(enumeration, "_BATCH", 64)
    answers = iter([None, None, "time limit"])  # asked once more, it has none
    enumerated = enumeration.enumerate_plans(posed_for().problem, lambda: next(answers))
    assert enumerated.stopped == "time limit"
    assert enumerated.count == enumerated.priced > 0


def test_a_stop_after_the_last_plan_costs_only_what_stands_beside_it():
    posed, result = answered(1, chunk=1 << 30)
    assert result.status == "optimal"
    assert result.metrics["without"] == {}
    assert faults_of(result, posed) == []


@pytest.mark.parametrize("part", ["without_parts", "without_constraints", "after_changes"])
def test_what_stands_beside_an_answer_stops_in_the_middle_of_a_search_and_leaves_no_part_of_one(monkeypatch, part):
    problem = posed_for().problem
    best = plan_answer.enumerated(problem).best
    monkeypatch.setattr(enumeration, "_CHUNK", 64)
    plan_answer._ENUMERATED.clear()
    plan_answer._AMONG.clear()
    plan_answer._FASTEST.clear()
    compute = {
        "without_parts": lambda stop: plan_answer.without_parts(problem, best, stop),
        "without_constraints": lambda stop: plan_answer.without_constraints(problem, best, stop),
        "after_changes": lambda stop: plan_answer.after_changes(problem, stop),
    }[part]
    with pytest.raises(StoppedError):
        compute(stopped_at(2))  # the first question is before the first search, the second in it
    remembered = plan_answer._ENUMERATED, plan_answer._AMONG, plan_answer._FASTEST
    assert [len(each) for each in remembered] == [0, 0, 0]


def test_bounds_alone_prove_that_nothing_fits_before_a_run_can_be_stopped():
    posed, result = answered(1, model="llama3-405b")
    assert (result.status, result.infeasibility is None) == ("infeasible", False)
    assert faults_of(result, posed) == []


def test_a_run_that_is_stopped_before_a_plan_fits_says_so(monkeypatch):
    bounded = enumeration._bounded

    def without_memory(*arguments):
        for rows, step_s, memory_bytes in bounded(*arguments):
            yield rows, step_s, np.zeros_like(memory_bytes)

    monkeypatch.setattr(enumeration, "_bounded", without_memory)
    posed, result = answered(1, model="llama3-405b")
    assert (result.status, result.solution, result.infeasibility) == ("unknown", {}, None)
    assert faults_of(result, posed) == []


def test_a_run_with_a_fixed_part_searches_for_no_other_plans_where_one_fits():
    options = PlanOptions(model="llama3-8b", accelerators=16, global_batch=64, sequence=1024, plan="tensor=2")
    posed = PROBLEM.pose(options)
    result = PROBLEM.answer(posed, Run())
    assert result.status == "optimal"
    assert result.evaluations == plan_answer.enumerated(posed.problem).priced
    assert faults_of(result, posed) == []


def test_a_proof_that_nothing_fits_stands_where_the_search_for_other_plans_is_stopped(small_chunks):
    options = PlanOptions(model="llama3-8b", accelerators=8, global_batch=64, sequence=8192, plan="data=8,zero=0")
    posed = PROBLEM.pose(options)
    whole = PROBLEM.answer(posed, Run())
    plan_answer._ENUMERATED.clear()
    own = len(range(0, plan_answer.enumerated(posed.problem).priced, 64))
    cut = PROBLEM.answer(posed, Run(stop=stopped_at(own)))
    assert (cut.status, cut.infeasibility.demand) == ("infeasible", whole.infeasibility.demand)
    assert whole.infeasibility.levers[0].startswith("--plan")
    assert not any(lever.startswith("--plan") for lever in cut.infeasibility.levers)
    assert faults_of(whole, posed) == faults_of(cut, posed) == []


def test_a_stopped_run_cannot_claim_a_better_bound_or_a_front():
    posed, result = answered(2)
    value = result.objective.value
    assert faults_of(result.model_copy(update={"bound": 0.99 * value, "gap": 1 / 99}), posed)
    assert faults_of(result.model_copy(update={"metrics": result.metrics | {"pareto": []}}), posed)


@pytest.mark.parametrize("reason", ["time limit", "interrupted"])
@pytest.mark.parametrize("question", [1, 2, 7])
def test_a_stopped_prediction_has_a_legal_plan_and_a_bound(small_chunks, question, reason):
    options = PredictOptions(model="llama3-8b", accelerators=16, global_batch=64, sequence=1024, plan="tensor=2")
    posed = PREDICT.pose(options)
    result = PREDICT.answer(posed, Run(stop=stopped_at(question, reason)))
    assert result.metrics["stopped"] == reason
    assert "best" not in result.metrics
    assert result.bound <= result.objective.value
    assert faults_of(result, posed) == []
    assert faults_of(result.model_copy(update={"metrics": result.metrics | {"stopped": None}}), posed)
    assert PREDICT.view(result, posed, Run().tables).verdict


def test_a_prediction_of_a_whole_plan_that_is_stopped_names_no_best_one():
    plan = "tensor=2,data=8,microbatch=1,zero=3,zero_copies=1"
    posed = PREDICT.pose(PredictOptions(model="llama3-8b", accelerators=16, global_batch=64, sequence=1024, plan=plan))
    own = PREDICT.answer(posed, Run())
    plan_answer._ENUMERATED.clear()
    plan_answer.enumerated(posed.problem)  # it is known, what stands beside it is not
    cut = PREDICT.answer(posed, Run(stop=lambda: "time limit"))
    assert (cut.status, cut.objective, cut.bound) == ("optimal", own.objective, own.bound)
    known = {key: each for key, each in own.metrics.items() if key not in ("best", "best_is_faster")}
    assert cut.metrics == known | {"stopped": "time limit"}
    assert faults_of(cut, posed) == []


@pytest.mark.parametrize("name", list_stacks())
@pytest.mark.parametrize(
    ("model", "devices", "precision"),
    [
        ("llama3-8b", 16, "bf16"),
        ("deepseek-v2", 8, "fp8"),
        ("gpt-oss-120b", 8, "bf16"),
        ("megatron-1.7b", 16, "fp8"),
    ],
)
def test_no_plan_whatever_is_faster_than_the_bound(model, devices, precision, name):
    """Plans with experts are several times slower than the bound, and three times as many on twice the devices."""
    batch = 2 * devices
    posed = problem(model, devices=devices, batch=batch, sequence=1024, precision=precision, software=stack(name))
    assert evaluate(posed, all_plans(posed)).step_s.min() >= min_step_s(posed)
