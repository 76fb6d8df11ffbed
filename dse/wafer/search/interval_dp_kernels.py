"""Slicing trees over all intervals of a sequence at once: the kernels of :mod:`dse.wafer.search.interval_dp`."""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import numpy as np

from dse.wafer.shapes import NEVER
from hardware.compiled import compiled, kernel

BESIDE, ABOVE = 0, 1
"""Joins, and the tables that they fill: of a bounded height the least width, of a bounded width the least height."""

WIDE, HIGH, DISTANCE, FIRST, LAST, SPLIT, BOUND, TURNS = 0, 1, 2, 3, 5, 7, 8, 9
"""Entries of a rectangle: its sides; twice the distance inside; twice the centre (x, y) of its first and of its last
kernel; where it is split and how that is joined, split · 2 + join; the bound its parts were given, by position; how its
parts are mirrored, 1 for the first one's x, 2 for its y, 4 and 8 for the other's."""

ENTRIES = 10


@kernel
def _mirrored(at, side, turned):
    """Where ``at``, twice a coordinate, comes to lie."""
    return 2 * side - at if turned else at


@kernel
def _joined(one, other, join, edges, joined):
    """Join two rectangles, mirrored so that the last kernel of the one and the first of the other come close.

    ``edges``: how many pass from the one to the other.
    """
    along, across = join, 1 - join
    length, width, other_length, other_width = one[along], one[across], other[along], other[across]
    broad = max(width, other_width)
    turn = np.int32(one[LAST + along] < length)
    other_turn = np.int32(other[FIRST + along] > other_length)
    last = _mirrored(one[LAST + along], length, turn)
    first = 2 * length + _mirrored(other[FIRST + along], other_length, other_turn)
    low, other_low = 2 * ((broad - width) // 2), 2 * ((broad - other_width) // 2)
    smallest, turns = np.int64(NEVER), 0
    for tried in range(4):
        gap = low + _mirrored(one[LAST + across], width, tried & 1)
        gap -= other_low + _mirrored(other[FIRST + across], other_width, tried >> 1)
        if abs(gap) < smallest:
            smallest, turns = abs(gap), tried
    joined[along], joined[across] = length + other_length, broad
    joined[DISTANCE] = one[DISTANCE] + other[DISTANCE] + edges * (first - last + smallest)
    joined[FIRST + along] = _mirrored(one[FIRST + along], length, turn)
    joined[FIRST + across] = low + _mirrored(one[FIRST + across], width, turns & 1)
    joined[LAST + along] = 2 * length + _mirrored(other[LAST + along], other_length, other_turn)
    joined[LAST + across] = other_low + _mirrored(other[LAST + across], other_width, turns >> 1)
    joined[TURNS] = (turn << along) + ((turns & 1) << across)
    joined[TURNS] += (other_turn << (2 + along)) + (turns >> 1 << (2 + across))


@kernel
def _leaf(least, bounded, bounds, tables, scores):
    """The rectangles of one kernel."""
    for place in range(len(bounds)):
        side, other = bounded[bounds[place]], least[bounds[place]]
        for table in range(2):
            entry = tables[table, place]
            entry[1 - table], entry[table] = side, other
            for end in (FIRST, LAST):
                entry[end], entry[end + 1] = entry[WIDE], entry[HIGH]
            scores[table, place] = other if other < NEVER else np.inf


@kernel
def _offer(target, score, scores, place, source):
    """Note a rectangle, with its score, if it is the best one for a bound."""
    if score < scores[place]:
        scores[place] = score
        for entry in range(len(source)):
            target[place, entry] = source[entry]


@kernel
def _cross(tables, scores, index_of, price):
    """Offer the rectangles of each table to the other one, and those of a bound to the larger ones."""
    for table in range(2):
        for place in range(tables.shape[1]):
            source = tables[1 - table, place]
            if scores[1 - table, place] < np.inf and source[1 - table] < len(index_of):
                score = source[table] + price * source[DISTANCE]
                _offer(tables[table], score, scores[table], index_of[source[1 - table]], source)
        for place in range(1, tables.shape[1]):
            _offer(tables[table], scores[table, place - 1], scores[table], place, tables[table, place - 1])


@kernel
def _join_all(tables, scores, one, other, target, split, edges, price, extent, joined):
    """Offer what joins the rectangles of the cells ``one`` and ``other``, for every bound."""
    for join in range(2):
        for place in range(tables.shape[2]):
            # Without the distance between the two it would already be no better.
            if scores[one, join, place] + scores[other, join, place] >= scores[target, join, place]:
                continue
            if tables[one, join, place, join] + tables[other, join, place, join] > extent:
                continue
            _joined(tables[one, join, place], tables[other, join, place], join, edges, joined)
            joined[SPLIT], joined[BOUND] = 2 * split + join, place
            score = joined[join] + price * joined[DISTANCE]
            _offer(tables[target, join], score, scores[target, join], place, joined)


@compiled
def fill(least, bounded, order, crossing, bounds, index_of, price, cells, tables, scores):
    """Fill ``tables`` for all intervals of ``order``. Grows with N³ · B.

    Args:
        least: [N, extent + 1] the least other side of each kernel for a bound, at one time limit.
        bounded: [N, extent + 1] how long the bounded side is.
        order: [N] the sequence.
        crossing: [N] how many edges pass before each place of it.
        bounds: [B] sides, rising.
        index_of: [extent + 1] the first bound that is no less.
        price: of a half tile of distance, in tiles of length.
        cells: [N, N] the number of an interval from its first to its last place.
        tables: [cells, 2, B, entries], filled.
        scores: [cells, 2, B], filled: the side that is not bounded and the distance inside at its price.
    """
    count, extent = len(order), len(index_of) - 1
    joined = np.zeros(ENTRIES, dtype=np.int32)
    scores[:] = np.inf
    for place in range(count):
        cell, number = cells[place, place], order[place]
        tables[cell] = 0
        _leaf(least[number], bounded[number], bounds, tables[cell], scores[cell])
    for length in range(2, count + 1):
        for begin in range(count - length + 1):
            end = begin + length - 1
            target = cells[begin, end]
            for split in range(begin, end):
                one, other, edges = cells[begin, split], cells[split + 1, end], crossing[split + 1]
                _join_all(tables, scores, one, other, target, split, edges, price, extent, joined)
            _cross(tables[target], scores[target], index_of, price)
