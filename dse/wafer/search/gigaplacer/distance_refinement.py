"""L1 distance refinement (paper section 3.4.2, Figure 6(b)): kernels of a row are reordered, their sizes stay.

A window over up to six kernels in succession moves along each row; of all their orders, the one of least distance is
kept where that is less than before. Then every stretch of a row is turned round where that makes the distance less, the
whole row included. Both are repeated until nothing improves. Edges to kernels of other rows count as well.

What the paper leaves open: of equally good orders the first in the order of permutations is taken; a stretch is turned
round as soon as that is an improvement, shorter ones first.
"""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from itertools import permutations

import numpy as np

from dse.wafer.search.gigaplacer.instance import Instance
from dse.wafer.search.gigaplacer.rows import Rows, copied
from dse.wafer.shapes import Ints
from hardware.compiled import compiled, kernel

WINDOW = 6
"""Kernels of which all orders are tried."""


def less_distance(instance: Instance, rows: Rows) -> Rows:
    """The rows with their kernels in an order of no more distance, in which no window and no stretch can improve."""
    refined = copied(rows)
    _refine(instance, refined, _orders(min(WINDOW, int(np.diff(rows.begin).max()))))
    return refined


def _orders(size: int) -> Ints:
    """[size + 1, size!, size] all orders of 0 … n − 1 for every n; those of fewer are followed by −1."""
    orders = np.full((size + 1, len([*permutations(range(size))]), size), -1, dtype=np.int64)
    for count in range(1, size + 1):
        listed = np.array([*permutations(range(count))])
        orders[count, : len(listed), :count] = listed
    return orders


@kernel
def _across(instance, rows, place_of, begin, end):
    """Four times the distance across of all edges of the kernels at these places, each edge once."""
    total = 0
    for place in range(begin, end):
        number = rows.order[place]
        middle = 2 * rows.x[number] + rows.wide[number]
        for each in range(instance.first[number], instance.first[number + 1]):
            other = instance.joined[each]
            apart = abs(middle - 2 * rows.x[other] - rows.wide[other])
            # An edge between two of them is met twice.
            total += apart if begin <= place_of[other] < end else 2 * apart
    return total


@kernel
def _arrange(rows, place_of, numbers, order, begin, size):
    """Put the kernels ``numbers`` at the places from ``begin`` on, in an order, from where the first of them begins."""
    left = rows.x[rows.order[begin]]
    for place in range(size):
        number = numbers[order[place]]
        rows.order[begin + place], rows.x[number] = number, left
        place_of[number] = begin + place
        left += rows.wide[number]


@kernel
def _reorder(instance, rows, place_of, numbers, orders, begin, size):
    """Put a window into its best order; whether that is better than before."""
    for place in range(size):
        numbers[place] = rows.order[begin + place]
    before = best = _across(instance, rows, place_of, begin, begin + size)
    chosen = 0  # The first order is the one that it has.
    for number in range(1, len(orders)):
        if orders[number, 0] < 0:
            break
        _arrange(rows, place_of, numbers, orders[number], begin, size)
        spread = _across(instance, rows, place_of, begin, begin + size)
        if spread < best:
            best, chosen = spread, number
    _arrange(rows, place_of, numbers, orders[chosen], begin, size)
    return best < before


@kernel
def _turn_round(rows, place_of, begin, end):
    """Turn the stretch from ``begin`` to before ``end`` round."""
    left, last = rows.x[rows.order[begin]], end - 1
    for place in range(begin, (begin + end) // 2):
        other = begin + last - place
        rows.order[place], rows.order[other] = rows.order[other], rows.order[place]
    for place in range(begin, end):
        number = rows.order[place]
        rows.x[number], place_of[number] = left, place
        left += rows.wide[number]


@compiled
def _refine(instance, rows, orders):
    count = len(rows.order)
    place_of, numbers = np.empty(count, dtype=np.int64), np.empty(orders.shape[2], dtype=np.int64)
    for place in range(count):
        place_of[rows.order[place]] = place
    improving = True
    while improving:
        improving = False
        for row in range(len(rows.height)):
            first, end = rows.begin[row], rows.begin[row + 1]
            size = min(end - first, orders.shape[2])
            for begin in range(first, end - size + 1):
                improving |= _reorder(instance, rows, place_of, numbers, orders[size], begin, size)
            for length in range(2, end - first + 1):
                for begin in range(first, end - length + 1):
                    before = _across(instance, rows, place_of, begin, begin + length)
                    _turn_round(rows, place_of, begin, begin + length)
                    if _across(instance, rows, place_of, begin, begin + length) < before:
                        improving = True
                    else:
                        _turn_round(rows, place_of, begin, begin + length)
