"""``dse parallel`` on problems of the IOPDDL contest, and steps written as such problems."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dse
from benchmarks.planted_cases import planted_case
from dse.algorithms.pairwise import anytime, solve
from dse.algorithms.pairwise.anytime import Rounds
from dse.algorithms.pairwise.evaluate import evaluate
from dse.algorithms.pairwise.iopddl import read_problem, write_problem
from dse.algorithms.pairwise.problem import PairwiseProblem
from dse.algorithms.pairwise.search import Limits
from dse.problem import problem_type
from dse.results.session import Session
from dse.results.session import answer as answer_of
from tests.algorithms.pairwise.random_problems import best_cost, random_problem
from tests.parallel.problems import DUMPS, mlp_text
from tests.shared_data import shared_data

EXAMPLE = shared_data("pairwise", "example.json")


def solved(dse, *arguments):
    answer = dse("parallel", *arguments, "--json", "--quiet")
    assert answer.code in (0, 1), answer.err
    return json.loads(answer.out)


def test_an_example_is_solved_and_written_in_the_contests_form(dse, tmp_path):
    result = solved(dse, EXAMPLE, "--out", tmp_path / "run")
    assert (result["status"], result["objective"]["value"], result["bound"]) == ("optimal", 334, 334)
    choices = json.loads((tmp_path / "run" / "solution.json").read_text())
    assert evaluate(read_problem(EXAMPLE), choices).cost == best_cost(read_problem(EXAMPLE)) == 334
    assert dse("check", tmp_path / "run" / "result.json").code == 0


@given(seed=st.integers(0, 10**6), memory=st.sampled_from([None, 0.05, 0.5]), forbidden=st.sampled_from([0.1, 0.6]))
def test_answers_are_those_of_enumeration(seed, memory, forbidden):
    problem = random_problem(seed, nodes=5, memory=memory, forbidden=forbidden)
    answer = dse.parallel(problem)
    assert answer.value == best_cost(problem)
    assert answer.status == ("infeasible" if answer.value is None else "optimal")
    assert answer.check() == []
    if answer.infeasibility is not None and answer.infeasibility.resource == "usage_limit":
        needed = int(answer.infeasibility.demand)
        assert problem.usage_limit < needed
        assert best_cost(limited(problem, needed - 1)) is None
        assert best_cost(limited(problem, None)) is not None
    elif answer.value is None:
        assert best_cost(limited(problem, None)) is None


@pytest.mark.parametrize("seed", range(3))
def test_a_large_problem_has_a_plan_and_a_bound_that_is_proven_again(monkeypatch, seed):
    monkeypatch.setattr(anytime, "MAX_EXACT_SIZE", 0)
    few = anytime.Rounds(decoding=5, kicking=5)
    monkeypatch.setattr(anytime, "Rounds", lambda: few)
    problem, _, cost = planted_case(seed, nodes=150)
    answer = dse.parallel(problem)
    assert answer.status in ("feasible", "optimal")
    assert answer.result.bound <= cost <= answer.value
    assert answer.check() == []
    raised = answer.result.model_copy(update={"bound": answer.result.bound * 1.0001})
    assert any(
        "bound must be at most the proven" in each for each in problem_type("parallel").faults(raised, answer.posed)
    )
    many = {**answer.result.metrics, "passes": 10**9}
    more = answer.result.model_copy(update={"metrics": many})
    assert any("metrics.passes" in each for each in problem_type("parallel").faults(more, answer.posed))


def test_a_large_problem_without_enough_memory_says_how_much_is_needed(monkeypatch):
    monkeypatch.setattr(anytime, "MAX_EXACT_SIZE", 0)
    problem, _, _ = planted_case(0, nodes=150)
    answer = dse.parallel(limited(problem, problem.usage_limit // 3))
    assert answer.status == "infeasible"
    assert answer.infeasibility.demand > problem.usage_limit // 3
    assert answer.check() == []


def test_a_large_problem_of_which_nothing_is_known_says_what_was_tried(monkeypatch):
    monkeypatch.setattr(anytime, "MAX_EXACT_SIZE", 0)
    few = anytime.Rounds(decoding=2, kicking=2)
    monkeypatch.setattr(anytime, "Rounds", lambda: few)
    tied = [[0, 10**17], [10**17, 0]]
    problem = PairwiseProblem.build(
        [[3, 5]] * 6,
        [(0, 3), (1, 4), (2, 5)],
        [tied] * 3,
        usages=[[10, 0]] * 3 + [[0, 10]] * 3,
        intervals=[(0, 1)] * 3 + [(1, 2)] * 3,
        usage_limit=15,
    )
    answer = dse.parallel(problem)
    assert (answer.status, answer.result.metrics) == ("unknown", {"passes": 80})
    assert answer.check() == []
    assert "80 passes" in answer.view.verdict


def test_a_stopped_large_problem_has_its_first_plan(monkeypatch, tmp_path):
    monkeypatch.setattr(anytime, "MAX_EXACT_SIZE", 0)
    write_problem(planted_case(0, nodes=150)[0], tmp_path / "case.json")
    kind = problem_type("parallel")
    answer = answer_of(kind, kind.Options(str(tmp_path / "case.json")), Session(stop=lambda: "time limit"))
    assert answer.status == "feasible"
    assert answer.result.metrics["stopped"] == "time limit"
    assert answer.check() == []


def test_what_the_exact_search_leaves_open_has_a_plan_and_a_bound_near_it(monkeypatch):
    monkeypatch.setattr(solve, "Limits", lambda: Limits(passes=1, guesses=(), moves=1, max_linear_size=0))
    monkeypatch.setattr(anytime, "Rounds", lambda: Rounds(decoding=10, kicking=5))
    problem, _, cost = planted_case(0, nodes=150)
    answer = dse.parallel(problem)
    assert answer.status in ("feasible", "optimal")
    assert cost <= answer.value <= 1.02 * cost
    assert 0.98 * cost <= answer.result.bound <= cost
    assert answer.result.metrics["passes"] > 0
    assert answer.check() == []
    raised = answer.result.model_copy(update={"bound": float(cost + 1)})
    assert problem_type("parallel").faults(raised, answer.posed)


def test_a_large_problem_whose_memory_suffices_has_a_plan_and_a_bound_near_it(monkeypatch):
    monkeypatch.setattr(anytime, "MAX_EXACT_SIZE", 100)
    monkeypatch.setattr(anytime, "Rounds", lambda: Rounds(decoding=10, kicking=5))
    answer = dse.parallel(limited(planted_case(0, nodes=150)[0], None))
    assert answer.value <= 1.02 * answer.result.bound
    assert answer.result.metrics["passes"] > 0
    assert answer.check() == []


def limited(problem, limit):
    from dataclasses import replace

    return replace(problem, usage_limit=limit)


@pytest.mark.parametrize("name", ["problem.json", "problem.json.gz"])
@pytest.mark.parametrize(
    "asked",
    [
        ("--mesh", 4),
        ("--mesh", "data=2,model=2", "--memory-gb", 0.015),
        ("--mesh", 4, "--memory-gb", 0.1, "--activations", "--overlap"),
        ("--mesh", "model=4", "--pin", "params['w1']=-,model"),
    ],
)
def test_a_step_written_in_the_contests_form_has_the_same_optimum(dse, tmp_path, asked, name):
    (tmp_path / "step.hlo").write_text(mlp_text(64))
    step = solved(dse, tmp_path / "step.hlo", *asked, "--emit-iopddl", tmp_path / name)
    case = solved(dse, tmp_path / name)
    assert step["status"] == case["status"] == "optimal"
    assert case["objective"]["value"] * 1e-12 == pytest.approx(step["objective"]["value"], rel=1e-12)
    if "--memory-gb" in asked:
        peak = "peak_bytes" if "--activations" in asked else "state_bytes"
        assert case["metrics"]["peak_usage"] <= read_problem(tmp_path / name).usage_limit
        assert step["metrics"][peak] <= read_problem(tmp_path / name).usage_limit


def test_a_step_that_fits_nowhere_does_so_in_the_contests_form(dse, tmp_path):
    asked = ("--mesh", 2, "--memory-gb", 1e-6, "--emit-iopddl", tmp_path / "problem.json")
    step = solved(dse, DUMPS / "dlrm-tiny.hlo", *asked)
    case = solved(dse, tmp_path / "problem.json")
    assert step["status"] == case["status"] == "infeasible"
    assert case["infeasibility"]["demand"] == step["infeasibility"]["demand"]


@pytest.mark.parametrize(
    ("asked", "flag"),
    [
        (("--mesh", "data=2"), "--mesh"),
        (("--network", "nvlink2"), "--network"),
        (("--accelerator", "v100"), "--accelerator"),
        (("--memory-gb", 1), "--memory-gb"),
        (("--objective", "count"), "--objective"),
        (("--pin", "a=-"), "--pin"),
        (("--activations",), "--activations"),
        (("--emit-iopddl", "copy.json"), "--emit-iopddl"),
        (("--method", "linkage"), "--method"),
    ],
)
def test_options_of_training_steps_are_refused(dse, asked, flag):
    answer = dse("parallel", EXAMPLE, *asked)
    assert answer.code == 2
    assert answer.err.startswith(f"error: dse parallel: {flag}: ")
    assert "for a contest problem" in answer.err or "training step" in answer.err


def test_method_linkage_has_no_such_problem(dse, tmp_path):
    asked = ("--method", "linkage", "--emit-iopddl", tmp_path / "p.json")
    answer = dse("parallel", DUMPS / "dlrm-tiny.hlo", *asked)
    assert (answer.code, (tmp_path / "p.json").exists()) == (2, False)
    assert "--emit-iopddl" in answer.err


def test_a_file_that_cannot_be_written_is_named(dse, tmp_path):
    (tmp_path / "p.json").mkdir()
    answer = dse("parallel", DUMPS / "dlrm-tiny.hlo", "--mesh", 2, "--emit-iopddl", tmp_path / "p.json")
    assert answer.code == 2
    assert f"error: {tmp_path / 'p.json'}: cannot be written" in answer.err


def altered(change):
    document = copy.deepcopy(json.loads(EXAMPLE.read_text()))
    change(document["problem"])
    return json.dumps(document)


@pytest.mark.parametrize(
    ("text", "place", "rule"),
    [
        (altered(lambda problem: problem.pop("edges")), "problem.edges", "missing"),
        (altered(lambda problem: problem["nodes"]["costs"][2].pop()), "problem.nodes.usages.2", "must have 2 entries"),
        (altered(lambda problem: problem["edges"]["nodes"].append([0, 9])), "problem.edges.nodes.5", "from 0 to 4"),
        (altered(lambda problem: problem.update(usage_limit=0.5)), "problem.usage_limit", "must be a whole number"),
        (EXAMPLE.read_text()[:-40], "line ", "is not well-formed JSON"),
        ('{"problem": 3}', "problem", "must be a mapping"),
    ],
)
def test_malformed_files_are_refused_by_place_and_rule(dse, tmp_path, text, place, rule):
    path = tmp_path / "case.json"
    path.write_text(text)
    answer = dse("parallel", path)
    assert answer.code == 2
    lines = [line for line in answer.err.splitlines() if line.startswith(f"error: {path}: {place}")]
    assert any(rule in line for line in lines), answer.err


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        (EXAMPLE, {}),
        (DUMPS / "vgg-tiny.hlo", {"mesh": "data=2,model=2"}),
    ],
)
def test_an_interrupted_run_says_so_and_is_resumed(tmp_path, path, asked):
    kind = problem_type("parallel")
    options = kind.Options(str(path), **asked)
    stopped = answer_of(kind, options, Session(out=tmp_path / "run", stop=lambda: "interrupted"))
    assert (stopped.status, stopped.result.exit_code) == ("interrupted", 130)
    assert stopped.check() == []
    resumed = answer_of(kind, options, Session(out=tmp_path / "run", resume=True))
    assert resumed.status == "optimal"
    assert resumed.check() == []


def test_a_packed_file_that_ends_too_early_is_refused(dse, tmp_path):
    write_problem(read_problem(EXAMPLE), tmp_path / "case.json.gz")
    (tmp_path / "case.json.gz").write_bytes((tmp_path / "case.json.gz").read_bytes()[:-20])
    answer = dse("parallel", tmp_path / "case.json.gz")
    assert answer.code == 2
    assert f"error: {tmp_path / 'case.json.gz'}: is a truncated gzip file" in answer.err
