"""Which of many nested ranges is the innermost around a moment: operators around a launch, modules around an operator.

The ranges of one thread nest as calls do: of two that overlap one holds the other.
"""

import numpy as np
from numpy.typing import NDArray

from dse.importer.profile.profile import NONE, Integers

_USUAL_DEPTH = 64
"""Of ranges that nest in one another; profiles that nest deeper are searched in another way."""


def parents(start_ns: Integers, end_ns: Integers) -> Integers:
    """The row of the innermost range around each range of one thread; :data:`NONE` for the outermost.

    Args:
        start_ns: ascending.
        end_ns: descending where starts are equal.
    """
    rows: list[int] = []
    open_rows: list[int] = []
    ends = end_ns.tolist()
    for row, start in enumerate(start_ns.tolist()):
        while open_rows and ends[open_rows[-1]] <= start:
            open_rows.pop()
        rows.append(open_rows[-1] if open_rows else NONE)
        open_rows.append(row)
    return np.array(rows, dtype=np.int64)


def around(start_ns: Integers, end_ns: Integers, above: Integers, moments_ns: Integers) -> Integers:
    """The innermost range of one thread around each moment, both ends included; :data:`NONE` where there is none.

    Args:
        start_ns: as of :func:`parents`.
        end_ns: likewise.
        above: what :func:`parents` returns of them.
        moments_ns: in any order.
    """
    rows = np.searchsorted(start_ns, moments_ns, side="right") - 1
    for _ in range(_USUAL_DEPTH):
        outside = (rows >= 0) & (end_ns[rows] < moments_ns)
        if not outside.any():
            return rows
        rows[outside] = above[rows[outside]]
    # Ends grow outwards, so that jumps of 2ᵏ ranges find the first that has not ended, whatever the depth.
    jumps = [np.where(above >= 0, above, np.arange(len(above)))]
    while not np.array_equal(further := jumps[-1][jumps[-1]], jumps[-1]):
        jumps.append(further)
    for jump in reversed(jumps):
        open_rows = rows >= 0
        farther = np.where(open_rows, jump[rows], NONE)
        rows = np.where(open_rows & (end_ns[farther] < moments_ns), farther, rows)
    outside = (rows >= 0) & (end_ns[rows] < moments_ns)
    rows[outside] = above[rows[outside]]
    return rows


def first_around(above: Integers, is_one: NDArray[np.bool_]) -> Integers:
    """Of each range the innermost one around it, or itself, that ``is_one``; :data:`NONE` where none is."""
    jump = np.where(is_one | (above < 0), np.arange(len(above)), above)
    while not np.array_equal(further := jump[jump], jump):
        jump = further
    return np.where(is_one[jump], jump, NONE)


def depths(above: Integers) -> Integers:
    """Ranges around each range."""
    jump = np.where(above < 0, np.arange(len(above)), above)
    depth = (above >= 0).astype(np.int64)
    while not np.array_equal(further := jump[jump], jump):
        depth, jump = depth + depth[jump], further
    return depth


class Nested:
    """Ranges of many threads, and what is innermost around moments of them.

    Args:
        thread: of each range.
        start_ns: of each range.
        end_ns: of each range.
    """

    def __init__(self, thread: Integers, start_ns: Integers, end_ns: Integers) -> None:
        order = np.lexsort((-end_ns, start_ns, thread))
        self._order = order
        self._start_ns, self._end_ns = start_ns[order], end_ns[order]
        sorted_threads = thread[order]
        threads, firsts = np.unique(sorted_threads, return_index=True)
        lasts = np.searchsorted(sorted_threads, threads, side="right")
        self._parts = {
            int(each): slice(int(first), int(last)) for each, first, last in zip(threads, firsts, lasts, strict=True)
        }
        self._above = {each: parents(self._start_ns[part], self._end_ns[part]) for each, part in self._parts.items()}
        self.parents = np.full(len(order), NONE, np.int64)
        for each, part in self._parts.items():
            above = self._above[each]
            self.parents[order[part]] = np.where(above >= 0, order[part][above], NONE)

    def around(self, thread: Integers, moments_ns: Integers) -> Integers:
        """The row of the innermost range of the same thread around each moment; :data:`NONE` where there is none."""
        rows = np.full(len(moments_ns), NONE, np.int64)
        for each in np.unique(thread).tolist():
            part = self._parts.get(each)
            if part is None:
                continue
            here = thread == each
            local = around(self._start_ns[part], self._end_ns[part], self._above[each], moments_ns[here])
            rows[here] = np.where(local >= 0, self._order[part][local], NONE)
        return rows
