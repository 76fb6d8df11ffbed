"""The shortest pipeline, proven: best-first branch and bound over device cuts and the slowest stage's time.

A node is one way to cut the devices, with an interval of the *slowest* time (the largest of F_s + B_s and 2 X_s). With
that capped from above, all cuts of the points lie in windows, and :mod:`dse.parallel.pipeline.weighed_kernels` bounds
the first microbatch together with exposed all-reduces; with M - 1 times the slowest from below, this is a lower bound
on the node. Plans met on the way are candidates. A node is halved until its interval is narrow, and then searched by
labels (:func:`dse.parallel.pipeline.label_kernels.shortest`). Best first: when the least bound is no shorter than the
shortest plan, that is optimal.

A bound costs O(K (N + G²)), N points in G <= 256 cells. Nearly every way to cut the devices is settled by one to three
bounds, so that the search grows with the ways: binomial(D - 1, K - 1) for D devices that are cut freely, 4,495 for 32
devices in four stages. Before any, device cuts have a bound of their own, by which they are ordered: in m stages with
the most devices together, D_m of them, a batch that only computes needs (m + M - 1) / (M · D_m) of its time on one
device, for the best m; and every cut sends at least the fewest bytes of all.
"""

import heapq
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from dse.parallel.pipeline.cut_kernels import (
    Case,
    last_fitting,
    slowest_ring_s,
    windows,
)
from dse.parallel.pipeline.label_kernels import shortest
from dse.parallel.pipeline.length import faults, length
from dse.parallel.pipeline.problem import Floats, Integers, PipelinePlan, PipelineProblem, Profile
from dse.parallel.pipeline.weighed_kernels import together
from dse.run.progress import StoppedError, StopSignal, ask, never_stop
from dse.run.watched import watched
from hardware.network import Ring

DeviceCuts = tuple[int, ...]
Interval = tuple[float, float]

NARROW = 0.02
"""Share of the bound that the interval of a node may add to it when it is searched by labels."""

MAX_CELLS = 256
"""Of all cuts; all-reduces are priced for every two."""

MAX_STEPS = 8
"""Of the subgradient, for a bound."""

_GAIN = 0.9
"""Share of an upper end below which it is worth bounding again."""

_ASKED_EVERY = 1024
"""Device cuts, whose first bounds take a hundredth of a second or more together."""

TOLERANCE = 1e-9
"""Relative: a node whose bound is within it of the shortest plan is settled."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the search knows when it ends.

    Attributes:
        plan: the shortest, or None where there is none.
        length_s: its length, infinite without a plan.
        bound_s: no plan is shorter; infinite where it is proven that there is none.
        nodes: device cuts with an interval that were bounded or searched.
    """

    plan: PipelinePlan | None
    length_s: float
    bound_s: float
    nodes: int


class _Node(NamedTuple):
    bound_s: float
    number: int
    device_cuts: DeviceCuts
    slowest_s: Interval
    weights: Floats


def server_cuts(problem: PipelineProblem) -> DeviceCuts:
    """The devices in equal parts, as servers are where there is one for each stage.

    Raises:
        ValueError: stages that do not divide the devices.
    """
    if problem.devices % problem.stages:
        raise ValueError(f"`devices % stages == 0` must hold, but got {problem.devices} and {problem.stages}")
    width = problem.devices // problem.stages
    return tuple(range(width, problem.devices, width))


def near(center: DeviceCuts, radius: int, devices: int) -> Iterator[DeviceCuts]:
    """All device cuts in which each is at most ``radius`` from that of ``center`` (paper, 5.2.3: radius 3)."""
    options = [range(max(1, cut - radius), min(devices - 1, cut + radius) + 1) for cut in center]
    for cuts in itertools.product(*options):
        if all(one < other for one, other in itertools.pairwise(cuts)):
            yield cuts


def every(devices: int, stages: int) -> Iterator[DeviceCuts]:
    """All device cuts."""
    yield from itertools.combinations(range(1, devices), stages - 1)


