"""Exact search over event states: cyclic best-first branch and bound.

A schedule is built by starting operators in the order of their start times, each as early as its predecessors, its
cores and the operator started before it allow: on one core, or on all cores once everything running has finished. A
state is when the last operator started, what has started, and when the running operators finish.

Cut away, without losing every optimal schedule:

* *Delays.* An operator that is passed over although a core is free stays delayed until its kind of cores fills up (or
  an operator on all cores runs): were it started before that, it could have been started when it was passed over.
  Operators that start at the same time are taken in the order of their numbers. Where its cores cannot fill up again,
  no operator is passed over.
* *Gaps.* Nothing starts so late that another operator could be run to its end before.
* *Alone.* An operator with a shorter all-core mode does not run on one core with nothing in parallel; nor do several
  between two uses of all cores where all of them in sequence would take less.
* *All cores early.* The times between two uses of all cores are blocks. An operator that runs on all cores does so
  before the first block that begins after its predecessors have finished: moved there from after a later block it
  shifts what lies between by as much as it vacates. Whoever could and did not runs on a single core.
* *Twins.* Equal chains take their steps in a fixed order (:func:`dse.schedule.search.reduce.interchangeable_chains`).
* *Dominance.* Of two states that started the same operators the one whose cores are free no later remains.
* *Bounds.* :func:`dse.schedule.search.segment.remaining_bound` against the best schedule found.

The search pops the best states of each level (number of started operators) in turn, ``width`` at a time: its first
cycle is a beam search. Between the cycles it pops as many states of the least bound, as A* does, which lifts the proven
bound. When all levels have run dry the incumbent is proven.

Cores are counted here, not assigned: with fused operators that is a relaxation, since a fused one needs both halves of
one pair. A schedule whose cores cannot be assigned is searched again with ``segment.paired``, where a state knows which
core runs what and no operator counts as delayed.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from dse.run.watched import Flag
from dse.schedule.search.reduce import NO_MODE, Integer, Ints
from dse.schedule.search.search_pool import Pool, enter, new_pool, pop
from dse.schedule.search.search_state import (
    Work,
    can_fill,
    candidates,
    core_free_time,
    new_work,
    running_at,
    twin_started,
)
from dse.schedule.search.segment import DELAYED, SINGLE_ONLY, STARTED, UNSTARTED, Segment, remaining_bound
from hardware.compiled import compiled, kernel

ON_ALL_CORES = -2
COUNTED_CORE = -1


class SearchResult(NamedTuple):
    """``makespan`` of the best schedule (the given limit where none is shorter), its ``bound`` and its operators.

    ``start`` and ``core`` [O] describe the schedule if ``has_schedule``; ``core`` is a core or pair, COUNTED_CORE or
    ON_ALL_CORES. ``nodes`` counts the states generated.
    """

    has_schedule: bool
    makespan: int
    bound: int
    start: Ints
    core: Ints
    nodes: int


@compiled(error_model="numpy")
def search(seg: Segment, limit: int, known_bound: int, node_limit: int, width: int, flag: Flag) -> SearchResult:
    """The shortest schedule of ``seg`` below ``limit``, or a bound where ``node_limit`` states do not suffice.

    ``known_bound`` is a lower bound from elsewhere: a schedule of that makespan ends the search. Deterministic: states
    are generated in the same order on every machine. ``flag`` ends it before, with what is known by then
    (:mod:`dse.run.watched`).
    """
    count = len(seg.kind)
    slots = min(count, seg.capacity[0] + seg.capacity[1])
    margin = 2 * count * (1 + slots)
    pool = new_pool(node_limit + margin, count, slots)
    work = new_work(count, limit)
    pool.time[0], pool.depth[0], pool.parent[0], pool.op[0], pool.signature[0] = 0, 0, -1, -1, 0
    pool.status[0], pool.running_count[0], pool.start[0], pool.mode[0] = UNSTARTED, 0, 0, COUNTED_CORE
    bound, spread = remaining_bound(seg, np.int64(0), work.status, work.finish, limit, work.earliest, work.end)
    pool.bound[0], pool.spread[0] = bound, spread
    enter(pool, np.int64(0))
    bound = max(bound, known_bound)
    work.progress[0] = 1
    dry = False
    while not dry and work.progress[0] < node_limit and work.progress[1] > bound:
        dry = True
        for step in range(2 * count):
            for _ in range(width):
                level = step if step < count else lowest_level(pool)
                node = -1 if flag[0] or work.progress[0] >= node_limit else pop(pool, level, work.progress[1])
                if node < 0:
                    break
                dry = False
                expand(seg, pool, work, node)
    return _result(pool, work, count, max(bound, open_bound(pool, work.progress[1])))


@kernel
def lowest_level(pool: Pool) -> int:
    """The level of the open state with the least bound."""
    best, lowest = 0, NO_MODE
    for level in range(len(pool.roots)):
        root = pool.roots[level]
        if root >= 0 and pool.bound[root] < lowest:
            best, lowest = level, pool.bound[root]
    return best


@kernel
def open_bound(pool: Pool, makespan: int) -> int:
    """The least bound of all open states, at most ``makespan``."""
    lowest = makespan
    for root in pool.roots:
        if root >= 0:
            lowest = min(lowest, pool.bound[root])
    return lowest


@njit(cache=False)
def _result(pool: Pool, work: Work, count: int, bound: int) -> SearchResult:
    start, core = np.zeros(count, np.int64), np.full(count, COUNTED_CORE)
    node = work.progress[2]
    while node > 0:
        start[pool.op[node]], core[pool.op[node]] = pool.start[node], pool.mode[node]
        node = pool.parent[node]
    makespan = work.progress[1]
    return SearchResult(work.progress[2] >= 0, makespan, min(bound, makespan), start, core, work.progress[0])


@kernel
def expand(seg: Segment, pool: Pool, work: Work, node: int) -> None:
    """Generates the children of ``node``."""
    count, time = len(seg.kind), pool.time[node]
    for i in range(count):
        work.status[i], work.finish[i], work.core[i] = pool.status[node, i], 0, COUNTED_CORE
    idle = time
    for x in range(pool.running_count[node]):
        i = pool.running[node, x]
        work.finish[i], work.core[i] = pool.finish[node, x], pool.core[node, x]
        idle = max(idle, pool.finish[node, x])
    candidates(seg, work, time)
    first_end, first_op, second_end = NO_MODE, -1, NO_MODE
    for i in range(count):
        if work.single_start[i] >= 0 and not work.status[i] & DELAYED:
            end = work.single_start[i] + seg.single[i]
            if end < first_end:
                first_end, first_op, second_end = end, i, first_end
            else:
                second_end = min(second_end, end)
    alone_until = NO_MODE
    alone = pool.running_count[node] == 1 and pool.running[node, 0] == pool.op[node]
    if alone and seg.all_cores[pool.op[node]] < NO_MODE:
        alone_until = idle
    whole_block = idle < alone_until and block_helps(seg, pool, node, idle)
    for i in range(count):
        if work.ready[i] < 0 or not twin_started(seg, work, i):
            continue
        others_end, start = second_end if i == first_op else first_end, work.single_start[i]
        on_one = start >= 0 and not work.status[i] & DELAYED and start < min(alone_until, others_end)
        on_all = whole_block and idle < others_end and seg.all_cores[i] < NO_MODE and not work.status[i] & SINGLE_ONLY
        singles = single_places(seg, i) if on_one else 0
        # Children of all places are finished in one place, since a kernel is inlined wherever it is called.
        for place in range(singles + on_all):
            core, begin, time, legal = ON_ALL_CORES, idle, idle + seg.all_cores[i], True
            if place == singles:
                put_on_all(work, i)
            else:
                core = place if seg.paired else COUNTED_CORE
                begin = start_on_core(seg, work, i, core, pool.time[node]) if seg.paired else start
                time = begin
                legal = 0 <= begin < alone_until and put_on_one(seg, pool, work, node, i, begin, core)
            if legal:
                finish_child(seg, pool, work, node, i, begin, time, core)


@kernel
def block_helps(seg: Segment, pool: Pool, node: int, end: int) -> bool:
    """Whether the operators on single cores since all cores were last in use gain from that, if they end at ``end``."""
    serial = 0
    while node > 0 and pool.mode[node] != ON_ALL_CORES:
        if seg.all_cores[pool.op[node]] == NO_MODE:
            return True
        serial += seg.all_cores[pool.op[node]]
        node = pool.parent[node]
    return bool(end - pool.time[node] <= serial)


@kernel
def single_places(seg: Segment, op: int) -> int:
    """The cores or pairs that ``op`` may be given where the state knows them, 1 where cores are only counted."""
    if not seg.paired:
        return 1
    kind = seg.kind[op]
    return int(min(seg.capacity[0], seg.capacity[1]) if kind == 2 else seg.capacity[kind])


@kernel
def start_on_core(seg: Segment, work: Work, op: int, core: int, time: int) -> int:
    """When ``op`` can start on ``core`` (or pair) of its kind; -1 if one of a lower number is as busy."""
    pairs = min(seg.capacity[0], seg.capacity[1])
    for other in range(core):
        equal = (other < pairs) == (core < pairs)
        for kind in range(2):
            equal &= core_free_time(seg, work, kind, core, time) == core_free_time(seg, work, kind, other, time)
        if equal:
            return -1
    return int(max(work.ready[op], core_free_time(seg, work, np.int64(seg.kind[op]), core, time)))


@kernel
def put_on_one(seg: Segment, pool: Pool, work: Work, node: int, op: int, start: int, core: int) -> bool:
    """Makes the child of ``node`` in which ``op`` starts on one core (or pair) at ``start``; False if useless."""
    for i in range(len(seg.kind)):
        work.child_status[i], work.child_finish[i], work.child_core[i] = work.status[i], work.finish[i], work.core[i]
    work.child_status[op], work.child_finish[op], work.child_core[op] = STARTED, start + seg.single[op], core
    if (node == 0 or pool.mode[node] == ON_ALL_CORES) and not keep_off_all(seg, work, op):
        return False
    return seg.paired or mark_delays(seg, work, op, start)


@kernel
def keep_off_all(seg: Segment, work: Work, op: int) -> bool:
    """Keeps the operators that could have run on all cores before ``op`` off them; False if one has no other mode."""
    for i in range(len(seg.kind)):
        if i != op and work.child_status[i] != STARTED and work.ready[i] >= 0:
            if seg.single[i] == NO_MODE:
                return False
            work.child_status[i] |= SINGLE_ONLY
    return True


@kernel
def mark_delays(seg: Segment, work: Work, op: int, start: int) -> bool:
    """Marks the operators passed over when ``op`` starts at ``start``; False where one is passed over for nothing."""
    count = len(seg.kind)
    any_all = False
    full_0 = seg.capacity[0] <= running_at(seg, work, np.int64(0), start)
    full_1 = seg.capacity[1] <= running_at(seg, work, np.int64(1), start)
    for i in range(count):
        if work.child_status[i] == STARTED:
            continue
        any_all |= seg.all_cores[i] < NO_MODE and not work.child_status[i] & SINGLE_ONLY
        other = work.single_start[i]
        if other >= 0 and (other < start or (other == start and i < op)):
            work.child_status[i] |= DELAYED
        if (full_0 and seg.uses[0, i]) or (full_1 and seg.uses[1, i]):
            work.child_status[i] &= ~DELAYED
    if any_all:
        return True
    for i in range(count):  # noqa: SIM110 (a generator inside a kernel)
        if work.child_status[i] & DELAYED and not can_fill(seg, work, i, start):
            return False
    return True


@kernel
def put_on_all(work: Work, op: int) -> None:
    """Makes the child in which ``op`` runs on all cores, when everything else has finished."""
    for i in range(len(work.status)):
        work.child_status[i] = work.status[i] & ~DELAYED
        work.child_finish[i] = 0
    work.child_status[op] = STARTED


@kernel
def finish_child(
    seg: Segment, pool: Pool, work: Work, node: int, op: int, start: int, time: int, core: Integer
) -> None:
    """Bounds the child held in the scratch arrays and enters it, or takes it as the best schedule if complete."""
    child, depth = work.progress[0], pool.depth[node] + 1
    bound, spread = remaining_bound(
        seg, time, work.child_status, work.child_finish, work.progress[1], work.earliest, work.end
    )
    bound = max(bound, pool.bound[node])
    if bound >= work.progress[1]:
        return
    pool.time[child], pool.bound[child], pool.spread[child], pool.depth[child] = time, bound, spread, depth
    pool.parent[child], pool.op[child], pool.start[child], pool.mode[child] = node, op, start, core
    pool.signature[child] = pool.signature[node] ^ seg.signature[op]
    running = 0
    for i in range(len(seg.kind)):
        pool.status[child, i] = work.child_status[i]
        if work.child_finish[i] > time:
            pool.running[child, running], pool.finish[child, running] = i, work.child_finish[i]
            pool.core[child, running] = work.child_core[i]
            running += 1
    pool.running_count[child] = running
    if depth == len(seg.kind):
        work.progress[0], work.progress[1], work.progress[2] = child + 1, bound, child
    elif enter(pool, child):
        work.progress[0] = child + 1
