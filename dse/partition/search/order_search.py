"""Search over topological orders, each of which is cut into chips by dynamic programming.

Every valid partition is some topological order, cut: so the orders are what is searched. One step puts a window of the
order in another one, at random, and asks whether the new order can be cut below the best cost so far. It mostly cannot,
which the dynamic program finds in one pass (:mod:`dse.partition.search.order_kernels`); the order is accepted if at
least as much of it can be cut as before. Walks over orders for linear and for general cuts run side by side, from
different orders, because where a walk ends up depends much on where it began: general cuts take the best of many orders
to begin with, and after each round the better half of each kind continues, with twice the steps (successive halving;
Karnin, Koren and Somekh, "Almost optimal exploration in multi-armed bandits", ICML 2013).

Orders to begin with are the graph's own, orders drawn operator by operator, and orders drawn part by part
(:func:`dse.partition.search.order_kernels.parted`). Of the last are those that recurrent networks need: layer by layer,
so that the chips are blocks of layers × steps, which lead to each other as the cells of a grid do. After each round,
operators of the partition found are moved between neighbouring chips (:mod:`dse.partition.search.move_kernels`).

The dynamic program prices throughput under the reference evaluator. With another objective or evaluator the walks are
still those of that problem, and the best of every walk after each round is priced by the context's evaluator. Cost:
a step is O(W (N + E)) for W operators on a chip; general cuts O(N²) more.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt

from dse.partition.bound import simple_bound_s
from dse.partition.constraints.structure import Structure, structure_of
from dse.partition.problem import PartitionProblem
from dse.partition.search.context import SearchContext, SearchResult, first_result, throughput_of
from dse.partition.search.move_kernels import settle
from dse.partition.search.order_kernels import improve, parted, reorder
from dse.run.progress import StoppedError

Order = npt.NDArray[np.int32]

ROUNDS = 5
"""Rounds of a search by itself."""

_LINEAR_WALKS, _GENERAL_WALKS = 4, 16
"""Walks of each kind to begin with, at least: general ones differ more in what they come to."""

_GENERAL_STARTS = 48
"""Orders of which the best begin general walks: to cut one takes a hundredth of a round."""

_DESCENDANTS_LAST = 0.25
"""Share of the parts of an order that are made by descendants, rather than by ancestors: those take along the cheap
operators that only they need."""

_ROUND_WORK = 20_000_000
"""Work of one walk in the first round, in operators and edges that its steps look at: about a tenth of a second."""

_MAX_STEPS = 2_000
"""Steps of one walk in the first round at most: small graphs are soon walked through."""

_MAX_GENERAL = 1_000
"""Operators of a graph whose general cuts are searched: beyond, a step takes tens of milliseconds."""

_MOVES = 20
"""Moves of operators after each round, for each operator, as long as they do not take longer than the round."""

_SAME = 1e-12
"""Relative differences of costs that come from the order in which numbers are added."""

_FIRST, _STEP = 1.02, 1.1
"""The first limit over the simple bound, and the factor by which it grows until an order can be cut."""


@dataclass(frozen=True)
class _Walk:
    """One walk between two rounds: its order, kind of cuts, number and round; its best cost and partition."""

    order: Order
    linear: bool
    number: int
    turn: int
    cost_s: float = np.inf
    chip: npt.NDArray[np.int8] | None = None


class _Kernel:
    """Continues walks, on any worker."""

    def __init__(self, problem: PartitionProblem, seed: int) -> None:
        self._problem = problem
        self._seed = seed

    def __reduce__(self) -> tuple[type[Self], tuple[PartitionProblem, int]]:
        """The arguments alone: a worker computes what is cached again."""
        return type(self), (self._problem, self._seed)

    @cached_property
    def _structure(self) -> Structure:
        """Of the graph."""
        return structure_of(self._problem.graph)

    def improved(self, walk: _Walk, limit_s: float, tries: int) -> _Walk:
        """The walk after some steps, which look for partitions below a limit."""
        problem = self._problem
        graph = problem.graph
        order, chip, cost_s = improve(
            walk.order,
            self._structure,
            graph.latency_s,
            graph.output_bytes / problem.link_bytes_per_s,
            graph.weight_bytes,
            problem.chips,
            limit_s,
            np.inf if problem.memory_bytes is None else problem.memory_bytes,
            walk.linear,
            tries,
            self._drawn(walk, 0),
        )
        if chip[0] < 0:
            return replace(walk, order=order)
        return replace(walk, order=order, cost_s=float(cost_s), chip=chip)

    def _drawn(self, walk: _Walk, part: int) -> np.uint64:
        """The seed of a part of a walk's round."""
        sequence = np.random.SeedSequence((self._seed, walk.number, walk.turn, part))
        return np.uint64(sequence.generate_state(1, np.uint64)[0])


class _Beginner(_Kernel):
    """Gives a walk its first partition."""

    def __call__(self, walk: _Walk) -> _Walk:
        """The walk with the best partition of its order, by limits that grow until there is one."""
        limit_s = simple_bound_s(self._problem) * _FIRST
        max_s = float(self._problem.graph.latency_s.sum()) * _STEP
        while limit_s <= max_s:
            cut = self.improved(walk, limit_s, 1)
            if cut.chip is not None:
                return cut
            limit_s *= _STEP
        return walk


