"""Changes that move together what stands together, and refinement by them."""

from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest

from dse.partition.check import cost_s, violations
from dse.partition.constraints.sampler import seeds_of
from dse.partition.evaluators.analytical import AnalyticalEvaluator
from dse.partition.search.proposals import bottleneck, field_basis, focused, mixed_orders, normals, shares_before
from dse.partition.search.refining import refine, refine_from, starts_of
from tests.partition.small import random_problem, valid_partitions
from tests.partition.test_methods import context_of

WORK = np.linspace(0.01, 0.99, 50)
SEEDS = np.arange(4000)[:, None]


def test_draws_are_normal_and_correlated_along_the_work():
    drawn = normals(SEEDS, field_basis(WORK, 0.07), 0.8)
    below = np.array([NormalDist().cdf(value) for value in np.sort(drawn[:, 25])])
    # Kolmogorov and Smirnov's distance, at one in a thousand.
    assert np.abs(below - np.linspace(0, 1, 4000)).max() < 1.95 / np.sqrt(4000)
    together = np.corrcoef(drawn.T)
    # 0.8 exp(−δ² / (2 · 0.07²)) at 0.02, 0.1 and 0.5 apart.
    for there in (1, 5, 25):
        wanted = 0.8 * np.exp(-((WORK[there] - WORK[0]) ** 2) / (2 * 0.07**2))
        assert together[0, there] == pytest.approx(wanted, abs=0.06)
    apart = np.corrcoef(normals(SEEDS, field_basis(WORK, 0.07), 0.0).T)
    assert np.abs(apart - np.eye(50)).max() < 0.08
    for first, last in ((7, 8), (0, 20), (5, 16)):
        np.testing.assert_array_equal(normals(SEEDS[first:last], field_basis(WORK, 0.07), 0.8), drawn[first:last])


def test_focused_changes_leave_other_operators_in_place():
    drawn = normals(SEEDS[:400], field_basis(WORK, 0.07), 0.8)
    kept = focused(drawn, SEEDS[:400], WORK, 0.75)
    looked_at = kept == drawn
    assert ((kept == drawn) | (kept == 0.0)).all()
    assert looked_at.any(axis=1).all()
    assert 0.2 < looked_at.all(axis=1).mean() < 0.3
    # Half of the others look at a stretch and one operator more, half at some anywhere.
    changes = np.abs(np.diff(looked_at.astype(int), axis=1)).sum(axis=1)
    parts = ~looked_at.all(axis=1)
    assert (changes[parts] <= 4).mean() > 0.4
    assert (changes[parts] > 4).any()
    np.testing.assert_array_equal(focused(drawn[3:4], SEEDS[3:4], WORK, 0.75), kept[3:4])
    np.testing.assert_array_equal(focused(drawn, SEEDS[:400], WORK, 0.0), drawn)


def test_most_changes_move_operators_of_a_known_bottleneck():
    drawn = normals(SEEDS[:400], field_basis(WORK, 0.07), 0.8)
    hot = np.array([31, 7, 20, 21])
    kept = focused(drawn, SEEDS[:400], WORK, 0.75, hot)
    whole = np.array([set(np.abs(row).tolist()) == {0.0, 2.0} for row in kept])
    assert 0.15 < whole.mean() < 0.25
    for row in kept[whole]:
        on, back = np.flatnonzero(row == 2.0), np.flatnonzero(row == -2.0)
        # The last ones go on, or the first ones back.
        assert (len(on) == 0) != (len(back) == 0)
        assert set(on) == set(hot[len(hot) - len(on) :])
        assert set(back) == set(hot[: len(back)])
    assert ((kept == drawn) | (kept == 0.0))[~whole].all()
    elsewhere = np.delete(np.arange(50), hot)
    only_hot = (kept[:, elsewhere] == 0.0).all(axis=1)
    assert 0.5 < only_hot.mean() < 0.75
    assert (kept[~only_hot][:, hot] != 0.0).any(axis=1).mean() > 0.6
    np.testing.assert_array_equal(focused(drawn[3:4], SEEDS[3:4], WORK, 0.75, hot), kept[3:4])
    np.testing.assert_array_equal(
        focused(drawn, SEEDS[:400], WORK, 0.75, hot[:0]), focused(drawn, SEEDS[:400], WORK, 0.75)
    )


