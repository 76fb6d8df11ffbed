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
they would need, until no bound reaches the best score. The first boxes are taken depth first, for a first chip.

No chip is better than the best one when all boxes are out. What is left free in bounds and charged when a chip is
priced is how a product is mapped to its arrays, SRAM and the buffer, beyond one pass over its operands. The mapper's
own value enters no bound: it need not fall as buffers grow.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np
from numpy.typing import NDArray

from dse.codesign.chips.boxes import Box, BoxFigures, Corner
from dse.codesign.chips.leaf import ChosenChip, Leaf, Priced
from dse.codesign.chips.plan_lists import PlanList, all_families, bounds_s, expanded, plans_in
from dse.codesign.chips.problem import ChipProblem
from dse.codesign.search.choice import TIE
from dse.plan.problem import PlanProblem
from dse.run.progress import ProgressCallback, StoppedError, StopSignal, ask, never_stop, silent
from hardware.units import bytes_from_gib

Floats = NDArray[np.float64]


_LEADING = 64
"""Families that the first chip is priced with."""


@dataclass(frozen=True)
class Bounded:
    """A box with what may be the best in it.

    Attributes:
        corner: its designs.
        plans: of each model, a list for each precision that may be the fastest.
        score: no chip of the box has more.
    """

    corner: Corner
    plans: tuple[tuple[tuple[str, PlanList], ...], ...]
    score: float


