"""The inner loops of the search for plans by kicks: one node changes, its neighbours follow, and memory is repaired."""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dse.algorithms.draws import draw
from hardware.compiled import compiled, kernel


class Position(NamedTuple):
    """Choices of all nodes, what follows from them, and room to work in; all of it is changed.

    Attributes:
        choices: [nodes].
        local: [choices of all nodes], what each costs with the choices of the neighbours as they are.
        loads: [rows], the usage.
        changed: [moves], the nodes that were changed since the last choice that was kept.
        before: [moves], the choices that they had.
        queue: [nodes], those to look at.
        is_queued: [nodes].
    """

    choices: npt.NDArray[np.int64]
    local: npt.NDArray[np.float64]
    loads: npt.NDArray[np.int64]
    changed: npt.NDArray[np.int64]
    before: npt.NDArray[np.int64]
    queue: npt.NDArray[np.int64]
    is_queued: npt.NDArray[np.bool_]


@kernel
def take(core, at, node, choice):
    """Let ``node`` take ``choice``; by how much the cost changes."""
    start, previous = core.starts[node], at.choices[node]
    change = at.local[start + choice] - at.local[start + previous]
    for arc in range(core.arc_starts[node], core.arc_starts[node + 1]):
        other = core.starts[core.other[arc]]
        width = core.starts[core.other[arc] + 1] - other
        new, old = core.pair_starts[arc] + choice * width, core.pair_starts[arc] + previous * width
        for option in range(width):
            at.local[other + option] += core.pairs[new + option] - core.pairs[old + option]
    for interval in range(core.interval_starts[node], core.interval_starts[node + 1]):
        place = core.usage_starts[interval]
        added = core.usages[place + choice] - core.usages[place + previous]
        if added != 0:
            for row in range(core.first[interval], core.end[interval]):
                at.loads[row] += added
    at.choices[node] = choice
    return change


@kernel
def fits(core, at, limit, node, choice):
    """Whether memory suffices, as it does now, if ``node`` takes ``choice``; one interval at a time."""
    previous = at.choices[node]
    for interval in range(core.interval_starts[node], core.interval_starts[node + 1]):
        place = core.usage_starts[interval]
        added = core.usages[place + choice] - core.usages[place + previous]
        if added > 0:
            most = 0
            for row in range(core.first[interval], core.end[interval]):
                most = max(most, at.loads[row])
            if most + added > limit:
                return False
    return True


@kernel
def enqueue_neighbours(core, at, node, head, waiting):
    """Put the neighbours of ``node`` behind the ``waiting`` in the queue, which begins at ``head``; their number."""
    for arc in range(core.arc_starts[node], core.arc_starts[node + 1]):
        other = core.other[arc]
        if not at.is_queued[other]:
            at.is_queued[other] = True
            at.queue[(head + waiting) % len(at.queue)] = other
            waiting += 1
    return waiting


@kernel
def follow(core, at, memory_costs, waiting, moves, max_moves):
    """Let the nodes in the queue take what is cheapest for them, and their neighbours after them.

    Args:
        core: ContractedArrays.
        at: Position; changed.
        memory_costs: [choices of all nodes], what their usage costs.
        waiting: nodes in the queue, which begins at 0; it is empty afterwards.
        moves: that ``at.changed`` holds.
        max_moves: that it may hold afterwards, where it has room for them.

    Returns:
        (by how much the cost changes, moves that ``at.changed`` then holds).
    """
    total, head = 0.0, 0
    max_moves = min(max_moves, len(at.changed))
    while waiting > 0:
        node = at.queue[head]
        head = (head + 1) % len(at.queue)
        waiting -= 1
        at.is_queued[node] = False
        if moves >= max_moves:
            continue
        start = core.starts[node]
        best = at.choices[node]
        least = at.local[start + best] + memory_costs[start + best]
        least -= 1e-9 * abs(least)
        for choice in range(core.starts[node + 1] - start):
            cost = at.local[start + choice] + memory_costs[start + choice]
            if cost < least:
                best, least = choice, cost
        if best != at.choices[node]:
            at.changed[moves], at.before[moves] = node, at.choices[node]
            moves += 1
            total += take(core, at, node, best)
            waiting = enqueue_neighbours(core, at, node, head, waiting)
    return total, moves


@kernel
def usage_at(core, node, choice, row):
    """What ``choice`` of ``node`` uses in ``row``."""
    usage = 0
    for interval in range(core.interval_starts[node], core.interval_starts[node + 1]):
        if core.first[interval] <= row < core.end[interval]:
            usage += core.usages[core.usage_starts[interval] + choice]
    return usage


