"""The input and the result of every search method."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from dse.partition.problem import Chips, Floats, PartitionProblem
from dse.run.executor import Executor
from dse.run.progress import ProgressCallback, StopSignal, never_stop, silent


class Evaluator(Protocol):
    """Prices partitions that satisfy (2) to (4)."""

    @property
    def is_reference(self) -> bool:
        """Whether costs are those of :func:`dse.partition.check.cost_s`, which bounds and exact methods are about.

        An evaluator that wraps another one answers as that does.
        """
        ...

    def costs(self, chips: Chips) -> Floats:
        """Seconds of each partition [B, N], [B]; infinite where it cannot run (5)."""
        ...

    def busy_s(self, chips: Chips) -> Floats:
        """How long each chip, and the link behind it, is busy with one input, of each partition [B, N], [B, 2, C].

        For throughput, the longest is what a partition costs; a chip whose memory does not hold its stage takes
        infinitely long. It is for partitions that were priced: whoever measures one knows where its time goes.
        """
        ...


@dataclass(frozen=True)
class SearchResult:
    """The best partition of a search, and what the search has shown.

    Attributes:
        chip: of every operator; None before there is one that can run.
        cost_s: of that partition, infinite without one.
        evaluations: partitions that were priced.
        bound_s: no valid partition costs less; 0 where nothing is known.
        solved: partitions that the constraint solver made, where the method counts them.
        fall_backs: those of them that are linear because the solver found no general one.
    """

    chip: tuple[int, ...] | None = None
    cost_s: float = np.inf
    evaluations: int = 0
    bound_s: float = 0.0
    solved: int = 0
    fall_backs: int = 0

    def with_candidates(self, chips: Chips, costs: Floats) -> "SearchResult":
        """The first of the cheapest candidates [B, N] where that costs less, with B more evaluations."""
        count = self.evaluations + len(costs)
        place = int(np.argmin(costs)) if len(costs) else 0
        if len(costs) and costs[place] < self.cost_s:
            return replace(self, chip=tuple(chips[place].tolist()), cost_s=float(costs[place]), evaluations=count)
        return replace(self, evaluations=count)

    def with_solved(self, count: int, fall_backs: int) -> "SearchResult":
        """The same after ``count`` more partitions of the constraint solver, with their fall-backs."""
        return replace(self, solved=self.solved + count, fall_backs=self.fall_backs + fall_backs)


@dataclass(frozen=True)
class SearchContext:
    """One problem, and the means to work on it.

    Attributes:
        problem: that is to be solved.
        evaluator: what partitions cost.
        executor: where independent parts run; the answer does not depend on it.
        seed: of everything that is drawn.
        samples: partitions that a sampling method evaluates.
        starts: valid partitions to begin with, where a method can use them.
        progress: called in each phase.
        stop: polled between two pieces of work; a reason ends the search with the best so far.
    """

    problem: PartitionProblem
    evaluator: Evaluator
    executor: Executor
    seed: int = 0
    samples: int = 600
    starts: Sequence[tuple[int, ...]] = field(default=())
    progress: ProgressCallback = silent
    stop: StopSignal = never_stop

    @property
    def by_reference(self) -> bool:
        """Whether partitions cost what the reference evaluator says."""
        return self.evaluator.is_reference


def throughput_of(problem: PartitionProblem) -> PartitionProblem:
    """The problem with throughput as its objective, which is what exact methods on orders and linear models price."""
    return replace(problem, objective="throughput")


def on_one_chip(context: SearchContext) -> Chips:
    """The partition that every method prices first: everything on chip 0, [1, N].

    It satisfies (2) to (4) always, and (5) where one chip holds everything. A search that is stopped at once has an
    answer then.
    """
    return np.zeros((1, len(context.problem.graph)), dtype=np.int8)


def first_result(context: SearchContext) -> SearchResult:
    """What is known after one evaluation, that of :func:`on_one_chip`."""
    chips = on_one_chip(context)
    return SearchResult().with_candidates(chips, context.evaluator.costs(chips))
