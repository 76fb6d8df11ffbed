"""What every method is handed, what it hands back, and the best placement so far in between."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dse.run.executor import Executor
from dse.run.progress import ProgressCallback, StopSignal, never_stop, silent
from dse.wafer.check import cost, violations
from dse.wafer.problem import Cost, WaferPlacement, WaferProblem
from dse.wafer.search.candidates import Candidate, cost_of
from dse.wafer.search.ladder import ladder_of
from dse.wafer.search.layout import placement
from dse.wafer.search.positions import compacted
from dse.wafer.shapes import ShapeTable

COLUMNS, PROTOCOLS, COMPACTION, TREES = "columns", "protocols", "compaction", "trees"
STEPS = frozenset({COLUMNS, PROTOCOLS, COMPACTION, TREES})
"""Steps other than rows and annealing, which a search can omit, to measure their effect."""

MAX_FACTOR = 64
"""The longest time that is looked at before a placement is known, in times of the area bound."""


@dataclass(frozen=True)
class SearchResult:
    """The best placement so far, with its cost; how many layouts were priced."""

    placement: WaferPlacement | None = None
    cost: Cost | None = None
    evaluations: int = 0

    @property
    def total(self) -> float:
        """The cost; infinite without a placement."""
        return np.inf if self.cost is None else self.cost.total


NO_RESULT = SearchResult()
"""Before any placement is known."""

Improved = Callable[[SearchResult], None]


def _ignore(_better: SearchResult) -> None:
    """Does nothing with it."""


@dataclass(frozen=True)
class SearchContext:
    """One problem, and the means to work on it.

    Attributes:
        problem: what is placed.
        executor: where runs of annealing are done; the answer does not depend on it.
        seed: of everything that is drawn.
        moves: of annealing in all, about; 0 leaves it out.
        progress: called in each phase.
        stop: called between two pieces of work; a reason ends the search with the best so far.
        improved: called with every better placement, after the checker has passed it.
        steps: those of :data:`STEPS` that are made.
    """

    problem: WaferProblem
    executor: Executor
    seed: int = 0
    moves: int = 8_000_000
    progress: ProgressCallback = silent
    stop: StopSignal = never_stop
    improved: Improved = _ignore
    steps: frozenset[str] = STEPS

    def seed_of(self, phase: int, place: int) -> int:
        """A seed of its own for every piece of work."""
        return int(np.random.SeedSequence([self.seed, phase, place]).generate_state(1, np.uint64)[0])


@dataclass
class Incumbent:
    """The best placement that a run of a method has met; a run that is stopped hands it back as it is then.

    Attributes:
        context: of the run.
        table: the shapes of its problem.
        best: the best placement so far.
    """

    context: SearchContext
    table: ShapeTable
    best: SearchResult = NO_RESULT

    def count(self, evaluations: int) -> None:
        """Note that so many layouts or trees have been priced."""
        self.best = replace(self.best, evaluations=self.best.evaluations + evaluations)

    def offer(self, placed: WaferPlacement) -> None:
        """Note a placement that is legal and better than what is known."""
        problem = self.context.problem
        priced = cost(problem, placed)
        if priced.total < self.best.total and not violations(problem, placed):
            self.best = SearchResult(placed, priced, self.best.evaluations)
            self.context.improved(self.best)

    def offer_compacted(self, placed: WaferPlacement) -> None:
        """Note a placement, its rectangles moved to their best places, if it is legal and better than what is known."""
        problem = self.context.problem
        if not violations(problem, placed):
            self.offer(compacted(problem, placed) if COMPACTION in self.context.steps else placed)

    def offer_cheapest(self, candidates: Sequence[Candidate], evaluations: int) -> None:
        """Note the cheapest candidate if it is better than what is known, by the checker's count."""
        self.count(evaluations)
        best = min(candidates, key=cost_of, default=None)
        if best is not None and best.cost < self.best.total:
            self.offer(self.placement_of(best))

    def placement_of(self, candidate: Candidate) -> WaferPlacement:
        """The placement that a candidate is."""
        ladder = ladder_of(self.context.problem, self.table, [candidate.limit])
        return placement(self.context.problem, self.table, ladder, candidate.layout, 0)

    def max_ticks(self, floor: int) -> int:
        """The longest time that can be part of a better cost; ``floor``: the area bound in ticks."""
        weight, table = self.context.problem.weights.time, self.table
        if self.best.cost is None:
            return floor * MAX_FACTOR
        affordable = table.longest if weight <= 0 else table.ticks_of(min(table.longest, self.best.total / weight))
        return max(floor + 1, min(table.longest, affordable))
