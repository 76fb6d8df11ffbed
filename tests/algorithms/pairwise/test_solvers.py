"""Each solver against enumeration: the mixed-integer program, message passing, the local search, and all together."""

import gzip
import os
import subprocess
import sys
import time
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from benchmarks import killing
from benchmarks.sharding_cases import sharding_case
from dse.algorithms.pairwise import highs
from dse.algorithms.pairwise.certificate import certified
from dse.algorithms.pairwise.core import core_of
from dse.algorithms.pairwise.evaluate import evaluate
from dse.algorithms.pairwise.highs import MipStatus, mip, relaxation
from dse.algorithms.pairwise.iopddl import read_problem
from dse.algorithms.pairwise.local_search import improved
from dse.algorithms.pairwise.message_passing import ascend
from dse.algorithms.pairwise.problem import FORBIDDEN, PairwiseProblem
from dse.algorithms.pairwise.reduction import reduce
from dse.algorithms.pairwise.search import Limits
from dse.algorithms.pairwise.solve import Solution, Status, solve
from dse.run.child import Heard
from tests.algorithms.pairwise.random_problems import best_cost, random_problem
from tests.shared_data import case_of_others

CASES = [(seed, memory) for seed in range(12) for memory in (None, 0.4, 0.6)]


NONE = np.zeros(0, np.int64)


