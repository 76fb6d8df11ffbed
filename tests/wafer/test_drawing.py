"""What a picture shows of a placement."""

import re

import pytest

from dse.wafer.files.drawing import curves, drawing, rectangles
from dse.wafer.files.picture import picture
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


def test_a_narrow_wafer_has_room_for_its_title():
    problem = chain(3, width=6, height=300)
    placed = WaferPlacement(tuple(PlacedKernel(1, 1, (1,), (1,), 0, 10 * number, "R0") for number in range(3)))
    text = drawing(problem, placed, 1.0)
    left, _, across, _ = map(float, re.search("viewBox='([^']*)'", text)[1].split())
    assert across >= 500
    # The wafer, 18 wide, is in the middle.
    assert left + across / 2 == 9
    assert picture(problem, placed, 1.0).startswith(b"\x89PNG")
