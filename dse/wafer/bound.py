"""Lower bounds on the time and on the total cost, each with its argument.

*Area*: rectangles do not overlap, so the smallest of all kernels at a time limit have no more tiles than the wafer.

*Distance*: two rectangles that do not overlap are apart in x or in y, so their centres are at least half the sum of
their sides in that direction from each other, which is at least half the sum of their shorter sides. Of three that are
joined in a triangle, either all are apart in one direction, and the distance counts the one in the middle once more; or
one direction keeps two of them apart and the other the third from both, and the distance counts half of both sides of
these two. Either way it exceeds the shorter sides by at least e = min(short, (long − short) / 2) of one of the three.
The least of three numbers is at least a − Σ max(0, a − e) for any a, which lets each kernel be seen for itself.

*Adapters*: on a spanning forest of the graph, dynamic programming gives the protocols of least cost exactly;
edges that are not in the forest are not said to need adapters. (h, w, c) and rectangle are chosen together. A kernel
whose convolutions have unequal c is a state like any other, whose c differs on every edge.

*All at once*: at any price of a tile, the least of distance, adapters and price · area, less price · tiles of the
wafer, is a bound for a time limit (Lagrange).

*Cost*: the distance and adapters of a placement whose time lies between t and t' are at least those for the limit t',
as more time allows more rectangles. So over intervals that cover all times, the least of weight · t + bound(t') is a
bound; the interval that decides is split until that helps no more.
"""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import isqrt

import numpy as np
import numpy.typing as npt

from dse.run.progress import StopSignal, never_stop
from dse.wafer import shapes
from dse.wafer.problem import WaferProblem
from dse.wafer.shapes import MAX_TICKS, NEVER, Ints, ShapeTable, Staircases, classes_of, staircases
from dse.wafer.spread_kernel import spread
from hardware.compiled import compiled

Floats = npt.NDArray[np.float64]

_SPLITS = 300
"""Times that an interval is split at most."""

_JUDGED = 5
"""Splits after which a bound that will be met is close: within a tenth on the contest's cases that are proven."""

_WIDE = 1.05
"""An interval whose ends differ by more than this factor is split at all prices, others at those next to their own."""

_PRICES = (0.0, 0.125, 0.25, 0.5, 1.0, 2.0)
"""Prices of a tile that are tried, in shares of the cost without a price for each tile of the wafer."""

_CLOSE = 1e-9


def area_fits(problem: WaferProblem, table: ShapeTable, limit: int) -> bool:
    """Whether the smallest rectangles of all kernels within a time limit have no more tiles than the wafer."""
    shapes = staircases(problem, table, limit)
    if (shapes.area >= NEVER).any():
        return False
    return bool(shapes.area[table.group].sum() <= problem.wafer.tiles)


def area_bound_ticks(problem: WaferProblem, table: ShapeTable) -> int | None:
    """The least time limit that :func:`area_fits`, in ticks, by bisection; None where none does."""
    if not area_fits(problem, table, MAX_TICKS):
        return None
    low, high = 1, 1
    while not area_fits(problem, table, high):
        low, high = high + 1, high * 2
    while low < high:
        middle = (low + high) // 2
        if area_fits(problem, table, middle):
            high = middle
        else:
            low = middle + 1
    return low