@dataclass
class Counts:
    """What a search has done."""

    boxes: int = 0
    pairs: int = 0
    priced: int = 0
    leaves: int = 0


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
    """One problem."""

    def __init__(
        self, problem: ChipProblem, stop: StopSignal = never_stop, progress: ProgressCallback = silent
    ) -> None:
        self.problem, self._stop, self._progress = problem, stop, progress
        self._share = 1 - max(TIE, problem.within)
        self.figures = BoxFigures(problem)
        self.outcome = ChipOutcome()

    def run(self) -> ChipOutcome:
        """The best chip, proven, or the best so far where the stop signal gives a reason."""
        outcome, order = self.outcome, count()
        heap: list[tuple[float, int, Bounded]] = []
        at_work = 0.0  # the bound of the box that is in no heap
        try:
            for box in self.figures.roots():
                found = self._root(box)
                if found is not None:
                    heapq.heappush(heap, (-found.score, next(order), found))
            while heap and self._may(-heap[0][0]):
                box_ = heapq.heappop(heap)[2]
                while True:  # depth first while there is no chip
                    at_work = box_.score
                    ask(self._stop)
                    parts = self._parts(box_)
                    if outcome.found or not parts:
                        break
                    box_ = parts.pop(int(np.argmax([each.score for each in parts])))
                    for each in parts:
                        heapq.heappush(heap, (-each.score, next(order), each))
                for each in parts:
                    heapq.heappush(heap, (-each.score, next(order), each))
                self._progress("boxes of chips settled", outcome.counts.boxes - len(heap), outcome.counts.boxes)
        except StoppedError as reason:
            outcome.stopped = str(reason)
            outcome.bound = max([outcome.score, at_work, *(-each[0] for each in heap)])
            return outcome
        outcome.bound = outcome.score
        return outcome

    def _may(self, score: float) -> bool:
        """Whether a bound allows a chip as good as the best."""
        return score >= self._needed and score > 0

    @property
    def _needed(self) -> float:
        """The score from which on chips are listed."""
        return self.outcome.score * self._share

    def _root(self, box: Box) -> Bounded | None:
        """All chips of a precision and a domain, with all families."""
        lists = []
        for model in range(len(self.problem.models)):
            own = []
            for precision in self.problem.precisions_of(box.precision):
                asked, kernels = self.figures.at(model, precision, box, np.ones(1), np.ones(1))
                every = all_families(asked, kernels)
                self.outcome.plans += plans_in(asked, every)
                own.append((precision, every))
            lists.append(tuple(own))
        return self._bounded(box, tuple(lists))

    def _parts(self, bounded: Bounded) -> list[Bounded]:
        """The parts of a box that may hold a better chip; none where its chips were priced."""
        open_ = self._still_open(bounded.corner, bounded.plans)
        if open_ is None:
            return []
        boxes = self.figures.splits(open_.corner)
        if boxes is None:
            self._close(open_)
            return []
        found = (self._bounded(each, open_.plans) for each in boxes)
        return [each for each in found if each is not None]

    def _bounded(
        self, box: Box, inherited: tuple[tuple[tuple[str, PlanList], ...], ...], always: bool = False
    ) -> Bounded | None:
        """A box with its bound, and lists without what is out; None where all of it is."""
        self.outcome.counts.boxes += 1
        corner = self.figures.corner(box)
        if corner is None:
            return None
        box = corner.box
        largest = bytes_from_gib(max(self.figures.memories[each].total_gb for each in box.memories))
        rates = corner.elements_hz.max(keepdims=True), corner.lanes_hz.max(keepdims=True)
        kept = []
        for model, lists in enumerate(inherited):
            each = []
            for precision, own in lists:
                asked, kernels = self.figures.at(model, precision, box, *rates)
                few = expanded(asked, own.within(largest), largest, always)
                self.outcome.counts.pairs += few.count
                each.append((precision, replace(few, bounds_s=bounds_s(asked, few, kernels)[:, 0])))
            kept.append(tuple(each))
        return self._still_open(corner, tuple(kept))

    def _still_open(self, corner: Corner, lists: tuple[tuple[tuple[str, PlanList], ...], ...]) -> Bounded | None:
        """What of a box may be better than the best chip so far, by the bounds of its lists; None where nothing is."""
        needed = self._needed * float(corner.divisor.min())
        least_s = [min(float(few.bounds_s.min(initial=np.inf)) for _, few in each) for each in lists]
        mean = float(self._means(np.array(least_s)[:, None])[0])
        if not mean > 0 or mean < needed:
            return None
        open_ = tuple(
            tuple((name, few.part(self._with(model, least_s, few.bounds_s) >= needed)) for name, few in each)
            for model, each in enumerate(lists)
        )
        alive = mean / corner.divisor >= self._needed
        return Bounded(corner.part(alive), open_, mean / float(corner.divisor.min()))

    def _with(self, model: int, least_s: list[float], bounds: Floats) -> Floats:
        """The mean of throughputs where one model has each of ``bounds``, and the others their least steps."""
        steps = np.repeat(np.array(least_s)[:, None], len(bounds), axis=1)
        steps[model] = bounds
        return self._means(steps)

    def _means(self, steps: Floats) -> Floats:
        """Means over models of throughputs, by their steps [models, n]."""
        with np.errstate(divide="ignore"):
            return self.problem.objective.score(self.problem.global_batch / steps)

    def _close(self, bounded: Bounded) -> None:
        """Price what may be the best of a box that is not split; at first with few plans, for a first chip."""
        self.outcome.counts.leaves += 1
        if not self.outcome.found:
            few = (((each, own.leading(_LEADING)) for each, own in lists) for lists in bounded.plans)
            self._price(bounded.corner.box, tuple(map(tuple, few)))
        self._price(bounded.corner.box, bounded.plans)

    def _price(self, box: Box, plans: tuple[tuple[tuple[str, PlanList], ...], ...]) -> None:
        again = self._bounded(box, plans, always=True)
        if again is None:
            return
        box, lists = again.corner.box, again.plans
        leaf = Leaf(self.problem, self.figures, box, [self._of_model(box, each) for each in enumerate(lists)])
        for priced in leaf.priced(lambda: self._needed, self._stop):
            self.outcome.counts.priced += 1
            if self._may(priced.score):
                self.outcome.found[priced.chip] = priced
                self.outcome.score = max(self.outcome.score, priced.score)

    def _of_model(
        self, box: Box, numbered: tuple[int, tuple[tuple[str, PlanList], ...]]
    ) -> Iterator[tuple[PlanProblem, PlanList]]:
        model, lists = numbered
        for precision, own in lists:
            if own.count:
                yield self.figures.at(model, precision, box, np.ones(1), np.ones(1))[0], own
