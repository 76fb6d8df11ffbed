"""DP-Judgment (paper section 3.2): whether the kernels, in topological order, fit the wafer in rows at a time limit.

Algorithm 1 cuts the sequence into rows of least height together, equation (5); algorithm 2 does so with a given number
of rows, equation (6). The third form is that of Figure 5(d): some kernels as strips, one per row, the others in one
row.

What the paper leaves open:

- Of cuts of algorithm 1 that are equally high, "the one whose C_dist and C_adapter is smaller" is that of less weighted
  distance and adapters of the kernels so far, placed as rows are; of those of algorithm 2 the first, with fewer
  kernels in the last row.
- Strips are the first kernels or the last ones, and as few as fit.
- A single row is as high as the wafer, and the row next to strips has what they leave: its kernels are as narrow then,
  and their distances as small, as can be. The distances that the paper prints for single rows are a third of the
  wafer's width, which rows of least height never are.
"""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from dse.wafer.search.gigaplacer.instance import Instance, adapters, common_c
from dse.wafer.search.gigaplacer.rows import Cut, length, nothing_chosen, row_height
from dse.wafer.search.gigaplacer.sizing import UP
from dse.wafer.shapes import NEVER, Ints
from hardware.compiled import compiled, kernel

Judgment = Callable[[Instance, int], Cut | None]
"""The cut of an instance at a time limit in ticks; None where it does not fit."""


class _Prefix(NamedTuple):
    """The best rows of the first i kernels, for every i of 0 … N, and at N + 1 those that are compared with them.

    Attributes:
        total: [N + 2] their height f.
        begin: [N + 2] where the last of them begins.
        cost: [N + 2] weighted distance and adapters.
        x, y: [N + 2, N] twice the centre of each kernel.
        h, w, c: [N + 2, N] its parameters.
    """

    total: Ints
    begin: Ints
    cost: np.typing.NDArray[np.float64]
    x: Ints
    y: Ints
    h: Ints
    w: Ints
    c: Ints


def any_rows(instance: Instance, limit: int) -> Cut | None:
    """Algorithm 1: as many rows as are lowest together."""
    count = len(instance.order)
    prefix = _Prefix(
        np.full(count + 2, NEVER, dtype=np.int64),
        np.zeros(count + 2, dtype=np.int64),
        np.zeros(count + 2, dtype=np.float64),
        *(np.zeros((count + 2, count), dtype=np.int64) for _ in range(5)),
    )
    _any_rows(instance, nothing_chosen(instance.sizes), limit, prefix)
    return _cut_of(instance, limit, prefix.total, lambda end: int(prefix.begin[end]))


def some_rows(count: int) -> Judgment:
    """Algorithm 2: so many rows."""

    def judge(instance: Instance, limit: int) -> Cut | None:
        if count > len(instance.order):
            return None
        totals, begins = _some_rows(instance, nothing_chosen(instance.sizes), limit, count)
        rows_left = iter(range(count, 0, -1))
        return _cut_of(instance, limit, totals[count], lambda end: int(begins[next(rows_left), end]))

    return judge


def one_row(instance: Instance, limit: int) -> Cut | None:
    """Algorithm 2 with a single row, as high as the wafer."""
    high = int(instance.sizes.wafer[UP])
    height = int(height_of_row(instance, nothing_chosen(instance.sizes), limit, 0, len(instance.order)))
    return Cut((0,), (high,), limit) if height <= high else None


def strips_and_row(instance: Instance, limit: int) -> Cut | None:
    """Figure 5(d): the first kernels as strips, the others in one row above them."""
    flat, rest = _strips_and_row(instance, nothing_chosen(instance.sizes), limit)
    count, high = len(flat), int(instance.sizes.wafer[UP])
    for strips in range(1, count):
        left = high - int(flat[:strips].sum())
        if rest[strips, count] <= left:
            return Cut((*range(strips + 1),), (*flat[:strips].tolist(), left), limit)
    return None


def row_and_strips(instance: Instance, limit: int) -> Cut | None:
    """The same with the last kernels as strips, above one row of the others."""
    flat, rest = _strips_and_row(instance, nothing_chosen(instance.sizes), limit)
    count, high = len(flat), int(instance.sizes.wafer[UP])
    for begin in range(count - 1, 0, -1):
        left = high - int(flat[begin:].sum())
        if rest[0, begin] <= left:
            return Cut((0, *range(begin, count)), (left, *flat[begin:].tolist()), limit)
    return None


def _cut_of(instance: Instance, limit: int, totals: Ints, begin_of: Callable[[int], int]) -> Cut | None:
    """The rows of least height: where each begins is requested from the last one on."""
    end, high = len(instance.order), int(instance.sizes.wafer[UP])
    if totals[end] > high:
        return None
    begins = list[int]()
    while end > 0:
        end = begin_of(end)
        begins.append(end)
    begins.reverse()
    chosen = nothing_chosen(instance.sizes)
    heights = [int(height_of_row(instance, chosen, limit, *each)) for each in pairwise([*begins, len(instance.order)])]
    return Cut(begins, heights, limit)


