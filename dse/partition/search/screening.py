"""Screened refinement: of many changes of the best partition known, the one that promises most is evaluated.

The changes are those of :mod:`dse.partition.search.refining`. Which of them promises most is learned while partitions
are evaluated, from how long each chip was busy with them (:mod:`dse.partition.search.stage_times`), so an evaluation
teaches something about every chip, also where it found nothing better. For evaluators that take longer than some
milliseconds, which is what the choice takes.
"""

from dataclasses import dataclass

import numpy as np

from dse.partition.constraints.sampler import seeds_of
from dse.partition.problem import Chips, Words
from dse.partition.search.context import SearchContext, SearchResult
from dse.partition.search.refining import Changes, refine_from, starts_of
from dse.partition.search.sampling import climb_with
from dse.partition.search.stage_times import StagePrior, StageTimes, reference_prior

CHANGES = 16
"""Changes of which one is evaluated: the choice takes about half a millisecond for each, on graphs of some hundred
operators."""


@dataclass(frozen=True)
class Screening:
    """A form of the search.

    Attributes:
        prior: of how long stages take; None: nothing is learned of that.
        changes: of which one is evaluated.
    """

    prior: StagePrior | None
    changes: int = CHANGES

    def __call__(self, context: SearchContext) -> SearchResult:
        """The best of ``context.samples`` evaluations; for latency, which no single stage decides, refinement."""
        first = starts_of(context)[: context.samples]
        if context.problem.objective != "throughput":
            return refine_from(context, first)
        chooser = _Chooser(context, StageTimes(context.problem, self.prior), self.changes, first)
        return climb_with(context, first, chooser.next)


class _Chooser:
    """Chooses the partitions that are evaluated, one after the other.

    Args:
        context: what is worked on.
        times: learns from each.
        changes: of which one is chosen.
        first: partitions that are evaluated before, [B, N].
    """

    def __init__(self, context: SearchContext, times: StageTimes, changes: int, first: Chips) -> None:
        self._context, self._times, self._count = context, times, changes
        self._changes = Changes(context)
        self._evaluated, self._number, self._cost_s = first, len(first), np.inf

    def next(self, best: Chips, _draw: np.random.Generator, _seeds: Words) -> Chips:
        """The partition [1, N] to evaluate after the best one [N]."""
        busy_s = self._context.evaluator.busy_s(self._evaluated)
        self._cost_s = min(self._cost_s, float(busy_s.max(axis=(1, 2)).min()))
        self._times.measure(self._evaluated, busy_s)
        changes = self._changes.of(best, seeds_of(self._context.seed, self._number * self._count, self._count))
        # Where nothing fits memory yet, nothing is known that would tell one change from another.
        place = self._times.best(changes, self._cost_s) if np.isfinite(self._cost_s) else 0
        self._evaluated, self._number = changes[place : place + 1], self._number + 1
        return self._evaluated


def screen(context: SearchContext) -> SearchResult:
    """Screened refinement that knows nothing before of how long stages take, from
    :func:`~dse.partition.search.refining.starts_of` on.
    """
    return Screening(reference_prior())(context)
