"""The parts of the search against plain forms, and the whole against all placements of small problems."""

import pickle
import re
from itertools import combinations, pairwise, product

import numba
import numpy as np
import pytest

from dse.reproduce.gigaplacer.cases import chosen_problems
from dse.run.executor import InProcessExecutor, ignore
from dse.run.progress import never_stop
from dse.wafer.bound import CostBound, area_bound_ticks
from dse.wafer.check import cost, violations
from dse.wafer.problem import PlacedKernel, WaferPlacement
from dse.wafer.search import annealing, portfolio
from dse.wafer.search.annealing import Annealing, AnnealTask, annealed
from dse.wafer.search.candidates import candidate_of
from dse.wafer.search.context import SearchContext
from dse.wafer.search.ladder import ladder_of
from dse.wafer.search.layout import copied, layout_of, measure, placement
from dse.wafer.search.layout_kernels import BESIDE, FREE, NEW_ROW, STACKED
from dse.wafer.search.portfolio import search
from dse.wafer.search.positions import compacted
from dse.wafer.search.protocol_dp import with_protocols
from dse.wafer.search.row_dp import depth_first_order, even_layouts, row_layouts, strip_layouts
from dse.wafer.shapes import NEVER, classes_of, shape_table, staircases
from tests.wafer.brute_force import min_cost
from tests.wafer.small import blocks, chain, conv_line, graph_text, problem_from


@pytest.mark.parametrize("adapter", [0, 7])
def test_layouts_cost_what_the_checker_says(adapter):
    problem = blocks(adapter)
    table = shape_table(problem)
    floor = area_bound_ticks(problem, table)
    ladder = ladder_of(problem, table, [2 * floor, 5 * floor, 9 * floor])
    rng = np.random.default_rng(3)
    legal = 0
    for _ in range(400):
        layout = layout_of(rng.permutation(5).tolist(), [0], [0])
        layout.mark[1:] = rng.choice([STACKED, BESIDE, NEW_ROW], 4)
        rows = int((layout.mark == NEW_ROW).sum())
        layout.height[:rows] = rng.multinomial(50, np.ones(rows) / rows)
        layout.flip[:] = rng.integers(0, 2, 5)
        if adapter:
            for number in range(5):
                fitting = np.flatnonzero(table.min_k[table.group[number], :, 0] < NEVER)
                layout.protocol[number] = rng.choice([FREE, rng.choice(fitting)])
        level = int(rng.integers(3))
        total, ticks = measure(ladder, layout, level)
        if not np.isfinite(total):
            continue
        legal += 1
        placed = placement(problem, table, ladder, layout, level)
        assert violations(problem, placed) == []
        found = cost(problem, placed)
        # A kernel that is made longer to lie in the middle can be faster than is counted.
        assert found.time * table.ticks_per_time <= ticks <= ladder.limits[level]
        assert total == pytest.approx(found.total + problem.weights.time * (ticks / table.ticks_per_time - found.time))
    assert legal > 50


def test_a_row_that_is_too_long_is_not_legal():
    problem = chain(3, width=9, height=20)
    table = shape_table(problem)
    ladder = ladder_of(problem, table, [10**6])
    assert np.isfinite(measure(ladder, layout_of((0, 1, 2), [0], [20]), 0)[0])
    tight = chain(6, width=9, height=20)
    ladder = ladder_of(tight, shape_table(tight), [10**6])
    assert measure(ladder, layout_of(range(6), [0], [20]), 0)[0] == np.inf
    assert np.isfinite(measure(ladder, layout_of(range(6), [0, 3], [10, 10]), 0)[0])


def row_height_by_trying(least, group, members, wide, high):
    return next((y for y in range(1, high + 1) if sum(least[group[m], y] for m in members) <= wide), NEVER)


