"""The exact search against brute force, CP-SAT and SCIP, and the laws that makespans obey."""

import os
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import killing
from dse.results.result import FailedCheckError
from dse.run.child import Heard, heard_from
from dse.run.progress import never_stop
from dse.schedule import solve as solve_module
from dse.schedule.check import violations
from dse.schedule.formats import read_problem
from dse.schedule.problem import Schedule, ScheduleOperator, ScheduleProblem, ScheduleSolution
from dse.schedule.search import scip
from dse.schedule.search.cp_sat import solve_cp_sat
from dse.schedule.search.event_search import COUNTED_CORE, ON_ALL_CORES, SearchResult
from dse.schedule.search.layer import Layer, solve_many
from dse.schedule.search.reduce import NO_MODE
from dse.schedule.search.scip import solve_scip
from dse.schedule.search.segment_search import SearchLimits, list_schedule
from dse.schedule.search.unit_problem import solution, unit_problem
from dse.schedule.solve import METHODS, solve, solve_search
from hardware.inputs import InputError
from tests.schedule.brute_force import optimum_s, problems, random_problem
from tests.shared_data import shared_data

EXACT = 1e-9


def makespan_s(problem: ScheduleProblem) -> float:
    solution = solve(problem)
    assert solution.optimal
    return solution.schedule.makespan_s


@pytest.mark.parametrize(
    ("case", "optimum_ms"),
    [("bert17", 0.611672380952), ("chain72", 0.721013333333), ("heads2", 0.304274285714), ("heads4", 0.460312380952)],
)
def test_shared_cases_are_proven(case, optimum_ms):
    solution = solve(read_problem(shared_data("schedule", f"{case}.json")))
    assert solution.optimal
    assert 1e3 * solution.schedule.makespan_s == pytest.approx(optimum_ms, rel=EXACT)


