"""What a partial schedule allows next: the state being expanded, and when each operator could start in it."""

from typing import NamedTuple

import numpy as np

from dse.schedule.search.reduce import NO_MODE, Integer, Ints
from dse.schedule.search.segment import STARTED, Codes, Segment, release_times
from hardware.compiled import compiled, kernel


class Work(NamedTuple):
    """Scratch arrays of one expansion: the parent's state, the child's, and when each operator could start."""

    status: Codes
    finish: Ints
    core: Ints
    child_status: Codes
    child_finish: Ints
    child_core: Ints
    ready: Ints
    single_start: Ints
    earliest: Ints
    end: Ints
    progress: Ints


@compiled
def new_work(count: int, limit: int) -> Work:
    """Scratch arrays for ``count`` operators; ``progress`` holds the nodes used, the best makespan and its node."""
    return Work(
        np.zeros(count, np.int8),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        np.zeros(count, np.int8),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
        np.array([0, limit, -1]),
    )


@kernel
def twin_started(seg: Segment, work: Work, op: int) -> bool:
    """Whether ``op`` may start as far as the order of equal operators says."""
    for e in range(seg.twin_first[op], seg.twin_first[op + 1]):  # noqa: SIM110 (a generator inside a kernel)
        if work.status[seg.twin_before[e]] != STARTED:
            return False
    return True


@kernel
def candidates(seg: Segment, work: Work, time: int) -> None:
    """Fills ``ready`` (-1 until all predecessors started) and ``single_start`` (-1: one core is not an option)."""
    free_0, free_1 = release_times(seg, time, work.finish)
    free_pair = free_pair_time(seg, work, time) if seg.paired else time
    for i in range(len(seg.kind)):
        work.ready[i], work.single_start[i] = -1, -1
        if work.status[i] == STARTED:
            continue
        ready, possible = time, True
        for e in range(seg.first[i], seg.first[i + 1]):
            possible &= work.status[seg.before[e]] == STARTED
            ready = max(ready, work.finish[seg.before[e]])
        if not possible:
            continue
        work.ready[i] = ready
        if seg.single[i] < NO_MODE and twin_started(seg, work, i):
            if seg.uses[0, i]:
                ready = max(ready, free_0)
            if seg.uses[1, i]:
                ready = max(ready, free_1)
            if seg.kind[i] == 2:
                ready = max(ready, free_pair)
            work.single_start[i] = ready


@kernel
def free_pair_time(seg: Segment, work: Work, time: int) -> int:
    """When both halves of some pair are free, at ``time`` or later."""
    soonest = NO_MODE
    for pair in range(min(seg.capacity[0], seg.capacity[1])):
        soonest = min(soonest, core_free_time(seg, work, np.int64(2), pair, time))
    return soonest


@kernel
def core_free_time(seg: Segment, work: Work, kind: Integer, core: int, time: int) -> int:
    """When ``core`` of a kind (a pair where ``kind`` is 2) is free, at ``time`` or later."""
    free = time
    for i in range(len(seg.kind)):
        if work.finish[i] > time and work.core[i] == core and (kind == 2 or seg.uses[kind, i]):
            free = max(free, work.finish[i])
    return free


@kernel
def running_at(seg: Segment, work: Work, k: Integer, time: int) -> int:
    """Cores of kind k in use just after ``time`` in the child."""
    busy = 0
    for i in range(len(seg.kind)):
        busy += work.child_finish[i] > time and seg.uses[k, i]
    return busy


@kernel
def can_fill(seg: Segment, work: Work, op: int, time: int) -> bool:
    """Whether operators that need not wait for ``op`` could fill up one of its kinds of cores."""
    for k in range(2):
        if not seg.uses[k, op]:
            continue
        users = running_at(seg, work, k, time)
        for i in range(len(seg.kind)):
            if i != op and work.child_status[i] != STARTED and seg.uses[k, i] and not seg.ancestor[i, op]:
                users += 1
        if users >= seg.capacity[k]:
            return True
    return False