def test_rows_are_those_of_all_cuts():
    problem = chain(6, width=40, height=24, inputs=6, outputs=5, window=3)
    table = shape_table(problem)
    for limit in (60, 100, 300, 2000):
        ladder = ladder_of(problem, table, [limit])
        least, found = staircases(problem, table, limit).least, {}
        for rows in range(1, 7):
            totals = []
            for cuts in combinations(range(1, 6), rows - 1):
                ends = [0, *cuts, 6]
                parts = [range(low, high) for low, high in pairwise(ends)]
                totals.append(sum(row_height_by_trying(least, table.group, part, 40, 24) for part in parts))
            if min(totals) <= 24:
                found[rows] = min(totals)
        layouts = {int((each.mark == NEW_ROW).sum()): each for each in row_layouts(ladder, 0, range(6))}
        assert layouts.keys() == found.keys()
        for rows, layout in layouts.items():
            assert layout.height[:rows].sum() == 24


def test_strips_are_all_that_fit_and_are_not_too_many():
    problem = chain(6, width=40, height=24, inputs=6, outputs=5, window=3)
    table = shape_table(problem)
    seen = 0
    for limit in (60, 100, 130, 300):
        ladder, least = ladder_of(problem, table, [limit]), staircases(problem, table, limit).least[0]
        limit = int(ladder.limits[0])
        fits = set()
        for head, tail in product(range(6), repeat=2):
            left = 24 - (head + tail) * least[40]
            if 0 < head + tail < 6 and left >= 1 and (6 - head - tail) * least[left] <= 40:
                fits.add((head, tail))
        wanted = {(a, b) for a, b in fits if not any(c <= a and d <= b and (c, d) != (a, b) for c, d in fits)}
        found = set()
        for layout in strip_layouts(ladder, 0, range(6)):
            rows = np.flatnonzero(layout.mark == NEW_ROW).tolist()
            sizes = np.diff([*rows, 6]).tolist()
            head = next((place for place, size in enumerate(sizes) if size > 1), len(sizes) - 1)
            found.add((head, len(sizes) - 1 - head))
            assert layout.height[: len(rows)].sum() == 24
            assert np.isfinite(measure(ladder, layout, 0)[0])
        assert wanted <= found | {(a, b) for a, b in wanted if a + b == 5}
        seen += len(found)
    assert seen


def test_the_order_has_producers_first_and_branches_together():
    problem = blocks()
    order = depth_first_order(problem)
    place = {number: rank for rank, number in enumerate(order)}
    assert sorted(order) == list(range(5))
    assert all(place[source] < place[target] for source, target in problem.edges)


def test_protocols_of_a_chain_are_the_best_of_all():
    problem = chain(3, adapter=2, distance=1, width=30, height=12, inputs=3, outputs=6)
    table = shape_table(problem)
    ladder = ladder_of(problem, table, [48])
    layout = layout_of((0, 1, 2), [0], [12])
    found = with_protocols(ladder, 0, layout, classes_of(table.protocols))
    assert found is not None

    def communication(tried):
        total, ticks = measure(ladder, tried, 0)
        return total - ticks / table.ticks_per_time

    best = np.inf
    widths = table.widths(int(ladder.limits[0]))
    fitting = [number for number in range(len(table.protocols)) if widths[0, number] < NEVER]
    for chosen in product(fitting, repeat=3):
        tried = copied(layout)
        tried.protocol[:] = chosen
        best = min(best, communication(tried))
    # The program does not see halves of tiles by which centres differ in height, on two edges.
    assert best <= communication(found) <= best + 1


def test_compaction_keeps_rectangles_and_order_and_finds_the_least_distance():
    problem = chain(3, width=40, height=40)
    spread_out = WaferPlacement(
        (
            PlacedKernel(1, 1, (2,), (2,), 0, 30, "R0"),
            PlacedKernel(1, 1, (1,), (2,), 20, 5, "R0"),
            PlacedKernel(1, 2, (2,), (1,), 37, 34, "R0"),
        )
    )
    found = compacted(problem, spread_out)
    assert violations(problem, found) == []
    # The second stays below the first and left of the third: halves of heights 3 and 2, and of widths 6 and 3.
    assert cost(problem, found).distance == 2.5 + 4.5
    sizes = [(each.h, each.w, each.c, each.k, each.rotation) for each in found.placed]
    assert sizes == [(each.h, each.w, each.c, each.k, each.rotation) for each in spread_out.placed]


