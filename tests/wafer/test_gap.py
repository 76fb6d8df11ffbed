"""The shortest times of slicing trees (``benchmarks.wafer_gap``), against every tree."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.wafer_gap import min_width, shortest_time, turned
from dse.wafer.search.row_dp import depth_first_order
from dse.wafer.shapes import NEVER, shape_table, staircases
from tests.wafer.small import blocks_text, problem_from

SIDES = 7


def widths_of(sizes):
    """[SIDES + 1] the least width for every height, of rectangles that may be turned."""
    widths = np.full(SIDES + 1, NEVER, dtype=np.int32)
    for width, height in [*sizes, *((height, width) for width, height in sizes)]:
        widths[height:] = np.minimum(widths[height:], width)
    return widths


def rectangles(leaves):
    """The (width, height) of all slicing trees over ``leaves``, lists of sizes, in their order."""
    if len(leaves) == 1:
        return {*leaves[0], *((height, width) for width, height in leaves[0])}
    joined = set()
    for cut in range(1, len(leaves)):
        for width, height in rectangles(leaves[:cut]):
            for other_width, other_height in rectangles(leaves[cut:]):
                joined.add((width + other_width, max(height, other_height)))
                joined.add((max(width, other_width), height + other_height))
    return joined


sizes = st.lists(st.tuples(st.integers(1, SIDES), st.integers(1, SIDES)), min_size=1, max_size=2)


@given(st.lists(sizes, min_size=1, max_size=4), st.integers(1, SIDES))
def test_no_tree_is_narrower(leaves, height):
    narrowest = min((width for width, tall in rectangles(leaves) if tall <= height), default=NEVER)
    least = min_width(np.stack([widths_of(each) for each in leaves]), height)
    assert least == narrowest if narrowest <= SIDES else least > SIDES


PROBLEM = problem_from(blocks_text())


@pytest.fixture(scope="module")
def table():
    return shape_table(PROBLEM)


def test_kernels_may_be_turned(table):
    for widths in staircases(PROBLEM, table, table.ticks_of(1e9)).least:
        np.testing.assert_array_equal(turned(widths), widths)


def test_the_shortest_time_has_a_tree_and_shorter_ones_have_none(table):
    shortest, floor = shortest_time(PROBLEM, 1e6)
    assert floor <= shortest
    group = table.group[list(depth_first_order(PROBLEM))]

    def fits(time):
        leaves = staircases(PROBLEM, table, table.ticks_of(time)).least[group].astype(np.int32)
        return min_width(leaves, PROBLEM.wafer.height_tiles) <= PROBLEM.wafer.width_tiles

    assert fits(shortest)
    assert not fits(shortest - floor / 1000)
