"""Rows of kernels: Getheight (paper section 3.3), and what a cut of the sequence into rows is on the wafer.

What the paper leaves open: kernels are vertically centred in their row, which makes the distances inside it
least; rows are filled from the left, without gaps, and lie on each other from the bottom.
"""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dse.wafer.problem import PlacedKernel, WaferPlacement, WaferProblem
from dse.wafer.search.gigaplacer.sizing import ACROSS, UP, Sizes, turned, upright
from dse.wafer.shapes import NEVER, Ints
from hardware.compiled import compiled, kernel

UNKNOWN = -1


class Chosen(NamedTuple):
    """What has been computed for one time limit, so that nothing is computed twice: sizes by height, heights of rows.

    Attributes:
        width: [groups, height + 1] the least width of a kernel at most so high; :data:`UNKNOWN` where not computed yet.
        h, w, turned: [groups, height + 1] the parameters of that kernel, and 1 where it is turned.
        row: [N, N + 1] the least height of a row from one place of the sequence to before another.
        c, k: [V] scratch.
    """

    width: Ints
    h: Ints
    w: Ints
    turned: Ints
    row: Ints
    c: Ints
    k: Ints


def nothing_chosen(sizes: Sizes) -> Chosen:
    """Before anything is computed."""
    shape, count = (len(sizes.convolutions), int(sizes.wafer[UP]) + 1), len(sizes.group)
    return Chosen(
        **{name: np.full(shape, UNKNOWN, dtype=np.int64) for name in ("width", "h", "w", "turned")},
        row=np.full((count, count + 1), UNKNOWN, dtype=np.int64),
        **{name: np.zeros(sizes.formal.shape[1], dtype=np.int64) for name in ("c", "k")},
    )


class Rows(NamedTuple):
    """Kernels in rows on the wafer; N kernels of V convolutions at most.

    Attributes:
        order: [N] the kernels, row by row from the bottom, each from the left.
        begin: [R + 1] where each row begins in ``order``, and N.
        height: [R] of each row, tiles.
        h, w, turned: [N] of each kernel; 1 where it is turned.
        c, k: [N, V].
        wide, high: [N] tiles, on the wafer.
        x, y: [N] its lower corner.
    """

    order: Ints
    begin: Ints
    height: Ints
    h: Ints
    w: Ints
    turned: Ints
    c: Ints
    k: Ints
    wide: Ints
    high: Ints
    x: Ints
    y: Ints


@dataclass(frozen=True)
class Cut:
    """A sequence cut into rows: where each begins, their heights in tiles, and the ticks that their kernels keep."""

    begins: Sequence[int]
    heights: Sequence[int]
    limit: int


def copied(rows: Rows) -> Rows:
    """The same in arrays of its own."""
    return Rows(*(array.copy() for array in rows))


@kernel
def length(sizes, group, h, w, is_turned, height, limit, c, k):
    """What a kernel with (h, w), upright or turned, takes of a row of ``height`` tiles; writes its ``c`` and ``k``."""
    if is_turned:
        return turned(sizes, group, h, w, height, limit, c, k)
    return upright(sizes, group, h, w, height, limit, c, k)


@kernel
def min_width(sizes, chosen, group, height, limit):
    """The least length of a row of ``height`` tiles that a kernel of a group takes; notes how."""
    if chosen.width[group, height] != UNKNOWN:
        return chosen.width[group, height]
    best = NEVER
    chosen.h[group, height], chosen.w[group, height], chosen.turned[group, height] = 0, 0, 0
    for number in range(sizes.pairs.shape[1]):
        h, w = sizes.pairs[group, number]
        if h == 0:
            break
        for is_turned in range(2):
            wide = length(sizes, group, h, w, is_turned, height, limit, chosen.c, chosen.k)
            if wide < best:
                best = wide
                chosen.h[group, height], chosen.w[group, height], chosen.turned[group, height] = h, w, is_turned
    chosen.width[group, height] = best
    return best


