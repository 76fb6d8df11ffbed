"""A segment of a layer as the search kernels see it, and the bound on what is left of a partial schedule.

Operators are in topological order, times are whole units. Kernels address the two kinds of cores as 0 (tensor) and 1
(vector); a fused operator uses both.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from dse.schedule.dual_bound import (
    ascend,
    chain_shares,
    core_shares,
    core_users,
    cover_by_chains,
    dual_value,
    lines_beside,
)
from dse.schedule.search.reduce import NO_MODE, Bools, Floats, Integer, Ints, start_order
from hardware.compiled import compiled, kernel

Codes = npt.NDArray[np.int8]

UNSTARTED, STARTED, DELAYED, SINGLE_ONLY = 0, 1, 2, 4
"""Status of an operator in a partial schedule, the last two as flags: passed over although a core was free, and no
longer to be run on all cores (see event_search).
"""

POTENTIALS = 2

_FIXING_ROUNDS = 3


class Segment(NamedTuple):
    """Static data of one search. ``quick`` is the shorter latency and ``tail`` the longest path behind an operator.

    ``capacity`` holds the tensor and vector cores and ``uses[k, i]`` whether i needs a core of kind k. ``line[k, i]``
    numbers chains of the graph that cover the operators able to run on a single core of kind k (-1 for the others): of
    each chain at most one runs at a time.
    ``potential`` and ``rate`` are the terms of two dual bounds (:mod:`dse.schedule.dual_bound`): what an operator not
    yet started adds to the makespan, and what a unit of a running one adds. ``by_tail`` sorts by falling tail.
    """

    kind: Codes
    single: Ints
    all_cores: Ints
    quick: Ints
    tail: Ints
    first: Ints
    before: Ints
    covers: Bools
    ancestor: Bools
    twin_first: Ints
    twin_before: Ints
    by_tail: Ints
    capacity: Ints
    uses: Bools
    line: Ints
    potential: Floats
    rate: Floats
    signature: npt.NDArray[np.uint64]
    paired: bool


@compiled(error_model="numpy")
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
    # Loops, not expressions of whole arrays: Numba takes seconds to compile what these need.
    count = len(kind)
    first, before = _as_lists(covers)
    quick, tail = np.empty(count, np.int64), np.zeros(count, np.int64)
    for i in range(count - 1, -1, -1):
        quick[i] = min(single[i], all_cores[i])
        for e in range(first[i], first[i + 1]):
            tail[before[e]] = max(tail[before[e]], tail[i] + quick[i])
    uses, able = np.zeros((2, count), np.bool_), np.zeros(count, np.bool_)
    line, beside, width = np.full((2, count), -1), np.empty((2, count), np.int64), np.empty(2)
    for k in range(2):
        users = core_users(kind, k)
        for i in range(count):
            uses[k, i] = users[i]
            able[i] = users[i] and single[i] < NO_MODE
        lines = cover_by_chains(ancestor, able, line[k])
        width[k] = max(1, min(capacity[k], lines))
        at_once = lines_beside(ancestor, line[k], users)
        for i in range(count):
            beside[k, i] = min(capacity[k], at_once[i])
    potential, rate = best_potentials(single, all_cores, first, before, uses, beside, width, multipliers)
    twin_first, twin_before = _as_lists(start_order(kind, single, all_cores, covers, ancestor))
    by_tail = np.empty(count, np.int64)
    for i in range(count):
        place = i
        while place > 0 and tail[by_tail[place - 1]] < tail[i]:
            by_tail[place] = by_tail[place - 1]
            place -= 1
        by_tail[place] = i
    signature = np.empty(count, np.uint64)
    state = np.uint64(0x9E3779B97F4A7C15)
    for i in range(count):
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        signature[i] = state
    return Segment(
        kind, single, all_cores, quick, tail, first, before, covers, ancestor, twin_first, twin_before, by_tail,
        capacity, uses, line, potential, rate, signature, paired,
    )  # fmt: skip


@njit(cache=False)
def _as_lists(related: Bools) -> tuple[Ints, Ints]:
    """The positions true in each row, one row after the other, and where each row begins."""
    count = len(related)
    first = np.zeros(count + 1, np.int64)
    for i in range(count):
        first[i + 1] = first[i]
        for j in range(count):
            first[i + 1] += related[i, j]
    members, place = np.empty(first[count], np.int64), 0
    for i in range(count):
        for j in range(count):
            if related[i, j]:
                members[place] = j
                place += 1
    return first, members


@njit(cache=False)
def _as_floats(latencies: Ints) -> Floats:
    """Latencies [O], infinite where there is no mode."""
    floats = np.empty(len(latencies))
    for i in range(len(latencies)):
        floats[i] = np.inf if latencies[i] == NO_MODE else latencies[i]
    return floats


@njit(cache=False)
def best_potentials(
    single: Ints,
    all_cores: Ints,
    first: Ints,
    before: Ints,
    uses: Bools,
    beside: Ints,
    cores: Floats,
    multipliers: Floats,
) -> tuple[Floats, Floats]:
    """Terms and shares [POTENTIALS, O] of two dual bounds: the best over the grid of ``multipliers`` [L, 3], and what
    it grows to (:func:`dse.schedule.dual_bound.ascend`).

    ``cores`` [2] is how many operators may at most use the tensor and the vector cores at once, ``beside`` [2, O] how
    many while operator i runs.
    """
    count = len(single)
    on_one, on_all = _as_floats(single), _as_floats(all_cores)
    potential, rate = np.zeros((POTENTIALS, count)), np.zeros((POTENTIALS, count))
    share, longest, best = np.empty((4, count)), np.zeros(count), 0.0
    core_shares(uses, beside, cores, share)
    for m in range(len(multipliers)):
        value = dual_value(0, count, first, before, on_one, on_all, share, multipliers[m], longest)
        if value > best:
            best = value
            chain_shares(first, before, share, multipliers[m], longest, rate[0])
    ascend(on_one, on_all, first, before, share, rate[0], rate[1])
    for g in range(POTENTIALS):
        for i in range(count):
            potential[g, i] = on_all[i] if on_one[i] == np.inf else min(on_all[i], rate[g, i] * on_one[i])
    return potential, rate


@compiled(error_model="numpy")
def fix_modes(seg: Segment, limit: int) -> tuple[Ints, Ints, int]:
    """Modes left to operators in schedules shorter than ``limit``; returns the latencies and the number dropped.

    A mode goes when the path through the operator in that mode, or a dual bound with the operator's term replaced by
    that of the mode (reduced costs), reaches ``limit``.
    """
    count = len(seg.kind)
    single, all_cores = seg.single.copy(), seg.all_cores.copy()
    dropped = 0
    head = np.zeros(count, np.int64)
    totals = np.zeros(POTENTIALS)
    for g in range(POTENTIALS):
        for i in range(count):
            totals[g] += seg.potential[g, i]
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


def with_modes(segment: Segment, single: Ints, all_cores: Ints, multipliers: Floats) -> Segment:
    """``segment`` with other latencies; :data:`NO_MODE` takes a mode away."""
    changed: Segment = build_segment(
        segment.kind,
        single,
        all_cores,
        segment.covers,
        segment.ancestor,
        segment.capacity,
        multipliers,
        segment.paired,
    )
    return changed


def without_useless_modes(segment: Segment, limit: int, multipliers: Floats) -> Segment:
    """``segment`` without modes that no schedule shorter than ``limit`` uses."""
    for _ in range(_FIXING_ROUNDS):
        single, all_cores, dropped = fix_modes(segment, limit)
        if dropped == 0:
            break
        segment = with_modes(segment, single, all_cores, multipliers)
    return segment


@kernel
def remaining_bound(
    seg: Segment, time: Integer, status: Codes, finish: Ints, limit: int, earliest: Ints, end: Ints
) -> tuple[int, int]:
    """A lower bound on the makespan of every completion of a partial schedule, and the sum of its parts as a tie-break.

    ``time`` is when the last operator started; nothing may start earlier. ``finish`` holds the finish of started
    operators (0 once past). ``earliest`` [O] is overwritten with the earliest starts of the others, ``end`` [O] is
    scratch. The bound is the largest of: the critical path; the dual bounds; and for each kind of core and each tail q,
    the work of the operators with tail ≥ q, from ``time`` or from the earliest release among them, plus q. From
    ``limit`` on the rest is not looked at.
    """
    path = path_bound(seg, time, status, finish, earliest, end)
    if path >= limit:
        return path, path
    dual = 0.0
    for g in range(POTENTIALS):
        value = 0.0
        for i in range(len(status)):
            if status[i] == STARTED:
                if finish[i] > time:
                    value += seg.rate[g, i] * (finish[i] - time)
            elif status[i] & SINGLE_ONLY:
                value += seg.rate[g, i] * seg.single[i]
            else:
                value += seg.potential[g, i]
        dual = max(dual, value)
    whole = int(time) + int(np.ceil(dual - 0.25))
    if whole >= limit:
        return whole, whole
    work = int(time)
    for k in range(2):
        if work < limit:
            work = max(work, kind_work(seg, k, time, status, finish, earliest, end))
    return max(path, work, whole), path + work + whole


@kernel
def path_bound(seg: Segment, time: Integer, status: Codes, finish: Ints, earliest: Ints, end: Ints) -> int:
    """The critical-path part of :func:`remaining_bound`; fills ``earliest`` starts and ``end`` [O] with earliest ends.

    A single core is free when one of its kind is, all cores are when everything that runs has finished.
    """
    free_0, free_1 = release_times(seg, time, finish)
    path, idle = int(time), int(time)
    for i in range(len(status)):
        if status[i] == STARTED:
            end[i] = finish[i]
            if finish[i] > time:
                path, idle = max(path, finish[i] + seg.tail[i]), max(idle, finish[i])
    for i in range(len(status)):
        if status[i] == STARTED:
            continue
        ready = int(time)
        for e in range(seg.first[i], seg.first[i + 1]):
            ready = max(ready, end[seg.before[e]])
        on_one, on_all = ready, max(ready, idle)
        if seg.uses[0, i]:
            on_one = max(on_one, free_0)
        if seg.uses[1, i]:
            on_one = max(on_one, free_1)
        if seg.single[i] == NO_MODE:
            on_one = NO_MODE
        if seg.all_cores[i] == NO_MODE or status[i] & SINGLE_ONLY:
            on_all = NO_MODE
        earliest[i] = min(on_one, on_all)
        end[i] = min(on_one + seg.single[i], on_all + seg.all_cores[i])
        path = max(path, end[i] + seg.tail[i])
    return path


@kernel
def release_times(seg: Segment, time: Integer, finish: Ints) -> tuple[int, int]:
    """When a tensor core and a vector core are next free, at ``time`` or later."""
    busy_0, busy_1, soonest_0, soonest_1 = 0, 0, NO_MODE, NO_MODE
    for i in range(len(finish)):
        if finish[i] <= time:
            continue
        if seg.uses[0, i]:
            busy_0 += 1
            soonest_0 = min(soonest_0, finish[i])
        if seg.uses[1, i]:
            busy_1 += 1
            soonest_1 = min(soonest_1, finish[i])
    return (
        int(time) if busy_0 < seg.capacity[0] else soonest_0,
        int(time) if busy_1 < seg.capacity[1] else soonest_1,
    )


@kernel
def kind_work(seg: Segment, k: int, time: Integer, status: Codes, finish: Ints, earliest: Ints, seen: Ints) -> int:
    """The work-and-tail part of :func:`remaining_bound` for cores of kind k.

    No more of them are in use at once than chains are left that cover the operators still to run on single cores.
    """
    lines = 0
    seen[:] = 0
    for i in range(len(status)):
        left = status[i] != STARTED or finish[i] > time
        if left and seg.line[k, i] >= 0 and seen[seg.line[k, i]] == 0:
            seen[seg.line[k, i]] = 1
            lines += 1
    cores = max(min(seg.capacity[k], lines), 1)
    # In core times, so that only the end needs a division.
    best, release, unstarted, running = int(time) * cores, NO_MODE, 0, 0
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
        best = max(best, (time + seg.tail[i]) * cores + unstarted + running)
        if release > time and unstarted > 0:
            best = max(best, (release + seg.tail[i]) * cores + unstarted)
    return int(-(-best // cores))
