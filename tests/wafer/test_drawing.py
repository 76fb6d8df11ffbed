"""What a picture shows of a placement."""

import re

import pytest
from matplotlib import rc_context

from dse.wafer.files.drawing import curves, rectangles
from dse.wafer.files.picture import picture
from dse.wafer.problem import PlacedKernel, WaferPlacement
from tests.wafer.small import chain, groups_of

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
    groups = groups_of(picture(problem, placed).svg)
    assert len(groups["passing edges"]) == sum(expected)
    assert len(groups["edges"]) == len(expected) - sum(expected)


def three(width, height, step):
    """Three kernels above each other."""
    corners = [(0, step * number) for number in range(3)]
    placed = WaferPlacement(tuple(PlacedKernel(1, 1, (1,), (1,), x, y, "R0") for x, y in corners))
    return chain(3, width=width, height=height), placed


def test_a_narrow_wafer_has_room_for_its_title():
    text = picture(*three(6, 300, 10), 1.0).svg
    left, _, across, _ = map(float, re.search('viewBox="([^"]*)"', text)[1].split())
    assert across >= 500
    # The wafer is in the middle, but for the labels of its axis.
    (middle,) = {float(x) for x, title in re.findall('x="([0-9.]*)"[^>]*>([^<]*)</text>', text) if "cost" in title}
    assert left + across / 2 == pytest.approx(middle, abs=20)


def test_a_tooltip_has_the_parameters_of_its_kernel():
    kernels = groups_of(picture(*three(20, 20, 3)).svg)["kernels"]
    assert [each[0].text.split(":")[0] for each in kernels] == ["k1 (conv)", "k2 (conv)", "k3 (conv)"]


def test_the_same_placement_is_drawn_alike_whatever_the_users_settings_are():
    shown = *three(20, 20, 3), 1.0
    first = picture(*shown)
    drawn = first.svg, first.png
    with rc_context({"axes.facecolor": "black", "font.size": 30, "lines.linewidth": 9, "svg.fonttype": "path"}):
        # In the other order: neither format depends on which is asked for first.
        again = picture(*shown)
        assert (again.png, again.svg) == drawn[::-1]
    assert drawn[1].startswith(b"\x89PNG")
    assert " id=" not in drawn[0].split("<defs>")[0]
    assert "matplotlib" not in drawn[0]


def test_names_that_would_be_too_small_to_read_are_left_out():
    assert ">k1</text>" in picture(*three(20, 20, 3)).svg
    small = picture(*three(600, 600, 3)).svg
    assert ">k1</text>" not in small
    assert "<title>" in small
