"""Up to four kernels: whether any placement is cheaper than the best that is known, by CP-SAT over all of them.

Each kernel is one of its *shapes*: a rectangle with a time and (h, w, c). All that can be part of a cheapest placement
are listed: for every (h, w, c) the least k of each convolution for every time that the kernel can have, with as much c
as there are inputs, which takes no tile and never hurts time, memory or adapters; and once more three tiles longer, as
a centre moves by halves of a tile. Anything longer holds one of these with its centre at the same place. Of two shapes
of the same (h, w, c), where these count, the one that is no shorter in either direction, by a multiple of two tiles
where distance counts, and no faster is left out: the other takes its place with the same centre.

Positions are whole tiles, no two kernels overlap, and the cost is that of :mod:`dse.wafer.problem`, in whole units, so
that a status of CP-SAT is a proof. The model grows with shapes, of which a wafer of 633 × 633 tiles has too many:
:data:`MAX_SHAPES` is the limit.
"""

from collections.abc import Iterator
from dataclasses import astuple, dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, inf, lcm

from ortools.sat.python import cp_model

from dse.algorithms.cp_sat import solved
from dse.run.progress import StopSignal, never_stop
from dse.wafer.problem import PlacedKernel, Rotation, WaferPlacement, WaferProblem
from dse.wafer.search.context import Incumbent, SearchContext, SearchResult
from dse.wafer.shapes import NEVER, ShapeTable, shape_table

MAX_KERNELS, MAX_SHAPES = 4, 2000
"""Kernels at most, and shapes of each of them."""

_TIME = 4.0
"""CP-SAT's deterministic seconds."""

_MAX_UNITS, _MAX_DENOMINATOR = 2**40, 10**6
"""Whole units that a cost may have, far below what CP-SAT counts in; and of a weight's denominator."""


@dataclass(frozen=True)
class Cheapest:
    """What is known of placements that are cheaper than a given cost.

    Attributes:
        placement: the cheapest that was met; None where none is cheaper or none was met.
        proven: whether no placement is cheaper than that, and than the given cost where it is None.
    """

    placement: WaferPlacement | None = None
    proven: bool = False


UNKNOWN = Cheapest()
"""Before anything is tried."""


@dataclass(frozen=True)
class _Shape:
    """A kernel as it may lie: sides in tiles, ticks, and its parameters."""

    wide: int
    high: int
    ticks: int
    h: int
    w: int
    c: tuple[int, ...]
    k: tuple[int, ...]
    rotation: Rotation

    @property
    def protocol(self) -> tuple[int, int, tuple[int, ...]]:
        """What adapters compare."""
        return self.h, self.w, tuple(sorted({*self.c}))


def cheapest(problem: WaferProblem, known: float, stop: StopSignal = never_stop) -> Cheapest:
    """The cheapest placement of a few kernels of which some costs less than ``known``, if CP-SAT is done in time.

    :data:`UNKNOWN` where there are too many kernels or shapes, or weights that are not whole units.
    """
    if len(problem.kernels) > MAX_KERNELS:
        return UNKNOWN
    shapes, ticks_per_time = _every_shape(problem)
    units = _units(problem, ticks_per_time, known)
    if units is None or any(each is None for each in shapes):
        return UNKNOWN
    return _Search(problem, [each or [] for each in shapes], units, known).solved(stop)


def cheapest_of_few(context: SearchContext, best: SearchResult) -> SearchResult:
    """``best``, or the cheapest placement of a few kernels where that costs less."""
    incumbent = Incumbent(context, shape_table(context.problem), best)
    better = cheapest(context.problem, best.total, context.stop).placement
    if better is not None:
        incumbent.count(1)
        incumbent.offer(better)
    return incumbent.best


@dataclass(frozen=True)
class _Units:
    """Whole units of cost: of a tick, of half a tile of distance, and of an adapter; and how many make 1."""

    tick: int
    half_tile: int
    adapter: int
    scale: int


