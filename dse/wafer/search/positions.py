"""The best places of rectangles that keep their sizes and their order: a linear program.

Of two kernels at least one direction keeps them apart in a legal placement; that one (where both do, the one with the
larger gap) is kept. Under these constraints x and y do not depend on each other, and the distance is a sum of |x + a|
of differences x. Where a is a half, no whole numbers come below 1/2, which is added as a constraint: then all
breakpoints are whole numbers, the program is the dual of a flow, and a corner of it is a placement.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from ortools.linear_solver import pywraplp

from dse.wafer.check import cost, size_tiles, violations
from dse.wafer.problem import WaferPlacement, WaferProblem

_ROUNDS = 3
"""Of new directions after each program."""

_MILLISECONDS = 10_000
"""Of one program at most; it is done in a small part of that."""

Pair = tuple[int, int]


def compacted(problem: WaferProblem, placement: WaferPlacement) -> WaferPlacement:
    """A legal placement of the same rectangles with no more distance."""
    total = cost(problem, placement).total
    for _ in range(_ROUNDS):
        moved = _solved(problem, placement)
        if moved is None or violations(problem, moved):
            break
        better = cost(problem, moved).total
        if better >= total:
            break
        placement, total = moved, better
    return placement


def _solved(problem: WaferProblem, placement: WaferPlacement) -> WaferPlacement | None:
    sizes = [size_tiles(placed) for placed in placement.placed]
    wafer = problem.wafer
    beside, above = _directions(placement, sizes)
    xs = _axis([size[0] for size in sizes], beside, wafer.width_tiles, problem.edges)
    ys = _axis([size[1] for size in sizes], above, wafer.height_tiles, problem.edges)
    if xs is None or ys is None:
        return None
    moved = (replace(placed, x=x, y=y) for placed, x, y in zip(placement.placed, xs, ys, strict=True))
    return WaferPlacement(tuple(moved))


def _directions(placement: WaferPlacement, sizes: Sequence[Pair]) -> tuple[list[Pair], list[Pair]]:
    """(pairs of which the first lies left of the second, pairs of which the first lies below the second)."""
    beside: list[Pair] = []
    above: list[Pair] = []
    for second, two in enumerate(placement.placed):
        for first, one in enumerate(placement.placed[:second]):
            gaps = {
                (0, first, second): two.x - one.x - sizes[first][0],
                (0, second, first): one.x - two.x - sizes[second][0],
                (1, first, second): two.y - one.y - sizes[first][1],
                (1, second, first): one.y - two.y - sizes[second][1],
            }
            axis, low, high = max(gaps, key=gaps.__getitem__)
            (above if axis else beside).append((low, high))
    return beside, above


def _axis(sizes: Sequence[int], apart: Sequence[Pair], extent: int, edges: Sequence[Pair]) -> list[int] | None:
    """The lower ends along one axis; None where the solver finds no whole ones."""
    solver = pywraplp.Solver.CreateSolver("GLOP")
    solver.SetTimeLimit(_MILLISECONDS)
    infinity, objective = solver.infinity(), solver.Objective()
    lows = [solver.NumVar(0, extent - size, "") for size in sizes]
    for low, high in needed(apart, len(sizes)):
        behind = solver.Constraint(sizes[low], infinity)
        behind.SetCoefficient(lows[high], 1)
        behind.SetCoefficient(lows[low], -1)
    for one, other in edges:
        offset = (sizes[one] - sizes[other]) / 2
        span = solver.NumVar(abs(offset) % 1, infinity, "")
        objective.SetCoefficient(span, 1)
        for sign in (1, -1):
            longer = solver.Constraint(sign * offset, infinity)
            longer.SetCoefficient(span, 1)
            longer.SetCoefficient(lows[one], -sign)
            longer.SetCoefficient(lows[other], sign)
    objective.SetMinimization()
    if solver.Solve() != pywraplp.Solver.OPTIMAL:
        return None
    return [round(low.solution_value()) for low in lows]


def needed(apart: Sequence[Pair], count: int) -> list[Pair]:
    """The pairs, of ``count`` rectangles, that do not follow from two others."""
    after = np.zeros((count, count), dtype=np.float32)
    after[tuple(np.array(apart, dtype=np.int64).reshape(-1, 2).T)] = 1.0
    follows = after @ after > 0
    return [(low, high) for low, high in apart if not follows[low, high]]
