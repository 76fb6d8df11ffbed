"""Slicing trees: curves, places and moves against plain forms, annealing against all trees of few kernels."""

from functools import cache
from itertools import permutations, product

import numpy as np
import pytest
from numba import njit

from dse.run.executor import InProcessExecutor
from dse.run.progress import never_stop
from dse.wafer.bound import area_bound_ticks
from dse.wafer.check import cost, size_tiles, violations
from dse.wafer.options import WaferOptions
from dse.wafer.search import slicing_annealing
from dse.wafer.search.context import SearchContext
from dse.wafer.search.ladder import ladder_of
from dse.wafer.search.slicing_annealing import (
    SlicingAnnealing,
    SlicingCandidate,
    SlicingTask,
    placement_of,
    tree_of,
)
from dse.wafer.search.slicing_tree import one_row, slicing_tree
from dse.wafer.search.slicing_tree_kernels import ABOVE, BESIDE, exchange, exchange_kernels, measured, turn_chain
from dse.wafer.shapes import NEVER, shape_table, staircases
from tests.solving import answer
from tests.wafer.brute_force import min_cost
from tests.wafer.small import blocks, chain
from tests.wafer.test_search import ReadOnlyExecutor, through_pickle


def is_normalised(expression):
    """By the definition: every join has two subtrees before it, and no two equal joins follow each other."""
    depth = 0
    for place, symbol in enumerate(expression):
        depth += 1 if symbol >= 0 else -1
        if depth < 1 or (symbol < 0 and expression[place - 1] == symbol):
            return False
    return depth == 1


@cache
def all_expressions(kernels):
    """All normalised Polish expressions of so many kernels."""
    found = []
    for shape in product((0, BESIDE, ABOVE), repeat=2 * kernels - 1):
        if shape.count(0) != kernels:
            continue
        for order in permutations(range(kernels)):
            numbers = iter(order)
            expression = tuple(next(numbers) if symbol == 0 else symbol for symbol in shape)
            if is_normalised(expression):
                found.append(expression)
    return found


def test_there_are_as_many_trees_as_slicing_floorplans():
    """Two kernels: 2 joins × 2 orders. Three: 6 orders × (2 chains of equal joins + 4 of two different ones)."""
    assert [len(all_expressions(kernels)) for kernels in (1, 2, 3)] == [1, 4, 36]


def joined(expression):
    """(join, first, second) of tuples, or a kernel."""
    stack = []
    for symbol in expression:
        if symbol < 0:
            second, first = stack.pop(), stack.pop()
            stack.append((symbol, first, second))
        else:
            stack.append(symbol)
    return stack.pop()


def turned_curve(curve):
    """The least height for every width from the least width for every height."""
    return [next((h for h in range(1, len(curve)) if curve[h] <= w), NEVER) for w in range(len(curve))]


def widths(tree, least):
    """The least width of a tree for every height, by the definition."""
    if isinstance(tree, int):
        return [NEVER, *least[tree][1:]]
    join, *parts = tree
    one, other = (widths(part, least) for part in parts)
    if join == BESIDE:
        return [min(NEVER, a + b) for a, b in zip(one, other, strict=True)]
    heights = [min(NEVER, a + b) for a, b in zip(turned_curve(one), turned_curve(other), strict=True)]
    return turned_curve(heights)


@pytest.fixture
def small():
    problem = chain(4, width=40, height=24, inputs=6, outputs=5, window=3)
    table = shape_table(problem)
    return problem, table, [100, 300, 2000]


