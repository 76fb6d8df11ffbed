"""A placement drawn by matplotlib: units coloured by what they do, links by what passes them.

Import this module where a picture is drawn: matplotlib takes half a second.
"""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from dse.fabric.figures import PlacedPiece
from dse.fabric.model import UnitKind
from dse.fabric.search.expansion import Expansion
from dse.report.drawn import DrawnFigure
from dse.report.palette import BLUE, BROWN, GREEN, GREY, HEAT, LINE, ON_COLOUR, PAPER, PURPLE, SOFT, YELLOW

ROLES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "gemm": ("matrix products", BLUE),
        "vector": ("other operators", YELLOW),
        "weights": ("weights", PURPLE),
        "sum": ("sums of gradients", BROWN),
        "buffer": ("buffers", GREEN),
        "input": ("input and output", GREY),
    }
)
"""(label, colour) of what units do."""

_COLOURS = 40
"""Of links; matplotlib embeds the legend of more than 50 as pixels."""

_INCHES_WIDE = 10.0
_UNIT, _IO = 0.54, 0.24
"""Sides of units in cells, and next to them at the edges."""

_SHIFT = 0.1
"""Cells from the line between two switches to the link in either direction."""

_MIN_FONT = 4.0
_UNITS, _LINKS = "units", "links"
"""Classes of groups in an SVG."""


def role_of(piece: Expansion, unit: int) -> str:
    """What a unit does: key of :data:`ROLES`."""
    origin = piece.origins[unit]
    if origin.role == "compute":
        return "gemm" if piece.graph.operators[origin.operator].kind == "gemm" else "vector"
    return "input" if origin.role == "output" else origin.role


def picture(piece: Expansion, placed: PlacedPiece, heading: str) -> DrawnFigure:
    """The picture; in an SVG, tooltips name units, and say what passes a link."""
    grid = placed.fabric.grid
    names = [_about_unit(placed, unit) for unit in range(len(placed.pipeline.units))]
    links = [
        f"{grid.link_from[link]} to {grid.link_to[link]}: {placed.flits[link]} flits per sample"
        for link in _used_links(placed)
    ]
    return DrawnFigure(lambda: _figure(piece, placed, heading), "fabric", {_UNITS: names, _LINKS: links})


def _about_unit(placed: PlacedPiece, number: int) -> str:
    unit = placed.pipeline.units[number]
    match unit.kind:
        case UnitKind.COMPUTE:
            amount = f", {unit.work_slots} slots of work per sample"
        case UnitKind.MEMORY:
            amount = f", holds {unit.samples} samples" if unit.samples > 1 else ""
        case _:
            amount = ""
    return f"{unit.name}{amount}, site {placed.placement.site[number]}"


def _used_links(placed: PlacedPiece) -> list[int]:
    """From the least loaded to the most loaded, which is drawn last."""
    order = np.argsort(placed.flits, kind="stable")
    return [int(link) for link in order if placed.flits[link]]


def _figure(piece: Expansion, placed: PlacedPiece, heading: str) -> Figure:
    fabric = placed.fabric
    inches_per_cell = _INCHES_WIDE / (fabric.columns + 1)
    figure = Figure(figsize=(_INCHES_WIDE, (fabric.rows + 0.9) * inches_per_cell + 1.2), layout="constrained")
    axes = figure.add_subplot()
    axes.set(xlim=(-0.9, fabric.columns - 0.1), ylim=(fabric.rows - 0.1, -0.9), aspect="equal")
    axes.set_title(heading, fontsize=11, wrap=True)
    axes.set_axis_off()
    _draw_cells(axes, placed)
    colours = _draw_links(axes, placed, 72 * inches_per_cell)
    used = _draw_units(axes, piece, placed, 72 * inches_per_cell)
    handles = [Patch(facecolor=colour, label=label) for role, (label, colour) in ROLES.items() if role in used]
    axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncol=6, fontsize=9, frameon=False)
    if colours is not None:
        bar = figure.colorbar(colours, ax=axes, location="bottom", shrink=0.45, aspect=40, pad=0.01)
        if bar.solids is not None:
            bar.solids.set_edgecolor("face")
        bar.set_label("flits per sample and track of a link", fontsize=9)
        bar.ax.tick_params(labelsize=8)
    return figure