class _Walker(_Kernel):
    """Continues with a walk for one round."""

    def __call__(self, walk: _Walk) -> _Walk:
        """The walk after the round: steps over orders, then moves of operators."""
        walked = self.improved(walk, walk.cost_s, self._tries(walk))
        return replace(walked if walked.chip is None else self._settled(walked, walked.chip), turn=walk.turn + 1)

    def _settled(self, walk: _Walk, chip: npt.NDArray[np.int8]) -> _Walk:
        """The walk with its partition improved by moves, and an order of that."""
        problem = self._problem
        graph = problem.graph
        moves = min(_MOVES * len(graph), _ROUND_WORK // (len(graph) + len(graph.edges)))
        settled, cost_s = settle(
            chip,
            self._structure,
            graph.latency_s,
            graph.output_bytes / problem.link_bytes_per_s,
            graph.weight_bytes,
            problem.chips,
            np.inf if problem.memory_bytes is None else problem.memory_bytes,
            moves,
            self._drawn(walk, 1),
        )
        if not cost_s < walk.cost_s * (1 - _SAME):
            return walk
        return replace(walk, order=order_of(problem, settled), chip=settled, cost_s=float(cost_s))

    def _tries(self, walk: _Walk) -> int:
        """Steps of a round; a chip takes the share of the operators that its time is of the work."""
        graph = self._problem.graph
        share = min(1.0, walk.cost_s / max(float(graph.latency_s.sum()), np.finfo(float).tiny))
        looked_at = (len(graph) + len(graph.edges)) * (2 + len(graph) * share)
        steps = int(_ROUND_WORK / (looked_at + (0 if walk.linear else len(graph) ** 2 / 8)))
        return min(_MAX_STEPS, max(20, steps)) << walk.turn


class OrderSearch:
    """Walks over orders, round by round.

    Lifecycle: :meth:`begin` with orders, any number of :meth:`round` and of further :meth:`begin`; ``best`` is the
    best so far at any time.

    Attributes:
        best: the best partition, priced by the context's evaluator; to begin with, everything on one chip.
    """

    def __init__(self, context: SearchContext) -> None:
        self._context = context
        self._problem = throughput_of(context.problem)
        self._walks: list[_Walk] = []
        self._walk_count = self._turn = 0
        self.best = first_result(context)

    def begin_with_own(self) -> None:
        """Walks from orders of the graph itself, and from random ones; for large graphs linear ones alone.

        Raises:
            StoppedError: the context's signal says so.
        """
        graph = self._context.problem.graph
        self._begin(_drawn(self._context, _LINEAR_WALKS), linear=True)
        if len(graph) <= _MAX_GENERAL:
            self._begin(_drawn(self._context, _GENERAL_STARTS), linear=False)

    def begin(self, orders: Sequence[Order]) -> None:
        """Walks from these orders, of both kinds.

        Raises:
            StoppedError: the context's signal says so.
        """
        self._begin(orders, linear=True)
        if len(self._context.problem.graph) <= _MAX_GENERAL:
            self._begin(orders, linear=False)

    def round(self) -> None:
        """Every walk continues for a round; the better half of each kind stays.

        Raises:
            StoppedError: the context's signal says so.
        """
        walker = _Walker(self._problem, self._context.seed)
        walks = list(self._context.executor.map(walker, self._walks, self._context.stop))
        self._price(walks)
        self._turn += 1
        kinds = [[walk for walk in walks if walk.linear == linear] for linear in (True, False)]
        self._walks = [walk for kind in kinds for walk in _best(kind, (len(kind) + 1) // 2)]

    def _begin(self, orders: Sequence[Order], *, linear: bool) -> None:
        """Walks of one kind from the best of ``orders``."""
        walks = [_Walk(order, linear, self._walk_count + place, self._turn) for place, order in enumerate(orders)]
        self._walk_count += len(walks)
        beginner = _Beginner(self._problem, self._context.seed)
        cut = [*self._context.executor.map(beginner, walks, self._context.stop)]
        chosen = _best(cut, _LINEAR_WALKS if linear else _GENERAL_WALKS)
        self._price(chosen)
        self._walks += chosen

    def _price(self, walks: Iterable[_Walk]) -> None:
        for walk in walks:
            if walk.chip is not None:
                costs = self._context.evaluator.costs(walk.chip[None])
                self.best = self.best.with_candidates(walk.chip[None], costs)


def order_search(context: SearchContext, rounds: int = ROUNDS) -> SearchResult:
    """The best partition that walks over orders for throughput find, by the context's evaluator."""
    search = OrderSearch(context)
    with suppress(StoppedError):
        search.begin_with_own()
        for turn in range(rounds):
            search.round()
            context.progress("rounds of order search", turn + 1, rounds)
    return search.best


def order_of(problem: PartitionProblem, chip: npt.NDArray[np.int8]) -> Order:
    """A topological order in which the operators of each chip of a valid partition are adjacent."""
    order = problem.graph.topological_order
    return order[np.argsort(chip[order], kind="stable")].astype(np.int32)


def _best(walks: Sequence[_Walk], count: int) -> list[_Walk]:
    """The best of some walks that have a partition or may find one, the earlier of equals."""
    return sorted(walks, key=lambda walk: (walk.cost_s, walk.number))[:count]


def _drawn(context: SearchContext, count: int) -> list[Order]:
    """The graph's own order, the one with side branches where they are used, and random ones.

    A third are drawn operator by operator, from branch by branch to level by level; the others part by part, of the
    graph's own order and of those, from fine to coarse.
    """
    graph = context.problem.graph
    structure, given = structure_of(graph), graph.topological_order.astype(np.int32)
    state = np.random.SeedSequence((context.seed, len(graph))).generate_state(1, np.uint64)
    orders = [given, graph.late_order.astype(np.int32)]
    while len(orders) < count:
        share = (len(orders) - 1) / count
        other: Order = reorder(given, 0, len(graph), 1.0 - share, structure, state)
        smallest = int(len(graph) ** share)
        orders += [
            other,
            parted(given, smallest, _DESCENDANTS_LAST, structure, state),
            parted(other, smallest, _DESCENDANTS_LAST, structure, state),
        ]
    return orders[:count]
