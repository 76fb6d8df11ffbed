"""Simulated annealing of a state (:mod:`dse.fabric.search.move_kernels`), compiled."""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dse.algorithms.draws import draw
from dse.fabric.search.move_kernels import cost_of, try_move, undo
from dse.fabric.search.move_state import NETS
from dse.fabric.search.student_kernels import remember_fall
from dse.fabric.search.sum_kernels import find_sums
from hardware.compiled import compiled, kernel


class Best(NamedTuple):
    """The best placement met: site of every unit, [U]; links of every net, [N, C], and how many, [N]."""

    site: npt.NDArray[np.int64]
    route: npt.NDArray[np.uint16]
    length: npt.NDArray[np.int32]


@kernel
def below(seed, count):
    """A whole number from 0 to ``count`` − 1."""
    return min(count - 1, np.int64(draw(seed) * count))


@kernel
def _near(case, state, seed, reach, unit):
    """A site of its kind for a unit at random, among the nearest ``reach`` (a share) of these sites."""
    site = state.site[unit]
    many = case.near_count[site]
    if many == 0:
        return site
    nearest = max(1, min(many, np.int64(np.ceil(reach * many))))
    return np.int64(case.near[site, below(seed, nearest)])


@kernel
def propose(case, state, seed, reach):
    """(a unit, a site of its kind for it) at random, among the nearest ``reach`` (a share) of these sites."""
    unit = below(seed, len(state.site))
    return unit, _near(case, state, seed, reach, unit)


@kernel
def propose_among(case, state, seed, reach, upto):
    """As :func:`propose`, of a unit that is drawn by its share; ``upto``: sums of the shares up to each unit, [U]."""
    value = draw(seed) * upto[-1]
    unit, end = 0, len(upto) - 1
    while unit < end:
        middle = (unit + end) // 2
        if upto[middle] > value:
            end = middle
        else:
            unit = middle + 1
    return unit, _near(case, state, seed, reach, unit)


@kernel
def propose_near_partner(case, state, seed, reach):
    """(a unit, a site of its kind for it) at random, among the nearest ``reach`` to another unit of one of its nets."""
    unit = below(seed, len(state.site))
    first, last = case.unit_first[unit], case.unit_first[unit + 1]
    net = case.unit_net[first + below(seed, last - first)]
    partner = case.source[net]
    if partner == unit:
        first_sink, last_sink = case.sink_first[net], case.sink_first[net + 1]
        partner = case.sink[first_sink + below(seed, last_sink - first_sink)]
    kind, cell = case.unit_kind[unit], case.site_cell[state.site[partner]]
    nearest = max(1, np.int64(np.ceil(reach * case.around_count[kind])))
    return unit, np.int64(case.around[kind, cell, below(seed, nearest)])


@kernel
def _save(state, best):
    """Copy where units and nets are."""
    for unit in range(len(best.site)):
        best.site[unit] = state.site[unit]
    for net in range(len(best.length)):
        which = state.used[net]
        best.length[net] = state.length[net, which]
        for place in range(best.length[net]):
            best.route[net, place] = state.route[net, which, place]


@compiled
def anneal(case, state, best, lowest_cost, seed, moves, temperatures, reaches, attraction, flag):
    """Anneal for a number of moves: (lowest cost met, moves that were made, and accepted); ``best`` holds the one with
    that cost.

    Temperature and reach go geometrically from the first to the last of ``temperatures`` and ``reaches``, [2].
    ``lowest_cost`` is that of ``best``. ``flag``, [1], ends it before (:mod:`dse.run.watched`).
    """
    find_sums(case, state)
    cost = cost_of(case, state)
    accepted, is_saved = 0, cost >= lowest_cost
    temperature, reach = temperatures[0], reaches[0]
    cooling = (temperatures[1] / temperatures[0]) ** (1.0 / moves) if temperatures[0] > 0 else 1.0
    shrinking = (reaches[1] / reaches[0]) ** (1.0 / moves)
    lowest_cost = min(cost, lowest_cost)
    made, is_again = 0, False
    predicted = state.room.predicted[0]
    # One call of ``try_move`` and of ``undo``: both are long, and compiled wherever they are called.
    while made < moves and not flag[0]:
        if not is_again:
            if attraction > 0 and draw(seed) < attraction:
                unit, target = propose_near_partner(case, state, seed, reach)
            else:
                unit, target = propose(case, state, seed, reach)
            limit = cost - temperature * np.log(max(draw(seed), 1e-300))
            left = state.site[unit]
        state.room.floor[0] = predicted - state.room.fall[0]
        new_cost = try_move(case, state, unit, target, limit)
        if new_cost < np.inf:
            remember_fall(state.room, predicted)
        is_accepted = new_cost <= limit
        is_again = is_accepted and not is_saved and new_cost >= lowest_cost
        if is_again or not is_accepted:
            undo(case, state, unit, left)
        if is_again:
            # The best so far is about to be left.
            _save(state, best)
            is_saved = True
            continue
        if is_accepted:
            cost, predicted = new_cost, state.room.predicted[0]
            accepted += state.extent[NETS] > 0
            if cost < lowest_cost:
                lowest_cost, is_saved = cost, False
        made += 1
        temperature *= cooling
        reach *= shrinking
    state.room.floor[0] = -np.inf
    if not is_saved:
        _save(state, best)
    return lowest_cost, made, accepted


@compiled
def wander(case, state, seed, moves, tries, max_cost, reach, upto):
    """Make random moves whose cost is at most ``max_cost``: (the cost, moves that were tried, the mean rise of the cost
    over those of them that raise it, 0 where none does).

    Ends after ``moves`` that are accepted, or ``tries``; none is accepted where ``moves`` is 0. Units are drawn as by
    :func:`propose_among`. The rise of a move that is given up is infinite.
    """
    cost, accepted, tried, total, count = cost_of(case, state), 0, 0, 0.0, 0
    predicted = state.room.predicted[0]
    while (accepted < moves or moves == 0) and tried < tries:
        tried += 1
        unit, target = propose_among(case, state, seed, reach, upto)
        left = state.site[unit]
        new_cost = try_move(case, state, unit, target, max_cost)
        if new_cost < np.inf:
            remember_fall(state.room, predicted)
        if new_cost > cost:
            total += new_cost - cost
            count += 1
        if new_cost > max_cost or moves == 0:
            undo(case, state, unit, left)
        else:
            cost, predicted = new_cost, state.room.predicted[0]
            accepted += state.extent[NETS] > 0
    return cost, tried, total / count if count else 0.0
