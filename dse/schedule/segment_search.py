"""The exact schedule of one segment: reductions, search, cores, and what to do when cores cannot be assigned."""

from typing import NamedTuple

import numpy as np
from numba import njit

from dse.schedule.core_assignment import assign_cores
from dse.schedule.event_search import ON_ALL_CORES, SearchResult, search
from dse.schedule.reduce import Bools, Floats, Ints, unit_latencies
from dse.schedule.segment import Codes, Segment, build_segment, fix_modes


class SearchLimits(NamedTuple):
    """Deterministic limits of a segment's search, in states (``first_nodes`` for the first incumbent).

    ``width`` states a level are expanded in each cycle; ``assignment_steps`` limits the assignment of cores.
    """

    first_nodes: int = 2_000
    nodes: int = 200_000
    width: int = 8
    assignment_steps: int = 20_000


class SegmentSchedule(NamedTuple):
    """``start`` and ``finish`` [O] in units of ``unit_s``, ``core`` as in :class:`SearchResult`, and a lower ``bound``.

    ``nodes`` counts the states generated.
    """

    start: Ints
    finish: Ints
    core: Ints
    makespan: int
    bound: int
    unit_s: float
    nodes: int


@njit(cache=True)
def solve_segment(
    kind: Codes,
    single_s: Floats,
    all_cores_s: Floats,
    covers: Bools,
    ancestor: Bools,
    tensor_cores: int,
    vector_cores: int,
    multipliers: Floats,
    limits: SearchLimits,
) -> SegmentSchedule:
    """The best schedule of a segment within ``limits``; operators in topological order, latencies in seconds."""
    count = len(kind)
    cores = np.array([tensor_cores, vector_cores, min(tensor_cores, vector_cores)])
    units = unit_latencies(kind, single_s, all_cores_s, cores)
    # More cores of a kind than operators are never needed: with them every operator can have its own core or pair.
    capacity = np.minimum(cores[:2], count)
    both = _search_both_ways(
        kind, units.single, units.all_cores, covers, ancestor, capacity, multipliers, limits, False
    )
    core = both.core.copy()
    finish = _finish_times(both.start, core, units.single, units.all_cores)
    if assign_cores(kind, both.start, finish, core, capacity, limits.assignment_steps):
        return SegmentSchedule(both.start, finish, core, both.makespan, both.bound, units.unit_s, both.nodes)
    paired = _search_both_ways(
        kind, units.single, units.all_cores, covers, ancestor, capacity, multipliers, limits, True
    )
    finish = _finish_times(paired.start, paired.core, units.single, units.all_cores)
    bound = max(paired.bound, both.bound)
    return SegmentSchedule(
        paired.start, finish, paired.core, paired.makespan, bound, units.unit_s, both.nodes + paired.nodes
    )


@njit(cache=True)
def _finish_times(start: Ints, core: Ints, single: Ints, all_cores: Ints) -> Ints:
    finish = start.copy()
    for i in range(len(start)):
        finish[i] += all_cores[i] if core[i] == ON_ALL_CORES else single[i]
    return finish


@njit(cache=True)
def _search_both_ways(
    kind: Codes,
    single: Ints,
    all_cores: Ints,
    covers: Bools,
    ancestor: Bools,
    capacity: Ints,
    multipliers: Floats,
    limits: SearchLimits,
    paired: bool,
) -> SearchResult:
    """Searches the segment; where that stays open, with the edges reversed, which keeps the optimum."""
    best = serial_schedule(single, all_cores)
    forward = build_segment(kind, single, all_cores, covers, ancestor, capacity, multipliers, paired)
    best = _improve(best, search(forward, best.makespan, limits.first_nodes, limits.width), forward, False)
    if best.bound >= best.makespan:
        return best
    backward = build_segment(
        kind[::-1].copy(), single[::-1].copy(), all_cores[::-1].copy(), covers[::-1, ::-1].T.copy(),
        ancestor[::-1, ::-1].T.copy(), capacity, multipliers, paired,
    )  # fmt: skip
    best = _improve(best, search(backward, best.makespan, limits.first_nodes, limits.width), backward, True)
    for reverse in (False, True):
        if best.bound < best.makespan:
            seg = backward if reverse else forward
            covers_now = covers[::-1, ::-1].T.copy() if reverse else covers
            for _ in range(3):
                single_left, all_left, dropped = fix_modes(seg, best.makespan)
                if dropped == 0:
                    break
                seg = build_segment(
                    seg.kind, single_left, all_left, covers_now, seg.ancestor, capacity, multipliers, paired
                )
            best = _improve(best, search(seg, best.makespan, limits.nodes, limits.width), seg, reverse)
    return best


@njit(cache=True)
def serial_schedule(single: Ints, all_cores: Ints) -> SearchResult:
    """One operator after the other, each in its shorter mode (on core 0 where that is a single one)."""
    count = len(single)
    start, core = np.zeros(count, np.int64), np.zeros(count, np.int64)
    makespan = 0
    for i in range(count):
        start[i] = makespan
        core[i] = ON_ALL_CORES if all_cores[i] < single[i] else 0
        makespan += min(single[i], all_cores[i])
    return SearchResult(True, makespan, 0, start, core, 0)


@njit(cache=True)
def _improve(best: SearchResult, found: SearchResult, seg: Segment, reverse: bool) -> SearchResult:
    """The better schedule with the better bound; a schedule of the reversed segment is turned round."""
    bound = max(best.bound, found.bound)
    nodes = best.nodes + found.nodes
    if not found.found or found.makespan >= best.makespan:
        return SearchResult(best.found, best.makespan, min(bound, best.makespan), best.start, best.core, nodes)
    start, core = found.start, found.core
    if reverse:
        finish = _finish_times(start, core, seg.single, seg.all_cores)
        start, core = (found.makespan - finish)[::-1].copy(), core[::-1].copy()
    return SearchResult(True, found.makespan, min(bound, found.makespan), start, core, nodes)
