"""Rows of columns by dynamic programming against all ways to cut them."""

from itertools import combinations, pairwise, product

import numpy as np
import pytest

from dse.reproduce.gigaplacer.cases import chosen_problems
from dse.wafer.check import cost, violations
from dse.wafer.search.candidates import candidate_of, repriced, through
from dse.wafer.search.column_dp import column_layouts, column_row_heights, columns_of, stack_widths
from dse.wafer.search.ladder import ladder_of
from dse.wafer.search.layout import layout_of, measure, placement
from dse.wafer.search.layout_kernels import NEW_ROW, STACKED
from dse.wafer.search.positions import needed
from dse.wafer.search.row_dp import depth_first_order, row_layouts, strip_layouts
from dse.wafer.shapes import NEVER, shape_table, staircases
from tests.wafer.small import chain

WIDE, HIGH = 20, 18


def mixed(limit):
    """(problem, table, its ladder for one limit, the least sides of its kernels in order)."""
    problem = chain(5, width=WIDE, height=HIGH, inputs=6, outputs=5, window=3)
    table = shape_table(problem)
    ladder = ladder_of(problem, table, [limit])
    least = staircases(problem, table, limit).least[table.group]
    return problem, table, ladder, least


def random_widths(rng, count):
    """Staircases that are not of any kernel: every one falls with its side and is its own inverse."""
    found = np.full((count, WIDE + 1), NEVER, dtype=np.int64)
    for number in range(count):
        for one, other in rng.integers(2, 14, (3, 2)):
            for side, across in ((one, other), (other, one)):
                found[number, side:] = np.minimum(found[number, side:], across)
    return found


def width_by_trying(least, height):
    """Of a stack."""
    return next((w for w in range(1, WIDE + 1) if sum(each[w] for each in least) <= height), NEVER)


def cuts(begin, end):
    """All ways to cut begin … end − 1 into pieces that follow each other."""
    for count in range(end - begin):
        for inner in combinations(range(begin + 1, end), count):
            yield list(pairwise([begin, *inner, end]))


@pytest.mark.parametrize("seed", range(3))
def test_widths_of_stacks_and_heights_of_rows_are_those_of_all_cuts(seed):
    least = random_widths(np.random.default_rng(seed), 5)
    widths = stack_widths(least, WIDE, HIGH, 3)
    for begin, more, height in product(range(5), range(3), range(1, HIGH + 1)):
        wanted = width_by_trying(least[begin : begin + more + 1], height) if begin + more < 5 else NEVER
        assert widths[begin, more, height] == wanted
    heights = column_row_heights(widths, WIDE)
    fitting = 0
    for begin, end in combinations(range(6), 2):

        def total(height, begin=begin, end=end):
            return min(
                sum(width_by_trying(least[a:b], height) for a, b in cut)
                for cut in cuts(begin, end)
                if max(b - a for a, b in cut) <= 3
            )

        wanted = next((height for height in range(1, HIGH + 1) if total(height) <= WIDE), NEVER)
        assert heights[begin, end] == wanted
        if wanted < NEVER:
            fitting += end - begin > 1
            columns = columns_of(widths, begin, end, wanted)
            assert [columns[0][0], *(b for _, b in columns)] == [*(a for a, _ in columns), end]
            assert sum(width_by_trying(least[a:b], wanted) for a, b in columns) == total(wanted)
    assert fitting >= 3


def test_layouts_of_columns_are_legal_and_fit_wherever_rows_do():
    firsts = {}
    for limit in range(60, 400, 4):
        problem, table, ladder, _ = mixed(limit)
        order = depth_first_order(problem)
        kinds = {"columns": column_layouts, "rows": row_layouts, "strips": strip_layouts}
        for name, layouts in kinds.items():
            for layout in layouts(ladder, 0, order):
                total, _ = measure(ladder, layout, 0)
                if name != "rows":
                    assert np.isfinite(total)
                if np.isfinite(total):
                    firsts.setdefault(name, limit)
                    placed = placement(problem, table, ladder, layout, 0)
                    assert violations(problem, placed) == []
                    assert cost(problem, placed).total <= total + 1e-9
                    rows = int((layout.mark == NEW_ROW).sum())
                    assert layout.height[:rows].sum() <= HIGH
    assert firsts["columns"] <= min(firsts["rows"], firsts["strips"])


def test_stacks_go_up_and_down_in_turn():
    flips = []
    for limit in range(60, 400, 4):
        problem, _, ladder, _ = mixed(limit)
        for layout in column_layouts(ladder, 0, depth_first_order(problem)):
            begins = [p for p in range(4) if layout.mark[p] != STACKED and layout.mark[p + 1] == STACKED]
            rows = np.cumsum(layout.mark == NEW_ROW)
            for one, other in pairwise(begins):
                if rows[one] == rows[other]:
                    flips.append((int(layout.flip[one]), int(layout.flip[other])))
    assert set(flips) == {(0, 1), (1, 0)} or set(flips) == {(0, 1)}


def test_candidates_are_priced_through_a_lens_and_back():
    problem, _, ladder, _ = mixed(300)
    candidate = next(each for each in (candidate_of(ladder, la, 0) for la in all_layouts(problem, ladder)) if each)
    (seen,) = repriced(through(ladder, 0.25), [candidate])
    time = ladder.weights[0] * candidate.ticks
    assert seen.cost - time == pytest.approx(0.25 * (candidate.cost - time))
    assert repriced(ladder, [seen])[0].cost == candidate.cost
    too_long = layout_of(range(5), [0], [1])
    assert repriced(ladder, [candidate.__class__(too_long, candidate.limit, candidate.ticks, 0.0)]) == []


def all_layouts(problem, ladder):
    order = depth_first_order(problem)
    return (*row_layouts(ladder, 0, order), *column_layouts(ladder, 0, order))


def test_only_pairs_that_follow_from_others_are_left_out():
    rng = np.random.default_rng(1)
    for _ in range(20):
        order = rng.permutation(7)
        pairs = [(int(order[a]), int(order[b])) for a, b in combinations(range(7), 2) if rng.random() < 0.6]
        kept = needed(pairs, 7)
        assert kept == [(a, b) for a, b in pairs if not any((a, m) in pairs and (m, b) in pairs for m in range(7))]
    assert needed([], 3) == []


def test_columns_fit_a_contest_case_at_a_time_at_which_no_rows_do():
    problem = chosen_problems("A")["A"]
    ladder, order = ladder_of(problem, shape_table(problem), [34272 * 4]), depth_first_order(problem)

    def legal(layouts):
        return sum(np.isfinite(measure(ladder, layout, 0)[0]) for layout in layouts(ladder, 0, order))

    assert legal(row_layouts) == legal(strip_layouts) == 0
    assert legal(column_layouts) > 0