def solve(
    problem: PipelineProblem,
    device_cuts: Iterable[DeviceCuts],
    stop: StopSignal = never_stop,
    start: PipelinePlan | None = None,
    places: Sequence[range] | None = None,
    enough_s: float = np.inf,
) -> Answer:
    """The shortest plan whose devices are cut in one of the given ways.

    Args:
        problem: what is cut.
        device_cuts: the ways.
        stop: checked between nodes, and while one is searched.
        start: a plan to begin with.
        places: where each cut may be; None for anywhere.
        enough_s: the search ends where its bound reaches this.
    """
    search = _Search(problem, places)
    if start is not None:
        search.consider(start)
    unseen_s = np.inf
    for number, cuts in enumerate(device_cuts):
        if number % _ASKED_EVERY == 0 and stop() is not None:
            unseen_s = search.least_bound_s
            break
        search.begin(cuts)
    while search.heap and search.heap[0].bound_s < min(search.limit_s, enough_s) and stop() is None:
        node = heapq.heappop(search.heap)
        try:
            search.expand(node, stop)
        except StoppedError:
            search.add(node)
            break
    open_s = [node.bound_s for node in search.heap[:1] if node.bound_s < search.limit_s]
    return Answer(search.plan, search.length_s, min([search.length_s, unseen_s, *open_s]), search.nodes)


class _Search:
    """The heap, the shortest plan so far, and what device cuts have in common."""

    def __init__(self, problem: PipelineProblem, places: Sequence[range] | None) -> None:
        self.problem = problem
        self.heap: list[_Node] = []
        self.plan: PipelinePlan | None = None
        self.length_s = np.inf
        self.nodes = 0
        self.case = lru_cache(maxsize=64)(Cases(problem, places).case)
        self._numbers = itertools.count()
        self._weights = np.zeros(problem.stages + 1)
        self._weights[-1] = 1.0
        profile = problem.profile
        self.cells = _cells(problem)
        self._whole_s = float(sum(each.sum() for each in problem.passes_s(1)))
        inner = profile.cut_bytes[1:-1]
        self._sent_bytes = float(inner.min()) / problem.microbatches if len(inner) else 0.0
        self._min_send_s = lru_cache(maxsize=None)(self._send_s)

    @property
    def limit_s(self) -> float:
        """Bounds from here on are of no interest."""
        return self.length_s * (1 - TOLERANCE)

    @property
    def least_bound_s(self) -> float:
        """What no plan is shorter than with any device cuts: without sending, and as few devices in narrow stages."""
        problem = self.problem
        stages = np.arange(1, problem.stages + 1)
        wide = problem.devices - problem.stages + stages
        return float(((stages + problem.microbatches - 1) / wide).min()) * self._whole_s

    def begin(self, cuts: DeviceCuts) -> None:
        """Remember everything with these device cuts."""
        self.add(_Node(self._quick_bound_s(cuts), next(self._numbers), cuts, (0.0, np.inf), self._weights))

    def _quick_bound_s(self, cuts: DeviceCuts) -> float:
        """A lower bound without looking at the points."""
        edges = (0, *cuts, self.problem.devices)
        wide = np.cumsum(sorted((b - a for a, b in itertools.pairwise(edges)), reverse=True))
        stages = np.arange(1, len(wide) + 1)
        computed_s = float(((stages + self.problem.microbatches - 1) / wide).min()) * self._whole_s
        return computed_s + 2 * sum(self._min_send_s(*each) for each in zip(edges, edges[1:], edges[2:], strict=False))

    def _send_s(self, start: int, cut: int, end: int) -> float:
        return self.problem.network.stage_transfer_s(self._sent_bytes, range(start, cut), range(cut, end))

    def add(self, node: _Node) -> None:
        """Remember a node, unless its bound settles it."""
        if node.bound_s < self.limit_s:
            self.nodes += 1
            heapq.heappush(self.heap, node)

    def consider(self, plan: PipelinePlan) -> None:
        """Keep a plan without faults that is shorter than all before."""
        if not faults(self.problem, plan):
            length_s = length(self.problem, plan).length_s
            if length_s < self.length_s:
                self.plan, self.length_s = plan, length_s

    def expand(self, node: _Node, stop: StopSignal) -> None:
        """Bound the halves of a node, or search it if it is narrow."""
        case = self.case(node.device_cuts)
        low_s, high_s = node.slowest_s
        if not np.isfinite(high_s):
            self.bound(node, case, self._slowest_interval(case), stop)
        elif (case.microbatches - 1) * (high_s - low_s) <= NARROW * node.bound_s:
            self.search(node, case, stop)
        else:
            for half in _halves(node.slowest_s):
                self.bound(node, case, half, stop)

    def _slowest_interval(self, case: Case) -> Interval:
        """With all devices busy all the time, and with one stage that does everything."""
        high_s = max(float(case.work_s[:, -1].max()), 2 * float(case.send_s.max()))
        return self._whole_s / self.problem.devices, high_s * (1 + TOLERANCE)

    def bound(self, node: _Node, case: Case, slowest_s: Interval, stop: StopSignal) -> None:
        """Bound the part of a node in this interval, and remember it.

        What a plan shorter than the shortest one can take lowers the upper end, which lifts the bound in turn.
        """
        (low_s, high_s), later, weights = slowest_s, case.microbatches - 1, node.weights
        first_s, last_s = float(case.work_s[:, -1].min()), np.inf
        while True:
            cap_s = min(high_s, (self.limit_s - first_s) / later if later else np.inf)
            if cap_s < low_s or first_s + later * low_s >= self.limit_s:
                return
            if cap_s >= _GAIN * last_s:
                break
            last_s = cap_s
            together_s, weights, _ = self.together(node, case, (low_s, cap_s), weights, stop)
            first_s = max(first_s, together_s)
        bound_s = max(node.bound_s, first_s + later * low_s)
        self.add(_Node(bound_s, next(self._numbers), node.device_cuts, (low_s, cap_s), weights))

    def together(
        self, node: _Node, case: Case, slowest_s: Interval, weights: Floats, stop: StopSignal
    ) -> tuple[float, Floats, Floats]:
        """A bound on the first microbatch with what is exposed: (seconds, its weights, its tails).

        Raises:
            StoppedError: it may have been ended before that was known.
        """
        low_s, cap_s = slowest_s
        window = windows(case, cap_s)
        if (window[0] > window[1]).any():
            return np.inf, weights, np.empty((0, 0))
        target_s = self.limit_s - (case.microbatches - 1) * low_s
        work = partial(together, case, cap_s, window, *self.cells, weights, target_s, MAX_STEPS)
        seconds, weights, tail_s, cuts, length_s = watched(stop, work)
        ask(stop)
        if length_s < self.length_s:
            self.consider(PipelinePlan(tuple(cuts[1:-1].tolist()), node.device_cuts))
        return seconds, weights, tail_s

    def search(self, node: _Node, case: Case, stop: StopSignal) -> None:
        """Settle a node; where that is stopped, the node stays."""
        low_s, cap_s = node.slowest_s
        seconds, weights, tail_s = self.together(node, case, node.slowest_s, node.weights, stop)
        if seconds + (case.microbatches - 1) * low_s >= self.limit_s:
            return
        length_s, cuts = watched(
            stop, partial(shortest, case, cap_s, windows(case, cap_s), tail_s, weights, self.limit_s)
        )
        if np.isnan(length_s):
            self.add(node)
        elif np.isfinite(length_s):
            self.consider(PipelinePlan(tuple(cuts[1:-1].tolist()), node.device_cuts))


