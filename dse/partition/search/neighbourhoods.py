"""Large-neighbourhood search: CP-SAT reassigns the operators of a few neighbouring chips at a time.

From a partition on, again and again a window of chips is drawn, mostly one with the slowest chip or link, and
:mod:`dse.partition.search.window_model` looks for other chips of the window for its operators, with a faster slowest
stage of the window; what is outside does not change by that, which is derived there. (The method: Shaw, "Using
constraint programming and local search methods to solve vehicle routing problems", CP 1998.)

What is accepted has less at the first place where the times of the stages, the slowest first, differ from those before.
So where several stages are equally slow, one of them less is progress, as is a faster window elsewhere, which makes
room for the slowest one; and no partition comes twice. A window where nothing was found is not drawn again before
something in it or next to it has changed; the search ends early when no window is left.

Which of the windows is drawn is left to chance, unless the caller has a preference, such as a learned one.

Windows, seeds and limits do not depend on the clock. The method works on throughput under the reference evaluator; with
another objective or evaluator an accepted partition is priced by the context's evaluator.
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import get_args

import numpy as np

from dse.partition.check import Stages, stages, violations
from dse.partition.evaluators.analytical import AnalyticalEvaluator
from dse.partition.problem import Floats
from dse.partition.search.context import SearchContext, SearchResult, on_one_chip, throughput_of
from dse.partition.search.order_search import order_search
from dse.partition.search.sampling import greedy
from dse.partition.search.window_model import SAME, Chip, Form, Window, improve_window

Preference = Callable[[Sequence[Window], Chip], Floats]
"""How much windows [W] of a partition [N] are preferred: weights of at least 0, one of them above, [W]."""

WINDOWS = 200
"""Windows of a search by itself."""

EFFORT = 3.0
"""What they may take together, in CP-SAT's deterministic seconds, each one to three real ones."""

_WINDOW_EFFORT = 0.3
"""What one window may take of that."""

_WIDTHS = range(2, 6)
"""Chips of a window, without the one that may be added."""

_ELSEWHERE = 0.25
"""Share of the windows that need not hold the slowest stage."""

_MAX_BOOLEANS = 2_500
"""Freed operators × chips of a window that is worth its time."""


def neighbourhood_search(
    context: SearchContext, windows: int = WINDOWS, effort: float = EFFORT, preference: Preference | None = None
) -> SearchResult:
    """The best partition that windows lead to from the best of the context's ``starts``, or else of simple methods.

    Those are everything on one chip, greedy, and one round of walks over orders. Where none of these fits memory, there
    is nothing to begin with, and they are the answer.

    Args:
        context: what is worked on.
        windows: how many are tried at most.
        effort: what they may take together, in CP-SAT's deterministic seconds.
        preference: windows are drawn in proportion to it; None: all are as likely.
    """
    best, start = _first_result(context)
    if start is None:
        return best
    search = _Windows(context, start, preference)
    for number in range(windows):
        if effort <= 0 or context.stop() is not None or not search.can_go_on:
            break
        chip, spent = search.step(min(_WINDOW_EFFORT, effort))
        effort -= spent
        if chip is not None:
            priced = chip[None].astype(np.int8)
            best = best.with_candidates(priced, context.evaluator.costs(priced))
        context.progress("reassigned windows of chips", number + 1, windows)
    return best


def _first_result(context: SearchContext) -> tuple[SearchResult, Chip | None]:
    """(what is known before the first window, the one of it that has the most throughput; None where none fits)."""
    if context.starts:
        starts = np.concatenate([on_one_chip(context), np.array(context.starts, dtype=np.int8)])
        best = SearchResult().with_candidates(starts, context.evaluator.costs(starts))
    else:
        first, walked = greedy(context), order_search(context, rounds=1)
        better = walked if walked.cost_s < first.cost_s else first
        best = SearchResult(better.chip, better.cost_s, first.evaluations + walked.evaluations)
        known = [each.chip for each in (first, walked) if each.chip is not None]
        starts = np.array([*on_one_chip(context).tolist(), *known], dtype=np.int8)
    costs = AnalyticalEvaluator(throughput_of(context.problem)).costs(starts)
    cheapest = int(np.argmin(costs))
    return best, starts[cheapest].astype(np.int64) if np.isfinite(costs[cheapest]) else None


