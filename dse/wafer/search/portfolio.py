"""The whole search: rows for every time limit, protocols where adapters count, annealing by successive halving.

1. *Rows*: for time limits from the area bound upwards (the paper's sweep by α), the layouts of the row dynamic program
   with every number of rows, and for the cheapest of them protocols. Their cheapest cost limits the times that are
   worth a look, and the sweep is repeated within these.
2. *Annealing*: the candidates of all times begin with few moves; of each round a third goes on with three times as
   many, so that all rounds cost the same.
3. *Close to the best*: annealing with a fine ladder of times.

Every piece is deterministic by its seed and ends after a number of moves, not seconds, and the pieces of a round are
independent: an executor may run them anywhere. What a round keeps is moved to its best places by a linear program.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np

from dse.executor import Executor
from dse.progress import ProgressCallback, StoppedError, StopSignal, ask, never_stop, silent
from dse.wafer.bound import area_bound_ticks
from dse.wafer.check import cost, violations
from dse.wafer.problem import Cost, WaferPlacement, WaferProblem
from dse.wafer.search.annealing import Annealing, AnnealTask, Candidate, candidate_of
from dse.wafer.search.ladder import Ladder, ladder_of
from dse.wafer.search.layout import copied, measure, placement
from dse.wafer.search.positions import compacted
from dse.wafer.search.protocol_dp import with_protocols
from dse.wafer.search.row_dp import depth_first_order, even_layouts, row_layouts, strip_layouts
from dse.wafer.shapes import ShapeTable, classes_of, shape_table

_LEVELS = 64
"""Time limits of a ladder."""

_COARSE = 24
"""Of the ladder that is tried first, to see which times are worth a look."""

_FURTHEST = 64
"""The longest time that is looked at, in times of the area bound."""

_WITH_PROTOCOLS = 64
"""Layouts of a ladder that get protocols."""

_FIRST, _KEPT, _ROUNDS = 96, 3, 4
"""Candidates of the first round, of how many one goes on, and rounds."""

_FINE = 3
"""Candidates that are annealed with a fine ladder in the end."""

_TIMES = 3
"""Different times among the candidates that go on, where there are so many."""

_MOST_MOVES = 400_000
"""Of one run of annealing: a second or two, after which a search can be stopped."""

_WARMTHS = (3e-4, 1e-3, 3e-3)
"""First temperatures, in shares of the cost: annealing from a good start, and from further away."""


@dataclass(frozen=True)
class Found:
    """The best placement so far, with its cost; how many layouts were priced."""

    placement: WaferPlacement | None = None
    cost: Cost | None = None
    evaluations: int = 0

    @property
    def total(self) -> float:
        """The cost; infinite without a placement."""
        return np.inf if self.cost is None else self.cost.total


Improved = Callable[[Found], None]


def _nobody(_found: Found) -> None:
    """Nobody is told."""


@dataclass
class Search:
    """One search; :meth:`run` goes through its phases.

    Attributes:
        problem: what is placed.
        executor: where runs of annealing are done.
        seed: of everything that is drawn.
        moves: of annealing in all, about; 0 leaves it out.
        progress: told of each phase.
        stop: asked between two pieces of work.
        improved: told of every better placement, which the checker has passed.
        found: the best so far.
    """

    problem: WaferProblem
    executor: Executor
    seed: int = 0
    moves: int = 8_000_000
    progress: ProgressCallback = silent
    stop: StopSignal = never_stop
    improved: Improved = _nobody
    found: Found = field(default_factory=Found)

    def run(self) -> Found:
        """The best placement; none where the search ends before it finds one."""
        table = shape_table(self.problem)
        floor = area_bound_ticks(self.problem, table)
        if floor is not None:
            with suppress(StoppedError):
                self._phases(table, floor)
        return self.found

    def _phases(self, table: ShapeTable, floor: int) -> None:
        ladder = ladder_of(self.problem, table, rungs(floor, floor * _FURTHEST, _COARSE))
        candidates = self._rows("rows", table, ladder)
        most = self._most_ticks(table, floor)
        taken = [each.ticks for each in candidates[:_LEVELS]]
        ladder = ladder_of(self.problem, table, sorted({*rungs(floor, most, _LEVELS), *taken}))
        candidates += self._rows("rows of better times", table, ladder)
        taken = [each.ticks for each in sorted(candidates, key=_cost)[:_LEVELS]]
        ladder = ladder_of(self.problem, table, sorted({*rungs(floor, most, _LEVELS), *taken}))
        share = self.moves // (_ROUNDS + 1)
        if not candidates and share:
            candidates = self._cramped(table, ladder, share)
        candidates = distinct(sorted(candidates, key=_cost))[:_FIRST]
        for number in range(_ROUNDS):
            if not candidates or not share:
                return
            tasks = self._tasks(candidates, number, share)
            count = len(candidates)
            candidates = self._anneal(f"annealing {number + 1} of {_ROUNDS + 1}", table, ladder, tasks)
            candidates = kept(distinct(candidates), max(1, count // _KEPT))
            self._compact(table, candidates)
        for best in candidates[:_FINE]:
            limits = rungs(max(floor, best.ticks * 24 // 25), best.ticks * 51 // 50, _LEVELS)
            fine = ladder_of(self.problem, table, sorted({*limits, best.ticks}))
            tasks = self._tasks([best] * len(_WARMTHS), _ROUNDS, share // _FINE)
            found = self._anneal(
                f"annealing {_ROUNDS + 1} of {_ROUNDS + 1}, from {best.cost:,.10g}", table, fine, tasks
            )
            self._compact(table, distinct(found))

    def _cramped(self, table: ShapeTable, ladder: Ladder, moves: int) -> list[Candidate]:
        """Legal layouts where no rows in order are: annealing from even rows, which may be too long at first."""
        limit = int(ladder.limits[-1])
        layouts = even_layouts(ladder, depth_first_order(self.problem))
        starts = [Candidate(layout, limit, limit, np.inf) for layout in layouts]
        found = self._anneal("annealing for a first placement", table, ladder, self._tasks(starts, _ROUNDS + 1, moves))
        return [each for each in found if np.isfinite(each.cost)]

    def _tasks(self, candidates: Sequence[Candidate], phase: int, moves: int) -> list[AnnealTask]:
        """Runs from all candidates of so many moves in all; several from each where one would be long."""
        repeats = -(-moves // (len(candidates) * _MOST_MOVES))
        starts = list(candidates) * repeats
        steps = max(1, moves // len(starts))
        return [
            AnnealTask(start, self._seed(phase, place), steps, _WARMTHS[place % len(_WARMTHS)])
            for place, start in enumerate(starts)
        ]

    def _seed(self, phase: int, place: int) -> int:
        """A seed of its own for every piece of work."""
        return int(np.random.SeedSequence([self.seed, phase, place]).generate_state(1, np.uint64)[0])

    def _most_ticks(self, table: ShapeTable, floor: int) -> int:
        """The longest time that can be part of a better cost."""
        weight = self.problem.weights.time
        if weight <= 0 or self.found.cost is None:
            return floor * _FURTHEST
        return max(floor + 1, min(floor * _FURTHEST, table.ticks_of(self.found.total / weight)))

    def _rows(self, phase: str, table: ShapeTable, ladder: Ladder) -> list[Candidate]:
        """Legal layouts of rows for all time limits, with protocols where adapters count; the cheapest first."""
        order, found = depth_first_order(self.problem), list[Candidate]()
        for level in range(len(ladder.limits)):
            rows = (*row_layouts(ladder, level, order), *strip_layouts(ladder, level, order))
            legal = [each for each in (candidate_of(ladder, layout, level) for layout in rows) if each is not None]
            self._take(table, legal, len(rows))
            found += legal
            self.progress(phase, level + 1, len(ladder.limits))
            ask(self.stop)
        if self.problem.weights.adapter > 0:
            found += self._protocols(f"protocols of {phase}", table, ladder, found)
        return sorted(found, key=_cost)

    def _protocols(self, phase: str, table: ShapeTable, ladder: Ladder, plain: Sequence[Candidate]) -> list[Candidate]:
        """Layouts with protocols, made of those that would be cheapest if adapters did not count.

        Protocols make kernels wider, so what costs more without adapters than the best with them is left out.
        """
        classes = classes_of(table.protocols)
        blind = ladder._replace(weights=ladder.weights * np.array([1.0, 1.0, 0.0, 1.0]))
        level_of = {int(limit): level for level, limit in enumerate(ladder.limits)}
        ranked = sorted(
            ((measure(blind, each.layout, level_of[each.limit])[0], place) for place, each in enumerate(plain))
        )[:_WITH_PROTOCOLS]
        found: list[Candidate] = []
        for number, (least, place) in enumerate(ranked):
            if least >= self.found.total:
                break
            level = level_of[plain[place].limit]
            layout = with_protocols(ladder, level, plain[place].layout, classes)
            candidate = None if layout is None else candidate_of(ladder, layout, level)
            if candidate is not None:
                found.append(candidate)
                self._take(table, [candidate], 1)
            self.progress(phase, number + 1, len(ranked))
            ask(self.stop)
        return found

    def _anneal(self, phase: str, table: ShapeTable, ladder: Ladder, tasks: Sequence[AnnealTask]) -> list[Candidate]:
        candidates: list[Candidate] = []
        for task, candidate in zip(tasks, self.executor.map(Annealing(ladder), tasks, self.stop), strict=True):
            # What a worker sends can be read only.
            candidate = replace(candidate, layout=copied(candidate.layout))
            candidates.append(candidate)
            self._take(table, [candidate], task.steps)
            self.progress(phase, len(candidates), len(tasks))
        return sorted(candidates, key=_cost)

    def _compact(self, table: ShapeTable, candidates: Sequence[Candidate]) -> None:
        """Move the rectangles of candidates to their best places."""
        for each in candidates:
            ask(self.stop)
            placed = self._placement(table, each)
            if not violations(self.problem, placed):
                self._keep(compacted(self.problem, placed))

    def _placement(self, table: ShapeTable, candidate: Candidate) -> WaferPlacement:
        ladder = ladder_of(self.problem, table, [candidate.limit])
        return placement(self.problem, table, ladder, candidate.layout, 0)

    def _take(self, table: ShapeTable, candidates: Sequence[Candidate], evaluations: int) -> None:
        """Keep the cheapest candidate if it is better than what is known, by the checker's count."""
        best = min(candidates, key=_cost, default=None)
        self.found = replace(self.found, evaluations=self.found.evaluations + evaluations)
        if best is not None and best.cost < self.found.total:
            self._keep(self._placement(table, best))

    def _keep(self, placed: WaferPlacement) -> None:
        """Note a placement that is legal and better than what is known."""
        priced = cost(self.problem, placed)
        if priced.total < self.found.total and not violations(self.problem, placed):
            self.found = Found(placed, priced, self.found.evaluations)
            self.improved(self.found)


def rungs(low: int, high: int, count: int) -> list[int]:
    """About ``count`` time limits from ``low`` to ``high``, each by the same factor above the one before."""
    return sorted({int(each) for each in np.round(np.geomspace(low, max(low + 1, high), count))})


def kept(candidates: Sequence[Candidate], count: int) -> list[Candidate]:
    """The cheapest candidates, so many, but of those that take the same time only a share."""
    most = -(-count // _TIMES)
    taken: dict[int, int] = {}
    found = []
    for each in candidates:
        taken[each.ticks] = taken.get(each.ticks, 0) + 1
        if taken[each.ticks] <= most:
            found.append(each)
    return found[:count]


def distinct(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Candidates without those that are the same as an earlier one."""
    seen: set[bytes] = set()
    found = []
    for each in candidates:
        layout = each.layout
        key = b"".join(array.tobytes() for array in (layout.order, layout.mark, layout.height, layout.protocol))
        if key not in seen:
            seen.add(key)
            found.append(each)
    return found


def _cost(candidate: Candidate) -> float:
    return candidate.cost
