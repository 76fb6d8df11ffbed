"""Staircases for several time limits at once: what searches look sizes up in."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dse.wafer.problem import WaferProblem
from dse.wafer.shapes import Ints, ShapeTable, Staircases, staircases

Words = npt.NDArray[np.int32]


class Ladder(NamedTuple):
    """A problem as arrays, with the sizes of all its kernels for L time limits: what compiled searches read.

    Attributes:
        group: [N] kernels of one group have the same sizes.
        edges: [E, 2] producer and consumer.
        size: [3] width and height of the wafer, and the longer of them.
        weights: [4] of a tick, a tile of distance, an adapter, and of a tile that a row is too long.
        limits: [L] ticks, rising.
        least: [L, groups, extent + 1] the least other side of a rectangle of which one side is at most so long.
        bounded: [L, groups, extent + 1] how long that side is.
        choice: [L, groups, extent + 1] the (h, w, c) of that rectangle.
        ticks, min_k, outputs, common_c: of :class:`~dse.wafer.shapes.ShapeTable`.
        widest: [groups] 3·ΣK tiles, which no kernel is wider than.
        h, w, c, tall, first: of :class:`~dse.wafer.shapes.Protocols`.
    """

    group: Ints
    edges: Ints
    size: Ints
    weights: npt.NDArray[np.float64]
    limits: Ints
    least: Words
    bounded: Words
    choice: Words
    ticks: Ints
    min_k: Ints
    outputs: Ints
    common_c: Ints
    widest: Ints
    h: Ints
    w: Ints
    c: Ints
    tall: Ints
    first: Ints


_OVERFLOW = 4.0
"""What a tile that a row is too long counts, in tiles of distance: above what it could save."""


def ladder_of(problem: WaferProblem, table: ShapeTable, limits: Sequence[int]) -> Ladder:
    """The sizes of all kernels for ``limits`` in ticks.

    Where adapters do not count, each limit is lowered to what its staircases really take; where they do, kernels may
    have other rectangles than these.
    """
    known, wafer, weights = table.protocols, problem.wafer, problem.weights
    sized = staircases if weights.adapter > 0 else _tight
    levels = list({each.limit: each for each in (sized(problem, table, limit) for limit in sorted(limits))}.values())
    least = np.stack([each.least for each in levels])
    edges = np.array(problem.edges, dtype=np.int64).reshape(-1, 2)
    tick = weights.time / table.ticks_per_time
    # Where distance counts little, a tick does: a row that is too long costs time.
    overflow = _OVERFLOW * max(weights.distance, weights.adapter, tick * levels[0].limit / known.extent)
    return Ladder(
        group=table.group,
        edges=edges,
        size=np.array([wafer.width_tiles, wafer.height_tiles, known.extent], dtype=np.int64),
        weights=np.array([tick, weights.distance, weights.adapter, overflow], dtype=np.float64),
        limits=np.array([each.limit for each in levels], dtype=np.int64),
        least=least.astype(np.int32),
        bounded=np.stack([each.bounded for each in levels]).astype(np.int32),
        choice=np.stack([each.choice for each in levels]).astype(np.int32),
        ticks=table.ticks,
        min_k=table.min_k,
        outputs=table.outputs,
        common_c=table.common_c,
        widest=3 * table.outputs.sum(axis=1),
        h=known.h,
        w=known.w,
        c=known.c,
        tall=known.tall,
        first=known.first,
    )


def rungs(low: int, high: int, count: int) -> list[int]:
    """About ``count`` time limits from ``low`` to ``high``, each by the same factor above the one before."""
    return sorted({int(each) for each in np.round(np.geomspace(low, max(low + 1, high), count))})


def turned(ladder: Ladder) -> Ladder:
    """The ladder of the wafer turned by a right angle: every kernel may be turned, so its sizes are the same."""
    return ladder._replace(size=ladder.size[[1, 0, 2]])


def own(ladder: Ladder) -> Ladder:
    """The ladder with arrays that can be written.

    What comes from another process can be read only, for which compiled code would be compiled again.
    """
    return Ladder._make(array if array.flags.writeable else array.copy() for array in ladder)


def _tight(problem: WaferProblem, table: ShapeTable, limit: int) -> Staircases:
    """The staircases for a limit, with the time of the slowest of their rectangles as the limit."""
    shapes = staircases(problem, table, limit)
    slowest = 1
    for group in range(len(shapes.choice)):
        chosen = np.unique(shapes.choice[group][shapes.choice[group] >= 0])
        for place in np.flatnonzero(table.outputs[group]):
            ticks, outputs = table.ticks[group, chosen, place], table.outputs[group, place]
            k = np.maximum(table.min_k[group, chosen, place], -(-outputs // (limit // ticks)))
            slowest = max(slowest, int((ticks * -(-outputs // k)).max(initial=1)))
    return replace(shapes, limit=slowest)
