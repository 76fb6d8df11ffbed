"""The chip graph of the edges whose ends both have chips, and which arcs may join it: the kernels.

An arc a → b must not join chips that a path joins, nor close a path parallel to an arc (4). ``state`` is the
:class:`~dse.partition.constraints.decisions.State`.
"""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import numpy as np

from dse.algorithms.bits import bit, lowest
from hardware.compiled import kernel

SAVED = 4
"""Where ``State.at`` counts the chip graphs that are saved."""


@kernel
def _union(words, chips):
    """The union of the sets ``words`` of ``chips``."""
    union = np.uint64(0)
    while chips != np.uint64(0):
        union |= words[lowest(chips)]
        chips &= chips - np.uint64(1)
    return union


@kernel
def after(state, chip):
    """Chips that a consumer of an operator on ``chip`` may have, with ``chip``: arcs to them exist or may be added."""
    if state.after_stamp[chip] != state.stamp[0]:
        state.after_stamp[chip] = state.stamp[0]
        adjacent = _union(state.arcs, state.origin[chip])
        state.after[chip] = state.arcs[chip] | bit(chip) | ~(_union(state.origin, adjacent) | state.reach[chip])
    return state.after[chip]


@kernel
def before(state, chip):
    """Chips that a producer for an operator on ``chip`` may have, with ``chip``."""
    if state.before_stamp[chip] != state.stamp[0]:
        state.before_stamp[chip] = state.stamp[0]
        adjacent = _union(state.back, state.reach[chip])
        state.before[chip] = state.back[chip] | bit(chip) | ~(_union(state.reach, adjacent) | state.origin[chip])
    return state.before[chip]


@kernel
def join(state, source, target):
    """Add the arc source → target to the chip graph; whether the graph stays its own transitive reduction."""
    if not after(state, source) & bit(target):
        return False
    above, below = state.reach[target], state.origin[source]
    state.arcs[source] |= bit(target)
    state.back[target] |= bit(source)
    left = below
    while left != np.uint64(0):
        state.reach[lowest(left)] |= above
        left &= left - np.uint64(1)
    left = above
    while left != np.uint64(0):
        state.origin[lowest(left)] |= below
        left &= left - np.uint64(1)
    state.stamp[0] += 1
    return True


@kernel
def save(state):
    """Save the chip graph before arcs are added."""
    depth = state.at[SAVED]
    for chip in range(len(state.arcs)):
        state.saved[depth, 0, chip], state.saved[depth, 1, chip] = state.arcs[chip], state.back[chip]
        state.saved[depth, 2, chip], state.saved[depth, 3, chip] = state.reach[chip], state.origin[chip]
    state.at[SAVED] += 1


@kernel
def restore(state):
    """Take back the arcs that were added since the last :func:`save` that was not undone."""
    state.stamp[0] += 1
    state.at[SAVED] -= 1
    depth = state.at[SAVED]
    for chip in range(len(state.arcs)):
        state.arcs[chip], state.back[chip] = state.saved[depth, 0, chip], state.saved[depth, 1, chip]
        state.reach[chip], state.origin[chip] = state.saved[depth, 2, chip], state.saved[depth, 3, chip]
