"""Every plan of the vocabulary, in arrays, and the best of them: a proof by complete enumeration.

The vocabulary is all plans that keep the rules (:mod:`dse.plan.rules`), use all devices, and whose ``interleave``
divides the layers of the largest stage, so that chunks are even. Of what is left open, two kinds are not tried, as they
are never better:

- ``schedule`` GPipe takes as long as 1F1B and keeps at least as many microbatches;
- ``zero`` above 0 shares out nothing where there is one replica.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dse.plan.constraints import ALL_DEVICES, DIVIDING_BATCH
from dse.plan.evaluate import evaluate
from dse.plan.plan_arrays import SCHEDULES, PlanArrays, recompute_code
from dse.plan.problem import PlanProblem, divisors
from dse.plan.rules import context_widths, expert_widths, pipeline_depths, recomputations, tensor_widths
from dse.plan.training_plan import CHOSEN_KEYS, TrainingPlan
from dse.run.progress import StopSignal, never_stop

_CHUNK = 16_384
"""Plans that are evaluated together: their arrays stay in the cache."""


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
        count: plans of the vocabulary.
        best: the fastest that fits; of equals the first. None where none fits.
        least: the one that needs the least memory; None where no plan keeps the rules.
        front: the fastest that fits in each amount of memory, ascending in memory; of all plans that fit.
        stopped: why not all plans were priced; None where they were. The rest is then that of the plans so far.
    """

    count: int
    best: Priced | None
    least: Priced | None
    front: tuple[Priced, ...]
    stopped: str | None = None


def enumerate_plans(problem: PlanProblem, stop: StopSignal = never_stop, min_devices: int = 1) -> Enumerated:
    """All plans of the vocabulary that have what is fixed; ``stop`` is asked between two chunks of them.

    Where devices may be idle, those that use ``min_devices`` or more.
    """
    limit = problem.system.chip.hbm_bytes
    best: Priced | None = None
    least: Priced | None = None
    front: list[Priced] = []
    count, stopped = 0, None
    for rows in _chunks(problem, min_devices):
        stopped = stop() if count else None
        if stopped is not None:
            break
        plans = PlanArrays.of_rows(rows, problem.precision, problem.settings)
        costs = evaluate(problem, plans)
        count += plans.count
        lightest = int(np.argmin(costs.memory_bytes))
        if least is None or costs.memory_bytes[lightest] < least.memory_bytes:
            least = _priced(plans, costs.step_s, costs.memory_bytes, lightest)
        fits = np.flatnonzero(costs.memory_bytes <= limit)
        if not len(fits):
            continue
        order = fits[np.lexsort((fits, costs.memory_bytes[fits], costs.step_s[fits]))]
        first = order[0]
        if best is None or costs.step_s[first] < best.step_s:
            best = _priced(plans, costs.step_s, costs.memory_bytes, int(first))
        lower = np.minimum.accumulate(costs.memory_bytes[order])
        leading = order[np.r_[True, lower[1:] < lower[:-1]]]
        front += [_priced(plans, costs.step_s, costs.memory_bytes, int(each)) for each in leading]
        front = _front(front)
    return Enumerated(count, best, least, tuple(reversed(front)), stopped)


def all_plans(problem: PlanProblem) -> PlanArrays:
    """All plans of the vocabulary that have what is fixed, in the order in which they are enumerated."""
    rows = [*_rows(problem)]
    every = np.concatenate(rows) if rows else np.empty((0, len(CHOSEN_KEYS)), dtype=np.int64)
    return PlanArrays.of_rows(every, problem.precision, problem.settings)


def _priced(plans: PlanArrays, step_s: Any, memory_bytes: Any, position: int) -> Priced:
    return Priced(plans.plan(position), float(step_s[position]), float(memory_bytes[position]))


def _front(plans: list[Priced]) -> list[Priced]:
    """Those that no other beats in both; the fastest first."""
    leading: list[Priced] = []
    for each in sorted(plans, key=lambda priced: (priced.step_s, priced.memory_bytes)):
        if not leading or each.memory_bytes < leading[-1].memory_bytes:
            leading.append(each)
    return leading


def _chunks(problem: PlanProblem, min_devices: int = 1) -> Iterator[NDArray[np.int64]]:
    waiting: list[NDArray[np.int64]] = []
    size = 0
    for rows in _rows(problem, min_devices):
        waiting.append(rows)
        size += len(rows)
        if size >= _CHUNK:
            yield np.concatenate(waiting)
            waiting, size = [], 0
    if waiting:
        yield np.concatenate(waiting)


