"""One partition after the other, operator by operator: the kernels of SAMPLE and FIX (paper, Algorithms 1 and 2).

**General partitions.** Every operator, in some order, gets a chip of its domain
(:mod:`dse.partition.constraints.decisions`). A value that turns out to be impossible is removed and another one drawn;
where none is left, the operator is at a *dead end*. Then decisions are undone until the operator has a chip again
(Gaschnig's backjumping: the earliest decisions that leave it none are a no-good, so the last of them must go), and
further, to a random earlier place. There the operator is decided, and so it stays before those that left it
nothing: this is what is learned. All others get their former chips again wherever these are left to them, so a dead end
costs the draws that it must, and no more. What is drawn first is hardly ever possible as a whole (one unrolled LSTM of
20 × 4 cells needs about 100 dead ends), and restarting instead would favour the partitions of few chips, which
fail least.

After every :data:`DEAD_ENDS` dead ends the chips are joined in pairs, which keeps (2) and makes the rest easier. Where
two chips are left and that does not help, the sampler falls back to a linear partition. No rule removes a chip that a
valid completion has, so every valid partition can be drawn without any dead end, in any order.

**Linear partitions.** 0 ≤ f(v) − f(u) ≤ 1 on every edge: a system of difference constraints, whose domains are exact
once its bounds are propagated, so that any chip between the bounds can be completed. Every arc of their chip graph
joins neighbours, so (4) holds. They move data less far, which is cheaper on most graphs without recurrence, but use a
few chips only on recurrent ones. So SAMPLE draws some of its partitions from these on purpose.

**FIX** keeps the candidate's chips wherever they are left and draws the others; a valid candidate is kept as it is. At
the first dead end it turns to the linear partitions. To go on as SAMPLE does changed fewer operators of some
candidates, but what came out cost up to seven times as much: ``greedy`` on an Inception with 36 chips.

**The closest of FIX** begins with the linear partition that changes the fewest operators of the candidate
(:mod:`dse.partition.constraints.closest`). What that keeps is decided first, and then, by the rules of general
partitions, whatever else of the candidate can be kept; the others get the chips of the linear partition where these are
left. At a dead end, or where chips that stay empty would move more, it is the linear partition. So a valid candidate is
kept as it is, and no linear partition is closer to any other one. Of a whole partition that was drawn or computed this
leaves most; of a few changed operators in a valid one, nothing, so that search steps need the plain FIX.

Chips that stay empty are taken out at the end, and those above move down: nothing that (2) and (4) say changes.
"""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dse.algorithms.bits import bit, interval, lowest, size
from dse.algorithms.draws import draw
from dse.partition.constraints.closest import keep_closest
from dse.partition.constraints.decisions import DECIDED, begin, decide, domain, undo
from hardware.compiled import compiled, kernel

DEAD_ENDS = 80
"""Dead ends after which chips are joined in pairs. They cost about 10 µs each on an LSTM of 262 operators."""

MAX_CLOSEST = 4096
"""Operators of a graph at most for which a closest linear partition is looked for: more take seconds to prepare."""

FALL_BACK, LINEAR = -2, -1
"""In place of the number of dead ends: a linear partition where no general one was found, or one that was wanted."""


class Scratch(NamedTuple):
    """Room for one partition after the other of N operators.

    Attributes:
        seed: of its draws, [1].
        order: in which operators are visited, [N].
        former: chips that they get where they can, [N].
        renumbered: new numbers of chips, [64].
    """

    seed: npt.NDArray[np.uint64]
    order: npt.NDArray[np.int64]
    former: npt.NDArray[np.int32]
    renumbered: npt.NDArray[np.int8]


def new_scratch(count: int) -> Scratch:
    """Room for partitions of ``count`` operators."""
    former, renumbered = np.zeros(count, dtype=np.int32), np.zeros(64, dtype=np.int8)
    return Scratch(np.zeros(1, dtype=np.uint64), np.zeros(count, dtype=np.int64), former, renumbered)


class Drawn(NamedTuple):
    """B partitions.

    Attributes:
        chips: of every operator, [B, N].
        dead_ends: that each took, or :data:`LINEAR` or :data:`FALL_BACK`, [B].
    """

    chips: npt.NDArray[np.int8]
    dead_ends: npt.NDArray[np.int32]


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
def _lowest_source(sources, wanted, seed):
    """The operator that is first on chip 0: the one that wants the lowest chip, or any."""
    lowest_source = sources[int(draw(seed) * len(sources))]
    if len(wanted):
        for operator in sources:
            if wanted[operator] < wanted[lowest_source]:
                lowest_source = operator
    return lowest_source


