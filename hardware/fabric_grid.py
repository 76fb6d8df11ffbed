"""The grid of a dataflow fabric: cells with a switch each, sites for units, and directed links between neighbours.

Cells are numbered row by row. A cell has a switch, and a site for a compute unit, for a memory unit, or for none. The
switches on some edges have further sites for input and output. Two switches that are neighbours have a link each way.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import rustworkx

Edge = Literal["north", "east", "south", "west"]
SiteKind = Literal["compute", "memory", "io"]

COMPUTE, MEMORY, SWITCH = "C", "M", "."
"""Letters of a pattern: a cell with a compute unit, with a memory unit, with a switch alone."""

Cell = tuple[int, int]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Grid:
    """Sites and links of a fabric.

    Attributes:
        rows, columns: of cells; the cell in row r and column c has number r · columns + c.
        site_kind: what kind of unit each site takes, [S]; sites of cells first, in order, then those of the edges.
        site_cell: the cell whose switch each site is at, [S].
        link_from, link_to: the cells that each link leads from and to, [L].
    """

    rows: int
    columns: int
    site_kind: tuple[SiteKind, ...]
    site_cell: Integers
    link_from: Integers
    link_to: Integers

    @property
    def cells(self) -> int:
        """Number of cells."""
        return self.rows * self.columns

    def sites(self, kind: SiteKind) -> list[int]:
        """The sites that take units of ``kind``, in order."""
        return [site for site, each in enumerate(self.site_kind) if each == kind]


def grid(
    rows: int,
    columns: int,
    pattern: Sequence[str],
    io_edges: Collection[Edge],
    io_per_switch: int,
    absent: Collection[Cell] = (),
) -> Grid:
    """The grid whose cells repeat ``pattern``, without the cells ``absent``; a cell on two edges has one set of sites.

    Raises:
        ValueError: rows of a pattern differ in length or hold other letters, ``absent`` names a cell that there is
            not, or the switches that are left are not connected.
    """
    _check_pattern(pattern)
    for row, column in absent:
        if not (0 <= row < rows and 0 <= column < columns):
            raise ValueError(f"absent cells must lie in the grid of {rows} x {columns}, but got [{row}, {column}]")
    missing = set(absent)
    cells = [(row, column) for row in range(rows) for column in range(columns) if (row, column) not in missing]
    _check_connected(cells)
    kinds: list[SiteKind] = []
    places: list[int] = []
    for row, column in cells:
        letter = pattern[row % len(pattern)][column % len(pattern[0])]
        if letter != SWITCH:
            kinds.append("compute" if letter == COMPUTE else "memory")
            places.append(row * columns + column)
    for row, column in cells:
        if _is_on(row, column, rows, columns, io_edges):
            kinds += ["io"] * io_per_switch
            places += [row * columns + column] * io_per_switch
    links = [
        (row * columns + column, next_row * columns + next_column)
        for row, column in cells
        for next_row, next_column in _neighbours(row, column)
        if 0 <= next_row < rows and 0 <= next_column < columns and (next_row, next_column) not in missing
    ]
    ends = np.array(links, dtype=np.int64).reshape(-1, 2)
    return Grid(rows, columns, tuple(kinds), np.array(places, dtype=np.int64), ends[:, 0].copy(), ends[:, 1].copy())


def _check_pattern(pattern: Sequence[str]) -> None:
    if not pattern or not pattern[0] or any(len(line) != len(pattern[0]) for line in pattern):
        raise ValueError(f"rows of the pattern must all have the same length, at least 1, but got {list(pattern)}")
    for letter in "".join(pattern):
        if letter not in (COMPUTE, MEMORY, SWITCH):
            raise ValueError(f"cells of the pattern must be C (compute), M (memory) or . (switch), but got {letter!r}")


def _check_connected(cells: Sequence[Cell]) -> None:
    if not cells:
        raise ValueError("a grid must have at least one cell, but all are absent")
    number = {cell: index for index, cell in enumerate(cells)}
    graph = rustworkx.PyGraph()
    graph.add_nodes_from(range(len(cells)))
    for cell, index in number.items():
        graph.add_edges_from_no_data([(index, number[other]) for other in _neighbours(*cell) if other in number])
    parts = sorted(rustworkx.connected_components(graph), key=len)
    if len(parts) > 1:
        alone = [list(cells[index]) for index in sorted(parts[0])]
        raise ValueError(
            f"every switch must be reachable from every other, but {len(alone)} of {len(cells)} cells are "
            f"unreachable, such as {alone[0]}"
        )


def _neighbours(row: int, column: int) -> list[Cell]:
    return [(row - 1, column), (row, column - 1), (row, column + 1), (row + 1, column)]


def _is_on(row: int, column: int, rows: int, columns: int, edges: Collection[Edge]) -> bool:
    on = {"north": row == 0, "south": row == rows - 1, "west": column == 0, "east": column == columns - 1}
    return any(on[edge] for edge in edges)
