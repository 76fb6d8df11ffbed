"""What comes of one box of chips: the parts that may hold a better one, or its chips, priced.

This is the work that a search hands to workers (:mod:`dse.codesign.chips.search`). What comes of a box depends on the
box and on the score that is needed alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dse.codesign.chips.boxes import Box, BoxFigures, Corner
from dse.codesign.chips.leaf import Leaf, Priced
from dse.codesign.chips.plan_lists import PlanList, all_families, bounds_s, expanded, plans_in
from dse.codesign.chips.problem import ChipProblem
from dse.codesign.search.choice import TIE
from dse.plan.problem import PlanProblem
from dse.run.progress import StopSignal, never_stop
from hardware.units import bytes_from_gib

Floats = NDArray[np.float64]

Plans = tuple[tuple[tuple[str, PlanList], ...], ...]
"""Of each model, a list for each precision."""

_LEADING, _LIGHT = 256, 128
"""Families with the lowest bounds, and with the least memory, that a first chip is sought with."""

_FIRST_PLANS = 64
"""Families that the chips of a box are priced with at first where there is no chip yet."""

_FIRST_BOXES = 400
"""That are opened for a first chip of a root."""


@dataclass(frozen=True)
class OpenBox:
    """A box with what may be the best in it.

    Attributes:
        box: with the designs that may be the best.
        plans: that may be the fastest; empty for a root, where all may be.
        score: no chip of the box has more.
    """

    box: Box
    plans: Plans = ()
    score: float = np.inf


@dataclass(frozen=True)
class Task:
    """A box to open.

    Attributes:
        open: the box.
        needed: the score from which on chips are listed; 0 where there is none yet.
        key: of the box and of that score in a journal; empty without one.
    """

    open: OpenBox
    needed: float
    key: str = ""


@dataclass
class Counts:
    """What a search has done."""

    boxes: int = 0
    pairs: int = 0
    priced: int = 0
    leaves: int = 0

    def add(self, other: "Counts") -> None:
        """Count what another one has."""
        for name, more in vars(other).items():
            setattr(self, name, getattr(self, name) + more)


@dataclass(frozen=True)
class Opened:
    """What came of a box.

    Attributes:
        parts: that may hold a better chip.
        priced: its chips with at least the needed score.
        counts: what was done.
        plans: of the vocabularies, where it was a root.
    """

    parts: tuple[OpenBox, ...]
    priced: tuple[Priced, ...]
    counts: Counts = field(default_factory=Counts)
    plans: int = 0


class BoxOpener:
    """The mapped function: it is sent to workers without ``stop``, which only this process has."""

    def __init__(self, problem: ChipProblem, stop: StopSignal = never_stop) -> None:
        self._problem, self._stop = problem, stop
        self._figures = BoxFigures(problem)
        self._families: dict[tuple[int, str], tuple[PlanList, int]] = {}

    def __reduce__(self) -> tuple[type["BoxOpener"], tuple[ChipProblem]]:
        return BoxOpener, (self._problem,)

    def describe(self, task: Task) -> str:
        """A box for people."""
        box = task.open.box
        return f"{len(box.cores)} designs in {box.precision} with {len(box.memories)} memories, domain {box.domain}"

    def __call__(self, task: Task) -> Opened:
        """What comes of a box.

        Raises:
            StoppedError: the stop signal gave a reason.
        """
        work = _Work(self._problem, self._figures, task.needed, self._stop)
        if task.open.plans:
            parts, priced = work.opened(task.open)
            return Opened(tuple(parts), tuple(priced), work.counts)
        lists, plans = self._all_families(task.open.box)
        root = work.bounded(task.open.box, lists)
        if root is None:
            return Opened((), (), work.counts, plans)
        priced = work.first_chips(root)
        return Opened((root,), tuple(priced), work.counts, plans)

    def _all_families(self, box: Box) -> tuple[Plans, int]:
        """The families of each model and precision of a root, and how many plans they have that no other root has."""
        lists, plans = [], 0
        is_first = box.domain == min(self._problem.space.scale_up.domains.values)
        for model in range(len(self._problem.models)):
            own = []
            for precision in self._problem.precisions_of(box.precision):
                if (model, precision) not in self._families:
                    asked, kernels = self._figures.at(model, precision, box, np.ones(1), np.ones(1))
                    every = all_families(asked, kernels)
                    self._families[model, precision] = every, plans_in(asked, every)
                every, count = self._families[model, precision]
                own.append((precision, every))
                elsewhere = precision != box.precision and precision in self._problem.precisions
                plans += count if is_first and not elsewhere else 0
            lists.append(tuple(own))
        return tuple(lists), plans


class _Work:
    """What is done for one box.

    Attributes:
        counts: of it.
    """

    def __init__(self, problem: ChipProblem, figures: BoxFigures, needed: float, stop: StopSignal) -> None:
        self._problem, self._figures, self._needed, self._stop = problem, figures, needed, stop
        self._share = 1 - max(TIE, problem.within)
        self.counts = Counts()

    def opened(self, open_: OpenBox) -> tuple[list[OpenBox], list[Priced]]:
        """The parts of a box, or the chips of one that is not split."""
        corner = self._figures.corner(open_.box)
        still = None if corner is None else self._still_open(corner, open_.plans)
        if still is None or corner is None:
            return [], []
        boxes = self._figures.splits(replace(corner, box=still.box))
        if boxes is None:
            return [], self._chips(still)
        parts = (self.bounded(each, still.plans) for each in boxes)
        return [each for each in parts if each is not None], []

    def first_chips(self, root: OpenBox) -> list[Priced]:
        """Good chips, depth first with few plans; none where that leads nowhere."""
        few = tuple(tuple((name, _promising(own)) for name, own in each) for each in root.plans)
        boxes = [replace(root, plans=few)]
        for _ in range(_FIRST_BOXES):
            if not boxes:
                break
            parts, priced = self.opened(boxes.pop())
            if priced:
                return priced
            boxes += sorted(parts, key=lambda part: part.score)
        return []

    def bounded(self, box: Box, inherited: Plans, always: bool = False) -> OpenBox | None:
        """A box with its bound, and lists without what is out; None where all of it is."""
        self.counts.boxes += 1
        corner = self._figures.corner(box)
        if corner is None:
            return None
        box = corner.box
        largest = bytes_from_gib(max(self._figures.memories[each].total_gb for each in box.memories))
        rates = corner.elements_hz.max(keepdims=True), corner.lanes_hz.max(keepdims=True)
        kept = []
        for model, lists in enumerate(inherited):
            each = []
            for precision, own in lists:
                asked, kernels = self._figures.at(model, precision, box, *rates)
                few = expanded(asked, own.within(largest), largest, always)
                self.counts.pairs += few.count
                each.append((precision, replace(few, bounds_s=bounds_s(asked, few, kernels)[:, 0])))
            kept.append(tuple(each))
        return self._still_open(corner, tuple(kept))

    def _still_open(self, corner: Corner, lists: Plans) -> OpenBox | None:
        """What of a box may be better than the best chip so far, by the bounds of its lists; None where nothing is."""
        least = float(corner.divisor.min())
        least_s = [min(float(few.bounds_s.min(initial=np.inf)) for _, few in each) for each in lists]
        mean = float(self._means(np.array(least_s)[:, None])[0])
        if not mean > 0 or mean < self._needed * least:
            return None
        open_ = tuple(
            tuple(
                (name, few.part(self._with(model, least_s, few.bounds_s) >= self._needed * least)) for name, few in each
            )
            for model, each in enumerate(lists)
        )
        return OpenBox(corner.part(mean / corner.divisor >= self._needed).box, open_, mean / least)

    def _with(self, model: int, least_s: list[float], bounds: Floats) -> Floats:
        """The mean of throughputs where one model has each of ``bounds``, and the others their least steps."""
        steps = np.repeat(np.array(least_s)[:, None], len(bounds), axis=1)
        steps[model] = bounds
        return self._means(steps)

    def _means(self, steps: Floats) -> Floats:
        """Means over models of throughputs, by their steps [models, n]."""
        with np.errstate(divide="ignore"):
            return self._problem.objective.score(self._problem.global_batch / steps)

    def _chips(self, open_: OpenBox) -> list[Priced]:
        """The chips of a box that is not split; at first with few plans where there is none, for a first one."""
        self.counts.leaves += 1
        if self._needed == 0:
            few = (((each, own.leading(_FIRST_PLANS)) for each, own in lists) for lists in open_.plans)
            self._price(open_.box, tuple(map(tuple, few)))
        every = self._price(open_.box, open_.plans)
        return [each for each in every if each.score >= self._needed]

    def _price(self, box: Box, plans: Plans) -> list[Priced]:
        """Chips that may be good enough; the needed score rises with the best of them."""
        again = self.bounded(box, plans, always=True)
        if again is None:
            return []
        box, priced = again.box, []
        leaf = Leaf(self._problem, self._figures, box, [self._of_model(box, each) for each in enumerate(again.plans)])
        for each in leaf.priced(lambda: self._needed, self._stop):
            self.counts.priced += 1
            priced.append(each)
            self._needed = max(self._needed, each.score * self._share)
        return priced

    def _of_model(
        self, box: Box, numbered: tuple[int, Sequence[tuple[str, PlanList]]]
    ) -> Iterator[tuple[PlanProblem, PlanList]]:
        model, lists = numbered
        for precision, own in lists:
            if own.count:
                yield self._figures.at(model, precision, box, np.ones(1), np.ones(1))[0], own


def _promising(own: PlanList) -> PlanList:
    """Some of a list: those with the lowest bounds, and those with the least memory."""
    fast = np.argsort(own.bounds_s, kind="stable")[:_LEADING]
    light = np.argsort(own.memory_bytes, kind="stable")[:_LIGHT]
    chosen: Any = np.union1d(fast, light)
    return own.part(chosen)
