"""Moves of units between sites, with routes and rules (:mod:`dse.fabric.rules`) kept up to date, compiled.

A move takes a unit to another site of its kind; a unit that is there goes the other way. The nets of both are taken off
their links and routed again. Only the links that lose or gain a net are looked at, and all links only when one that had
the largest value was among them. What a move changes is saved first, so a refused one is undone by copying it back.
"""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dse.algorithms import bits
from dse.algorithms.bits import bit, lowest
from dse.fabric.search import route_kernels
from dse.fabric.search.route_kernels import Tree, Ways, grow
from hardware.compiled import compiled, kernel

HOPS, WIRELENGTH, MAX_LOAD, SQUARED_LOAD, EXPERT, ROUTE, OFF_CHIP = range(7)
"""Numbers of the terms, in the order of :class:`dse.fabric.rules.RuleTerms`."""

LOAD, BY_SPEED, BY_SHARING, PEAKS = 0, 1, 2, 3
"""Values of a link whose largest count: its load, and what it makes the worst net on it need by the rules ``expert``
and ``route``; how many there are."""

NOBODY = -1
"""What holds a free site."""


class Case(NamedTuple):
    """What does not change from move to move.

    Attributes:
        unit_first, unit_net: the nets of each unit, [U + 1] and flat.
        source: of every net, [N].
        sink_first, sink: its readers, [N + 1] and flat.
        flits: [N].
        isolated: slots of its source in isolation, [N].
        rate: flits in such a slot, [N].
        channel_slots: of each input and output unit, 0 for others, [U].
        site_cell: [S].
        site_channel: of input and output sites, −1 for others, [S].
        near: of every site, the sites of its kind by distance, itself left out, [S, ·]; ``near_count`` of them, [S].
        ways: shortest ways.
        form: of routes (:mod:`dse.fabric.search.route_kernels`).
        tracks, hop_slots: of the fabric.
        floor: the least that each peak can be, [3].
        scaled: weights divided by scales, [7].
        peak_counts: whether each peak has a weight, [3].
    """

    unit_first: npt.NDArray[np.int64]
    unit_net: npt.NDArray[np.int64]
    source: npt.NDArray[np.int64]
    sink_first: npt.NDArray[np.int64]
    sink: npt.NDArray[np.int64]
    flits: npt.NDArray[np.float64]
    isolated: npt.NDArray[np.float64]
    rate: npt.NDArray[np.float64]
    channel_slots: npt.NDArray[np.float64]
    site_cell: npt.NDArray[np.int64]
    site_channel: npt.NDArray[np.int64]
    near: npt.NDArray[np.int32]
    near_count: npt.NDArray[np.int64]
    ways: Ways
    form: int
    tracks: float
    hop_slots: float
    floor: npt.NDArray[np.float64]
    scaled: npt.NDArray[np.float64]
    peak_counts: npt.NDArray[np.bool_]


class State(NamedTuple):
    """Where units and nets are, and what follows from it.

    Attributes:
        site: of every unit, [U].
        holder: the unit at every site, or :data:`NOBODY`, [S].
        route: links of every net, twice: in use and tried, [2, N, C].
        length, depth: of these, and links to the farthest sink, [2, N].
        used: which of both is in use, [N].
        load: of every link, [L].
        sharing: nets on it, [L].
        member: the set of these, [L, words].
        peak: values of every link, [3, L].
        channel: slots of every channel, [K].
        term: the terms, [7].
        tree: room for routing.
        cells: room for the cells of a net's sinks.
        nets: room for the nets of a move, [N].
        touched: room for the links of a move, [L].
        mark: the number of the move that each link was touched in last, and each net, [L + N].
        saved_load, saved_sharing, saved_peak, saved_term: what they were, in the order of ``touched``.
        move: the number of the move, [1].
    """

    site: npt.NDArray[np.int64]
    holder: npt.NDArray[np.int64]
    route: npt.NDArray[np.int32]
    length: npt.NDArray[np.int64]
    depth: npt.NDArray[np.int64]
    used: npt.NDArray[np.int64]
    load: npt.NDArray[np.float64]
    sharing: npt.NDArray[np.int64]
    member: npt.NDArray[np.uint64]
    peak: npt.NDArray[np.float64]
    channel: npt.NDArray[np.float64]
    term: npt.NDArray[np.float64]
    tree: Tree
    cells: npt.NDArray[np.int64]
    nets: npt.NDArray[np.int64]
    touched: npt.NDArray[np.int64]
    mark: npt.NDArray[np.int64]
    saved_load: npt.NDArray[np.float64]
    saved_sharing: npt.NDArray[np.int64]
    saved_peak: npt.NDArray[np.float64]
    saved_term: npt.NDArray[np.float64]
    move: npt.NDArray[np.int64]


