"""The designs of one clock, memory, link rate and domain, priced exactly in the order of their bounds."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dse.codesign.chips.boxes import Box, BoxFigures
from dse.codesign.chips.plan_lists import PlanList, bounds_s
from dse.codesign.chips.problem import ChipProblem, Links
from dse.codesign.chips.silicon import Realisation, highest_clock_hz
from dse.codesign.search.choice import TIE
from dse.plan.evaluate import step_seconds
from dse.plan.problem import PlanProblem
from dse.plan.template_kernels import RooflineKernels, TemplateKernels
from dse.plan.training_plan import TrainingPlan
from dse.run.progress import StopSignal, ask
from hardware.chip_space import CoreDesigns, Memory, with_sram

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_TOGETHER = 32
"""Designs that are priced together."""

_PLANS = 32
"""Plans that are priced together at first, and then as many as were priced before."""


@dataclass(frozen=True)
class ChosenChip:
    """One chip of a space."""

    width: int
    depth: int
    units: int
    lanes: int
    local_kib: int
    shared_mib: int
    clock_hz: float
    memory: Memory
    links: Links
    how: Realisation
    precision: str

    @property
    def cores(self) -> CoreDesigns:
        """Its cores, as an array of one."""
        sizes = (self.width, self.depth, self.units, self.lanes, self.local_kib, self.shared_mib)
        return CoreDesigns(*(np.array([each]) for each in sizes))


@dataclass(frozen=True)
class Priced:
    """A chip with the fastest plan of each model.

    Attributes:
        score: the objective.
        chip: with the cheapest node and number of dies by the objective, then by dollars.
        plans: of each model.
        steps_s: of each.
        usd: of a package.
    """

    score: float
    chip: ChosenChip
    plans: tuple[TrainingPlan, ...]
    steps_s: tuple[float, ...]
    usd: float

    @property
    def order(self) -> tuple[float | int | str, ...]:
        """Of equal scores: fewer dollars, then smaller sizes."""
        chip = self.chip
        sizes = (chip.units, chip.width, chip.depth, chip.lanes, chip.local_kib, chip.shared_mib)
        memory = (chip.memory.kind, chip.memory.stacks, chip.memory.gb)
        return (round(self.usd, 6), *sizes, chip.clock_hz, *memory, *chip.links, *chip.how, chip.precision)


@dataclass(frozen=True)
class _Options:
    """Designs with every SRAM and number of dies, in the node with the least divisor of each; arrays of shape [N].

    ``divisor`` is infinite where nothing is within the limits.
    """

    cores: CoreDesigns
    divisor: Floats
    usd: Floats
    how: Indices
    dies: Indices


class Leaf:
    """What is open of one box."""

    def __init__(
        self,
        problem: ChipProblem,
        figures: BoxFigures,
        box: Box,
        plans: Sequence[Iterator[tuple[PlanProblem, PlanList]]],
    ) -> None:
        self._problem, self._figures, self._box = problem, figures, box
        self._clock_hz = float(figures.clocks_hz[box.clocks[0]])
        self._memory = figures.memories[box.memories[0]]
        self._links = Links(figures.links[box.links[0]], box.domain)
        self._lists = [list(each) for each in plans]
        self._options = self._all_options()

    def priced(self, needed: Callable[[], float], stop: StopSignal) -> Iterator[Priced]:
        """Every chip that may have a score of ``needed()``, which may rise meanwhile."""
        options = self._options
        if not len(options.cores):
            return
        rates = np.stack([options.cores.elements, options.cores.all_lanes])
        classes, class_of = np.unique(rates, axis=1, return_inverse=True)
        class_of = class_of.ravel()
        bounds = [[self._bounds(asked, own, classes) for asked, own in each] for each in self._lists]
        least_s = np.array([np.minimum.reduce([part.min(axis=0) for part in each]) for each in bounds])
        with np.errstate(divide="ignore"):
            upper = self._problem.objective.score(self._problem.global_batch / least_s)[class_of] / options.divisor
        open_ = np.flatnonzero(np.isfinite(options.divisor))
        while True:
            open_ = open_[upper[open_] >= needed()]
            if not len(open_):
                return
            ask(stop)
            order = open_[np.lexsort((open_, options.usd[open_], -upper[open_]))]
            number = class_of[order[0]]
            alike = (class_of[order] == number) & (options.dies[order] == options.dies[order[0]])
            chosen = order[alike][:_TOGETHER]
            yield from self._price(chosen, [[part[:, number] for part in each] for each in bounds], needed())
            open_ = np.setdiff1d(open_, chosen)

    def _bounds(self, asked: PlanProblem, own: PlanList, classes: NDArray[np.int64]) -> Floats:
        """Lower bounds on the steps of plans, [P, classes]."""
        assert asked.machine is not None
        kernels = RooflineKernels(asked, asked.machine, *(self._clock_hz / asked.machine.clock_hz * classes))
        return bounds_s(asked, own, kernels)

    def _price(self, chosen: Indices, bounds: list[list[Floats]], needed: float) -> Iterator[Priced]:
        """The designs at ``chosen`` positions, all of one class and number of dies."""
        options, problem = self._options, self._problem
        cores = options.cores.take(chosen)
        machines = problem.machines(cores, self._clock_hz, self._memory, int(options.dies[chosen[0]]))
        least_s = [min(float(part.min(initial=np.inf)) for part in each) for each in bounds]
        found = []
        for model, each in enumerate(self._lists):
            needed_s = self._needed_s(model, least_s, needed * options.divisor[chosen])
            parts = [
                fastest_plans(asked, own, part, TemplateKernels(asked, machines), needed_s)
                for (asked, own), part in zip(each, bounds[model], strict=True)
            ]
            found.append(parts)
        for row in range(len(chosen)):
            fastest = [min((part[row] for part in parts), key=lambda plan: plan[0]) for parts in found]
            steps = tuple(step for step, _ in fastest)
            if not np.isfinite(steps).all():
                continue
            throughput = np.array([[problem.global_batch / step] for step in steps])
            score = float(problem.objective.score(throughput)[0] / options.divisor[chosen[row]])
            plans = tuple(plan for _, plan in fastest if plan is not None)
            yield Priced(score, self._chip(int(chosen[row])), plans, steps, float(options.usd[chosen[row]]))

    def _needed_s(self, model: int, least_s: list[float], needed: Floats) -> Floats:
        """The longest step with which one model may be part of so high means, the others at their least; [N]."""
        objective, batch = self._problem.objective, self._problem.global_batch
        if len(least_s) == 1:
            with np.errstate(divide="ignore"):
                return batch / needed
        low, high = np.full(len(needed), least_s[model]), np.full(len(needed), np.inf)
        values = np.array([[batch / each] for each in least_s]).repeat(len(needed), axis=1)
        high = np.where(needed > 0, 1e6 * least_s[model], np.inf)
        for _ in range(60):  # bisection from above: the upper end stays a bound
            middle = np.sqrt(low * np.minimum(high, 1e12))
            values[model] = batch / middle
            enough = objective.score(values) >= needed
            low, high = np.where(enough, middle, low), np.where(enough | np.isinf(high), high, middle)
        return high

    def _all_options(self) -> _Options:
        """Every design of the box."""
        cores = whole_designs(self._problem, self._figures.cores.take(self._box.cores))
        numbers = sorted({self._figures.realisations[each].dies for each in self._box.realisations})
        each = [self._with_dies(cores, dies) for dies in numbers]
        divisor, usd, how = (np.concatenate([part[place] for part in each]) for place in range(3))
        every = cores.take(np.tile(np.arange(len(cores)), len(numbers)))
        return _Options(every, divisor, usd, how.astype(np.int64), np.repeat(np.array(numbers), len(cores)))

    def _with_dies(self, cores: CoreDesigns, dies: int) -> tuple[Floats, Floats, Floats]:
        """The least divisor of designs with so many dies, and dollars and realisation there."""
        divisor, usd = np.full((2, len(cores)), np.inf)
        how, limits = np.zeros(len(cores)), self._problem.limits
        for number in self._box.realisations:
            realisation = self._figures.realisations[number]
            if realisation.dies != dies or highest_clock_hz(realisation.node) < self._clock_hz:
                continue
            made = self._figures.silicon(self._box, cores, number)
            fits = made.fits & (made.usd <= limits.usd) & (made.watts(self._clock_hz) <= limits.power_w * (1 + 1e-9))
            each = np.where(fits, self._problem.divisor(made, self._clock_hz), np.inf)
            same = np.isfinite(each) & (each <= divisor * (1 + TIE)) & (each >= divisor * (1 - TIE))
            better = (each < divisor * (1 - TIE)) | (same & (made.usd < usd * (1 - TIE)))
            divisor, usd = np.where(better, each, divisor), np.where(better, made.usd, usd)
            how = np.where(better, number, how)
        return divisor, usd, how

    def _chip(self, position: int) -> ChosenChip:
        options = self._options
        cores = options.cores.take(np.array([position]))
        sizes = {name: int(getattr(cores, name)[0]) for name in SIZES}
        how = self._figures.realisations[int(options.how[position])]
        return ChosenChip(
            **sizes,
            clock_hz=self._clock_hz,
            memory=self._memory,
            links=self._links,
            how=how,
            precision=self._box.precision,
        )


SIZES = ("width", "depth", "units", "lanes", "local_kib", "shared_mib")


def fastest_plans(
    asked: PlanProblem, own: PlanList, bounds: Floats, kernels: TemplateKernels, needed_s: Floats
) -> list[tuple[float, TrainingPlan | None]]:
    """The fastest plan on each machine, where it takes no longer than needed; ties go to the least memory."""
    order = np.argsort(bounds, kind="stable")
    best, steps, done = needed_s * (1 + TIE), [], 0
    while done < len(order) and np.any(best * (1 + TIE) >= bounds[order[done]]):
        chosen = order[done : done + max(_PLANS, done)]
        steps.append(step_seconds(asked, own.plans(asked, chosen), kernels))
        best = np.minimum(best, steps[-1].min(axis=0))
        done += len(chosen)
    if not steps:
        return [(np.inf, None)] * kernels.machines
    every, memory = np.concatenate(steps), own.memory_bytes[order[:done]]
    found: list[tuple[float, TrainingPlan | None]] = []
    for column in every.T:
        ties = np.flatnonzero(column <= column.min() * (1 + TIE))
        row = int(ties[np.lexsort((order[ties], memory[ties]))[0]])
        found.append((float(column[row]), own.plans(asked, order[[row]]).plan(0)))
    return found


def whole_designs(problem: ChipProblem, designs: CoreDesigns) -> CoreDesigns:
    """Designs with every SRAM that holds what their arrays work on."""
    cores = with_sram(problem.space, designs)
    return cores.take(np.flatnonzero(problem.holds(cores)))