@dataclass(frozen=True, eq=False)
class CostBound:
    """Bounds on the cost of one problem; see the module."""

    problem: WaferProblem
    table: ShapeTable

    @cached_property
    def _degree(self) -> Ints:
        return np.bincount(np.array(self.problem.edges, dtype=np.int64).ravel(), minlength=len(self.problem.kernels))

    @cached_property
    def _joined(self) -> list[list[int]]:
        joined: list[list[int]] = [[] for _ in self.problem.kernels]
        for one, other in self.problem.edges:
            joined[one].append(other)
            joined[other].append(one)
        return joined

    @cached_property
    def _triangles(self) -> tuple[tuple[int, int, int], ...]:
        """Triangles of the graph without a common kernel, the first ones by position."""
        used: set[int] = set()
        triangles = []
        for one, other in self.problem.edges:
            for third in sorted(set(self._joined[one]) & set(self._joined[other])):
                if not used & {one, other, third} and len({one, other, third}) == 3:
                    used |= {one, other, third}
                    triangles.append((one, other, third))
        return tuple(triangles)

    @cached_property
    def _forest(self) -> tuple[Ints, Ints]:
        """(parent of each kernel in a spanning forest or −1, kernels with children before parents)."""
        parent, order = np.full(len(self.problem.kernels), -1, dtype=np.int64), list[int]()
        seen: set[int] = set()
        for root in self.problem.order:
            waiting = [(root, -1)]
            while waiting:
                number, above = waiting.pop()
                if number in seen:
                    continue
                seen.add(number)
                parent[number] = above
                order.append(number)
                waiting += [(other, number) for other in self._joined[number]]
        return parent, np.array(order[::-1], dtype=np.int64)

    @cached_property
    def _classes(self) -> Ints:
        return classes_of(self.table.protocols)

    def communication(self, limit: int) -> float:
        """No placement within a time limit in ticks has less weighted distance and adapters; infinite where none is."""
        return self._communication(limit, range(len(_PRICES)))[0]

    def _communication(self, limit: int, prices: Iterable[int]) -> tuple[float, int]:
        """(the bound, which of :data:`_PRICES` gave it) over some of the prices."""
        shapes = staircases(self.problem, self.table, limit)
        plain = self._at_price(shapes, 0.0)
        if not np.isfinite(plain) or plain <= 0:
            return plain, 0
        unit = plain / self.problem.wafer.tiles
        return max((self._at_price(shapes, _PRICES[place] * unit) if place else plain, place) for place in prices)

    def _at_price(self, shapes: Staircases, price: float) -> float:
        """The bound at a price of a tile, for the limit of the staircases."""
        weights, wafer = self.problem.weights, self.problem.wafer
        if weights.adapter <= 0 or not self.problem.edges:
            return self._apart(shapes, price) - price * wafer.tiles
        parent, order = self._forest
        sides = np.array([self.table.protocols.extent, min(wafer.width_tiles, wafer.height_tiles)], dtype=np.int64)
        table, tall = self.table, self.table.protocols.tall
        shares = self._shares(shapes)
        total = _forest_cost(
            (table.group, parent, order, self._degree, shares),
            (table.ticks, table.min_k, table.outputs, tall, shapes.limit, sides),
            (table.protocols.c, table.common_c),
            np.array([weights.distance, weights.adapter, price]),
            self._classes,
        )
        # Each share stands for its whole triangle.
        whole = weights.distance * float(shares.sum()) / 3
        return float(total) + whole - price * wafer.tiles

    def _shares(self, shapes: Staircases) -> Floats:
        """What a triangle of shortest kernels exceeds, for each of its three kernels; 0 for other kernels, [N]."""
        shares = np.zeros(len(self.problem.kernels))
        shortest = shapes.least[:, -1][self.table.group]
        for each in self._triangles:
            shares[list(each)] = shortest[list(each)].min()
        return shares

    def _apart(self, shapes: Staircases, price: float) -> float:
        """Distance and area where adapters do not count: every kernel for itself, and the triangles.

        Only rectangles of the staircase matter. A longer side costs area and what a triangle exceeds; a shorter side
        that grows costs at least half of itself and saves a triangle no more.
        """
        weight, wafer = self.problem.weights.distance, self.problem.wafer
        sides = np.arange(shapes.least.shape[1])
        low, high = np.minimum(sides, shapes.least), np.maximum(sides, shapes.least)
        fits = (shapes.least < NEVER) & (low <= min(wafer.width_tiles, wafer.height_tiles)) & (low > 0)
        if not fits.any(axis=1).all():
            return np.inf
        more = weight * np.minimum(low, 0.5 * (high - low))
        area = np.where(fits, price * low * high, np.inf)
        total, extra, known = 0.0, np.zeros(len(self.problem.kernels)), dict[tuple[int, int], tuple[float, float]]()
        for number, (group, degree) in enumerate(zip(self.table.group.tolist(), self._degree.tolist(), strict=True)):
            if (group, degree) not in known:
                own = 0.5 * weight * degree * low[group] + area[group]
                known[group, degree] = float(own.min()), float((own + more[group]).min() - own.min())
            least, extra[number] = known[group, degree]
            total += least
        return total + sum(float(extra[list(each)].min()) for each in self._triangles)

    def total(self, floor: int, known: float, stop: StopSignal = never_stop, min_share: float = 0.0) -> float:
        """No placement costs less.

        Args:
            floor: ticks of :func:`area_bound_ticks`.
            known: the cost of a placement, or infinity: the bound is never above it.
            stop: called between two intervals; the bound so far holds. The first interval has all times.
            min_share: of ``known`` that the bound must have come to after :data:`_JUDGED` splits, or it is left
                there: where only a proof matters, this rules most others out in half the time.
        """
        tick = self.problem.weights.time / self.table.ticks_per_time
        end = min(MAX_TICKS, max(floor, int(known / tick)) + 1) if known < tick * MAX_TICKS else MAX_TICKS
        heap = [self._interval(tick, floor, end, range(len(_PRICES)))]
        for split in range(_SPLITS):
            least, first, after, price = heap[0]
            if least >= known * (1 - _CLOSE) or after - first == 1 or stop() is not None:
                break
            if split == _JUDGED and least < min_share * known:
                break
            heapq.heappop(heap)
            middle = max(first + 1, isqrt(first * after))
            prices = range(max(0, price - 1), min(len(_PRICES), price + 2))
            if after > first * _WIDE:
                prices = range(len(_PRICES))
            heapq.heappush(heap, self._interval(tick, first, middle, prices))
            heapq.heappush(heap, self._interval(tick, middle, after, prices))
        return min(known, heap[0][0])

    def _interval(self, tick: float, first: int, after: int, prices: Iterable[int]) -> tuple[float, int, int, int]:
        """(the bound for times of ``first`` to ``after`` − 1 ticks, first, after, the price that gave it)."""
        bound, price = self._communication(after - 1, prices)
        return tick * first + bound, first, after, price


