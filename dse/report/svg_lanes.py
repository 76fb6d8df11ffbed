"""Charts of lanes over time as SVG."""

import html
from collections.abc import Iterator, Sequence

from dse.report.chart import Axis, LaneBar, LaneChart
from dse.report.chart_ticks import ticks_of
from dse.report.palette import PAPER, RULE, css
from dse.report.svg_frame import (
    BELOW,
    LETTER,
    MAX_TEXTS,
    RIGHT,
    TOP,
    WIDTH,
    Frame,
    below,
    legend_of,
    rect,
    scale_of,
    swatch,
    tip_of,
)

_MAX_LETTERS = 46
"""Of the name of a lane; longer ones are cut in the middle."""


def _cut(name: str) -> str:
    half = (_MAX_LETTERS - 1) // 2
    return name if len(name) <= _MAX_LETTERS else f"{name[:half]}…{name[-half:]}"


def _kinds(chart: LaneChart) -> list[str]:
    used = {bar.kind for bar in chart.bars}
    return [kind for kind in chart.legend if kind in used]


def lane_height(chart: LaneChart) -> float:
    """Of the whole picture, in pixels."""
    above, _ = legend_of((chart.legend[kind][0], "") for kind in _kinds(chart))
    return above + TOP + chart.lane_pixels * len(chart.lanes) + BELOW


def lane_chart(chart: LaneChart) -> Iterator[str]:
    """The SVG of a chart of lanes, in parts."""
    kinds = _kinds(chart)
    above, legend = legend_of((chart.legend[kind][0], swatch(chart.legend[kind][1])) for kind in kinds)
    names = [_cut(name) for name in chart.lanes]
    left = 14 + LETTER * max(map(len, names), default=0)
    top, bottom = above + TOP, above + TOP + chart.lane_pixels * len(names)
    span = [0.0, *(edge for bar in chart.bars for edge in (bar.start, bar.start + bar.length))]
    # A label next to the end of the longest bar needs its room on either side.
    letters = max((len(bar.label) for bar in chart.bars), default=0)
    aside = 8 + LETTER * letters if letters else 0.0
    begin, end = left + (aside if min(span) < 0 else 0.0), WIDTH - RIGHT - aside
    axis = Axis(chart.x)
    ticks, _, _ = ticks_of(axis, span)
    frame = Frame(begin, top, end, bottom, scale_of(axis, min(span), max(span), begin, end), float)
    yield from legend
    grid = "".join(f"M{frame.x(at):.1f} {top:.1f}V{bottom:.1f}" for at, _ in ticks if min(span) <= at <= max(span))
    yield f"<path d='{grid}' stroke='{css(RULE)}'/><g text-anchor='end'>"
    for lane, name in enumerate(names):
        y, tip = (
            top + (lane + 0.5) * chart.lane_pixels + 4,
            tip_of(chart.lanes[lane] if name != chart.lanes[lane] else ""),
        )
        yield f"<text x='{left - 8:.1f}' y='{y:.1f}'>{html.escape(name)}{tip}</text>"
    yield "</g>"
    yield from below(frame, chart.x, [tick for tick in ticks if min(span) <= tick[0] <= max(span)])
    outline = f" stroke='{css(PAPER)}' stroke-width='.6'" if chart.outlined else ""
    with_texts = len(chart.bars) <= MAX_TEXTS
    for kind in kinds:
        yield f"<g fill='{css(chart.legend[kind][1])}'{outline}>"
        bars = [bar for bar in chart.bars if bar.kind == kind]
        yield from (_lane_bar(frame, chart, bar) for bar in bars) if with_texts else [_lane_bars(frame, chart, bars)]
        yield "</g>"
    yield from (_lane_label(frame, chart, bar) for bar in chart.bars if bar.label)


def _lane_box(frame: Frame, chart: LaneChart, bar: LaneBar) -> tuple[float, float, float, float]:
    """(left, top, width, height) of a bar, in pixels."""
    number, count = bar.place
    high = 0.76 * chart.lane_pixels / count
    ends = sorted((frame.x(bar.start), frame.x(bar.start + bar.length)))
    return ends[0], frame.top + (bar.lane + 0.12) * chart.lane_pixels + number * high, ends[1] - ends[0], high


def _lane_bar(frame: Frame, chart: LaneChart, bar: LaneBar) -> str:
    left, top, wide, high = _lane_box(frame, chart, bar)
    tip = tip_of(bar.text)
    box = rect(left, top, max(wide, 0.6), high)
    if not bar.hatched:
        return f"{box}>{tip}</rect>"
    stripes = "".join(
        f"M{left + at:.1f} {top + high:.1f}l{min(high, wide - at):.1f}-{min(high, wide - at):.1f}"
        for at in range(0, int(wide), 6)
    )
    colour = css(chart.legend[bar.kind][1])
    return f"<g>{box} fill-opacity='.35' stroke='{colour}'/><path d='{stripes}' stroke='{colour}'/>{tip}</g>"


def _lane_bars(frame: Frame, chart: LaneChart, bars: Sequence[LaneBar]) -> str:
    """Very many bars as one path."""
    path = []
    for bar in bars:
        left, top, wide, high = _lane_box(frame, chart, bar)
        wide = max(wide, 0.6)
        path.append(f"M{left:.1f} {top:.1f}h{wide:.1f}v{high:.1f}h-{wide:.1f}z")
    return f"<path d='{''.join(path)}'/>"


def _lane_label(frame: Frame, chart: LaneChart, bar: LaneBar) -> str:
    left, top, wide, high = _lane_box(frame, chart, bar)
    x, anchor = (left - 4, "end") if bar.length < 0 else (left + wide + 4, "start")
    place = f"x='{x:.1f}' y='{top + high / 2 + 4:.1f}' text-anchor='{anchor}' font-size='11'"
    return f"<text {place}>{html.escape(bar.label)}</text>"
