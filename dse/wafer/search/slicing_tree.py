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

import numpy as np

from dse.run.progress import StoppedError
from dse.wafer.bound import area_bound_ticks
from dse.wafer.problem import WaferProblem
from dse.wafer.search.context import MAX_FACTOR, Incumbent, SearchContext, SearchResult
from dse.wafer.search.ladder import Ladder, ladder_of, rungs
from dse.wafer.search.row_dp import depth_first_order
from dse.wafer.search.slicing_annealing import (
    SlicingAnnealing,
    SlicingCandidate,
    SlicingTask,
    placement_of,
    tree_of,
)
from dse.wafer.search.slicing_tree_kernels import BESIDE, measured
from dse.wafer.shapes import shape_table

_RUNS = 6
"""Runs with each ladder."""

_TEMPERATURES = ((1e-1, 3e-2, 1e-2), (1e-2, 3e-3, 1e-3), (3e-3, 1e-3, 3e-4))
"""First temperatures with each ladder, in shares of the cost."""

_SURVIVORS = 3
"""Trees that continue with the next ladder."""


def one_row(order: Sequence[int]) -> list[int]:
    """The expression of kernels next to each other."""
    return [order[0], *(symbol for number in order[1:] for symbol in (number, BESIDE))]


def slicing_tree(context: SearchContext) -> SearchResult:
    """The method: the best placement of slicing trees; none where the search ends before it finds one."""
    incumbent = Incumbent(context, shape_table(context.problem))
    floor = area_bound_ticks(context.problem, incumbent.table)
    if floor is not None and context.moves:
        with suppress(StoppedError):
            _phases(incumbent, floor)
    return incumbent.best


def _phases(incumbent: Incumbent, floor: int) -> None:
    problem, table, longest = incumbent.context.problem, incumbent.table, floor * MAX_FACTOR
    best = list[SlicingCandidate]()
    for phase, temperatures in enumerate(_TEMPERATURES):
        limits = rungs(floor, longest, 64 if phase else 24)
        if phase == len(_TEMPERATURES) - 1:
            limits = rungs(max(floor, best[0].limit * 24 // 25), best[0].limit * 51 // 50, 64)
        ladder = ladder_of(problem, table, sorted({*limits, *(each.limit for each in best)}))
        best = _annealed(incumbent, ladder, best or [_first(problem, ladder)], phase, temperatures)
        if not best:
            return
        longest = incumbent.max_ticks(floor)


def _first(problem: WaferProblem, ladder: Ladder) -> SlicingCandidate:
    """One row of free kernels, at the time limit at which it costs least; it may be too long for the wafer."""
    row = tree_of(ladder, one_row(depth_first_order(problem)))
    costs = [measured(ladder, row, level)[0] for level in range(len(ladder.limits))]
    level = int(np.argmin(costs))
    return SlicingCandidate(row.expression, row.protocol, int(ladder.limits[level]), np.inf)


def _annealed(
    incumbent: Incumbent,
    ladder: Ladder,
    starts: Sequence[SlicingCandidate],
    phase: int,
    temperatures: Sequence[float],
) -> list[SlicingCandidate]:
    """The best of the runs with a ladder, the cheapest first; only such as are legal."""
    context = incumbent.context
    steps = max(1, context.moves // (len(_TEMPERATURES) * _RUNS))
    tasks = [
        SlicingTask(
            starts[run % len(starts)], context.seed_of(phase, run), steps, temperatures[run % len(temperatures)]
        )
        for run in range(_RUNS)
    ]
    candidates: list[SlicingCandidate] = []
    runs = context.executor.map(SlicingAnnealing(ladder, context.stop), tasks, context.stop)
    for number, candidate in enumerate(runs, 1):
        incumbent.count(candidate.moves)
        if np.isfinite(candidate.cost):
            candidates.append(candidate)
            incumbent.offer(placement_of(context.problem, incumbent.table, candidate))
        context.progress(f"slicing trees {phase + 1} of {len(_TEMPERATURES)}", number, len(tasks))
    return sorted(candidates, key=lambda each: each.cost)[:_SURVIVORS]
