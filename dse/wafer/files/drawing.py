"""A placement as a picture (SVG): kernels coloured by how busy they are, edges between their centres.

What it shows is shared with the picture as pixels (:mod:`dse.wafer.files.picture`).
"""

import html
from collections.abc import Iterator
from dataclasses import dataclass

from dse.wafer.check import cost, kernel_time, size_tiles
from dse.wafer.problem import WaferPlacement, WaferProblem

LOW, HIGH = (255, 243, 214), (209, 73, 91)
"""Colours of the kernels that wait longest and of the slowest."""

GROUND, INK, LINE = "#f4f7f9", "#1d2b36", "#0d4459"

LEGEND = "busy: share of the slowest kernel's time"

_PIXELS = 900
_LEAST_PIXELS = 520
"""Across the picture."""

_ABOVE, _BELOW = 30, 52
"""Room for the title and for the legend."""

_FONT = 14.0

_STEPS = 20
"""Of the colours in the legend."""

_BEND = 0.25
"""How far the control point of a bent edge lies beside it, in lengths of the edge."""

_STYLE = (
    f".wafer text{{font-family:system-ui,sans-serif;fill:{INK};text-anchor:middle;dominant-baseline:central}}"
    f".wafer rect{{stroke:{INK}}}.wafer .edge{{stroke:{LINE};stroke-width:1.4;fill:none;opacity:.85}}"
    ".wafer .skip{stroke-dasharray:6 4}.wafer .bar{stroke:none}"
)


@dataclass(frozen=True)
class Rectangle:
    """A kernel as it is drawn.

    Attributes:
        name: of the kernel.
        about: its parameters and figures in one line.
        x, y: the lower corner, tiles.
        across, up: its size, tiles.
        busy: its time, of the slowest kernel's.
    """

    name: str
    about: str
    x: int
    y: int
    across: int
    up: int
    busy: float

    @property
    def centre(self) -> tuple[float, float]:
        """Where edges end."""
        return self.x + self.across / 2, self.y + self.up / 2

    @property
    def label(self) -> tuple[float, float]:
        """The middle of the name: of the further half of the longer side, beside the edges."""
        x, y = self.centre
        return (x, y + self.up / 4) if self.up > self.across else (x + self.across / 4, y)

    def font_size(self, scale: float, largest: float) -> float:
        """Of the name along the longer side, where a tile is ``scale`` wide: as large as fits."""
        long, short = max(self.across, self.up) * scale, min(self.across, self.up) * scale
        return min(largest, 0.75 * long / max(2, len(self.name)), 0.9 * short)


def rectangles(problem: WaferProblem, placement: WaferPlacement) -> list[Rectangle]:
    """The kernels, by position."""
    times = [float(kernel_time(*pair)) for pair in zip(problem.kernels, placement.placed, strict=True)]
    found = []
    for kernel, placed, time in zip(problem.kernels, placement.placed, times, strict=True):
        across, up = size_tiles(placed)
        busy = time / max(times)
        figures = f"h={placed.h} w={placed.w} c={_list(placed.c)} k={_list(placed.k)} {placed.rotation}"
        about = (
            f"{kernel.name} ({kernel.kind}): {figures}, {across} × {up} tiles, time {time:g}, busy {100 * busy:.1f} %"
        )
        found.append(Rectangle(kernel.name, about, placed.x, placed.y, across, up, busy))
    return found


@dataclass(frozen=True)
class Curve:
    """An edge as it is drawn, a Bézier curve of second degree: begin, control point and end, in tiles.

    ``past``: a straight line would lead through other kernels, as that of a residual edge does in a row; it is bent so
    as not to hide behind the edges of these.
    """

    begin: tuple[float, float]
    control: tuple[float, float]
    end: tuple[float, float]
    past: bool


def curves(problem: WaferProblem, shown: list[Rectangle]) -> list[Curve]:
    """The edges."""
    found = []
    for source, target in problem.edges:
        (x, y), (to_x, to_y) = shown[source].centre, shown[target].centre
        past = any(_through(shown[source], shown[target], each) for each in shown)
        bend = _BEND if past else 0.0
        control = (x + to_x) / 2 - bend * (to_y - y), (y + to_y) / 2 + bend * (to_x - x)
        found.append(Curve((x, y), control, (to_x, to_y), past))
    return found


def _through(source: Rectangle, target: Rectangle, other: Rectangle) -> bool:
    """Whether the straight line between the centres of two kernels leads through the inside of a third one."""
    if other in (source, target):
        return False
    enter, leave = 0.0, 1.0
    spans = (other.x, other.x + other.across), (other.y, other.y + other.up)
    for at, to, (low, high) in zip(source.centre, target.centre, spans, strict=True):
        if at == to and not low < at < high:
            return False
        if at != to:
            first, last = sorted(((low - at) / (to - at), (high - at) / (to - at)))
            enter, leave = max(enter, first), min(leave, last)
    return enter < leave


