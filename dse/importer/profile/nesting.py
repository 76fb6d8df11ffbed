"""Which of many nested ranges is the innermost around a moment: operators around a launch, modules around an operator.

The ranges of one thread nest as calls do: of two that overlap one holds the other.
"""

import numpy as np

from dse.importer.profile.profile import NONE, Integers


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
    while True:
        outside = (rows >= 0) & (end_ns[rows] < moments_ns)
        if not outside.any():
            return rows
        rows[outside] = above[rows[outside]]


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
