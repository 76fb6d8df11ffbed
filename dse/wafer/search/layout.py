"""Layouts of rows and columns (:mod:`dse.wafer.search.layout_kernels`) as arrays, and as placements."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dse.wafer.problem import PlacedKernel, Rotation, WaferPlacement, WaferProblem
from dse.wafer.search.ladder import Ladder
from dse.wafer.search.layout_kernels import BESIDE, FREE, NEW_ROW, STACKED, measured
from dse.wafer.shapes import Ints, ShapeTable


class Layout(NamedTuple):
    """A layout of N kernels, and room for what follows from it. All arrays are [N].

    Attributes:
        order: the kernels in sequence.
        mark: where the kernel at each place of the sequence stands.
        height: of each row, tiles; the rest is not used.
        flip: 1 by where a flipped column begins, or 0.
        protocol: of each kernel, or free.
        width: of each kernel with a protocol: its width at the level of the last call.
        column, x, y, wide, high, turned, used: scratch, filled by :func:`measure`.
    """

    order: Ints
    mark: Ints
    height: Ints
    flip: Ints
    protocol: Ints
    width: Ints
    column: Ints
    x: Ints
    y: Ints
    wide: Ints
    high: Ints
    turned: Ints
    used: Ints


def layout_of(order: Sequence[int], rows: Sequence[int], heights: Sequence[int]) -> Layout:
    """Kernels in ``order``, each in a column of its own, rows beginning at the places ``rows`` (the first is 0)."""
    count = len(order)
    blank = [np.zeros(count, dtype=np.int64) for _ in Layout._fields]
    layout = Layout(*blank)
    layout.order[:] = order
    layout.mark[:] = BESIDE
    layout.mark[list(rows)] = NEW_ROW
    layout.height[: len(heights)] = heights
    layout.protocol[:] = FREE
    return layout


def copied(layout: Layout) -> Layout:
    """The same in arrays of its own."""
    return Layout(*(array.copy() for array in layout))


def as_columns(rows: Layout, height: int) -> Layout:
    """Rows without stacks, turned by a right angle: one row of ``height`` tiles in which each of them is a stack."""
    columns = copied(rows)
    columns.mark[:] = np.where(rows.mark == NEW_ROW, BESIDE, STACKED)
    columns.mark[0] = NEW_ROW
    columns.flip[:] = np.where(columns.mark == STACKED, 0, (np.cumsum(rows.mark == NEW_ROW) - 1) % 2)
    columns.height[:] = 0
    columns.height[0] = height
    return columns


def as_rows(columns: Layout) -> Layout:
    """One row of stacks, measured before, turned by a right angle: rows as high as the stacks were wide."""
    rows = copied(columns)
    begins = np.flatnonzero(columns.mark != STACKED)
    rows.mark[:] = BESIDE
    rows.mark[begins] = NEW_ROW
    rows.height[: len(begins)] = columns.column[begins]
    rows.flip[:] = 0
    return rows


def measure(ladder: Ladder, layout: Layout, level: int) -> tuple[float, int]:
    """(weighted cost of a layout at a level, the ticks that it takes, at most the level's); fills the scratch.

    The cost is infinite for what is not legal: a row that is too long, or a kernel that cannot be as small as its row.
    """
    cost, ticks, excess = measured(ladder, layout, level)
    return (float(cost) if excess == 0 else np.inf), int(ticks)


def placement(problem: WaferProblem, table: ShapeTable, ladder: Ladder, layout: Layout, level: int) -> WaferPlacement:
    """The placement that a layout of finite cost is at a level; legal unless rows are too long or too high together."""
    measure(ladder, layout, level)
    measured = Measured(layout.x, layout.y, layout.wide, layout.high, layout.used)
    return placed_kernels(problem, table, measured, int(ladder.limits[level]))


class Measured(NamedTuple):
    """What compiled code has placed: lower corners, sides and protocols of all kernels, [N] each."""

    x: Ints
    y: Ints
    wide: Ints
    high: Ints
    used: Ints


def placed_kernels(problem: WaferProblem, table: ShapeTable, measured: Measured, limit: int) -> WaferPlacement:
    """The placement of kernels whose places, sides and protocols are known, sized for a time limit in ticks."""
    placed = []
    for number in range(len(problem.kernels)):
        sides = int(measured.wide[number]), int(measured.high[number])
        h, w, c, k = parameters(problem, table, number, int(measured.used[number]), limit)
        tall, wide = h * w * (max(c) + 1), 3 * sum(k)
        rotation: Rotation = "R0" if sides[1] == tall and sides[0] >= wide and (sides[0] - wide) % 3 == 0 else "R90"
        longer = (sides[0] if rotation == "R0" else sides[1]) - wide
        k = _longer(k, [each.outputs for each in problem.kernels[number].convolutions], longer // 3)
        placed.append(PlacedKernel(h, w, c, k, int(measured.x[number]), int(measured.y[number]), rotation))
    return WaferPlacement(tuple(placed))


def _longer(k: Sequence[int], outputs: Sequence[int], more: int) -> tuple[int, ...]:
    """K with ``more`` in all, each at most its K."""
    widened = []
    for each, limit in zip(k, outputs, strict=True):
        added = min(more, limit - each)
        widened.append(each + added)
        more -= added
    return tuple(widened)


def parameters(
    problem: WaferProblem, table: ShapeTable, number: int, protocol: int, limit: int
) -> tuple[int, int, tuple[int, ...], tuple[int, ...]]:
    """(h, w, every c, every k) of a kernel with a protocol that keeps a time limit in ticks, as narrow as can be."""
    known, group = table.protocols, table.group[number]
    h, w, max_c = (int(each[protocol]) for each in (known.h, known.w, known.c))
    c, k = [], []
    for place, each in enumerate(problem.kernels[number].convolutions):
        rounds = limit // int(table.ticks[group, protocol, place])
        c.append(min(max_c, each.inputs))
        k.append(max(int(table.min_k[group, protocol, place]), -(-each.outputs // rounds)))
    return h, w, tuple(c), tuple(k)
