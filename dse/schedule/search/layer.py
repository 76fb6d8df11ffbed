"""Schedules of whole layers, for one architecture or for columns of them: segments in series, exact where possible.

The order of a layer's operators does not depend on the architecture, so it is worked out once (:class:`Layer`) and the
latencies of each architecture are then solved segment by segment.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from dse.run.progress import StopSignal, never_stop
from dse.schedule.bound import kind_codes
from dse.schedule.dual_bound import MULTIPLIER_GRID
from dse.schedule.precedence import Edges, precedence
from dse.schedule.problem import ALL_CORES, Cores, Schedule
from dse.schedule.search.event_search import ON_ALL_CORES
from dse.schedule.search.reduce import Bools, Floats, Ints
from dse.schedule.search.segment import Codes
from dse.schedule.search.segment_search import SearchLimits, SegmentSchedule, solve_segment
from hardware.compiled import compiled

DEFAULT_LIMITS = SearchLimits()

_MULTIPLIERS = np.array(MULTIPLIER_GRID)
_ROUNDING = 1e-11

_REMEMBERED, _LARGEST_REMEMBERED = 4096, 64
"""Segments whose schedules a process remembers, and operators of the largest: 2 · 64² bytes each, 40 MB in all."""


@dataclass(frozen=True)
class _Segment:
    positions: Ints
    kind: Codes
    covers: Bools
    ancestor: Bools

    @cached_property
    def order(self) -> tuple[bytes, bytes, bytes]:
        """Kinds, covers and ancestors as their bytes."""
        return self.kind.tobytes(), self.covers.tobytes(), self.ancestor.tobytes()


@dataclass(frozen=True)
class LayerSchedule:
    """A schedule of a layer and a lower bound on its makespan; ``nodes`` counts the states that were searched."""

    schedule: Schedule
    bound_s: float
    nodes: int


class Layer:
    """The kinds and the order of a layer's operators, prepared for solving with many latencies."""

    def __init__(self, kinds: Sequence[str], edges: Edges) -> None:
        """Prepares a layer of operators of ``kinds`` ("tensor", "vector", "fused") under ``edges``, by position.

        Raises:
            ValueError: the edges close a cycle.
        """
        structure = precedence(len(kinds), edges)
        codes, covers = kind_codes(kinds), structure.covers
        self.operators = len(kinds)
        self._segments = tuple(
            _Segment(
                positions,
                np.ascontiguousarray(codes[positions]),
                np.ascontiguousarray(covers[np.ix_(positions, positions)]),
                np.ascontiguousarray(structure.ancestor[np.ix_(positions, positions)]),
            )
            for positions in structure.segments
        )

    def makespan(
        self,
        single_s: Floats,
        all_cores_s: Floats,
        tensor_cores: int,
        vector_cores: int,
        limits: SearchLimits = DEFAULT_LIMITS,
    ) -> tuple[float, float]:
        """The makespan of the best schedule found and a lower bound on it; ``single_s``, ``all_cores_s``: [O]."""
        makespan_s, bound_s = 0.0, 0.0
        for segment in self._segments:
            times = self._solve(segment, single_s, all_cores_s, tensor_cores, vector_cores, limits)
            makespan_s += times.makespan_s
            bound_s += times.bound_s
        return makespan_s, bound_s

    def schedule(
        self,
        single_s: Floats,
        all_cores_s: Floats,
        tensor_cores: int,
        vector_cores: int,
        limits: SearchLimits = DEFAULT_LIMITS,
        stop: StopSignal = never_stop,
    ) -> LayerSchedule:
        """The schedule behind :meth:`makespan`; what is left when ``stop`` gives a reason is searched briefly."""
        start_s, finish_s = [0.0] * self.operators, [0.0] * self.operators
        cores: list[Cores] = [ALL_CORES] * self.operators
        begin_s, bound_s, nodes = 0.0, 0.0, 0
        for segment in self._segments:
            times = self._solve(segment, single_s, all_cores_s, tensor_cores, vector_cores, limits, stop)
            end_s = begin_s
            for i, position in enumerate(segment.positions.tolist()):
                on_all = times.core[i] == ON_ALL_CORES
                start_s[position] = begin_s + float(times.start_s[i])
                finish_s[position] = start_s[position] + float((all_cores_s if on_all else single_s)[position])
                cores[position] = ALL_CORES if on_all else (int(times.core[i]),)
                end_s = max(end_s, finish_s[position])
            bound_s += times.bound_s
            nodes += times.nodes
            begin_s = end_s
        return LayerSchedule(Schedule(tuple(start_s), tuple(finish_s), tuple(cores)), bound_s, nodes)

    @staticmethod
    def _solve(
        segment: _Segment,
        single_s: Floats,
        all_cores_s: Floats,
        tensor_cores: int,
        vector_cores: int,
        limits: SearchLimits,
        stop: StopSignal = never_stop,
    ) -> "_SegmentTimes":
        single, all_cores = single_s[segment.positions], all_cores_s[segment.positions]
        if len(segment.kind) == 1:
            available = (tensor_cores, vector_cores, min(tensor_cores, vector_cores))[segment.kind[0]]
            on_one = available > 0 and single[0] <= all_cores[0]
            core = 0 if on_one else ON_ALL_CORES
            shortest_s = float(single[0] if on_one else all_cores[0])
            return _SegmentTimes(np.zeros(1), np.array([core]), shortest_s, shortest_s, 0)
        # The bytes are read back as doubles.
        latencies = (np.asarray(each, dtype=np.float64).tobytes() for each in (single, all_cores))
        # What was stopped is another answer.
        is_remembered = len(segment.kind) <= _LARGEST_REMEMBERED and stop is never_stop
        times = _times if is_remembered else _times.__wrapped__
        return times(segment.order, *latencies, tensor_cores, vector_cores, limits, stop)


