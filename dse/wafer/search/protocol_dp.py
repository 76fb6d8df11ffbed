"""Protocols for the kernels of rows by dynamic programming: where adapters count, a width a little larger can pay.

With a sequence cut into rows of given heights, every kernel alone in its column, the distance along a row is linear in
the widths: an edge counts half the widths of its two kernels and the whole widths of those between. So for one time
limit, with the state of a kernel its (h, w, c), the least of::

    Σ over kernels  (distance weight · coefficient + price of its row) · width(state)
  + Σ over places of the sequence  adapter weight · crossing · mismatch(state before, state after)

is found exactly by one pass over the sequence; *crossing* is how many edges pass that place. On chains that is the
adapters' cost; where edges pass over kernels, a parameter that changes twice below one edge is counted twice. The price
of a row keeps its length within the wafer (Lagrange).
"""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import numpy as np
import numpy.typing as npt

from dse.wafer.search.ladder import Ladder
from dse.wafer.search.layout import Layout, copied, measure
from dse.wafer.search.layout_kernels import NEW_ROW
from dse.wafer.shapes import NEVER, Ints, width_of
from dse.wafer.spread_kernel import spread
from hardware.compiled import compiled, kernel

_ROUNDS = 8
"""Prices that are tried."""


def with_protocols(ladder: Ladder, level: int, layout: Layout, classes: Ints) -> Layout | None:
    """The layout with the cheapest protocols found for a layout without stacks; None where no row holds its kernels.

    ``classes``: of :func:`~dse.wafer.shapes.classes_of`.
    """
    row = np.cumsum(layout.mark == NEW_ROW) - 1
    coefficients, crossing = _along(ladder, layout, row)
    price = np.zeros(row[-1] + 1)
    step = np.full(len(price), ladder.weights[1] + 1e-3 * ladder.weights[2] + 1e-9)
    best, lowest = None, np.inf
    for _ in range(_ROUNDS):
        chosen, widths = _pass(
            ladder, level, layout.order, layout.height[row], coefficients, price[row], crossing, classes
        )
        if chosen[0] < 0:
            return best
        changed = copied(layout)
        changed.protocol[layout.order] = chosen
        cost, _ = measure(ladder, changed, level)
        if cost < lowest:
            best, lowest = changed, cost
        lengths = np.bincount(row, weights=widths)
        over = lengths > ladder.size[0]
        if not over.any() and not price.any():
            break
        price = np.where(over, price + step, np.maximum(0.0, price - 0.5 * step))
        step = np.where(over, step * 1.5, step * 0.5)
    return best


def _along(ladder: Ladder, layout: Layout, row: Ints) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """(how often each place's width counts in the distance, how many edges pass before each place), [N] each."""
    count = len(layout.order)
    place = np.empty(count, dtype=np.int64)
    place[layout.order] = np.arange(count)
    coefficients, crossing = np.zeros(count), np.zeros(count)
    for one, other in np.sort(place[ladder.edges], axis=1).tolist() if len(ladder.edges) else []:
        coefficients[[one, other]] += 0.5
        if row[one] == row[other]:
            coefficients[one + 1 : other] += 1.0
        crossing[one + 1 : other + 1] += 1.0
    return coefficients, crossing


@kernel
def _width_in_row(ladder, level, number, state, height):
    """The width of a kernel with a state in a row, turned where that is narrower; NEVER where it does not fit."""
    group = ladder.group[number]
    wide = width_of(ladder.ticks[group, state], ladder.min_k[group, state], ladder.outputs[group], ladder.limits[level])
    tall = ladder.tall[state]
    width = wide if tall <= height else NEVER
    return tall if wide <= height and tall < width else width


@kernel
def _common_c(ladder, order, place):
    """The largest c that all convolutions of the kernel at a place and of the one before can have."""
    return min(ladder.common_c[ladder.group[order[place - 1]]], ladder.common_c[ladder.group[order[place]]])


@compiled
def _pass(ladder, level, order, heights, coefficients, prices, crossing, classes):
    """(state, width) at each place of the sequence, [N] each; −1 where no state fits."""
    count, states = len(order), len(ladder.h)
    adapter = ladder.weights[2]
    widths = np.empty((count, states), dtype=np.int64)
    costs = np.empty((count, states))
    cheapest, passed = np.empty((len(classes), states)), np.empty(states)
    for place in range(count):
        for state in range(states):
            wide = _width_in_row(ladder, level, order[place], state, heights[place])
            widths[place, state] = wide
            own = np.inf if wide >= NEVER else (ladder.weights[1] * coefficients[place] + prices[place]) * wide
            costs[place, state] = own
        if place == 0:
            continue
        common_c = _common_c(ladder, order, place)
        spread(costs[place - 1], classes, adapter * crossing[place], ladder.c, common_c, cheapest, passed)
        for state in range(states):
            costs[place, state] += passed[state]
    chosen, wide = np.full(count, -1, dtype=np.int64), np.zeros(count, dtype=np.int64)
    state = int(np.argmin(costs[count - 1]))
    if costs[count - 1, state] == np.inf:
        return chosen, wide
    for place in range(count - 1, -1, -1):
        chosen[place], wide[place] = state, widths[place, state]
        if place == 0:
            break
        weight, least, before = adapter * crossing[place], np.inf, state
        unequal_c = ladder.c[state] > _common_c(ladder, order, place)
        for other in range(states):
            total = costs[place - 1, other]
            if total < least:
                differing = (ladder.h[other] != ladder.h[state]) + (ladder.w[other] != ladder.w[state])
                total += weight * (differing + (unequal_c or ladder.c[other] != ladder.c[state]))
                if total < least:
                    least, before = total, other
        state = before
    return chosen, wide
