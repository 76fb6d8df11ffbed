"""Equal operators in order, dual bounds that are ascended, and branching on modes: each against brute force."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ortools.linear_solver import pywraplp

from dse.schedule.dual_bound import core_shares, lines_beside
from dse.schedule.problem import ScheduleOperator, ScheduleProblem
from dse.schedule.search.layer import _MULTIPLIERS, _times
from dse.schedule.search.mode_branching import ModeBranching, packed, root_bound
from dse.schedule.search.reduce import NO_MODE, start_order
from dse.schedule.search.segment import build_segment, with_modes
from dse.schedule.search.segment_search import SearchLimits, serial_schedule
from dse.schedule.search.unit_problem import unit_problem
from dse.schedule.solve import solve, solve_search
from hardware.operations import CoreKind
from tests.schedule.brute_force import optimum_s, random_problem
from tests.schedule.layers import gpt3_backward, weight_gradients


def alike(seed: int, operators: int = 6) -> ScheduleProblem:
    """A random problem with few different operators: two kinds, one latency each, edges that are rare."""
    rng = np.random.default_rng(seed)
    kinds: tuple[CoreKind, ...] = ("tensor", "vector")
    latencies = [(float(rng.integers(2, 7)), float(rng.integers(1, 4))) for _ in kinds]
    drawn = rng.integers(len(kinds), size=operators)
    made = tuple(ScheduleOperator(f"op{i}", kinds[kind], *latencies[kind]) for i, kind in enumerate(drawn))
    edges = tuple((i, j) for j in range(operators) for i in range(j) if rng.random() < 0.25)
    return ScheduleProblem(f"alike{seed}", *map(int, rng.integers(1, 3, 2)), made, edges)


def segment_of(problem: ScheduleProblem):
    """The whole problem as one segment, and its units."""
    units = unit_problem(problem)
    return build_segment(
        units.kind, units.single, units.all_cores, units.covers, units.ancestor, units.capacity, _MULTIPLIERS, False
    ), units


def order_of(problem: ScheduleProblem) -> list[tuple[int, int]]:
    """Pairs of positions (a, b) of which b need not start before a."""
    units = unit_problem(problem)
    order = start_order(units.kind, units.single, units.all_cores, units.covers, units.ancestor)
    return [(int(units.order[a]), int(units.order[b])) for b, a in np.argwhere(order)]


@pytest.mark.parametrize("seed", range(30))
def test_an_optimal_schedule_starts_equal_operators_in_order(seed):
    problem = alike(seed)
    assert optimum_s(problem, order_of(problem)) == optimum_s(problem)


def test_most_random_problems_with_equal_operators_have_an_order():
    orders = [order_of(alike(seed)) for seed in range(60)]
    assert sum(map(bool, orders)) > 40


def test_gradients_that_nobody_waits_for_are_ordered_along_their_chain():
    problem = weight_gradients(3, 2, 2)
    named = {(problem.operators[a].name, problem.operators[b].name) for a, b in order_of(problem)}
    assert {("weight0", "weight1"), ("weight1", "weight2")} <= named
    assert ("weight0", "weight2") not in named  # Follows from these.
    assert {("chain0", "weight0"), ("chain1", "weight1")} <= named  # What others wait for goes first.
    assert not {("weight0", "chain0"), ("weight1", "chain1")} & named


def test_operators_are_not_ordered_against_what_waits_for_them():
    """Of two equal operators the one with fewer ancestors may have to wait where it has fewer descendants, too."""
    operators = tuple(ScheduleOperator(name, "tensor", 2.0, 3.0) for name in ("first", "free", "late", "last"))
    problem = ScheduleProblem(
        "late", 1, 1, (*operators[:3], ScheduleOperator("last", "tensor", 5.0, 6.0)), ((0, 2), (2, 3))
    )
    names = {(problem.operators[a].name, problem.operators[b].name) for a, b in order_of(problem)}
    assert ("first", "free") in names
    assert ("free", "late") not in names
    assert ("late", "free") not in names


@pytest.mark.parametrize("seed", range(30))
def test_search_finds_the_optimum_of_equal_operators(seed):
    problem = alike(seed)
    solution = solve(problem)
    assert solution.optimal
    assert solution.schedule.makespan_s == pytest.approx(optimum_s(problem), rel=1e-9)


@pytest.mark.parametrize("seed", range(40))
def test_bounds_of_segments_are_below_the_optimum(seed):
    problem = alike(seed) if seed % 2 else random_problem(seed, 6, density=0.2)
    segment, units = segment_of(problem)
    optimum = optimum_s(problem) / units.unit_s
    assert (segment.potential.sum(axis=1) <= optimum * (1 + 1e-9)).all()
    assert root_bound(segment) <= optimum * (1 + 1e-9)
    assert segment.potential[1].sum() >= segment.potential[0].sum() * (1 - 1e-12)


def test_the_bound_of_a_segment_counts_whole_operators():
    """Five alike on four cores, none of them on all: two of them share a core, so that shares of cores are too few."""
    operators = tuple(ScheduleOperator(f"op{i}", "tensor", 3.0, 3.0) for i in range(5))
    segment, units = segment_of(ScheduleProblem("five", 4, 1, operators, ()))
    on_single = with_modes(segment, segment.single, np.full_like(segment.all_cores, NO_MODE), _MULTIPLIERS)
    assert on_single.potential.sum(axis=1).max() * units.unit_s < 5.9
    assert root_bound(on_single) * units.unit_s == pytest.approx(6.0)


@pytest.mark.parametrize("cores", [(2, 2), (4, 4), (4, 16), (8, 8)])
def test_ascent_comes_close_to_the_best_dual_bound(cores):
    segment, _ = segment_of(weight_gradients(6, *cores))
    assert segment.potential[1].sum() == pytest.approx(best_dual_bound(segment), rel=0.01)


def best_dual_bound(segment) -> float:
    """The linear program of which the dual bounds are dual: shares of each operator on single cores, and their time."""
    solver = pywraplp.Solver.CreateSolver("GLOP")
    count, inf = len(segment.kind), solver.infinity()
    single = np.where(segment.single < NO_MODE, segment.single, 0).astype(float)
    all_cores = np.where(segment.all_cores < NO_MODE, segment.all_cores, 0).astype(float)
    share, width, beside = np.empty((4, count)), np.empty(2), np.empty((2, count), np.int64)
    for k in range(2):
        lines = len(set(segment.line[k].tolist()) - {-1})
        width[k] = max(1, min(int(segment.capacity[k]), lines))
        beside[k] = np.minimum(segment.capacity[k], lines_beside(segment.ancestor, segment.line[k], segment.uses[k]))
    core_shares(segment.uses, beside, width, share)
    on_one = [
        solver.NumVar(float(segment.all_cores[i] >= NO_MODE), float(segment.single[i] < NO_MODE), "")
        for i in range(count)
    ]
    time = solver.NumVar(0, inf, "")
    for k in range(3):
        work = sum(share[k, i] * single[i] * on_one[i] for i in range(count)) if k < 2 else 0
        path = [solver.NumVar(0, inf, "") for _ in range(count)]
        for i in range(count):
            own = (share[2 + k, i] if k < 2 else 1.0) * single[i] * on_one[i]
            solver.Add(path[i] >= own)
            solver.Add(time >= work + path[i])
            for j in segment.before[segment.first[i] : segment.first[i + 1]]:
                solver.Add(path[i] >= path[int(j)] + own)
    solver.Minimize(time + sum(all_cores[i] * (1 - on_one[i]) for i in range(count)))
    assert solver.Solve() == solver.OPTIMAL
    return solver.Objective().Value()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 9), max_size=7), st.integers(1, 4))
def test_packing_is_bounded_from_below(durations, cores):
    loads = (
        max(sum(each for each, chosen in zip(durations, cover, strict=True) if chosen == core) for core in range(cores))
        for cover in product(range(cores), repeat=len(durations))
    )
    assert packed(durations, cores) <= min(loads, default=0)


def test_packing_counts_whole_operators():
    assert packed([3] * 5, 4) == 6
    assert packed([9, 9, *[3] * 7], 4) == 12  # The long ones have a core each, the others two.
    assert packed([7, 2, 2], 2) == 7
    assert packed([], 2) == packed([], 0) == 0


@pytest.mark.parametrize("seed", range(40))
def test_branching_alone_finds_and_proves_the_optimum(seed):
    kinds = ("tensor", "vector")  # Fused operators may count fewer cores than they need.
    problem = alike(seed) if seed % 2 else random_problem(seed, 6, density=0.2, kinds=kinds)
    segment, units = segment_of(problem)
    branching = ModeBranching(segment, _MULTIPLIERS, 0, 8)
    best = serial_schedule(units.single, units.all_cores)
    bounds, makespans = [best.bound], [best.makespan]
    while bounds[-1] < makespans[-1]:
        best = branching.improve(best, 60)
        bounds.append(best.bound)
        makespans.append(best.makespan)
    assert best.makespan * units.unit_s == pytest.approx(optimum_s(problem), rel=1e-9)
    assert all(one <= other for one, other in pairwise(bounds))
    assert all(one >= other for one, other in pairwise(makespans))
    assert max(bounds) <= best.makespan


@pytest.mark.parametrize(("layers", "cores"), [(1, (2, 2)), (2, (2, 1)), (2, (2, 4))])
def test_small_backward_passes_with_weight_gradients(layers, cores):
    problem = weight_gradients(layers, *cores)
    solution = solve(problem)
    assert solution.optimal
    assert solution.schedule.makespan_s == pytest.approx(optimum_s(problem), rel=1e-9)


def test_branching_proves_what_the_search_in_time_leaves_open(monkeypatch):
    limits = SearchLimits(nodes=10_000)
    assert solve_search(gpt3_backward(), limits).optimal
    _times.cache_clear()
    monkeypatch.setattr(ModeBranching, "improve", lambda _self, best, *_: best)
    try:
        assert not solve_search(gpt3_backward(), limits).optimal
    finally:
        _times.cache_clear()


@pytest.mark.parametrize("states", [30, 300, 3_000])
def test_few_states_bound_the_work(states):
    """Work that stays open: many different operators without edges."""
    rng = np.random.default_rng(3)
    operators = tuple(ScheduleOperator(f"op{i}", "tensor", *rng.uniform(3.0, 9.0, 2)) for i in range(24))
    segment, units = segment_of(ScheduleProblem("wide", 3, 1, operators, ()))
    best = ModeBranching(segment, _MULTIPLIERS, 0, 8).improve(serial_schedule(units.single, units.all_cores), states)
    assert best.bound < best.makespan
    assert best.nodes <= 3 * states + 20_000
