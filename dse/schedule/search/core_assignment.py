"""Cores for a schedule whose cores were only counted.

Without fused operators a count is enough: intervals of which never more than n overlap fit on n cores. A fused operator
needs both halves of one pair, so a schedule within the counts may still have no assignment, and a search is needed.
"""

import numpy as np

from dse.schedule.search.reduce import Ints
from dse.schedule.search.segment import Codes
from hardware.compiled import compiled, kernel


@compiled
def assign_cores(kind: Codes, start: Ints, finish: Ints, core: Ints, capacity: Ints, step_limit: int) -> bool:
    """Replaces the entries -1 of ``core`` by cores or pairs; False if that is impossible or took ``step_limit`` steps.

    Backtracking over operators in the order of their start. A single one prefers a core without a partner, then the
    free half of a pair that is half in use, then a free pair; of equally busy cores only the first is tried.
    """
    # Loops, not expressions of whole arrays: Numba takes seconds to compile what these need.
    order, count = np.empty(len(core), np.int64), 0
    for i in range(len(core)):
        if core[i] == -1:
            place = count
            while place > 0 and start[order[place - 1]] > start[i]:
                order[place] = order[place - 1]
                place -= 1
            order[place] = i
            count += 1
    widest = max(capacity[0], capacity[1])
    options = np.empty((count, widest), np.int64)
    options_count, tried = np.empty(count, np.int64), np.empty(count, np.int64)
    busy_until = np.empty((2, widest), np.int64)
    position, entering, steps = 0, True, 0
    while position < count:
        steps += 1
        op = order[position]
        if steps > step_limit:
            break
        if entering:
            _free_halves(kind, start, finish, core, order[:position], start[op], busy_until)
            options_count[position] = _options(kind[op], start[op], capacity, busy_until, options[position])
            tried[position] = 0
        if tried[position] < options_count[position]:
            core[op] = options[position, tried[position]]
            tried[position] += 1
            position, entering = position + 1, True
        else:
            core[op] = -1
            position, entering = position - 1, False
            if position < 0:
                return False
    if position == count:
        return True
    for place in range(count):
        core[order[place]] = -1
    return False


@kernel
def _free_halves(kind: Codes, start: Ints, finish: Ints, core: Ints, placed: Ints, time: int, busy_until: Ints) -> None:
    """Fills ``busy_until`` [2, cores] with the finish of what runs on each core at ``time`` (0 where it is free)."""
    for k in range(2):
        for x in range(busy_until.shape[1]):
            busy_until[k, x] = 0
    for i in placed:
        if finish[i] > time and start[i] <= time:
            for k in range(2):
                if kind[i] == k or kind[i] == 2:
                    busy_until[k, core[i]] = finish[i]


@kernel
def _options(kind: int, time: int, capacity: Ints, busy_until: Ints, options: Ints) -> int:
    """Writes the distinct free cores for an operator of ``kind`` in order of preference; returns their number."""
    pairs = min(capacity[0], capacity[1])
    count = 0
    if kind == 2:
        for pair in range(pairs):
            if busy_until[0, pair] <= time and busy_until[1, pair] <= time:
                options[0] = pair
                return 1
        return 0
    other = 1 - kind
    for single in range(pairs, capacity[kind]):
        if busy_until[kind, single] <= time:
            options[count] = single
            count += 1
            break
    for half_used in (True, False):
        for pair in range(pairs):
            if busy_until[kind, pair] > time or (busy_until[other, pair] > time) != half_used:
                continue
            repeated = False
            for x in range(count):
                if options[x] < pairs:
                    repeated |= busy_until[other, options[x]] == busy_until[other, pair]
            if not repeated:
                options[count] = pair
                count += 1
    return count
