"""A segment of a layer as the search kernels see it, and the bound on what is left of a partial schedule.

Operators are in topological order, times are whole units. Kernels address the two kinds of cores as 0 (tensor) and 1
(vector); a fused operator uses both.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dse.schedule.reduce import NO_MODE, Bools, Floats, Ints, interchangeable_chains

Codes = npt.NDArray[np.int8]

UNSTARTED, STARTED, DELAYED, SINGLE_ONLY = 0, 1, 2, 4
"""Status of an operator in a partial schedule, the last two as flags: passed over although a core was free, and no
longer to be run on all cores (see event_search).
"""

POTENTIALS = 2


class Segment(NamedTuple):
    """Static data of one search. ``quick`` is the shorter latency and ``tail`` the longest path behind an operator.

    ``capacity`` holds the tensor and vector cores and ``uses[k, i]`` whether i needs a core of kind k. ``line[k, i]``
    numbers chains of the graph that cover the operators able to run on a single core of kind k (-1 for the others): of
    each chain at most one runs at a time.
    ``potential`` and ``rate`` are the terms of the best dual bounds (:mod:`dse.schedule.bound`): what an operator not
    yet started adds to the makespan, and what a unit of a running one adds. ``by_tail`` sorts by falling tail.
    """

    kind: Codes
    single: Ints
    all_cores: Ints
    quick: Ints
    tail: Ints
    first: Ints
    before: Ints
    ancestor: Bools
    twin_before: Ints
    by_tail: Ints
    capacity: Ints
    uses: Bools
    line: Ints
    potential: Floats
    rate: Floats
    signature: npt.NDArray[np.uint64]
    paired: bool


@njit(cache=True)
def build_segment(
    kind: Codes,
    single: Ints,
    all_cores: Ints,
    covers: Bools,
    ancestor: Bools,
    capacity: Ints,
    multipliers: Floats,
    paired: bool,
) -> Segment:
    """The :class:`Segment` of operators in topological order; ``paired`` keeps track of the pairs of cores."""
    count = len(kind)
    first = np.zeros(count + 1, np.int64)
    before = np.empty(covers.sum(), np.int64)
    for i in range(count):
        first[i + 1] = first[i]
        for j in range(i):
            if covers[i, j]:
                before[first[i + 1]] = j
                first[i + 1] += 1
    quick = np.minimum(single, all_cores)
    tail = np.zeros(count, np.int64)
    for i in range(count - 1, -1, -1):
        for e in range(first[i], first[i + 1]):
            tail[before[e]] = max(tail[before[e]], tail[i] + quick[i])
    uses = np.zeros((2, count), np.bool_)
    line = np.full((2, count), -1)
    width = np.empty(2, np.int64)
    for k in range(2):
        for i in range(count):
            uses[k, i] = kind[i] == k or kind[i] == 2
        width[k] = min(capacity[k], cover_by_chains(ancestor, uses[k] & (single < NO_MODE), line[k]))
    potential, rate = best_potentials(kind, single, all_cores, first, before, width, multipliers)
    twin_before = interchangeable_chains(kind, single, all_cores, covers)
    by_tail = np.argsort(-tail, kind="mergesort")
    signature = np.empty(count, np.uint64)
    state = np.uint64(0x9E3779B97F4A7C15)
    for i in range(count):
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        signature[i] = state
    return Segment(
        kind, single, all_cores, quick, tail, first, before, ancestor, twin_before, by_tail, capacity, uses, line,
        potential, rate, signature, paired,
    )  # fmt: skip


@njit(cache=True)
def best_potentials(
    kind: Codes, single: Ints, all_cores: Ints, first: Ints, before: Ints, width: Ints, multipliers: Floats
) -> tuple[Floats, Floats]:
    """Terms [POTENTIALS, O] of the best dual bounds over the grid of ``multipliers``.

    ``width`` [2] is how many operators may at most use the tensor and the vector cores at once.
    """
    count = len(kind)
    potential, rate = np.zeros((POTENTIALS, count)), np.zeros((POTENTIALS, count))
    values = np.zeros(POTENTIALS)
    share, longest, gain = np.zeros(count), np.zeros(count), np.zeros(count)
    for m in range(len(multipliers)):
        for i in range(count):
            share[i] = 0.0 if kind[i] == 1 else multipliers[m, 0] / max(width[0], 1)
            share[i] += 0.0 if kind[i] == 0 else multipliers[m, 1] / max(width[1], 1)
            base = dual_term(single[i], all_cores[i], share[i])
            gain[i] = dual_term(single[i], all_cores[i], share[i] + multipliers[m, 2]) - base
            reach = 0.0
            for e in range(first[i], first[i + 1]):
                reach = max(reach, longest[before[e]])
            longest[i] = reach + gain[i]
        add_chain(share, longest, first, before, multipliers[m, 2])
        value = 0.0
        for i in range(count):
            value += dual_term(single[i], all_cores[i], share[i])
        worst = np.argmin(values)
        if value > values[worst]:
            values[worst] = value
            for i in range(count):
                potential[worst, i] = dual_term(single[i], all_cores[i], share[i])
                rate[worst, i] = share[i]
    return potential, rate


@njit(cache=True)
def dual_term(single: int, all_cores: int, share: float) -> float:
    """What an operator adds to a dual bound when a unit of its single-core run costs ``share``."""
    on_one = np.inf if single == NO_MODE else share * single
    on_all = np.inf if all_cores == NO_MODE else float(all_cores)
    return min(on_one, on_all)


@njit(cache=True)
def add_chain(share: Floats, longest: Floats, first: Ints, before: Ints, weight: float) -> None:
    """Adds ``weight`` to the share of the operators on the longest path, whose lengths are in ``longest``."""
    if len(longest) == 0:
        return
    i = int(np.argmax(longest))
    while True:
        share[i] += weight
        nearest, reach = -1, -1.0
        for e in range(first[i], first[i + 1]):
            if longest[before[e]] > reach:
                nearest, reach = int(before[e]), float(longest[before[e]])
        if nearest < 0:
            return
        i = nearest


@njit(cache=True)
def fix_modes(seg: Segment, limit: int) -> tuple[Ints, Ints, int]:
    """Modes left to operators in schedules shorter than ``limit``; returns the latencies and the number dropped.

    A mode goes when the path through the operator in that mode, or a dual bound with the operator's term replaced by
    that of the mode (reduced costs), reaches ``limit``.
    """
    count = len(seg.kind)
    single, all_cores = seg.single.copy(), seg.all_cores.copy()
    dropped = 0
    head = np.zeros(count, np.int64)
    totals = seg.potential.sum(axis=1)
    for i in range(count):
        for e in range(seg.first[i], seg.first[i + 1]):
            head[i] = max(head[i], head[seg.before[e]] + seg.quick[seg.before[e]])
        if single[i] == NO_MODE or all_cores[i] == NO_MODE:
            continue
        one_fails = head[i] + single[i] + seg.tail[i] >= limit
        all_fails = head[i] + all_cores[i] + seg.tail[i] >= limit
        for g in range(POTENTIALS):
            rest = totals[g] - seg.potential[g, i] - 0.25
            one_fails |= rest + seg.rate[g, i] * single[i] > limit - 1
            all_fails |= rest + all_cores[i] > limit - 1
        if one_fails:
            single[i] = NO_MODE
        elif all_fails:
            all_cores[i] = NO_MODE
        dropped += one_fails or all_fails
    return single, all_cores, dropped


@njit(cache=True)
def remaining_bound(seg: Segment, time: int, status: Codes, finish: Ints, earliest: Ints) -> tuple[int, int]:
    """A lower bound on the makespan of every completion of a partial schedule, and the sum of its parts as a tie-break.

    ``time`` is when the last operator started; nothing may start earlier. ``finish`` holds the finish of started
    operators (0 once past) and ``earliest`` [O] is overwritten with the earliest starts of the others. The bound is
    the largest of: the critical path; the dual bounds; and for each kind of core and each tail q, the work of the
    operators with tail ≥ q, from ``time`` or from the earliest release among them, plus q.
    """
    count = len(status)
    free_0, free_1 = core_release(seg, 0, time, status, finish), core_release(seg, 1, time, status, finish)
    path, idle = time, time
    for i in range(count):
        if status[i] == STARTED and finish[i] > time:
            path, idle = max(path, finish[i] + seg.tail[i]), max(idle, finish[i])
    for i in range(count):
        if status[i] == STARTED:
            continue
        start = time
        if seg.single[i] == NO_MODE:
            start = idle
        elif seg.all_cores[i] == NO_MODE or status[i] & SINGLE_ONLY:
            if seg.uses[0, i]:
                start = max(start, free_0)
            if seg.uses[1, i]:
                start = max(start, free_1)
        for e in range(seg.first[i], seg.first[i + 1]):
            j = seg.before[e]
            start = max(start, finish[j] if status[j] == STARTED else earliest[j] + shortest(seg, status, j))
        earliest[i] = start
        path = max(path, start + shortest(seg, status, i) + seg.tail[i])
    work = max(kind_work(seg, 0, time, status, finish, earliest), kind_work(seg, 1, time, status, finish, earliest))
    dual = 0.0
    for g in range(POTENTIALS):
        value = 0.0
        for i in range(count):
            if status[i] != STARTED:
                if status[i] & SINGLE_ONLY:
                    value += seg.rate[g, i] * seg.single[i]
                else:
                    value += seg.potential[g, i]
            elif finish[i] > time:
                value += seg.rate[g, i] * (finish[i] - time)
        dual = max(dual, value)
    whole = time + int(np.ceil(dual - 0.25))
    return max(path, work, whole), path + work + whole


@njit(cache=True)
def shortest(seg: Segment, status: Codes, i: int) -> int:
    """The shortest latency that operator i may still take."""
    return int(seg.single[i] if status[i] & SINGLE_ONLY else seg.quick[i])


@njit(cache=True)
def core_release(seg: Segment, k: int, time: int, status: Codes, finish: Ints) -> int:
    """When a core of kind k is next free, at ``time`` or later."""
    busy, soonest = 0, NO_MODE
    for i in range(len(status)):
        if status[i] == STARTED and finish[i] > time and seg.uses[k, i]:
            busy += 1
            soonest = min(soonest, finish[i])
    return time if busy < seg.capacity[k] else soonest


@njit(cache=True)
def kind_work(seg: Segment, k: int, time: int, status: Codes, finish: Ints, earliest: Ints) -> int:
    """The work-and-tail part of :func:`remaining_bound` for cores of kind k.

    No more of them are in use at once than chains are left that cover the operators still to run on single cores.
    """
    lines = 0
    seen = np.zeros(len(status), np.bool_)
    for i in range(len(status)):
        left = status[i] != STARTED or finish[i] > time
        if left and seg.line[k, i] >= 0 and not seen[seg.line[k, i]]:
            seen[seg.line[k, i]] = True
            lines += 1
    cores = max(min(seg.capacity[k], lines), 1)
    best, release, unstarted, running = time, NO_MODE, 0, 0
    for i in seg.by_tail:
        if status[i] == STARTED:
            if finish[i] <= time or not seg.uses[k, i]:
                continue
            running += finish[i] - time
        else:
            no_all = seg.all_cores[i] == NO_MODE or status[i] & SINGLE_ONLY
            work = NO_MODE if no_all else cores * seg.all_cores[i]
            if seg.single[i] < NO_MODE:
                work = min(work, seg.single[i] if seg.uses[k, i] else 0)
            if work == 0:
                continue
            release = min(release, earliest[i])
            unstarted += work
        best = max(best, time - (-(unstarted + running) // cores) + seg.tail[i])
        if release > time and unstarted > 0:
            best = max(best, release - (-unstarted // cores) + seg.tail[i])
    return best


@njit(cache=True)
def cover_by_chains(ancestor: Bools, member: Bools, line: Ints) -> int:
    """Covers the operators of ``member`` by the fewest chains, numbered in ``line``; returns how many.

    By Dilworth's theorem that is the most members that could ever run at once. A chain cover is a matching of
    operators with later ones, grown here by augmenting paths.
    """
    count = len(member)
    follower, leader = np.full(count, -1), np.full(count, -1)
    for i in range(count):
        if member[i]:
            _augment(ancestor, member, i, follower, leader)
    chains = 0
    for i in range(count):
        if member[i] and leader[i] < 0:
            j = i
            while j >= 0:
                line[j] = chains
                j = follower[j]
            chains += 1
    return chains


@njit(cache=True)
def _augment(ancestor: Bools, member: Bools, root: int, follower: Ints, leader: Ints) -> None:
    """Gives ``root`` a follower if an augmenting path exists (breadth first)."""
    count = len(member)
    reached_from = np.full(count, -1)
    queue = np.empty(count, np.int64)
    queue[0] = root
    head, tail = 0, 1
    while head < tail:
        i = queue[head]
        head += 1
        for j in range(count):
            if not member[j] or not ancestor[j, i] or reached_from[j] >= 0:
                continue
            reached_from[j] = i
            if leader[j] >= 0:
                queue[tail] = leader[j]
                tail += 1
                continue
            while True:
                i = reached_from[j]
                follower[i], leader[j], j = j, i, follower[i]
                if i == root:
                    return
