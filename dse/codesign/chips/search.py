"""Best-first search over boxes of chips, each with every plan of the vocabulary, stopped by bounds: a proof.

A step sees rates, not silicon. With lower bounds for kernels (:class:`dse.plan.template_kernels.RooflineKernels`) the
step of a plan depends on six figures of a chip: multiply-accumulates a second of all arrays, elements a second of all
lanes, the clock of the shared SRAM, the rate of memory, that of links, and the domain; and which plans there are on the
size of memory. It never rises with any rate: kernels and collectives take no longer, a pass and what it does not hide
of collectives take together no longer where either takes no longer, and everything else is a sum or a maximum
(:mod:`dse.codesign.modern.search` has the one exception, of which bounds take the least). What a chip takes of area,
power, money and carbon, on the other hand, rises with every size, with the clock and with the rate of links. So for the
chips of a box, with T(p) the bound of plan p at the highest of each rate and d the least divisor of the objective, over
all its designs, nodes and numbers of dies by enumeration, all with the least SRAM,

    score <= mean over models of (global_batch / min over plans that may fit of T(p)) / d

The highest rates are cut to what area, edge, power and money leave. A plan that may not be part of a better score than
the best one so far is out in all parts of the box, and so is a design whose own d is too large: both lists are
inherited. A box is split along the axis on which its chips differ most, until it has one clock, one memory, one link
rate and few pairs of elements and lanes. Its designs, with every SRAM, are then taken in the order of their own bounds,
each with the cheapest of its nodes and numbers of dies, and priced exactly with the plans whose bound is not above what
they would need, until no bound reaches the best score.

Boxes are opened in rounds: those with the highest bounds, all with the best score at the beginning of the round, and
what comes of them is taken in their order. So neither counts nor answer depend on how many workers open them, nor on
what a journal has of them. From each root, depth first with few plans, a first chip is found.

No chip is better than the best one when all boxes are out. What is left free in bounds and charged when a chip is
priced is how a product is mapped to its arrays, SRAM and the buffer, beyond one pass over its operands. The mapper's
own value enters no bound: it need not fall as buffers grow.
"""

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from dse.codesign.chips.box_journal import opened_document, opened_from, question, task_key
from dse.codesign.chips.boxes import BoxFigures
from dse.codesign.chips.leaf import ChosenChip, Priced
from dse.codesign.chips.opening import BoxOpener, Counts, OpenBox, Opened, Task
from dse.codesign.chips.problem import ChipProblem
from dse.codesign.search.choice import TIE
from dse.run.executor import Executor, Failed, InProcessExecutor
from dse.run.journal import Journal
from dse.run.progress import ProgressCallback, StoppedError, StopSignal, ask, never_stop, silent

_ROUND = 8
"""Boxes that are opened together at least, and as many as an eighth of those that are open."""


@dataclass
class ChipOutcome:
    """What a search has found.

    Attributes:
        found: the chips that had a score within the margin of the best one so far.
        score: the best so far; 0 where there is none.
        bound: no chip has a higher score.
        plans: of all vocabularies.
        counts: what was done.
        stopped: why it ended early.
    """

    found: dict[ChosenChip, Priced] = field(default_factory=dict)
    bound: float = np.inf
    plans: int = 0
    counts: Counts = field(default_factory=Counts)
    stopped: str | None = None
    score: float = 0.0

    @property
    def best(self) -> list[Priced]:
        """The chips that share the best score, the cheapest first; empty where there is none."""
        return self.near(0.0)

    def near(self, within: float) -> list[Priced]:
        """The chips whose scores are within this share of the best, the best first; of equal ones the cheapest."""
        needed = self.score * (1 - max(TIE, within))
        near = [each for each in self.found.values() if each.score >= needed]
        ties = sorted(near, key=lambda each: each.order)
        return sorted(ties, key=lambda each: -each.score) if within else ties


