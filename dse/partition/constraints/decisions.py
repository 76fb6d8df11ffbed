"""Decisions about the chips of operators, what follows from each, and how to take the last one back: the kernels.

Every operator has a *domain*: the chips between two bounds, which (2) and the gaps of
:mod:`dse.partition.constraints.structure` keep tight along every edge at once, less those that (4) forbids. What (4)
forbids is seen from the chip graph of the edges whose ends both have chips: an arc a → b must not join chips that a
path joins, nor close one parallel to an arc. No rule removes a chip that a valid completion of the decisions has.

A decision that leaves an operator without a chip is refused. What each decision changed is on a stack, so that the last
one can be undone.

Cost: O(N + E) for deciding about every operator but for the bounds, which move at most C times each; O(C) for an arc.
"""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dse.algorithms.bits import bit, interval, leading, lowest
from dse.partition.constraints.chip_graph import SAVED, after, before, join, restore, save
from hardware.compiled import kernel

DECIDED, CHANGES, QUEUED, DECISION = 0, 1, 2, 3
"""Where ``State.at`` counts decisions that stand, changes on the stack, operators in the queue, decisions ever made."""


class State(NamedTuple):
    """What is known after some decisions.

    Attributes:
        low, high: bounds of every operator's chip, [N].
        chip: its chip, −1 before it has one, [N].
        allowed: chips that the operators around it leave to it, [N].
        arcs, back: of each chip those that an arc leads to, and those that one comes from, [C] words.
        reach, origin: of each chip those that a path leads to or comes from, with itself, [C] words.
        saved: a stack of these four as they were before arcs were added, [·, 4, C].
        after, before: of each chip those that its operators' consumers and producers may have as far as (4) is
            concerned, with itself, [C] words; current where the stamp is.
        after_stamp, before_stamp: the number of arcs for which they hold, [C].
        stamp: the number of arcs added so far, one more for every time that some were undone, [1].
        queue, queued: operators whose bounds have moved, [N].
        at: counts (:data:`DECIDED` and the others, and :data:`~dse.partition.constraints.chip_graph.SAVED`), [5].
        changed: the last decision that changed the domain of each operator, 0 for none that stands, [N].
        past: a stack of operators whose domains were changed; past_low, past_high, past_allowed: what they were, [·].
        decided: the operators that decisions were about, in their order, [·].
        first_change, first_saved: how high both stacks were before each of these decisions, [·].
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
    at: npt.NDArray[np.int64]
    changed: npt.NDArray[np.int64]
    past: npt.NDArray[np.int32]
    past_low: npt.NDArray[np.int32]
    past_high: npt.NDArray[np.int32]
    past_allowed: npt.NDArray[np.uint64]
    decided: npt.NDArray[np.int32]
    first_change: npt.NDArray[np.int64]
    first_saved: npt.NDArray[np.int64]


def new_state(count: int, chips: int) -> State:
    """Room for the decisions about ``count`` operators on ``chips`` chips.

    A change removes a chip of a domain, or one of the few others that ``allowed`` still holds once an edge has confined
    an operator to two chips, so there are less than N (C + 4). A graph that is its own transitive
    reduction has no triangle, and so at most C²/4 arcs (Mantel): so often is it saved at most, and once more while arcs
    are tried.
    """
    words, numbers = np.zeros((6, chips), dtype=np.uint64), np.zeros((2, chips), dtype=np.int64)
    changes = count * (chips + 4)
    bounds, past = np.zeros((3, count), dtype=np.int32), np.zeros((3, changes), dtype=np.int32)
    places = np.zeros((2, changes), dtype=np.int64)
    return State(
        bounds[0],
        bounds[1],
        bounds[2],
        np.zeros(count, dtype=np.uint64),
        words[0],
        words[1],
        words[2],
        words[3],
        np.zeros((chips * chips // 4 + 2, 4, chips), dtype=np.uint64),
        words[4],
        words[5],
        numbers[0],
        numbers[1],
        np.zeros(1, dtype=np.int64),
        np.zeros(count + 1, dtype=np.int32),
        np.zeros(count, dtype=np.bool_),
        np.zeros(5, dtype=np.int64),
        np.zeros(count, dtype=np.int64),
        past[0],
        past[1],
        past[2],
        np.zeros(changes, dtype=np.uint64),
        np.zeros(changes, dtype=np.int32),
        places[0],
        places[1],
    )


@kernel
def begin(state, bounds, max_chip):
    """Forget everything; ``bounds``: the highest chip of every operator, [N], and ``max_chip`` of all."""
    for operator in range(len(bounds)):
        state.low[operator], state.high[operator] = 0, min(bounds[operator], max_chip)
        state.chip[operator] = -1
        state.allowed[operator] = np.uint64(0xFFFFFFFFFFFFFFFF)
        state.queued[operator] = False
        state.changed[operator] = 0
    state.stamp[0] = 0
    state.at[:] = 0
    for chip in range(len(state.arcs)):
        state.arcs[chip] = state.back[chip] = 0
        state.after_stamp[chip] = state.before_stamp[chip] = -1
        state.reach[chip] = state.origin[chip] = bit(chip)


@kernel
def domain(state, graph, operator):
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
def decide(state, graph, gap, linear, operator, chip):
    """Give ``operator`` its chip and carry on what follows; False, and nothing has changed, where that cannot be."""
    push(state, operator)
    state.chip[operator] = chip
    if (
        _bound(state, operator, chip, chip)
        and (linear or (_joined(state, graph, operator, chip) and _confined(state, graph, operator, chip)))
        and propagate(state, graph, gap)
    ):
        return True
    undo(state)
    return False


@kernel
def push(state, operator):
    """Begin a decision about ``operator``, which :func:`undo` takes back with all that was changed since."""
    place = state.at[DECIDED]
    state.decided[place] = operator
    state.first_change[place], state.first_saved[place] = state.at[CHANGES], state.at[SAVED]
    state.at[DECIDED] += 1
    state.at[DECISION] += 1


@kernel
def undo(state):
    """Take the last decision back; the operator that it was about."""
    for index in range(state.at[QUEUED]):
        state.queued[state.queue[index]] = False
    state.at[QUEUED] = 0
    state.at[DECIDED] -= 1
    place = state.at[DECIDED]
    while state.at[CHANGES] > state.first_change[place]:
        state.at[CHANGES] -= 1
        change = state.at[CHANGES]
        operator = state.past[change]
        state.low[operator], state.high[operator] = state.past_low[change], state.past_high[change]
        state.allowed[operator] = state.past_allowed[change]
        state.changed[operator] = 0
    while state.at[SAVED] > state.first_saved[place]:
        restore(state)
    state.chip[state.decided[place]] = -1
    return state.decided[place]


@kernel
def propagate(state, graph, gap):
    """Carry moved bounds along the edges until nothing moves; whether every operator has a chip left."""
    while state.at[QUEUED] > 0:
        state.at[QUEUED] -= 1
        source = state.queue[state.at[QUEUED]]
        state.queued[source] = False
        low, high = state.low[source], state.high[source]
        for index in range(graph.out_first[source], graph.out_first[source + 1]):
            if not _bound(state, graph.out_node[index], low, high + gap[graph.out_edge[index]]):
                return False
        for index in range(graph.in_first[source], graph.in_first[source + 1]):
            if not _bound(state, graph.in_node[index], low - gap[graph.in_edge[index]], high):
                return False
    return True


@kernel
def _bound(state, operator, low, high):
    """Narrow the bounds of an operator; whether a chip is left."""
    if low <= state.low[operator] and high >= state.high[operator]:
        return True
    return narrow(state, operator, low, high, state.allowed[operator])


@kernel
def narrow(state, operator, low, high, allowed):
    """Narrow the domain of an operator and queue it; whether a chip is left."""
    low, high = max(low, state.low[operator]), min(high, state.high[operator])
    if low > high:
        return False
    left = interval(low, high) & allowed
    if left == np.uint64(0):
        return False
    if state.changed[operator] != state.at[DECISION]:
        state.changed[operator] = state.at[DECISION]
        change = state.at[CHANGES]
        state.past[change], state.past_allowed[change] = operator, state.allowed[operator]
        state.past_low[change], state.past_high[change] = state.low[operator], state.high[operator]
        state.at[CHANGES] += 1
    state.low[operator], state.high[operator] = lowest(left), 63 - leading(left)
    state.allowed[operator] = allowed
    if not state.queued[operator]:
        state.queued[operator] = True
        state.queue[state.at[QUEUED]] = operator
        state.at[QUEUED] += 1
    return True


@kernel
def _joined(state, graph, operator, chip):
    """Add the arcs that ``operator`` on ``chip`` makes; whether that can be."""
    saved = False
    for index in range(graph.in_first[operator], graph.in_first[operator + 1]):
        other = state.chip[graph.in_node[index]]
        if other >= 0 and other != chip and not state.arcs[other] & bit(chip):
            if not saved:
                saved = True
                save(state)
            if not join(state, other, chip):
                return False
    for index in range(graph.out_first[operator], graph.out_first[operator + 1]):
        other = state.chip[graph.out_node[index]]
        if other >= 0 and other != chip and not state.arcs[chip] & bit(other):
            if not saved:
                saved = True
                save(state)
            if not join(state, chip, other):
                return False
    return True


@kernel
def _confined(state, graph, operator, chip):
    """Leave the operators between ``operator`` and its neighbours only the chips of these; whether each has one.

    On the same chip or neighbouring ones the bounds do that: there is no chip between them.
    """
    for index in range(graph.in_first[operator], graph.in_first[operator + 1]):
        other = state.chip[graph.in_node[index]]
        far = other >= 0 and abs(other - chip) > 1
        if far and not _between(state, graph, graph.in_edge[index], bit(other) | bit(chip)):
            return False
    for index in range(graph.out_first[operator], graph.out_first[operator + 1]):
        other = state.chip[graph.out_node[index]]
        far = other >= 0 and abs(other - chip) > 1
        if far and not _between(state, graph, graph.out_edge[index], bit(other) | bit(chip)):
            return False
    return True


@kernel
def _between(state, graph, edge, ends):
    """Leave the operators between the ends of an edge only the two chips ``ends``; whether each has one."""
    for index in range(graph.between_first[edge], graph.between_first[edge + 1]):
        operator = graph.between_node[index]
        if state.allowed[operator] & ~ends and not narrow(state, operator, 0, 63, state.allowed[operator] & ends):
            return False
    return True
