"""What a picture shows of a placement."""

import pytest

from dse.wafer.drawing import curves, drawing, rectangles
from dse.wafer.problem import PlacedKernel, WaferPlacement
from tests.wafer.small import chain

ACROSS = {
    "beside each other": ([(0, 0), (3, 0), (6, 0)], [False, False]),
    "the second beyond the third": ([(0, 0), (6, 0), (3, 0)], [True, False]),
    "the second back over the first": ([(3, 0), (6, 0), (0, 0)], [False, True]),
    "around a corner": ([(0, 0), (3, 0), (3, 8)], [False, False]),
    "aslant over another": ([(0, 0), (6, 10), (3, 5)], [True, False]),
    "aslant beside another": ([(0, 0), (6, 2), (0, 5)], [False, False]),
    "along the border of another": ([(0, 0), (9, 0), (4, 1)], [False, False]),
}


@pytest.mark.parametrize("name", ACROSS)
def test_edges_are_dashed_where_they_lead_through_other_kernels(name):
    corners, expected = ACROSS[name]
    problem = chain(3)
    placed = WaferPlacement(tuple(PlacedKernel(1, 1, (1,), (1,), x, y, "R0") for x, y in corners))
    assert [each.past for each in curves(problem, rectangles(problem, placed))] == expected
    assert drawing(problem, placed).count("class='edge skip'") == sum(expected)