@pytest.mark.parametrize("seed", range(120))
def test_search_finds_the_brute_force_optimum(seed):
    problem = random_problem(seed, 5, density=(0.1, 0.3, 0.5)[seed // 3 % 3])
    assert makespan_s(problem) == pytest.approx(optimum_s(problem), rel=EXACT)


@settings(max_examples=120, deadline=None)
@given(problems(max_operators=5))
def test_search_finds_the_brute_force_optimum_of_any_small_problem(problem):
    solution = solve(problem)
    optimum = optimum_s(problem)
    assert solution.schedule.makespan_s == pytest.approx(optimum, rel=EXACT, abs=1e-12)
    assert solution.bound_s == pytest.approx(optimum, rel=EXACT, abs=1e-12)


def test_fused_pairs_are_not_only_counted():
    """Instances within the counts of cores that have no assignment: found by comparing with cores of any number."""
    for seed in (32, 149, 257):
        problem = random_problem(seed, 6, density=0.15)
        assert _counting_is_too_short(problem)
        assert makespan_s(problem) == pytest.approx(optimum_s(problem), rel=EXACT)


def _counting_is_too_short(problem: ScheduleProblem) -> bool:
    from dse.schedule.search.cp_sat import _counting_model, _solve
    from dse.schedule.search.unit_problem import unit_problem

    if problem.tensor_cores == 1 == problem.vector_cores or all(op.kind != "fused" for op in problem.operators):
        return False
    units = unit_problem(problem)
    _, _, bound = _solve(_counting_model(units), units, 0, 1.0)
    return bound * units.unit_s < makespan_s(problem) * (1 - EXACT)


@pytest.mark.parametrize("seed", range(24))
def test_cp_sat_finds_the_optimum_of_the_search(seed):
    problem = random_problem(seed + 500, 10, max_cores=4, density=0.15)
    other = solve_cp_sat(problem)
    assert other.optimal
    assert violations(problem, other.schedule) == []
    assert other.schedule.makespan_s == pytest.approx(makespan_s(problem), rel=EXACT)


@pytest.mark.parametrize("seed", range(18))
def test_scip_finds_the_optimum_of_the_search(seed):
    problem = random_problem(seed + 900, 5, density=0.2)
    other = solve_scip(problem)
    assert violations(problem, other.schedule) == []
    assert other.schedule.makespan_s == pytest.approx(makespan_s(problem), rel=EXACT)
    assert other.bound_s <= other.schedule.makespan_s


@pytest.mark.parametrize(
    ("operators", "seed"), [(8, 0), (8, 1), (8, 2), (8, 3), (9, 0), (9, 1), (10, 1), (10, 2), (11, 1), (12, 1), (12, 2)]
)
def test_scip_finds_the_optimum_of_the_search_with_fused_operators(operators, seed):
    problem = random_problem(seed + 1300, operators, density=0.3)
    assert sum(each.kind == "fused" for each in problem.operators) >= 2
    other = solve_scip(problem)
    assert other.optimal
    assert violations(problem, other.schedule) == []
    assert other.schedule.makespan_s == pytest.approx(makespan_s(problem), rel=EXACT)


def test_scip_is_ended_amid_its_work():
    problem, asked = random_problem(7, 24, max_cores=3, density=0.1), []

    def stop():
        asked.append(any("scip_process" in each.title for each in killing.descendants(os.getpid())))
        return "interrupted" if asked[-1] else None

    found = solve_scip(problem, stop=stop)
    assert asked[-1]
    assert violations(problem, found.schedule) == []
    assert found.bound_s <= found.schedule.makespan_s
    assert not any("scip_process" in each.title for each in killing.descendants(os.getpid()))


def test_what_scip_had_found_before_a_stop_is_kept(monkeypatch):
    """Its output ends amid a line."""
    heard = []

    def torn(module, given, stop):
        heard.append(heard_from(module, given, never_stop).output)
        return Heard(heard[-1] + b'{"bound": 1', "interrupted")

    monkeypatch.setattr(scip, "heard_from", torn)
    problem = random_problem(900, 5, density=0.2)
    assert solve_scip(problem).schedule.makespan_s == pytest.approx(makespan_s(problem), rel=EXACT)
    assert b"\n" in heard[0]


def test_what_scip_had_found_before_memory_ran_out_is_kept(monkeypatch):
    def killed(module, given, stop):
        return Heard(heard_from(module, given, never_stop).output, killed="SIGKILL")

    monkeypatch.setattr(scip, "heard_from", killed)
    problem = random_problem(900, 5, density=0.2)
    with pytest.warns(UserWarning, match="SCIP was ended by SIGKILL"):
        assert solve_scip(problem).schedule.makespan_s == pytest.approx(makespan_s(problem), rel=EXACT)


def test_a_stop_ends_the_search_of_one_segment_amid_its_work():
    """With a schedule and a bound; without a stop it would go through a hundred million states."""
    problem, asked = random_problem(7, 60, max_cores=3, density=0.1), []

    def stop():
        asked.append(None)
        return "interrupted" if len(asked) > 3 else None

    found = solve_search(problem, SearchLimits(first_nodes=100, nodes=10**6), stop)
    assert violations(problem, found.schedule) == []
    assert 0 < found.bound_s < found.schedule.makespan_s


def test_scip_refuses_large_problems():
    operators = tuple(ScheduleOperator(f"op{i}", "vector", 1.0, 1.0) for i in range(60))
    with pytest.raises(InputError, match="at most 100000 transitivity rows, but these 60 operators need 205320"):
        solve(ScheduleProblem("wide", 1, 4, operators, ()), "scip")


def test_unknown_method_is_refused():
    with pytest.raises(InputError, match="no scheduling method of this name; known: auto, cp-sat, scip"):
        solve(random_problem(0, 3), "scipp")


def test_no_schedule_passes_unchecked(monkeypatch):
    def wrong(problem: ScheduleProblem, stop) -> ScheduleSolution:
        return ScheduleSolution(Schedule((0.0,), (1.0,), ((0,),)), 1.0, "wrong")

    monkeypatch.setattr(solve_module, "METHODS", {**METHODS, "wrong": wrong})
    with pytest.raises(FailedCheckError, match="must have an entry for each of"):
        solve(random_problem(0, 3), "wrong")


@pytest.mark.parametrize("seed", range(40))
def test_list_schedules_are_feasible(seed):
    """With the order of a schedule within the counts of cores, which may have no assignment."""
    problem = random_problem(seed, 9, density=0.15)
    units = unit_problem(problem)
    rng = np.random.default_rng(seed)
    on_one = (units.single < NO_MODE) & ((units.all_cores == NO_MODE) | (rng.random(9) < 0.7))
    core = np.where(on_one, COUNTED_CORE, ON_ALL_CORES)
    counted = SearchResult(True, 0, 0, np.arange(9), core, 0)
    listed = list_schedule(units.kind, units.single, units.all_cores, units.covers, units.capacity, counted)
    answer = solution(units, listed.start, listed.core, 0, "list")
    assert violations(problem, answer.schedule) == []
    assert answer.schedule.makespan_s == pytest.approx(listed.makespan * units.unit_s, rel=EXACT)
    assert ((listed.core == ON_ALL_CORES) == ~on_one).all()


def test_limits_leave_a_feasible_schedule_and_a_valid_bound():
    rng = np.random.default_rng(3)
    kinds = ["tensor", "vector", "fused"] * 8
    single_s = rng.uniform(1.0, 9.0, (24, 4))
    tight, loose = SearchLimits(first_nodes=20, nodes=30, width=2), SearchLimits(first_nodes=500, nodes=3_000)
    cores = np.array([1, 2, 3, 3])
    makespan, bound = solve_many(kinds, [], single_s, 0.5 * single_s, cores, cores[::-1], tight)
    better, better_bound = solve_many(kinds, [], single_s, 0.5 * single_s, cores, cores[::-1], loose)
    assert np.all(bound <= better_bound * (1 + EXACT))
    assert np.all(better <= makespan * (1 + EXACT))
    assert np.any(bound < makespan * (1 - EXACT))


@settings(max_examples=60, deadline=None)
@given(problems(max_operators=7), st.floats(1e-6, 1e6))
def test_scaling_latencies_scales_the_makespan(problem, factor):
    operators = tuple(
        replace(operator, single_s=factor * operator.single_s, all_cores_s=factor * operator.all_cores_s)
        for operator in problem.operators
    )
    scaled = makespan_s(replace(problem, operators=operators))
    assert scaled == pytest.approx(factor * makespan_s(problem), rel=EXACT, abs=1e-12 * factor)


@settings(max_examples=60, deadline=None)
@given(problems(max_operators=7), st.randoms(use_true_random=False))
def test_relabelling_operators_changes_nothing(problem, random):
    order = list(range(len(problem.operators)))
    random.shuffle(order)
    place = {old: new for new, old in enumerate(order)}
    relabelled = replace(
        problem,
        operators=tuple(problem.operators[old] for old in order),
        edges=tuple((place[a], place[b]) for a, b in problem.edges),
    )
    assert makespan_s(relabelled) == pytest.approx(makespan_s(problem), rel=EXACT, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(problems(max_operators=7))
def test_reversing_all_edges_keeps_the_makespan(problem):
    reverse = replace(problem, edges=tuple((b, a) for a, b in problem.edges))
    assert makespan_s(reverse) == pytest.approx(makespan_s(problem), rel=EXACT, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(problems(max_operators=7))
def test_more_cores_of_equal_latencies_are_never_slower(problem):
    more = replace(problem, tensor_cores=problem.tensor_cores + 1, vector_cores=problem.vector_cores + 1)
    assert makespan_s(more) <= makespan_s(problem) * (1 + EXACT)


def relaxed(problem: ScheduleProblem, rule: str) -> ScheduleProblem:
    """``problem`` without one of its rules, where the rule can be taken away by changing the instance."""
    match rule:
        case "precedence":
            return replace(problem, edges=())
        case "tensor cores":
            return replace(problem, tensor_cores=9)
        case "vector cores":
            return replace(problem, vector_cores=9)
        case "fused occupies a tensor core":
            kinds = {"fused": "vector"}
        case "fused occupies a vector core":
            kinds = {"fused": "tensor"}
        case "all cores exclude the rest":
            free = tuple(replace(op, single_s=min(op.single_s, op.all_cores_s)) for op in problem.operators)
            return replace(problem, operators=free)
        case _:
            return replace(
                problem, operators=tuple(replace(op, all_cores_s=100 * op.single_s) for op in problem.operators)
            )
    return replace(problem, operators=tuple(replace(op, kind=kinds.get(op.kind, op.kind)) for op in problem.operators))


@pytest.mark.parametrize(
    "rule",
    [
        "precedence",
        "tensor cores",
        "vector cores",
        "fused occupies a tensor core",
        "fused occupies a vector core",
        "all cores exclude the rest",
        "an operator may run on all cores",
    ],
)
def test_every_rule_decides_some_instance(rule):
    instances = [random_problem(seed, 6, max_cores=2) for seed in range(60)]
    assert any(
        makespan_s(relaxed(problem, rule)) != pytest.approx(makespan_s(problem), rel=EXACT) for problem in instances
    )


def test_columns_equal_single_problems():
    layer = [random_problem(seed, 9, density=0.2) for seed in range(3)][2]
    rng = np.random.default_rng(1)
    columns = 12
    kinds = [operator.kind for operator in layer.operators]
    single_s = rng.integers(1, 20, (9, columns)) / 1.05e9
    all_cores_s = rng.integers(1, 20, (9, columns)) / 1.05e9
    tensor_cores, vector_cores = rng.integers(1, 5, columns), rng.integers(1, 5, columns)
    makespan, bound = solve_many(kinds, layer.edges, single_s, all_cores_s, tensor_cores, vector_cores)
    for column in range(columns):
        problem = ScheduleProblem(
            "column",
            int(tensor_cores[column]),
            int(vector_cores[column]),
            tuple(
                ScheduleOperator(f"op{i}", kind, single_s[i, column], all_cores_s[i, column])
                for i, kind in enumerate(kinds)
            ),
            layer.edges,
        )
        assert makespan[column] == pytest.approx(makespan_s(problem), rel=EXACT)
        assert bound[column] == makespan[column]
        times = single_s[:, column], all_cores_s[:, column]
        cores = problem.tensor_cores, problem.vector_cores
        schedule = Layer(kinds, layer.edges).schedule(*times, *cores).schedule
        assert violations(problem, schedule) == []
        assert schedule.makespan_s == pytest.approx(makespan[column], rel=EXACT)


def test_a_layer_without_operators_takes_no_time():
    assert Layer([], []).makespan(np.zeros(0), np.zeros(0), 1, 1) == (0.0, 0.0)
    assert solve(ScheduleProblem("empty", 1, 1, (), ())).schedule.makespan_s == 0.0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("questions", [0, 3])
def test_a_stop_leaves_a_schedule_and_a_bound(method, questions):
    """At once, and while the solver is at work: the two general ones need minutes."""
    generator = np.random.default_rng(3)
    kinds = generator.choice(["tensor", "vector", "fused"], 30)
    times = 1e-4 * generator.integers(1, 9, 30)
    operators = tuple(ScheduleOperator(f"o{i}", kinds[i], times[i], 0.6 * times[i]) for i in range(30))
    edges = tuple((i, j) for i in range(30) for j in range(i + 1, min(30, i + 9)) if generator.random() < 0.15)
    problem, asked = ScheduleProblem("stopped", 2, 3, operators, edges), count()
    stopped = solve(problem, method, lambda: "time limit" if next(asked) >= questions else None)
    assert violations(problem, stopped.schedule) == []
    assert 0 <= stopped.bound_s <= stopped.schedule.makespan_s
