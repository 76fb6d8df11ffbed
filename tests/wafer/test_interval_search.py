"""Trees by intervals against all trees of few kernels; the search among sequences against all placements."""

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.run.executor import InProcessExecutor
from dse.wafer.bound import area_bound_ticks
from dse.wafer.check import cost, violations
from dse.wafer.search import interval_dp
from dse.wafer.search.context import TREES, Incumbent, SearchContext
from dse.wafer.search.interval_dp import IntervalTask, IntervalTrees, bounds_of, crossings
from dse.wafer.search.interval_search import IntervalSearch, first_tasks, varied
from dse.wafer.search.ladder import ladder_of, turned
from dse.wafer.search.layout import as_columns, as_rows, measure
from dse.wafer.search.portfolio import passes, search
from dse.wafer.search.row_dp import depth_first_order, row_layouts
from dse.wafer.search.slicing_annealing import placement_of
from dse.wafer.shapes import NEVER, shape_table
from tests.wafer.brute_force import min_cost
from tests.wafer.small import blocks, chain
from tests.wafer.test_search import SMALL, ReadOnlyExecutor, small_problem
from tests.wafer.test_slicing_tree import is_normalised


def ladder_for(problem, *shares):
    table = shape_table(problem)
    floor = area_bound_ticks(problem, table)
    return table, ladder_of(problem, table, [floor * share for share in shares])


def min_heights(ladder, level, order):
    """[extent + 1] the least height of any tree over ``order`` for each width; every kernel, split and join tried."""
    extent = int(ladder.size[2])

    @cache
    def heights(begin, end):
        if begin == end:
            return tuple(int(each) for each in ladder.least[level, ladder.group[order[begin]]])
        best = [NEVER] * (extent + 1)
        for split in range(begin, end):
            one, other = heights(begin, split), heights(split + 1, end)
            for width in range(1, extent + 1):
                best[width] = min(best[width], one[width] + other[width])
                for part in range(1, width):
                    best[width] = min(best[width], max(one[part], other[width - part]))
        return tuple(best)

    return heights(0, len(order) - 1)


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (3, 0, 4, 2, 1)])
def test_without_a_price_of_distance_the_trees_are_the_smallest(order):
    problem = blocks()
    _, ladder = ladder_for(problem, 2, 5)
    for level in range(2):
        trees = IntervalTrees(ladder)
        trees(IntervalTask(order, level, 0.0))
        cells, _, scores = trees._room
        assert bounds_of(ladder).tolist() == list(range(1, 61))
        expected = [each if each <= 60 else np.inf for each in min_heights(ladder, level, order)[1:]]
        assert scores[cells[0, -1], 1].tolist() == expected
        assert scores[cells[0, -1], 0].tolist() == expected  # a staircase, and so a tree, is the same when turned


@pytest.mark.parametrize("entries", [10, 1_000_000])
def test_trees_are_legal_normalised_and_hold_less_distance_where_it_has_a_price(entries, monkeypatch):
    monkeypatch.setattr(interval_dp, "_ENTRIES", entries)
    problem = chain(7, distance=3, width=40, height=30)
    table, ladder = ladder_for(problem, 1, 2, 4)
    order, distances = depth_first_order(problem), []
    for price in (0.0, 0.5):
        tree = IntervalTrees(ladder)(IntervalTask(order, 2, price))
        assert is_normalised(tree.expression.tolist())
        placed = placement_of(problem, table, tree)
        assert violations(problem, placed) == []
        assert cost(problem, placed).total <= tree.cost + 1e-9
        distances.append(cost(problem, placed).distance)
    assert distances[1] <= distances[0]


