"""The rate of work, and its remaining time where that can be estimated."""

from collections import deque
from dataclasses import dataclass, field

RECENT_S = 20.0
"""Time over which the recent pace is taken."""

MIN_ITEMS = 3
"""Finished items that an estimate needs."""


@dataclass
class Pace:
    """The progress of one phase.

    An estimate needs a total that has not changed and a few finished items. It takes the slower of the overall and the
    recent pace, since what is left is often the slow part; the time since items were last finished counts as a pace
    too, of as many items as were finished together then. The rate is that of the estimate.

    Items that are finished as the phase begins took an unknown time, or none (they come from a journal): the pace is
    that of the others.

    Attributes:
        began_s: when the phase began.
    """

    began_s: float
    _total: int | None = None
    _is_fixed: bool = True
    _done_at_begin: int = 0
    _recent: deque[tuple[float, int]] = field(default_factory=deque)

    def update(self, now_s: float, done: int, total: int) -> None:
        """Note that ``done`` of ``total`` items were finished at ``now_s``."""
        self._is_fixed = self._is_fixed and self._total in (None, total)
        self._total = total
        if not self._recent and now_s <= self.began_s:
            self._done_at_begin = done
        if not self._recent or self._recent[-1][1] != done:
            self._recent.append((now_s, done))
        while len(self._recent) > 2 and self._recent[1][0] < now_s - RECENT_S:
            self._recent.popleft()

    def rate(self, now_s: float) -> str:
        """Items per second, or for slow work seconds per item; empty where none is finished."""
        item_s = self._item_s(now_s)
        if item_s <= 0:
            return ""
        if item_s > 1:
            return f"{item_s:,.1f} s each"
        return f"{1 / item_s:,.0f}/s" if item_s < 0.1 else f"{1 / item_s:.2g}/s"

    def left_s(self, now_s: float) -> float | None:
        """Estimated seconds until the end; None where no estimate can be made, and at the end."""
        done, total = self._done, self._total
        if not self._is_fixed or total is None or not self._done_at_begin + MIN_ITEMS <= done < total:
            return None
        return (total - done) * self._item_s(now_s)

    def _item_s(self, now_s: float) -> float:
        """Seconds for one item at the slowest of the three paces; 0 where none is finished."""
        if self._done <= self._done_at_begin:
            return 0.0
        (first_s, first_done), (last_s, last_done) = self._recent[0], self._recent[-1]
        overall_s = (now_s - self.began_s) / (last_done - self._done_at_begin)
        recent_s = (last_s - first_s) / (last_done - first_done) if last_done > first_done else 0.0
        last_items = last_done - (self._recent[-2][1] if len(self._recent) > 1 else 0)
        return max(overall_s, recent_s, (now_s - last_s) / max(1, last_items))

    @property
    def _done(self) -> int:
        return self._recent[-1][1] if self._recent else 0


def duration_text(seconds: float) -> str:
    """A duration for people: ``40 s``, ``3 min``, ``2.5 h``."""
    if seconds < 100:
        return f"{max(1.0, seconds):,.0f} s"
    return f"{seconds / 60:,.0f} min" if seconds < 6000 else f"{seconds / 3600:,.1f} h"
