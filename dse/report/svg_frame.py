"""The parts of SVG charts that all kinds have: the frame with its axes, legend, tips, swatches.

Sizes are pixels of a page that is :data:`WIDTH` wide.
"""

import html
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from dse.report.chart import Axis
from dse.report.chart_ticks import ticks_of
from dse.report.palette import LINE, QUIET, RULE, css

WIDTH = 860.0

MAX_TEXTS = 2500
"""Marks of a chart up to which each says what it is where the pointer rests."""

LETTER = 6.8
"""Pixels of an average letter of the 11.5 pixels' type."""

ROW = 18.0
"""From one line of type to the next."""

TOP, RIGHT, BELOW = 12.0, 14.0, 44.0
"""Room above the plot, on its right, and below it for ticks and title."""

DASHES = {"": "", "dash": " stroke-dasharray='7 4'", "dot": " stroke-dasharray='2 3'"}


@dataclass(frozen=True)
class Frame:
    """The plot inside its axes: ``x`` and ``y`` turn values into pixels."""

    left: float
    top: float
    right: float
    bottom: float
    x: Callable[[float], float]
    y: Callable[[float], float]


def tip_of(text: str) -> str:
    """What is shown where the pointer rests."""
    return f"<title>{html.escape(text)}</title>" if text else ""


def legend_of(entries: Iterable[tuple[str, str]]) -> tuple[float, list[str]]:
    """(height, SVG) of (label, mark around 0) in as many rows as they need."""
    left, row, parts = 0.0, 0, []
    for label, mark in entries:
        wide = 22 + LETTER * len(label) + 18
        if left and left + wide > WIDTH:
            left, row = 0.0, row + 1
        y = 10 + ROW * row
        parts.append(
            f"<g transform='translate({left + 9:.0f} {y - 4:.0f})'>{mark}</g>"
            f"<text x='{left + 22:.0f}' y='{y:.0f}'>{html.escape(label)}</text>"
        )
        left += wide
    return (ROW * (row + 1) if parts else 0.0), parts


def rect(left: float, top: float, width: float, height: float) -> str:
    """The begin of an element."""
    return f"<rect x='{left:.1f}' y='{top:.1f}' width='{width:.1f}' height='{height:.1f}'"


def swatch(colour: str) -> str:
    """A square of a legend, around 0."""
    return f"<rect x='-6' y='-6' width='12' height='12' rx='2' fill='{css(colour)}'/>"


def axes_of(
    frame_top: float, height: float, x: Axis, y: Axis, x_span: Sequence[float], y_span: Sequence[float]
) -> tuple[Frame, list[str]]:
    """The frame between the legend and the bottom of the picture, with grid, ticks and titles."""
    x_ticks, x_low, x_high = ticks_of(x, x_span)
    y_ticks, y_low, y_high = ticks_of(y, y_span)
    longest = max((len(label) for _, label in y_ticks), default=0)
    left = TOP if y.hidden else 14 + LETTER * longest
    title_room = 0.0 if y.hidden or not y.title else ROW
    top, bottom, right = frame_top + title_room + TOP, height - (8.0 if x.hidden else BELOW), WIDTH - RIGHT
    frame = Frame(
        left, top, right, bottom, scale_of(x, x_low, x_high, left, right), scale_of(y, y_low, y_high, bottom, top)
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
        parts += below(frame, x.title, x_ticks)
    return frame, parts


def below(frame: Frame, title: str, ticks: Sequence[tuple[float, str]]) -> Iterator[str]:
    """Ticks and title of the horizontal axis; a label that would touch the one before it is left out."""
    marks = "".join(f"M{frame.x(value):.1f} {frame.bottom:.1f}v4" for value, _ in ticks)
    yield f"<path d='M{frame.left:.1f} {frame.bottom:.1f}H{frame.right:.1f}{marks}' stroke='{css(LINE)}'/>"
    yield "<g text-anchor='middle'>"
    end = -math.inf
    for value, label in ticks:
        half = LETTER * len(label) / 2
        middle = min(frame.x(value), WIDTH - half)
        if middle - half > end + 5:
            yield f"<text x='{middle:.1f}' y='{frame.bottom + 17:.1f}'>{html.escape(label)}</text>"
            end = middle + half
    yield "</g>"
    yield f"<text x='{frame.right:.1f}' y='{frame.bottom + 36:.1f}' text-anchor='end' fill='{css(QUIET)}'>"
    yield f"{html.escape(title)}</text>"


def scale_of(axis: Axis, low: float, high: float, begin: float, end: float) -> Callable[[float], float]:
    """Values from ``low`` to ``high`` as pixels from ``begin`` to ``end``."""
    of: Callable[[float], float] = math.log10 if axis.logarithmic else float
    first, span = of(low), (of(high) - of(low)) or 1.0
    return lambda value: begin + (end - begin) * (of(value) - first) / span


def finite(values: Iterable[float], logarithmic: bool) -> list[float]:
    """Those that have a place on such an axis."""
    return [float(each) for each in values if math.isfinite(each) and not (logarithmic and each <= 0)]
