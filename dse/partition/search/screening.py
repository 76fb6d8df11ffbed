"""Screened refinement: of many changes of the best partition, that of largest expected improvement is evaluated.

The changes are those of :mod:`dse.partition.search.refining`. What they may improve follows from how long each chip
was busy with the partitions evaluated so far (:mod:`dse.partition.search.stage_times`), so an evaluation says something
about every chip, also where it was no improvement. For evaluators that take longer than some milliseconds, which is
what the choice takes.
"""

import numpy as np

from dse.partition.constraints.sampler import seeds_of
from dse.partition.problem import Chips, Words
from dse.partition.search.context import SearchContext, SearchResult
from dse.partition.search.refining import Changes, refine_from, starts_of
from dse.partition.search.sampling import climb_with
from dse.partition.search.stage_times import StageTimes

CHANGES = 16
"""Changes of which one is evaluated: the choice takes about half a millisecond for each, on graphs of some hundred
operators."""


def screen(context: SearchContext) -> SearchResult:
    """The best of ``samples`` evaluations, from :func:`~dse.partition.search.refining.starts_of` on."""
    return screen_from(context, starts_of(context)[: context.samples])


def screen_from(context: SearchContext, first: Chips) -> SearchResult:
    """The best of ``first`` [B, N], which count as evaluations, and of changes of largest expected improvement.

    For latency, which no single stage decides, it is :func:`~dse.partition.search.refining.refine_from`.
    """
    if context.problem.objective != "throughput":
        return refine_from(context, first)
    return climb_with(context, first, _Chooser(context, first).next)


class _Chooser:
    """Chooses the partitions that are evaluated, in sequence.

    Args:
        context: what is worked on.
        first: partitions that are evaluated before, [B, N].
    """

    def __init__(self, context: SearchContext, first: Chips) -> None:
        self._context, self._times, self._changes = context, StageTimes(context.problem), Changes(context)
        self._evaluated, self._number, self._cost_s = first, len(first), np.inf

    def next(self, best: Chips, _draw: np.random.Generator, _seeds: Words) -> Chips:
        """The partition [1, N] to evaluate after the best one [N]."""
        busy_s = self._context.evaluator.busy_s(self._evaluated)
        self._cost_s = min(self._cost_s, float(busy_s.max(axis=(1, 2)).min()))
        self._times.measure(self._evaluated, busy_s)
        changes = self._changes.of(best, seeds_of(self._context.seed, self._number * CHANGES, CHANGES))
        # Where nothing fits memory yet, nothing is known that would tell one change from another.
        place = self._times.best(changes, self._cost_s) if np.isfinite(self._cost_s) else 0
        self._evaluated, self._number = changes[place : place + 1], self._number + 1
        return self._evaluated
