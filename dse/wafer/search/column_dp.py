"""Rows of columns by dynamic programming: a column is a stack of kernels that follow each other in the order.

A stack of kernels in ``across`` tiles is as high as they are with that width, so each stack has an exact least width
for every height. A row of a given height is then cut into columns of least width together::

    g(i) = min over j < i of g(j) + width(j + 1 … i)

and its least height is the first at which that is no wider than the wafer. With these heights, rows are cut as in
:mod:`dse.wafer.search.row_dp`. The sequence goes up one stack and down the next, as rows go to and fro.
"""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from collections.abc import Iterator, Sequence

import numpy as np

from dse.wafer.search.ladder import Ladder
from dse.wafer.search.layout import Layout, layout_of
from dse.wafer.search.layout_kernels import STACKED
from dse.wafer.search.row_dp import MAX_ROWS, cuts_of, head_and_tail
from dse.wafer.shapes import NEVER, Ints
from hardware.compiled import compiled

MAX_STACKED = 8
"""Kernels in a stack at most."""


def column_layouts(ladder: Ladder, level: int, order: Sequence[int]) -> Iterator[Layout]:
    """Layouts of rows of columns for every number of rows that fits, and of one such row between strips."""
    widths_by_height = ladder.least[level][ladder.group[list(order)]].astype(np.int64)
    wide, high = int(ladder.size[0]), int(ladder.size[1])
    widths = stack_widths(widths_by_height, wide, high, min(MAX_STACKED, len(order)))
    heights = column_row_heights(widths, wide)
    cuts = (
        *cuts_of(heights, high, min(MAX_ROWS, len(order))),
        *head_and_tail(widths_by_height[:, wide], heights, high),
    )
    for begins, row_heights in cuts:
        layout = layout_of(order, begins, row_heights)
        for begin, end, height in zip(begins, [*begins[1:], len(order)], row_heights, strict=True):
            _stack(layout, columns_of(widths, begin, end, height))
        yield layout


def columns_of(widths: Ints, begin: int, end: int, height: int) -> list[tuple[int, int]]:
    """(where it begins, where it ends) of every column of a row of least width, of the kernels begin … end − 1."""
    starts = _columns(widths, begin, end, height)
    columns = [(int(starts[end]), end)]
    while columns[-1][0] > begin:
        columns.append((int(starts[columns[-1][0]]), columns[-1][0]))
    return columns[::-1]


def _stack(layout: Layout, columns: Sequence[tuple[int, int]]) -> None:
    """Stand the kernels of a row in columns, upwards and downwards in turn."""
    downwards = 0
    for begin, end in columns:
        if end > begin + 1:
            layout.mark[begin + 1 : end] = STACKED
            layout.flip[begin] = downwards
            downwards = 1 - downwards


@compiled
def stack_widths(widths_by_height, wide, high, max_stacked):
    """[N, max_stacked, high + 1] the least width of a stack of up to ``max_stacked`` kernels from each, by height.

    :data:`NEVER` where there is none. ``widths_by_height``: [N, extent + 1] of the kernels in order.
    """
    count = len(widths_by_height)
    widths = np.full((count, max_stacked, high + 1), NEVER, dtype=np.int64)
    totals = np.empty(wide + 1, dtype=np.int64)
    for begin in range(count):
        totals[:] = 0
        for more in range(min(max_stacked, count - begin)):
            for across in range(1, wide + 1):
                totals[across] += widths_by_height[begin + more, across]
            # A wider stack is no higher.
            across = 1
            for height in range(high, 0, -1):
                while across <= wide and totals[across] > height:
                    across += 1
                if across > wide:
                    break
                widths[begin, more, height] = across
    return widths


@compiled
def column_row_heights(widths, wide):
    """[N, N + 1] the least height of a row of columns from one kernel to before another; :data:`NEVER` where none."""
    count, max_stacked, sides = widths.shape
    heights = np.full((count, count + 1), NEVER, dtype=np.int64)
    totals = np.empty((count + 1, sides), dtype=np.int64)
    for begin in range(count):
        totals[begin] = 0
        lowest = 1
        for end in range(begin + 1, count + 1):
            totals[end] = NEVER
            for start in range(max(begin, end - max_stacked), end):
                for height in range(lowest, sides):
                    total = totals[start, height] + widths[start, end - start - 1, height]
                    totals[end, height] = min(totals[end, height], total)
            # A row of more kernels is no lower.
            while lowest < sides and totals[end, lowest] > wide:
                lowest += 1
            if lowest == sides:
                break
            heights[begin, end] = lowest
    return heights


@compiled
def _columns(widths, begin, end, height):
    """Where the last column begins of the row of least width of the kernels from ``begin`` on, [N + 1]."""
    count, max_stacked, _ = widths.shape
    totals, starts = np.full(count + 1, NEVER, dtype=np.int64), np.full(count + 1, begin, dtype=np.int64)
    totals[begin] = 0
    for after in range(begin + 1, end + 1):
        # Of columns of the same width the shorter last one.
        for start in range(after - 1, max(begin, after - max_stacked) - 1, -1):
            total = totals[start] + widths[start, after - start - 1, height]
            if total < totals[after]:
                totals[after], starts[after] = total, start
    return starts