@dataclass(frozen=True)
class _SegmentTimes:
    """A segment's schedule from its own beginning, in seconds."""

    start_s: Floats
    core: Ints
    makespan_s: float
    bound_s: float
    nodes: int


@lru_cache(maxsize=_REMEMBERED)
def _times(
    order: tuple[bytes, bytes, bytes],
    single_s: bytes,
    all_cores_s: bytes,
    tensor_cores: int,
    vector_cores: int,
    limits: SearchLimits,
    stop: StopSignal,
) -> _SegmentTimes:
    """The schedule of a segment whose ``order`` are its kinds, covers and ancestors; arrays as their bytes.

    The layers of a network, the microbatches of a plan and the architectures of a sweep have many segments in common.
    """
    # Numba compiles arrays that cannot be written apart from others: each is copied.
    kind = np.frombuffer(order[0], dtype=np.int8).copy()
    covers, ancestor = (np.frombuffer(each, dtype=np.bool_).reshape(len(kind), -1).copy() for each in order[1:])
    single, all_cores = (np.frombuffer(each, dtype=np.float64).copy() for each in (single_s, all_cores_s))
    result = solve_segment(
        kind, single, all_cores, covers, ancestor, tensor_cores, vector_cores, _MULTIPLIERS, limits, stop
    )
    return _in_seconds(kind, covers, result, single, all_cores)


def _in_seconds(
    kind: Codes, covers: Bools, result: SegmentSchedule, single_s: Floats, all_cores_s: Floats
) -> _SegmentTimes:
    """The schedule with the latencies as given, not rounded to units; the bound gives up what rounding could add."""
    start_s, makespan_s = start_times(kind, covers, result.start, result.core, single_s, all_cores_s)
    if result.bound >= result.makespan:
        bound_s = makespan_s
    else:
        bound_s = min(makespan_s, (result.bound - result.rounding) * result.unit_s * (1 - _ROUNDING))
    for array in (start_s, result.core):
        array.flags.writeable = False  # Others are given it, too.
    return _SegmentTimes(start_s, result.core, makespan_s, bound_s, result.nodes)


@compiled
def start_times(
    kind: Codes, covers: Bools, start: Ints, core: Ints, single_s: Floats, all_cores_s: Floats
) -> tuple[Floats, float]:
    """Starts every operator as early as its predecessors and the earlier users of its cores allow."""
    count = len(kind)
    start_s, finish_s = np.zeros(count), np.zeros(count)
    free_s = np.zeros((2, max(count, core.max() + 1)))
    barrier_s, makespan_s = 0.0, 0.0
    for i in np.argsort(start, kind="mergesort"):
        begin_s = barrier_s
        for j in range(count):
            if covers[i, j]:
                begin_s = max(begin_s, finish_s[j])
        if core[i] == -2:
            start_s[i] = makespan_s
            finish_s[i] = start_s[i] + all_cores_s[i]
            barrier_s = finish_s[i]
        else:
            for k in range(2):
                if kind[i] == k or kind[i] == 2:
                    begin_s = max(begin_s, free_s[k, core[i]])
            start_s[i] = begin_s
            finish_s[i] = begin_s + single_s[i]
            for k in range(2):
                if kind[i] == k or kind[i] == 2:
                    free_s[k, core[i]] = finish_s[i]
        makespan_s = max(makespan_s, finish_s[i])
    return start_s, makespan_s


def solve_many(
    kinds: Sequence[str],
    edges: Edges,
    single_s: Floats,
    all_cores_s: Floats,
    tensor_cores: npt.NDArray[np.int64],
    vector_cores: npt.NDArray[np.int64],
    limits: SearchLimits = DEFAULT_LIMITS,
) -> tuple[Floats, Floats]:
    """The makespans of one layer on A architectures, and lower bounds on them, equal where the makespan is proven.

    Shapes: ``single_s`` and ``all_cores_s`` [O, A]; ``tensor_cores``, ``vector_cores`` and both results [A].

    Raises:
        ValueError: the edges close a cycle.
    """
    layer = Layer(kinds, edges)
    columns = len(tensor_cores)
    single = np.ascontiguousarray(np.asarray(single_s, dtype=np.float64).T)
    all_cores = np.ascontiguousarray(np.asarray(all_cores_s, dtype=np.float64).T)
    makespan_s, bound_s = np.empty(columns), np.empty(columns)
    for column, (tensor, vector) in enumerate(zip(tensor_cores.tolist(), vector_cores.tolist(), strict=True)):
        makespan_s[column], bound_s[column] = layer.makespan(single[column], all_cores[column], tensor, vector, limits)
    return makespan_s, bound_s
