"""Slicing trees over the intervals of a sequence: dynamic programming over all of them at once.

Of all slicing trees whose leaves, read from left to right, are a given sequence of kernels, one of least width for each
height follows from the intervals of the sequence, as the cheapest order of a chain of matrix products does: an interval
is a kernel, or two shorter intervals next to or above each other, and curves of widths or heights add up (Stockmeyer,
"Optimal orientations of cells in slicing floorplan designs", 1983). Rows of columns of kernels are some of these trees.

Distance counts by the way from the last kernel of the one part to the first of the other, for every edge that passes
from the one to the other; both parts may be mirrored for that. So the trees are exactly the smallest where distance has
no price, and a price makes some of them that are larger and have less distance. One rectangle is kept for each interval
and bound, so with a price nothing is exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dse.wafer.search.interval_dp_kernels import BOUND, DISTANCE, ENTRIES, HIGH, SPLIT, TURNS, WIDE, fill
from dse.wafer.search.ladder import Ladder, own
from dse.wafer.search.slicing_annealing import SlicingCandidate, candidate_of
from dse.wafer.search.slicing_tree_kernels import ABOVE, BESIDE
from dse.wafer.shapes import Ints

_ENTRIES = 1_000_000
"""Rectangles that all tables have together, about: 48 bytes each. Where kernels are many, not every side is a bound."""


@dataclass(frozen=True, eq=False)
class IntervalTask:
    """A sequence of all kernels, the level of a ladder, and what a tile of distance counts, in tiles of length."""

    order: Sequence[int]
    level: int
    price: float


@dataclass(frozen=True, eq=False)
class IntervalTrees:
    """The best tree of a task for one ladder, as a function of the task alone, for executors."""

    ladder: Ladder

    def __reduce__(self) -> tuple[Any, ...]:
        return IntervalTrees, (self.ladder,)

    @cached_property
    def _own(self) -> Ladder:
        return own(self.ladder)

    @cached_property
    def _bounds(self) -> Ints:
        return bounds_of(self._own)

    @cached_property
    def _room(self) -> tuple[Any, ...]:
        """(cells, tables, scores) of :func:`~dse.wafer.search.interval_dp_kernels.fill`."""
        count = len(self.ladder.group)
        cells = np.full((count, count), -1, dtype=np.int64)
        cells[np.triu_indices(count)] = np.arange(count * (count + 1) // 2)
        shape = (count * (count + 1) // 2, 2, len(self._bounds))
        return cells, np.zeros((*shape, ENTRIES), dtype=np.int32), np.zeros(shape)

    def __call__(self, task: IntervalTask) -> SlicingCandidate | None:
        """The tree of least distance among those kept for the whole sequence; None where none fits the wafer."""
        ladder, (cells, tables, scores) = self._own, self._room
        order = np.array(task.order, dtype=np.int64)
        index_of = np.searchsorted(self._bounds, np.arange(ladder.size[2] + 1)).astype(np.int64)
        least, bounded = (array[task.level][ladder.group] for array in (ladder.least, ladder.bounded))
        crossing = crossings(ladder, order)
        fill(
            least, bounded, order, crossing, self._bounds, index_of, 0.5 * task.price, cells, tables, scores
        )  # fmt: skip
        root, finite = tables[cells[0, -1]], np.isfinite(scores[cells[0, -1]])
        fits = finite & (root[..., WIDE] <= ladder.size[0]) & (root[..., HIGH] <= ladder.size[1])
        if not fits.any():
            return None
        table, bound = np.unravel_index(np.argmin(np.where(fits, root[..., DISTANCE], np.inf)), fits.shape)
        chain = self._chain(order, (0, len(order) - 1), (int(table), int(bound)), (0, 0))
        return candidate_of(ladder, _expression(chain), task.level)

    def _chain(
        self, order: Ints, interval: tuple[int, int], at: tuple[int, int], mirrored: tuple[int, int]
    ) -> tuple[int, list[list[int]]]:
        """(how the parts of a rectangle are joined, their expressions), by its table and bound, mirrored in x and y.

        Parts that are joined in the same way are parts of the whole: expressions are normalised.
        """
        begin, end = interval
        if begin == end:
            return BESIDE, [[int(order[begin])]]
        cells, tables, _ = self._room
        rectangle = tables[cells[begin, end]][at]
        split, turned = divmod(int(rectangle[SPLIT]), 2)
        turns, inside = int(rectangle[TURNS]), (turned, int(rectangle[BOUND]))
        chains = [
            self._chain(order, (begin, split), inside, (mirrored[0] ^ turns & 1, mirrored[1] ^ turns >> 1 & 1)),
            self._chain(order, (split + 1, end), inside, (mirrored[0] ^ turns >> 2 & 1, mirrored[1] ^ turns >> 3 & 1)),
        ]
        join = ABOVE if turned else BESIDE
        parts = list[list[int]]()
        for chain in reversed(chains) if mirrored[turned] else chains:
            parts += chain[1] if chain[0] == join else [_expression(chain)]
        return join, parts


def _expression(chain: tuple[int, list[list[int]]]) -> list[int]:
    """The expression of parts that are joined in one way."""
    join, (first, *others) = chain
    return [*first, *(symbol for part in others for symbol in (*part, join))]


def bounds_of(ladder: Ladder) -> Ints:
    """The sides of rectangles that trees are kept for: every so many tiles, and those of the wafer."""
    count, (width, height, extent) = len(ladder.group), (int(each) for each in ladder.size)
    step = -(-count * (count + 1) * extent // _ENTRIES)
    return np.unique(np.array([*range(step, extent + 1, step), width, height], dtype=np.int64))


def crossings(ladder: Ladder, order: Ints) -> Ints:
    """[N] how many edges pass before each place of a sequence."""
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    changes = np.zeros(len(order) + 1, dtype=np.int64)
    for first, last in np.sort(place[ladder.edges], axis=1).tolist():
        changes[first + 1] += 1
        changes[last + 1] -= 1
    return np.cumsum(changes)[:-1]