def least_shown(shown: list[Rectangle]) -> float:
    """The busy share at the low end of the colours: whole tens of percent, so that most of them are used."""
    return min(0.9, int(10 * min(each.busy for each in shown)) / 10)


def title(problem: WaferProblem, placement: WaferPlacement, bound: float | None) -> str:
    """Name and figures in one line."""
    found = cost(problem, placement)
    proof = ""
    if bound is not None:
        proof = " (proven optimal)" if bound >= found.total else f" (at least {bound:,.7g})"
    parts = f"time {found.time:,.10g}, distance {found.distance:,.10g}, adapter {found.adapter:,}"
    return f"{problem.name}: {parts}; cost {found.total:,.10g}{proof}"


def drawing(problem: WaferProblem, placement: WaferPlacement, bound: float | None = None) -> str:
    """The picture, y upwards; a kernel's tooltip has its parameters and figures."""
    wafer, shown = problem.wafer, rectangles(problem, placement)
    scale, low = _PIXELS / max(wafer.width_tiles, wafer.height_tiles), least_shown(shown)
    width, height = wafer.width_tiles * scale, wafer.height_tiles * scale
    # Title and legend are as wide on a narrow wafer.
    across = max(width + 2, _LEAST_PIXELS)
    box = f"{(width - across) / 2:g} {-_ABOVE} {across:g} {height + _ABOVE + _BELOW:g}"
    parts = [
        f"<svg class='wafer' xmlns='http://www.w3.org/2000/svg' viewBox='{box}' width='{across:g}' "
        f"height='{height + _ABOVE + _BELOW:g}' role='img'><style>{_STYLE}</style>",
        f"<text x='{width / 2:g}' y='{-_ABOVE / 2:g}' font-size='{_FONT:g}'>"
        f"{html.escape(title(problem, placement, bound))}</text>",
        f"<rect width='{width:g}' height='{height:g}' fill='{GROUND}'/>",
    ]
    for each in shown:
        parts += _rectangle(each, low, scale, height)
    for curve in curves(problem, shown):
        spots = [f"{x * scale:.2f} {height - y * scale:.2f}" for x, y in (curve.begin, curve.control, curve.end)]
        kind = "edge skip" if curve.past else "edge"
        parts.append(f"<path class='{kind}' d='M {spots[0]} Q {spots[1]} {spots[2]}'/>")
    parts += _legend(low, width, height)
    return "\n".join((*parts, "</svg>")) + "\n"


def _rectangle(shown: Rectangle, low: float, scale: float, height: float) -> Iterator[str]:
    left, top = shown.x * scale, height - (shown.y + shown.up) * scale
    colour = _colour((shown.busy - low) / (1 - low))
    yield (
        f"<rect x='{left:.2f}' y='{top:.2f}' width='{shown.across * scale:.2f}' height='{shown.up * scale:.2f}' "
        f"fill='{colour}'><title>{html.escape(shown.about)}</title></rect>"
    )
    x, y = shown.label[0] * scale, height - shown.label[1] * scale
    turned = f" transform='rotate(-90 {x:.2f} {y:.2f})'" if shown.up > shown.across else ""
    size = shown.font_size(scale, _FONT)
    yield f"<text x='{x:.2f}' y='{y:.2f}' font-size='{size:.1f}'{turned}>{html.escape(shown.name)}</text>"


def _colour(share: float) -> str:
    """Between the ends of the legend."""
    return f"rgb({','.join(f'{begin + share * (end - begin):.0f}' for begin, end in zip(LOW, HIGH, strict=True))})"


def _legend(low: float, width: float, height: float) -> Iterator[str]:
    """A bar of the colours below the wafer."""
    step, top = width / 3 / _STEPS, height + 10
    for number in range(_STEPS):
        x, colour = width / 3 + number * step, _colour(number / (_STEPS - 1))
        yield f"<rect class='bar' x='{x:.2f}' y='{top:g}' width='{step + 0.5:.2f}' height='12' fill='{colour}'/>"
    for x, text in (
        (width / 3 - 24, f"{100 * low:.0f} %"),
        (2 * width / 3 + 26, "100 %"),
    ):
        yield f"<text x='{x:g}' y='{top + 6:g}' font-size='12'>{text}</text>"
    yield f"<text x='{width / 2:g}' y='{top + 26:g}' font-size='12'>{LEGEND}; dashed edges pass other kernels</text>"


def _list(values: tuple[int, ...]) -> str:
    return ",".join(map(str, values))