@kernel
def _linear(state, graph, gap, bounds, first, order, weights, wanted, seed):
    """A linear partition with the operator ``first`` on chip 0, as one without producers is in every one.

    Operators that can have the chips they want get these before the others get any.
    """
    begin(state, bounds, len(state.arcs) - 1)
    for operator in range(len(order)):
        state.high[operator] = len(state.arcs) - 1
    # One loop, and in it one call of ``decide``, which is compiled into every place that calls it.
    for turn in range(-1, len(wanted) + len(order)):
        operator = first if turn < 0 else order[turn % len(order)]
        if state.chip[operator] >= 0:
            continue
        low, high = state.low[operator], state.high[operator]
        if turn < 0:
            chip = np.int32(0)
        elif len(wanted):
            # What it wants may be out of reach: in the end it gets the nearest that is not.
            chip = np.int32(min(max(wanted[operator], low), high))
            if turn < len(wanted) and chip != wanted[operator]:
                continue
        else:
            chip = _drawn(interval(low, high), weights[operator], seed)
        decide(state, graph, gap, True, operator, chip)


@kernel
def _settled(state, graph, gap, operator, weights, former, seed):
    """Give an operator a chip of its domain, the ``former`` one where that is possible; whether there is one."""
    left = domain(state, graph, operator)
    while left != np.uint64(0):
        chip = former[operator]
        if chip < 0 or not left & bit(chip):
            chip = _drawn(left, weights[operator], seed)
        if decide(state, graph, gap, False, operator, chip):
            return True
        left &= ~bit(chip)
    return False


@kernel
def _keep_wanted(state, graph, gap, order, wanted, former):
    """Keep the chips that are wanted wherever possible; these operators come first in the ``order`` from then on."""
    for place in range(len(wanted)):
        operator = order[place]
        chip = np.int32(wanted[operator])
        if not state.low[operator] <= chip <= state.high[operator]:
            continue
        if domain(state, graph, operator) & bit(chip) and decide(state, graph, gap, False, operator, chip):
            former[operator] = chip
    last = len(order) - 1
    for place in range(len(wanted) - 1, -1, -1):
        if state.chip[order[place]] < 0:
            order[last] = order[place]
            last -= 1
    for place in range(state.at[DECIDED]):
        order[place] = state.decided[place]


@kernel
def _move_forward(order, place, earlier):
    """Move what has one ``place`` in an order to an ``earlier`` one."""
    operator = order[place]
    while place > earlier:
        order[place] = order[place - 1]
        place -= 1
    order[earlier] = operator


@kernel
def _join_pairs(state, bounds, former, chips):
    """Start over with every two neighbouring chips as one, ``chips`` in all."""
    for operator in range(len(bounds)):
        if state.chip[operator] >= 0:
            former[operator] = state.chip[operator]
        if former[operator] >= 0:
            former[operator] >>= 1
    begin(state, bounds, chips - 1)


@kernel
def _general(state, graph, bounds, order, weights, wanted, former, seed):
    """A general partition: the dead ends that it took, :data:`FALL_BACK` where they were too many.

    ``former``: chips that operators get where they can, −1 for none, [N]. It is used up.
    """
    begin(state, bounds, len(state.arcs) - 1)
    _keep_wanted(state, graph, graph.gap, order, wanted, former)
    dead_ends, chips = 0, len(state.arcs)
    stuck, latest = -1, 0  # the place of the operator at a dead end, −1 for none, and the latest that it may move to
    while state.at[DECIDED] < len(order):
        operator = order[state.at[DECIDED]] if stuck < 0 else order[stuck]
        tries = stuck < 0 or state.at[DECIDED] <= latest
        if tries and _settled(state, graph, graph.gap, operator, weights, former, seed):
            if stuck >= 0:
                # It stays before those that left it no chip.
                _move_forward(order, stuck, state.at[DECIDED] - 1)
                stuck = -1
            continue
        if stuck < 0:
            dead_ends += 1
            if len(wanted) or (dead_ends % DEAD_ENDS == 0 and chips <= 2):
                return FALL_BACK
            if dead_ends % DEAD_ENDS == 0:
                chips = (chips + 1) // 2
                _join_pairs(state, bounds, former, chips)
                continue
            stuck = state.at[DECIDED]
            former[operator] = -1
            latest = int(draw(seed) * stuck)
        chip = state.chip[state.decided[state.at[DECIDED] - 1]]
        former[undo(state)] = chip
    return dead_ends


@kernel
def _pack(chip, number, into):
    """Write the chips without the empty ones; ``number``: room for the new number of each, [64]."""
    used = np.uint64(0)
    for operator in range(len(chip)):
        used |= bit(chip[operator])
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


