"""The best plan of the vocabulary (:mod:`dse.plan.search.vocabulary`), proven: every one is priced, or ruled out.

Plans that differ only in what replicas shard and in which modules are recomputed are a family. A family has a
lower bound on the step and the memory of its members: with collectives among replicas that take no time, and everything
shared out (:func:`dse.plan.evaluate.min_costs`), a step in which no module is recomputed, and the memory where all
that are tried are. Of a family that may have a better plan, the parts with one set of modules each have such bounds of
their own, and their plans have their own memory. Each is ruled out where a plan that fits is faster than its bound and
needs no more memory, so that the best plan, the front of step and memory and the least memory are those of all plans.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dse.plan.constraints import EQUAL_STAGES
from dse.plan.evaluate import evaluate, memory_needed, min_costs
from dse.plan.plan_arrays import Floats, PlanArrays
from dse.plan.problem import PlanProblem
from dse.plan.search.uneven import BOUNDED_SCHEDULES, uneven_families
from dse.plan.search.vocabulary import (
    Rows,
    families,
    has_sets,
    member_counts,
    plans_of,
    sharing_counts,
    with_all_modules,
    with_sets,
    with_sharing,
)
from dse.plan.training_plan import TrainingPlan
from dse.run.progress import StopSignal, never_stop

_CHUNK = 16_384
"""Plans that are evaluated together: their arrays stay in the cache."""

_BOUNDED = _CHUNK
"""Families that are bounded together."""

_ROUNDING = 1e-13
"""Relative weakening of a bound: in a layer with one microbatch, what is dropped and what is recomputed cancel."""

_BATCH = 1 << 18
"""Families that are bounded before any of them is priced: the most promising ones are first."""


@dataclass(frozen=True)
class Priced:
    """A plan with its step and the memory of its fullest rank."""

    plan: TrainingPlan
    step_s: float
    memory_bytes: float


@dataclass(frozen=True)
class Enumerated:
    """What all plans say.

    Attributes:
        count: plans of the vocabulary that are priced or ruled out.
        priced: those that are priced.
        best: the fastest that fits; None where none fits.
        least: the one that needs the least memory; None where no plan keeps the rules.
        front: the fastest that fits in each amount of memory, ascending in memory; of all plans that fit.
        stopped: why not all plans were priced or ruled out; None where they were. The rest is then that of the plans
            so far.
    """

    count: int
    priced: int
    best: Priced | None
    least: Priced | None
    front: tuple[Priced, ...]
    stopped: str | None = None


@dataclass
class _Incumbents:
    """The best plans so far."""

    limit_bytes: int
    below_s: float
    priced: int = 0
    least: Priced | None = None
    front: list[Priced] = field(default_factory=list)
    """The fastest first."""

    def add(self, plans: PlanArrays, step_s: Floats, memory_bytes: Floats) -> None:
        """Take what is better of plans."""
        self.priced += plans.count
        lightest = int(np.argmin(memory_bytes))
        if self.least is None or memory_bytes[lightest] < self.least.memory_bytes:
            self.least = _priced(plans, step_s, memory_bytes, lightest)
        fits = np.flatnonzero(memory_bytes <= self.limit_bytes)
        if not len(fits):
            return
        order = fits[np.lexsort((fits, memory_bytes[fits], step_s[fits]))]
        lower = np.minimum.accumulate(memory_bytes[order])
        leading = order[np.r_[True, lower[1:] < lower[:-1]]]
        self.front = _front([*self.front, *(_priced(plans, step_s, memory_bytes, int(each)) for each in leading)])

    def open(self, step_s: Floats, memory_bytes: Floats) -> NDArray[np.bool_]:
        """Which families may have a better plan, by their bounds."""
        lighter = memory_bytes < (np.inf if self.least is None else self.least.memory_bytes)
        faster = (step_s < self.below_s) & (memory_bytes <= self.limit_bytes)
        if not self.front:
            return lighter | faster
        steps = np.array([each.step_s for each in self.front])
        sizes = np.array([each.memory_bytes for each in self.front])
        before = np.searchsorted(steps, step_s)
        beaten = (before > 0) & (sizes[np.maximum(before - 1, 0)] <= memory_bytes)
        may: NDArray[np.bool_] = lighter | (faster & ~beaten)
        return may


class _Fastest(_Incumbents):
    """The fastest plan so far that fits, alone."""

    def open(self, step_s: Floats, memory_bytes: Floats) -> NDArray[np.bool_]:
        """Which families may have a faster one."""
        below_s = self.front[0].step_s if self.front else self.below_s
        may: NDArray[np.bool_] = (step_s < below_s) & (memory_bytes <= self.limit_bytes)
        return may


def fastest_plan(problem: PlanProblem, stop: StopSignal = never_stop) -> Enumerated:
    """As :func:`enumerate_plans`, but for plans that are slower and need less memory: of these nothing is said."""
    return _searched(problem, _Fastest(problem.usable_bytes, np.inf), stop, 1, np.inf)


def enumerate_plans(
    problem: PlanProblem, stop: StopSignal = never_stop, min_devices: int = 1, below_s: float = np.inf
) -> Enumerated:
    """All plans of the vocabulary that have what is fixed; ``stop`` is checked between two chunks of them.

    Where devices may be idle, those that use ``min_devices`` or more. Only plans that take less than ``below_s`` are of
    interest; others may be missing from the front.
    """
    return _searched(problem, _Incumbents(problem.usable_bytes, below_s), stop, min_devices, below_s)


def _searched(
    problem: PlanProblem, known: _Incumbents, stop: StopSignal, min_devices: int, below_s: float
) -> Enumerated:
    """All plans that ``known`` is open for."""
    count, stopped = 0, None
    for rows, step_s, memory_bytes in _bounded(problem, min_devices, below_s):
        counts = member_counts(problem, rows)
        for chosen in _promising(known, step_s, memory_bytes, counts):
            stopped = stop() if known.priced else None
            if stopped is not None:
                count = known.priced
                break
            promising = _promising_members(
                problem, known, *_promising_sets(problem, known, rows[chosen], step_s[chosen])
            )
            if len(promising):
                plans = plans_of(problem, promising)
                costs = evaluate(problem, plans)
                known.add(plans, costs.step_s, costs.memory_bytes)
        if stopped is not None:
            break
        count += int(counts.sum())
    best = known.front[0] if known.front else None
    return Enumerated(count, known.priced, best, known.least, tuple(reversed(known.front)), stopped)


def _bounded(problem: PlanProblem, min_devices: int, below_s: float) -> Iterator[tuple[Rows, Floats, Floats]]:
    """Families in batches, with lower bounds on the step and the memory of their members."""
    waiting: list[tuple[Rows, Floats, Floats]] = []
    for rows in families(problem, _BOUNDED, min_devices):
        every = rows
        if problem.relaxed == EQUAL_STAGES and dict(problem.fixed).get("schedule", "1f1b") in BOUNDED_SCHEDULES:
            every = np.concatenate([rows, uneven_families(problem, rows, below_s)])
        waiting.append((every, *family_bounds(problem, every)))
        if sum(len(each) for each, _, _ in waiting) >= _BATCH:
            yield _joined(waiting)
            waiting = []
    if waiting:
        yield _joined(waiting)


def family_bounds(problem: PlanProblem, rows: Rows) -> tuple[Floats, Floats]:
    """On the step and the memory of the members of families, [rows] each."""
    step_s, memory_bytes = min_costs(problem, plans_of(problem, rows))
    several = has_sets(problem, rows)
    if several.any():
        lightest = plans_of(problem, with_all_modules(problem, rows[several]))
        memory_bytes[several] = min_costs(problem, lightest)[1] * (1 - _ROUNDING)
    return step_s, memory_bytes


def _promising_sets(problem: PlanProblem, known: _Incumbents, rows: Rows, step_s: Floats) -> tuple[Rows, Floats]:
    """Families, one for each set of modules, that may have a better plan, with bounds on the step."""
    if not has_sets(problem, rows).any():
        return rows, step_s
    each = with_sets(problem, rows)
    min_s, min_bytes = min_costs(problem, plans_of(problem, each))
    may = known.open(min_s, min_bytes)
    return each[may], min_s[may]


def _promising_members(problem: PlanProblem, known: _Incumbents, rows: Rows, step_s: Floats) -> Rows:
    """Plans of families that may be better by their own memory and their family's bound on the step.

    Most of the time that a plan takes to price goes to collectives among replicas, which memory has no part in.
    """
    if not len(rows):
        return rows
    every = with_sharing(problem, rows)
    bounds_s = np.repeat(step_s, sharing_counts(problem, rows))
    return every[known.open(bounds_s, memory_needed(problem, plans_of(problem, every)))]


def _joined(parts: list[tuple[Rows, Floats, Floats]]) -> tuple[Rows, Floats, Floats]:
    rows, step_s, memory_bytes = zip(*parts, strict=True)
    return np.concatenate(rows), np.concatenate(step_s), np.concatenate(memory_bytes)


def _promising(
    known: _Incumbents, step_s: Floats, memory_bytes: Floats, counts: NDArray[np.int64]
) -> Iterator[NDArray[np.int64]]:
    """Positions of families that may have a better plan, a chunk of plans at a time.

    Those with the least memory are first, so that few others may need less; then those with the least step.
    """
    start = np.argsort(memory_bytes, kind="stable")[: max(1, int(_CHUNK // max(1, counts.max())))]
    first = start[known.open(step_s[start], memory_bytes[start])]
    if len(first):
        yield np.sort(first)
    rest = np.setdiff1d(np.arange(len(step_s)), first)
    rest = rest[np.argsort(step_s[rest], kind="stable")]
    while len(rest := rest[known.open(step_s[rest], memory_bytes[rest])]):
        size = max(1, int(np.searchsorted(np.cumsum(counts[rest]), _CHUNK, side="right")))
        yield np.sort(rest[:size])
        rest = rest[size:]


def _priced(plans: PlanArrays, step_s: Any, memory_bytes: Any, position: int) -> Priced:
    return Priced(plans.plan(position), float(step_s[position]), float(memory_bytes[position]))


def _front(plans: list[Priced]) -> list[Priced]:
    """Those that no other beats in both; the fastest first."""
    leading: list[Priced] = []
    for each in sorted(plans, key=lambda priced: (priced.step_s, priced.memory_bytes)):
        if not leading or each.memory_bytes < leading[-1].memory_bytes:
            leading.append(each)
    return leading