def test_what_is_too_long_is_what_the_plain_curves_say(small):
    problem, table, limits = small
    ladder = ladder_of(problem, table, limits)
    rng, met = np.random.default_rng(1), set()
    for level, limit in enumerate(ladder.limits.tolist()):
        least = staircases(problem, table, limit).least[table.group]
        for expression in rng.choice(all_expressions(4), 60):
            _, excess = measured(ladder, tree_of(ladder, expression), level)
            plain = widths(joined(expression.tolist()), least.tolist())
            upright = expression[-1] == BESIDE
            long = plain[24] if upright else turned_curve(plain)[40]
            wanted = NEVER if long >= NEVER else max(0, long - (40 if upright else 24))
            assert excess == wanted
            met.add(min(1, wanted) if wanted < NEVER else NEVER)
    assert met >= {0, 1}


def packed(tree, stairs, upright, given, left, low):
    """{kernel: (x, y, width, height)} of a tree from a corner on that gets ``given`` tiles of height, and its length.

    Of width, where it is not ``upright``. Whatever needs less than it is given lies in the middle.
    """
    least, bounded = stairs
    if isinstance(tree, int):
        long, side = int(least[tree][given]), int(bounded[tree][given])
        off = (given - side) // 2
        return {tree: (left, low + off, long, side) if upright else (left + off, low, side, long)}, long
    join, *parts = tree
    if (join == BESIDE) != upright:
        curve = widths(tree, least)
        long = curve[given] if upright else turned_curve(curve)[given]
        off = (given - (turned_curve(curve)[long] if upright else curve[long])) // 2
        corner = (left, low + off) if upright else (left + off, low)
        return packed(tree, stairs, not upright, long, *corner)[0], long
    found, along = {}, 0
    for part in parts:
        corner = (left + along, low) if upright else (left, low + along)
        placed, long = packed(part, stairs, upright, given, *corner)
        found |= placed
        along += long
    return found, along


def test_kernels_lie_where_the_plain_packing_puts_them(small):
    problem, table, limits = small
    ladder = ladder_of(problem, table, limits)
    rng, compared = np.random.default_rng(5), 0
    for level, limit in enumerate(ladder.limits.tolist()):
        found = staircases(problem, table, limit)
        stairs = found.least[table.group].tolist(), found.bounded[table.group].tolist()
        for expression in rng.choice(all_expressions(4), 60):
            tree = tree_of(ladder, expression)
            _, excess = measured(ladder, tree, level)
            if excess >= NEVER:
                continue
            compared += 1
            upright = expression[-1] == BESIDE
            plain, _ = packed(joined(expression.tolist()), stairs, upright, 24 if upright else 40, 0, 0)
            arrays = (tree.x, tree.y, tree.wide, tree.high)
            assert plain == {number: tuple(int(each[number]) for each in arrays) for number in range(4)}
    assert compared > 60


def min_width_of_rectangles(tree, height, rectangles):
    """The least width of a tree no higher than ``height`` over all choices of rectangles, one for each kernel."""

    def size(tree, chosen):
        if isinstance(tree, int):
            return chosen[tree]
        join, *parts = tree
        (a, b), (c, d) = (size(part, chosen) for part in parts)
        return (a + c, max(b, d)) if join == BESIDE else (max(a, c), b + d)

    sizes = (size(tree, chosen) for chosen in product(*rectangles))
    return min((width for width, high in sizes if high <= height), default=NEVER)


def test_curves_are_those_of_all_choices_of_rectangles():
    problem = chain(3, width=20, height=20, inputs=3, outputs=3, window=3)
    table = shape_table(problem)
    least = staircases(problem, table, 150).least[table.group].tolist()
    rectangles = [[(row[h], h) for h in range(1, 21) if row[h] < min(NEVER, row[h - 1])] for row in least]
    assert min(map(len, rectangles)) > 2
    for expression in all_expressions(3):
        tree = joined(expression)
        curve = widths(tree, least)
        for height in (6, 12, 16, 20):
            brute = min_width_of_rectangles(tree, height, rectangles)
            assert (curve[height] if curve[height] <= 20 else NEVER) == (brute if brute <= 20 else NEVER)


