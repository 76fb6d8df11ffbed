"""Charts as SVG: small, without scripts, in the colours of the page, dark or light.

A chart is as wide as its page; its sizes are pixels of a page that is :data:`WIDTH` wide.
"""

import html
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dse.report.chart import Axis, BarChart, Chart, Crowd, LaneBar, LaneChart, Line, PointChart, Points, Symbol, TreeMap
from dse.report.chart_ticks import ticks_of
from dse.report.palette import INK, LINE, PAPER, QUIET, RULE, css, light
from dse.report.tree_map import boxes_of

WIDTH = 860.0

MAX_TEXTS = 2500
"""Marks of a chart up to which each says what it is where the pointer rests."""

_LETTER = 6.8
"""Pixels of an average letter of the 11.5 pixels' type."""

_ROW = 18.0
"""From one line of type to the next."""

_TOP, _RIGHT, _BELOW = 12.0, 14.0, 44.0
"""Room above the plot, on its right, and below it for ticks and title."""

_MAX_LETTERS = 46
"""Of the name of a lane; longer ones are cut in the middle."""

_CELL = 8.0
"""Side of the cells by which a crowd is counted, in pixels."""

_CROWD = (0.3, 0.55, 0.8, 1.0)
"""Opacity of cells with few points up to those with the most, by quarters on a logarithmic scale."""

_DASHES = {"": "", "dash": " stroke-dasharray='7 4'", "dot": " stroke-dasharray='2 3'"}

_SHAPES: Mapping[Symbol, str] = {
    "square": "M-.9-.9h1.8v1.8h-1.8z",
    "diamond": "M0-1.2 1.2 0 0 1.2-1.2 0z",
    "triangle": "M0-1.1 1.1.9H-1.1z",
    "cross": "M-.4-1.1h.8v.7h.7v.8h-.7v.7h-.8v-.7h-.7v-.8h.7z",
    "star": "M0-1.5.4-.5 1.4-.45.6.2.9 1.2 0 .6-.9 1.2-.6.2-1.4-.45-.4-.5z",
    "hexagon": "M-1 0-.5-.9H.5L1 0 .5.9H-.5z",
}
"""Around 0, about as large as a circle of radius 1; those of the others are circles."""


@dataclass(frozen=True)
class _Frame:
    """The plot inside its axes: ``x`` and ``y`` turn values into pixels."""

    left: float
    top: float
    right: float
    bottom: float
    x: Callable[[float], float]
    y: Callable[[float], float]


def chart_svg(chart: Chart) -> str:
    """A chart as an SVG element of a page, with its legend and without its title."""
    match chart:
        case PointChart():
            height, parts = float(chart.height), list(_point_chart(chart))
        case BarChart():
            height, parts = chart.height, list(_bar_chart(chart))
        case LaneChart():
            height, parts = lane_height(chart), list(_lane_chart(chart))
        case TreeMap():
            height, parts = chart.height, list(_tree_map(chart))
    return _element(chart.title, height, parts)


def picture_svg(chart: Chart) -> str:
    """A chart as a file of its own: with its title, on a light ground."""
    lines = _wrapped(chart.title)
    above = _ROW * len(lines) + 8
    title = "".join(
        f"<text x='0' y='{14 + _ROW * place:g}' font-size='14' font-weight='600'>{html.escape(line)}</text>"
        for place, line in enumerate(lines)
    )
    content = chart_svg(chart)
    height = float(content.partition("viewBox='0 0 ")[2].partition("'")[0].split()[1]) + above
    inner = content.replace(
        "<svg class='chart'", f"<svg y='{above:g}' width='{WIDTH:g}' height='{height - above:g}'", 1
    )
    ground = f"<rect x='-12' y='-12' width='{WIDTH + 24:g}' height='{height + 24:g}' fill='{PAPER}'/>"
    return light(
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='-12 -12 {WIDTH + 24:g} {height + 24:g}' "
        f"font-family='sans-serif' fill='{INK}'>{ground}{title}{inner}</svg>\n"
    )