class ChipSearch:
    """One problem.

    Args:
        problem: what is searched.
        stop: asked between two pieces of work.
        progress: told of boxes.
        executor: where boxes are opened, entered by whoever has it.
        journal: what came of boxes by key, read and extended.
    """

    def __init__(
        self,
        problem: ChipProblem,
        stop: StopSignal = never_stop,
        progress: ProgressCallback = silent,
        executor: Executor | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.problem, self._stop, self._progress = problem, stop, progress
        self._executor, self._journal = executor or InProcessExecutor(), journal
        self._share = 1 - max(TIE, problem.within)
        self._opener = BoxOpener(problem, self._reason)
        self._question = "" if journal is None else question(problem)
        self._has_begun = False
        self._waiting: list[tuple[float, int, OpenBox]] = []
        self._at_work: deque[OpenBox] = deque()
        self._number = count()
        self.outcome = ChipOutcome()

    def run(self) -> ChipOutcome:
        """The best chip, proven, or the best so far where the stop signal gives a reason."""
        outcome = self.outcome
        try:
            self._open([OpenBox(box) for box in BoxFigures(self.problem).roots()])
            self._has_begun = True
            while boxes := self._next():
                self._open(boxes)
        except StoppedError as reason:
            outcome.stopped = str(reason)
        left = (*(each.score for each in self._at_work), *(-each[0] for each in self._waiting))
        outcome.bound = max(outcome.score, *left) if outcome.stopped is not None and left else outcome.score
        return outcome

    def _reason(self) -> str | None:
        """Why to stop; no time limit ends the search before all roots have a bound, and there is a first chip."""
        reason = self._stop()
        return reason if self._has_begun or reason == "interrupted" else None

    @property
    def _needed(self) -> float:
        """The score from which on chips are listed."""
        return self.outcome.score * self._share

    def _next(self) -> list[OpenBox]:
        """The boxes with the highest bounds, of one round; while there is no chip, the last one that was made."""
        if not self.outcome.found and self._waiting:
            last = max(range(len(self._waiting)), key=lambda place: self._waiting[place][1])
            self._waiting[last], self._waiting[-1] = self._waiting[-1], self._waiting[last]
            chosen = self._waiting.pop()[2]
            heapq.heapify(self._waiting)
            return [chosen]
        boxes: list[OpenBox] = []
        most = max(_ROUND, len(self._waiting) // 8)
        while self._waiting and len(boxes) < most and -self._waiting[0][0] >= self._needed:
            boxes.append(heapq.heappop(self._waiting)[2])
        return boxes

    def _open(self, boxes: Sequence[OpenBox]) -> None:
        """Open boxes with the score that is needed now, and take what comes of them in their order.

        Raises:
            StoppedError: the stop signal gave a reason.
        """
        self._at_work = deque(boxes)
        ask(self._reason)
        keys = ["" if self._journal is None else task_key(self._question, each, self._needed) for each in boxes]
        tasks = [Task(each, self._needed, key) for each, key in zip(boxes, keys, strict=True)]
        known = {key: self._journalled(key) for key in keys if self._journal is not None and key in self._journal}
        new = [task for task in tasks if task.key not in known]
        fresh = self._executor.map(self._opener, new, self._reason, self._arrived)
        for task in tasks:
            opened = known.get(task.key)
            self._take(next(fresh) if opened is None else opened)
            self._at_work.popleft()

    def _take(self, opened: Opened) -> None:
        outcome = self.outcome
        outcome.counts.add(opened.counts)
        outcome.plans += opened.plans
        for priced in opened.priced:
            if priced.score >= self._needed and priced.score > 0:
                outcome.found[priced.chip] = priced
                outcome.score = max(outcome.score, priced.score)
        for part in opened.parts:
            if part.score >= self._needed:
                heapq.heappush(self._waiting, (-part.score, next(self._number), part))
        self._progress("boxes of chips settled", outcome.counts.boxes - len(self._waiting), outcome.counts.boxes)

    def _journalled(self, key: str) -> Opened:
        """What came of a box before.

        Raises:
            InputError: the entry is damaged.
        """
        assert self._journal is not None, "only called with one"
        try:
            return opened_from(self._journal[key])
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise self._journal.damaged(key, error) from error

    def _arrived(self, pairs: Sequence[tuple[Task, Any]]) -> None:
        """Record what came of boxes, in any order."""
        if self._journal is not None:
            done = {task.key: opened_document(each) for task, each in pairs if not isinstance(each, Failed)}
            self._journal.append_all(done)