def _units(problem: WaferProblem, ticks_per_time: int, known: float) -> _Units | None:
    """The units of a problem's weights, which may be decimal fractions; None where costs have too many of them."""
    decimals = [
        Fraction(each).limit_denominator(_MAX_DENOMINATOR)
        for each in (problem.weights.time, problem.weights.distance, problem.weights.adapter)
    ]
    if [float(each) for each in decimals] != [*astuple(problem.weights)]:
        return None
    time, distance, adapter = decimals
    weights = time / ticks_per_time, distance / 2, adapter
    scale = lcm(*(each.denominator for each in weights))
    if scale * max(sum(weights), 0 if known == inf else Fraction(known)) >= _MAX_UNITS:
        return None
    tick, half_tile, of_adapter = (int(each * scale) for each in weights)
    return _Units(tick, half_tile, of_adapter, scale)


@lru_cache(maxsize=2)
def _every_shape(problem: WaferProblem) -> tuple[list[list[_Shape] | None], int]:
    """(the shapes of every kernel, ticks in a unit of time); the search, its bound and the check all ask for these."""
    table = shape_table(problem)
    return [_shapes(problem, table, number) for number in range(len(problem.kernels))], table.ticks_per_time


def _shapes(problem: WaferProblem, table: ShapeTable, number: int) -> list[_Shape] | None:
    """The shapes of a kernel that fit the wafer; None where there are too many to compare."""
    listed = list[_Shape]()
    for shape in _all_shapes(problem, table, number):
        listed.append(shape)
        if len(listed) > 10 * MAX_SHAPES:
            return None
    left = _undominated(problem, listed, joined=any(number in edge for edge in problem.edges))
    return left if len(left) <= MAX_SHAPES else None