def _halves(interval: Interval) -> tuple[Interval, Interval]:
    low, high = interval
    return (low, (low + high) / 2), ((low + high) / 2, high)


class Cases:
    """What the kernels take, for any device cuts; parts are shared by those that have them in common."""

    def __init__(self, problem: PipelineProblem, places: Sequence[range] | None = None) -> None:
        self._problem = problem
        profile = problem.profile
        anywhere = range(profile.points + 1)
        within = [anywhere, *(places or [anywhere] * (problem.stages - 1)), anywhere]
        self._places = np.array([[each.start for each in within], [each.stop - 1 for each in within]])
        self._weight_bytes = _prefix(profile.weight_bytes).astype(np.float64)
        self._variables = _prefix(profile.variables).astype(np.int64)
        self._stash_bytes = _prefix(profile.stash_bytes).astype(np.float64)
        sizes, self._sent_places = np.unique(profile.cut_bytes, return_inverse=True)
        self._sent_bytes = sizes / problem.microbatches
        self._shared_bytes = np.array([float(each.weight_bytes) for each in profile.shared])
        self._first_reader = np.array([each.readers[0] for each in profile.shared], dtype=np.int64)
        self._next_reader = _next_readers(profile)
        self._send = lru_cache(maxsize=1024)(self._send_s)
        self._passes = lru_cache(maxsize=1024)(self._passes_s)
        self._closing = lru_cache(maxsize=1024)(self._closing_s)
        self._fits = lru_cache(maxsize=1024)(self._last_fitting)

    def case(self, cuts: DeviceCuts) -> Case:
        """With devices cut in this way."""
        problem = self._problem
        edges = (0, *cuts, problem.devices)
        ranges = [range(*each) for each in itertools.pairwise(edges)]
        if problem.memory_bytes is None:
            fits = np.full((len(ranges), problem.profile.points + 1), problem.profile.points)
        else:
            fits = np.array([self._fits(stage, len(each)) for stage, each in enumerate(ranges)])
        sends = [self._send(*each) for each in zip(edges, edges[1:], edges[2:], strict=False)]
        passes = [self._passes(len(each)) for each in ranges]
        closing = [self._closing(each) for each in ranges]
        return Case(
            work_s=np.array([work_s for work_s, _ in passes]),
            backward_s=np.array([backward_s for _, backward_s in passes]),
            share=np.array([1 / (problem.microbatches * len(each)) for each in ranges]),
            send_s=np.array([*sends, np.zeros(problem.profile.points + 1)]),
            weight_bytes=self._weight_bytes,
            variables=self._variables,
            shared_bytes=self._shared_bytes,
            first_reader=self._first_reader,
            next_reader=self._next_reader,
            fits=fits,
            rings=_ring_array([problem.closing_rings(each) for each in ranges]),
            joined_s=np.array([joined_s for joined_s, _ in closing]),
            copied_s=np.array([copied_s for _, copied_s in closing]),
            microbatches=problem.microbatches,
            places=self._places,
        )

    def _passes_s(self, devices: int) -> tuple[Floats, Floats]:
        """Work and backward part of all points before each cut, [N + 1] each."""
        forward_s, backward_s = self._problem.passes_s(devices)
        return _prefix(forward_s + backward_s), _prefix(backward_s)

    def _closing_s(self, ranks: range) -> tuple[Floats, Floats]:
        """:attr:`Case.joined_s` and :attr:`Case.copied_s` of a stage on these devices."""
        of_points, of_copies = self._problem.closing_s(ranks)
        return _prefix(of_points), of_copies

    def _send_s(self, start: int, cut: int, end: int) -> Floats:
        rings = self._problem.network.stage_transfer_rings(range(start, cut), range(cut, end))
        seconds: Floats = slowest_ring_s(np.array(rings, dtype=np.float64).reshape(len(rings), 6), self._sent_bytes)
        return seconds[self._sent_places]

    def _last_fitting(self, stage: int, devices: int) -> Integers:
        """The last cut at which a stage that begins at each cut can end, [N + 1]; before its start where none."""
        problem, points = self._problem, self._problem.profile.points + 1
        share, flying = 1 / (problem.microbatches * devices), problem.in_flight(stage)
        limit_bytes = np.full(points, float(problem.memory_bytes or 0))
        if problem.recompute:
            limit_bytes -= problem.profile.cut_bytes * (share * flying)
        held = self._stash_bytes * (share * (1 if problem.recompute else flying))
        weights = self._weight_bytes, self._shared_bytes, self._first_reader, self._next_reader
        fits: Integers = last_fitting(*weights, held, problem.state_factor, limit_bytes)
        return fits