@kernel
def _fits(sizes, chosen, order, begin, end, height, limit):
    """Whether the kernels of a row of ``height`` tiles are no longer than the wafer is wide."""
    left = sizes.wafer[ACROSS]
    for place in range(begin, end):
        left -= min_width(sizes, chosen, sizes.group[order[place]], height, limit)
        if left < 0:
            return False
    return True


@kernel
def row_height(sizes, chosen, order, begin, end, limit):
    """Getheight: the least height of a row of the kernels from ``begin`` to before ``end``, by binary search.

    :data:`NEVER` where they do not fit a row as high as the wafer.
    """
    if chosen.row[begin, end] != UNKNOWN:
        return chosen.row[begin, end]
    low, high = 1, sizes.wafer[UP]
    if not _fits(sizes, chosen, order, begin, end, high, limit):
        chosen.row[begin, end] = NEVER
        return NEVER
    while low < high:
        middle = (low + high) // 2
        if _fits(sizes, chosen, order, begin, end, middle, limit):
            high = middle
        else:
            low = middle + 1
    chosen.row[begin, end] = high
    return high


def placed_rows(sizes: Sizes, order: Ints, cut: Cut) -> Rows:
    """The kernels of a cut that fits, sized for its time limit and placed; of kernels that ``order`` lacks nothing."""
    count, convolutions = len(sizes.group), sizes.formal.shape[1]
    rows = Rows(
        order=order.copy(),
        begin=np.array([*cut.begins, len(order)], dtype=np.int64),
        height=np.array(cut.heights, dtype=np.int64),
        **{name: np.zeros(count, dtype=np.int64) for name in ("h", "w", "turned", "wide", "high", "x", "y")},
        **{name: np.zeros((count, convolutions), dtype=np.int64) for name in ("c", "k")},
    )
    _size(sizes, nothing_chosen(sizes), rows, cut.limit)
    pack(rows)
    return rows


@kernel
def size_kernel(sizes, chosen, rows, number, height, limit):
    """Size a kernel for a row of ``height`` tiles."""
    group = sizes.group[number]
    min_width(sizes, chosen, group, height, limit)
    h, w, is_turned = chosen.h[group, height], chosen.w[group, height], chosen.turned[group, height]
    wide = length(sizes, group, h, w, is_turned, height, limit, rows.c[number], rows.k[number])
    high = 0
    for place in range(sizes.convolutions[group]):
        if is_turned:
            high += 3 * rows.k[number, place]
        else:
            high = max(high, h * w * (rows.c[number, place] + 1))
    rows.h[number], rows.w[number], rows.turned[number] = h, w, is_turned
    rows.wide[number], rows.high[number] = wide, high


@compiled
def _size(sizes, chosen, rows, limit):
    for row in range(len(rows.height)):
        for place in range(rows.begin[row], rows.begin[row + 1]):
            size_kernel(sizes, chosen, rows, rows.order[place], rows.height[row], limit)


@kernel
def pack_row(rows, row, low):
    """Place a row at ``low`` tiles: from the left, each kernel in the vertical middle."""
    left = 0
    for place in range(rows.begin[row], rows.begin[row + 1]):
        number = rows.order[place]
        rows.x[number], rows.y[number] = left, low + (rows.height[row] - rows.high[number]) // 2
        left += rows.wide[number]


@compiled
def pack(rows):
    """Place all rows, from the bottom."""
    low = 0
    for row in range(len(rows.height)):
        pack_row(rows, row, low)
        low += rows.height[row]


def placement_of(problem: WaferProblem, rows: Rows) -> WaferPlacement:
    """The placement that rows are."""
    placed = []
    for number, each in enumerate(problem.kernels):
        count = len(each.convolutions)
        placed.append(
            PlacedKernel(
                int(rows.h[number]),
                int(rows.w[number]),
                tuple(rows.c[number, :count].tolist()),
                tuple(rows.k[number, :count].tolist()),
                int(rows.x[number]),
                int(rows.y[number]),
                "R90" if rows.turned[number] else "R0",
            )
        )
    return WaferPlacement(tuple(placed))