def test_compaction_never_costs_more():
    problem = blocks()
    table = shape_table(problem)
    floor = area_bound_ticks(problem, table)
    ladder = ladder_of(problem, table, [4 * floor])
    for layout in row_layouts(ladder, 0, depth_first_order(problem)):
        if np.isfinite(measure(ladder, layout, 0)[0]):
            placed = placement(problem, table, ladder, layout, 0)
            moved = compacted(problem, placed)
            assert violations(problem, moved) == []
            assert cost(problem, moved).total <= cost(problem, placed).total


def test_annealing_is_legal_never_worse_and_the_same_for_a_seed():
    problem = blocks(adapter=4)
    table = shape_table(problem)
    floor = area_bound_ticks(problem, table)
    ladder = ladder_of(problem, table, [2 * floor, 3 * floor, 4 * floor])
    starts = (candidate_of(ladder, each, 2) for each in row_layouts(ladder, 2, depth_first_order(problem)))
    start = next(each for each in starts if each is not None)
    found = [annealed(ladder, AnnealTask(start, seed, 3000, 0.01)) for seed in (1, 1, 2)]
    assert found[0].cost == found[1].cost
    assert all((one == other).all() for one, other in zip(found[0].layout, found[1].layout, strict=True))
    for each in found:
        assert each.cost <= start.cost
        placed = placement(problem, table, ladder_of(problem, table, [each.limit]), each.layout, 0)
        assert violations(problem, placed) == []
        assert cost(problem, placed).total <= each.cost + 1e-9
    assert found[0].cost < start.cost


def test_annealing_stops_between_two_slices_with_the_best_so_far(monkeypatch):
    monkeypatch.setattr(annealing, "_SLICE", 1000)
    problem = blocks(adapter=4)
    table = shape_table(problem)
    floor = area_bound_ticks(problem, table)
    ladder = ladder_of(problem, table, [2 * floor, 3 * floor, 4 * floor])
    starts = (candidate_of(ladder, each, 2) for each in row_layouts(ladder, 2, depth_first_order(problem)))
    start, asked = next(each for each in starts if each is not None), []

    def stop():
        asked.append(1)
        return "time limit" if len(asked) == 3 else None

    task = AnnealTask(start, 1, 10**9, 0.01)
    found = Annealing(ladder, stop)(task)
    assert len(asked) == 3
    assert found.moves == 3000
    assert found.cost < start.cost
    # Elsewhere there is nobody to ask.
    assert through_pickle(Annealing(ladder, stop)).stop is never_stop


class ReadOnlyExecutor(InProcessExecutor):
    """Sends functions, items and values through pickles whose arrays cannot be written, as Ray does."""

    def outcomes(self, function, items, stop=never_stop, arrived=ignore):
        sent = map(through_pickle, items)
        yield from map(through_pickle, super().outcomes(through_pickle(function), sent, stop, arrived))


def through_pickle(value):
    buffers = []
    text = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return pickle.loads(text, buffers=[bytes(each.raw()) for each in buffers])


def test_the_answer_does_not_depend_on_where_annealing_runs():
    problem = blocks(adapter=4)
    executors = InProcessExecutor(), ReadOnlyExecutor()
    here, there = (search(SearchContext(problem, each, moves=1000)) for each in executors)
    assert here == there


def test_kernels_are_compiled_for_one_layout_of_arrays_wherever_they_run():
    problem = blocks()
    ladder = ladder_of(problem, shape_table(problem), [10**6])
    for name, here, there in zip(ladder._fields, ladder, pickle.loads(pickle.dumps(ladder)), strict=True):
        assert numba.typeof(here) == numba.typeof(there), name


