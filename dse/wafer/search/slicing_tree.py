"""Simulated annealing of slicing trees: the classic floorplanner, as the baseline that the paper compares itself with.

Wong and Liu's moves of normalised Polish expressions, shapes by the same staircases, time limits and protocols as the
other search has, and the time limit itself among the moves (:mod:`dse.wafer.search.slicing_tree_kernels`). The paper
(introduction) found such a search 13 % worse than its own. Nothing here knows the order of a network's kernels, beyond
that the first expression is one row of them.

All ladders of time limits get the same share of the moves: coarse from the area bound upwards, finer within what the
first answer leaves, and fine about the best one's time.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dse.progress import StoppedError, StopSignal, never_stop
from dse.wafer.bound import area_bound_ticks
from dse.wafer.problem import WaferPlacement, WaferProblem
from dse.wafer.search.ladder import Ladder, Words, ladder_of, own
from dse.wafer.search.layout import Measured, placed_kernels
from dse.wafer.search.layout_kernels import FREE
from dse.wafer.search.portfolio import Found, Search, rungs
from dse.wafer.search.row_dp import depth_first_order
from dse.wafer.search.slicing_tree_kernels import BESIDE, anneal, measured
from dse.wafer.shapes import Ints, ShapeTable, shape_table

_FURTHEST = 64
"""The longest time that is looked at, in times of the area bound."""

_RUNS = 6
"""Runs with each ladder."""

_WARMTHS = ((1e-1, 3e-2, 1e-2), (1e-2, 3e-3, 1e-3), (3e-3, 1e-3, 3e-4))
"""First temperatures with each ladder, in shares of the cost."""

_COOLED = 1e-3
"""The last temperature, of the first."""

_SLICE = 10_000
"""Moves between two questions whether to stop: some tenths of a second at most."""

_KEPT = 3
"""Trees that go on with the next ladder."""


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


def one_row(order: Sequence[int]) -> list[int]:
    """The expression of kernels beside each other."""
    return [order[0], *(symbol for number in order[1:] for symbol in (number, BESIDE))]


@dataclass(frozen=True, eq=False)
class SlicingCandidate:
    """An expression with protocols, the limit in ticks for which its kernels are sized, and what it costs there."""

    expression: Ints
    protocol: Ints
    limit: int
    cost: float


@dataclass(frozen=True, eq=False)
class SlicingTask:
    """Where to begin, with what seed, for how many moves, and how warm: a share of the cost."""

    start: SlicingCandidate
    seed: int
    steps: int
    warmth: float


@dataclass(frozen=True, eq=False)
class SlicingAnnealing:
    """One run of annealing with one ladder, as a function of the task alone, for executors.

    ``stop`` is asked in this process alone, as by :class:`~dse.wafer.search.annealing.Annealing`.
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
            return start
        legal_cost = cost if excess == 0 else np.inf
        begin = SlicingCandidate(start.expression, start.protocol, int(ladder.limits[level]), legal_cost)
        hot, seed, found = max(task.warmth * cost, 1e-9), np.array([task.seed], dtype=np.uint64), begin
        for first in range(0, task.steps, _SLICE):
            end = min(task.steps, first + _SLICE)
            warm, cold = (hot * _COOLED ** (step / task.steps) for step in (first, end))
            least, at, cost, level = anneal(ladder, now, tried, best, level, cost, seed, end - first, warm, cold)
            if least < found.cost:
                limit = int(ladder.limits[at])
                found = SlicingCandidate(best.expression.copy(), best.protocol.copy(), limit, float(least))
            if self.stop() is not None:
                break
        return found


def slicing_tree(search: Search) -> Found:
    """The method: the best placement of slicing trees; none where the search ends before it finds one."""
    table = shape_table(search.problem)
    floor = area_bound_ticks(search.problem, table)
    if floor is not None and search.moves:
        with suppress(StoppedError):
            _phases(search, table, floor)
    return search.found


def _phases(search: Search, table: ShapeTable, floor: int) -> None:
    problem, most = search.problem, floor * _FURTHEST
    best = list[SlicingCandidate]()
    for phase, warmths in enumerate(_WARMTHS):
        limits = rungs(floor, most, 64 if phase else 24)
        if phase == len(_WARMTHS) - 1:
            limits = rungs(max(floor, best[0].limit * 24 // 25), best[0].limit * 51 // 50, 64)
        ladder = ladder_of(problem, table, sorted({*limits, *(each.limit for each in best)}))
        best = _annealed(search, table, ladder, best or [_first(problem, ladder)], phase, warmths)
        if not best:
            return
        most = search.most_ticks(table, floor)


def _first(problem: WaferProblem, ladder: Ladder) -> SlicingCandidate:
    """One row of free kernels, at the time limit at which it costs least; it may be too long for the wafer."""
    row = tree_of(ladder, one_row(depth_first_order(problem)))
    costs = [measured(ladder, row, level)[0] for level in range(len(ladder.limits))]
    level = int(np.argmin(costs))
    return SlicingCandidate(row.expression, row.protocol, int(ladder.limits[level]), np.inf)


def _annealed(
    search: Search,
    table: ShapeTable,
    ladder: Ladder,
    starts: Sequence[SlicingCandidate],
    phase: int,
    warmths: Sequence[float],
) -> list[SlicingCandidate]:
    """The best of all runs with a ladder, the cheapest first; only such as are legal."""
    steps = max(1, search.moves // (len(_WARMTHS) * _RUNS))
    tasks = [
        SlicingTask(starts[run % len(starts)], search.seed_of(phase, run), steps, warmths[run % len(warmths)])
        for run in range(_RUNS)
    ]
    found: list[SlicingCandidate] = []
    for candidate in search.executor.map(SlicingAnnealing(ladder, search.stop), tasks, search.stop):
        if np.isfinite(candidate.cost):
            found.append(candidate)
            search.found = replace(search.found, evaluations=search.found.evaluations + steps)
            search.keep(placement_of(search.problem, table, candidate))
        search.progress(f"slicing trees {phase + 1} of {len(_WARMTHS)}", len(found), len(tasks))
    return sorted(found, key=lambda each: each.cost)[:_KEPT]


def placement_of(problem: WaferProblem, table: ShapeTable, candidate: SlicingCandidate) -> WaferPlacement:
    """The placement that a candidate is."""
    ladder = ladder_of(problem, table, [candidate.limit])
    tree = tree_of(ladder, candidate.expression, candidate.protocol)
    measured(ladder, tree, 0)
    found = Measured(tree.x, tree.y, tree.wide, tree.high, tree.used)
    return placed_kernels(problem, table, found, int(ladder.limits[0]))
