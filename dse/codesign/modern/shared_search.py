"""Search over a space of architectures for one or several models, any objective, and the Pareto front; with proofs.

An architecture stands for the fastest plan of each model on it (:mod:`dse.codesign.modern.fastest`). With lower bounds
on the step and on its joules, every objective of :mod:`dse.codesign.objective` has an upper bound::

    throughput           B / step                          at most  B / step bound
    per mm²              B / step / die                    at most  B / step bound / die
    per watt             B / joules of a step              at most  B / (joule bound + K · static power · step bound)

since more time costs more static power, and a mean rises with each of its values. Architectures are taken in the order
of their bounds, first those by FLOPs, then those of their class, and priced exactly, until no bound is above the best
score.

The **front** is that of score (the mean of throughputs), area, and joules per sample (their mean over models, by the
same weights) at the largest HBM size. An architecture is out if a priced one is no worse than its bounds in any of the
three, and better in one. It is complete when all others are priced or out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dse.algorithms.dominance import non_dominated
from dse.codesign.modern.classes import ArchitectureClasses
from dse.codesign.modern.fastest import FastestPlan, FastestPlans
from dse.codesign.modern.problem import ModernProblem
from dse.codesign.objective import Objective
from dse.codesign.search.choice import TIE, best_architecture, chosen_size
from dse.run.progress import ProgressCallback, StoppedError, StopSignal, never_stop, silent
from hardware.energy import static_w
from hardware.energy_model import EnergyModel
from hardware.machines import Machines
from hardware.units import gib_from_bytes

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_TOGETHER = 32
"""Architectures of a class that are priced together."""

_COMPARED = 1 << 12
"""Architectures that are compared with the front together."""


class Priced(NamedTuple):
    """An architecture that was priced exactly: its value of the objective, and the plan of each model on it."""

    score: float
    plans: tuple[FastestPlan, ...]


@dataclass
class SharedSize:
    """What is known at one HBM size; ``upper`` [A] are bounds on scores, ``priced`` what was priced, by position."""

    hbm_bytes: int
    upper: Floats
    priced: dict[int, Priced] = field(default_factory=dict)
    best: int | None = None

    @property
    def score(self) -> float:
        """The best so far; 0 where there is none."""
        return 0.0 if self.best is None else self.priced[self.best].score

    @property
    def bound(self) -> float:
        """No architecture scores more."""
        return max(float(self.upper.max(initial=0.0)), self.score)


@dataclass(frozen=True)
class SharedFront:
    """The front at one HBM size: positions by falling score; ``stopped`` says why it may lack some."""

    hbm_bytes: int
    points: tuple[int, ...]
    priced: dict[int, Priced]
    stopped: str | None = None


@dataclass(frozen=True)
class SharedOutcome:
    """What a search has found, by HBM size in bytes; ``stopped`` says why it ended early."""

    plans: int
    sizes: dict[int, SharedSize]
    stopped: str | None = None


def chosen(outcome: SharedOutcome, hbm_bytes: Sequence[int]) -> SharedSize | None:
    """At the smallest HBM size within one per cent of the best; None where no size has an answer."""
    known = [outcome.sizes.get(size) for size in hbm_bytes]
    scores = [0.0 if each is None else each.score for each in known]
    return known[chosen_size(scores)] if any(scores) else None


class SharedSearch:
    """Models that share one accelerator, over a space of architectures."""

    def __init__(
        self,
        problems: Sequence[ModernProblem],
        objective: Objective,
        machines: Machines,
        stop: StopSignal = never_stop,
        progress: ProgressCallback = silent,
        energy: EnergyModel | None = None,
    ) -> None:
        self._problems, self._objective, self._machines = tuple(problems), objective, machines
        self._progress, self._energy = progress, energy or machines.energy
        self._classes = ArchitectureClasses.of(machines)
        self._models = [FastestPlans(each, machines, self._classes, self._energy, stop) for each in self._problems]
        self._die_mm2 = machines.area_mm2 + self._problems[0].interface_mm2(machines)

    @property
    def plans(self) -> int:
        """Plans of all vocabularies."""
        return sum(model.count for model in self._models)

    def lacking(self) -> int | None:
        """The first model of which no plan fits the largest HBM; None where all have one.

        Raises:
            StoppedError: the stop signal gave a reason.
        """
        largest = max(self._problems[0].hbm_bytes)
        return next((number for number, model in enumerate(self._models) if not model.fits(largest)), None)

    def model(self, number: int) -> FastestPlans:
        """The plans of one model."""
        return self._models[number]

    def max_score(self) -> float:
        """What no architecture exceeds: FLOPs at the peak, and static power for as long."""
        steps = np.stack([model.first_bounds_s()[self._classes.class_of] for model in self._models])
        batches = np.array([[problem.global_batch] for problem in self._problems], dtype=np.float64)
        values = batches / steps
        if self._objective.per == "per-watt":
            values = values / self._static_w(min(self._problems[0].hbm_bytes))
        elif self._objective.per == "per-mm2":
            values = values / self._die_mm2
        return float(self._objective.score(values).max())

    def outcome(self) -> SharedOutcome:
        """The optimum at each HBM size; what is known by then where the stop signal gives a reason."""
        sizes: dict[int, SharedSize] = {}
        try:
            for hbm_bytes in reversed(self._problems[0].hbm_bytes):
                if all(model.fits(hbm_bytes) for model in self._models):
                    sizes[hbm_bytes] = SharedSize(hbm_bytes, np.full(len(self._machines), np.inf))
                    self._close(sizes[hbm_bytes])
        except StoppedError as reason:
            return SharedOutcome(self.plans, sizes, str(reason))
        return SharedOutcome(self.plans, sizes)

    def _close(self, at_size: SharedSize) -> None:
        """Prove the optimum at one HBM size."""
        bounds = _Bounds(self._models, self._classes, at_size.hbm_bytes)
        at_size.upper = self._upper_scores(bounds, np.arange(len(self._machines)))
        while at_size.upper.max(initial=0.0) >= max(at_size.score * (1 - TIE), np.finfo(float).tiny):
            number = int(self._classes.class_of[int(at_size.upper.argmax())])
            members = self._classes.members(number)
            if bounds.refine(number):
                at_size.upper[members] = np.minimum(at_size.upper[members], self._upper_scores(bounds, members))
                continue
            open_ = members[at_size.upper[members] >= at_size.score * (1 - TIE)]
            first = open_[np.argsort(-at_size.upper[open_], kind="stable")][:_TOGETHER]
            for index, priced in self._price(at_size.hbm_bytes, number, first).items():
                at_size.priced[index], at_size.upper[index] = priced, 0.0
            known = np.zeros(len(self._machines))
            known[[*at_size.priced]] = [priced.score for priced in at_size.priced.values()]
            at_size.best, _ = best_architecture(known, self._machines.area_mm2)
            out = int(np.count_nonzero(at_size.upper < at_size.score * (1 - TIE)))
            label = f"architectures settled at {gib_from_bytes(at_size.hbm_bytes):g} GB"
            self._progress(label, out, len(self._machines))
        at_size.upper = np.zeros(0)

    def _price(self, hbm_bytes: int, number: int, members: Indices) -> dict[int, Priced]:
        """Architectures of one class, exactly."""
        each = [model.fastest(hbm_bytes, number, members) for model in self._models]
        plans = list(zip(*each, strict=True))
        values = np.array(
            [
                [self._value(model, int(index), plan) for model, plan in enumerate(of)]
                for index, of in zip(members, plans, strict=True)
            ]
        )
        scores = self._objective.score(values.T)
        return {int(index): Priced(float(score), of) for index, score, of in zip(members, scores, plans, strict=True)}

    def _value(self, number: int, index: int, plan: FastestPlan) -> float:
        batch = self._problems[number].global_batch
        match self._objective.per:
            case "per-watt":
                return batch / plan.joules
            case "per-mm2":
                return batch / plan.step_s / float(self._die_mm2[index])
            case _:
                return batch / plan.step_s

    def _upper_scores(self, bounds: "_Bounds", members: Indices) -> Floats:
        """Upper bounds on the scores of architectures."""
        values = np.empty((len(self._models), len(members)))
        for number, problem in enumerate(self._problems):
            steps = bounds.step_s[number][self._classes.class_of[members]]
            if self._objective.per == "per-watt":
                joules = bounds.min_joules(number)[members] + self._static_w(bounds.hbm_bytes)[members] * steps
                values[number] = problem.global_batch / joules
            else:
                values[number] = problem.global_batch / steps
        if self._objective.per == "per-mm2":
            values /= self._die_mm2[members]
        return self._objective.score(values)

    def _static_w(self, hbm_bytes: int) -> Floats:
        """Of all accelerators, [A]."""
        return self._problems[0].accelerators * static_w(self._machines, hbm_bytes, self._energy)

    # The front --------------------------------------------------------------------------------------------------------

    def front(self, hbm_bytes: int) -> SharedFront:
        """The front of score, area and joules per sample at one HBM size, which fits; the objective is throughput."""
        priced: dict[int, Priced] = {}
        try:
            self._fill_front(hbm_bytes, priced)
        except StoppedError as reason:
            return SharedFront(hbm_bytes, self._listed(priced), priced, str(reason))
        return SharedFront(hbm_bytes, self._listed(priced), priced)

    def _fill_front(self, hbm_bytes: int, priced: dict[int, Priced]) -> None:
        bounds = _Bounds(self._models, self._classes, hbm_bytes)
        every = np.arange(len(self._machines))
        upper, least = self._upper_scores(bounds, every), self._least_joules(bounds, every)
        open_ = every
        while len(open_ := self._open(open_, upper, least, priced)):
            done = len(self._machines) - len(open_)
            self._progress("Pareto front: architectures settled", done, len(self._machines))
            hopeful = open_[non_dominated(-upper[open_], self._machines.area_mm2[open_], least[open_])]
            for number in np.unique(self._classes.class_of[hopeful]).tolist():
                if bounds.refine(number):
                    members = self._classes.members(number)
                    upper[members] = self._upper_scores(bounds, members)
                    least[members] = self._least_joules(bounds, members)
                    continue
                ours = hopeful[self._classes.class_of[hopeful] == number][:_TOGETHER]
                priced |= self._price(hbm_bytes, number, ours)

    def _open(self, candidates: Indices, upper: Floats, least: Floats, priced: dict[int, Priced]) -> Indices:
        """Those of ``candidates`` that are not priced, and that no point of the front so far certainly dominates."""
        area = self._machines.area_mm2
        candidates = candidates[~np.isin(candidates, np.array([*priced], dtype=np.int64))]
        listed = np.array(self._listed(priced), dtype=np.int64)
        score, joules = (
            np.array([each(priced[index]) for index in listed.tolist()]) for each in (_score, self._joules)
        )
        left = []
        for start in range(0, len(candidates), _COMPARED):
            part = candidates[start : start + _COMPARED]
            no_worse = (score >= upper[part, None]) & (area[listed] <= area[part, None]) & (joules <= least[part, None])
            better = (score > upper[part, None]) | (area[listed] < area[part, None]) | (joules < least[part, None])
            left.append(part[~(no_worse & better).any(axis=1)])
        return np.concatenate(left) if left else candidates

    def _listed(self, priced: dict[int, Priced]) -> tuple[int, ...]:
        """Positions of the priced architectures that no other dominates, by falling score, then rising area."""
        known = np.array(sorted(priced), dtype=np.int64)
        score, joules = (np.array([each(priced[index]) for index in known.tolist()]) for each in (_score, self._joules))
        area = self._machines.area_mm2[known]
        front = np.flatnonzero(non_dominated(-score, area, joules)) if len(known) else known
        return tuple(known[front[np.lexsort((known[front], area[front], -score[front]))]].tolist())

    def _joules(self, priced: Priced) -> float:
        return joules_per_sample(self._problems, self._objective, [plan.joules for plan in priced.plans])

    def _least_joules(self, bounds: "_Bounds", members: Indices) -> Floats:
        """Lower bounds on the joules per sample of architectures."""
        static = self._static_w(bounds.hbm_bytes)[members]
        each = [
            (bounds.min_joules(number)[members] + static * bounds.step_s[number][self._classes.class_of[members]])
            / problem.global_batch
            for number, problem in enumerate(self._problems)
        ]
        least: Floats = np.average(each, axis=0, weights=self._objective.weights)
        return least * (1 - TIE)


def _score(priced: Priced) -> float:
    return priced.score


def joules_per_sample(problems: Sequence[ModernProblem], objective: Objective, joules: Sequence[float]) -> float:
    """The mean over models of the joules per sample, by the weights of the objective."""
    each = [spent / problem.global_batch for spent, problem in zip(joules, problems, strict=True)]
    return float(np.average(each, weights=objective.weights))


class _Bounds:
    """Lower bounds at one HBM size: on steps by class, ``step_s`` [M, C], at first by FLOPs; on joules, [A]."""

    def __init__(self, models: Sequence[FastestPlans], classes: ArchitectureClasses, hbm_bytes: int) -> None:
        self.hbm_bytes = hbm_bytes
        self.step_s = np.stack([model.first_bounds_s() for model in models])
        self._models, self._refined = models, np.zeros(len(classes.elements), dtype=np.bool_)
        self._joules: dict[int, Floats] = {}

    def refine(self, number: int) -> bool:
        """Take the bounds of a class in place of those of its group; False where that was done before."""
        if self._refined[number]:
            return False
        own = [model.class_bound_s(self.hbm_bytes, number) for model in self._models]
        self.step_s[:, number] = np.maximum(self.step_s[:, number], own)
        self._refined[number] = True
        return True

    def min_joules(self, number: int) -> Floats:
        """Without static power, of a step of one model, [A]."""
        if number not in self._joules:
            self._joules[number] = self._models[number].min_joules(self.hbm_bytes)
        return self._joules[number]
