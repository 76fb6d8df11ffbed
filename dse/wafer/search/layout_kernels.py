"""Rows of columns of kernels: their sizes, places and cost. The kernels.

A layout is a sequence of kernels cut into rows, each row cut into columns, each column a stack of kernels. Rows lie
above each other, are filled to and fro, and have a height; a kernel that is alone in its column is as narrow as its
row's height allows, and the kernels of a stack are as flat as the least width allows at which the stack is no higher
than the row. A kernel may also be bound to one (h, w, c), its *protocol*.

A column may be *flipped*: a stack goes downwards then, and a kernel that is alone is one tile lower than its row allows
it to be, so that its height can be odd or even as its neighbours' are, and their centres the same.
"""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import numpy as np

from dse.wafer.shapes import NEVER, width_of
from hardware.compiled import compiled, kernel

STACKED, BESIDE, NEW_ROW = 0, 1, 2
"""Where the kernel at a place of the sequence is: on the previous one, next to it, or in a new row."""

FREE = -1
"""The protocol of a kernel that has whichever (h, w, c) is smallest."""


@kernel
def other_side(ladder, state, level, number, limit):
    """(the least other side of a kernel of which one side is at most ``limit``, that side)."""
    if limit < 1:
        return NEVER, 0
    limit = min(limit, ladder.size[2])
    protocol = state.protocol[number]
    if protocol == FREE:
        group = ladder.group[number]
        return np.int64(ladder.least[level, group, limit]), np.int64(ladder.bounded[level, group, limit])
    tall, wide = ladder.tall[protocol], state.width[number]
    other, side = NEVER, 0
    if tall <= limit:
        other, side = wide, tall
    if wide <= limit and tall <= other:
        # Three tiles longer where that puts its centre on that of the row.
        longer = (wide ^ limit) & 1 and wide + 3 <= min(limit, ladder.widest[ladder.group[number]])
        if longer or tall < other:
            other, side = tall, wide + 3 if longer else wide
    return other, side


@kernel
def bound_width(ladder, state, level, number):
    """Note how wide a kernel with a protocol is at a time limit."""
    protocol, group = state.protocol[number], ladder.group[number]
    if protocol != FREE:
        state.width[number] = width_of(
            ladder.ticks[group, protocol], ladder.min_k[group, protocol], ladder.outputs[group], ladder.limits[level]
        )


@kernel
def _stack_height(ladder, state, level, begin, end, across):
    """Of the stack at begin … end − 1 of the sequence, ``across`` tiles wide."""
    total = 0
    for place in range(begin, end):
        total += other_side(ladder, state, level, state.order[place], across)[0]
        if total >= NEVER:
            return NEVER
    return total


@kernel
def _column_width(ladder, state, level, begin, end, height):
    """The least width of a column in a row of ``height``; :data:`NEVER` where there is none."""
    if end == begin + 1:
        return other_side(ladder, state, level, state.order[begin], height - state.flip[begin])[0]
    low, high = 1, ladder.size[0]
    if _stack_height(ladder, state, level, begin, end, high) > height:
        return NEVER
    while low < high:
        middle = (low + high) // 2
        if _stack_height(ladder, state, level, begin, end, middle) <= height:
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def _place_column(ladder, state, level, begin, end, left, low, across, height):
    """Places of a column's kernels: in the middle of its width and of the row's height."""
    if end == begin + 1:
        number = state.order[begin]
        wide, high = other_side(ladder, state, level, number, height - state.flip[begin])
        state.x[number], state.y[number] = left, low + (height - high) // 2
        state.wide[number], state.high[number] = wide, high
        return
    at = low + (height - _stack_height(ladder, state, level, begin, end, across)) // 2
    for step in range(end - begin):
        number = state.order[end - 1 - step if state.flip[begin] else begin + step]
        high, wide = other_side(ladder, state, level, number, across)
        state.x[number], state.y[number] = left + (across - wide) // 2, at
        state.wide[number], state.high[number] = wide, high
        at += high


@kernel
def _row(ladder, state, level, begin, end, height):
    """Note the widths of the columns of a row by where they begin; the sum of them."""
    total, place = 0, begin
    while place < end:
        after = place + 1
        while after < end and state.mark[after] == STACKED:
            after += 1
        state.column[place] = _column_width(ladder, state, level, place, after, height)
        total += state.column[place]
        if total >= NEVER:
            return NEVER
        place = after
    return total


@kernel
def _place_row(ladder, state, level, begin, end, low, height, left, rightwards):
    """Place the columns of a row from ``left`` on, to or fro; where the last one ends."""
    place = begin
    at = left
    while place < end:
        after = place + 1
        while after < end and state.mark[after] == STACKED:
            after += 1
        across = state.column[place]
        _place_column(ladder, state, level, place, after, at if rightwards else at - across, low, across, height)
        at += across if rightwards else -across
        place = after
    return at


