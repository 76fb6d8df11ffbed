"""One partition after the other, operator by operator: the kernels of SAMPLE and FIX (paper, Algorithms 1 and 2).

A *dive* gives every operator, in some order, a chip of its domain: the chips between two bounds, which (2) and the
gaps of :mod:`dse.partition.constraints.structure` keep tight along every edge at once, less those that (4) forbids.
What (4) forbids is seen from the chip graph of the edges whose ends both have chips: an arc a → b must not join chips
that a path joins, nor close one parallel to an arc. No rule removes a chip that a valid completion has, so every valid
partition can come out. A value that turns out to be impossible is removed and another one drawn; where none is left,
the dive has failed and the next one begins.

The last dive never fails. It stays inside the *linear* partitions, 0 ≤ f(v) − f(u) ≤ 1 on every edge: a system of
difference constraints, whose domains are exact once its bounds are propagated, so that any chip between the bounds can
be completed. Every arc of its chip graph joins neighbours, so (4) holds.

Chips that stay empty are taken out at the end, and those above move down: nothing that (2) and (4) say changes.

Cost: O(N + E) for a dive but for the bounds, which move at most C times each; O(C) for an arc.
"""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dse.algorithms import bits, draws
from dse.algorithms.bits import bit, interval, leading, lowest, size
from dse.algorithms.draws import draw
from dse.partition.constraints import chip_graph
from dse.partition.constraints.chip_graph import after, before, join, restore, save
from hardware.compiled import compiled, kernel


class State(NamedTuple):
    """What a dive knows.

    Attributes:
        low, high: bounds of every operator's chip, [N].
        chip: its chip, −1 before it has one, [N].
        allowed: chips that the operators around it leave to it, [N].
        arcs, back: of each chip those that an arc leads to, and those that one comes from, [C] words.
        reach, origin: of each chip those that a path leads to or comes from, with itself, [C] words.
        saved: these four as they were before arcs are tried, [4, C].
        after, before: of each chip those that its operators' consumers and producers may have as far as (4) is
            concerned, with itself, [C] words; current where the stamp is.
        after_stamp, before_stamp: the number of arcs for which they hold, [C].
        stamp: the number of arcs added so far, one more for every trial that was taken back, [1].
        queue, queued: operators whose bounds have moved, [N].
    """

    low: npt.NDArray[np.int32]
    high: npt.NDArray[np.int32]
    chip: npt.NDArray[np.int32]
    allowed: npt.NDArray[np.uint64]
    arcs: npt.NDArray[np.uint64]
    back: npt.NDArray[np.uint64]
    reach: npt.NDArray[np.uint64]
    origin: npt.NDArray[np.uint64]
    saved: npt.NDArray[np.uint64]
    after: npt.NDArray[np.uint64]
    before: npt.NDArray[np.uint64]
    after_stamp: npt.NDArray[np.int64]
    before_stamp: npt.NDArray[np.int64]
    stamp: npt.NDArray[np.int64]
    queue: npt.NDArray[np.int32]
    queued: npt.NDArray[np.bool_]


@kernel
def _drawn(mask, weights, seed):
    """A chip of the set ``mask``, by its weight where there are any; each the same where all are 0."""
    total = 0.0
    if len(weights):
        left = mask
        while left != np.uint64(0):
            total += weights[lowest(left)]
            left &= left - np.uint64(1)
    if total <= 0.0:
        left = mask
        for _ in range(int(draw(seed) * size(mask))):
            left &= left - np.uint64(1)
        return np.int32(lowest(left))
    point, left = draw(seed) * total, mask
    choice = np.int32(-1)
    while left != np.uint64(0):
        weight = weights[lowest(left)]
        if weight > 0.0:
            choice = np.int32(lowest(left))
            point -= weight
            if point < 0.0:
                break
        left &= left - np.uint64(1)
    return choice


@kernel
def _tighten(state, operator, low, high, count):
    """Narrow the bounds of an operator and queue it; the new length of the queue, −1 where no chip is left."""
    if low <= state.low[operator] and high >= state.high[operator]:
        return count
    low, high = max(low, state.low[operator]), min(high, state.high[operator])
    if low > high:
        return -1
    left = interval(low, high) & state.allowed[operator]
    if left == np.uint64(0):
        return -1
    state.low[operator], state.high[operator] = lowest(left), 63 - leading(left)
    if not state.queued[operator]:
        state.queued[operator] = True
        state.queue[count] = operator
        count += 1
    return count


@kernel
def _propagate(state, graph, gap, count):
    """Carry moved bounds along the edges until nothing moves; whether every operator has a chip left."""
    queue = state.queue
    while count > 0:
        count -= 1
        operator = queue[count]
        state.queued[operator] = False
        low, high = state.low[operator], state.high[operator]
        for index in range(graph.out_first[operator], graph.out_first[operator + 1]):
            count = _tighten(state, graph.out_node[index], low, high + gap[graph.out_edge[index]], count)
            if count < 0:
                return False
        for index in range(graph.in_first[operator], graph.in_first[operator + 1]):
            count = _tighten(state, graph.in_node[index], low - gap[graph.in_edge[index]], high, count)
            if count < 0:
                return False
    return True


