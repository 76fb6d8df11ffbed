"""One run of simulated annealing of slicing trees, from a tree."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dse.run.progress import StopSignal, never_stop
from dse.wafer.problem import WaferPlacement, WaferProblem
from dse.wafer.search.ladder import Ladder, Words, ladder_of, own
from dse.wafer.search.layout import Measured, placed_kernels
from dse.wafer.search.layout_kernels import FREE
from dse.wafer.search.slicing_tree_kernels import anneal, measured
from dse.wafer.shapes import Ints, ShapeTable

_COOLED = 1e-3
"""The last temperature, of the first."""

_SLICE, _SLICE_WORK = 10_000, 30_000_000
"""Maximum moves, and recomputed entries of curves, between two checks whether to stop: a move makes
about all of a tree's. That is some tenths of a second.
"""


class Tree(NamedTuple):
    """An expression of N kernels and what follows from it; all but the first two are filled by compiled code.

    Attributes:
        expression: [2N − 1] kernels and joins in postorder.
        protocol: [N] of each kernel, or free.
        begin, given, left, low: [2N − 1] of each subtree: where it begins in the expression, the side it is given, its
            lower corner.
        changed: [2N − 1] which subtrees are new.
        curve: [2N − 1, extent + 1] shape curves.
        room: [2, extent + 1] to work in.
        order, width, x, y, wide, high, turned, used: [N] as in :class:`~dse.wafer.search.layout.Layout`.
    """

    expression: Ints
    protocol: Ints
    begin: Ints
    given: Ints
    left: Ints
    low: Ints
    changed: npt.NDArray[np.bool_]
    curve: Words
    room: Words
    order: Ints
    width: Ints
    x: Ints
    y: Ints
    wide: Ints
    high: Ints
    turned: Ints
    used: Ints


def tree_of(ladder: Ladder, expression: Sequence[int] | Ints, protocol: Ints | None = None) -> Tree:
    """The tree of an expression, kernels free unless they have protocols."""
    count, kernels, extent = len(expression), len(ladder.group), int(ladder.size[2])
    of_subtrees, of_kernels = np.zeros((4, count), dtype=np.int64), np.zeros((8, kernels), dtype=np.int64)
    begin, given, left, low = (row.copy() for row in of_subtrees)
    order, width, x, y, wide, high, turned, used = (row.copy() for row in of_kernels)
    bound = np.full(kernels, FREE, dtype=np.int64) if protocol is None else protocol.copy()
    changed = np.ones(count, dtype=np.bool_)
    curve, room = (np.zeros((rows, extent + 1), dtype=np.int32) for rows in (count, 2))
    return Tree(
        np.array(expression, dtype=np.int64), bound, begin, given, left, low, changed, curve, room,
        order, width, x, y, wide, high, turned, used,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class SlicingCandidate:
    """An expression with protocols, the limit in ticks for which its kernels are sized, and what it costs there.

    ``moves``: of the run that produced it.
    """

    expression: Ints
    protocol: Ints
    limit: int
    cost: float
    moves: int = 0


def candidate_of(ladder: Ladder, expression: Sequence[int], level: int) -> SlicingCandidate | None:
    """The candidate that an expression of free kernels is at a level; None where it does not fit the wafer.

    Where adapters count, its kernels are bound to the protocols that they have there.
    """
    tree = tree_of(ladder, expression)
    cost, excess = measured(ladder, tree, level)
    if excess > 0 or not np.isfinite(cost):
        return None
    protocol = tree.used if ladder.weights[2] > 0 else tree.protocol
    return SlicingCandidate(tree.expression, protocol, int(ladder.limits[level]), float(cost))


@dataclass(frozen=True, eq=False)
class SlicingTask:
    """Where to begin, with what seed, for how many moves, and how warm: a share of the cost."""

    start: SlicingCandidate
    seed: int
    steps: int
    temperature: float


@dataclass(frozen=True, eq=False)
class SlicingAnnealing:
    """One run of annealing with one ladder, as a function of the task alone, for executors.

    ``stop`` is consulted in this process only, as by :class:`~dse.wafer.search.annealing.Annealing`.
    """

    ladder: Ladder
    stop: StopSignal = never_stop

    def __reduce__(self) -> tuple[Any, ...]:
        return SlicingAnnealing, (self.ladder,)

    @cached_property
    def _own(self) -> Ladder:
        return own(self.ladder)

    def __call__(self, task: SlicingTask) -> SlicingCandidate:
        """The best tree of a run, until it is stopped; what it began with where it meets no better one."""
        ladder, start = self._own, task.start
        now, tried, best = (tree_of(ladder, start.expression, start.protocol) for _ in range(3))
        level = min(int(np.searchsorted(ladder.limits, start.limit)), len(ladder.limits) - 1)
        cost, excess = measured(ladder, now, level)
        if not np.isfinite(cost):
            return replace(start, moves=0)
        legal_cost = cost if excess == 0 else np.inf
        begin = SlicingCandidate(start.expression, start.protocol, int(ladder.limits[level]), legal_cost)
        hot, seed = max(task.temperature * cost, 1e-9), np.array([task.seed], dtype=np.uint64)
        candidate, made = begin, 0
        moves = min(_SLICE, max(1, _SLICE_WORK // now.curve.size))
        for first in range(0, task.steps, moves):
            end = min(task.steps, first + moves)
            warm, cold = (hot * _COOLED ** (step / task.steps) for step in (first, end))
            best_cost, at, cost, level = anneal(ladder, now, tried, best, level, cost, seed, end - first, warm, cold)
            if best_cost < candidate.cost:
                limit = int(ladder.limits[at])
                candidate = SlicingCandidate(best.expression.copy(), best.protocol.copy(), limit, float(best_cost))
            made = end
            if self.stop() is not None:
                break
        return replace(candidate, moves=made)


def placement_of(problem: WaferProblem, table: ShapeTable, candidate: SlicingCandidate) -> WaferPlacement:
    """The placement that a candidate is."""
    ladder = ladder_of(problem, table, [candidate.limit])
    tree = tree_of(ladder, candidate.expression, candidate.protocol)
    measured(ladder, tree, 0)
    places = Measured(tree.x, tree.y, tree.wide, tree.high, tree.used)
    return placed_kernels(problem, table, places, int(ladder.limits[0]))
