"""Any arrangement of rectangles on the wafer by CP-SAT, for wafers that are so tight that no rows or trees fit them.

Each kernel is one of its smallest rectangles for a time limit, upright or turned, and no two overlap; nothing is said
of rows. Within its deterministic limit CP-SAT finds such an arrangement, or proves that there is none. At the longest
time limit the latter proves that no placement is legal, as every legal rectangle holds a smallest one.

The model has a table of rectangles for each of N kernels and one constraint that none overlap; the work grows
exponentially with N at worst, so what is not decided in time is left open.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from dse.algorithms.cp_sat import solved
from dse.run.progress import StoppedError, StopSignal, ask, never_stop
from dse.wafer.bound import area_bound_ticks
from dse.wafer.check import cost
from dse.wafer.problem import WaferPlacement, WaferProblem
from dse.wafer.search.context import NO_RESULT, Incumbent, SearchContext, SearchResult
from dse.wafer.search.ladder import rungs
from dse.wafer.search.layout import Measured, placed_kernels
from dse.wafer.search.positions import compacted
from dse.wafer.shapes import MAX_TICKS, NEVER, ShapeTable, shape_table, staircases
from dse.wafer.shortfall import infeasibility

ARRANGEMENT = "arrangement"
"""The resource of a proof that kernels cannot be arranged."""

_PROOF_TIME, _PACKING_TIME = 10.0, 2.0
"""CP-SAT's deterministic seconds for whether anything fits, and for each shorter time limit."""

_LEVELS = 64
"""Time limits among which the shortest is sought that has an arrangement."""

Rectangle = tuple[int, int, int]
"""Width, height, and the (h, w, c) that it has, by number."""


@dataclass(frozen=True)
class Packing:
    """An arrangement, or whether it is proven that there is none."""

    placement: WaferPlacement | None
    impossible: bool = False


def packed(context: SearchContext, before: SearchResult = NO_RESULT) -> SearchResult:
    """Arrangements at the longest and at the shortest time limit that has one: for where nothing else finds one.

    ``before``: what is known already; evaluations are added to its.
    """
    problem, stop = context.problem, context.stop
    table = shape_table(problem)
    incumbent, floor = Incumbent(context, table, before), area_bound_ticks(problem, table)
    if floor is None or stop() is not None:
        return before

    def tried(limit: int, deterministic_time: float, *, near: bool = False) -> WaferPlacement | None:
        arranged = packing(problem, table, limit, deterministic_time, context.seed, stop, near=near).placement
        incumbent.count(1)
        if arranged is not None:
            incumbent.offer(compacted(problem, arranged))
        ask(stop)
        return arranged

    with suppress(StoppedError):
        slowest = tried(MAX_TICKS, _PROOF_TIME)
        if slowest is not None:
            limits = rungs(floor, table.ticks_of(cost(problem, slowest).time), _LEVELS)
            low, high = 0, len(limits) - 1
            while low < high and problem.weights.time > 0:
                middle = (low + high) // 2
                fits = tried(limits[middle], _PACKING_TIME) is not None
                low, high = (low, middle) if fits else (middle + 1, high)
            tried(limits[high], _PACKING_TIME, near=True)
    return incumbent.best


def unpackable(problem: WaferProblem, stop: StopSignal = never_stop) -> dict[str, Any] | None:
    """The proof that the kernels, which have room by their areas, cannot be arranged; None where CP-SAT has none."""
    table = shape_table(problem)
    if not packing(problem, table, MAX_TICKS, _PROOF_TIME, stop=stop).impossible:
        return None
    wafer = problem.wafer
    demand = int(staircases(problem, table, MAX_TICKS).area[table.group].sum())
    return {
        "resource": ARRANGEMENT,
        "demand": demand,
        "limit": wafer.tiles,
        "unit": "tiles",
        "explanation": f"the smallest rectangles of all kernels add up to {demand} of {wafer.tiles} tiles, but they "
        f"cannot be arranged on the {wafer.width_tiles} × {wafer.height_tiles} grid without overlap",
        "levers": ["a larger grid, or one of another shape", "more memory per tile"],
    }


def proof_like(stated: Any, problem: WaferProblem) -> dict[str, Any] | None:
    """The proof that no placement is legal; None where there is none. By arrangement only where ``stated`` is so.

    ``stated``: what is said to be the proof of this problem, or is that of the turned wafer.
    """
    arranged = isinstance(stated, dict) and stated.get("resource") == ARRANGEMENT
    return infeasibility(problem) or (unpackable(problem) if arranged else None)