@kernel
def _toggle(state, net, which):
    """Put a net on the links of one of its routes, or take it off."""
    word, member = net >> 6, bit(net & 63)
    for place in range(state.length[which, net]):
        state.member[state.route[which, net, place], word] ^= member


@kernel
def _carry(case, state, net, which, sign, touched):
    """Add a net's flits to the links of a route, or take them away; how many links are touched by now."""
    flits = sign * case.flits[net]
    for place in range(state.length[which, net]):
        link = state.route[which, net, place]
        if state.mark[link] != state.move[0]:
            state.mark[link] = state.move[0]
            state.touched[touched] = link
            state.saved_load[touched] = state.load[link]
            state.saved_sharing[touched] = state.sharing[link]
            for kind in range(PEAKS):
                state.saved_peak[touched, kind] = state.peak[kind, link]
            touched += 1
        state.load[link] += flits
        state.sharing[link] += np.int64(sign)
    state.term[HOPS] += sign * state.length[which, net]
    state.term[WIRELENGTH] += flits * state.length[which, net]
    return touched


@kernel
def _measure(case, state, link):
    """Find the values of a link."""
    state.peak[LOAD, link] = state.load[link] / case.tracks
    by_speed, by_sharing = case.peak_counts[BY_SPEED], case.peak_counts[BY_SHARING]
    if not (by_speed or by_sharing):
        return
    rate, slowest, worst = 0.0, 0.0, 0.0
    left, word = state.sharing[link], 0
    while left > 0:
        members = state.member[link, word]
        while members != 0:
            net = (word << 6) + np.int64(lowest(members))
            members &= members - np.uint64(1)
            left -= 1
            if by_speed:
                rate += case.rate[net]
                slowest = max(slowest, case.isolated[net])
            if by_sharing:
                length = case.hop_slots * state.depth[state.used[net], net]
                worst = max(worst, case.flits[net] * state.sharing[link] + length)
        word += 1
    state.peak[BY_SPEED, link] = slowest * max(1.0, rate / case.tracks)
    state.peak[BY_SHARING, link] = worst


@kernel
def _peak_term(kind):
    return MAX_LOAD if kind == LOAD else (EXPERT if kind == BY_SPEED else ROUTE)


@kernel
def _largest(values):
    """The largest of values that are not negative."""
    largest = 0.0
    for place in range(len(values)):
        largest = max(largest, values[place])
    return largest


@kernel
def _remeasure(case, state, touched):
    """Bring the terms up to date with the links that were touched."""
    for place in range(touched):
        link = state.touched[place]
        _measure(case, state, link)
        before, now = state.saved_load[place], state.load[link]
        state.term[SQUARED_LOAD] += (now - before) * (now + before)
    for kind in range(PEAKS):
        if not case.peak_counts[kind]:
            continue
        term = _peak_term(kind)
        before, now = 0.0, case.floor[kind]
        for place in range(touched):
            before = max(before, state.saved_peak[place, kind])
            now = max(now, state.peak[kind, state.touched[place]])
        if now >= state.term[term]:
            state.term[term] = now
        elif before == state.term[term]:
            state.term[term] = max(now, _largest(state.peak[kind]))


@kernel
def _collect(case, state, unit, count):
    """Add the nets of a unit to those of the move."""
    links = len(state.load)
    for place in range(case.unit_first[unit], case.unit_first[unit + 1]):
        net = case.unit_net[place]
        if state.mark[links + net] != state.move[0]:
            state.mark[links + net] = state.move[0]
            state.nets[count] = net
            count += 1
    return count


@kernel
def _route(case, state, net, which):
    """Find a route of a net."""
    first, last = case.sink_first[net], case.sink_first[net + 1]
    for place in range(first, last):
        state.cells[place - first] = case.site_cell[state.site[case.sink[place]]]
    source = case.site_cell[state.site[case.source[net]]]
    links, farthest = grow(
        case.ways,
        case.form,
        state.tree,
        source,
        state.cells[: last - first],
        state.load,
        case.flits[net],
        state.route[which, net],
    )
    state.length[which, net] = links
    state.depth[which, net] = farthest


