"""How fast work goes, and how long it will still take where that can be told."""

from collections import deque
from dataclasses import dataclass, field

RECENT_S = 20.0
"""How far back the recent pace looks."""

MIN_ITEMS = 3
"""Finished items without which nothing is foretold."""


@dataclass
class Pace:
    """The progress of one phase, told as it comes.

    An estimate is given only where there is ground for one: a total that has not changed, a few finished items, and
    then the slower of the pace overall and the recent one, since what is left is often the slow part. The time since
    the last finished item counts as if it were the pace by now.

    Attributes:
        began_s: when the phase began.
    """

    began_s: float
    _total: int | None = None
    _is_fixed: bool = True
    _recent: deque[tuple[float, int]] = field(default_factory=deque)

    def update(self, now_s: float, done: int, total: int) -> None:
        """Note that ``done`` of ``total`` items were finished at ``now_s``."""
        self._is_fixed = self._is_fixed and self._total in (None, total)
        self._total = total
        if not self._recent or self._recent[-1][1] != done:
            self._recent.append((now_s, done))
        while len(self._recent) > 2 and self._recent[1][0] < now_s - RECENT_S:
            self._recent.popleft()

    def rate(self, now_s: float) -> str:
        """How many items a second; of slow work how long each takes; empty where none is finished."""
        done, elapsed_s = self._done, now_s - self.began_s
        if not done or elapsed_s <= 0:
            return ""
        return f"{done / elapsed_s:,.0f}/s" if done >= elapsed_s else f"{elapsed_s / done:,.1f} s each"

    def left_s(self, now_s: float) -> float | None:
        """Seconds until the end, about; None where there is no ground for an estimate, and at the end."""
        done, total = self._done, self._total
        if not self._is_fixed or total is None or not MIN_ITEMS <= done < total:
            return None
        (first_s, first_done), (last_s, last_done) = self._recent[0], self._recent[-1]
        overall_s = (now_s - self.began_s) / done
        recent_s = (last_s - first_s) / (last_done - first_done) if last_done > first_done else 0.0
        item_s = max(overall_s, recent_s, now_s - last_s)
        return (total - done) * item_s

    @property
    def _done(self) -> int:
        return self._recent[-1][1] if self._recent else 0


def duration_text(seconds: float) -> str:
    """A duration for people: ``40 s``, ``3 min``, ``2.5 h``."""
    if seconds < 100:
        return f"{max(1.0, seconds):,.0f} s"
    return f"{seconds / 60:,.0f} min" if seconds < 6000 else f"{seconds / 3600:,.1f} h"