@compiled
def _forest_cost(graph, sizing, features, weights, classes):
    """The least of Σ (distance · (degree / 2 · short − max(0, share − e)) + price · area) + adapters of the forest.

    ``graph``: group, parent, order (children first), degree and share in a triangle of the kernels; ``sizing``: ticks,
    min_k, outputs, tall, the limit, and the sides of the wafer; ``features``: c and common_c; ``weights``: of a tile
    of distance, an adapter, and a tile of area.
    """
    group, parent, order, degree, shares = graph
    ticks, min_k, outputs, tall, limit, sides = sizing
    c, common_c = features
    count, states = len(group), len(tall)
    costs = np.zeros((count, states))
    cheapest, message = np.empty((len(classes), states)), np.empty(states)
    total = 0.0
    for number in order:
        kind = group[number]
        least = np.inf
        for state in range(states):
            wide, high = shapes.width_of(ticks[kind, state], min_k[kind, state], outputs[kind], limit), tall[state]
            if wide > sides[0] or min(wide, high) > sides[1]:
                costs[number, state] = np.inf
                continue
            short, more = min(wide, high), 0.5 * abs(wide - high)
            apart = 0.5 * degree[number] * short - max(0.0, shares[number] - min(short, more))
            costs[number, state] += weights[0] * apart + weights[2] * wide * high
            least = min(least, costs[number, state])
        if parent[number] < 0:
            total += least
        else:
            common = min(common_c[kind], common_c[group[parent[number]]])
            spread(costs[number], classes, weights[1], c, common, cheapest, message)
            for state in range(states):
                costs[parent[number], state] += message[state]
    return total
