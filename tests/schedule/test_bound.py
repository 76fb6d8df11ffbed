"""Bounds never exceed the optimum, and are exact where they should be."""

import numpy as np
import pytest
from hypothesis import given, settings

from dse.schedule.bound import lower_bound, makespan_lower_bound
from dse.schedule.dual_bound import cover_by_chains
from dse.schedule.precedence import precedence
from dse.schedule.problem import ScheduleOperator, ScheduleProblem
from dse.schedule.solve import solve
from tests.schedule.brute_force import optimum_s, problems, random_problem


@settings(max_examples=150, deadline=None)
@given(problems(max_operators=5))
def test_bound_is_below_the_optimum(problem):
    assert lower_bound(problem) <= optimum_s(problem) * (1 + 1e-12) + 1e-15


@pytest.mark.parametrize("seed", range(60))
def test_bound_is_below_the_makespan_of_larger_problems(seed):
    problem = random_problem(seed, 14, max_cores=6, density=0.15)
    assert lower_bound(problem) <= solve(problem).schedule.makespan_s * (1 + 1e-12)


def test_a_chain_is_bounded_exactly_by_its_shorter_latencies():
    operators = tuple(ScheduleOperator(f"op{i}", "vector", 2.0 + i, 3.0) for i in range(5))
    problem = ScheduleProblem("chain", 1, 1, operators, tuple((i, i + 1) for i in range(4)))
    assert lower_bound(problem) == pytest.approx(2 + 3 + 3 + 3 + 3)


def test_independent_work_of_one_kind_is_bounded_exactly():
    operators = tuple(ScheduleOperator(f"op{i}", "tensor", 3.0, 9.0) for i in range(8))
    assert lower_bound(ScheduleProblem("work", 4, 1, operators, ())) == pytest.approx(6.0)


def test_a_chain_on_all_cores_adds_to_work_beside_it():
    """Work that cannot overlap with a chain that must use all cores: neither path nor work alone sees it."""
    chain = tuple(ScheduleOperator(f"v{i}", "vector", 1000.0, 1.0) for i in range(4))
    work = (ScheduleOperator("t", "tensor", 10.0, 20.0),)
    problem = ScheduleProblem("both", 1, 64, chain + work, ((0, 1), (1, 2), (2, 3)))
    assert optimum_s(problem) == pytest.approx(14.0)
    assert lower_bound(problem) == pytest.approx(14.0, rel=0.02)


def test_idle_cores_beside_a_chain_count():
    """With two operators able to run at once, four cores are never all in use."""
    operators = tuple(ScheduleOperator(f"t{i}", "tensor", 8.0, 2.0) for i in range(4))
    problem = ScheduleProblem("idle", 4, 1, operators, ((0, 1), (2, 3)))
    assert lower_bound(problem) == pytest.approx(optimum_s(problem)) == pytest.approx(8.0)


def test_bounds_of_segments_add_up():
    problem = random_problem(5, 6, density=0.2)
    count = len(problem.operators)
    joint = ScheduleProblem(
        "twice",
        problem.tensor_cores,
        problem.vector_cores,
        problem.operators * 2,
        problem.edges
        + tuple((a + count, b + count) for a, b in problem.edges)
        + tuple((a, b + count) for a in range(count) for b in range(count)),
    )
    assert lower_bound(joint) == pytest.approx(2 * lower_bound(problem))
    assert solve(joint).schedule.makespan_s == pytest.approx(2 * solve(problem).schedule.makespan_s)


def test_columns_are_bounded_independently():
    problem = random_problem(8, 9)
    rng = np.random.default_rng(0)
    kinds = [operator.kind for operator in problem.operators]
    single_s, all_cores_s = rng.uniform(1, 9, (9, 50)), rng.uniform(0.5, 9, (9, 50))
    tensor_cores, vector_cores = rng.integers(1, 9, 50), rng.integers(1, 9, 50)
    together = makespan_lower_bound(kinds, problem.edges, single_s, all_cores_s, tensor_cores, vector_cores)
    for column in range(50):
        pick = slice(column, column + 1)
        one = makespan_lower_bound(
            kinds, problem.edges, single_s[:, pick], all_cores_s[:, pick], tensor_cores[pick], vector_cores[pick]
        )
        assert one[0] == together[column]


@pytest.mark.parametrize("seed", range(30))
def test_chain_cover_is_as_small_as_the_largest_antichain(seed):
    problem = random_problem(seed, 9, density=0.25)
    ancestor = precedence(9, problem.edges).ancestor
    member = np.random.default_rng(seed).random(9) < 0.7
    line = np.full(9, -1)
    chains = cover_by_chains(ancestor, member, line)
    antichain = 0
    for subset in range(1 << 9):
        chosen = [i for i in range(9) if subset >> i & 1 and member[i]]
        if not any(ancestor[i, j] or ancestor[j, i] for i in chosen for j in chosen):
            antichain = max(antichain, len(chosen))
    assert chains == antichain
    for i in range(9):
        assert (line[i] >= 0) == member[i]
        for j in range(i):
            if member[i] and member[j] and line[i] == line[j]:
                assert ancestor[i, j] or ancestor[j, i]
