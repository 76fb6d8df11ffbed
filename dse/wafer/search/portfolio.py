"""The whole search: rows for every time limit, protocols where adapters count, annealing by successive halving.

1. *Rows*: for time limits from the area bound upwards (the paper's sweep by α), the layouts of the row dynamic program
   with every number of rows, and for the cheapest of them protocols. Their cheapest cost limits the times that are
   worth a look, and the sweep is repeated within these.
2. *Annealing*: the candidates of all times begin with few moves; of each round a third goes on with three times as
   many, so that all rounds cost the same. This is done with distance and adapters counting fully, and with a share of
   their weight only: then kernels are packed tightly first, for times that would not be met otherwise. What is left
   of all these goes through the rounds again with the true weights.
3. *Close to the best*: annealing with a fine ladder of times; then slicing trees, found at once for sequences.

Every piece is deterministic by its seed and ends after a number of moves, not seconds, and the pieces of a round are
independent: an executor may run them anywhere. What a round keeps is moved to its best places by a linear program.
After the first pass the bound is computed, and what reaches it ends the search.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np

from dse.results.result import proven_status
from dse.run.executor import Executor
from dse.run.progress import ProgressCallback, StoppedError, StopSignal, ask, never_stop, silent
from dse.wafer.bound import CostBound, area_bound_ticks
from dse.wafer.check import cost, violations
from dse.wafer.problem import Cost, WaferPlacement, WaferProblem
from dse.wafer.search.annealing import Annealing, AnnealTask
from dse.wafer.search.candidates import Candidate, candidate_of, cost_of, distinct, kept, repriced, through
from dse.wafer.search.column_dp import column_layouts
from dse.wafer.search.interval_search import IntervalSearch
from dse.wafer.search.ladder import Ladder, ladder_of, rungs, turned
from dse.wafer.search.layout import Layout, as_columns, as_rows, copied, measure, placement
from dse.wafer.search.layout_kernels import NEW_ROW, STACKED
from dse.wafer.search.positions import compacted
from dse.wafer.search.protocol_dp import with_protocols
from dse.wafer.search.row_dp import depth_first_order, even_layouts, row_layouts, strip_layouts
from dse.wafer.shapes import Ints, ShapeTable, classes_of, shape_table

_LEVELS = 64
"""Time limits of a ladder."""

_COARSE = 24
"""Of the ladder that is tried first, to see which times are worth a look."""

_FURTHEST = 64
"""The longest time that is looked at before a placement is known, in times of the area bound."""

_WITH_PROTOCOLS = 64
"""Layouts of a ladder that get protocols."""

_FIRST, _KEPT, _ROUNDS = 96, 3, 4
"""Candidates of the first round, of how many one goes on, and rounds."""

_LENSES = (1.0, 0.3, 0.1)
"""Shares of their weight with which distance and adapters count in the first rounds: tight layouts come first."""

_QUICK, _FIRST_PASS = 8, 1_000_000
"""The first pass gets this part of the moves, or this many: a good answer is there soon."""

_HOPEFUL = 0.9
"""Share of the cost that the bound after the first pass soon comes to, where it goes on."""

_TREES, _ORDERS = 0.4, 3
"""Share of the moves of a pass that slicing trees get, and orders of layouts that they begin with."""

_FIRST_PHASE, _LAST_PHASE, _TREE_PHASE = 1000, 1001, 2000
"""For seeds: of annealing before the rounds and after them, and of slicing trees."""

_FINE = 3
"""Candidates that are annealed with a fine ladder in the end."""

_COMPACTED = 4
"""Candidates of a round that compaction is tried on."""

_MOST_MOVES = 400_000
"""Of one run of annealing: a second or two, after which a search can be stopped."""

COLUMNS, PROTOCOLS, COMPACTION, TREES = "columns", "protocols", "compaction", "trees"
STEPS = frozenset({COLUMNS, PROTOCOLS, COMPACTION, TREES})
"""Steps beside rows and annealing that a search can be made without, to see what they are worth."""

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
        steps: those of :data:`STEPS` that are made.
    """

    problem: WaferProblem
    executor: Executor
    seed: int = 0
    moves: int = 8_000_000
    progress: ProgressCallback = silent
    stop: StopSignal = never_stop
    improved: Improved = _nobody
    found: Found = field(default_factory=Found)
    steps: frozenset[str] = STEPS

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
        most = self.most_ticks(table, floor)
        taken = [each.ticks for each in candidates[:_LEVELS]]
        ladder = ladder_of(self.problem, table, sorted({*rungs(floor, most, _LEVELS), *taken}))
        candidates += self._rows("rows of better times", table, ladder)
        taken = [each.ticks for each in sorted(candidates, key=cost_of)[:_LEVELS]]
        ladder = ladder_of(self.problem, table, sorted({*rungs(floor, most, _LEVELS), *taken}))
        if not candidates and self.moves:
            candidates = self._cramped(table, ladder, self.moves // _QUICK)
        survivors: list[Candidate] = []
        free, bound = IntervalSearch(self, table, floor), IntervalSearch(self, table, floor)
        least = None
        for number, moves in enumerate(passes(self.moves)):
            if number == 1 and self.found.placement is not None:
                bounds = CostBound(self.problem, table)
                least = bounds.total(floor, self.found.total, self.stop, least_share=_HOPEFUL)
            if proven_status(self.found.total, least) == "optimal":
                return
            for_trees = int(moves * _TREES)
            survivors += self._lenses(table, floor, ladder, candidates, survivors, number, moves - for_trees)
            if TREES not in self.steps:
                continue
            best = distinct(sorted(repriced(ladder, survivors), key=cost_of))[:_ORDERS]
            orders = [depth_first_order(self.problem), *(each.layout.order.tolist() for each in best)]
            phase = _TREE_PHASE + 2 * number
            if self.problem.weights.adapter > 0 and best:
                for_trees //= 2
                bound.protocols = np.unique(np.concatenate([each.layout.used for each in best]))
                bound.improve(orders, for_trees, phase + 1)
            free.improve(orders, for_trees, phase)

    def _lenses(
        self,
        table: ShapeTable,
        floor: int,
        ladder: Ladder,
        candidates: Sequence[Candidate],
        before: Sequence[Candidate],
        number: int,
        moves: int,
    ) -> list[Candidate]:
        """What pass ``number`` of annealing makes of the candidates; with true weights also of what was left before."""
        share = moves // ((len(_LENSES) + 1) * _ROUNDS + 1)
        survivors: list[Candidate] = []
        if not candidates or not share:
            return survivors
        for view, weight in enumerate((*_LENSES, 1.0)):
            starts = [*before, *survivors] if view == len(_LENSES) else candidates
            phase = (number * (len(_LENSES) + 1) + view) * _ROUNDS
            lens = ladder if weight == 1.0 else through(ladder, weight)
            survivors += self._halved(table, lens, ladder, starts, phase, share)
        self._finely(table, floor, repriced(ladder, [*before, *survivors]), _LAST_PHASE + number, share)
        return survivors

    def _finely(self, table: ShapeTable, floor: int, candidates: Sequence[Candidate], phase: int, moves: int) -> None:
        """Anneal the best few candidates with ladders of times close to theirs."""
        for best in distinct(sorted(candidates, key=cost_of))[:_FINE]:
            limits = rungs(max(floor, best.ticks * 24 // 25), best.ticks * 51 // 50, _LEVELS)
            fine = ladder_of(self.problem, table, sorted({*limits, best.ticks}))
            name = f"annealing, from {best.cost:,.10g}"
            tasks = self._tasks([best] * len(_WARMTHS), phase, moves // _FINE)
            self._compact(table, distinct(self._anneal(name, table, fine, fine, tasks)))

    def _halved(
        self, table: ShapeTable, lens: Ladder, ladder: Ladder, starts: Sequence[Candidate], phase: int, share: int
    ) -> list[Candidate]:
        """What rounds of annealing, each with a third of the candidates, make of these; of the last two rounds all.

        ``lens``: the ladder with the weights that count here.
        """
        candidates = distinct(sorted(repriced(lens, starts), key=cost_of))[:_FIRST]
        survivors: list[Candidate] = []
        for number in range(_ROUNDS):
            if not candidates:
                break
            tasks = self._tasks(candidates, phase + number, share)
            name = f"annealing {phase + number + 1} of {2 * (len(_LENSES) + 1) * _ROUNDS}"
            count = len(candidates)
            annealed = distinct(self._anneal(name, table, lens, ladder, tasks))
            candidates = kept(annealed, max(1, count // _KEPT))
            if lens is ladder:
                self._compact(table, candidates)
            survivors += annealed if number >= _ROUNDS - 2 else []
        return survivors

    def _cramped(self, table: ShapeTable, ladder: Ladder, moves: int) -> list[Candidate]:
        """Legal layouts where no rows in order are: annealing from even rows, which may be too long at first."""
        limit = int(ladder.limits[-1])
        layouts = even_layouts(ladder, depth_first_order(self.problem))
        starts = [Candidate(layout, limit, limit, np.inf) for layout in layouts]
        tasks = self._tasks(starts, _FIRST_PHASE, moves)
        found = self._anneal("annealing for a first placement", table, ladder, ladder, tasks)
        return [each for each in found if np.isfinite(each.cost)]

    def _tasks(self, candidates: Sequence[Candidate], phase: int, moves: int) -> list[AnnealTask]:
        """Runs from all candidates of so many moves in all; several from each where one would be long."""
        repeats = max(1, -(-moves // (len(candidates) * _MOST_MOVES)))
        starts = list(candidates) * repeats
        steps = max(1, moves // len(starts))
        return [
            AnnealTask(start, self.seed_of(phase, place), steps, _WARMTHS[place % len(_WARMTHS)])
            for place, start in enumerate(starts)
        ]

    def seed_of(self, phase: int, place: int) -> int:
        """A seed of its own for every piece of work."""
        return int(np.random.SeedSequence([self.seed, phase, place]).generate_state(1, np.uint64)[0])

    def most_ticks(self, table: ShapeTable, floor: int) -> int:
        """The longest time that can be part of a better cost."""
        weight = self.problem.weights.time
        if self.found.cost is None:
            return floor * _FURTHEST
        affordable = table.longest if weight <= 0 else table.ticks_of(min(table.longest, self.found.total / weight))
        return max(floor + 1, min(table.longest, affordable))

    def _rows(self, phase: str, table: ShapeTable, ladder: Ladder) -> list[Candidate]:
        """Legal layouts of rows for all time limits, with protocols where adapters count; the cheapest first."""
        order, found = depth_first_order(self.problem), list[Candidate]()
        for level in range(len(ladder.limits)):
            columns = column_layouts(ladder, level, order) if COLUMNS in self.steps else ()
            rows = [*row_layouts(ladder, level, order), *strip_layouts(ladder, level, order), *columns]
            if ladder.size[0] != ladder.size[1]:
                high = int(ladder.size[1])
                rows += [as_columns(each, high) for each in row_layouts(turned(ladder), level, order)]
            legal = [each for each in (candidate_of(ladder, layout, level) for layout in rows) if each is not None]
            self._take(table, legal, len(rows))
            found += legal
            self.progress(phase, level + 1, len(ladder.limits))
            ask(self.stop)
        if self.problem.weights.adapter > 0 and PROTOCOLS in self.steps:
            found += self._protocols(f"protocols of {phase}", table, ladder, found)
        return sorted(found, key=cost_of)

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
            layout = _with_protocols(ladder, level, plain[place].layout, classes)
            candidate = None if layout is None else candidate_of(ladder, layout, level)
            if candidate is not None:
                found.append(candidate)
                self._take(table, [candidate], 1)
            self.progress(phase, number + 1, len(ranked))
            ask(self.stop)
        return found

    def _anneal(
        self, phase: str, table: ShapeTable, lens: Ladder, ladder: Ladder, tasks: Sequence[AnnealTask]
    ) -> list[Candidate]:
        """The best of every run with the weights of ``lens``; what is better by the ladder's own is kept."""
        candidates: list[Candidate] = []
        runs = self.executor.map(Annealing(lens, self.stop), tasks, self.stop)
        for candidate in runs:
            # What a worker sends can be read only.
            candidate = replace(candidate, layout=copied(candidate.layout))
            candidates.append(candidate)
            self._take(table, repriced(ladder, [candidate]), candidate.moves)
            self.progress(phase, len(candidates), len(tasks))
        return sorted(candidates, key=cost_of)

    def _compact(self, table: ShapeTable, candidates: Sequence[Candidate]) -> None:
        """Move the rectangles of the first candidates to their best places."""
        for each in candidates[:_COMPACTED]:
            ask(self.stop)
            self.keep_compacted(self._placement(table, each))

    def _placement(self, table: ShapeTable, candidate: Candidate) -> WaferPlacement:
        ladder = ladder_of(self.problem, table, [candidate.limit])
        return placement(self.problem, table, ladder, candidate.layout, 0)

    def _take(self, table: ShapeTable, candidates: Sequence[Candidate], evaluations: int) -> None:
        """Keep the cheapest candidate if it is better than what is known, by the checker's count."""
        best = min(candidates, key=cost_of, default=None)
        self.found = replace(self.found, evaluations=self.found.evaluations + evaluations)
        if best is not None and best.cost < self.found.total:
            self.keep(self._placement(table, best))

    def keep_compacted(self, placed: WaferPlacement) -> None:
        """Note a placement, its rectangles moved to their best places, if it is legal."""
        if not violations(self.problem, placed):
            self.keep(compacted(self.problem, placed) if COMPACTION in self.steps else placed)

    def priced(self, count: int) -> None:
        """Note that so many layouts or trees have been priced."""
        self.found = replace(self.found, evaluations=self.found.evaluations + count)

    def keep(self, placed: WaferPlacement) -> None:
        """Note a placement that is legal and better than what is known."""
        priced = cost(self.problem, placed)
        if priced.total < self.found.total and not violations(self.problem, placed):
            self.found = Found(placed, priced, self.found.evaluations)
            self.improved(self.found)


def _with_protocols(ladder: Ladder, level: int, layout: Layout, classes: Ints) -> Layout | None:
    """The layout with the cheapest protocols found; stacks in a single row are rows of the turned wafer."""
    if (layout.mark == NEW_ROW).sum() > 1 or not (layout.mark == STACKED).any():
        return with_protocols(ladder, level, layout, classes)
    found = with_protocols(turned(ladder), level, as_rows(layout), classes)
    return None if found is None else as_columns(found, int(ladder.size[1]))


def passes(moves: int) -> list[int]:
    """The moves of each pass: few, then seven times as many, then always twice as many as all before; at least half."""
    found, left = list[int](), moves
    while left > 0:
        size = (7, 2)[len(found) > 1] * sum(found) or min(max(1, moves // _QUICK), _FIRST_PASS)
        # What would be left for a short pass goes to this one.
        found.append(left if found and left < 2 * size else min(size, left))
        left -= found[-1]
    return found