def _wrapped(text: str) -> list[str]:
    """A title in lines that fit the picture."""
    lines, room = [""], int(WIDTH / 7.4)
    for word in text.split():
        if len(lines[-1]) + len(word) >= room:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _element(title: str, height: float, parts: Sequence[str]) -> str:
    return (
        f"<svg class='chart' xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH:g} {height:g}' role='img' "
        f"aria-label='{html.escape(title)}' font-family='system-ui,sans-serif' font-size='11.5' fill='{css(INK)}'>"
        f"{''.join(parts)}</svg>"
    )


def _tip(text: str) -> str:
    return f"<title>{html.escape(text)}</title>" if text else ""


def _legend(entries: Iterable[tuple[str, str]]) -> tuple[float, list[str]]:
    """(height, SVG) of (label, mark around 0) in as many rows as they need."""
    left, row, parts = 0.0, 0, []
    for label, mark in entries:
        wide = 22 + _LETTER * len(label) + 18
        if left and left + wide > WIDTH:
            left, row = 0.0, row + 1
        y = 10 + _ROW * row
        parts.append(
            f"<g transform='translate({left + 9:.0f} {y - 4:.0f})'>{mark}</g>"
            f"<text x='{left + 22:.0f}' y='{y:.0f}'>{html.escape(label)}</text>"
        )
        left += wide
    return (_ROW * (row + 1) if parts else 0.0), parts


def _rect(left: float, top: float, width: float, height: float) -> str:
    """The begin of an element."""
    return f"<rect x='{left:.1f}' y='{top:.1f}' width='{width:.1f}' height='{height:.1f}'"


def _swatch(colour: str) -> str:
    return f"<rect x='-6' y='-6' width='12' height='12' rx='2' fill='{css(colour)}'/>"


def _symbol(symbol: Symbol, radius: float) -> str:
    """The shape around 0, without its colour."""
    if symbol in _SHAPES:
        return f"<path d='{_SHAPES[symbol]}' transform='scale({radius:.3g})'"
    return f"<circle r='{radius:.3g}'"


def _stroke(line: Line) -> str:
    return f"fill='none' stroke='{css(line.colour)}' stroke-width='{line.width:g}'{_DASHES[line.dash]}"


def _paint(points: Points) -> str:
    colour = css(points.colour)
    return f"fill='none' stroke='{colour}' stroke-width='1.3'" if points.symbol == "ring" else f"fill='{colour}'"


def _mark(mark: Points | Crowd | Line) -> str:
    """In the legend."""
    match mark:
        case Line(filled=True):
            return _swatch(mark.colour)
        case Line():
            return f"<path d='M-8 0H8' {_stroke(mark)}/>"
        case Crowd():
            return f"<rect x='-6' y='-6' width='12' height='12' fill='{css(mark.colour)}' opacity='{_CROWD[-2]}'/>"
        case Points():
            size = mark.size if isinstance(mark.size, (int, float)) else 10.0
            return f"{_symbol(mark.symbol, max(4.0, min(size, 12.0) / 2))} {_paint(mark)}/>"


def _axes(
    frame_top: float, height: float, x: Axis, y: Axis, x_span: Sequence[float], y_span: Sequence[float]
) -> tuple[_Frame, list[str]]:
    """The frame between the legend and the bottom of the picture, with grid, ticks and titles."""
    x_ticks, x_low, x_high = ticks_of(x, x_span)
    y_ticks, y_low, y_high = ticks_of(y, y_span)
    longest = max((len(label) for _, label in y_ticks), default=0)
    left = _TOP if y.hidden else 14 + _LETTER * longest
    title_room = 0.0 if y.hidden or not y.title else _ROW
    top, bottom, right = frame_top + title_room + _TOP, height - (8.0 if x.hidden else _BELOW), WIDTH - _RIGHT
    frame = _Frame(
        left, top, right, bottom, _scale(x, x_low, x_high, left, right), _scale(y, y_low, y_high, bottom, top)
    )
    parts = []
    if title_room:
        parts.append(f"<text x='0' y='{frame_top + 13:.0f}' fill='{css(QUIET)}'>{html.escape(y.title)}</text>")
    if not y.hidden:
        lines = "".join(f"M{left:.1f} {frame.y(value):.1f}H{right:.1f}" for value, _ in y_ticks)
        parts.append(f"<path d='{lines}' stroke='{css(RULE)}'/><g text-anchor='end'>")
        parts += [
            f"<text x='{left - 6:.1f}' y='{frame.y(at) + 4:.1f}'>{html.escape(name)}</text>" for at, name in y_ticks
        ]
        parts.append("</g>")
    if not x.hidden:
        parts += _below(frame, x.title, x_ticks)
    return frame, parts