def with_memory(problem, percent):
    """``problem`` with this share of its memory."""
    return replace(problem, usage_limit=problem.usage_limit * percent // 100)


@cache
def dense(seed, memory=0.5, **settings):
    """A problem of which reduction leaves something."""
    return random_problem(seed, nodes=6, edge_share=0.9, memory=memory, **settings)


@cache
def best_of(seed, memory=0.5, **settings):
    """The cost of the best plan of :func:`dense`; None where it has none."""
    return best_cost(dense(seed, memory, **settings))


def reduced_cases(count=30):
    """(problem, reduction, optimum) of problems of which reduction leaves something."""
    cases = []
    for seed in range(10 * count):
        memory = (None, 0.5, 0.65)[seed % 3]
        problem, optimum = dense(seed, memory), best_of(seed, memory)
        reduction = reduce(core_of(problem))
        if reduction is not None and reduction.core.costs and optimum is not None:
            cases.append((problem, reduction, optimum))
            if len(cases) == count:
                return cases
    raise AssertionError("too few problems are left by the reduction")


@pytest.fixture(scope="module")
def cases():
    return reduced_cases()


class LargeCase(NamedTuple):
    """A problem, its optimum, and its optimum with ``percent`` of its memory, where branching is needed."""

    problem: PairwiseProblem
    optimum: int
    percent: int
    tight_optimum: int


@pytest.fixture(scope="module", params=["ours", "G"])
def large_case(request, tmp_path_factory):
    """Case G of the contest, whose optima are known, and one of our own, whose optima are those of the mixed-integer
    program without reduction.
    """
    if request.param == "G":
        path = tmp_path_factory.mktemp("iopddl") / "G.json"
        path.write_bytes(gzip.decompress(case_of_others("iopddl", "asplos-2025-iopddl-G.json.gz").read_bytes()))
        return LargeCase(read_problem(path), 217_039, 98, 229_274)
    problem = sharding_case(2, nodes=120, edge_costs=20_000, memory=1.35)
    answers = [mip(core_of(with_memory(problem, percent)), 100_000) for percent in (100, 80)]
    assert all(each.status is MipStatus.OPTIMAL for each in answers)
    loose, tight = (evaluate(problem, each.choices).cost for each in answers)
    assert loose < tight
    return LargeCase(problem, loose, 80, tight)


def in_bound(certificate, reduction, optimum):
    bound = certificate.bound + reduction.constant
    assert bound <= optimum
    return bound == optimum


@pytest.mark.parametrize(("seed", "memory"), CASES)
def test_the_mixed_integer_program_finds_the_optimum_without_reduction(seed, memory):
    problem = dense(seed, memory)
    optimum, answer = best_of(seed, memory), mip(core_of(problem), 1000)
    if optimum is None:
        assert answer.status is MipStatus.INFEASIBLE
        assert answer.choices is None
        return
    assert answer.status is MipStatus.OPTIMAL
    assert evaluate(problem, answer.choices).is_feasible
    assert evaluate(problem, answer.choices).cost == optimum
    assert optimum - 1 < answer.bound <= optimum + 1e-6


def test_a_hint_is_a_plan_that_the_mixed_integer_program_begins_with(cases):
    for problem, reduction, optimum in cases[:3]:
        best = mip(reduction.core, 1000).choices
        answer = mip(reduction.core, 0, hint=best)
        assert evaluate(problem, reduction.expand(answer.choices)).cost == optimum


def test_duals_of_the_relaxation_prove_its_value(cases):
    closed = []
    for _, reduction, optimum in cases:
        result = relaxation(reduction.core, 10_000)
        certificate = certified(reduction.core, result.duals)
        value = sum(float(x @ c) for x, c in zip(result.marginals, reduction.core.costs, strict=True))
        assert value <= certificate.bound + 1e-6  # edges cost the rest
        closed.append(in_bound(certificate, reduction, optimum))
    assert sum(closed) > len(closed) / 4


def test_duals_of_an_unfinished_relaxation_are_a_bound_too(cases):
    for _, reduction, optimum in cases:
        result = relaxation(reduction.core, 1)
        in_bound(certified(reduction.core, result.duals), reduction, optimum)


def test_the_relaxation_of_a_problem_without_a_plan_has_no_solution():
    costs = [[0, 0]] * 3
    only_different = [[np.inf, 0, 0, np.inf]] * 3  # three nodes, two colours: no plan, but x = 1/2 is a solution
    fractional = PairwiseProblem.build(costs, [(0, 1), (1, 2), (0, 2)], only_different)
    assert relaxation(core_of(fractional), 1000) is not None
    assert mip(core_of(fractional), 1000).status is MipStatus.INFEASIBLE
    none = PairwiseProblem.build(costs, usages=[[1, 2]] * 3, intervals=[(0, 1)] * 3, usage_limit=2)
    assert relaxation(core_of(none), 1000) is None


def test_messages_give_a_bound_that_often_is_the_optimum(cases):
    closed = []
    for problem, reduction, optimum in cases:
        ascent = ascend(reduction.core, 500)
        closed.append(in_bound(certified(reduction.core, ascent.duals), reduction, optimum))
        if ascent.plan is not None:
            result = evaluate(problem, reduction.expand(ascent.plan))
            assert result.is_feasible
            assert result.cost >= optimum
    assert sum(closed) > len(closed) / 4


def test_multipliers_of_memory_raise_the_bound(large_case):
    core = reduce(core_of(with_memory(large_case.problem, large_case.percent))).core
    duals = ascend(core, 500).duals
    without = replace(duals, multipliers=np.zeros_like(duals.multipliers))
    assert certified(core, without).bound < certified(core, duals).bound
    assert (
        certified(core, duals).bound > certified(core, ascend(replace(core, members=(), limits=NONE), 500).duals).bound
    )


def test_the_local_search_finds_plans_that_cost_what_it_says(cases):
    hits = 0
    for problem, reduction, optimum in cases:
        core = reduction.core
        start = np.zeros(len(core.costs), np.int64)
        choices = improved(core, start, 5000, 10.0, seed=1)
        assert (choices == improved(core, start, 5000, 10.0, seed=1)).all()
        result = evaluate(problem, reduction.expand(choices))
        assert result.is_feasible
        assert result.cost == core.cost(choices) + reduction.constant
        hits += result.cost == optimum
    assert hits > len(cases) / 2


def test_the_local_search_finds_no_plan_where_there_is_none():
    problem = PairwiseProblem.build([[0, 1]] * 2, [(0, 1)], [[np.inf] * 4])
    assert improved(core_of(problem), np.zeros(2, np.int64), 1000, 1.0, seed=0) is None


@pytest.mark.parametrize("forbidden", [0.1, 0.4])
@pytest.mark.parametrize(("seed", "memory"), CASES)
def test_solutions_are_optimal(seed, memory, forbidden):
    problem = dense(seed, memory, forbidden=forbidden)
    optimum, solution = best_of(seed, memory, forbidden=forbidden), solve(problem)
    if optimum is None:
        assert solution == Solution(None, None, None, Status.INFEASIBLE)
        return
    assert (solution.value, solution.bound, solution.status) == (optimum, optimum, Status.OPTIMAL)
    assert evaluate(problem, solution.choices).is_feasible
    assert evaluate(problem, solution.choices).cost == optimum


@pytest.mark.parametrize(("seed", "memory"), CASES)
def test_below_a_cutoff_there_is_the_optimum_or_a_bound_no_less(seed, memory):
    problem, optimum = dense(seed, memory), best_of(seed, memory)
    if optimum is None:
        return
    assert solve(problem, cutoff=optimum + 1).value == optimum
    for cutoff in (optimum, optimum // 2):
        found = solve(problem, cutoff=cutoff)
        assert found.choices is None or found.value >= cutoff
        assert found.choices is not None or cutoff <= found.bound <= optimum


def test_a_cutoff_is_shared_out_to_separate_parts():
    seeds = [seed for seed in range(30) if best_of(seed, None) is not None][:3]
    parts = [dense(seed, None) for seed in seeds]
    nodes = np.cumsum([0, *(part.node_count for part in parts)])
    whole = PairwiseProblem.build(
        [costs for part in parts for costs in part.costs],
        [(u + nodes[n], v + nodes[n]) for n, part in enumerate(parts) for u, v in part.edges.tolist()],
        [costs for part in parts for costs in part.edge_costs],
    )
    optimum = sum(best_cost(part) for part in parts)
    assert solve(whole, cutoff=optimum + 1).value == optimum
    assert optimum >= solve(whole, cutoff=optimum).bound >= optimum
    assert solve(whole, cutoff=optimum // 2).bound <= optimum


@pytest.mark.parametrize(
    "limits", [Limits(passes=1, moves=0, max_linear_size=0, branch_work=0), Limits(branch_work=0, passes=3)]
)
def test_bounds_and_plans_hold_under_any_limit(limits):
    seen = set()
    for seed in range(20):
        memory = (None, 0.5)[seed % 2]
        optimum, solution = best_of(seed, memory), solve(dense(seed, memory), limits)
        seen.add(solution.status)
        if optimum is None:
            assert solution.status in (Status.INFEASIBLE, Status.UNKNOWN)
            continue
        assert solution.bound <= optimum
        if solution.choices is not None:
            assert solution.value == evaluate(dense(seed, memory), solution.choices).cost >= optimum
            assert (solution.status is Status.OPTIMAL) == (solution.bound == solution.value)
    assert Status.OPTIMAL in seen


@pytest.mark.parametrize("asked", [0, 1, 2, 5])
def test_an_interrupt_leaves_a_valid_answer(large_case, asked):
    reasons = iter([None] * asked)
    solution = solve(with_memory(large_case.problem, large_case.percent), stop=lambda: next(reasons, "time limit"))
    assert solution.status in (Status.FEASIBLE, Status.UNKNOWN)
    assert solution.bound < large_case.tight_optimum
    if solution.status is Status.FEASIBLE:
        assert solution.value == evaluate(large_case.problem, solution.choices).cost >= large_case.tight_optimum


def test_separate_parts_are_solved_separately():
    parts = [dense(seed, None, forbidden=0.0) for seed in (1, 2, 3)]
    nodes = np.cumsum([0, *(part.node_count for part in parts)])
    whole = PairwiseProblem.build(
        [costs for part in parts for costs in part.costs],
        [(u + nodes[n], v + nodes[n]) for n, part in enumerate(parts) for u, v in part.edges.tolist()],
        [costs for part in parts for costs in part.edge_costs],
    )
    assert solve(whole).value == sum(best_cost(part) for part in parts)


def test_an_empty_problem_costs_nothing():
    assert solve(PairwiseProblem.build([])) == Solution((), 0, 0, Status.OPTIMAL)


def test_a_large_case_is_proven(large_case):
    """XLA's own solution of case G costs 1,264,777."""
    solution, optimum = solve(large_case.problem), large_case.optimum
    assert (solution.value, solution.bound, solution.status) == (optimum, optimum, Status.OPTIMAL)
    result = evaluate(large_case.problem, solution.choices)
    assert result.is_feasible
    assert result.cost == optimum


def test_a_large_case_is_solved_by_the_mixed_integer_program_alone(large_case):
    reduction = reduce(core_of(large_case.problem))
    answer = mip(reduction.core, 1000)
    assert answer.status is MipStatus.OPTIMAL
    assert evaluate(large_case.problem, reduction.expand(answer.choices)).cost == large_case.optimum


def test_a_large_case_with_less_memory_needs_branching(large_case):
    tighter, optimum = with_memory(large_case.problem, large_case.percent), large_case.tight_optimum
    solution = solve(tighter)
    assert (solution.value, solution.bound, solution.status) == (optimum, optimum, Status.OPTIMAL)
    assert evaluate(tighter, solution.choices).excess_usage == 0
    assert solve(tighter, Limits(branch_work=0)).status is Status.FEASIBLE


def test_a_large_case_with_too_little_memory_has_no_plan(large_case):
    assert solve(with_memory(large_case.problem, 50)).status is Status.INFEASIBLE


@pytest.mark.parametrize("factor", [10**3, 10**6, 10**9])
def test_large_costs_are_proven_to_the_unit_or_the_gap_is_stated(factor):
    """Every cost times a large factor, and 1 more on some: plans differ in their last digits only."""
    for seed in range(5):
        small = dense(seed, 0.6)
        rng = np.random.default_rng(seed)

        def larger(costs, rng=rng):
            return np.where(costs < FORBIDDEN, costs * factor + rng.integers(0, 2, costs.shape), FORBIDDEN)

        problem = replace(small, costs=tuple(map(larger, small.costs)), edge_costs=tuple(map(larger, small.edge_costs)))
        optimum, solution = best_cost(problem), solve(problem)
        assert solution.value == optimum
        if optimum is not None:
            assert solution.bound <= optimum
            assert solution.bound == optimum if factor < 10**9 else solution.bound > optimum - factor // 10**6


def test_a_limit_of_the_branch_and_bound_leaves_a_bound_and_the_same_each_time():
    """Random costs on a random graph: the relaxation is far from any plan."""
    rng = np.random.default_rng(0)
    pairs = [rng.choice(40, 2, replace=False) for _ in range(100)]
    problem = PairwiseProblem.build(
        rng.integers(0, 1000, (40, 8)), [(u, v) for u, v in pairs], rng.integers(0, 1000, (100, 8, 8))
    )
    limits = Limits(moves=100, branch_work=1_000, guesses=())
    solution = solve(problem, limits)
    assert solution.status is Status.FEASIBLE
    assert 0 < solution.bound < solution.value == evaluate(problem, solution.choices).cost
    assert solve(problem, limits) == solution


def test_guesses_prove_what_a_poor_plan_leaves_open(large_case):
    """One pass of messages and no local search: the plan is poor, but a little above the bound there is the best."""
    few = Limits(passes=30, moves=0, branch_work=0)
    with_guesses, without = (solve(large_case.problem, limits) for limits in (few, replace(few, guesses=())))
    assert with_guesses.bound >= without.bound
    assert with_guesses.value <= without.value


@pytest.mark.parametrize(("seed", "memory"), CASES)
def test_what_guesses_prove_holds(seed, memory):
    """Guesses alone, and coarse ones, so that some leave no plan, some the best one, and some others too."""
    problem, optimum = dense(seed, memory), best_of(seed, memory)
    guesses = Limits(passes=3, guesses=(0.01, 0.05, 0.2, 0.8), moves=0, branch_work=0)
    solution = solve(problem, guesses)
    if optimum is None:
        assert solution.value is None
        return
    assert solution.bound <= optimum
    assert solution.value is None or optimum <= solution.value


def test_the_search_ends_within_the_gap_that_is_asked_for(large_case):
    tighter = with_memory(large_case.problem, large_case.percent)
    near = solve(tighter, Limits(gap=0.1))
    assert near.status is Status.FEASIBLE
    assert 0.9 * near.value <= near.bound <= large_case.tight_optimum <= near.value


class Once:
    """A stop signal that gives its reason when it has been asked so many times."""

    def __init__(self, times):
        self.left = times

    def __call__(self):
        self.left -= 1
        return "time limit" if self.left < 0 else None


def solvers():
    """The processes of this one in which HiGHS runs."""
    return [each for each in killing.descendants(os.getpid()) if "highs_process" in each.title]


def hard():
    """A problem whose mixed-integer program takes hours."""
    return random_problem(3, nodes=24, max_choices=29, edge_share=0.9)


@pytest.mark.parametrize("times", [0, 10])
def test_a_stop_ends_the_mixed_integer_program_amid_its_work(times):
    answer = mip(core_of(hard()), 10**9, stop=Once(times))
    assert (answer.status, answer.choices, answer.bound) == (MipStatus.LIMIT, None, -np.inf)
    assert not solvers()


def test_a_stopped_relaxation_proves_nothing():
    result = relaxation(core_of(hard()), 10**9, Once(0))
    assert result.marginals is None
    assert not any(each.any() for each in (*result.duals.first, *result.duals.second, result.duals.multipliers))


def test_a_solver_that_runs_out_of_memory_says_nothing(monkeypatch):
    monkeypatch.setattr(highs, "heard_from", lambda *_: Heard(b"torn", killed="SIGKILL"))
    with pytest.warns(UserWarning, match="HiGHS was ended by SIGKILL"):
        answer = mip(core_of(hard()), 10)
    assert (answer.status, answer.choices, answer.bound) == (MipStatus.LIMIT, None, -np.inf)
    with pytest.warns(UserWarning, match="HiGHS was ended by SIGKILL"):
        assert relaxation(core_of(hard()), 10).marginals is None


def test_a_stop_ends_the_local_search_amid_its_work():
    core = core_of(random_problem(3, nodes=12, max_choices=9, edge_share=0.9))
    choices = improved(core, np.zeros(12, np.int64), 10**12, 10.0, 1, Once(1))
    assert choices is None or core.cost(choices) is not None


def test_the_process_of_a_solver_ends_with_the_one_that_started_it():
    code = """
import os
from dse.algorithms.pairwise.core import core_of
from dse.algorithms.pairwise.highs import mip
from tests.algorithms.pairwise.test_solvers import hard, solvers
def stop():
    for each in solvers():
        print(each.pid, flush=True)
        os._exit(9)
mip(core_of(hard()), 10**9, stop=stop)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[3])
    assert ended.returncode == 9, ended.stderr
    (solver,) = map(int, ended.stdout.split())
    while (command := Path(f"/proc/{solver}/cmdline")).exists() and "highs_process" in command.read_text():
        time.sleep(0.05)


def test_a_problem_of_many_choices_stops_with_a_plan_and_a_bound():
    """When the stop comes, the branch and bound is under way."""
    problem, asked = hard(), []

    def stop():
        asked.append(bool(solvers()))
        return "interrupted" if asked[-1] else None

    found = solve(problem, Limits(passes=20, guesses=(), moves=10), stop=stop)
    assert asked[-1]
    assert found.status is Status.FEASIBLE
    assert evaluate(problem, found.choices).cost == found.value > found.bound > 0
