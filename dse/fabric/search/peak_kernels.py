"""The largest values over all links, kept up to date lazily, compiled.

What the rules ``expert`` and ``route`` make of a link depends on all nets on it. So every link has upper bounds that
are cheap to keep (:data:`~dse.fabric.search.move_state.MAX_FLITS` and so on), and its nets are looked at only where
such a bound lies above the largest value known. A link that has the largest value is remembered: as long as a move
does not touch it, only the links that were touched can have a larger one.
"""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import numpy as np

from dse.algorithms.bits import lowest
from dse.fabric.search.move_state import (
    BY_SHARING,
    BY_SPEED,
    EXPERT,
    LOAD,
    MAX_DEPTH,
    MAX_FLITS,
    MAX_LOAD,
    MAX_SLOTS,
    PEAKS,
    RATE,
    RATE_UNIT,
    ROUTE,
    SHARING,
)
from hardware.compiled import kernel


@kernel
def _term(kind):
    return MAX_LOAD if kind == LOAD else (EXPERT if kind == BY_SPEED else ROUTE)


@kernel
def _max_value(case, state, kind, link):
    """An upper bound on a value of a link; of its load the value itself."""
    if kind == LOAD:
        return state.load[link] / case.tracks
    known = state.link[link]
    if kind == BY_SPEED:
        return known[MAX_SLOTS] * max(1.0, known[RATE] * RATE_UNIT / case.tracks)
    return float(known[SHARING] * np.int64(known[MAX_FLITS]) + case.hop_slots * known[MAX_DEPTH])


@kernel
def _speed_value(case, state, link):
    """What a link makes the worst net on it need by the rule ``expert``; its bounds become the values themselves."""
    rate, slowest = 0.0, np.int64(0)
    left, word = state.link[link, SHARING], 0
    while left > 0:
        members = state.member[link, word]
        while members != 0:
            net = (word << 6) + np.int64(lowest(members))
            members &= members - np.uint64(1)
            left -= 1
            rate += case.rate[net]
            slowest = max(slowest, case.isolated[net])
        word += 1
    state.link[link, MAX_SLOTS] = slowest
    return slowest * max(1.0, rate / case.tracks)


@kernel
def _sharing_value(case, state, link):
    """What a link makes the worst net on it need by the rule ``route``; its bounds become the values themselves."""
    worst, flits, depth = np.int64(0), np.int64(0), np.int64(0)
    sharing = np.int64(state.link[link, SHARING])
    left, word = sharing, 0
    while left > 0:
        members = state.member[link, word]
        while members != 0:
            net = (word << 6) + np.int64(lowest(members))
            members &= members - np.uint64(1)
            left -= 1
            its_depth = np.int64(state.depth[net, state.used[net]])
            worst = max(worst, case.flits[net] * sharing + case.hop_slots * its_depth)
            flits, depth = max(flits, case.flits[net]), max(depth, its_depth)
        word += 1
    state.link[link, MAX_FLITS], state.link[link, MAX_DEPTH] = flits, depth
    return float(worst)


@kernel
def raise_bound(case, state, kind, link, value):
    """Raise a term to what a link's value is at least."""
    if case.peak_counts[kind] and value > state.term[_term(kind)]:
        state.term[_term(kind)] = value
        state.peak_link[kind] = link


@kernel
def _raise_to(case, state, kind, link):
    """Raise a term to the value of a link where that is larger."""
    term = _term(kind)
    value = _max_value(case, state, kind, link)
    if value <= state.term[term]:
        return
    if kind == BY_SPEED:
        value = _speed_value(case, state, link)
    elif kind == BY_SHARING:
        value = _sharing_value(case, state, link)
    if value > state.term[term]:
        state.term[term] = value
        state.peak_link[kind] = link


@kernel
def forget_touched_peaks(case, state):
    """Where the link with the largest value was touched, all that is known of this term is its floor."""
    for kind in range(PEAKS):
        if case.peak_counts[kind] and state.mark[state.peak_link[kind]] == state.move[0]:
            state.term[_term(kind)] = case.floor[kind]


@kernel
def raise_to_touched(case, state, kind, touched):
    """Raise a term to the largest value of the links that were touched."""
    if not case.peak_counts[kind]:
        return
    if state.mark[state.peak_link[kind]] == state.move[0]:
        _raise_to(case, state, kind, state.peak_link[kind])
    for place in range(touched):
        _raise_to(case, state, kind, state.touched[place])


@kernel
def raise_to_all(case, state, kind):
    """Raise a term to the largest value of all links, unless it is known to have that already.

    A term that is no less than before the move has it: the links that were not touched have no larger value.
    """
    if case.peak_counts[kind] and state.term[_term(kind)] < state.saved_term[_term(kind)]:
        for link in range(len(state.load)):
            _raise_to(case, state, kind, link)


@kernel
def find_peaks(case, state):
    """Find the terms from nothing."""
    for kind in range(PEAKS):
        state.term[_term(kind)] = case.floor[kind]
        for link in range(len(state.load)):
            _raise_to(case, state, kind, link)
