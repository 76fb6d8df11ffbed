"""A placement drawn by matplotlib: as SVG for pages, as PNG for slides and where nothing shows SVG.

What it shows is in :mod:`dse.wafer.files.drawing`. Import this module where a picture is drawn: matplotlib takes half a
second.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import PatchCollection, PathCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle as Patch
from matplotlib.path import Path

from dse.report.drawn import DrawnFigure
from dse.report.palette import BLUE, HEAT, ON_COLOUR, SOFT
from dse.wafer.files.drawing import Rectangle, curves, min_busy, rectangles, title
from dse.wafer.problem import WaferPlacement, WaferProblem

_COLOURS = 40
"""Of kernels; matplotlib embeds the legend of more than 50 as pixels."""

_INCHES, _POINTS_PER_INCH = 8.0, 72
_FONT, _MIN_FONT = 9.0, 3.0
"""Points; names that would be smaller are left out."""

_DOT = 2.0
"""Points, across the dot in the middle of a kernel."""

_KERNELS, _EDGES, _PASSING = "kernels", "edges", "passing edges"
"""Classes of groups in an SVG."""


def picture(problem: WaferProblem, placement: WaferPlacement, bound: float | None = None) -> DrawnFigure:
    """The picture, y upwards; in an SVG, a kernel's tooltip has its parameters and figures."""
    shown = rectangles(problem, placement)
    tooltips = {_KERNELS: [each.about for each in shown], _EDGES: [], _PASSING: []}
    return DrawnFigure(lambda: _figure(problem, shown, title(problem, placement, bound)), "wafer", tooltips)


def _figure(problem: WaferProblem, shown: Sequence[Rectangle], heading: str) -> Figure:
    wafer = problem.wafer
    inches_per_tile = _INCHES / max(wafer.width_tiles, wafer.height_tiles)
    # Title and legend are as wide on a narrow wafer.
    size = max(6.2, wafer.width_tiles * inches_per_tile) + 0.8, max(3.0, wafer.height_tiles * inches_per_tile) + 1.4
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    axes.set(xlim=(0, wafer.width_tiles), ylim=(0, wafer.height_tiles), aspect="equal", facecolor=SOFT)
    axes.set_title(heading, fontsize=10, wrap=True)
    axes.tick_params(labelsize=7)
    colours = ScalarMappable(
        Normalize(100 * min_busy(shown), 100), LinearSegmentedColormap.from_list("busy", HEAT, N=_COLOURS)
    )
    filled = colours.to_rgba(np.array([100 * each.busy for each in shown]))
    kernels = PatchCollection(
        [Patch((each.x, each.y), each.across, each.up) for each in shown],
        facecolor=filled,
        edgecolor=ON_COLOUR,
        linewidth=0.6,
        gid=_KERNELS,
    )
    axes.add_collection(kernels)
    _draw_edges(axes, problem, shown, inches_per_tile * _POINTS_PER_INCH)
    for each, colour in zip(shown, filled, strict=True):
        _draw_name(axes, each, tuple(colour), inches_per_tile * _POINTS_PER_INCH)
    bar = figure.colorbar(colours, ax=axes, location="bottom", shrink=0.5, aspect=40, pad=0.02, format="{x:.0f} %")
    if bar.solids is not None:
        bar.solids.set_edgecolor("face")
    bar.set_label("busy: time relative to the slowest kernel; dashed edges pass over other kernels", fontsize=8)
    bar.ax.tick_params(labelsize=8)
    return figure


def _draw_edges(axes: Axes, problem: WaferProblem, shown: Sequence[Rectangle], points_per_tile: float) -> None:
    drawn = curves(problem, shown)
    for gid, line, past in ((_EDGES, "-", False), (_PASSING, "--", True)):
        paths = [Path(each.points, (Path.MOVETO, Path.CURVE3, Path.CURVE3)) for each in drawn if each.past == past]
        edges = PathCollection(paths, facecolor="none", edgecolor=BLUE, linewidth=0.9, linestyle=line, alpha=0.8)
        edges.set_gid(gid)
        axes.add_collection(edges)
    x, y = zip(*(each.centre for each in shown), strict=True)
    # A dot leaves the sides of its kernel to be seen, however small that is.
    dots = [min(_DOT, min(each.across, each.up) * points_per_tile / 2) for each in shown]
    axes.scatter(x, y, s=[each**2 for each in dots], color=BLUE, linewidths=0, zorder=3)


def _draw_name(axes: Axes, shown: Rectangle, colour: tuple[float, ...], points_per_tile: float) -> None:
    """The name of a kernel over its edges, on its ``colour``."""
    size = shown.font_size(points_per_tile, _FONT)
    if size >= _MIN_FONT:
        turned = 90 if shown.up > shown.across else 0
        box = {"facecolor": colour, "edgecolor": "none", "pad": size / 15}
        name = axes.text(
            *shown.label, shown.name, size=size, rotation=turned, ha="center", va="center", color=ON_COLOUR, bbox=box
        )
        name.set_in_layout(False)
