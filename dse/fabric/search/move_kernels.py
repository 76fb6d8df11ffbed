"""Moves of units between sites, with routes and rules (:mod:`dse.fabric.rules`) kept up to date, compiled.

A move takes a unit to another site of its kind; a unit that is there goes the other way. The nets of both are taken off
their links and routed again. Every net that is put back raises the cost, so a move is given up as soon as its cost is
above what it may be, often before all nets are routed. What a move changes is saved first, so it is undone by copying
it back. A student (:mod:`dse.fabric.search.student_kernels`) is asked once all nets are routed; until then its least
answer is counted.
"""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import numpy as np

from dse.algorithms.bits import bit
from dse.fabric.search.move_state import (
    BURSTS,
    BY_SHARING,
    BY_SPEED,
    COLUMNS,
    CRITICAL,
    HOPS,
    IS_SWITCHED,
    LINKS,
    LOAD,
    MAX_DEPTH,
    MAX_FLITS,
    MAX_SLOTS,
    NETS,
    NOBODY,
    OFF_CHIP,
    RATE,
    RATE_UNIT,
    SHARING,
    SQUARED_LOAD,
    WIRELENGTH,
)
from dse.fabric.search.peak_kernels import find_peaks, forget_touched_peaks, raise_bound, raise_to_all, raise_to_touched
from dse.fabric.search.route_kernels import grow
from dse.fabric.search.student_kernels import correction, least
from dse.fabric.search.sum_kernels import find_sums, restore_sums, save_sums, update_sums
from hardware.compiled import compiled, kernel


@kernel
def _toggle(state, net, which):
    """Put a net into the sets of the links of one of its routes, or take it out."""
    word, member = net >> 6, bit(net & 63)
    for place in range(state.length[net, which]):
        state.member[state.route[net, which, place], word] ^= member


@kernel
def _touch(state, link):
    """Save what is known of a link, once a move."""
    if state.mark[link] != state.move[0]:
        state.mark[link] = state.move[0]
        place = state.extent[LINKS]
        state.extent[LINKS] = place + 1
        state.touched[place] = link
        state.saved_load[place] = state.load[link]
        for column in range(COLUMNS):
            state.saved_link[place, column] = state.link[link, column]


@kernel
def _take_off(case, state, net, which):
    """Take a net off the links of one of its routes."""
    flits, rate, length = case.flits[net], case.max_rate[net], state.length[net, which]
    squared = np.int64(0)
    for place in range(length):
        link = state.route[net, which, place]
        _touch(state, link)
        load = np.int64(state.load[link]) - flits
        squared += flits * (2 * load + flits)
        state.load[link] = load
        state.link[link, SHARING] -= 1
        state.link[link, RATE] -= rate
        state.link[link, BURSTS] -= case.bursts[net]
        state.link[link, CRITICAL] -= case.critical[net]
    state.term[HOPS] -= length
    state.term[WIRELENGTH] -= flits * length
    state.term[SQUARED_LOAD] -= squared


@kernel
def _put_on(case, state, net, which):
    """Put a net on the links of one of its routes; peaks become no less than what these links make of this net."""
    flits, max_rate, length = case.flits[net], case.max_rate[net], state.length[net, which]
    slots, depth = case.isolated[net], state.depth[net, which]
    squared = np.int64(0)
    load_peak, sharing_peak, rate_peak = np.int64(0), np.int64(0), np.int64(0)
    loaded, shared, fast = np.int64(0), np.int64(0), np.int64(0)
    for place in range(length):
        link = state.route[net, which, place]
        _touch(state, link)
        load = np.int64(state.load[link])
        squared += flits * (2 * load + flits)
        load += flits
        state.load[link] = load
        known = state.link[link]
        sharing, rate = np.int64(known[SHARING]) + 1, np.int64(known[RATE]) + max_rate
        known[SHARING], known[RATE] = sharing, rate
        known[BURSTS] += case.bursts[net]
        known[CRITICAL] += case.critical[net]
        known[MAX_FLITS] = max(known[MAX_FLITS], flits)
        known[MAX_SLOTS] = max(known[MAX_SLOTS], slots)
        known[MAX_DEPTH] = max(known[MAX_DEPTH], depth)
        if load > load_peak:
            load_peak, loaded = load, np.int64(link)
        if sharing > sharing_peak:
            sharing_peak, shared = sharing, np.int64(link)
        # A net's rate is rounded up by less than two units.
        if rate - 2 * sharing > rate_peak:
            rate_peak, fast = rate - 2 * sharing, np.int64(link)
    state.term[HOPS] += length
    state.term[WIRELENGTH] += flits * length
    state.term[SQUARED_LOAD] += squared
    raise_bound(case, state, LOAD, loaded, load_peak / case.tracks)
    raise_bound(case, state, BY_SHARING, shared, float(flits * sharing_peak + case.hop_slots * depth))
    raise_bound(case, state, BY_SPEED, fast, slots * (rate_peak * RATE_UNIT / case.tracks))


@kernel
def _largest(values):
    """The largest of values that are not negative."""
    largest = 0.0
    for place in range(len(values)):
        largest = max(largest, values[place])
    return largest


@kernel
def _collect(case, state, unit, count):
    """Add the nets of a unit to those of the move."""
    for place in range(case.unit_first[unit], case.unit_first[unit + 1]):
        net = case.unit_net[place]
        if state.net_mark[net] != state.move[0]:
            state.net_mark[net] = state.move[0]
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
        state.route[net, which],
    )
    state.length[net, which] = links
    state.depth[net, which] = farthest


