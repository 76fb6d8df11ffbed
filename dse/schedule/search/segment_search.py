"""The exact schedule of one segment: reductions, search in both directions, cores, and what to do when none fit."""

from functools import partial
from typing import NamedTuple

import numpy as np

from dse.run.progress import StopSignal, never_stop
from dse.run.watched import watched
from dse.schedule.search.core_assignment import assign_cores
from dse.schedule.search.event_search import ON_ALL_CORES, SearchResult, search
from dse.schedule.search.mode_branching import ModeBranching
from dse.schedule.search.reduce import Bools, Floats, Ints, unit_latencies
from dse.schedule.search.segment import Codes, Segment, build_segment, without_useless_modes

_FUSED = 2

_FULL_OPERATORS = 128
"""Segments of up to so many operators are searched to the full limit."""


class SearchLimits(NamedTuple):
    """Deterministic limits on the search of a segment, in states generated.

    Searches of ``first_nodes``, ``nodes`` / 8 and ``nodes`` states are made forwards and backwards until one proves
    the best schedule found, after the first with as much branching on modes; ``width`` states a level are expanded in
    each cycle. ``assignment_steps`` limits the assignment of cores.

    A state costs in proportion to the operators of its segment, so segments of more than 128 operators get
    proportionally fewer of them (:meth:`scaled`): the limits bound the work, not only the count.
    """

    first_nodes: int = 1_000
    nodes: int = 100_000
    width: int = 8
    assignment_steps: int = 20_000

    def scaled(self, operators: int) -> "SearchLimits":
        """The limits for a segment of so many operators."""
        if operators <= _FULL_OPERATORS:
            return self
        nodes = max(self.first_nodes, self.nodes * _FULL_OPERATORS // operators)
        return self._replace(nodes=nodes)


class SegmentSchedule(NamedTuple):
    """``start`` and ``finish`` [O] in units of ``unit_s``, ``core`` as in :class:`SearchResult`, and a lower ``bound``.

    The bound may be too high by ``rounding`` units. ``nodes`` counts the states generated.
    """

    start: Ints
    finish: Ints
    core: Ints
    makespan: int
    bound: int
    unit_s: float
    rounding: int
    nodes: int


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
    stop: StopSignal = never_stop,
) -> SegmentSchedule:
    """The best schedule of a segment within ``limits``, or by the time of a ``stop``; operators in topological order,
    latencies in seconds.

    Cores are counted first. Where the schedule found has no assignment of cores, which fused operators can bring about,
    the search is repeated with the cores of each operator in its states. It begins with the operators in the order of
    the first result, which stays a lower bound.
    """
    limits = limits.scaled(len(kind))
    cores = np.array([tensor_cores, vector_cores, min(tensor_cores, vector_cores)])
    units = unit_latencies(kind, single_s, all_cores_s, cores)
    # More cores of a kind than operators are never needed: with them every operator can have its own core or pair.
    capacity = np.minimum(cores[:2], len(kind))

    def directions(paired: bool) -> tuple[Segment, Segment]:
        return (
            build_segment(kind, units.single, units.all_cores, covers, ancestor, capacity, multipliers, paired),
            build_segment(
                kind[::-1].copy(),
                units.single[::-1].copy(),
                units.all_cores[::-1].copy(),
                np.ascontiguousarray(covers[::-1, ::-1].T),
                np.ascontiguousarray(ancestor[::-1, ::-1].T),
                capacity,
                multipliers,
                paired,
            ),
        )

    serial = serial_schedule(units.single, units.all_cores)
    best = _search_both_ways(serial, directions(paired=False), multipliers, limits, units.rounding, stop)
    core = best.core.copy()
    finish = finish_times(best.start, core, units.single, units.all_cores)
    if not assign_cores(kind, best.start, finish, core, capacity, limits.assignment_steps):
        in_order = list_schedule(kind, units.single, units.all_cores, covers, capacity, best)
        known = min(serial, in_order, key=lambda each: each.makespan)
        counted = known._replace(bound=best.bound, nodes=best.nodes)
        best = _search_both_ways(counted, directions(paired=True), multipliers, limits, units.rounding, stop)
        core = best.core
        finish = finish_times(best.start, core, units.single, units.all_cores)
    return SegmentSchedule(
        best.start, finish, core, best.makespan, best.bound, units.unit_s, units.rounding, best.nodes
    )