def _all_shapes(problem: WaferProblem, table: ShapeTable, number: int) -> Iterator[_Shape]:
    known, group, wafer = table.protocols, int(table.group[number]), problem.wafer
    convolutions = problem.kernels[number].convolutions
    for place in range(len(known)):
        if (table.min_k[group, place, : len(convolutions)] >= NEVER).any():
            continue
        ticks = table.ticks[group, place, : len(convolutions)].tolist()
        least = table.min_k[group, place, : len(convolutions)].tolist()
        h, w, c, tall = (int(each[place]) for each in (known.h, known.w, known.c, known.tall))
        every_c = tuple(min(c, each.inputs) for each in convolutions)
        for k in _every_k([each.outputs for each in convolutions], ticks, least):
            time = max(each * -(-conv.outputs // of) for each, conv, of in zip(ticks, convolutions, k, strict=True))
            wide = 3 * sum(k)
            if wide <= wafer.width_tiles and tall <= wafer.height_tiles:
                yield _Shape(wide, tall, time, h, w, every_c, k, "R0")
            if tall <= wafer.width_tiles and wide <= wafer.height_tiles:
                yield _Shape(tall, wide, time, h, w, every_c, k, "R90")


def _every_k(outputs: list[int], ticks: list[int], least: list[int]) -> list[tuple[int, ...]]:
    """For every time that a kernel can have, the least k of its convolutions; these with one more in one of them."""
    times = {
        each * -(-of // k) for each, of, low in zip(ticks, outputs, least, strict=True) for k in range(low, of + 1)
    }
    listed = dict[tuple[int, ...], None]()
    for time in sorted(times):
        if min(time // each for each in ticks) < 1:
            continue
        k = tuple(max(low, -(-of // (time // each))) for each, of, low in zip(ticks, outputs, least, strict=True))
        listed[k] = None
        room = next((place for place, of in enumerate(outputs) if k[place] < of), None)
        if room is not None:
            listed[(*k[:room], k[room] + 1, *k[room + 1 :])] = None
    return [*listed]


def _undominated(problem: WaferProblem, listed: list[_Shape], *, joined: bool) -> list[_Shape]:
    """The shapes without those that another replaces at no more cost."""
    timed, spread = problem.weights.time > 0, joined and problem.weights.distance > 0
    compared = joined and problem.weights.adapter > 0
    left = dict[object, list[_Shape]]()
    for each in sorted(listed, key=lambda each: (each.wide * each.high, each.ticks, len({*each.c}))):
        parity = (each.wide % 2, each.high % 2) if spread else None
        # Several c differ from every other's, so they are one protocol whichever they are.
        protocol = (*each.protocol[:2], each.protocol[2] if len({*each.c}) == 1 else None) if compared else None
        others = left.setdefault((protocol, parity), [])
        if not any(
            one.wide <= each.wide and one.high <= each.high and (not timed or one.ticks <= each.ticks) for one in others
        ):
            others.append(each)
    return [each for others in left.values() for each in others]


@dataclass(frozen=True)
class _Search:
    """The model of a problem whose kernels have ``shapes``; see the module."""

    problem: WaferProblem
    shapes: list[list[_Shape]]
    units: _Units
    known: float

    def solved(self, stop: StopSignal) -> Cheapest:
        """The cheapest placement below what is known."""
        if not all(self.shapes):
            return Cheapest(proven=True)  # A kernel does not fit the wafer.
        model = cp_model.CpModel()
        places = [self._kernel(model, number) for number in range(len(self.shapes))]
        model.add_no_overlap_2d([each.across for each in places], [each.up for each in places])
        cost = self._cost(model, places)
        # Cheaper by a unit at least.
        if self.known < inf:
            model.add(cost <= ceil(Fraction(self.known) * self.units.scale) - 1)
        model.minimize(cost)
        solver, status = solved(model, _TIME, 0, stop)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return Cheapest(proven=status == cp_model.INFEASIBLE)
        placed = []
        for each, shapes in zip(places, self.shapes, strict=True):
            shape = shapes[solver.value(each.which)]
            x, y = solver.value(each.x), solver.value(each.y)
            placed.append(PlacedKernel(shape.h, shape.w, shape.c, shape.k, x, y, shape.rotation))
        return Cheapest(WaferPlacement(tuple(placed)), status == cp_model.OPTIMAL)

    def _kernel(self, model: cp_model.CpModel, number: int) -> "_Place":
        shapes, wafer = self.shapes[number], self.problem.wafer
        span = wafer.width_tiles, wafer.height_tiles
        x, y = (model.new_int_var(0, each - 1, "") for each in span)
        wide, high = (model.new_int_var(1, each, "") for each in span)
        right, top = (model.new_int_var(1, each, "") for each in span)
        ticks = model.new_int_var(0, max(each.ticks for each in shapes), "")
        # Several c differ from every other's: those of each kernel have a number of their own.
        numbered = [each.c[0] if len({*each.c}) == 1 else -1 - number for each in shapes]
        h, w, c = (
            model.new_int_var(min(values), max(values), "")
            for values in ([each.h for each in shapes], [each.w for each in shapes], numbered)
        )
        which = model.new_int_var(0, len(shapes) - 1, "")
        rows = [
            (each.wide, each.high, each.ticks, each.h, each.w, numbered[row], row) for row, each in enumerate(shapes)
        ]
        model.add_allowed_assignments([wide, high, ticks, h, w, c, which], rows)
        across = model.new_interval_var(x, wide, right, "")
        up = model.new_interval_var(y, high, top, "")
        return _Place(x, y, right, top, ticks, (h, w, c), which, across, up)

    def _cost(self, model: cp_model.CpModel, places: "list[_Place]") -> cp_model.LinearExpr:
        """The cost in whole units."""
        slowest = model.new_int_var(0, max(each.ticks for shapes in self.shapes for each in shapes), "")
        for each in places:
            model.add(slowest >= each.ticks)
        terms = [self.units.tick * slowest]
        wafer = self.problem.wafer
        for one, other in ((places[source], places[target]) for source, target in self.problem.edges):
            gaps = (
                (one.x + one.right - other.x - other.right, wafer.width_tiles),
                (one.y + one.top - other.y - other.top, wafer.height_tiles),
            )
            for difference, span in gaps:
                gap = model.new_int_var(0, 2 * span, "")
                model.add(gap >= difference)
                model.add(gap >= -difference)
                terms.append(self.units.half_tile * gap)
            for mine, theirs in zip(one.protocol, other.protocol, strict=True):
                differs = model.new_bool_var("")
                model.add(mine == theirs).only_enforce_if(~differs)
                terms.append(self.units.adapter * differs)
        return cp_model.LinearExpr.sum(terms)


@dataclass(frozen=True)
class _Place:
    """The variables of a kernel."""

    x: cp_model.IntVar
    y: cp_model.IntVar
    right: cp_model.IntVar
    top: cp_model.IntVar
    ticks: cp_model.IntVar
    protocol: tuple[cp_model.IntVar, cp_model.IntVar, cp_model.IntVar]
    which: cp_model.IntVar
    across: cp_model.IntervalVar
    up: cp_model.IntervalVar