def _below(frame: _Frame, title: str, ticks: Sequence[tuple[float, str]]) -> Iterator[str]:
    """Ticks and title of the horizontal axis; a label that would touch the one before it is left out."""
    marks = "".join(f"M{frame.x(value):.1f} {frame.bottom:.1f}v4" for value, _ in ticks)
    yield f"<path d='M{frame.left:.1f} {frame.bottom:.1f}H{frame.right:.1f}{marks}' stroke='{css(LINE)}'/>"
    yield "<g text-anchor='middle'>"
    end = -math.inf
    for value, label in ticks:
        half = _LETTER * len(label) / 2
        middle = min(frame.x(value), WIDTH - half)
        if middle - half > end + 5:
            yield f"<text x='{middle:.1f}' y='{frame.bottom + 17:.1f}'>{html.escape(label)}</text>"
            end = middle + half
    yield "</g>"
    yield f"<text x='{frame.right:.1f}' y='{frame.bottom + 36:.1f}' text-anchor='end' fill='{css(QUIET)}'>"
    yield f"{html.escape(title)}</text>"


def _scale(axis: Axis, low: float, high: float, begin: float, end: float) -> Callable[[float], float]:
    """Values from ``low`` to ``high`` as pixels from ``begin`` to ``end``."""
    of: Callable[[float], float] = math.log10 if axis.logarithmic else float
    first, span = of(low), (of(high) - of(low)) or 1.0
    return lambda value: begin + (end - begin) * (of(value) - first) / span


def _finite(values: Iterable[float], logarithmic: bool) -> list[float]:
    return [float(each) for each in values if math.isfinite(each) and not (logarithmic and each <= 0)]


def _point_chart(chart: PointChart) -> Iterator[str]:
    above, legend = _legend((mark.name, _mark(mark)) for mark in chart.marks if mark.name)
    lows = [low for mark in chart.marks if isinstance(mark, Points) for low in mark.low]
    filled = [0.0] if any(isinstance(mark, Line) and mark.filled for mark in chart.marks) else []
    x_span = _finite((each for mark in chart.marks for each in mark.x), chart.x.logarithmic)
    y_span = _finite([*(each for mark in chart.marks for each in mark.y), *lows, *filled], chart.y.logarithmic)
    frame, axes = _axes(above, chart.height, chart.x, chart.y, x_span, y_span)
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


def _line(frame: _Frame, line: Line, chart: PointChart) -> str:
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
    drawn = f"<path d='{''.join(path)}' {_stroke(line)}>{_tip(line.name)}</path>"
    if not line.filled or last is None:
        return drawn
    area = f"{''.join(path)}V{frame.bottom:.1f}H{begin:.1f}z"
    # What an area covers must not shine through it.
    ground = f"<path d='{area}' fill='{css(PAPER)}'/>"
    return f"{ground}<path d='{area}' fill='{css(line.colour)}' opacity='.35'/>{drawn}"


def _points(frame: _Frame, points: Points, chart: PointChart, with_texts: bool) -> Iterator[str]:
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
        x, y, radius, tip = frame.x(points.x[at]), frame.y(points.y[at]), sizes[at] / 2, _tip(texts[at])
        if points.symbol in _SHAPES:
            moved = f"translate({x:.1f} {y:.1f}) scale({radius:.3g})"
            yield f"<path d='{_SHAPES[points.symbol]}' transform='{moved}'>{tip}</path>"
        else:
            yield f"<circle cx='{x:.1f}' cy='{y:.1f}' r='{radius:.3g}'>{tip}</circle>"
    yield "</g>"


def _crowd(frame: _Frame, crowd: Crowd, chart: PointChart) -> Iterator[str]:
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