def finish_times(start: Ints, core: Ints, single: Ints, all_cores: Ints) -> Ints:
    """When operators finish that start at ``start`` and run where ``core`` says."""
    return np.asarray(start + np.where(core == ON_ALL_CORES, all_cores, single))


def serial_schedule(single: Ints, all_cores: Ints) -> SearchResult:
    """One operator after the other, each in its shorter mode (on core 0 where that is a single one)."""
    duration = np.minimum(single, all_cores)
    start = np.cumsum(duration) - duration
    core = np.where(all_cores < single, ON_ALL_CORES, 0)
    return SearchResult(True, int(duration.sum()), 0, start, core, 0)


def list_schedule(
    kind: Codes, single: Ints, all_cores: Ints, covers: Bools, capacity: Ints, counted: SearchResult
) -> SearchResult:
    """A schedule with the order and the modes of ``counted``, each operator on the core or pair that is free first."""
    count, pairs = len(kind), int(capacity.min())
    free = [np.zeros(max(int(cores), 1), np.int64) for cores in capacity]
    start, finish, core = np.zeros(count, np.int64), np.zeros(count, np.int64), counted.core.copy()
    barrier = latest = 0
    for i in np.argsort(counted.start, kind="stable").tolist():
        if core[i] == ON_ALL_CORES:
            start[i] = latest
            barrier = finish[i] = latest + all_cores[i]
        else:
            halves = [0, 1] if kind[i] == _FUSED else [int(kind[i])]
            cores = pairs if kind[i] == _FUSED else int(capacity[kind[i]])
            times = np.maximum.reduce([free[k][:cores] for k in halves])
            core[i] = times.argmin()
            start[i] = max(barrier, times[core[i]], finish[covers[i]].max(initial=0))
            finish[i] = start[i] + single[i]
            for k in halves:
                free[k][core[i]] = finish[i]
        latest = max(latest, int(finish[i]))
    return SearchResult(True, latest, 0, start, core, 0)


def _search_both_ways(
    known: SearchResult,
    directions: tuple[Segment, Segment],
    multipliers: Floats,
    limits: SearchLimits,
    rounding: int,
    stop: StopSignal,
) -> SearchResult:
    """Improves ``known`` by searching the segment and, as that keeps the optimum, the segment with reversed edges.

    Units closer than their ``rounding`` say nothing of seconds, so no search follows to close such a gap.
    """
    best = known
    branching = ModeBranching(directions[0], multipliers, rounding, limits.width)
    for node_limit in (limits.first_nodes, limits.nodes // 8, limits.nodes):
        first = node_limit == limits.first_nodes
        if not first and stop() is None:
            best = branching.improve(best, node_limit, stop)
        for backwards, segment in enumerate(directions):
            if best.bound >= best.makespan - rounding or (not first and stop() is not None):
                return best
            reduced = segment if first else without_useless_modes(segment, best.makespan, multipliers)
            work = partial(search, reduced, best.makespan, best.bound, node_limit, limits.width)
            result = watched(never_stop if first else stop, work)
            best = _improved(best, result, segment, bool(backwards))
    return best


def _improved(best: SearchResult, candidate: SearchResult, segment: Segment, backwards: bool) -> SearchResult:
    """The better schedule with the better bound; a schedule of the reversed segment is turned round."""
    bound, nodes = max(best.bound, candidate.bound), best.nodes + candidate.nodes
    if not candidate.has_schedule or candidate.makespan >= best.makespan:
        return best._replace(bound=min(bound, best.makespan), nodes=nodes)
    start, core = candidate.start, candidate.core
    if backwards:
        finish = finish_times(start, core, segment.single, segment.all_cores)
        start, core = (candidate.makespan - finish)[::-1].copy(), core[::-1].copy()
    return SearchResult(True, candidate.makespan, min(bound, candidate.makespan), start, core, nodes)