@kernel
def repair(core, at, limit, memory_costs, rows_of_bucket, fixed, moves, max_moves):
    """Take usage off the row that is exceeded most, where that costs least for what it takes off, until none is.

    Args:
        core: ContractedArrays.
        at: Position; changed.
        limit: of each row.
        memory_costs: [choices of all nodes], what their usage costs.
        rows_of_bucket: rows that share a list of nodes.
        fixed: a node that is left as it is; -1 for none.
        moves: that ``at.changed`` holds.
        max_moves: that it may hold afterwards, where it has room for them.

    Returns:
        (by how much the cost changes, moves that ``at.changed`` then holds, whether no row is exceeded).
    """
    total = 0.0
    max_moves = min(max_moves, len(at.changed))
    while True:
        worst = 0
        for row in range(len(at.loads)):
            if at.loads[row] > at.loads[worst]:
                worst = row
        excess = at.loads[worst] - limit if len(at.loads) > 0 else 0
        if excess <= 0:
            return total, moves, True
        if moves >= max_moves:
            return total, moves, False
        best, best_choice, least = -1, -1, np.inf
        bucket = worst // rows_of_bucket
        for place in range(core.bucket_starts[bucket], core.bucket_starts[bucket + 1]):
            node = core.bucket_nodes[place]
            if node == fixed:
                continue
            start, own = core.starts[node], at.choices[node]
            used = usage_at(core, node, own, worst)
            if used == 0:
                continue
            for choice in range(core.starts[node + 1] - start):
                gain = used - usage_at(core, node, choice, worst)
                if gain <= 0:
                    continue
                cost = at.local[start + choice] + memory_costs[start + choice]
                cost -= at.local[start + own] + memory_costs[start + own]
                # What is cheaper anyway comes first, the more the better.
                cost = cost / min(gain, excess) if cost > 0 else cost * min(gain, excess)
                if cost < least:
                    best, best_choice, least = node, choice, cost
        if best < 0:
            return total, moves, False
        at.changed[moves], at.before[moves] = best, at.choices[best]
        moves += 1
        total += take(core, at, best, best_choice)


@compiled
def place_at(core, at, choices):
    """Set ``at`` to ``choices``, [nodes]; what they cost."""
    at.local[:] = core.costs
    at.loads[:] = 0
    at.is_queued[:] = False
    at.choices[:] = choices
    cost = 0.0
    for node in range(len(choices)):
        start, size = core.starts[node], core.starts[node + 1] - core.starts[node]
        cost += core.costs[start + choices[node]]
        for arc in range(core.arc_starts[node], core.arc_starts[node + 1]):
            other = core.other[arc]
            place = core.pair_starts[core.opposite[arc]] + choices[other] * size
            for choice in range(size):
                at.local[start + choice] += core.pairs[place + choice]
            if other > node:
                cost += core.pairs[place + choices[node]]
        for interval in range(core.interval_starts[node], core.interval_starts[node + 1]):
            usage = core.usages[core.usage_starts[interval] + choices[node]]
            for row in range(core.first[interval], core.end[interval]):
                at.loads[row] += usage
    return cost


@compiled
def descend(core, at, limit, memory_costs, rows_of_bucket, max_moves, max_repairs):
    """From decoded choices to a plan: nodes take what is cheapest, memory is repaired, and what still fits is taken.

    Returns:
        (by how much the cost changes, whether no row is exceeded).
    """
    count = len(at.choices)
    for node in range(count):
        at.queue[node] = node
        at.is_queued[node] = True
    total, _ = follow(core, at, memory_costs, count, 0, max_moves)
    change, _, is_within = repair(core, at, limit, memory_costs, rows_of_bucket, -1, 0, max_repairs)
    total += change
    is_better = is_within
    while is_better:
        is_better = False
        for node in range(count):
            start, own = core.starts[node], at.choices[node]
            best = own
            for choice in range(core.starts[node + 1] - start):
                if at.local[start + choice] < at.local[start + best] - 0.5 and fits(core, at, limit, node, choice):
                    best = choice
            if best != own:
                gained = take(core, at, node, best)
                highest = 0
                for row in range(len(at.loads)):
                    highest = max(highest, at.loads[row])
                if highest > limit:  # intervals of one node that overlap
                    take(core, at, node, own)
                else:
                    total += gained
                    is_better = True
    return total, is_within


@compiled
def kick(
    core,
    at,
    limit,
    memory_costs,
    rows_of_bucket,
    movable,
    kicks,
    hot,
    cold,
    max_moves,
    cost,
    best_cost,
    best,
    generator,
):
    """Kick ``at``, which is a plan, ``kicks`` times, and keep what is better, or worse by less than a random draw.

    Args:
        core: ContractedArrays.
        at: Position; changed.
        limit: of each row.
        memory_costs: [choices of all nodes], what their usage costs.
        rows_of_bucket: rows that share a list of nodes.
        movable: nodes that have a choice.
        kicks: their number.
        hot: the mean of the draws (exponential) at the first kick.
        cold: the same after the last.
        max_moves: in one kick.
        cost: of ``at``.
        best_cost: of ``best``.
        best: [nodes], the best plan; changed.
        generator: [1], the state of the random numbers; changed.

    Returns:
        (cost of ``at``, cost of ``best``).
    """
    for number in range(kicks):
        heat = hot + (cold - hot) * number / kicks
        node = movable[int(draw(generator) * len(movable))]
        size = core.starts[node + 1] - core.starts[node]
        choice = int(draw(generator) * (size - 1))
        if choice >= at.choices[node]:
            choice += 1
        at.changed[0], at.before[0] = node, at.choices[node]
        allowed = -heat * np.log(1.0 - draw(generator))
        change = take(core, at, node, choice)
        waiting = enqueue_neighbours(core, at, node, 0, 0)
        followed, moves = follow(core, at, memory_costs, waiting, 1, max_moves)
        repaired, moves, is_within = repair(core, at, limit, memory_costs, rows_of_bucket, node, moves, max_moves)
        change += followed + repaired
        if is_within and change <= allowed:
            cost += change
            if cost < best_cost - 0.5:
                best_cost = cost
                best[:] = at.choices
        else:
            for back in range(moves):
                take(core, at, at.changed[moves - 1 - back], at.before[moves - 1 - back])
    return cost, best_cost