@pytest.mark.parametrize("adapter", [0, 7])
def test_trees_cost_what_the_checker_says(adapter):
    problem = blocks(adapter)
    table = shape_table(problem)
    floor = area_bound_ticks(problem, table)
    ladder = ladder_of(problem, table, [2 * floor, 5 * floor, 9 * floor])
    rng, legal = np.random.default_rng(3), 0
    for _ in range(150):
        expression = one_row(rng.permutation(5).tolist())
        expression[2::2] = rng.choice([BESIDE, ABOVE], 4).tolist()
        tree = tree_of(ladder, expression)
        if adapter:
            for number in range(5):
                fitting = np.flatnonzero(table.min_k[table.group[number], :, 0] < NEVER)
                tree.protocol[number] = rng.choice([-1, rng.choice(fitting)])
        level = int(rng.integers(3))
        total, excess = measured(ladder, tree, level)
        if not np.isfinite(total) or excess:
            continue
        legal += 1
        candidate = SlicingCandidate(tree.expression, tree.protocol, int(ladder.limits[level]), total)
        placed = placement_of(problem, table, candidate)
        assert violations(problem, placed) == []
        found = cost(problem, placed)
        allowed = ladder.limits[level] / table.ticks_per_time
        assert found.time <= allowed
        assert total == pytest.approx(found.total + problem.weights.time * (allowed - found.time))
        assert [size_tiles(each) for each in placed.placed] == list(zip(tree.wide, tree.high, strict=True))
    assert legal > 30


def test_kernels_and_joins_are_exchanged_where_the_result_is_normalised():
    tried = njit(lambda expression, place: exchange(expression, place))
    outcomes = set()
    for expression in (*all_expressions(3), *all_expressions(4)):
        for place in range(len(expression) - 1):
            array, wanted = np.array(expression), list(expression)
            wanted[place : place + 2] = wanted[place : place + 2][::-1]
            mixed = (expression[place] < 0) != (expression[place + 1] < 0)
            allowed = mixed and is_normalised(wanted)
            assert tried(array, place) == allowed
            assert array.tolist() == (wanted if allowed else list(expression))
            outcomes.add(allowed)
    assert outcomes == {True, False}


def outcomes(move, expression):
    """All that a move makes of an expression; what it says has changed must be where it differs."""
    found = set()
    for seed in range(60):
        array = np.array(expression)
        first, last = move(array, np.array([seed], dtype=np.uint64))
        assert [first, last] == np.flatnonzero(array != expression)[[0, -1]].tolist()
        found.add(tuple(array.tolist()))
    return found


def test_two_kernels_that_follow_each_other_are_exchanged():
    move = njit(lambda expression, seed: exchange_kernels(expression, seed))
    assert outcomes(move, (0, 1, BESIDE, 2, ABOVE, 3, BESIDE)) == {
        (1, 0, BESIDE, 2, ABOVE, 3, BESIDE),
        (0, 2, BESIDE, 1, ABOVE, 3, BESIDE),
        (0, 1, BESIDE, 3, ABOVE, 2, BESIDE),
    }


def test_joins_of_a_chain_are_turned_round():
    move = njit(lambda expression, seed: turn_chain(expression, seed))
    assert outcomes(move, (0, 1, BESIDE, 2, 3, ABOVE, BESIDE)) == {
        (0, 1, ABOVE, 2, 3, ABOVE, BESIDE),
        (0, 1, BESIDE, 2, 3, BESIDE, ABOVE),
    }
    assert all(map(is_normalised, outcomes(move, (0, 1, 2, 3, BESIDE, ABOVE, BESIDE))))