@kernel
def _domain(state, graph, operator):
    """Chips that an operator may have, as far as each operator around it is concerned."""
    left = interval(state.low[operator], state.high[operator]) & state.allowed[operator]
    for index in range(graph.in_first[operator], graph.in_first[operator + 1]):
        other = state.chip[graph.in_node[index]]
        if other >= 0:
            left &= after(state, other)
    for index in range(graph.out_first[operator], graph.out_first[operator + 1]):
        other = state.chip[graph.out_node[index]]
        if other >= 0:
            left &= before(state, other)
    return left


@kernel
def _joined(state, graph, operator, chip):
    """Add the arcs that ``operator`` on ``chip`` makes; whether that can be. The chip graph stays as it was if not."""
    saved = False
    for index in range(graph.in_first[operator], graph.in_first[operator + 1]):
        other = state.chip[graph.in_node[index]]
        if other >= 0 and other != chip and not state.arcs[other] & bit(chip):
            if not saved:
                saved = True
                save(state)
            if not join(state, other, chip):
                restore(state)
                return False
    for index in range(graph.out_first[operator], graph.out_first[operator + 1]):
        other = state.chip[graph.out_node[index]]
        if other >= 0 and other != chip and not state.arcs[chip] & bit(other):
            if not saved:
                saved = True
                save(state)
            if not join(state, chip, other):
                restore(state)
                return False
    return True


@kernel
def _leaves_room(state, graph, edge, ends):
    """Whether every operator between the ends of an edge can be on one of the two chips ``ends``."""
    for index in range(graph.between_first[edge], graph.between_first[edge + 1]):
        operator = graph.between_node[index]
        if not interval(state.low[operator], state.high[operator]) & state.allowed[operator] & ends:
            return False
    return True


@kernel
def _possible(state, graph, operator, chip):
    """Whether (4) lets ``operator`` be on ``chip``, as far as is seen; if so, the arcs have been added."""
    for index in range(graph.in_first[operator], graph.in_first[operator + 1]):
        other, edge = state.chip[graph.in_node[index]], graph.in_edge[index]
        if other >= 0 and not _leaves_room(state, graph, edge, bit(other) | bit(chip)):
            return False
    for index in range(graph.out_first[operator], graph.out_first[operator + 1]):
        other, edge = state.chip[graph.out_node[index]], graph.out_edge[index]
        if other >= 0 and not _leaves_room(state, graph, edge, bit(other) | bit(chip)):
            return False
    return _joined(state, graph, operator, chip)


@kernel
def _confine(state, graph, edge, ends, count):
    """Leave the operators between the ends of an edge only the two chips ``ends``; as :func:`_tighten`."""
    for index in range(graph.between_first[edge], graph.between_first[edge + 1]):
        operator = graph.between_node[index]
        if state.allowed[operator] & ~ends:
            state.allowed[operator] &= ends
            left = interval(state.low[operator], state.high[operator]) & state.allowed[operator]
            if left == np.uint64(0):
                return -1
            count = _tighten(state, operator, np.int32(lowest(left)), np.int32(63 - leading(left)), count)
            if count < 0:
                return -1
    return count


@kernel
def _settle(state, graph, gap, linear, operator, chip):
    """Give ``operator`` its chip and carry on what follows; whether every other operator has a chip left."""
    state.chip[operator] = chip
    count = _tighten(state, operator, chip, chip, 0)
    if count >= 0 and not linear:
        for index in range(graph.in_first[operator], graph.in_first[operator + 1]):
            other = state.chip[graph.in_node[index]]
            if other >= 0 and count >= 0:
                count = _confine(state, graph, graph.in_edge[index], bit(other) | bit(chip), count)
        for index in range(graph.out_first[operator], graph.out_first[operator + 1]):
            other = state.chip[graph.out_node[index]]
            if other >= 0 and count >= 0:
                count = _confine(state, graph, graph.out_edge[index], bit(other) | bit(chip), count)
    return count >= 0 and _propagate(state, graph, gap, count)


@kernel
def _begin(state, linear, bounds):
    """Forget everything."""
    for operator in range(len(bounds)):
        state.high[operator] = len(state.arcs) - 1 if linear else bounds[operator]
        state.low[operator], state.chip[operator] = 0, -1
        state.allowed[operator] = np.uint64(0xFFFFFFFFFFFFFFFF)
        state.queued[operator] = False
    state.stamp[0] = 0
    for chip in range(len(state.arcs)):
        state.arcs[chip] = state.back[chip] = 0
        state.after_stamp[chip] = state.before_stamp[chip] = -1
        state.reach[chip] = state.origin[chip] = bit(chip)


@kernel
def _lowest_source(sources, wanted, seed):
    """The operator that is first on chip 0: the one that wants the lowest chip, or any."""
    lowest_source = sources[int(draw(seed) * len(sources))]
    if len(wanted):
        for operator in sources:
            if wanted[operator] < wanted[lowest_source]:
                lowest_source = operator
    return lowest_source