def _rows(problem: PlanProblem, min_devices: int = 1) -> Iterator[NDArray[np.int64]]:
    """Rows in the order of a plan's keys; each array differs in microbatch, ZeRO stage and recomputation alone."""
    fixed = dict(problem.fixed)
    for tensor, context, depth in product(
        _open(fixed, "tensor", tensor_widths(problem)),
        _open(fixed, "context", context_widths(problem)),
        _open(fixed, "pipeline", pipeline_depths(problem)),
    ):
        for data in _open(fixed, "data", _replicas(problem, tensor * context * depth, min_devices)):
            for cut in _sequence_cuts(problem, fixed, tensor, context):
                for expert in _open(fixed, "expert", expert_widths(problem, tensor * context * data)):
                    mesh = (tensor, int(cut), context, expert, data, depth)
                    yield from _of_mesh(problem, fixed, mesh)


def _replicas(problem: PlanProblem, ranks: int, min_devices: int) -> list[int]:
    """Numbers of replicas of so many ranks: one that uses all devices, or any that use ``min_devices`` or more."""
    widths = divisors(problem.devices if problem.relaxed == DIVIDING_BATCH else problem.global_batch)
    if problem.relaxed == ALL_DEVICES:
        return [data for data in widths if min_devices <= ranks * data <= problem.devices]
    return [data for data in widths if ranks * data == problem.devices]


def _of_mesh(problem: PlanProblem, fixed: dict[str, Any], mesh: tuple[int, ...]) -> Iterator[NDArray[np.int64]]:
    tensor, _, context, expert, data, depth = mesh
    alone = context * data == 1 and tensor * context * data == expert
    zeros = _open(fixed, "zero", [0] if alone else [0, 1, 2, 3])
    modes = [recompute_code(mode) for mode in _open(fixed, "recompute", recomputations(problem.model.layers))]
    schedules = [SCHEDULES.index(each) for each in _open(fixed, "schedule", ["1f1b"])]
    sizes = _open(fixed, "microbatch", _microbatches(problem, data))
    padded = problem.relaxed == DIVIDING_BATCH
    for chunks, schedule in product(_open(fixed, "interleave", _interleavings(problem, depth)), schedules):
        if chunks * depth > problem.model.layers or (depth == 1 and (chunks > 1 or schedule)):
            continue
        if chunks > 1 and SCHEDULES[schedule] == "gpipe":
            continue
        fitting = [
            size
            for size in sizes
            if (padded or problem.global_batch % (data * size) == 0)
            and (chunks == 1 or -(-problem.global_batch // (data * size)) % depth == 0)
        ]
        rows = [(*mesh, chunks, schedule, zero, size, mode) for size in fitting for zero in zeros for mode in modes]
        if rows:
            yield np.array(rows, dtype=np.int64)


def _interleavings(problem: PlanProblem, depth: int) -> list[int]:
    if depth == 1:
        return [1]
    largest = math.ceil(problem.model.layers / depth)
    return [chunks for chunks in divisors(largest) if chunks * depth <= problem.model.layers]


def _microbatches(problem: PlanProblem, data: int) -> list[int]:
    """Sizes of microbatches: those that divide a replica's samples, or, where they need not, all that may be the best.

    Of the sizes with one number of microbatches the smallest takes no longer than the others.
    """
    samples = -(-problem.global_batch // data)
    if problem.relaxed != DIVIDING_BATCH:
        return divisors(samples)
    return sorted({-(-samples // rounds) for rounds in range(1, samples + 1)})


def _sequence_cuts(problem: PlanProblem, fixed: dict[str, Any], tensor: int, context: int) -> list[bool]:
    cuts = [False] if tensor == 1 else [True] if problem.model.experts is not None else [False, True]
    if problem.sequence % (tensor * context):
        cuts = [cut for cut in cuts if not cut]
    asked = fixed.get("sequence_parallel")
    return cuts if asked is None else [cut for cut in cuts if cut == asked]


def _open(fixed: dict[str, Any], key: str, vocabulary: list[Any]) -> list[Any]:
    """What a key may have: what is fixed, as far as it is legal, or everything.

    Values that the vocabulary leaves out for being no better are legal where they are asked for.
    """
    if key not in fixed:
        return vocabulary
    value = fixed[key]
    return [value] if key in _FREE or value in vocabulary else []


_FREE = frozenset(("interleave", "schedule", "zero", "recompute"))
