"""One run of simulated annealing from a layout."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dse.run.progress import StopSignal, never_stop
from dse.wafer.search.anneal_kernels import anneal
from dse.wafer.search.candidates import Candidate, candidate_of, level_of
from dse.wafer.search.ladder import Ladder, own
from dse.wafer.search.layout import copied
from dse.wafer.search.layout_kernels import measured

_COOLED = 1e-3
"""The last temperature, of the first."""

_SLICE = 50_000
"""Moves between two questions whether to stop: a tenth of a second or two."""


@dataclass(frozen=True, eq=False)
class AnnealTask:
    """Where to begin, with what seed, for how many moves, and how warm: a share of the cost."""

    start: Candidate
    seed: int
    steps: int
    temperature: float


@dataclass(frozen=True, eq=False)
class Annealing:
    """:func:`annealed` for one ladder, as a function of the task alone, for executors.

    What comes from another process can be read only, for which compiled code would be compiled again; such a ladder is
    copied once. ``stop`` is consulted in this process only: workers elsewhere are ended by their executor.
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
    hot = max(task.temperature * cost, 1e-9)
    # While annealing, a layout costs what its level allows.
    cost += ladder.weights[0] * (ladder.limits[level] - ticks)
    seed = np.array([task.seed], dtype=np.uint64)
    best, best_cost, best_level, made = met, np.inf, level, 0
    for begin in range(0, task.steps, _SLICE):
        end = min(task.steps, begin + _SLICE)
        warm, cold = (hot * _COOLED ** (step / task.steps) for step in (begin, end))
        lowest, lowest_level, cost, level = anneal(ladder, now, tried, met, level, cost, seed, end - begin, warm, cold)
        made = end
        if lowest < best_cost:
            best, best_cost, best_level = copied(met), lowest, lowest_level
        if stop() is not None:
            break
    candidate = candidate_of(ladder, best, best_level) if np.isfinite(best_cost) else None
    return replace(candidate if candidate is not None and candidate.cost < start.cost else start, moves=made)
