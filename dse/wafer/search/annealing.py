"""One run of simulated annealing from a layout."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dse.wafer.search.anneal_kernels import anneal
from dse.wafer.search.ladder import Ladder
from dse.wafer.search.layout import Layout, copied, measure
from dse.wafer.search.layout_kernels import measured

_COOLED = 1e-3
"""The last temperature, of the first."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A layout, the limit in ticks for which its kernels are sized, the ticks that it takes, and its cost.

    The cost of what is not legal is infinite.
    """

    layout: Layout
    limit: int
    ticks: int
    cost: float


def candidate_of(ladder: Ladder, layout: Layout, level: int) -> Candidate | None:
    """The candidate that a layout is at a level; None where it is not legal."""
    cost, ticks = measure(ladder, layout, level)
    return Candidate(layout, int(ladder.limits[level]), ticks, cost) if np.isfinite(cost) else None


def level_of(ladder: Ladder, candidate: Candidate) -> int:
    """The first level of a ladder at which a candidate's kernels can be as they are; the last where there is none."""
    return min(int(np.searchsorted(ladder.limits, candidate.ticks)), len(ladder.limits) - 1)


@dataclass(frozen=True, eq=False)
class AnnealTask:
    """Where to begin, with what seed, for how many moves, and how warm: a share of the cost."""

    start: Candidate
    seed: int
    steps: int
    warmth: float


@dataclass(frozen=True, eq=False)
class Annealing:
    """:func:`annealed` for one ladder, as a function of the task alone, for executors.

    What comes from another process can be read only, for which compiled code would be compiled again; such a ladder is
    copied once.
    """

    ladder: Ladder

    @cached_property
    def _own(self) -> Ladder:
        return Ladder._make(array if array.flags.writeable else array.copy() for array in self.ladder)

    def __call__(self, task: AnnealTask) -> Candidate:
        """The best layout of a run."""
        return annealed(self._own, task)


def annealed(ladder: Ladder, task: AnnealTask) -> Candidate:
    """The best layout that a run meets; what it began with where it meets no better one."""
    start = task.start
    level = level_of(ladder, start)
    now, tried, best = copied(start.layout), copied(start.layout), copied(start.layout)
    cost, ticks, _ = measured(ladder, now, level)
    if not np.isfinite(cost):
        return start
    hot = max(task.warmth * cost, 1e-9)
    # While annealing, a layout costs what its level allows.
    cost += ladder.weights[0] * (ladder.limits[level] - ticks)
    seed = np.array([task.seed], dtype=np.uint64)
    cost, level = anneal(ladder, now, tried, best, level, cost, seed, task.steps, hot, _COOLED * hot)
    found = candidate_of(ladder, best, level) if np.isfinite(cost) else None
    return found if found is not None and found.cost < start.cost else start