def test_nothing_comes_of_a_time_limit_that_no_tree_keeps():
    problem = blocks()
    table = shape_table(problem)
    ladder = ladder_of(problem, table, [area_bound_ticks(problem, table) // 2])
    assert IntervalTrees(ladder)(IntervalTask(depth_first_order(problem), 0, 0.1)) is None


def test_edges_that_pass_each_place_of_a_sequence():
    problem = blocks()
    _, ladder = ladder_for(problem, 1)
    for order in (np.arange(5), np.array([4, 2, 0, 1, 3])):
        place = np.argsort(order)
        passing = [
            sum(min(place[a], place[b]) < at <= max(place[a], place[b]) for a, b in problem.edges) for at in range(5)
        ]
        assert crossings(ladder, order).tolist() == passing


@given(st.integers(0, 2**32), st.permutations(range(9)))
@settings(deadline=None)
def test_varied_sequences_have_the_same_kernels(seed, order):
    assert sorted(varied(order, np.random.default_rng(seed))) == list(range(9))


def test_first_tasks_spread_over_time_limits_prices_and_orders():
    _, ladder = ladder_for(blocks(), 1, 2, 3, 4, 5, 6, 7, 8)
    orders = [(0, 1, 2, 3, 4), (4, 3, 2, 1, 0)]
    for count in (0, 6, 24, 10**6):
        tasks = first_tasks(ladder, orders, count)
        assert len(tasks) == len({(each.order, each.level, each.price) for each in tasks})
        assert {each.order for each in tasks} == set(orders)
        assert 6 <= len(tasks) <= max(6, count)


@given(st.integers(0, 10**10))
def test_passes_are_all_moves_and_each_at_most_as_long_as_those_before_and_the_rest(moves):
    found = passes(moves)
    assert sum(found) == moves
    assert all(each > 0 for each in found)
    assert all(one <= other for one, other in pairwise(found))


@pytest.mark.parametrize("name", SMALL)
def test_sequences_alone_find_the_best_of_all_placements(name):
    problem = small_problem(name)
    table = shape_table(problem)
    incumbent = Incumbent(SearchContext(problem, InProcessExecutor()), table)
    trees = IntervalSearch(incumbent, area_bound_ticks(problem, table))
    trees.improve([depth_first_order(problem)], 1_500_000, 0)
    assert violations(problem, incumbent.best.placement) == []
    assert incumbent.best.total == pytest.approx(min_cost(problem))


@pytest.mark.parametrize("adapter", [0, 5])
def test_searching_on_never_raises_the_cost_and_is_the_same_anywhere(adapter):
    problem, ends = blocks(adapter), []
    table = shape_table(problem)
    for executor in (InProcessExecutor(), ReadOnlyExecutor()):
        told = []
        incumbent = Incumbent(SearchContext(problem, executor, improved=told.append), table)
        trees = IntervalSearch(incumbent, area_bound_ticks(problem, table))
        if adapter:
            trees.protocols = np.arange(0, len(table.protocols), 2)
        for phase in range(3):
            trees.improve([depth_first_order(problem)], 150_000, phase)
            assert [each.cost for each in trees.pool] == sorted(each.cost for each in trees.pool)
        totals = [each.total for each in told]
        assert totals
        assert totals == sorted(totals, reverse=True)
        assert all(violations(problem, each.placement) == [] for each in told)
        ends.append(incumbent.best)
    assert ends[0] == ends[1]


def test_trees_whose_protocols_are_given_have_those_and_count_adapters():
    problem = blocks(adapter=5)
    table = shape_table(problem)
    incumbent = Incumbent(SearchContext(problem, InProcessExecutor()), table)
    known, some = table.protocols, np.flatnonzero(table.protocols.c % 2 == 0)
    trees = IntervalSearch(incumbent, area_bound_ticks(problem, table), some)
    trees.improve([depth_first_order(problem)], 300_000, 0)
    assert trees.pool
    for member in trees.pool:
        assert set(member.tree.protocol.tolist()) <= set(some.tolist())
        placed = placement_of(problem, table, member.tree)
        assert violations(problem, placed) == []
        assert cost(problem, placed).total <= member.cost + 1e-9
        found = {(each.h, each.w, max(each.c)) for each in placed.placed}
        assert found <= {(known.h[each], known.w[each], known.c[each]) for each in some}


def test_rows_turned_by_a_right_angle_are_stacks_of_one_row():
    problem = chain(6, distance=3, width=40, height=25)
    _, ladder = ladder_for(problem, 3)
    order = depth_first_order(problem)
    for rows in row_layouts(turned(ladder), 0, order):
        assert np.isfinite(measure(turned(ladder), rows, 0)[0])
        columns = as_columns(rows, 25)
        assert np.isfinite(measure(ladder, columns, 0)[0])
        again = as_rows(columns)
        assert (again.mark == rows.mark).all()
        assert (again.order == rows.order).all()
        assert (again.height <= np.maximum(rows.height, 0)).all()


def test_a_search_without_trees_prices_no_tree():
    problem = blocks()
    plain = SearchContext(problem, InProcessExecutor(), moves=20_000, steps=frozenset())
    with_trees = SearchContext(problem, InProcessExecutor(), moves=20_000, steps=frozenset({TREES}))
    assert search(plain).total >= search(with_trees).total
