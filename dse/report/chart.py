"""Charts without saying how they are drawn: a page has them as SVG, Python and ``charts.html`` as plotly figures.

Colours are those of :mod:`dse.report.palette`. The title of a chart is what it shows, in a sentence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Symbol = Literal["circle", "ring", "square", "diamond", "triangle", "cross", "star", "hexagon"]
Dash = Literal["", "dash", "dot"]


@dataclass(frozen=True)
class Axis:
    """One axis.

    Attributes:
        title: what it measures, with the unit in brackets.
        logarithmic: of values above 0.
        from_zero: whether it begins at 0.
        ticks: label by value; None for round numbers.
        hidden: neither title nor ticks, as its values mean nothing.
    """

    title: str
    logarithmic: bool = False
    from_zero: bool = False
    ticks: Mapping[float, str] | None = None
    hidden: bool = False


@dataclass(frozen=True)
class Points:
    """Dots of one kind.

    Attributes:
        name: in the legend; empty for none.
        x, y: of each.
        colour: of all.
        texts: what each is, shown where the pointer rests; empty for nothing.
        size: across, in pixels, of all or of each.
        symbol: their shape.
        low: how far down a thin line below each reaches; empty for none.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    colour: str
    texts: Sequence[str] = ()
    size: float | Sequence[float] = 6.0
    symbol: Symbol = "circle"
    low: Sequence[float] = ()


@dataclass(frozen=True)
class Crowd:
    """Dots too many to tell apart: a page shows how close they lie, a plotly figure each with its text."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    colour: str
    texts: Sequence[str] = ()


@dataclass(frozen=True)
class Line:
    """A line through points, broken where a value is not finite.

    Attributes:
        name: in the legend; empty for none.
        x, y: of each point.
        colour: of the line.
        dash: how it is broken.
        steps: whether a value holds until the next one.
        filled: whether the area down to 0 is coloured.
        width: in pixels.
        texts: what each point is, in a plotly figure.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    colour: str
    dash: Dash = ""
    steps: bool = False
    filled: bool = False
    width: float = 1.5
    texts: Sequence[str] = ()


@dataclass(frozen=True)
class PointChart:
    """Points and lines over two axes; later marks cover earlier ones.

    Attributes:
        title: what it shows.
        x, y: the axes.
        marks: what is drawn.
        height: of the whole, in pixels.
    """

    title: str
    x: Axis
    y: Axis
    marks: Sequence[Points | Crowd | Line]
    height: int = 420


@dataclass(frozen=True)
class Bars:
    """A bar for each category: its name in the legend, its heights, its colour."""

    name: str
    heights: Sequence[float | None]
    colour: str


@dataclass(frozen=True)
class BarChart:
    """Bars over categories, side by side or on top of each other.

    Attributes:
        title: what it shows.
        x: what the categories are.
        y: the axis of heights.
        categories: their names.
        bars: one for each category.
        stacked: whether they are on top of each other.
        limits: level and colour of lines across, by name.
        height: of the whole, in pixels.
    """

    title: str
    x: str
    y: Axis
    categories: Sequence[str]
    bars: Sequence[Bars]
    stacked: bool = False
    limits: Mapping[str, tuple[float, str]] = field(default_factory=dict)
    height: int = 340


@dataclass(frozen=True)
class LaneBar:
    """A bar on a lane.

    Attributes:
        lane: its number.
        start, length: along the axis; a length below 0 goes to the left.
        kind: a key of the chart's legend.
        text: what it is, where the pointer rests.
        label: next to its end.
        hatched: drawn in stripes.
        place: (number, of how many) bars that share the height of the lane.
    """

    lane: int
    start: float
    length: float
    kind: str
    text: str = ""
    label: str = ""
    hatched: bool = False
    place: tuple[int, int] = (0, 1)


@dataclass(frozen=True)
class LaneChart:
    """Bars on lanes: what happens where and when, or changes to the left and right of 0.

    Attributes:
        title: what it shows.
        x: title of the axis.
        lanes: their names, from the top.
        bars: in any order.
        legend: (label, colour) by kind; the kinds without bars are left out.
        lane_pixels: height of a lane.
        outlined: whether bars have an outline that parts them.
    """

    title: str
    x: str
    lanes: Sequence[str]
    bars: Sequence[LaneBar]
    legend: Mapping[str, tuple[str, str]]
    lane_pixels: int = 22
    outlined: bool = False


@dataclass(frozen=True)
class Tile:
    """A part of a whole: the names of the boxes around it and its own, size, colour, and text for the pointer."""

    path: tuple[str, ...]
    size: float
    colour: str
    text: str


@dataclass(frozen=True)
class TreeMap:
    """Parts inside each other, their areas by their sizes; ``legend``: colour by label."""

    title: str
    tiles: Sequence[Tile]
    legend: Mapping[str, str]
    height: int = 560


Chart = PointChart | BarChart | LaneChart | TreeMap
