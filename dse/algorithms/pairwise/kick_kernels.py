"""The inner loops of the search for plans by kicks: one node changes, its neighbours follow, and memory is repaired."""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dse.algorithms.draws import draw
from dse.algorithms.pairwise.load_kernels import add_usage, peak_between, peak_row
from hardware.compiled import compiled, kernel

_TREE_WORK = 40
"""Of one change of, or question to, the tree of loads."""

_SMALL = 4
"""Part of an excess below which what a segment can give is small."""

_DRAWN = 4
"""Choices at most among which a kick takes the cheapest."""


class Position(NamedTuple):
    """Choices of all nodes, what follows from them, and room to work in; all of it is changed.

    Attributes:
        choices: [nodes].
        local: [choices of all nodes], what each costs with the choices of the neighbours as they are.
        peaks, shifts: the usage in each row, as a tree (:mod:`load_kernels`).
        changed: [moves], the nodes that were changed since the last choice that was kept.
        before: [moves], the choices that they had.
        queue: [nodes], those to look at.
        is_queued: [nodes].
        work: [1], numbers read or changed so far: a measure of time that is the same on every machine.
    """

    choices: npt.NDArray[np.int64]
    local: npt.NDArray[np.float64]
    peaks: npt.NDArray[np.int64]
    shifts: npt.NDArray[np.int64]
    changed: npt.NDArray[np.int64]
    before: npt.NDArray[np.int64]
    queue: npt.NDArray[np.int64]
    is_queued: npt.NDArray[np.bool_]
    work: npt.NDArray[np.int64]


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
        at.work[0] += width
    for interval in range(core.interval_starts[node], core.interval_starts[node + 1]):
        place = core.usage_starts[interval]
        added = core.usages[place + choice] - core.usages[place + previous]
        if added != 0:
            add_usage(at.peaks, at.shifts, core.first[interval], core.end[interval], added)
            at.work[0] += _TREE_WORK
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
            at.work[0] += _TREE_WORK
            if peak_between(at.peaks, at.shifts, core.first[interval], core.end[interval]) + added > limit:
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
def follow(core, at, memory_costs, share, waiting, moves, max_moves):
    """Let the nodes in the queue take what is cheapest for them, and their neighbours after them.

    Args:
        core: ContractedArrays.
        at: Position; changed.
        memory_costs: [choices of all nodes], what their usage costs.
        share: of those costs that counts.
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
        at.work[0] += core.starts[node + 1] - core.starts[node]
        start = core.starts[node]
        best = at.choices[node]
        least = at.local[start + best] + share * memory_costs[start + best]
        least -= 1e-9 * abs(least)
        for choice in range(core.starts[node + 1] - start):
            cost = at.local[start + choice] + share * memory_costs[start + choice]
            if cost < least:
                best, least = choice, cost
        if best != at.choices[node]:
            at.changed[moves], at.before[moves] = node, at.choices[node]
            moves += 1
            total += take(core, at, node, best)
            waiting = enqueue_neighbours(core, at, node, head, waiting)
    return total, moves


@kernel
def repair(core, at, limit, memory_costs, rows_of_bucket, fixed, moves, max_moves, allowed):
    """Take usage off the row that is exceeded most, where that costs least for what it takes off, until none is.

    Args:
        core: ContractedArrays.
        at: Position; changed.
        limit: of each row.
        memory_costs: [choices of all nodes], what their usage costs.
        rows_of_bucket: rows that share a list of segments.
        fixed: a node that is left as it is; -1 for none.
        moves: that ``at.changed`` holds.
        max_moves: that it may hold afterwards, where it has room for them.
        allowed: by how much the cost may change; it ends where that is exceeded.

    Returns:
        (by how much the cost changes, moves that ``at.changed`` then holds, whether no row is exceeded).
    """
    max_moves = min(max_moves, len(at.changed))
    total = 0.0
    while at.peaks[1] > limit:
        if moves >= max_moves or total > allowed:
            return total, moves, False
        row = peak_row(at.peaks)
        node, choice = cheapest_relief(core, at, at.peaks[1] - limit, memory_costs, row, row // rows_of_bucket, fixed)
        if node < 0:
            return total, moves, False
        at.changed[moves], at.before[moves] = node, at.choices[node]
        moves += 1
        total += take(core, at, node, choice)
    return total, moves, True


@kernel
def cheapest_relief(core, at, excess, memory_costs, row, bucket, fixed):
    """The (node, choice) that takes usage off ``row`` at the least priced cost per unit; (-1, -1) if none does.

    Segments that can give most come first. When one has been found, those that can give less than a small part of
    ``excess`` are not looked at.
    """
    best, best_choice, least = -1, -1, np.inf
    begin = core.bucket_starts[bucket]
    for place in range(begin, core.bucket_starts[bucket + 1]):
        segment = core.bucket_segments[place]
        if best >= 0 and core.segment_ranges[segment] * _SMALL < excess:
            break
        at.work[0] += 1
        node = core.segment_owners[segment]
        if row < core.segment_first[segment] or row >= core.segment_end[segment] or node == fixed:
            continue
        start, size, own = core.starts[node], core.starts[node + 1] - core.starts[node], at.choices[node]
        usages = core.segment_starts[segment]
        own_usage = core.segment_usages[usages + own]
        own_cost = at.local[start + own] + memory_costs[start + own]
        at.work[0] += size
        for choice in range(size):
            gain = own_usage - core.segment_usages[usages + choice]
            if gain <= 0:
                continue
            cost = at.local[start + choice] + memory_costs[start + choice] - own_cost
            # What is cheaper anyway comes first, the more the better.
            cost = cost / min(gain, excess) if cost > 0 else cost * min(gain, excess)
            if cost < least:
                best, best_choice, least = node, choice, cost
    return best, best_choice


@compiled
def place_at(core, at, choices):
    """Set ``at`` to ``choices``, [nodes]; what they cost."""
    at.local[:] = core.costs
    at.peaks[:] = 0
    at.shifts[:] = 0
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
            if usage:
                add_usage(at.peaks, at.shifts, core.first[interval], core.end[interval], usage)
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
    total, _ = follow(core, at, memory_costs, 1.0, count, 0, max_moves)
    change, _, is_within = repair(core, at, limit, memory_costs, rows_of_bucket, -1, 0, max_repairs, np.inf)
    total += change
    if is_within:
        total += fill(core, at, limit)
    return total, is_within


@kernel
def fill(core, at, limit):
    """Let every node of a plan take the cheapest choice for which memory suffices, until none is cheaper.

    Returns:
        By how much the cost changes.
    """
    total, is_better = 0.0, True
    while is_better:
        is_better = False
        for node in range(len(at.choices)):
            start, own = core.starts[node], at.choices[node]
            best = own
            for choice in range(core.starts[node + 1] - start):
                if at.local[start + choice] < at.local[start + best] - 0.5 and fits(core, at, limit, node, choice):
                    best = choice
            if best != own:
                gained = take(core, at, node, best)
                if at.peaks[1] > limit:  # intervals of one node that overlap
                    take(core, at, node, own)
                else:
                    total += gained
                    is_better = True
    return total


@compiled
def approach(core, at, limit, memory_costs, rows_of_bucket, target, max_moves):
    """Move ``at``, which is a plan, to the choices of ``target`` node by node, with repair after each; then fill.

    Those that use less come first. Where repair fails, the node keeps its choice.

    Args:
        core: ContractedArrays.
        at: Position; changed.
        limit: of each row.
        memory_costs: [choices of all nodes], what their usage costs.
        rows_of_bucket: rows that share a list of segments.
        target: [nodes], any choices.
        max_moves: of one node and its repair.
    """
    for is_rising in (False, True):
        for node in range(len(target)):
            start, own, choice = core.starts[node], at.choices[node], target[node]
            if choice == own or (memory_costs[start + choice] > memory_costs[start + own]) != is_rising:
                continue
            at.changed[0], at.before[0] = node, own
            take(core, at, node, choice)
            _, moves, is_within = repair(core, at, limit, memory_costs, rows_of_bucket, node, 1, max_moves, np.inf)
            if not is_within:
                undo(core, at, moves)
    fill(core, at, limit)


@kernel
def undo(core, at, moves):
    """Take back the ``moves`` that ``at.changed`` holds."""
    for back in range(moves):
        take(core, at, at.changed[moves - 1 - back], at.before[moves - 1 - back])


@compiled
def kick(
    core, at, limit, memory_costs, rows_of_bucket, movable, work, heat, max_moves, cost, best_cost, best, generator
):  # fmt: skip
    """Kick ``at``, which is a plan, and keep what is better, or worse by less than a random draw; fill it at the end.

    Half of the kicks let nodes choose with memory at its price, the others with a random share of it: those find what
    is left of memory that has its price elsewhere.

    Args:
        core: ContractedArrays.
        at: Position; changed.
        limit: of each row.
        memory_costs: [choices of all nodes], what their usage costs.
        rows_of_bucket: rows that share a list of segments.
        movable: nodes that have a choice.
        work: after which there are no more kicks, in units of ``at.work``.
        heat: the mean of the draws (exponential).
        max_moves: in one kick.
        cost: of ``at``.
        best_cost: of ``best``.
        best: [nodes], the best plan; changed.
        generator: [1], the state of the random numbers; changed.

    Returns:
        (cost of ``at``, cost of ``best``, share of kicks kept, of those that raised the cost or broke the limit).
    """
    until = at.work[0] + work
    raising, kept = 0, 0
    while at.work[0] < until:
        node = movable[int(draw(generator) * len(movable))]
        share = min(1.0, 2.0 * draw(generator))
        choice = kicked_choice(core, at, memory_costs, share, node, generator)
        allowed = -heat * np.log(1.0 - draw(generator))
        at.changed[0], at.before[0] = node, at.choices[node]
        change = take(core, at, node, choice)
        waiting = enqueue_neighbours(core, at, node, 0, 0)
        followed, moves = follow(core, at, memory_costs, share, waiting, 1, max_moves)
        change += followed
        repaired, moves, is_within = repair(
            core, at, limit, memory_costs, rows_of_bucket, node, moves, max_moves, allowed - change
        )
        change += repaired
        is_kept = is_within and change <= allowed
        if change > 0 or not is_within:
            raising += 1
            kept += is_kept
        if is_kept:
            cost += change
            if cost < best_cost - 0.5:
                best_cost = cost
                best[:] = at.choices
        else:
            undo(core, at, moves)
    cost += fill(core, at, limit)
    if cost < best_cost - 0.5:
        best_cost = cost
        best[:] = at.choices
    return cost, best_cost, kept / max(1, raising)


@kernel
def kicked_choice(core, at, memory_costs, share, node, generator):
    """Another choice of ``node``: of some drawn at random, the cheapest, with a share of what memory costs."""
    start, size, own = core.starts[node], core.starts[node + 1] - core.starts[node], at.choices[node]
    best, least = -1, np.inf
    for _ in range(1 + int(draw(generator) * _DRAWN)):
        choice = int(draw(generator) * (size - 1))
        if choice >= own:
            choice += 1
        cost = at.local[start + choice] + share * memory_costs[start + choice]
        if best < 0 or cost < least:
            best, least = choice, cost
    return best
