"""One run of simulated annealing from a layout."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dse.progress import StopSignal, never_stop
from dse.wafer.search.anneal_kernels import anneal
from dse.wafer.search.ladder import Ladder, own
from dse.wafer.search.layout import Layout, copied, measure
from dse.wafer.search.layout_kernels import measured

_COOLED = 1e-3
"""The last temperature, of the first."""

_SLICE = 50_000
"""Moves between two questions whether to stop: a tenth of a second or two."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A layout, the limit in ticks for which its kernels are sized, the ticks that it takes, and its cost.

    The cost of what is not legal is infinite. ``moves`` are those that a run of annealing made until it ended; a run
    that is stopped makes fewer than it was given.
    """

    layout: Layout
    limit: int
    ticks: int
    cost: float
    moves: int = 0


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
    copied once. ``stop`` is asked in this process alone: workers elsewhere are ended by their executor.
    """

    ladder: Ladder
    stop: StopSignal = never_stop

    def __reduce__(self) -> tuple[Any, ...]:
        return Annealing, (self.ladder,)

    @cached_property
    def _own(self) -> Ladder:
        return own(self.ladder)

    def __call__(self, task: AnnealTask) -> Candidate:
        """The best layout of a run."""
        return annealed(self._own, task, self.stop)


def annealed(ladder: Ladder, task: AnnealTask, stop: StopSignal = never_stop) -> Candidate:
    """The best layout that a run meets, until it is stopped; what it began with where it meets no better one."""
    start = task.start
    level = level_of(ladder, start)
    now, tried, met = copied(start.layout), copied(start.layout), copied(start.layout)
    cost, ticks, _ = measured(ladder, now, level)
    if not np.isfinite(cost):
        return replace(start, moves=0)
    hot = max(task.warmth * cost, 1e-9)
    # While annealing, a layout costs what its level allows.
    cost += ladder.weights[0] * (ladder.limits[level] - ticks)
    seed = np.array([task.seed], dtype=np.uint64)
    best, best_cost, best_level, made = met, np.inf, level, 0
    for begin in range(0, task.steps, _SLICE):
        end = min(task.steps, begin + _SLICE)
        warm, cold = (hot * _COOLED ** (step / task.steps) for step in (begin, end))
        least, least_level, cost, level = anneal(ladder, now, tried, met, level, cost, seed, end - begin, warm, cold)
        made = end
        if least < best_cost:
            best, best_cost, best_level = copied(met), least, least_level
        if stop() is not None:
            break
    found = candidate_of(ladder, best, best_level) if np.isfinite(best_cost) else None
    return replace(found if found is not None and found.cost < start.cost else start, moves=made)