@pytest.mark.parametrize("adapter", [0, 5])
def test_annealing_finds_the_best_of_all_trees(adapter):
    problem = chain(4, adapter=0, width=30, height=26, inputs=6, outputs=5, window=3)
    if adapter:
        problem = blocks(adapter)
    table = shape_table(problem)
    floor = area_bound_ticks(problem, table)
    ladder = ladder_of(problem, table, [3 * floor])
    limit, kernels = int(ladder.limits[0]), len(problem.kernels)
    free = tree_of(ladder, one_row(range(kernels)))
    start = SlicingCandidate(free.expression, free.protocol, limit, np.inf)
    found = min(
        (SlicingAnnealing(ladder)(SlicingTask(start, seed, 20_000, 0.03)) for seed in range(3)), key=lambda c: c.cost
    )
    assert is_normalised(found.expression.tolist())
    # What annealing has brought up to date bit by bit is what it is from scratch.
    assert measured(ladder, tree_of(ladder, found.expression, found.protocol), 0) == (found.cost, 0)
    if not adapter:
        costs = [measured(ladder, tree_of(ladder, each), 0) for each in all_expressions(4)]
        assert found.cost == min(total for total, excess in costs if excess == 0)


def test_annealing_answers_with_what_fits_though_what_does_not_is_cheaper():
    problem = chain(4, width=30, height=26, inputs=6, outputs=5, window=3)
    table = shape_table(problem)
    floor = area_bound_ticks(problem, table)
    ladder = ladder_of(problem, table, [floor * 9 // 10, floor * 3 // 2])
    costs = [measured(ladder, tree_of(ladder, each), level) for each in all_expressions(4) for level in (0, 1)]
    least = min(total for total, excess in costs if excess == 0)
    assert min(costs)[0] < least
    free = tree_of(ladder, one_row(range(4)))
    start = SlicingCandidate(free.expression, free.protocol, int(ladder.limits[1]), np.inf)
    assert SlicingAnnealing(ladder)(SlicingTask(start, 0, 20_000, 0.1)).cost == least


def test_the_whole_search_is_near_the_best_of_all_placements():
    problem = chain(2, width=12, height=9, inputs=3, outputs=3)
    found = slicing_tree(SearchContext(problem, InProcessExecutor(), moves=60_000))
    assert violations(problem, found.placement) == []
    assert found.total == cost(problem, found.placement).total
    # Kernels of two trees side by side can be anywhere; the middle of what they are given need not be the best place.
    assert min_cost(problem) <= found.total <= 1.1 * min_cost(problem)


def test_it_is_a_method_and_the_seed_decides(tmp_path):
    problem = blocks(7)
    options = WaferOptions("blocks.kgraph", method="slicing-tree", moves=20_000)
    one, other = (answer(options, problem=problem, seed=4) for _ in range(2))
    assert one.method == "slicing-tree"
    assert one.solution == other.solution
    assert one.bound <= one.objective.value
    assert answer(options, problem=problem, seed=4, stop=lambda: "time limit").status in ("feasible", "unknown")


def test_the_answer_does_not_depend_on_where_annealing_runs():
    problem = blocks(7)
    here, there = (
        slicing_tree(SearchContext(problem, each, moves=9000)) for each in (InProcessExecutor(), ReadOnlyExecutor())
    )
    assert here == there


def test_a_run_ends_when_it_is_asked_to(small, monkeypatch):
    problem, table, limits = small
    ladder = ladder_of(problem, table, limits)
    start = tree_of(ladder, one_row(range(4)))
    task = SlicingTask(SlicingCandidate(start.expression, start.protocol, 2000, np.inf), 1, 25_000, 0.03)
    asked = []

    def stop():
        asked.append("asked")
        return "time limit" if len(asked) > 1 else None

    assert np.isfinite(SlicingAnnealing(ladder, stop)(task).cost)
    assert len(asked) == 2
    # Elsewhere there is nobody to ask.
    assert through_pickle(SlicingAnnealing(ladder, stop)).stop is never_stop
    # The larger the tree, the fewer moves: as many as make so many entries of its curves.
    monkeypatch.setattr(slicing_annealing, "_SLICE_WORK", 3 * start.curve.size)
    assert SlicingAnnealing(ladder, lambda: "enough")(task).moves == 3