@kernel
def _order(orders, number, order, seed):
    """Fill in the order of a partition: a random one where none is given."""
    row = min(number, len(orders) - 1)
    for place in range(len(order)):
        order[place] = orders[row, place] if len(orders) else place
    if not len(orders):
        _shuffle(order, seed)


@kernel
def _unmoved_first(room, order):
    """Move the operators that are kept to the front, each part in the order it has."""
    for place in range(len(order)):
        room.order[place] = order[place]
    place = 0
    for want in (True, False):
        for operator in room.order:
            if room.unmoved[operator] == want:
                order[place] = operator
                place += 1


@kernel
def _first(state, graph, reach, room, order, wanted, seed):
    """The operator on chip 0 of a linear partition: with ``reach``, of the closest one, whose operators come first in
    ``order`` from then on where they are kept.
    """
    if not len(reach):
        return _lowest_source(graph.sources, wanted, seed)
    first = keep_closest(reach, graph.sources, wanted, len(state.arcs), room)
    _unmoved_first(room, order)
    return first


@kernel
def _is_whole(room):
    """Whether a closest linear partition keeps all operators."""
    whole = True
    for unmoved in room.unmoved:
        whole = whole and unmoved
    return whole


@kernel
def _changes(chip, wanted):
    """Operators that have other chips than are wanted once the empty chips are taken out."""
    used = np.uint64(0)
    for operator in range(len(chip)):
        used |= bit(chip[operator])
    changes = 0
    for operator in range(len(chip)):
        if size(used & (bit(chip[operator]) - np.uint64(1))) != wanted[operator]:
            changes += 1
    return changes


@kernel
def _closer(state, room, wanted, dead_ends):
    """What :func:`_general` made of a closest linear partition, or that one again where it was no closer or none."""
    if dead_ends >= 0 and _changes(state.chip, wanted) > _changes(room.chip, wanted):
        dead_ends = LINEAR
    if dead_ends < 0:
        for operator in range(len(wanted)):
            state.chip[operator] = room.chip[operator]
    return dead_ends


@compiled
def partitions(state, graph, one, bounds, reach, room, orders, weights, wanted, seeds, linear_share, scratch, result):
    """Valid partitions, one for each seed.

    Args:
        state: room for the decisions about N operators on C chips.
        graph: a :class:`Structure`.
        one: the gap of each of its edges in a linear partition, 1.
        bounds: the highest chip of every operator, [N].
        reach: of :func:`~dse.partition.constraints.closest.reach_of`, [N, N], or [0, 0]
            for the plain FIX.
        room: to look for closest partitions.
        orders: the order of each partition, [B or 1, N]; without rows a random one each.
        weights: of every operator and chip, [N, C], or [N, 0] where all are the same.
        wanted: chips to keep where possible, [B or 1, N] (FIX), or [1, 0] (SAMPLE).
        seeds: of the draws, [B].
        linear_share: of SAMPLE's partitions that are drawn from the linear ones on purpose; with 1, FIX is linear too.
        scratch: a :class:`Scratch`.
        result: filled in.
    """
    # Arrays are made by the caller: each kind of allocation is code of its own, a tenth of a second to compile.
    count, chips, dead_ends = len(bounds), result.chips, result.dead_ends
    seed, order, former = scratch.seed, scratch.order, scratch.former
    for number in range(len(seeds)):
        seed[0] = seeds[number]
        keep = wanted[min(number, len(wanted) - 1)]
        extends = len(keep) > 0 and len(reach) > 0
        general = not (linear_share >= 1.0 or (len(keep) == 0 and draw(seed) < linear_share))
        dead_ends[number] = LINEAR
        # General partitions extend the closest linear one, or come before a linear one in place of those not found.
        # Both kinds have one call, since they are compiled into every place that calls them.
        for turn in range(2):
            if extends == (turn == 0):
                if dead_ends[number] < 0:
                    _order(orders, number, order, seed)
                    first = _first(state, graph, reach, room, order, keep, seed)
                    _linear(state, graph, one, bounds, first, order, weights, keep, seed)
                    general = general and not (extends and _is_whole(room))
            elif general:
                if not extends:
                    _order(orders, number, order, seed)
                for operator in range(count):
                    former[operator] = state.chip[operator] if extends else -1
                    if extends:
                        room.chip[operator] = state.chip[operator]
                dead_ends[number] = _general(state, graph, bounds, order, weights, keep, former, seed)
                if extends:
                    dead_ends[number] = _closer(state, room, keep, dead_ends[number])
        _pack(state.chip, scratch.renumbered, chips[number])
