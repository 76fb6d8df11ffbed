"""Charts: every mark is in the SVG and in the plotly figure, axes hold all values, and pages stay small."""

import math
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dse.report.chart import Axis, BarChart, Bars, Crowd, LaneBar, LaneChart, Line, PointChart, Points, Tile, TreeMap
from dse.report.chart_plotly import figure_of
from dse.report.chart_svg import chart_svg, picture_svg
from dse.report.chart_ticks import ticks_of
from dse.report.palette import BLUE, RED, THEME
from dse.report.svg_frame import MAX_TEXTS
from dse.report.tree_map import boxes_of

POINTS = PointChart(
    "two <kinds>",
    Axis("x [mm²]"),
    Axis("y", logarithmic=True),
    [
        Line("equal", [1.0, 2.0, math.nan, 3.0], [1.0, 10.0, 1.0, 100.0], RED, "dash"),
        Points("ours", [1.0, 2.0, 3.0], [1.0, 10.0, 100.0], BLUE, ["a & b", "c", "d"], 8.0, "star", [0.5, 5.0, 50.0]),
        Points("", [2.0], [math.nan], BLUE, symbol="ring"),
    ],
)
BARS = BarChart(
    "bars",
    "chip",
    Axis("time [s]"),
    ["0", "1"],
    [Bars("work", [1.0, 2.0], BLUE), Bars("links", [3.0, None], RED)],
    stacked=True,
    limits={"limit": (5.0, RED)},
)
LANES = LaneChart(
    "lanes",
    "change [%]",
    ["a lane whose name is by far too long to stand beside its chart", "b"],
    [LaneBar(0, 0.0, -2.0, "less", "two", "-2", True, (0, 2)), LaneBar(1, 1.0, 3.0, "more")],
    {"less": ("less", RED), "more": ("more", BLUE), "none": ("none", BLUE)},
)
TREE = TreeMap(
    "tree",
    [Tile(("a", "w"), 6.0, BLUE, "w of a"), Tile(("a", "b"), 3.0, RED, "b"), Tile(("w",), 1.0, RED, "w")],
    {"x": RED},
)


def titles(svg):
    return [each.text for each in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}title")]


@pytest.mark.parametrize("chart", [POINTS, BARS, LANES, TREE], ids=lambda chart: type(chart).__name__)
def test_a_chart_is_svg_in_the_colours_of_the_page_and_a_picture_in_light_ones(chart):
    svg, alone = chart_svg(chart), picture_svg(chart)
    ElementTree.fromstring(svg)
    words = " ".join(ElementTree.fromstring(alone).itertext())
    assert chart.title in words
    assert "var(--blue)" in svg
    assert "var(" not in alone
    assert THEME["blue"][0] in alone
    assert figure_of(chart).layout.title.text == chart.title


def test_points_lines_and_what_they_say():
    svg = chart_svg(POINTS)
    assert titles(svg) == ["equal", "a & b", "c", "d"]
    assert svg.count("translate(") == 3 + 2, "three stars, and two marks in the legend"
    assert "M" in svg.split("stroke-dasharray")[0]
    assert "NaN" not in svg
    assert "nan" not in svg
    assert [trace.name for trace in figure_of(POINTS).data] == ["equal", "ours", ""]


def test_bars_stand_on_each_other_below_their_limit():
    svg = chart_svg(BARS)
    assert titles(svg) == ["0, work: 1 time [s]", "1, work: 2 time [s]", "0, links: 3 time [s]"]
    drawn = figure_of(BARS)
    assert drawn.layout.barmode == "stack"
    assert [list(bar.y) for bar in drawn.data] == [[1.0, 2.0], [3.0, None]]


def test_bars_stand_on_each_other_on_a_logarithmic_axis():
    chart = replace(BARS, y=Axis("time [s]", logarithmic=True), limits={})
    assert len(titles(chart_svg(chart))) == 3
    assert len(titles(chart_svg(replace(chart, stacked=False)))) == 3


def test_lanes_name_what_they_cut_and_leave_out_kinds_without_bars():
    svg = chart_svg(LANES)
    assert LANES.lanes[0] in titles(svg)
    assert ">none<" not in svg
    assert ">-2<" in svg
    assert [bar.name for bar in figure_of(LANES).data] == ["less", "more"]


def test_very_many_bars_and_points_say_nothing_each():
    many = MAX_TEXTS + 1
    bars = [LaneBar(0, float(at), 0.5, "more", f"bar {at}") for at in range(many)]
    svg = chart_svg(LaneChart("many", "time [s]", ["a"], bars, LANES.legend))
    assert "bar 7" not in svg
    assert len(svg) < 40 * many


@given(
    st.lists(st.integers(1, 10**6), min_size=1, max_size=40),
    st.floats(20, 2000),
    st.floats(20, 2000),
)
def test_areas_of_tiles_are_their_shares_and_none_covers_another(sizes, width, height):
    tiles = [Tile((f"t{at}",), float(size), BLUE, "") for at, size in enumerate(sizes)]
    boxes = list(boxes_of(tiles, 0.0, 0.0, width, height))
    assert len(boxes) == len(tiles)
    scale = width * height / sum(sizes)
    for box in boxes:
        # Boxes are a pixel apart.
        assert (box.width + 1) * (box.height + 1) >= box.tile.size * scale * (1 - 1e-6)
        assert box.width * box.height <= box.tile.size * scale * (1 + 1e-6)
        assert -1e-6 <= box.left <= box.left + box.width <= width + 1e-6
        assert -1e-6 <= box.top <= box.top + box.height <= height + 1e-6
    for at, one in enumerate(boxes):
        for other in boxes[at + 1 :]:
            across = min(one.left + one.width, other.left + other.width) - max(one.left, other.left)
            down = min(one.top + one.height, other.top + other.height) - max(one.top, other.top)
            assert min(across, down) < 1e-6


@given(st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=5), st.booleans())
@example([5e-324], True)
@example([0.0, 1e-310], False)
def test_a_linear_axis_holds_its_values_and_has_a_few_round_ticks(values, from_zero):
    ticks, low, high = ticks_of(Axis("", from_zero=from_zero), values)
    assert low <= min(values)
    assert max(values) <= high
    assert low < high
    assert 2 <= len(ticks) <= 12
    assert all(low - 1e-6 * (high - low) <= value <= high + 1e-6 * (high - low) for value, _ in ticks)
    assert not from_zero or low <= 0


@given(st.lists(st.floats(1e-9, 1e12), min_size=1, max_size=5))
def test_a_logarithmic_axis_holds_its_values(values):
    ticks, low, high = ticks_of(Axis("", logarithmic=True), values)
    assert 0 < low <= min(values)
    assert max(values) <= high
    assert all(low * (1 - 1e-6) <= value <= high * (1 + 1e-6) for value, _ in ticks)
    assert len(ticks) <= 30


def test_a_crowd_is_small_and_whole_in_a_figure():
    """As many architectures as the largest space has."""
    generator = np.random.default_rng(0)
    count = 59_748
    x, y = generator.uniform(1, 280, count), generator.uniform(0, 1e5, count)
    chart = PointChart("all", Axis("area [mm²]"), Axis("score"), [Crowd("bound", x, y, BLUE, ["machine"] * count)])
    assert len(chart_svg(chart)) < 400_000
    assert len(figure_of(chart).data[0].x) == count