@kernel
def _rules(case, state):
    """The weighted sum of the terms."""
    cost = 0.0
    for term in range(len(case.scaled)):
        cost += case.scaled[term] * state.term[term]
    return cost


@kernel
def _min_cost(case, state):
    """The least that the cost can be with terms that are no less."""
    cost = _rules(case, state)
    if case.student.weight > 0.0:
        cost += case.student.weight * max(least(case.student, state.term), state.room.floor[0])
    return cost


@kernel
def cost_of(case, state):
    """The weighted sum of the terms, with the student's correction."""
    cost = _rules(case, state)
    if case.student.weight > 0.0:
        cost += correction(case.student, state.room, state.term)
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
def _switch(case, state):
    """Let the nets of a move use their other routes."""
    has_members = case.peak_counts[BY_SPEED] or case.peak_counts[BY_SHARING]
    for place in range(state.extent[NETS]):
        net = state.nets[place]
        if has_members:
            _toggle(state, net, 0)
            _toggle(state, net, 1)
        state.used[net] = 1 - state.used[net]


@kernel
def try_move(case, state, unit, target, max_cost):
    """Make a move: the cost with it. Whatever comes of it, :func:`undo` can take it back.

    A move whose cost is above ``max_cost`` may be given up before it is complete; the cost is infinite then, and it
    must be undone. A unit stays where it is at no cost.
    """
    state.move[0] += 1
    for term in range(len(state.term)):
        state.saved_term[term] = state.term[term]
    for kind in range(len(state.peak_link)):
        state.saved_peak_link[kind] = state.peak_link[kind]
    save_sums(case, state)
    state.extent[NETS] = state.extent[LINKS] = state.extent[IS_SWITCHED] = 0
    if state.site[unit] == target:
        return cost_of(case, state)
    other = _seat(case, state, unit, target)
    if case.channel_slots[unit] > 0 or (other != NOBODY and case.channel_slots[other] > 0):
        state.term[OFF_CHIP] = _largest(state.channel)
    nets = _collect(case, state, unit, 0)
    if other != NOBODY:
        nets = _collect(case, state, other, nets)
    state.extent[NETS] = nets
    for place in range(nets):
        _take_off(case, state, state.nets[place], state.used[state.nets[place]])
    forget_touched_peaks(case, state)
    for place in range(nets):
        net = state.nets[place]
        which = 1 - state.used[net]
        _route(case, state, net, which)
        _put_on(case, state, net, which)
        if _min_cost(case, state) > max_cost:
            return np.inf
    update_sums(case, state)
    _switch(case, state)
    state.extent[IS_SWITCHED] = 1
    raise_to_touched(case, state, LOAD, state.extent[LINKS])
    raise_to_touched(case, state, BY_SPEED, state.extent[LINKS])
    raise_to_touched(case, state, BY_SHARING, state.extent[LINKS])
    if _min_cost(case, state) > max_cost:
        return np.inf
    raise_to_all(case, state, LOAD)
    raise_to_all(case, state, BY_SPEED)
    raise_to_all(case, state, BY_SHARING)
    return cost_of(case, state)


@kernel
def undo(case, state, unit, left):
    """Take the last move back: ``unit`` returns to the site ``left``."""
    if state.extent[IS_SWITCHED]:
        _switch(case, state)
    for place in range(state.extent[LINKS]):
        link = state.touched[place]
        state.load[link] = state.saved_load[place]
        for column in range(COLUMNS):
            state.link[link, column] = state.saved_link[place, column]
    for term in range(len(state.term)):
        state.term[term] = state.saved_term[term]
    for kind in range(len(state.peak_link)):
        state.peak_link[kind] = state.saved_peak_link[kind]
    restore_sums(case, state)
    if state.site[unit] != left:
        _seat(case, state, unit, left)


@kernel
def _settle(case, state):
    """Find all that follows from units with sites and nets with routes; the cost."""
    for net in range(len(case.source)):
        _toggle(state, net, state.used[net])
    for unit in range(len(state.site)):
        if case.channel_slots[unit] > 0:
            state.channel[case.site_channel[state.site[unit]]] += case.channel_slots[unit]
    state.term[OFF_CHIP] = _largest(state.channel)
    find_peaks(case, state)
    find_sums(case, state)
    return cost_of(case, state)


@kernel
def _follow(case, state, net, which):
    """Find the depth of a net by following its links from the source, as :class:`dse.fabric.model.Placement` has
    them.
    """
    depth = state.tree.depth
    depth[case.site_cell[state.site[case.source[net]]]] = 0
    for place in range(state.length[net, which]):
        link = state.route[net, which, place]
        depth[case.ways.link_to[link]] = depth[case.ways.link_from[link]] + 1
    farthest = np.int32(0)
    for place in range(case.sink_first[net], case.sink_first[net + 1]):
        farthest = max(farthest, depth[case.site_cell[state.site[case.sink[place]]]])
    state.depth[net, which] = farthest


@compiled
def begin(case, state, is_routed):
    """Route all nets of a state whose units have sites, or take their routes as they are, and find its terms; the cost.

    One entry point for both, as for all that moves units: each compiles for seconds.
    """
    state.move[0] += 1
    state.extent[LINKS] = 0
    for net in range(len(case.source)):
        if is_routed:
            _follow(case, state, net, state.used[net])
        else:
            _route(case, state, net, state.used[net])
        _put_on(case, state, net, state.used[net])
    return _settle(case, state)
