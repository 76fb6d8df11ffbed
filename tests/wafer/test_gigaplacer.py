"""GigaPlacer as printed: sizes, rows, judgments and refinements by their definitions, answers beside all placements."""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations, pairwise, permutations, product

import numpy as np
import pytest

from dse.reproduce.gigaplacer.published import read_published
from dse.run.executor import InProcessExecutor
from dse.run.progress import never_stop
from dse.wafer.check import cost, kernel_time, memory_words, size_tiles, violations
from dse.wafer.problem import PlacedKernel, Weights
from dse.wafer.search.context import SearchContext
from dse.wafer.search.gigaplacer import method
from dse.wafer.search.gigaplacer.adapter_refinement import fewer_adapters
from dse.wafer.search.gigaplacer.distance_refinement import WINDOW, less_distance
from dse.wafer.search.gigaplacer.instance import distance, instance_of, slowest
from dse.wafer.search.gigaplacer.judgment import (
    any_rows,
    height_of_row,
    one_row,
    row_and_strips,
    some_rows,
    strips_and_row,
)
from dse.wafer.search.gigaplacer.method import ALPHA, STRATEGIES, answered, gigaplacer
from dse.wafer.search.gigaplacer.rows import Cut, nothing_chosen, placed_rows, placement_of
from dse.wafer.search.gigaplacer.sizing import pruned_pairs, ticks_per_time
from dse.wafer.search.gigaplacer.time_search import area_weight, estimated_time, min_time
from tests.wafer.brute_force import min_cost
from tests.wafer.small import blocks, chain, conv_line, graph_text, problem_from
from tests.wafer.test_brute_force import random_tiny_problem


def weighted(problem, distance=1.0, adapter=1.0):
    return replace(problem, weights=Weights(1.0, distance, adapter))


def paper_problem(letter):
    return read_published().cases[letter].problem(letter)


@pytest.fixture
def few_times(monkeypatch):
    """Fewer time limits above the least one: it takes a tenth of the time."""
    monkeypatch.setattr(method, "ALPHAS", 8)


@pytest.fixture
def residual():
    """Twelve kernels with skip edges, no two neighbours of one size."""
    nodes = [
        conv_line(n, height=8, width=8, window=1 + 2 * (n % 2), inputs=4 + n % 3, outputs=4 + n % 4)
        for n in range(1, 13)
    ]
    edges = [(n, n + 1) for n in range(1, 12)] + [(n, n + 3) for n in range(1, 10, 3)]
    joined = [(f"conv[{one}]", f"conv[{other}]") for one, other in edges]
    return problem_from(graph_text(nodes, joined, width=60, height=60, distance=2, adapter=5))


LIMIT = 2000


def cuts_of(problem, judge, limit=LIMIT):
    instance = instance_of(problem)
    cut = judge(instance, limit)
    assert cut is not None
    return instance, placed_rows(instance.sizes, instance.order, cut)


def test_area_weights_are_those_of_the_paper():
    kernels = {kernel.kind: kernel for kernel in paper_problem("A").kernels}
    values = {kind: dict(kernel.values) for kind, kernel in kernels.items()}
    for kind, share in (("cblock", Fraction(29, 64)), ("dblock", Fraction(17, 16))):
        h, w, f = (values[kind][name] for name in "hwf")
        assert area_weight(kernels[kind]) == share * h * w * f**2
    (conv,) = problem_from(graph_text([conv_line(1, 8, 6, 3, 5, 7, 2)], [])).kernels
    assert area_weight(conv) == Fraction(8 * 6 * 5 * 7 * 3 * 3, 4)