class _Windows:
    """A partition that windows make better, step by step.

    Args:
        context: what is worked on.
        chip: a valid partition, [N].
        preference: which windows are drawn.
    """

    def __init__(self, context: SearchContext, chip: Chip, preference: Preference | None) -> None:
        self._context, self._preference = context, preference
        self._problem = throughput_of(context.problem)
        self._draw = np.random.default_rng(context.seed)
        self._chip, self._now = chip, stages(self._problem, chip.tolist())
        self._failed: set[Window] = set()
        self._left = self._windows()

    @property
    def can_go_on(self) -> bool:
        """Whether there is a window that may still be better."""
        return bool(self._left)

    def step(self, max_effort: float) -> tuple[Chip | None, float]:
        """(the better partition of a window, [N], if there is one; what that took)."""
        window = self._drawn()
        seed = int(self._draw.integers(2**31))
        improved = improve_window(self._problem, self._chip, self._now, window, max_effort, seed, self._context.stop)
        used = len(self._now.chip_s)
        if improved.chip is None or not self._is_accepted(improved.chip):
            self._failed |= {window, *(self._impossible_with(window) if improved.impossible else ())}
            self._left = [each for each in self._left if each not in self._failed]
            return None, improved.effort
        # Where the number of chips has changed, those behind the window have other numbers now.
        same = used == len(self._now.chip_s)
        self._failed = {each for each in self._failed if same and not _are_near(each, window)}
        self._left = self._windows()
        return improved.chip, improved.effort

    def _is_accepted(self, chip: Chip) -> bool:
        """Continue with a partition if it is valid and better."""
        if violations(self._problem, chip.tolist()):
            return False
        after = stages(self._problem, chip.tolist())
        if not _is_better(after, self._now):
            return False
        self._chip, self._now = chip, after
        return True

    def _impossible_with(self, window: Window) -> list[Window]:
        """The windows that cannot be better where ``window`` cannot.

        Those inside it that are as slow as it is: if one of them could be faster, or have fewer stages as slow as that,
        so could the whole.
        """
        limit_s = max(window.times_s(self._now)) * (1 - SAME)
        return [each for each in self._left if window.allows(each) and max(each.times_s(self._now)) >= limit_s]

    def _drawn(self) -> Window:
        """One of the windows that are left."""
        slowest = self._slowest_chips()
        around = [each for each in self._left if each.first <= slowest[0] and slowest[-1] <= each.last]
        among = around if around and self._draw.random() >= _ELSEWHERE else self._left
        if self._preference is None:
            return among[int(self._draw.integers(len(among)))]
        weights = self._preference(among, self._chip)
        return among[int(self._draw.choice(len(among), p=weights / weights.sum()))]

    def _slowest_chips(self) -> tuple[int, ...]:
        """The chip that is slowest, or those at the ends of the slowest link; of equals a random one."""
        now, limit_s = self._now, self._now.slowest_s * (1 - SAME)
        chips = [(chip,) for chip, time_s in enumerate(now.chip_s) if time_s >= limit_s]
        links = [(link, link + 1) for link, time_s in enumerate(now.link_s) if time_s >= limit_s]
        slowest = [*chips, *links]
        return slowest[int(self._draw.integers(len(slowest)))]

    def _windows(self) -> list[Window]:
        """The windows of the partition that have not failed and are not too large."""
        used = int(self._chip.max()) + 1
        before = np.concatenate([[0], np.cumsum(np.bincount(self._chip, minlength=used))])
        windows = []
        added = range(1 + (used < self._problem.chips))
        for width, more, form, first in product(_WIDTHS, added, get_args(Form), range(used)):
            last = min(first + width, used) - 1
            window = Window(first, last, more, form)
            booleans = (before[last + 1] - before[first]) * (last - first + more)
            useful = window.last + window.added > window.first and max(window.times_s(self._now)) > 0
            if useful and 0 < booleans <= _MAX_BOOLEANS and window not in self._failed:
                windows.append(window)
        return sorted(set(windows))


def _is_better(after: Stages, before: Stages) -> bool:
    """Whether the stages, the slowest first, have less at the first place where they differ."""
    times = [np.sort([*each.chip_s, *each.link_s])[::-1] for each in (after, before)]
    count = max(map(len, times))
    new, old = (np.pad(each, (0, count - len(each))) for each in times)
    differ = np.flatnonzero(np.abs(new - old) > SAME * before.slowest_s)
    return len(differ) > 0 and bool(new[differ[0]] < old[differ[0]])


def _are_near(one: Window, other: Window) -> bool:
    """Whether they have chips in common or are neighbours."""
    return one.first <= other.last + 1 and other.first <= one.last + 1