def _draw_cells(axes: Axes, placed: PlacedPiece) -> None:
    """Where units could be: on grey ground compute units, in dotted outlines memory units."""
    grid = placed.fabric.grid
    for kind, style, ground in (("compute", "-", SOFT), ("memory", ":", PAPER)):
        cells = grid.site_cell[[site for site, each in enumerate(grid.site_kind) if each == kind]]
        squares = [_square(cell % grid.columns, cell // grid.columns, _UNIT) for cell in cells.tolist()]
        outlines = PatchCollection(squares, facecolor=ground, edgecolor=LINE, linewidth=0.5, linestyle=style)
        axes.add_collection(outlines)


def _draw_links(axes: Axes, placed: PlacedPiece, points_per_cell: float) -> ScalarMappable | None:
    """Links that carry something, each direction on its right-hand side; None where there are none."""
    grid, used = placed.fabric.grid, _used_links(placed)
    if not used:
        return None
    ends = np.stack([grid.link_from[used], grid.link_to[used]], axis=1)
    x, y = ends % grid.columns, ends // grid.columns
    # In a picture with y downwards, right of the direction (dx, dy) is (-dy, dx).
    dx, dy = x[:, 1] - x[:, 0], y[:, 1] - y[:, 0]
    lines = np.stack([x - _SHIFT * dy[:, None], y + _SHIFT * dx[:, None]], axis=2).astype(float)
    loads = placed.flits[used] / placed.fabric.tracks
    low = min(loads.min(), 0.98 * loads.max())
    colours = ScalarMappable(Normalize(low, loads.max()), LinearSegmentedColormap.from_list("load", HEAT, N=_COLOURS))
    # As many widths as colours, so that links of one colour are one path where they are many.
    steps = np.round(_COLOURS * loads / loads.max()) / _COLOURS
    widths = points_per_cell * (0.02 + 0.08 * steps)
    drawn = LineCollection(list(lines), colors=colours.to_rgba(loads), linewidths=widths, capstyle="round", gid=_LINKS)
    axes.add_collection(drawn)
    return colours


def _draw_units(axes: Axes, piece: Expansion, placed: PlacedPiece, points_per_cell: float) -> set[str]:
    """Units over the links, with the number of their operator; the roles that there are."""
    places = _places(placed)
    roles = [role_of(piece, unit) for unit in range(len(places))]
    squares = [_square(x, y, side) for x, y, side in places]
    units = PatchCollection(
        squares, facecolor=[ROLES[role][1] for role in roles], edgecolor=PAPER, linewidth=0.6, gid=_UNITS, zorder=3
    )
    axes.add_collection(units)
    for (x, y, side), origin, role in zip(places, piece.origins, roles, strict=True):
        text = str(origin.operator + 1)
        size = min(9.0, 0.9 * side * points_per_cell / max(1.4, 0.62 * len(text)))
        if size >= _MIN_FONT:
            ink = ON_COLOUR if role == "vector" else PAPER
            axes.text(x, y, text, size=size, ha="center", va="center_baseline", color=ink, zorder=4).set_in_layout(
                False
            )
    return set(roles)


def _places(placed: PlacedPiece) -> list[tuple[float, float, float]]:
    """(x, y, side) of every unit; those for input and output are outside their switch, side by side."""
    grid = placed.fabric.grid
    at_cell: dict[int, int] = {}
    places = []
    for site in placed.placement.site.tolist():
        cell = int(grid.site_cell[site])
        row, column = divmod(cell, grid.columns)
        if grid.site_kind[site] != "io":
            places.append((float(column), float(row), _UNIT))
            continue
        number = at_cell[cell] = at_cell.get(cell, -1) + 1
        across, up = _outwards(row, column, grid.rows, grid.columns)
        aside = (number - 0.5) * 1.3 * _IO if placed.fabric.io_per_switch > 1 else 0.0
        places.append((column + 0.6 * across + aside * (across == 0), row + 0.6 * up + aside * (across != 0), _IO))
    return places


def _outwards(row: int, column: int, rows: int, columns: int) -> tuple[int, int]:
    """The direction from a cell of the edge out of the grid; from a cell inside it, up and to the left."""
    if column in (0, columns - 1):
        return (-1 if column == 0 else 1), 0
    return (0, -1) if row == 0 else (0, 1) if row == rows - 1 else (-1, -1)


def _square(x: float, y: float, side: float) -> Rectangle:
    return Rectangle((x - side / 2, y - side / 2), side, side)
