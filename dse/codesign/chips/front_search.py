"""The front of chips in two or three figures, complete and proven, or to a stated gap.

A chip stands for the fastest plan of each model on it. Its values are throughput over what it takes, or one over what
it takes (:mod:`dse.codesign.chips.front_figures`); more is better in each. The *excess* of a chip is the least factor

    min over points p of max over figures k of value_k(chip) / value_k(p)

by which all values of some point would have to rise to be no worse than the chip's. A front to a gap g leaves out
chips whose excess is at most 1 + g; with g = 0 it is the front, of chips with equal values one.

The search is one over boxes of chips, as :mod:`dse.codesign.chips.search` has them, each in one node and number of
dies. Throughput at the highest rates of a box over the least that each of its designs takes bounds the excess of its
chips; where that is at most 1 + g the designs are out. The box with the largest excess is split, until it has one
clock, memory, link rate and few pairs of elements and lanes. Then chips with the same rates are priced together,
those with the largest excess first. When no box is open, the points are the front; the largest excess of what is open
is the gap of a search that was stopped.

Plans are those of :mod:`dse.codesign.chips.front_plans`.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np
from numpy.typing import NDArray

from dse.codesign.chips.boxes import Box, BoxFigures, Corner
from dse.codesign.chips.front_bounds import excesses, needed
from dse.codesign.chips.front_figures import FIGURES
from dse.codesign.chips.front_plans import FrontPlans, Lists, NearestPlans
from dse.codesign.chips.leaf import SIZES, ChosenChip, Priced, whole_designs
from dse.codesign.chips.opening import Counts
from dse.codesign.chips.problem import ChipProblem, Links
from dse.codesign.chips.silicon import Silicon
from dse.run.progress import ProgressCallback, StoppedError, StopSignal, ask, never_stop, silent

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_ROUNDING = 1e-9
"""Chips that exceed a point by no more have its values."""

_TOGETHER = 32
"""Chips that are priced together."""


@dataclass(frozen=True)
class Open:
    """A box in which points may lie.

    Attributes:
        corner: its designs.
        lists: plans.
        taken: the least of each figure that each design takes, [N, F].
        throughput: of no chip more.
        excess: the largest of its designs.
    """

    corner: Corner
    lists: Lists
    taken: Floats
    throughput: float
    excess: float


@dataclass(frozen=True)
class FrontPoint:
    """A chip with its values, all of which are the better the more they are."""

    values: tuple[float, ...]
    priced: Priced


@dataclass
class FrontOutcome:
    """What a search has found.

    Attributes:
        points: none of which is as good as another in each figure.
        gap: every chip exceeds some point by this share at most.
        counts: what was done.
        stopped: why it ended early.
    """

    points: list[FrontPoint] = field(default_factory=list)
    gap: float = np.inf
    counts: Counts = field(default_factory=Counts)
    stopped: str | None = None


class FrontSearch:
    """The front of one problem."""

    def __init__(
        self, problem: ChipProblem, stop: StopSignal = never_stop, progress: ProgressCallback = silent
    ) -> None:
        self.problem, self._stop, self._progress = problem, stop, progress
        self._figures = [FIGURES[each] for each in problem.pareto]
        self._is_rate = np.array([each.per is not None for each in self._figures])
        self._slack = (1 + problem.pareto_gap) * (1 + _ROUNDING)
        self.boxes = BoxFigures(problem)
        self.outcome = FrontOutcome()
        self._plans = FrontPlans(self.boxes, self.outcome.counts)
        self._values = np.empty((0, len(self._figures)))

    def run(self) -> FrontOutcome:
        """The front, or what is known of it where the stop signal gives a reason."""
        outcome, order = self.outcome, count()
        heap: list[tuple[float, int, Open]] = []
        at_work: Open | None = None
        try:
            for root in self._roots():
                if root is not None:
                    heapq.heappush(heap, (-root.excess, -next(order), root))
            while heap:
                ask(self._stop)
                at_work = self._still_open(heapq.heappop(heap)[2])
                if at_work is None:
                    continue
                if heap and at_work.excess < -heap[0][0]:
                    heapq.heappush(heap, (-at_work.excess, -next(order), at_work))
                    continue
                for part in self._parts(at_work):
                    heapq.heappush(heap, (-part.excess, -next(order), part))
                self._progress("boxes of the front settled", outcome.counts.boxes - len(heap), outcome.counts.boxes)
        except StoppedError as reason:
            outcome.stopped = str(reason)
            if not outcome.points:
                return outcome
            left = [each for _, _, each in heap] + ([] if at_work is None else [at_work])
            still = (self._still_open(each) for each in left)
            outcome.gap = max([1.0 + self.problem.pareto_gap, *(each.excess for each in still if each)]) - 1
            return outcome
        outcome.gap = self.problem.pareto_gap
        return outcome

    # Boxes ------------------------------------------------------------------------------------------------------------

    def _roots(self) -> Iterator[Open | None]:
        for box in self.boxes.roots():
            for number in box.realisations:
                ask(self._stop)
                lists = tuple(
                    tuple(
                        (each, self._plans.whole(model, each, box))
                        for each in self.problem.precisions_of(box.precision)
                    )
                    for model in range(len(self.problem.models))
                )
                yield self._bounded(replace(box, realisations=(number,)), lists, np.inf)

    def _bounded(self, box: Box, inherited: Lists, throughput: float) -> Open | None:
        """A box, none of whose chips has more than ``throughput``, with its bounds; None where no point lies in it."""
        self.outcome.counts.boxes += 1
        corner = self.boxes.corner(box)
        if corner is None:
            return None
        made = self.boxes.least(box.precision, box.realisations[0], box.memories, box.links[0])
        taken = self._taken(made, float(self.boxes.clocks_hz[box.clocks[0]]))[corner.box.cores]
        first = self._still_open(Open(corner, inherited, taken, throughput, np.inf))
        if first is None:
            return None
        lists = tuple(
            tuple((precision, self._plans.fewer(model, precision, first.corner, few)) for precision, few in each)
            for model, each in enumerate(inherited)
        )
        least_s = [min(few.least_s for _, few in each) for each in lists]
        if not np.isfinite(least_s).all():
            return None
        return self._still_open(replace(first, lists=lists, throughput=min(throughput, self._mean(least_s))))

    def _still_open(self, each: Open) -> Open | None:
        """What of a box may be beyond the points found so far."""
        throughput = np.full(len(each.taken), each.throughput)
        excess = excesses(self._values, self._is_rate, each.taken, throughput)
        kept = excess > self._slack
        if not kept.any():
            return None
        return replace(each, corner=each.corner.part(kept), taken=each.taken[kept], excess=float(excess.max()))

    def _parts(self, each: Open) -> list[Open]:
        """The parts of a box in which points may lie; none where its chips were priced."""
        boxes = self.boxes.splits(each.corner)
        if boxes is None:
            self._close(each)
            return []
        found = (self._bounded(box, each.lists, each.throughput) for box in boxes)
        return [part for part in found if part is not None]

    def _mean(self, steps_s: list[float]) -> float:
        rates = np.array([[self.problem.global_batch / each] for each in steps_s])
        return float(self.problem.objective.score(rates)[0])

    def _taken(self, made: Silicon, clock_hz: float) -> Floats:
        """What designs take by figure, [N, F]."""
        return np.stack(
            [np.broadcast_to(each.taken(self.problem, made, clock_hz), made.usd.shape) for each in self._figures],
            axis=1,
        ).astype(np.float64)

    # Chips ------------------------------------------------------------------------------------------------------------

    def _close(self, each: Open) -> None:
        """Price what may be a point, of chips with the same rates together, the fastest first."""
        self.outcome.counts.leaves += 1
        cores = self.boxes.cores.take(each.corner.box.cores)
        pairs = np.stack([cores.elements, cores.all_lanes])
        classes, class_of = np.unique(pairs, axis=1, return_inverse=True)
        for number in reversed(range(classes.shape[1])):
            chosen = class_of.ravel() == number
            box = replace(each.corner.box, cores=each.corner.box.cores[chosen])
            alike = self._bounded(box, each.lists, each.throughput)
            if alike is not None:
                self._price(alike)

    def _price(self, alike: Open) -> None:
        """Every chip that may be a point, of designs with the same rates."""
        box, problem, number = alike.corner.box, self.problem, alike.corner.box.realisations[0]
        clock_hz = float(self.boxes.clocks_hz[box.clocks[0]])
        cores = whole_designs(problem, self.boxes.cores.take(box.cores))
        made = self.boxes.silicon(box, cores, number)
        limits = problem.limits
        fits = made.fits & (made.usd <= limits.usd) & (made.watts(clock_hz) <= limits.power_w * (1 + _ROUNDING))
        taken, open_ = self._taken(made, clock_hz), np.flatnonzero(fits)
        models = [NearestPlans(self._plans, model, alike.corner, lists) for model, lists in enumerate(alike.lists)]
        while True:
            throughput = np.full(len(open_), self._mean([each.least_s for each in models]))
            excess = excesses(self._values, self._is_rate, taken[open_], throughput)
            order = np.argsort(-excess, kind="stable")
            open_ = open_[order[excess[order] > self._slack]]
            if not len(open_):
                return
            ask(self._stop)
            chosen, open_ = open_[:_TOGETHER], open_[_TOGETHER:]
            few = cores.take(chosen)
            memory, how = self.boxes.memories[box.memories[0]], self.boxes.realisations[number]
            machines = problem.machines(few, clock_hz, memory, how.dies)
            useful = needed(self._values, self._is_rate, taken[chosen], self._slack)
            with np.errstate(divide="ignore"):
                needed_s = problem.global_batch / useful if len(models) == 1 else np.full(len(chosen), np.inf)
            found = [each.fastest(machines, needed_s) for each in models]
            self.outcome.counts.priced += len(chosen)
            for row, each in enumerate(zip(*found, strict=True)):
                if all(plan is not None for _, plan in each):
                    steps, plans = tuple(step for step, _ in each), tuple(plan for _, plan in each if plan is not None)
                    sizes = {size: int(getattr(few, size)[row]) for size in SIZES}
                    links = Links(self.boxes.links[box.links[0]], box.domain)
                    chip = ChosenChip(
                        **sizes, clock_hz=clock_hz, memory=memory, links=links, how=how, precision=box.precision
                    )
                    priced = Priced(self._mean([*steps]), chip, plans, steps, float(made.usd[chosen[row]]))
                    self._add(priced, taken[chosen[row]])

    def _add(self, priced: Priced, taken: Floats) -> None:
        """A chip as a point, unless another is as good; others that it is as good as go."""
        rates = np.where(self._is_rate, priced.score, 1.0) / taken
        if (self._values >= rates * (1 - _ROUNDING)).all(axis=1).any():
            return
        kept = ~(self._values <= rates).all(axis=1)
        points = [self.outcome.points[place] for place in np.flatnonzero(kept)]
        self.outcome.points = [*points, FrontPoint(tuple(rates.tolist()), priced)]
        self._values = np.concatenate([self._values[kept], rates[None]])
