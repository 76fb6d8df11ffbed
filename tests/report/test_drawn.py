"""Drawings of matplotlib as SVG: short, and as they were drawn."""

import re
from xml.etree import ElementTree

import pytest
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from dse.report.drawn import MAX_TOOLTIPS, DrawnFigure


def drawn(count):
    """A fabric-like drawing: a square, a number and a link for each."""

    def draw():
        figure = Figure(figsize=(6.0, 4.0))
        axes = figure.add_subplot()
        axes.set(xlim=(0, count), ylim=(0, 3))
        squares = [Rectangle((at + 0.1, 1), 0.5, 1) for at in range(count)]
        axes.add_collection(PatchCollection(squares, facecolor="#1f6f8b", edgecolor="white", gid="units"))
        lines = [[(at, 0.5), (at + 1, 0.5)] for at in range(count)]
        axes.add_collection(LineCollection(lines, colors=["#c1121f", "#f3d9a4"], linewidths=2.0, gid="links"))
        for at in range(min(count, 50)):
            axes.text(at + 0.3, 1.5, str(at), size=6)
        return figure

    return DrawnFigure(draw, "fabric", {"units": [f"unit {at}" for at in range(count)], "links": ["link"] * count})


def groups(svg):
    return {group.get("class"): list(group) for group in ElementTree.fromstring(svg).iter() if group.get("class")}


def test_each_member_of_a_small_group_says_what_it_is():
    members = groups(drawn(3).svg)
    assert [each[0].text for each in members["units"]] == ["unit 0", "unit 1", "unit 2"]
    assert len(members["links"]) == 3


@pytest.mark.parametrize("count", [3, MAX_TOOLTIPS + 1])
def test_every_square_number_and_link_is_drawn(count):
    svg = drawn(count).svg
    members = groups(svg)
    for name in ("units", "links"):
        paths = [each.get("d") for each in members[name] if each.tag.endswith("path")]
        assert sum(path.count("M") for path in paths) == count
    assert len(re.findall(r">[0-9]+</text>", svg)) >= min(count, 50)
    assert "<title>" in svg or count > MAX_TOOLTIPS


def test_a_large_drawing_is_short():
    assert len(drawn(MAX_TOOLTIPS + 1).svg) < 100 * MAX_TOOLTIPS


def test_a_square_keeps_its_corners():
    square = groups(drawn(3).svg)["units"][0]
    left, top, right, bottom = map(float, re.fullmatch(r"M(\S+) (\S+)H(\S+)V(\S+)H\1z", square.get("d")).groups())
    # Axes of 6 × 4 inches, of which 0.125 to 0.9 and 0.11 to 0.88 are the plot, 72 points an inch.
    across, up = 6 * 72 * 0.775, 4 * 72 * 0.77
    assert abs(right - left) == pytest.approx(0.5 / 3 * across, abs=0.2)
    assert abs(bottom - top) == pytest.approx(up / 3, abs=0.2)