@compiled
def height_of_row(instance, chosen, limit, begin, end):
    """Getheight of the kernels at the places from ``begin`` to before ``end`` of the order."""
    return row_height(instance.sizes, chosen, instance.order, begin, end, limit)


@compiled
def _strips_and_row(instance, chosen, limit):
    """(heights of all kernels as strips, [N]; of one row from a kernel to the last or from the first, [N, N + 1])."""
    count, order = len(instance.order), instance.order
    flat, rest = np.empty(count, dtype=np.int64), np.full((count, count + 1), NEVER, dtype=np.int64)
    for place in range(count):
        flat[place] = row_height(instance.sizes, chosen, order, place, place + 1, limit)
        rest[place, count] = row_height(instance.sizes, chosen, order, place, count, limit)
        rest[0, place + 1] = row_height(instance.sizes, chosen, order, 0, place + 1, limit)
    return flat, rest


@compiled
def _some_rows(instance, chosen, limit, count):
    """(f by rows and kernels, equation (6); where the last row begins), [count + 1, N + 1] each."""
    kernels = len(instance.order)
    totals = np.full((count + 1, kernels + 1), NEVER, dtype=np.int64)
    begins = np.zeros((count + 1, kernels + 1), dtype=np.int64)
    totals[0, 0] = 0
    for row in range(1, count + 1):
        for end in range(row, kernels + 1):
            for begin in range(end - 1, row - 2, -1):
                height = row_height(instance.sizes, chosen, instance.order, begin, end, limit)
                if height >= NEVER:
                    break  # More kernels do not fit a row either.
                if totals[row - 1, begin] + height < totals[row, end]:
                    totals[row, end], begins[row, end] = totals[row - 1, begin] + height, begin
    return totals, begins


@compiled
def _any_rows(instance, chosen, limit, prefix):
    """Equation (5); fills ``prefix``."""
    count = len(instance.order)
    prefix.total[0] = 0
    for end in range(1, count + 1):
        for begin in range(end - 1, -1, -1):
            height = row_height(instance.sizes, chosen, instance.order, begin, end, limit)
            if height >= NEVER:
                break  # More kernels do not fit a row either.
            total = prefix.total[begin] + height
            if total > prefix.total[end] or total >= NEVER:
                continue
            _append(instance, chosen, limit, prefix, begin, end, height)
            if total < prefix.total[end] or prefix.cost[count + 1] < prefix.cost[end]:
                prefix.total[end], prefix.begin[end], prefix.cost[end] = total, begin, prefix.cost[count + 1]
                for each in (prefix.x, prefix.y, prefix.h, prefix.w, prefix.c):
                    each[end] = each[count + 1]


@kernel
def _append(instance, chosen, limit, prefix, begin, end, height):
    """Place a row of the kernels from ``begin`` to before ``end`` on the best rows before them, and price that."""
    sizes, new, left = instance.sizes, len(instance.order) + 1, 0
    for each in (prefix.x, prefix.y, prefix.h, prefix.w, prefix.c):
        for number in range(len(instance.order)):
            each[new, number] = each[begin, number]
    prefix.cost[new] = prefix.cost[begin]
    for place in range(begin, end):
        number = instance.order[place]
        group = sizes.group[number]
        h, w, is_turned = chosen.h[group, height], chosen.w[group, height], chosen.turned[group, height]
        wide = length(sizes, group, h, w, is_turned, height, limit, chosen.c, chosen.k)
        prefix.h[new, number], prefix.w[new, number] = h, w
        prefix.c[new, number] = common_c(chosen.c, sizes.convolutions[group])
        prefix.x[new, number], prefix.y[new, number] = 2 * left + wide, 2 * prefix.total[begin] + height
        left += wide
        prefix.cost[new] += _joining(instance, prefix, new, number)


@kernel
def _joining(instance, prefix, new, number):
    """What the edges from earlier kernels to one cost."""
    spread = differing = 0
    for each in range(instance.first[number], instance.first[number + 1]):
        other = instance.joined[each]
        if instance.rank[other] > instance.rank[number]:
            continue
        spread += abs(prefix.x[new, number] - prefix.x[new, other])
        spread += abs(prefix.y[new, number] - prefix.y[new, other])
        differing += adapters(
            prefix.h[new, number], prefix.w[new, number], prefix.c[new, number],
            prefix.h[new, other], prefix.w[new, other], prefix.c[new, other],
        )  # fmt: skip
    return instance.weights[0] * spread / 2 + instance.weights[1] * differing
