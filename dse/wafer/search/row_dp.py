"""Rows of kernels in topological order by dynamic programming (paper section 3.2, algorithms 1 and 2).

For one time limit, f(r, i) is the least height in which the first i kernels fit r rows::

    f(r, i) = min over j < i of f(r − 1, j) + height(j + 1 … i)

where a row's height is the least at which its kernels, each as narrow as that height allows, are not wider than the
wafer. Staircases replace the paper's heuristic sizes, so a row's height is exact.
"""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from collections.abc import Iterator, Sequence

import numpy as np

from dse.wafer.problem import WaferProblem
from dse.wafer.search.ladder import Ladder
from dse.wafer.search.layout import Layout, layout_of
from dse.wafer.shapes import NEVER, Ints
from hardware.compiled import compiled

MAX_STRIPS = 40
"""Strips at one end of the sequence at most."""

MAX_ROWS = 24
"""Rows that layouts are tried with; more have never been better (the paper names one or two)."""


def depth_first_order(problem: WaferProblem) -> tuple[int, ...]:
    """The kernels, producers before consumers, branch by branch: a kernel right before the one that needs it last."""
    producers: list[list[int]] = [[] for _ in problem.kernels]
    waiting = [0] * len(problem.kernels)
    for source, target in problem.edges:
        producers[target].append(source)
        waiting[source] += 1
    rank = {number: place for place, number in enumerate(problem.order)}
    ready = sorted((number for number, count in enumerate(waiting) if count == 0), key=rank.__getitem__)
    consumers_first = []
    while ready:
        number = ready.pop()
        consumers_first.append(number)
        for producer in sorted(producers[number], key=rank.__getitem__):
            waiting[producer] -= 1
            if waiting[producer] == 0:
                ready.append(producer)
    return tuple(consumers_first[::-1])


def row_layouts(ladder: Ladder, level: int, order: Sequence[int]) -> Iterator[Layout]:
    """A layout for every number of rows that fits at this level, what height is left given to the rows in proportion.

    Rows can be too long where a kernel cannot use what it is given; a search mends that, the checker sees it.
    """
    max_rows = min(MAX_ROWS, len(order))
    least = ladder.least[level][ladder.group[list(order)]].astype(np.int64)
    heights = row_heights(least, int(ladder.size[0]), int(ladder.size[1]))
    for begins, sizes in cuts_of(heights, int(ladder.size[1]), max_rows):
        yield layout_of(order, begins, sizes)


def cuts_of(heights: Ints, high: int, max_rows: int) -> Iterator[tuple[list[int], list[int]]]:
    """(where rows begin, their heights, ``high`` together) for every number of rows up to ``max_rows`` that fits.

    ``heights``: [N, N + 1] the least height of a row from one kernel to before another.
    """
    totals, cuts = _row_dp(heights, max_rows)
    for rows in range(1, max_rows + 1):
        if totals[rows, -1] > high:
            continue
        begins, row_heights, end = [], [], len(heights)
        for row in range(rows, 0, -1):
            begin = int(cuts[row, end])
            begins.append(begin)
            row_heights.append(int(totals[row, end] - totals[row - 1, begin]))
            end = begin
        yield begins[::-1], _stretched(row_heights[::-1], high)


def even_layouts(ladder: Ladder, order: Sequence[int]) -> Iterator[Layout]:
    """As many kernels and the same height in every row, for every number of rows, whether they fit or not."""
    count, high = len(order), int(ladder.size[1])
    for rows in range(1, min(MAX_ROWS, count, high) + 1):
        begins = [count * row // rows for row in range(rows)]
        yield layout_of(order, begins, [high * (row + 1) // rows - high * row // rows for row in range(rows)])


def strip_layouts(ladder: Ladder, level: int, order: Sequence[int]) -> Iterator[Layout]:
    """One row, and strips: the first or the last kernels alone in rows as flat as the wafer's width allows (Figure 5d).

    All numbers of strips at both ends that fit, of which none could be fewer at the same end.
    """
    wide, high = int(ladder.size[0]), int(ladder.size[1])
    least = ladder.least[level][ladder.group[list(order)]].astype(np.int64)
    for begins, heights in head_and_tail(least[:, wide], row_heights(least, wide, high), high):
        yield layout_of(order, begins, heights)


def head_and_tail(flat: Ints, heights: Ints, high: int) -> Iterator[tuple[list[int], list[int]]]:
    """(where rows begin, their heights) of one row between strips, for :func:`strip_layouts`.

    ``flat``: [N] the heights of strips; ``heights``: [N, N + 1] the least height of a row from one kernel to before
    another.
    """
    count = fewest_tail = len(flat)
    for head in range(min(count, MAX_STRIPS) + 1):
        for tail in range(min(count - head, fewest_tail, MAX_STRIPS + 1)):
            left = high - int(flat[:head].sum() + flat[count - tail :].sum())
            if left < 1 or head + tail == 0:
                continue
            if heights[head, count - tail] <= left:
                begins = [*range(head + 1), *range(count - tail, count)]
                yield begins, [*flat[:head].tolist(), left, *flat[count - tail :].tolist()]
                fewest_tail = tail
                break


def _stretched(heights: Sequence[int], available: int) -> list[int]:
    """Heights in about the same proportions that come to ``available``, none lower than before."""
    left, total = available - sum(heights), sum(heights)
    stretched = [height + left * height // total for height in heights]
    stretched[0] += available - sum(stretched)
    return stretched


@compiled
def row_heights(least, wide, high):
    """[N, N + 1] the least height of a row from one kernel to before another; :data:`NEVER` where none fits.

    ``least``: [N, extent + 1] of the kernels in order.
    """
    count = len(least)
    sums = np.zeros((least.shape[1], count + 1), dtype=np.int64)
    for number in range(count):
        for side in range(least.shape[1]):
            sums[side, number + 1] = sums[side, number] + least[number, side]
    rows = np.full((count, count + 1), NEVER, dtype=np.int64)
    for begin in range(count):
        height = 1
        for end in range(begin + 1, count + 1):
            # A longer row is no lower, so the search continues from the height of the one before.
            while height <= high and sums[height, end] - sums[height, begin] > wide:
                height += 1
            if height > high:
                break
            rows[begin, end] = height
    return rows


@compiled
def _row_dp(rows, max_rows):
    """(f(r, i), where its last row begins), [most + 1, N + 1] each; :data:`NEVER` where nothing fits.

    ``rows``: [N, N + 1] of :func:`row_heights`.
    """
    count = len(rows)
    totals = np.full((max_rows + 1, count + 1), NEVER, dtype=np.int64)
    cuts = np.zeros((max_rows + 1, count + 1), dtype=np.int64)
    totals[0, 0] = 0
    for row in range(1, max_rows + 1):
        for end in range(1, count + 1):
            for begin in range(end):
                total = totals[row - 1, begin] + rows[begin, end]
                if total < totals[row, end]:
                    totals[row, end], cuts[row, end] = total, begin
    return totals, cuts