SMALL = {
    "pair": (2, {"width": 12, "height": 6}, 2),
    "pair with adapters": (2, {"width": 12, "height": 6, "adapter": 3}, 2),
    "three in a row": (3, {"width": 10, "height": 4, "distance": 2}, 1),
    "three, tight": (3, {"width": 6, "height": 6, "distance": 5, "adapter": 1}, 1),
    "little memory": (2, {"width": 12, "height": 6, "memory": 8}, 2),
}
"""Kernels, wafer and weights, height and width of the images."""


def small_problem(name):
    """One of :data:`SMALL`."""
    count, header, side = SMALL[name]
    nodes = [conv_line(number, height=side, width=side, inputs=2, outputs=2) for number in range(1, count + 1)]
    edges = [(f"conv[{number}]", f"conv[{number + 1}]") for number in range(1, count)]
    return problem_from(graph_text(nodes, edges, **header))


@pytest.mark.parametrize("name", SMALL)
def test_small_problems_against_all_placements(name):
    problem = small_problem(name)
    best = min_cost(problem)
    found = search(SearchContext(problem, InProcessExecutor(), moves=20_000))
    assert violations(problem, found.placement) == []
    assert found.total == pytest.approx(best)
    table = shape_table(problem)
    floor = area_bound_ticks(problem, table)
    bound = CostBound(problem, table)
    assert floor / table.ticks_per_time <= found.cost.time
    for known in (np.inf, found.total):
        assert bound.total(floor, known) <= best + 1e-9
    assert bound.total(floor, np.inf) > 0


@pytest.mark.parametrize("weights", [{"time": 0}, {"distance": 10**9}])
def test_where_time_counts_little_kernels_are_as_small_as_memory_allows(weights):
    nodes = [conv_line(1, height=32, width=32, window=3, inputs=16, outputs=64), "dblock[2] f=64 h=32 w=32 name='k2'"]
    edges = [("conv[1]", "dblock[2]")]
    problem = problem_from(graph_text(nodes, edges, **{"width": 200, "height": 200, **weights}))
    found = search(SearchContext(problem, InProcessExecutor(), moves=20_000))
    # With the least sizes, 2 × 3 and 2 × 9, the one lies on the other.
    assert found.cost.distance == 2
    assert CostBound(problem, shape_table(problem)).total(1, found.total) == pytest.approx(found.total)


def test_everything_else_being_equal_the_cost_never_rises_and_every_step_is_legal():
    problem, told = blocks(adapter=5), []
    found = search(SearchContext(problem, InProcessExecutor(), moves=20_000, improved=told.append))
    totals = [each.total for each in told]
    assert totals == sorted(totals, reverse=True)
    assert found.total == totals[-1]
    assert all(violations(problem, each.placement) == [] for each in told)
    again = search(SearchContext(problem, InProcessExecutor(), moves=20_000))
    assert (again.placement, again.evaluations) == (found.placement, found.evaluations)


def test_a_search_ends_after_the_pass_that_found_what_is_proven(monkeypatch):
    def evaluations(share):
        asked = []

        def total(self, floor, known, stop, min_share):
            asked.append(known)
            return share * known

        monkeypatch.setattr(CostBound, "total", total)
        found = search(SearchContext(blocks(), InProcessExecutor(), moves=80_000))
        assert len(asked) == 1
        return found.evaluations

    assert evaluations(1.0) < 0.6 * evaluations(0.5)


def test_rounds_of_annealing_are_counted_over_all_passes(monkeypatch):
    monkeypatch.setattr(portfolio, "_FIRST_PASS", 1000)
    monkeypatch.setattr(CostBound, "total", lambda *_args, **_named: 0.0)
    phases = []

    def progress(phase, *_counts):
        phases.append(phase)

    search(SearchContext(blocks(), InProcessExecutor(), moves=50_000, progress=progress))
    counted = [re.fullmatch(r"annealing (\d+) of (\d+)", phase) for phase in phases]
    rounds = [(int(each[1]), int(each[2])) for each in counted if each]
    assert len(portfolio.passes(50_000)) == 4
    assert {total for _, total in rounds} == {4 * 16}
    # Rounds of the last pass are among them: more than the 32 that two passes have.
    assert 48 < max(number for number, _ in rounds) <= 64