def _bar_chart(chart: BarChart) -> Iterator[str]:
    above, legend = _legend(
        [
            *((each.name, _swatch(each.colour)) for each in chart.bars if each.name),
            *(
                (name, f"<path d='M-8 0H8' stroke='{css(colour)}' stroke-width='1.5'{_DASHES['dash']}/>")
                for name, (_, colour) in chart.limits.items()
            ),
        ]
    )
    count = len(chart.categories)
    heights = [[0.0 if each is None else each for each in bar.heights] for bar in chart.bars]
    tops = (
        [sum(pair) for pair in zip(*heights, strict=True)]
        if chart.stacked
        else [each for bar in heights for each in bar]
    )
    span = _finite([*tops, *(level for level, _ in chart.limits.values())], chart.y.logarithmic)
    span = span if chart.y.logarithmic else [*span, 0.0]
    # Bars on a logarithmic axis start at the power of ten below the lowest.
    lowest = min(_finite([*span, *(each for bar in heights for each in bar)], chart.y.logarithmic), default=1.0)
    foot = 10.0 ** (math.ceil(math.log10(lowest)) - 1) if chart.y.logarithmic else 0.0
    names = {float(place): name for place, name in enumerate(chart.categories)}
    x = Axis(chart.x, ticks=names)
    frame, axes = _axes(above, chart.height, x, chart.y, [-0.5, count - 0.5], [*span, foot] if span else [0.0])
    yield from legend
    yield from axes
    slots = 1 if chart.stacked else max(len(chart.bars), 1)
    room = (frame.right - frame.left) / max(count, 1)
    wide, unit = min(0.8 * room, 70.0 * slots) / slots, chart.y.title
    bottoms = [0.0] * count
    for number, (bar, values) in enumerate(zip(chart.bars, heights, strict=True)):
        yield f"<g fill='{css(bar.colour)}'>"
        for place, value in enumerate(values):
            start = bottoms[place] if chart.stacked else 0.0
            end, bottoms[place] = start + value, start + value
            if not value or (chart.y.logarithmic and end <= foot):
                continue
            left = frame.x(place) + (0 if chart.stacked else number - (slots - 1) / 2) * wide - wide / 2
            edges = sorted((frame.y(max(start, foot) if chart.y.logarithmic else start), frame.y(end)))
            tip = _tip(f"{chart.categories[place]}, {bar.name}: {value:,.4g} {unit}".strip())
            yield f"{_rect(left, edges[0], wide, edges[1] - edges[0])}>{tip}</rect>"
        yield "</g>"
    for level, colour in chart.limits.values():
        path = f"M{frame.left:.1f} {frame.y(level):.1f}H{frame.right:.1f}"
        yield f"<path d='{path}' stroke='{css(colour)}' stroke-width='1.5'{_DASHES['dash']}/>"


def _cut(name: str) -> str:
    half = (_MAX_LETTERS - 1) // 2
    return name if len(name) <= _MAX_LETTERS else f"{name[:half]}…{name[-half:]}"


def _kinds(chart: LaneChart) -> list[str]:
    used = {bar.kind for bar in chart.bars}
    return [kind for kind in chart.legend if kind in used]


def lane_height(chart: LaneChart) -> float:
    """Of the whole picture, in pixels."""
    above, _ = _legend((chart.legend[kind][0], "") for kind in _kinds(chart))
    return above + _TOP + chart.lane_pixels * len(chart.lanes) + _BELOW


def _lane_chart(chart: LaneChart) -> Iterator[str]:
    kinds = _kinds(chart)
    above, legend = _legend((chart.legend[kind][0], _swatch(chart.legend[kind][1])) for kind in kinds)
    names = [_cut(name) for name in chart.lanes]
    left = 14 + _LETTER * max(map(len, names), default=0)
    top, bottom = above + _TOP, above + _TOP + chart.lane_pixels * len(names)
    span = [0.0, *(edge for bar in chart.bars for edge in (bar.start, bar.start + bar.length))]
    # A label next to the end of the longest bar needs its room on either side.
    letters = max((len(bar.label) for bar in chart.bars), default=0)
    aside = 8 + _LETTER * letters if letters else 0.0
    begin, end = left + (aside if min(span) < 0 else 0.0), WIDTH - _RIGHT - aside
    axis = Axis(chart.x)
    ticks, _, _ = ticks_of(axis, span)
    frame = _Frame(begin, top, end, bottom, _scale(axis, min(span), max(span), begin, end), float)
    yield from legend
    grid = "".join(f"M{frame.x(at):.1f} {top:.1f}V{bottom:.1f}" for at, _ in ticks if min(span) <= at <= max(span))
    yield f"<path d='{grid}' stroke='{css(RULE)}'/><g text-anchor='end'>"
    for lane, name in enumerate(names):
        y, tip = (
            top + (lane + 0.5) * chart.lane_pixels + 4,
            _tip(chart.lanes[lane] if name != chart.lanes[lane] else ""),
        )
        yield f"<text x='{left - 8:.1f}' y='{y:.1f}'>{html.escape(name)}{tip}</text>"
    yield "</g>"
    yield from _below(frame, chart.x, [tick for tick in ticks if min(span) <= tick[0] <= max(span)])
    outline = f" stroke='{css(PAPER)}' stroke-width='.6'" if chart.outlined else ""
    with_texts = len(chart.bars) <= MAX_TEXTS
    for kind in kinds:
        yield f"<g fill='{css(chart.legend[kind][1])}'{outline}>"
        bars = [bar for bar in chart.bars if bar.kind == kind]
        yield from (_lane_bar(frame, chart, bar) for bar in bars) if with_texts else [_lane_bars(frame, chart, bars)]
        yield "</g>"
    yield from (_lane_label(frame, chart, bar) for bar in chart.bars if bar.label)