@pytest.mark.parametrize("seed", range(8))
def test_the_bottleneck_is_that_of_the_definition(seed):
    problem = random_problem(seed)
    graph, draw = problem.graph, np.random.default_rng(seed)
    chip = np.array(sorted(valid_partitions(problem))[-1], dtype=np.int8)
    kinds = set()
    for _ in range(20):
        busy_s = draw.random((2, problem.chips))
        found = bottleneck(graph, chip, busy_s).tolist()
        kind, place = np.argwhere(busy_s == busy_s.max())[0].tolist()
        wanted = {operator for operator in range(len(graph)) if chip[operator] == place}
        if kind == 1:
            wanted = {end for edge in graph.edges.tolist() if chip[edge[0]] <= place < chip[edge[1]] for end in edge}
        assert found == [operator for operator in graph.topological_order.tolist() if operator in wanted]
        kinds.add(kind)
    assert kinds == {0, 1}


@pytest.mark.parametrize("seed", range(6))
def test_the_cost_is_the_time_of_the_busiest_part(seed):
    problem = random_problem(seed)
    chips = np.array(sorted(valid_partitions(problem)), dtype=np.int8)
    evaluator = AnalyticalEvaluator(problem)
    np.testing.assert_array_equal(evaluator.busy_s(chips).max(axis=(1, 2)), evaluator.costs(chips))
    assert evaluator.busy_s(chips).shape == (len(chips), 2, problem.chips)


def test_places_along_the_work_are_those_counted_by_hand():
    order = np.array([2, 0, 1])
    np.testing.assert_allclose(shares_before(np.array([2.0, 5.0, 1.0]), order), [0.25, 5.5 / 8, 0.0625])
    np.testing.assert_allclose(shares_before(np.zeros(3), order), [0.5, 5 / 6, 1 / 6])


def test_every_other_order_is_topological():
    orders = mixed_orders(np.arange(9), seeds_of(0, 0, 4))
    np.testing.assert_array_equal(orders[::2], np.tile(np.arange(9), (2, 1)))
    assert (np.sort(orders, axis=1) == np.arange(9)).all()
    assert (orders[1] != orders[3]).any()


@pytest.mark.parametrize("seed", range(6))
def test_refinement_is_valid_never_worse_and_the_same_each_time(seed):
    problem = random_problem(seed)
    context = context_of(problem, seed=seed, samples=120)
    found = refine(context)
    assert found == refine(context)
    assert found.evaluations == 120
    assert not violations(problem, found.chip)
    assert cost_s(problem, found.chip) == pytest.approx(found.cost_s)
    starts = starts_of(context)
    assert found.cost_s <= min(cost_s(problem, chip.tolist()) for chip in starts) * (1 + 1e-9)
    given = replace(context, starts=[tuple(starts[0].tolist())])
    np.testing.assert_array_equal(starts_of(given), starts[:1])


def test_refinement_alone_reaches_the_best_of_small_problems():
    """From everything on one chip on."""
    reached = 0
    for seed in range(10):
        problem = random_problem(seed)
        min_s = min(cost_s(problem, chip) for chip in valid_partitions(problem))
        one_chip = np.zeros((1, len(problem.graph)), dtype=np.int8)
        found = refine_from(context_of(problem, seed=seed, samples=600), one_chip)
        reached += found.cost_s <= min_s * (1 + 1e-9)
    assert reached >= 8


def test_refinement_stops_with_a_valid_answer():
    problem = random_problem(1)
    found = refine(context_of(problem, stop=lambda: "time limit"))
    assert not violations(problem, found.chip)