def test_a_search_that_is_stopped_has_a_legal_placement():
    problem, asked = blocks(), []

    def stop():
        asked.append(1)
        return "time limit" if len(asked) > 40 else None

    found = search(SearchContext(problem, InProcessExecutor(), moves=50_000, stop=stop))
    assert violations(problem, found.placement) == []
    # The run of annealing that is stopped asks, and then the executor.
    assert len(asked) <= 42


PUBLISHED = {"A": 35685.5, "Q": 9816}
"""In Q adapters cost something, in A they do not."""


@pytest.mark.parametrize("case", PUBLISHED)
def test_contest_cases_with_few_moves_are_close_to_what_is_published(case):
    problem = chosen_problems(case)[case]
    found = search(SearchContext(problem, InProcessExecutor(), moves=200))
    assert violations(problem, found.placement) == []
    assert found.total <= 1.02 * PUBLISHED[case]


def random_problem(rng):
    count = int(rng.integers(1, 7))
    nodes = []
    for number in range(1, count + 1):
        block = f"block[{number}] f={rng.choice([4, 8])} h={2 * rng.integers(1, 5)} w={2 * rng.integers(1, 5)}"
        sizes = {key: int(rng.integers(1, 10)) for key in ("height", "width", "inputs", "outputs")}
        line = conv_line(number, window=int(rng.integers(1, 4)), stride=int(rng.integers(1, 4)), **sizes)
        nodes.append(rng.choice([line, f"c{block} name='k{number}'", f"d{block} name='k{number}'"]))
    labels = [line.split(" ")[0] for line in nodes]
    edges = [pair for pair in combinations(labels, 2) if rng.random() < 0.4]
    wafer = {"width": int(rng.integers(10, 70)), "height": int(rng.integers(10, 70))}
    weights = {"time": int(rng.integers(0, 3)), "distance": int(rng.integers(1, 8)), "adapter": int(rng.choice([0, 9]))}
    return problem_from(graph_text(nodes, edges, memory=int(rng.choice([40, 24576])), **wafer, **weights))


@pytest.mark.parametrize("seed", range(3))
def test_answers_of_all_kinds_of_problems_are_legal_and_bounded(seed):
    rng, placed = np.random.default_rng(seed), 0
    for _ in range(6):
        problem = random_problem(rng)
        found = search(SearchContext(problem, InProcessExecutor(), moves=200))
        if found.placement is None:
            continue
        placed += 1
        assert violations(problem, found.placement) == []
        assert found.cost == cost(problem, found.placement)
        table = shape_table(problem)
        assert CostBound(problem, table).total(area_bound_ticks(problem, table), np.inf) <= found.total + 1e-9
    assert placed >= 3


def test_a_wafer_on_which_no_rows_fit_and_a_stack_does():
    # Memory leaves 6 × 8 and twice 3 × 4 tiles.
    nodes = [
        f"conv[{n}] W=1 H=1 R=1 S=1 C={c} K={k} T=1 U=1 name='k{n}'" for n, c, k in ((1, 13, 2), (2, 5, 1), (3, 5, 1))
    ]
    problem = problem_from(
        graph_text(nodes, [("conv[1]", "conv[2]"), ("conv[2]", "conv[3]")], width=9, height=8, memory=2)
    )
    table = shape_table(problem)
    ladder, order = ladder_of(problem, table, [10**6]), depth_first_order(problem)
    layouts = (*row_layouts(ladder, 0, order), *strip_layouts(ladder, 0, order))
    assert not any(np.isfinite(measure(ladder, each, 0)[0]) for each in layouts)
    assert not np.isfinite(min(measure(ladder, each, 0)[0] for each in even_layouts(ladder, order)))
    found = search(SearchContext(problem, InProcessExecutor(), moves=5000))
    assert violations(problem, found.placement) == []
    # Centres (3, 4), (7.5, 2) and (7.5, 6).
    assert found.cost.distance == 6.5 + 4