@kernel
def _row_end(state, begin):
    """Where the row that begins at ``begin`` ends."""
    after = begin + 1
    while after < len(state.order) and state.mark[after] != NEW_ROW:
        after += 1
    return after


@kernel
def row_lengths(ladder, state, level):
    """Note the widths of all columns; how many tiles rows are too long together, or :data:`NEVER`."""
    place, row, excess = 0, 0, 0
    while place < len(state.order):
        after = _row_end(state, place)
        total = _row(ladder, state, level, place, after, state.height[row])
        if total >= NEVER:
            return NEVER
        excess += max(0, total - ladder.size[0])
        row += 1
        place = after
    return excess


@kernel
def place_all(ladder, state, level):
    """Places and sizes of all kernels, after :func:`row_lengths`."""
    place, row, low, turn = 0, 0, 0, 0
    rightwards = True
    while place < len(state.order):
        after, total, height = _row_end(state, place), 0, state.height[row]
        for column in range(place, after):
            total += state.column[column] if column == place or state.mark[column] != STACKED else 0
        begin = max(0, min(turn, ladder.size[0] - total)) if rightwards else max(turn, total)
        turn = _place_row(ladder, state, level, place, after, low, height, begin, rightwards)
        rightwards = not rightwards
        low += height
        row += 1
        place = after


@kernel
def protocol_of(ladder, state, level, number):
    """The (h, w, c) that a placed kernel has."""
    if state.protocol[number] != FREE:
        return state.protocol[number]
    # Whichever side was bounded: the smaller rectangle of that length is this one.
    group = ladder.group[number]
    if state.turned[number]:
        return np.int64(ladder.choice[level, group, state.wide[number]])
    return np.int64(ladder.choice[level, group, state.high[number]])


@kernel
def cost_of(ladder, state, level, most):
    """(weighted cost, tiles that rows are too long, which it counts); infinite where a kernel cannot be that small.

    What certainly costs more than ``most`` is not placed: infinite as well.
    """
    excess = row_lengths(ladder, state, level)
    if excess >= NEVER or ladder.weights[0] * ladder.limits[level] + ladder.weights[3] * excess > most:
        return np.inf, excess
    place_all(ladder, state, level)
    count = len(state.order)
    for place in range(count):
        alone = state.mark[place] != STACKED and (place + 1 == count or state.mark[place + 1] != STACKED)
        state.turned[state.order[place]] = not alone
    return price(ladder, state, level, excess), excess


@kernel
def price(ladder, state, level, excess):
    """The weighted cost of placed kernels, ``excess`` tiles beyond the wafer; notes their protocols in ``used``."""
    total = ladder.weights[0] * ladder.limits[level] + ladder.weights[3] * excess
    distance = 0
    for edge in range(len(ladder.edges)):
        one, other = ladder.edges[edge]
        distance += abs(2 * state.x[one] + state.wide[one] - 2 * state.x[other] - state.wide[other])
        distance += abs(2 * state.y[one] + state.high[one] - 2 * state.y[other] - state.high[other])
    total += ladder.weights[1] * 0.5 * distance
    if ladder.weights[2] > 0:
        mismatches = 0
        for number in range(len(state.used)):
            state.used[number] = protocol_of(ladder, state, level, number)
        for edge in range(len(ladder.edges)):
            source, target = ladder.edges[edge]
            one, other = state.used[source], state.used[target]
            common_c = min(ladder.common_c[ladder.group[source]], ladder.common_c[ladder.group[target]])
            mismatches += ladder.h[one] != ladder.h[other]
            mismatches += ladder.w[one] != ladder.w[other]
            mismatches += ladder.c[one] != ladder.c[other] or ladder.c[one] > common_c
        total += ladder.weights[2] * mismatches
    return total


@kernel
def ticks_of(ladder, group, protocol, limit):
    """The time of a kernel of the least width for a limit."""
    slowest = 0
    for place in range(ladder.outputs.shape[1]):
        outputs = ladder.outputs[group, place]
        if outputs == 0:
            break
        ticks = ladder.ticks[group, protocol, place]
        k = max(ladder.min_k[group, protocol, place], -(-outputs // (limit // ticks)))
        slowest = max(slowest, ticks * -(-outputs // k))
    return slowest


@compiled
def measured(ladder, state, level):
    """(:func:`cost_of` for the time that the layout really takes, that time in ticks, tiles that rows are too long).

    Everything is found from scratch, and the protocols of all kernels are in ``used``.
    """
    for number in range(len(state.order)):
        bound_width(ladder, state, level, number)
    cost, excess = cost_of(ladder, state, level, np.inf)
    limit, slowest = ladder.limits[level], 1
    if excess >= NEVER:
        return cost, limit, excess
    for number in range(len(state.order)):
        state.used[number] = protocol_of(ladder, state, level, number)
        slowest = max(slowest, ticks_of(ladder, ladder.group[number], state.used[number], limit))
    return cost - ladder.weights[0] * (limit - slowest), slowest, excess