def _lane_box(frame: _Frame, chart: LaneChart, bar: LaneBar) -> tuple[float, float, float, float]:
    """(left, top, width, height) of a bar, in pixels."""
    number, count = bar.place
    high = 0.76 * chart.lane_pixels / count
    ends = sorted((frame.x(bar.start), frame.x(bar.start + bar.length)))
    return ends[0], frame.top + (bar.lane + 0.12) * chart.lane_pixels + number * high, ends[1] - ends[0], high


def _lane_bar(frame: _Frame, chart: LaneChart, bar: LaneBar) -> str:
    left, top, wide, high = _lane_box(frame, chart, bar)
    tip = _tip(bar.text)
    box = _rect(left, top, max(wide, 0.6), high)
    if not bar.hatched:
        return f"{box}>{tip}</rect>"
    stripes = "".join(
        f"M{left + at:.1f} {top + high:.1f}l{min(high, wide - at):.1f}-{min(high, wide - at):.1f}"
        for at in range(0, int(wide), 6)
    )
    colour = css(chart.legend[bar.kind][1])
    return f"<g>{box} fill-opacity='.35' stroke='{colour}'/><path d='{stripes}' stroke='{colour}'/>{tip}</g>"


def _lane_bars(frame: _Frame, chart: LaneChart, bars: Sequence[LaneBar]) -> str:
    """Very many bars as one path."""
    path = []
    for bar in bars:
        left, top, wide, high = _lane_box(frame, chart, bar)
        wide = max(wide, 0.6)
        path.append(f"M{left:.1f} {top:.1f}h{wide:.1f}v{high:.1f}h-{wide:.1f}z")
    return f"<path d='{''.join(path)}'/>"


def _lane_label(frame: _Frame, chart: LaneChart, bar: LaneBar) -> str:
    left, top, wide, high = _lane_box(frame, chart, bar)
    x, anchor = (left - 4, "end") if bar.length < 0 else (left + wide + 4, "start")
    place = f"x='{x:.1f}' y='{top + high / 2 + 4:.1f}' text-anchor='{anchor}' font-size='11'"
    return f"<text {place}>{html.escape(bar.label)}</text>"


def _tree_map(chart: TreeMap) -> Iterator[str]:
    above, legend = _legend((label, _swatch(colour)) for label, colour in chart.legend.items())
    yield from legend
    boxes = list(boxes_of(chart.tiles, 0.0, above + 4, WIDTH, chart.height - above - 4))
    few = len(boxes) <= MAX_TEXTS
    for box in boxes:
        x, y, wide, high = box.left, box.top, box.width, box.height
        fill = f"fill='{css(box.tile.colour)}'" if box.tile is not None else f"fill='none' stroke='{css(LINE)}'"
        tip = _tip(box.text) if few else ""
        yield f"{_rect(x, y, wide, high)} {fill}>{tip}</rect>"
        if box.label and high >= 15 and wide >= 6 + 5.6 * len(box.label):
            ink = css(PAPER if box.tile is not None and box.tile.colour != LINE else INK)
            place = f"x='{x + 4:.1f}' y='{y + 12:.1f}' font-size='10.5'"
            yield f"<text {place} fill='{ink}'>{html.escape(box.label)}</text>"
