"""Best-first search over architectures, each with every plan of the vocabulary, stopped by lower bounds: a proof.

A step takes no longer where every kernel takes no longer: collectives and memory depend on the plan alone, a pass and
what it does not hide of collectives take together no longer where the pass takes no longer, and everything else is a
sum or a maximum. (What interleaved stages hide of their gradients is an exception, of which bounds take the least:
:mod:`dse.plan.evaluate`.) So the step of a plan with lower bounds
for kernels (:class:`dse.plan.template_kernels.RooflineKernels`) is a lower bound on its step. These bounds need two
figures of an architecture, its processing elements and its vector lanes, and architectures that share both are one
class. For each HBM size:

1. every plan that fits is bounded once, on the most elements and the most lanes of the whole space;
2. a few architectures of promising classes are priced exactly with the most promising plans: the incumbent;
3. plans whose bound is above the incumbent are out on every architecture; the others are bounded on every class;
4. classes are taken in the order of their bounds, and their architectures priced exactly with the plans whose bound is
   not above the incumbent, until the next class cannot hold a better one.

Every plan on every architecture is then priced, or has a bound above the best step.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dse.codesign.modern.plan_rows import PlanRows
from dse.codesign.modern.problem import ModernOptimum, ModernProblem
from dse.codesign.search.choice import TIE, chosen_size
from dse.plan.evaluate import step_seconds, steps_and_memory
from dse.plan.plan_arrays import PlanArrays
from dse.plan.problem import PlanProblem
from dse.plan.template_kernels import RooflineKernels, TemplateKernels
from dse.run.progress import ProgressCallback, StoppedError, StopSignal, ask, never_stop, silent
from hardware.machines import Machines
from hardware.units import gib_from_bytes

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_ROWS = 65_536
"""Plans times machines that are priced together: their arrays take tens of megabytes."""

_COMPARED = 1 << 20
"""Bounds that are compared together."""

_LEADING = 256
"""Plans that are priced for the first incumbent."""

_SEED_CLASSES, _SEEDS = 3, 16
"""Classes, and architectures of each, that are priced for it: those with the largest buffers, where products are
fastest."""

_ARCHITECTURES = 256
"""Architectures that are priced together."""


@dataclass(frozen=True)
class Candidates:
    """All plans or some, with what holds on every architecture; arrays have shape [P].

    Attributes:
        plans: in the order of their enumeration; all of them are made a piece at a time.
        memory_bytes: of the fullest rank.
        ideal_s: lower bounds on the step on every architecture of the space.
    """

    plans: PlanArrays | PlanRows
    memory_bytes: Floats
    ideal_s: Floats

    def part(self, chosen: Indices) -> "Candidates":
        """Some of them."""
        return Candidates(self.plans.part(chosen), self.memory_bytes[chosen], self.ideal_s[chosen])

    @property
    def arrays(self) -> PlanArrays:
        """Of all of them at once: for some alone."""
        return self.plans.part(np.arange(self.plans.count))

    def min_s(self, hbm_bytes: int) -> float:
        """No plan that fits takes less; infinite where none does."""
        return float(self.ideal_s.min(initial=np.inf, where=self.memory_bytes <= hbm_bytes))

    def promising(self, hbm_bytes: int, below_s: float = np.inf, count: int | None = None) -> "Candidates":
        """Those that fit and whose bounds are not above ``below_s``, the lowest bounds first; ``count`` of them."""
        best = np.empty(0, dtype=np.int64)
        for piece in _pieces(np.arange(len(self.ideal_s)), _COMPARED):
            ideal = self.ideal_s[piece]
            may = piece[(ideal <= below_s) & (self.memory_bytes[piece] <= hbm_bytes)]
            merged = np.concatenate([best, may])
            best = merged if count is None else merged[np.argsort(self.ideal_s[merged], kind="stable")[:count]]
        return self.part(best[np.argsort(self.ideal_s[best], kind="stable")])


@dataclass
class SizeSearch:
    """What is known at one HBM size.

    Attributes:
        hbm_bytes: the size.
        bound_s: no plan on any architecture takes less; infinite where no plan fits.
        best: the best so far.
        evaluated: of the architectures that were priced exactly, the least step of the plans that may be the best.
        lower_s: lower bounds on the step of every plan on each architecture, [A]; empty before they are worked out.
    """

    hbm_bytes: int
    bound_s: float
    best: ModernOptimum | None = None
    evaluated: dict[int, float] = field(default_factory=dict)
    lower_s: Floats = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True)
class ModernOutcome:
    """What a search has found, by HBM size in bytes, largest first; ``stopped`` says why it ended early."""

    plans: int
    sizes: dict[int, SizeSearch]
    stopped: str | None = None


def chosen_optimum(problem: ModernProblem, outcome: ModernOutcome) -> SizeSearch | None:
    """At the smallest HBM size within one per cent of the best; None where no size has a plan."""
    known = [outcome.sizes.get(size) for size in problem.hbm_bytes]
    optima = [0.0 if each is None or each.best is None else 1.0 / each.best.step_s for each in known]
    return known[chosen_size(optima)] if any(optima) else None


class ModernSearch:
    """One problem over a space of architectures."""

    def __init__(
        self,
        problem: ModernProblem,
        machines: Machines,
        stop: StopSignal = never_stop,
        progress: ProgressCallback = silent,
    ) -> None:
        self._problem, self._machines, self._stop, self._progress = problem, machines, stop, progress
        self._posed: PlanProblem = problem.plan_problem(machines.one(0), max(problem.hbm_bytes))
        elements = machines.tensor_cores * machines.core_width * machines.core_depth
        lanes = machines.vector_cores * machines.vector_lanes
        classes, class_of = np.unique(np.stack([elements, lanes], axis=1), axis=0, return_inverse=True)
        self._elements, self._lanes = classes.T
        self._class_of: Indices = class_of.ravel()

    def candidates(self) -> Candidates:
        """All plans, each with its memory and its bound over all architectures.

        Raises:
            StoppedError: the stop signal gave a reason.
        """
        plans = PlanRows(self._posed)
        most = RooflineKernels(
            self._posed, self._machines, self._elements.max(keepdims=True), self._lanes.max(keepdims=True)
        )
        memory, ideal = np.empty((2, plans.count))
        for start, piece in plans.pieces():
            for local in _pieces(np.arange(piece.count), _ROWS):
                ask(self._stop)
                chosen = slice(start + int(local[0]), start + int(local[-1]) + 1)
                self._progress("bounding plans", chosen.start, plans.count)
                ideal[chosen], memory[chosen] = steps_and_memory(self._posed, piece.part(local), most)
        return Candidates(plans, memory, ideal)

    def outcome(self, candidates: Candidates) -> ModernOutcome:
        """The optimum at each HBM size; what is known by then where the stop signal gives a reason."""
        sizes: dict[int, SizeSearch] = {}
        stopped = None
        for hbm_bytes in reversed(self._problem.hbm_bytes):
            sizes[hbm_bytes] = at_size = SizeSearch(hbm_bytes, candidates.min_s(hbm_bytes))
            if at_size.bound_s == np.inf:
                continue
            try:
                self._close(at_size, candidates)
            except StoppedError as reason:
                stopped = str(reason)
                break
        return ModernOutcome(candidates.plans.count, sizes, stopped)

    def _close(self, at_size: SizeSearch, candidates: Candidates) -> None:
        """Prove the optimum at one HBM size."""
        leading = candidates.promising(at_size.hbm_bytes, count=_LEADING)
        promising = np.argsort(self._class_bounds(leading).min(axis=0), kind="stable")
        incumbent = np.inf
        for number in promising[:_SEED_CLASSES]:
            members = self._members(number)
            seeds = members[np.argsort(-self._machines.global_buffer_bytes[members], kind="stable")][:_SEEDS]
            steps = self._exact(leading.arrays, seeds)
            if steps.min() < incumbent:
                incumbent = float(steps.min())
                row, column = np.unravel_index(int(steps.argmin()), steps.shape)
                at_size.best = self._optimum(leading, int(row), int(seeds[column]), incumbent)
        cut_s = incumbent
        survivors = candidates.promising(at_size.hbm_bytes, below_s=incumbent * (1 + TIE))
        bounds = self._class_bounds(survivors)
        least = bounds.min(axis=0)
        for number in np.argsort(least, kind="stable"):
            if least[number] > incumbent * (1 + TIE):
                break
            for members in _pieces(self._members(number), _ARCHITECTURES):
                chosen = np.flatnonzero(bounds[:, number] <= incumbent * (1 + TIE))
                for part in _pieces(members, max(1, _ROWS // max(1, len(chosen)))):
                    steps = self._exact(survivors.plans.part(chosen), part).min(axis=0)
                    at_size.evaluated |= dict(zip(part.tolist(), steps.tolist(), strict=True))
                    incumbent = min(incumbent, float(steps.min()))
            self._settled(at_size, least, incumbent)
        at_size.best = self._choose(at_size.evaluated, survivors, bounds)
        at_size.bound_s = at_size.best.step_s
        # Plans that are out take at least what the incumbent took when they were ruled out.
        at_size.lower_s = np.minimum(least, cut_s)[self._class_of]

    def _choose(self, evaluated: dict[int, float], survivors: Candidates, bounds: Floats) -> ModernOptimum:
        """The best architecture and plan; ties go to the smaller area, then position, then memory, then plan."""
        least = min(evaluated.values())
        ties = [index for index, step in evaluated.items() if step <= least * (1 + TIE)]
        index = min(ties, key=lambda tie: (self._machines.area_mm2[tie], tie))
        chosen = np.flatnonzero(bounds[:, self._class_of[index]] <= least * (1 + TIE))
        open_ = survivors.part(chosen)
        steps = self._exact(open_.arrays, np.array([index]))[:, 0]
        rows = np.flatnonzero(steps <= steps.min() * (1 + TIE))
        keys = open_.plans.part(rows)
        order = np.lexsort((keys.recompute, keys.microbatch, keys.zero, keys.tensor, open_.memory_bytes[rows]))
        row = int(rows[order[0]])
        return self._optimum(open_, row, index, float(steps[row]))

    def _optimum(self, of: Candidates, row: int, index: int, step_s: float) -> ModernOptimum:
        return ModernOptimum(index, of.plans.plan(row), step_s, float(of.memory_bytes[row]))

    def _members(self, number: int) -> Indices:
        return np.flatnonzero(self._class_of == number)

    def _class_bounds(self, candidates: Candidates) -> Floats:
        """Lower bounds on the step of each plan on each class, [P, C]."""
        kernels = RooflineKernels(self._posed, self._machines, self._elements, self._lanes)
        bounds = np.empty((candidates.plans.count, len(self._elements)))
        for chosen in _pieces(np.arange(len(bounds)), max(1, _ROWS // len(self._elements))):
            ask(self._stop)
            bounds[chosen] = step_seconds(self._posed, candidates.plans.part(chosen), kernels)
        return bounds

    def _exact(self, plans: PlanArrays, indices: Indices) -> Floats:
        """Steps of plans on architectures, [P, len(indices)]."""
        ask(self._stop)
        return step_seconds(self._posed, plans, TemplateKernels(self._posed, self._machines.take(indices)))

    def _settled(self, at_size: SizeSearch, least: Floats, incumbent: float) -> None:
        """Tell how many architectures are evaluated or out."""
        out = int(np.count_nonzero(least[self._class_of] > incumbent * (1 + TIE)))
        size, total = gib_from_bytes(at_size.hbm_bytes), len(self._machines)
        done = min(total, out + len(at_size.evaluated))
        self._progress(f"architectures settled at {size:g} GB", done, total)


def _pieces(indices: Indices, size: int) -> Iterator[Indices]:
    """``indices`` in pieces of at most ``size``."""
    return (indices[start : start + size] for start in range(0, len(indices), size))
