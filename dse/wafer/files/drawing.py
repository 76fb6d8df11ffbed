"""What a picture of a placement shows: rectangles with names and shares of time, edges between their centres, a title.

:mod:`dse.wafer.files.picture` draws it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dse.report.units import lower_bound_text
from dse.wafer.check import cost, kernel_time, size_tiles
from dse.wafer.problem import WaferPlacement, WaferProblem

_BEND = 0.25
"""How far the control point of a bent edge is away from it, in lengths of the edge."""


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
        """The middle of the name: of the further half of the longer side, away from the edges."""
        x, y = self.centre
        return (x, y + self.up / 4) if self.up > self.across else (x + self.across / 4, y)

    def font_size(self, scale: float, largest: float) -> float:
        """Of the name along the longer side, where a tile is ``scale`` wide: as large as fits."""
        long, short = max(self.across, self.up) * scale, min(self.across, self.up) * scale
        return min(largest, 0.75 * long / max(2, len(self.name)), 0.9 * short)


def rectangles(problem: WaferProblem, placement: WaferPlacement) -> list[Rectangle]:
    """The kernels, by position."""
    times = [float(kernel_time(*pair)) for pair in zip(problem.kernels, placement.placed, strict=True)]
    drawn = []
    for kernel, placed, time in zip(problem.kernels, placement.placed, times, strict=True):
        across, up = size_tiles(placed)
        busy = time / max(times)
        figures = f"h={placed.h} w={placed.w} c={_list(placed.c)} k={_list(placed.k)} {placed.rotation}"
        about = (
            f"{kernel.name} ({kernel.kind}): {figures}, {across} × {up} tiles, time {time:g}, busy {100 * busy:.1f} %"
        )
        drawn.append(Rectangle(kernel.name, about, placed.x, placed.y, across, up, busy))
    return drawn


@dataclass(frozen=True)
class Curve:
    """An edge as it is drawn, a Bézier curve of second degree: begin, control point and end, in tiles.

    ``past``: a straight line would lead through other kernels, as that of a residual edge does in a row; it is bent so
    as not to hide behind the edges of these.
    """

    points: tuple[tuple[float, float], tuple[float, float], tuple[float, float]]
    past: bool


def curves(problem: WaferProblem, shown: Sequence[Rectangle]) -> list[Curve]:
    """The edges."""
    drawn = []
    corners = np.array([(each.x, each.y) for each in shown])
    sides = np.array([(each.across, each.up) for each in shown])
    for source, target in problem.edges:
        (x, y), (to_x, to_y) = shown[source].centre, shown[target].centre
        crossed = _crossed((x, y), (to_x, to_y), corners, sides)
        crossed[[source, target]] = False
        bend = _BEND if crossed.any() else 0.0
        control = (x + to_x) / 2 - bend * (to_y - y), (y + to_y) / 2 + bend * (to_x - x)
        drawn.append(Curve(((x, y), control, (to_x, to_y)), bool(crossed.any())))
    return drawn


def _crossed(
    begin: tuple[float, float], end: tuple[float, float], corners: NDArray[np.int64], sides: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Through the inside of which rectangles a straight line leads; ``corners``, ``sides`` and result: [rectangles]."""
    enter, leave = np.zeros(len(corners)), np.ones(len(corners))
    for at, to, low, side in zip(begin, end, corners.T, sides.T, strict=True):
        if at == to:
            leave[(at <= low) | (at >= low + side)] = 0.0
        else:
            ends = (low - at) / (to - at), (low + side - at) / (to - at)
            enter, leave = np.maximum(enter, np.minimum(*ends)), np.minimum(leave, np.maximum(*ends))
    crossed: NDArray[np.bool_] = enter < leave
    return crossed


def min_busy(shown: Sequence[Rectangle]) -> float:
    """The busy share at the low end of the colours: whole tens of percent, so that most of them are used."""
    return min(0.9, int(10 * min(each.busy for each in shown)) / 10)


def title(problem: WaferProblem, placement: WaferPlacement, bound: float | None) -> str:
    """Name and figures in one line."""
    priced = cost(problem, placement)
    proof = ""
    if bound is not None:
        proof = " (proven optimal)" if bound >= priced.total else f" (lower bound {lower_bound_text(bound)})"
    parts = f"time {priced.time:,.10g}, distance {priced.distance:,.10g}, adapter {priced.adapter:,}"
    return f"{problem.name}: {parts}; cost {priced.total:,.10g}{proof}"


def _list(values: tuple[int, ...]) -> str:
    return ",".join(map(str, values))