def test_pairs_that_are_left_out_bring_no_less_time():
    for kernel in (*blocks().kernels, paper_problem("A").kernels[0]):
        left = pruned_pairs(kernel, 50)

        def rounds(h, w, kernel=kernel):
            return tuple((-(-each.height // h), -(-each.width // w)) for each in kernel.convolutions)

        smallest = {}
        for h, w in product(range(1, kernel.max_rows + 1), range(1, kernel.max_columns + 1)):
            if 2 * h * w <= 50:
                smallest.setdefault(rounds(h, w), (h, w))
        assert sorted(left) == sorted(smallest.values())


@pytest.mark.parametrize("seed", range(3))
def test_every_size_keeps_height_time_and_memory(seed):
    problem, limit, sized = random_tiny_problem(np.random.default_rng(seed)), 40, 0
    for kernel in problem.kernels:
        alone = replace(problem, kernels=(kernel,), edges=())
        instance = instance_of(alone)
        for height in range(1, problem.wafer.height_tiles + 1):
            if height_of_row(instance, nothing_chosen(instance.sizes), limit, 0, 1) > height:
                continue
            rows = placed_rows(instance.sizes, instance.order, Cut((0,), (height,), limit))
            placement = placement_of(alone, rows)
            (placed,) = placement.placed
            sized += 1
            assert violations(alone, placement) == []
            assert size_tiles(placed) == (rows.wide[0], rows.high[0])
            assert rows.high[0] <= height
            assert memory_words(kernel, placed) <= problem.wafer.memory_words
            assert kernel_time(kernel, placed) * ticks_per_time(alone) == slowest(instance, rows) <= limit
    assert sized


def test_an_upright_or_turned_convolution_is_as_short_as_any_that_is_tried():
    """One convolution's share of (10) is everything, so that only pruning can make its size larger than the least."""
    problem = chain(1, width=30, height=30)
    (kernel,) = problem.kernels
    instance, limit = instance_of(problem), 30
    assert [each.height for each in kernel.convolutions] == [4]
    for height in (6, 9, 14, 30):
        least = 99
        for (h, w), c, k in product(pruned_pairs(kernel, 30), range(1, 5), range(1, 5)):
            for rotation in ("R0", "R90"):
                placed = PlacedKernel(h, w, (c,), (k,), 0, 0, rotation)
                wide, high = size_tiles(placed)
                fits = high <= height and memory_words(kernel, placed) <= problem.wafer.memory_words
                if fits and kernel_time(kernel, placed) <= limit:
                    least = min(least, wide)
        assert placed_rows(instance.sizes, instance.order, Cut((0,), (height,), limit)).wide[0] == least


def heights_of(instance, limit):
    """Getheight of every stretch."""
    count, chosen = len(instance.order), nothing_chosen(instance.sizes)
    return {
        (begin, end): int(height_of_row(instance, chosen, limit, begin, end))
        for begin in range(count)
        for end in range(begin + 1, count + 1)
    }


def test_a_row_is_as_low_as_its_kernels_fit_the_width(residual):
    instance = instance_of(residual)
    heights = heights_of(instance, LIMIT)
    lowest = [heights[place, place + 1] for place in range(len(instance.order))]

    def length(begin, end, height):
        if max(lowest[begin:end]) > height:
            return np.inf  # One of them cannot be so low at all.
        return placed_rows(instance.sizes, instance.order[begin:end], Cut((0,), (height,), LIMIT)).wide.sum()

    for (begin, end), height in heights.items():
        if height <= 60:
            assert length(begin, end, height) <= 60
            assert height == 1 or length(begin, end, height - 1) > 60


def test_algorithms_cut_as_low_as_any_cut(residual):
    instance = instance_of(residual)
    count, heights = len(instance.order), heights_of(instance, LIMIT)
    lowest = {}
    for rows in range(1, count + 1):
        for cuts in combinations(range(1, count), rows - 1):
            ends = [0, *cuts, count]
            total = sum(heights[each] for each in pairwise(ends))
            lowest[rows] = min(lowest.get(rows, 1 << 40), total)
    assert sum(any_rows(instance, LIMIT).heights) == min(lowest.values())
    for rows in (2, 3, 4, 5):
        cut = some_rows(rows)(instance, LIMIT)
        if lowest[rows] > 60:
            assert cut is None
        else:
            assert (len(cut.begins), sum(cut.heights)) == (rows, lowest[rows])
    assert (one_row(instance, LIMIT) is None) == (heights[0, count] > 60)


def test_strips_are_as_few_as_fit(residual):
    instance = instance_of(residual)
    count, heights = len(instance.order), heights_of(instance, LIMIT)

    def total(strips, rest):
        return sum(heights[each, each + 1] for each in strips) + heights[rest]

    first = next(n for n in range(1, count) if total(range(n), (n, count)) <= 60)
    last = next(n for n in range(1, count) if total(range(count - n, count), (0, count - n)) <= 60)
    head, tail = strips_and_row(instance, LIMIT), row_and_strips(instance, LIMIT)
    assert head.begins == (*range(first + 1),)
    assert tail.begins == (0, *range(count - last, count))
    for cut in (head, tail):
        assert sum(cut.heights) == 60
        assert violations(residual, placement_of(residual, placed_rows(instance.sizes, instance.order, cut))) == []


def adapter_count(instance, rows):
    """How many parameters differ over all edges."""
    sizes, total = instance.sizes, 0
    c = [{*rows.c[number, : sizes.convolutions[group]].tolist()} for number, group in enumerate(sizes.group)]
    for one, other in instance.edges.tolist():
        total += int(rows.h[one] != rows.h[other]) + int(rows.w[one] != rows.w[other]) + (len(c[one] | c[other]) > 1)
    return total


@pytest.mark.parametrize("limit", [400, 1200, 2800])
def test_of_equally_low_rows_algorithm_1_takes_those_of_less_distance_and_adapters(residual, limit):
    """The program by its definition: the best cut of every prefix, priced by placing it."""
    instance = instance_of(residual)
    heights, best, ties = heights_of(instance, limit), {0: (0, 0.0, [])}, 0

    def priced(begins, end):
        heights_of_rows = [heights[each] for each in pairwise([*begins, end])]
        rows = placed_rows(instance.sizes, instance.order[:end], Cut(begins, heights_of_rows, limit))
        earlier = {*instance.order[:end].tolist()}
        edges = [each for each in residual.edges if {*each} <= earlier]
        placed = instance._replace(edges=np.array(edges, dtype=np.int64).reshape(-1, 2))
        return sum(heights_of_rows), 2 * distance(placed, rows) / 2 + 5 * adapter_count(placed, rows)

    for end in range(1, len(instance.order) + 1):
        choices = []
        for begin in range(end - 1, -1, -1):
            if heights[begin, end] <= 60 and begin in best:
                begins = [*best[begin][2], begin]
                choices.append((*priced(begins, end), begins))
        if choices:
            best[end] = min(choices, key=lambda each: each[:2])
            ties += sum(each[0] == best[end][0] for each in choices) > 1
    height, _, begins = best[len(instance.order)]
    cut = any_rows(instance, limit)
    assert (cut is None) == (height > 60)
    assert cut is None or (cut.begins, sum(cut.heights)) == (begins, height)
    assert ties


@pytest.mark.parametrize("judge", STRATEGIES.values(), ids=STRATEGIES)
def test_the_least_time_is_achieved_and_less_is_not(residual, judge):
    instance, asked = instance_of(residual), {}

    def recorded(instance, limit):
        asked[limit] = judge(instance, limit)
        return asked[limit]

    cut = min_time(residual, instance, recorded, estimated_time(residual), never_stop)
    assert min(limit for limit, each in asked.items() if each is not None) == cut.limit
    assert cut.limit == 1 or judge(instance, cut.limit - 1) is None


@pytest.mark.parametrize("factor", [Fraction(1, 10**6), Fraction(10**6)])
def test_the_window_moves_to_where_the_time_is(residual, factor):
    instance = instance_of(residual)
    least = min_time(residual, instance, one_row, estimated_time(residual), never_stop)
    assert min_time(residual, instance, one_row, estimated_time(residual) * factor, never_stop) == least


@pytest.mark.parametrize("judge", [one_row, some_rows(3), row_and_strips])
def test_reordering_never_makes_distance_more_nor_changes_a_size(residual, judge):
    instance = instance_of(residual)
    for limit in (1000, 2000, 4000, 8000):
        cut = judge(instance, limit)
        if cut is None:
            continue
        before = placed_rows(instance.sizes, instance.order, cut)
        after = less_distance(instance, before)
        assert distance(instance, after) <= distance(instance, before)
        assert violations(residual, placement_of(residual, after)) == []
        for name in ("h", "w", "c", "k", "turned", "wide", "high", "y"):
            assert (getattr(before, name) == getattr(after, name)).all()
        for begin, end in pairwise(before.begin):
            assert sorted(before.order[begin:end]) == sorted(after.order[begin:end])
        # Nothing is left to improve.
        assert distance(instance, less_distance(instance, after)) == distance(instance, after)


@pytest.mark.parametrize("seed", range(3))
def test_a_row_within_the_window_has_its_best_order(seed):
    rng = np.random.default_rng(seed)
    nodes = [
        conv_line(n, inputs=int(rng.integers(1, 9)), outputs=int(rng.integers(1, 9))) for n in range(1, WINDOW + 1)
    ]
    pairs = [pair for pair in combinations(range(1, WINDOW + 1), 2) if rng.random() < 0.4] or [(1, 2)]
    edges = [(f"conv[{one}]", f"conv[{other}]") for one, other in pairs]
    problem = problem_from(graph_text(nodes, edges, width=200, height=30))
    instance, rows = cuts_of(problem, one_row, 64)
    best = min(
        distance(instance, placed_rows(instance.sizes, np.array(order), Cut((0,), (30,), 64)))
        for order in permutations(range(WINDOW))
    )
    assert distance(instance, less_distance(instance, rows)) == best


@pytest.mark.parametrize("judge", [any_rows, strips_and_row])
def test_adapters_never_become_more_nor_the_time_longer(judge):
    fewer = 0
    for problem in (weighted(blocks(7)), weighted(paper_problem("H")), weighted(paper_problem("E"))):
        instance = instance_of(problem)
        least = min_time(problem, instance, judge, estimated_time(problem), never_stop)
        for factor in (1, 2):
            cut = judge(instance, least.limit * factor)
            before = placed_rows(instance.sizes, instance.order, cut)
            after = fewer_adapters(instance, before)
            assert violations(problem, placement_of(problem, after)) == []
            priced = [cost(problem, placement_of(problem, each)) for each in (before, after)]
            assert priced[1].adapter <= priced[0].adapter
            assert priced[1].time <= priced[0].time
            fewer += priced[1].adapter < priced[0].adapter
            assert (after.height == before.height).all()
            assert (after.wide <= before.wide).all()
    assert fewer


def test_the_papers_rows_are_made_again():
    """Case H as printed: time 43008, distance 887 and 12 adapters, by one row at the least time times a power of α."""
    problem = paper_problem("H")
    instance = instance_of(problem)
    least = min_time(problem, instance, one_row, estimated_time(problem), never_stop)
    totals = {}
    for power in range(12):
        cut = one_row(instance, int(least.limit * ALPHA**power))
        rows = less_distance(instance, fewer_adapters(instance, placed_rows(instance.sizes, instance.order, cut)))
        priced = cost(problem, placement_of(problem, rows))
        totals[priced.total] = (priced.time, priced.distance, priced.adapter)
    printed = read_published().cases["H"].gigaplacer
    assert min(totals) == printed.total
    assert totals[printed.total] == (printed.time, printed.distance, printed.adapter)


@pytest.mark.parametrize("seed", range(3))
def test_no_answer_is_below_the_least_cost_of_all_placements(seed):
    rng, answers = np.random.default_rng(seed), 0
    for _ in range(5):
        problem = random_tiny_problem(rng)
        found = gigaplacer(SearchContext(problem, InProcessExecutor()))
        if found.placement is None:
            continue
        answers += 1
        assert violations(problem, found.placement) == []
        assert found.cost == cost(problem, found.placement)
        assert found.total >= min_cost(problem, found.total + 1) - 1e-9
    assert answers


def test_each_refinement_of_the_answer_lowers_its_own_part(residual, few_times):
    # Adapters are so dear that the best answer is one to which both refinements have something to do.
    dear = weighted(residual, adapter=50.0)
    answer = answered(SearchContext(dear, InProcessExecutor()))
    stages = (answer.best.generated, answer.best.adapted, answer.best.placement)
    generated, adapted, refined = (cost(dear, each) for each in stages)
    assert all(violations(dear, each) == [] for each in stages)
    assert adapted.adapter < generated.adapter
    assert adapted.time <= generated.time
    assert refined.distance < adapted.distance
    assert (refined.time, refined.adapter) == (adapted.time, adapted.adapter)
    assert answer.result.placement == answer.best.placement
    assert answer.best.strategy in STRATEGIES
    # Where adapters do not count they are left as they are.
    blind = answered(SearchContext(weighted(residual, adapter=0.0), InProcessExecutor())).best
    assert blind.generated == replace(blind.generated) == blind.adapted


def test_neither_seed_nor_moves_change_the_answer_and_it_can_be_stopped(residual, few_times):
    whole = gigaplacer(SearchContext(residual, InProcessExecutor()))
    assert gigaplacer(SearchContext(residual, InProcessExecutor(), seed=9, moves=1)) == whole
    for patience in (0, 1, 20):
        left = iter(range(patience))
        found = gigaplacer(SearchContext(residual, InProcessExecutor(), stop=lambda left=left: stopped(left)))
        assert found.placement is None or violations(residual, found.placement) == []
        assert found.evaluations < whole.evaluations
        assert found.total >= whole.total


def large(count):
    """Kernels of 2⁵⁸ multiplications each, a sixteenth of what the format allows."""
    sizes = {"height": 1 << 9, "width": 1 << 9, "window": 8, "inputs": 1 << 17, "outputs": 1 << 17}
    nodes = [conv_line(number, **sizes) for number in range(1, count + 1)]
    edges = [("conv[1]", "conv[2]")][: count - 1]
    return problem_from(graph_text(nodes, edges, width=1200, height=1200, memory=1 << 26))


@pytest.mark.parametrize("count", [1, 2])
def test_large_works_are_answered_though_three_rows_never_fit(count):
    """The strategies with more rows than kernels are given up, not looked for at times beyond 64 bits."""
    problem = large(count)
    found = gigaplacer(SearchContext(problem, InProcessExecutor()))
    assert violations(problem, found.placement) == []


def test_no_time_above_the_longest_possible_one_is_asked_for(residual):
    asked = []

    def never(_instance, limit):
        asked.append(limit)

    assert min_time(residual, instance_of(residual), never, Fraction(1, 10**6), never_stop) is None
    slowest_of_all = PlacedKernel(1, 1, (1,), (1,), 0, 0, "R0")
    longest = max(kernel_time(kernel, slowest_of_all) for kernel in residual.kernels) * ticks_per_time(residual)
    assert asked == sorted(set(asked))
    assert asked[-1] == longest


@pytest.mark.parametrize("patience", [0, 1, 5])
def test_a_search_that_is_stopped_during_its_first_strategy_has_what_fitted(residual, patience):
    left = iter(range(patience))
    answer = answered(SearchContext(residual, InProcessExecutor(), stop=lambda: stopped(left)))
    assert violations(residual, answer.result.placement) == []
    assert (answer.best.strategy, answer.result.evaluations) == ("any number of rows", 1)


def stopped(left):
    return None if next(left, None) is not None else "time limit"
