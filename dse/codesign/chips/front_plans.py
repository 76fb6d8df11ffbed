"""The plans that may be the fastest on chips of a front, with lower bounds on their steps.

Nearly all boxes hold chips that some front needs, so that no score rules out plans. A box has the families whose bounds
at its highest rates are at most a *limit*; all others take longer than the limit on each of its chips. Limits follow
from bounds at the lowest rates, times a factor that only decides how much work there is: a plan that takes no longer
than the limit is the fastest of all, and where there is none, the chip is priced with all families.

A bound holds in every part of a box. So families are bounded again in the order of the bounds that they have, until no
other can be below the least.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dse.codesign.chips.boxes import Box, BoxFigures, Corner
from dse.codesign.chips.leaf import fastest_plans
from dse.codesign.chips.opening import Counts
from dse.codesign.chips.plan_lists import PlanList, all_families, bounds_s, expanded
from dse.plan.problem import PlanProblem
from dse.plan.template_kernels import TemplateKernels
from dse.plan.training_plan import TrainingPlan
from hardware.machines import Machines
from hardware.units import bytes_from_gib

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_ROUNDING = 1e-9

_LIMIT = 1.3
"""Over the least bound at the lowest rates of a box: families that boxes keep."""

_LEADING = 64
"""Families that are bounded at the lowest rates."""

_BOUNDED = 1_024
"""Families that are bounded together at first, and then as many as before."""

_REACH = 1.02
"""Over the least bound on a chip: families whose plans it is priced with at first."""


@dataclass(frozen=True)
class Few:
    """Families of one model in one precision.

    Attributes:
        positions: among all of them, from the lowest bounds on.
        bounds_s: no plan takes less on any chip of the box; those of the least one are at its own rates, others may be
            those of a larger box.
        limit_s: the others take longer on each chip of the box.
    """

    positions: Indices
    bounds_s: Floats
    limit_s: float

    @property
    def least_s(self) -> float:
        """No plan takes less."""
        return min(float(self.bounds_s.min(initial=np.inf)), self.limit_s)


Lists = tuple[tuple[tuple[str, Few], ...], ...]
"""Of each model, the plans in each precision."""


class FrontPlans:
    """All families of plans of one problem; ``counts`` are of its search."""

    def __init__(self, boxes: BoxFigures, counts: Counts) -> None:
        self._boxes, self._counts = boxes, counts
        self._families: dict[tuple[int, str, int], PlanList] = {}

    def whole(self, model: int, precision: str, box: Box) -> Few:
        """All families, without bounds."""
        families = self._families_of(model, precision, box)
        return Few(np.arange(families.count), np.zeros(families.count), np.inf)

    def _families_of(self, model: int, precision: str, box: Box) -> PlanList:
        """They do not depend on chips but for the domain."""
        key = model, precision, box.domain
        if key not in self._families:
            self._families[key] = all_families(*self._boxes.at(model, precision, box, np.ones(1), np.ones(1)))
        return self._families[key]

    def fewer(self, model: int, precision: str, corner: Corner, few: Few) -> Few:
        """The families that may be the fastest on a chip of a box, as far as its limit goes."""
        box, figures, families = corner.box, self._boxes, self._families_of(model, precision, corner.box)
        fits = families.memory_bytes[few.positions] <= self._most_bytes(box)
        positions, bounds = few.positions[fits], few.bounds_s[fits]
        bounds = self._refreshed(model, precision, corner, positions, bounds, 0.0)
        slowest = min(box.memories, key=lambda each: figures.memories[each].bytes_per_s)
        low_hz = float(figures.clocks_hz[box.clocks[0]])
        low = replace(box, clocks=box.clocks[:1] * 2, links=box.links[:1] * 2, memories=(slowest,))
        leading = positions[np.argsort(bounds, kind="stable")[:_LEADING]]
        cores = figures.cores.take(box.cores)
        lowest = low_hz * cores.elements.min(keepdims=True), low_hz * cores.all_lanes.min(keepdims=True)
        worst_s = self._bounds_s(model, precision, low, leading, *lowest).min(initial=np.inf)
        limit_s = min(few.limit_s, _LIMIT * float(worst_s))
        order = np.argsort(bounds, kind="stable")
        order = order[: np.searchsorted(bounds[order], limit_s, side="right")]
        return Few(positions[order], bounds[order], limit_s)

    def _refreshed(
        self, model: int, precision: str, corner: Corner, positions: Indices, bounds: Floats, reach_s: float
    ) -> Floats:
        """Sorted bounds with those at the rates of a box, until none that is left is below the least or the reach."""
        rates = corner.elements_hz.max(keepdims=True), corner.lanes_hz.max(keepdims=True)
        bounds, start, least_s = bounds.copy(), 0, np.inf
        while start < len(bounds) and bounds[start] < max(least_s, reach_s):
            part = slice(start, start + max(_BOUNDED, start))
            bounds[part] = np.maximum(
                bounds[part], self._bounds_s(model, precision, corner.box, positions[part], *rates)
            )
            start, least_s = part.stop, min(least_s, float(bounds[part].min()))
        return bounds

    def _bounds_s(
        self, model: int, precision: str, box: Box, positions: Indices, elements_hz: Floats, lanes_hz: Floats
    ) -> Floats:
        self._counts.pairs += len(positions)
        asked, kernels = self._boxes.at(model, precision, box, elements_hz, lanes_hz)
        return bounds_s(asked, self._families_of(model, precision, box).part(positions), kernels)[:, 0]

    def every(self, model: int, precision: str, corner: Corner) -> Few:
        """All families of a model that may fit, with bounds at the highest rates of a box."""
        families = self._families_of(model, precision, corner.box)
        positions = np.flatnonzero(families.memory_bytes <= self._most_bytes(corner.box))
        rates = corner.elements_hz.max(keepdims=True), corner.lanes_hz.max(keepdims=True)
        bounds = self._bounds_s(model, precision, corner.box, positions, *rates)
        order = np.argsort(bounds, kind="stable")
        return Few(positions[order], bounds[order], np.inf)

    def members(
        self, model: int, precision: str, corner: Corner, few: Few, reach_s: float
    ) -> tuple[PlanProblem, PlanList]:
        """The plans of families that fit, with bounds at the highest rates of a box."""
        rates = corner.elements_hz.max(keepdims=True), corner.lanes_hz.max(keepdims=True)
        asked, kernels = self._boxes.at(model, precision, corner.box, *rates)
        bounds = self._refreshed(model, precision, corner, few.positions, few.bounds_s, reach_s)
        families = self._families_of(model, precision, corner.box).part(few.positions[bounds <= reach_s])
        own = expanded(asked, families, self._most_bytes(corner.box), always=True)
        self._counts.pairs += own.count
        return asked, replace(own, bounds_s=bounds_s(asked, own, kernels)[:, 0])

    def _most_bytes(self, box: Box) -> int:
        return bytes_from_gib(max(self._boxes.memories[each].total_gb for each in box.memories))


class NearestPlans:
    """The plans of one model on chips with the same rates, from the lowest bounds on; more of them as needed.

    Attributes:
        reach_s: plans that are left out take longer.
    """

    def __init__(self, plans: FrontPlans, model: int, corner: Corner, lists: tuple[tuple[str, Few], ...]) -> None:
        self._plans, self._model, self._corner, self._lists = plans, model, corner, lists
        self._members: list[tuple[PlanProblem, PlanList]] = []
        self._reach = _REACH - 1
        self.reach_s = 0.0
        self._widen()

    @property
    def least_s(self) -> float:
        """No plan takes less."""
        return min([self.reach_s, *(float(own.bounds_s.min(initial=np.inf)) for _, own in self._members)])

    def fastest(self, machines: Machines, needed_s: Floats) -> list[tuple[float, TrainingPlan | None]]:
        """The fastest plan on each machine; None where all take longer than needed."""
        while True:
            parts = [
                fastest_plans(asked, own, own.bounds_s, TemplateKernels(asked, machines), needed_s)
                for asked, own in self._members
            ]
            found = [min(each, key=lambda plan: plan[0]) for each in zip(*parts, strict=True)]
            steps = np.minimum([step for step, _ in found], needed_s)
            if np.isinf(self.reach_s) or (steps <= self.reach_s).all():
                return [
                    (step, plan if step <= most * (1 + _ROUNDING) else None)
                    for (step, plan), most in zip(found, needed_s.tolist(), strict=True)
                ]
            self._widen()

    def _widen(self) -> None:
        """Take in the plans of more families."""
        reach_s = min(few.least_s for _, few in self._lists) * (1 + self._reach)
        if reach_s > min(few.limit_s for _, few in self._lists):
            self._lists = tuple(
                (precision, self._plans.every(self._model, precision, self._corner)) for precision, _ in self._lists
            )
            reach_s = min(few.least_s for _, few in self._lists) * (1 + self._reach)
        farthest_s = max(float(few.bounds_s.max(initial=0.0)) for _, few in self._lists)
        ends = reach_s >= farthest_s and all(np.isinf(few.limit_s) for _, few in self._lists)
        self._reach, self.reach_s = 2 * self._reach, np.inf if ends else reach_s
        self._members = [
            self._plans.members(self._model, precision, self._corner, few, reach_s) for precision, few in self._lists
        ]