def packing(
    problem: WaferProblem,
    table: ShapeTable,
    limit: int,
    deterministic_time: float,
    seed: int = 0,
    stop: StopSignal = never_stop,
    *,
    near: bool = False,
) -> Packing:
    """An arrangement of all kernels, if one is found in time.

    Args:
        problem: what is placed.
        table: its shapes.
        limit: ticks that every kernel keeps.
        deterministic_time: CP-SAT's deterministic seconds.
        seed: of CP-SAT.
        stop: called meanwhile.
        near: whether one of little distance is sought, not any.
    """
    built = _model(problem, table, limit)
    if built is None:
        return Packing(None, impossible=True)
    if near:
        _minimise_distance(built, problem)
    return _solved(built, deterministic_time, seed, stop)


def _minimise_distance(built: "_Model", problem: WaferProblem) -> None:
    model, gaps = built.model, []
    for one, two in problem.edges:
        for axis, span in enumerate(built.spans):
            gap = model.new_int_var(0, 2 * span, "")
            middles = (built.corner[each][axis] + built.end[each][axis] for each in (one, two))
            model.add_abs_equality(gap, next(middles) - next(middles))
            gaps.append(gap)
    model.minimize(sum(gaps))


Variables = list[list[cp_model.IntVar]]
"""Across and up, of every kernel."""


@dataclass(frozen=True)
class _Model:
    """No two kernels overlap, each of which is one of its rectangles, and the two sides of the wafer."""

    problem: WaferProblem
    table: ShapeTable
    limit: int
    rectangles: list[list[Rectangle]]
    model: cp_model.CpModel
    corner: Variables
    side: Variables
    end: Variables
    which: list[cp_model.IntVar]

    @property
    def spans(self) -> tuple[int, int]:
        """Tiles across the wafer, and up."""
        return self.problem.wafer.width_tiles, self.problem.wafer.height_tiles


def _model(problem: WaferProblem, table: ShapeTable, limit: int) -> _Model | None:
    """The model for a time limit in ticks; None where a kernel has no rectangle."""
    groups = [[*_rectangles(problem, table, limit, group)] for group in range(len(table.ticks))]
    built = _Model(problem, table, limit, [groups[each] for each in table.group], cp_model.CpModel(), [], [], [], [])
    if not all(groups):
        return None
    model = built.model
    for rectangles in built.rectangles:
        built.corner.append([model.new_int_var(0, span, "") for span in built.spans])
        built.side.append([model.new_int_var(1, span, "") for span in built.spans])
        built.end.append([model.new_int_var(0, span, "") for span in built.spans])
        built.which.append(model.new_int_var(0, len(rectangles) - 1, ""))
        rows = [(*rectangle[:2], number) for number, rectangle in enumerate(rectangles)]
        model.add_allowed_assignments([*built.side[-1], built.which[-1]], rows)
    across, up = (
        [
            model.new_interval_var(corner[axis], side[axis], end[axis], "")
            for corner, side, end in zip(built.corner, built.side, built.end, strict=True)
        ]
        for axis in (0, 1)
    )
    model.add_no_overlap_2d(across, up)
    return built


def _solved(built: _Model, deterministic_time: float, seed: int, stop: StopSignal) -> Packing:
    solver, status = solved(built.model, deterministic_time, seed, stop)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Packing(None, impossible=status == cp_model.INFEASIBLE)
    rows = (
        [*map(solver.value, (*corner, *side)), rectangles[solver.value(which)][2]]
        for corner, side, which, rectangles in zip(built.corner, built.side, built.which, built.rectangles, strict=True)
    )
    return Packing(placed_kernels(built.problem, built.table, Measured(*np.array([*rows]).T), built.limit))


def _rectangles(problem: WaferProblem, table: ShapeTable, limit: int, group: int) -> Iterator[Rectangle]:
    """The smallest rectangles of a group that fit the wafer, upright and turned: none holds another."""
    shapes = staircases(problem, table, limit)
    columns = (shapes.bounded[group], shapes.least[group], shapes.choice[group])
    rows = {(side, other): number for side, other, number in zip(*(each.tolist() for each in columns), strict=True)}
    sized = {(one, two) for side, other in rows if other < NEVER for one, two in ((side, other), (other, side))}
    wafer = problem.wafer
    fitting = sorted(each for each in sized if each[0] <= wafer.width_tiles and each[1] <= wafer.height_tiles)
    lowest = NEVER
    for wide, high in fitting:
        if high < lowest:
            lowest = high
            yield wide, high, rows[(wide, high) if (wide, high) in rows else (high, wide)]
