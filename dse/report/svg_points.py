"""Charts of points and lines as SVG."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping

from dse.report.chart import Crowd, Line, PointChart, Points, Symbol
from dse.report.palette import LINE, PAPER, css
from dse.report.svg_frame import DASHES, MAX_TEXTS, Frame, axes_of, finite, legend_of, swatch, tip_of

_CELL = 8.0
"""Side of the cells by which a crowd is counted, in pixels."""

_CROWD = (0.3, 0.55, 0.8, 1.0)
"""Opacity of cells with few points up to those with the most, by quarters on a logarithmic scale."""

_SHAPES: Mapping[Symbol, str] = {
    "square": "M-.9-.9h1.8v1.8h-1.8z",
    "diamond": "M0-1.2 1.2 0 0 1.2-1.2 0z",
    "triangle": "M0-1.1 1.1.9H-1.1z",
    "cross": "M-.4-1.1h.8v.7h.7v.8h-.7v.7h-.8v-.7h-.7v-.8h.7z",
    "star": "M0-1.5.4-.5 1.4-.45.6.2.9 1.2 0 .6-.9 1.2-.6.2-1.4-.45-.4-.5z",
    "hexagon": "M-1 0-.5-.9H.5L1 0 .5.9H-.5z",
}
"""Around 0, about as large as a circle of radius 1; those of the others are circles."""


def _symbol(symbol: Symbol, radius: float) -> str:
    """The shape around 0, without its colour."""
    if symbol in _SHAPES:
        return f"<path d='{_SHAPES[symbol]}' transform='scale({radius:.3g})'"
    return f"<circle r='{radius:.3g}'"


def _stroke(line: Line) -> str:
    return f"fill='none' stroke='{css(line.colour)}' stroke-width='{line.width:g}'{DASHES[line.dash]}"


def _paint(points: Points) -> str:
    colour = css(points.colour)
    return f"fill='none' stroke='{colour}' stroke-width='1.3'" if points.symbol == "ring" else f"fill='{colour}'"


def _mark(mark: Points | Crowd | Line) -> str:
    """In the legend."""
    match mark:
        case Line(filled=True):
            return swatch(mark.colour)
        case Line():
            return f"<path d='M-8 0H8' {_stroke(mark)}/>"
        case Crowd():
            return f"<rect x='-6' y='-6' width='12' height='12' fill='{css(mark.colour)}' opacity='{_CROWD[-2]}'/>"
        case Points():
            size = mark.size if isinstance(mark.size, (int, float)) else 10.0
            return f"{_symbol(mark.symbol, max(4.0, min(size, 12.0) / 2))} {_paint(mark)}/>"


def point_chart(chart: PointChart) -> Iterator[str]:
    """The SVG of a chart of points and lines, in parts."""
    above, legend = legend_of((mark.name, _mark(mark)) for mark in chart.marks if mark.name)
    lows = [low for mark in chart.marks if isinstance(mark, Points) for low in mark.low]
    filled = [0.0] if any(isinstance(mark, Line) and mark.filled for mark in chart.marks) else []
    x_span = finite((each for mark in chart.marks for each in mark.x), chart.x.logarithmic)
    y_span = finite([*(each for mark in chart.marks for each in mark.y), *lows, *filled], chart.y.logarithmic)
    frame, axes = axes_of(above, chart.height, chart.x, chart.y, x_span, y_span)
    yield from legend
    yield from axes
    count = sum(len(mark.texts) for mark in chart.marks if isinstance(mark, Points))
    for mark in chart.marks:
        match mark:
            case Line():
                yield _line(frame, mark, chart)
            case Crowd():
                yield from _crowd(frame, mark, chart)
            case Points():
                yield from _points(frame, mark, chart, count <= MAX_TEXTS)


def _drawable(chart: PointChart, x: float, y: float) -> bool:
    """Whether a point has a place on both axes."""
    finite = math.isfinite(x) and math.isfinite(y)
    return finite and not (chart.x.logarithmic and x <= 0) and not (chart.y.logarithmic and y <= 0)


def _line(frame: Frame, line: Line, chart: PointChart) -> str:
    path, last, begin = [], None, 0.0
    for x, y in zip(line.x, line.y, strict=True):
        if not _drawable(chart, x, y):
            last = None
            continue
        across, up = frame.x(x), frame.y(y)
        if last is None:
            begin = across
            path.append(f"M{across:.1f} {up:.1f}")
        elif line.steps:
            path.append(f"H{across:.1f}V{up:.1f}")
        else:
            path.append(f"L{across:.1f} {up:.1f}")
        last = across
    drawn = f"<path d='{''.join(path)}' {_stroke(line)}>{tip_of(line.name)}</path>"
    if not line.filled or last is None:
        return drawn
    area = f"{''.join(path)}V{frame.bottom:.1f}H{begin:.1f}z"
    # What an area covers must not shine through it.
    ground = f"<path d='{area}' fill='{css(PAPER)}'/>"
    return f"{ground}<path d='{area}' fill='{css(line.colour)}' opacity='.35'/>{drawn}"


def _points(frame: Frame, points: Points, chart: PointChart, with_texts: bool) -> Iterator[str]:
    count = len(points.x)
    sizes = [float(points.size)] * count if isinstance(points.size, (int, float)) else list(map(float, points.size))
    texts = points.texts if points.texts and with_texts else [""] * count
    places = [at for at in range(count) if _drawable(chart, points.x[at], points.y[at])]
    if points.low:
        whiskers = "".join(
            f"M{frame.x(points.x[at]):.1f} {frame.y(points.y[at]):.1f}V{frame.y(points.low[at]):.1f}"
            for at in places
            if not (chart.y.logarithmic and points.low[at] <= 0)
        )
        yield f"<path d='{whiskers}' stroke='{css(LINE)}' stroke-width='1.5'/>"
    yield f"<g {_paint(points)}>"
    for at in places:
        x, y, radius, tip = frame.x(points.x[at]), frame.y(points.y[at]), sizes[at] / 2, tip_of(texts[at])
        if points.symbol in _SHAPES:
            moved = f"translate({x:.1f} {y:.1f}) scale({radius:.3g})"
            yield f"<path d='{_SHAPES[points.symbol]}' transform='{moved}'>{tip}</path>"
        else:
            yield f"<circle cx='{x:.1f}' cy='{y:.1f}' r='{radius:.3g}'>{tip}</circle>"
    yield "</g>"


def _crowd(frame: Frame, crowd: Crowd, chart: PointChart) -> Iterator[str]:
    """Cells, the more opaque the more points lie in them; a path for each level."""
    cells = Counter(
        (int((frame.x(x) - frame.left) // _CELL), int((frame.y(y) - frame.top) // _CELL))
        for x, y in zip(crowd.x, crowd.y, strict=True)
        if _drawable(chart, x, y)
    )
    levels: dict[int, list[str]] = {}
    most = math.log1p(max(cells.values(), default=1))
    for (column, row), number in sorted(cells.items()):
        level = min(int(len(_CROWD) * math.log1p(number) / most), len(_CROWD) - 1)
        x, y = frame.left + column * _CELL, frame.top + row * _CELL
        levels.setdefault(level, []).append(f"M{x:.1f} {y:.1f}h{_CELL:g}v{_CELL:g}h-{_CELL:g}z")
    for level, paths in levels.items():
        yield f"<path d='{''.join(paths)}' fill='{css(crowd.colour)}' opacity='{_CROWD[level]}'/>"