@kernel
def cost_of(case, state):
    """The weighted sum of the terms."""
    cost = 0.0
    for term in range(len(case.scaled)):
        cost += case.scaled[term] * state.term[term]
    return cost


@kernel
def _exchange(case, state, unit, left, target):
    """Take the slots of a unit from the channel of one site to that of another."""
    if case.channel_slots[unit] > 0:
        state.channel[case.site_channel[left]] -= case.channel_slots[unit]
        state.channel[case.site_channel[target]] += case.channel_slots[unit]


@kernel
def _seat(case, state, unit, target):
    """Take a unit to a site; what is there goes to where it was. Returns that unit or :data:`NOBODY`."""
    other, left = state.holder[target], state.site[unit]
    _exchange(case, state, unit, left, target)
    state.holder[left] = other
    state.holder[target] = unit
    state.site[unit] = target
    if other != NOBODY:
        state.site[other] = left
        _exchange(case, state, other, target, left)
    return other


@kernel
def try_move(case, state, unit, target):
    """Make a move; (nets, links) that it touched, which :func:`undo` needs. A unit stays where it is at no cost."""
    state.move[0] += 1
    for term in range(len(state.term)):
        state.saved_term[term] = state.term[term]
    if state.site[unit] == target:
        return 0, 0
    other = _seat(case, state, unit, target)
    if case.channel_slots[unit] > 0 or (other != NOBODY and case.channel_slots[other] > 0):
        state.term[OFF_CHIP] = _largest(state.channel)
    nets = _collect(case, state, unit, 0)
    if other != NOBODY:
        nets = _collect(case, state, other, nets)
    has_members = case.peak_counts[BY_SPEED] or case.peak_counts[BY_SHARING]
    touched = 0
    for place in range(nets):
        net = state.nets[place]
        touched = _carry(case, state, net, state.used[net], -1.0, touched)
        if has_members:
            _toggle(state, net, state.used[net])
    for place in range(nets):
        net = state.nets[place]
        which = 1 - state.used[net]
        _route(case, state, net, which)
        touched = _carry(case, state, net, which, 1.0, touched)
        if has_members:
            _toggle(state, net, which)
        state.used[net] = which
    _remeasure(case, state, touched)
    return nets, touched


@kernel
def undo(case, state, unit, left, nets, touched):
    """Take the last move back: ``unit`` returns to the site ``left``."""
    has_members = case.peak_counts[BY_SPEED] or case.peak_counts[BY_SHARING]
    for place in range(nets):
        net = state.nets[place]
        if has_members:
            _toggle(state, net, state.used[net])
            _toggle(state, net, 1 - state.used[net])
        state.used[net] = 1 - state.used[net]
    for place in range(touched):
        link = state.touched[place]
        state.load[link] = state.saved_load[place]
        state.sharing[link] = state.saved_sharing[place]
        for kind in range(PEAKS):
            state.peak[kind, link] = state.saved_peak[place, kind]
    for term in range(len(state.term)):
        state.term[term] = state.saved_term[term]
    if state.site[unit] != left:
        _seat(case, state, unit, left)


@compiled(bits, route_kernels)
def begin(case, state):
    """Route all nets of a state whose units have sites, and find its terms; the cost."""
    state.move[0] += 1
    for net in range(len(case.source)):
        _route(case, state, net, state.used[net])
        _carry(case, state, net, state.used[net], 1.0, 0)
        _toggle(state, net, state.used[net])
    for unit in range(len(state.site)):
        if case.channel_slots[unit] > 0:
            state.channel[case.site_channel[state.site[unit]]] += case.channel_slots[unit]
    state.term[OFF_CHIP] = _largest(state.channel)
    for link in range(len(state.load)):
        _measure(case, state, link)
        state.term[SQUARED_LOAD] += state.load[link] * state.load[link]
    for kind in range(PEAKS):
        term = _peak_term(kind)
        state.term[term] = max(case.floor[kind], _largest(state.peak[kind]))
    return cost_of(case, state)


@compiled(bits, route_kernels)
def moved(case, state, unit, target, keep):
    """Make one move and take it back unless it is to be kept; the cost with it."""
    left = state.site[unit]
    nets, touched = try_move(case, state, unit, target)
    cost = cost_of(case, state)
    if not keep:
        undo(case, state, unit, left, nets, touched)
    return cost