@kernel
def _dive(state, graph, gap, linear, bounds, sources, order, weights, wanted, seed):
    """Give every operator a chip: whether that came to an end. ``wanted``: chips to keep where possible (FIX).

    A linear dive has one of the ``sources`` on chip 0, as every linear partition of a connected graph has.
    """
    _begin(state, linear, bounds)
    if linear and not _settle(state, graph, gap, linear, _lowest_source(sources, wanted, seed), np.int32(0)):
        return False
    for place in range(len(wanted)):
        operator = order[place]
        chip = wanted[operator]
        if state.chip[operator] >= 0:
            continue
        if not state.low[operator] <= chip <= state.high[operator]:
            continue
        if not linear and not (_domain(state, graph, operator) & bit(chip) and _possible(state, graph, operator, chip)):
            continue
        if not _settle(state, graph, gap, linear, operator, chip):
            return False
    for place in range(len(order)):
        operator = order[place]
        if state.chip[operator] >= 0:
            continue
        if linear and len(wanted):
            # What it wants is out of reach: the nearest that is not.
            chip = min(max(wanted[operator], state.low[operator]), state.high[operator])
            if not _settle(state, graph, gap, linear, operator, chip):
                return False
            continue
        if linear:
            left = interval(state.low[operator], state.high[operator])
        else:
            left = _domain(state, graph, operator)
            if left == np.uint64(0):
                return False
        chip = _drawn(left, weights[operator], seed)
        while not linear and not _possible(state, graph, operator, chip):
            left &= ~bit(chip)
            if left == np.uint64(0):
                return False
            chip = _drawn(left, weights[operator], seed)
        if not _settle(state, graph, gap, linear, operator, chip):
            return False
    return True


@kernel
def _pack(chip, used, number, into):
    """Write the chips without the empty ones; ``number``: room for the new number of each, [64]."""
    packed = 0
    for place in range(64):
        number[place] = packed
        if used & bit(place):
            packed += 1
    for operator in range(len(chip)):
        into[operator] = number[chip[operator]]


@kernel
def _shuffle(order, seed):
    for place in range(len(order) - 1, 0, -1):
        other = int(draw(seed) * (place + 1))
        order[place], order[other] = order[other], order[place]


@compiled(bits, draws, chip_graph)
def partitions(graph, chips, bounds, sources, orders, weights, wanted, seeds, dives):
    """Valid partitions, one for each seed.

    Args:
        graph: a :class:`Structure`.
        chips: C.
        bounds: the highest chip of every operator, [N].
        sources: operators without producers.
        orders: the order of each partition, [B or 1, N]; without rows a random one each.
        weights: of every operator and chip, [N, C], or [N, 0] where all are the same.
        wanted: chips to keep where possible, [B or 1, N] (FIX), or [1, 0] (SAMPLE).
        seeds: of the draws, [B].
        dives: how often to try before the linear dive.

    Returns:
        (chips of every operator, [B, N]; dives that each took, [B]).
    """
    count = len(bounds)
    state = State(
        np.zeros(count, dtype=np.int32),
        np.zeros(count, dtype=np.int32),
        np.zeros(count, dtype=np.int32),
        np.zeros(count, dtype=np.uint64),
        np.zeros(chips, dtype=np.uint64),
        np.zeros(chips, dtype=np.uint64),
        np.zeros(chips, dtype=np.uint64),
        np.zeros(chips, dtype=np.uint64),
        np.zeros((4, chips), dtype=np.uint64),
        np.zeros(chips, dtype=np.uint64),
        np.zeros(chips, dtype=np.uint64),
        np.zeros(chips, dtype=np.int64),
        np.zeros(chips, dtype=np.int64),
        np.zeros(1, dtype=np.int64),
        np.zeros(count + 1, dtype=np.int32),
        np.zeros(count, dtype=np.bool_),
    )
    one = np.ones_like(graph.gap)
    result, dives_taken = np.zeros((len(seeds), count), dtype=np.int8), np.zeros(len(seeds), dtype=np.int32)
    seed, shuffled, renumbered = np.zeros(1, dtype=np.uint64), np.arange(count), np.zeros(64, dtype=np.int8)
    for number in range(len(seeds)):
        seed[0] = seeds[number]
        shuffled[:] = np.arange(count)
        keep = wanted[min(number, len(wanted) - 1)]
        for dive in range(1, dives + 2):
            if len(orders):
                order = orders[min(number, len(orders) - 1)]
            else:
                _shuffle(shuffled, seed)
                order = shuffled
            linear = dive == dives + 1
            gap = one if linear else graph.gap
            if _dive(state, graph, gap, linear, bounds, sources, order, weights, keep, seed):
                dives_taken[number] = dive
                break
        used = np.uint64(0)
        for operator in range(count):
            used |= bit(state.chip[operator])
        _pack(state.chip, used, renumbered, result[number])
    return result, dives_taken
