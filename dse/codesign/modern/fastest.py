"""The fastest plan of one model on every architecture that is requested, exactly, with bounds on all others.

Plans are bounded from the general to the particular. FLOPs at the peak bound a step by the number of elements alone.
For a group of classes (:mod:`dse.codesign.modern.classes`), those with as many elements, every plan is bounded once,
with the most lanes among them, and the plans with the lowest bounds are kept; of all others the lowest bound is known.
For a class, kept plans are bounded with its own lanes. On one of its architectures they are priced exactly in the order
of their bounds, until the next bound is above the fastest: no other plan is as fast there. Where bounds of plans that
were not kept come first, all plans are bounded for that class, and more of them kept.

Joules without static power are those of products, the same for plans that cut them alike, on each architecture, and the
least that such a plan spends on everything else, which depends on the global buffer (:mod:`dse.plan.energy`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dse.codesign.modern.classes import ArchitectureClasses
from dse.codesign.modern.plan_rows import PlanRows
from dse.codesign.modern.problem import ModernProblem
from dse.codesign.search.choice import TIE
from dse.plan.bound import min_step_s
from dse.plan.energy import PRODUCT_KEYS, dynamic_joules, other_joules, product_joules
from dse.plan.evaluate import memory_needed, step_seconds
from dse.plan.plan_arrays import PlanArrays
from dse.plan.problem import PlanProblem
from dse.plan.template_kernels import RooflineKernels, TemplateKernels
from dse.plan.training_plan import CHOSEN_KEYS, TrainingPlan
from dse.run.progress import StopSignal, ask, never_stop
from hardware.energy import TENSOR_FIELDS, memory_energy, static_w
from hardware.energy_model import EnergyModel
from hardware.machines import Machines

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_ROWS = 65_536
"""Plans that are bounded together."""

_KEPT = 16_384
"""Plans with the lowest bounds that are kept at first."""

_PRICED = 32
"""Plans that are priced together on the architectures of a class at first, and then as many as were priced before."""

Bounded = Callable[[PlanArrays], Floats]
"""A figure of each plan, [P]."""


@dataclass(frozen=True)
class FastestPlan:
    """The fastest plan on one architecture: its step, and the joules of all accelerators in it."""

    plan: TrainingPlan
    step_s: float
    joules: float


class _Known(NamedTuple):
    """The fastest plan on one architecture with so much HBM: its joules without static power, and its fullest rank."""

    plan: TrainingPlan
    step_s: float
    dynamic_j: float
    memory_bytes: float
    hbm_bytes: int


class _Lowest(NamedTuple):
    """The plans that fit whose figure is lowest, in its order; ``floor`` is the lowest figure of the others that fit.

    ``positions`` are those among all plans; ``figures`` and these have shape [n].
    """

    positions: Indices
    figures: Floats
    plans: PlanArrays
    floor: float

    @property
    def least(self) -> float:
        """Of all that fit; infinite where none does."""
        return min(float(self.figures.min(initial=np.inf)), self.floor)


class FastestPlans:
    """One model over a space of architectures, at every HBM size of its problem."""

    def __init__(
        self,
        problem: ModernProblem,
        machines: Machines,
        classes: ArchitectureClasses,
        energy: EnergyModel,
        stop: StopSignal = never_stop,
    ) -> None:
        self.problem = problem
        self._machines, self._classes, self._energy, self._stop = machines, classes, energy, stop
        self._posed: PlanProblem = problem.plan_problem(machines.one(0), max(problem.hbm_bytes))
        self._plans = PlanRows(self._posed)
        self._groups: dict[int, dict[int, _Lowest]] = {}
        self._of_class: dict[tuple[int, int], tuple[int, _Lowest]] = {}
        self._known: dict[int, _Known] = {}

    @property
    def count(self) -> int:
        """Plans of the vocabulary."""
        return self._plans.count

    @cached_property
    def memory_bytes(self) -> Floats:
        """Of the fullest rank of every plan, [P]."""
        return np.concatenate([memory_needed(self._posed, piece) for piece in self._pieces()])

    def plan_of_least_memory(self) -> TrainingPlan:
        """The first of them."""
        return self._plans.plan(int(np.argmin(self.memory_bytes)))

    def fits(self, hbm_bytes: int) -> bool:
        """Whether any plan does."""
        return bool((self.memory_bytes <= hbm_bytes).any())

    def first_bounds_s(self) -> Floats:
        """Lower bounds on the step of every plan by class, [C]: its FLOPs at the peak."""
        elements, classes = np.unique(self._classes.elements, return_inverse=True)
        peak, most = self._posed.system.chip.peak_flops, 2.0 * self._machines.clock_hz
        first = self._machines.peak_flops[0]
        by_flops = [
            min_step_s(_with_peak(self._posed, {name: most * each * rate / first for name, rate in peak.items()}))
            for each in elements.tolist()
        ]
        return (np.array(by_flops) * (1 - TIE))[classes.ravel()]

    def class_bound_s(self, hbm_bytes: int, number: int) -> float:
        """A lower bound on the step of every plan that fits, on every architecture of one class."""
        return self._leading(hbm_bytes, number)[1].least

    def min_joules(self, hbm_bytes: int) -> Floats:
        """Lower bounds on the joules of a step without static power, under every plan that fits, [A]."""
        sharing, products_j = self._products
        few, kind_of = self._machines.distinct(*TENSOR_FIELDS)
        byte_j = memory_energy(few, self._energy)
        cheap, dear = self._other_joules
        fits = self.memory_bytes <= hbm_bytes
        least = np.full(len(few), np.inf)
        for each in np.unique(byte_j).tolist():
            share = (each - byte_j.min()) / max(np.ptp(byte_j), np.finfo(float).tiny)
            other_j = np.full(len(products_j), np.inf)
            np.minimum.at(other_j, sharing[fits], cheap[fits] + share * (dear[fits] - cheap[fits]))
            alike = byte_j == each
            least[alike] = (products_j[:, alike] + other_j[:, None]).min(axis=0)
        return least[kind_of] * (1 - TIE)

    @cached_property
    def _products(self) -> tuple[Indices, Floats]:
        """Which plans have the same products, recomputed ones left out, [P], and their joules, [K, tensor cores]."""
        keys = [np.stack([getattr(piece, key) for key in PRODUCT_KEYS], axis=1) for piece in self._pieces()]
        _, first, sharing = np.unique(np.concatenate(keys), axis=0, return_index=True, return_inverse=True)
        plans = self._plans.part(first)
        few, _ = self._machines.distinct(*TENSOR_FIELDS)
        plain = replace(plans, recompute=np.zeros(plans.count, dtype=np.int64))
        return sharing.ravel(), product_joules(self._posed, plain, few, self._energy)

    @cached_property
    def _other_joules(self) -> tuple[Floats, Floats]:
        """Of everything but products, on the machines with the cheapest and the dearest global buffer, [P] each."""
        machines = self._machines
        ends = [int(place(machines.global_buffer_bytes)) for place in (np.argmin, np.argmax)]
        smallest = np.full(len(ends), machines.vector_l2_bytes.min())
        few = replace(machines.take(np.array(ends)), vector_l2_bytes=smallest)
        joules = [other_joules(self._posed, piece, few, self._energy) for piece in self._pieces()]
        return np.concatenate([each[:, 0] for each in joules]), np.concatenate([each[:, 1] for each in joules])

    def fastest(self, hbm_bytes: int, number: int, members: Indices) -> list[FastestPlan]:
        """The fastest plan that fits on each of ``members`` of one class; of equal ones that of the least memory.

        One that was the fastest in more memory, and fits, is the fastest.
        """
        new = np.array([each for each in members.tolist() if not self._is_known(each, hbm_bytes)], dtype=np.int64)
        if len(new):
            self._known |= dict(zip(new.tolist(), self._fastest(hbm_bytes, number, new), strict=True))
        static = self._posed.devices * static_w(self._machines.take(members), hbm_bytes, self._energy)
        known = [self._known[each] for each in members.tolist()]
        return [
            FastestPlan(each.plan, each.step_s, each.dynamic_j + watts * each.step_s)
            for each, watts in zip(known, static.tolist(), strict=True)
        ]

    def _is_known(self, index: int, hbm_bytes: int) -> bool:
        known = self._known.get(index)
        return known is not None and known.memory_bytes <= hbm_bytes <= known.hbm_bytes

    def _fastest(self, hbm_bytes: int, number: int, members: Indices) -> list["_Known"]:
        machines = self._machines.take(members)
        kernels = TemplateKernels(self._posed, machines)
        kept, leading = self._leading(hbm_bytes, number)
        best, priced, done = np.full(len(members), np.inf), [np.empty((0, len(members)))], 0
        while True:
            next_s = leading.figures[done] if done < len(leading.figures) else leading.floor
            if leading.floor <= next_s and np.any(best * (1 + TIE) >= leading.floor) and leading.floor < np.inf:
                kept, leading = self._leading(hbm_bytes, number, kept)
                best, priced, done = np.full(len(members), np.inf), [np.empty((0, len(members)))], 0
                continue
            if not np.any(best * (1 + TIE) >= next_s) or next_s == np.inf:
                break
            ask(self._stop)
            plans = leading.plans.part(slice(done, done + max(_PRICED, done)))
            priced.append(step_seconds(self._posed, plans, kernels))
            best = np.minimum(best, priced[-1].min(axis=0))
            done += plans.count
        steps = np.concatenate(priced)
        rows = np.array([self._chosen(leading, column) for column in steps.T])
        joules = np.empty(len(members))
        for row in np.unique(rows).tolist():
            own = np.flatnonzero(rows == row)
            one = leading.plans.part([row])
            joules[own] = dynamic_joules(self._posed, one, machines.take(own), self._energy)[0]
        memory = self.memory_bytes[leading.positions]
        return [
            _Known(leading.plans.plan(row), float(step), float(spent), float(memory[row]), hbm_bytes)
            for row, step, spent in zip(rows.tolist(), steps.min(axis=0), joules, strict=True)
        ]

    def _chosen(self, leading: _Lowest, steps: Floats) -> int:
        """The position among ``leading`` of the fastest plan; ties go to the least memory, then to the first."""
        ties = np.flatnonzero(steps <= steps.min() * (1 + TIE))
        positions = leading.positions[ties]
        return int(ties[np.lexsort((positions, self.memory_bytes[positions]))[0]])

    def _leading(self, hbm_bytes: int, number: int, beyond: int = 0) -> tuple[int, _Lowest]:
        """The plans of a class with the lowest bounds, and how many of all were kept; more than ``beyond``."""
        key = hbm_bytes, number
        if key not in self._of_class:
            group = self._group(int(self._classes.elements[number]))[hbm_bytes]
            bounds = self._bounds_of(number)(group.plans) if group.plans.count else group.figures
            self._of_class[key] = _KEPT, _sorted(group._replace(figures=bounds))
        while self._of_class[key][0] <= beyond:
            kept = 2 * self._of_class[key][0]
            for size, lowest in self._lowest(self._bounds_of(number), kept).items():
                self._of_class[size, number] = kept, lowest
        return self._of_class[key]

    def _group(self, elements: int) -> dict[int, _Lowest]:
        """The plans with the lowest bounds on architectures with so many elements, by HBM size."""
        if elements not in self._groups:
            alike = np.flatnonzero(self._classes.elements == elements)
            number = int(alike[np.argmax(self._classes.lanes[alike])])
            self._groups[elements] = self._lowest(self._bounds_of(number), _KEPT)
        return self._groups[elements]

    def _bounds_of(self, number: int) -> Bounded:
        """Lower bounds on the steps of plans on the architectures of one class."""
        sizes = (each[[number]] for each in (self._classes.elements, self._classes.lanes))
        kernels = RooflineKernels(self._posed, self._machines, *sizes)
        return lambda plans: step_seconds(self._posed, plans, kernels)[:, 0]

    def _lowest(self, figure: Bounded, count: int) -> dict[int, _Lowest]:
        """The ``count`` plans that fit with the lowest figures, by HBM size."""
        sizes = self.problem.hbm_bytes
        kept: dict[int, list[_Lowest]] = {size: [] for size in sizes}
        limits, start = dict.fromkeys(sizes, np.inf), 0
        for piece in self._pieces():
            figures = figure(piece)
            memory = self.memory_bytes[start : start + piece.count]
            for size in sizes:
                fits = np.flatnonzero(memory <= size)
                low = fits[figures[fits] <= limits[size]]
                floor = float(figures[fits].min(initial=np.inf, where=figures[fits] > limits[size]))
                kept[size].append(_Lowest(start + low, figures[low], piece.part(low), floor))
                if sum(len(each.figures) for each in kept[size]) > 4 * count:
                    kept[size] = [_joined(kept[size], count)]
                    limits[size] = float(kept[size][0].figures[-1])
            start += piece.count
        return {size: _joined(kept[size], count) for size in sizes}

    def _pieces(self) -> Iterator[PlanArrays]:
        """All plans, in their order."""
        for _, piece in self._plans.pieces():
            for first in range(0, piece.count, _ROWS):
                ask(self._stop)
                yield piece.part(slice(first, first + _ROWS))


def _joined(parts: Sequence[_Lowest], count: int) -> _Lowest:
    """The ``count`` lowest of ``parts``, whose positions rise from one to the next."""
    rows = [np.stack([getattr(each.plans, key) for key in CHOSEN_KEYS], axis=1) for each in parts]
    of = parts[0].plans
    whole = _Lowest(
        np.concatenate([each.positions for each in parts]),
        np.concatenate([each.figures for each in parts]),
        PlanArrays.of_rows(np.concatenate(rows), of.precision, dict(of.settings)),
        min(each.floor for each in parts),
    )
    ordered = _sorted(whole)
    floor = min(whole.floor, float(ordered.figures[count:].min(initial=np.inf)))
    first = slice(count)
    return _Lowest(ordered.positions[first], ordered.figures[first], ordered.plans.part(first), floor)


def _sorted(lowest: _Lowest) -> _Lowest:
    """By the figures; of equal ones those that come first."""
    order = np.lexsort((lowest.positions, lowest.figures))
    return _Lowest(lowest.positions[order], lowest.figures[order], lowest.plans.part(order), lowest.floor)


def _with_peak(problem: PlanProblem, peak_flops: dict[str, float]) -> PlanProblem:
    chip = replace(problem.system.chip, peak_flops=peak_flops)
    return replace(problem, system=replace(problem.system, chip=chip))
