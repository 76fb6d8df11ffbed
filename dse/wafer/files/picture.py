"""A placement as a picture of pixels (PNG), for slides and for where nothing shows SVG."""

import io

from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.patches import Rectangle as Patch
from matplotlib.path import Path

from dse.wafer.files.drawing import (
    GROUND,
    HIGH,
    INK,
    LEGEND,
    LINE,
    LOW,
    Rectangle,
    curves,
    least_shown,
    rectangles,
    title,
)
from dse.wafer.problem import WaferPlacement, WaferProblem

_INCHES, _DOTS_PER_INCH = 8.0, 160
_POINTS_PER_INCH = 72
_FONT = 9.0
_DOT = 2.0
"""Points, across the dot in the middle of a kernel."""

_LEAST_FONT = 3.0
"""Points; smaller names are left out."""


def picture(problem: WaferProblem, placement: WaferPlacement, bound: float | None = None) -> bytes:
    """The picture, y upwards, in the PNG format."""
    wafer, shown = problem.wafer, rectangles(problem, placement)
    inches_per_tile = _INCHES / max(wafer.width_tiles, wafer.height_tiles)
    size = max(4.0, wafer.width_tiles * inches_per_tile) + 0.8, max(3.0, wafer.height_tiles * inches_per_tile) + 1.4
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.add_subplot()
    axes.set(xlim=(0, wafer.width_tiles), ylim=(0, wafer.height_tiles), aspect="equal", facecolor=GROUND)
    axes.set_title(title(problem, placement, bound), fontsize=10, color=INK, wrap=True)
    colours = LinearSegmentedColormap.from_list("busy", [tuple(part / 255 for part in end) for end in (LOW, HIGH)])
    low = least_shown(shown)
    filled = PatchCollection(
        [Patch((each.x, each.y), each.across, each.up) for each in shown],
        cmap=colours,
        norm=Normalize(100 * low, 100),
        edgecolor=INK,
        linewidth=0.6,
    )
    filled.set_array([100 * each.busy for each in shown])
    axes.add_collection(filled)
    _edges(axes, problem, shown, inches_per_tile * _POINTS_PER_INCH)
    for each in shown:
        _name(axes, each, inches_per_tile * _POINTS_PER_INCH)
    bar = figure.colorbar(filled, ax=axes, location="bottom", shrink=0.5, aspect=40, pad=0.02, format="{x:.0f} %")
    bar.set_label(f"{LEGEND}; dashed edges pass other kernels", fontsize=8)
    bar.ax.tick_params(labelsize=8)
    axes.tick_params(labelsize=7)
    content = io.BytesIO()
    # Without the version of the library, so that a picture depends on what it shows alone.
    figure.savefig(content, format="png", dpi=_DOTS_PER_INCH, metadata={"Software": None})
    return content.getvalue()


def _edges(axes: Axes, problem: WaferProblem, shown: list[Rectangle], points_per_tile: float) -> None:
    for each in curves(problem, shown):
        path = Path((each.begin, each.control, each.end), (Path.MOVETO, Path.CURVE3, Path.CURVE3))
        style = "--" if each.past else "-"
        axes.add_patch(PathPatch(path, fill=False, edgecolor=LINE, linewidth=0.9, linestyle=style, alpha=0.8))
    x, y = zip(*(each.centre for each in shown), strict=True)
    # A dot leaves the sides of its kernel to be seen, however small that is.
    dots = [min(_DOT, min(each.across, each.up) * points_per_tile / 2) for each in shown]
    axes.scatter(x, y, s=[each**2 for each in dots], color=LINE, linewidths=0, zorder=3)


def _name(axes: Axes, shown: Rectangle, points_per_tile: float) -> None:
    size = shown.font_size(points_per_tile, _FONT)
    if size >= _LEAST_FONT:
        turned = 90 if shown.up > shown.across else 0
        axes.text(*shown.label, shown.name, fontsize=size, rotation=turned, ha="center", va="center", color=INK)