def _cells(problem: PipelineProblem) -> tuple[Integers, Integers]:
    """The cell of each cut, [N + 1], and the first cut of each cell and N + 1, [G + 1]."""
    profile = problem.profile
    changes = (profile.weight_bytes > 0) | (profile.variables > 0) | (problem.closing_s(range(problem.devices))[0] > 0)
    for each in profile.shared:
        changes[list(each.readers)] = True
    cells = np.concatenate(([0], np.cumsum(changes)))
    cells = cells // -(-(cells[-1] + 1) // MAX_CELLS)
    return cells, np.searchsorted(cells, np.arange(cells[-1] + 2))


def _next_readers(profile: Profile) -> Integers:
    """:attr:`Case.next_reader`."""
    cuts = np.arange(profile.points + 1)
    places = np.full((len(profile.shared), len(cuts)), profile.points)
    for group, each in enumerate(profile.shared):
        readers = np.array([*each.readers, profile.points])
        places[group] = readers[np.searchsorted(readers, cuts)]
    return places


def _prefix(values: Floats | Integers) -> Floats:
    return np.concatenate((np.zeros(1, dtype=values.dtype), np.cumsum(values)))


def _ring_array(stages: list[tuple[Ring, ...]]) -> Floats:
    rings = np.zeros((len(stages), max(1, *map(len, stages)), 6))
    for stage, of in enumerate(stages):
        rings[stage, : len(of)] = np.array(of).reshape(len(of), 6)
    return rings
