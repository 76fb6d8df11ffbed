"""Thousands of plans in one process: the rows of ``--batch PLANS.csv``.

Rows that leave nothing open but the order of the axes and the number of copies of what ZeRO shares out are priced
together, in arrays, each with every choice of these two. A row that leaves more open is answered as ``dse predict``
answers it: by all plans that have what the row fixes.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dse.plan.answer import nothing_legal
from dse.plan.batch_rows import PlanRow, Refused, words
from dse.plan.check import illegal
from dse.plan.evaluate import evaluate
from dse.plan.plan_arrays import PlanArrays
from dse.plan.problem import PlanProblem
from dse.plan.rules import faults
from dse.plan.search.enumeration import enumerate_plans
from dse.plan.search.vocabulary import plans_of, sharing_counts, with_sharing
from dse.plan.stack_range import on_problem, stacks_meant
from dse.plan.training_plan import AXES, CHOSEN_KEYS, ORDERS, PIPELINE_INSIDE, USUAL_ORDER, TrainingPlan
from dse.run.progress import ProgressCallback, StopSignal, never_stop, silent
from hardware.inputs import InputError

_CHUNK = 16_384
"""Plans that are evaluated together: their arrays stay in the cache."""

_PHASE = "plans"


@dataclass(frozen=True)
class PricedRow:
    """A row with the best plan that has what it fixes: the fastest that fits, and else the one of the least memory."""

    line: int
    problem: PlanProblem
    plan: TrainingPlan
    step_s: float
    memory_bytes: float

    @property
    def fits(self) -> bool:
        """Whether its fullest rank holds it."""
        return self.memory_bytes <= self.problem.usable_bytes

    @property
    def tokens_per_s(self) -> float:
        """Of all accelerators."""
        return self.problem.global_batch * self.problem.sequence / self.step_s

    @property
    def mfu(self) -> float:
        """Model FLOPs per second over the peak in the plan's precision."""
        problem = self.problem
        peak = problem.devices * problem.system.chip.peak_flops[self.plan.precision]
        return problem.model_flops / (self.step_s * peak)


@dataclass(frozen=True)
class Batch:
    """What a table says: rows that are priced, that are refused, and that a stopped run left, by their lines.

    ``stopped``: why the run ended early.
    """

    priced: tuple[PricedRow, ...]
    refused: tuple[Refused, ...]
    unpriced: tuple[int, ...] = ()
    stopped: str | None = None


def priced(
    rows: Iterable[PlanRow | Refused],
    stop: StopSignal = never_stop,
    progress: ProgressCallback = silent,
    skipped: Sequence[int] = (),
) -> Batch:
    """Every row; ``skipped`` are lines that a run had left when it was stopped."""
    read = [*rows]
    refused = [row for row in read if isinstance(row, Refused)]
    whole: dict[int, tuple[PlanProblem, list[tuple[PlanRow, TrainingPlan, bool]]]] = {}
    open_rows: list[PlanRow] = []
    for row in read:
        if isinstance(row, Refused) or row.line in skipped:
            continue
        plan = _completed(row)
        if plan is None:
            open_rows.append(row)
        elif illegal(row.problem, plan):
            refused.append(_refused(row, plan))
        else:
            order_is_open = "order" not in row.fixed and _has_other_order(plan)
            whole.setdefault(id(row.problem), (row.problem, []))[1].append((row, plan, order_is_open))
    found: list[PricedRow] = []
    for problem, plans in whole.values():
        found += _in_arrays(problem, plans)
        progress(_PHASE, len(found), len(read) - len(refused))
    answers: dict[Any, PricedRow | Refused | None] = {}
    reason, left = None, [*skipped]
    for row in open_rows:
        key = id(row.problem), tuple(sorted(row.fixed.items()))
        if key not in answers:
            reason = reason or stop()
            answers[key] = None if reason else _chosen(row)
        match answers[key]:
            case None:
                left.append(row.line)
            case Refused(rule=rule):
                refused.append(Refused(row.line, rule))
            case answer:
                found.append(replace(answer, line=row.line))
        progress(_PHASE, len(found), len(read) - len(refused))
    found.sort(key=lambda row: row.line)
    refused.sort(key=lambda row: row.line)
    return Batch(tuple(found), tuple(refused), tuple(sorted(left)), reason)


class StackRange(NamedTuple):
    """Seconds of a step with the stacks that could be meant: of the fastest, in the middle, of the slowest."""

    low_s: float
    middle_s: float
    high_s: float


def stack_ranges(rows: Sequence[PricedRow]) -> list[StackRange | None]:
    """The range of each row; None where its stack is named, or its machine is a template."""
    together: dict[int, list[int]] = {}
    for place, row in enumerate(rows):
        if not row.problem.stack_is_named:
            together.setdefault(id(row.problem), []).append(place)
    ranges: list[StackRange | None] = [None] * len(rows)
    for places in together.values():
        problem = rows[places[0]].problem
        meant = [replace(problem, stack=on_problem(problem, name)) for name in stacks_meant(problem.system.chip)]
        for start in range(0, len(places), _CHUNK):
            part = places[start : start + _CHUNK]
            plans = PlanArrays.of([rows[place].plan for place in part])
            steps = np.array([evaluate(each, plans).step_s for each in meant])
            ends = np.stack([steps.min(axis=0), np.median(steps, axis=0), steps.max(axis=0)], axis=1)
            for place, (low_s, middle_s, high_s) in zip(part, ends.tolist(), strict=True):
                ranges[place] = StackRange(low_s, middle_s, high_s)
    return ranges


def _completed(row: PlanRow) -> TrainingPlan | None:
    """The plan with what follows from what the row fixes, and the plainest order and copies; None if more is open."""
    fixed, problem = row.fixed, row.problem
    given: dict[str, Any] = {"first_layers": 0, "last_layers": 0, "zero_copies": 1, "order": USUAL_ORDER, **fixed}
    given.setdefault("schedule", "1f1b")
    if problem.model.experts is None:
        given.setdefault("expert", 1)
    axes = [key for key in AXES if key not in given]
    ranks = math.prod(given.get(key, 1) for key in AXES)
    if len(axes) == 1 and problem.devices % ranks == 0:
        given[axes[0]] = problem.devices // ranks
    if given.get("tensor") == 1 or problem.model.experts is not None:
        given.setdefault("sequence_parallel", given.get("tensor", 1) > 1)
    if given.get("pipeline") == 1:
        given.setdefault("interleave", 1)
    given.setdefault("precision", problem.precision)
    return TrainingPlan(**given) if {*CHOSEN_KEYS} <= given.keys() else None


def _has_other_order(plan: TrainingPlan) -> bool:
    """Whether the order with the pipeline inside of the replicas differs, and is legal."""
    return plan.pipeline > 1 and plan.data > 1 and plan.tensor * plan.context % plan.expert == 0


def _refused(row: PlanRow, plan: TrainingPlan) -> Refused:
    """Why a whole plan breaks a rule on the row's machine."""
    broken = faults(replace(row.problem, fixed=tuple(sorted({"precision": plan.precision, **row.fixed}.items()))))
    return Refused(row.line, words(InputError(broken)) if broken else "; ".join(illegal(row.problem, plan)))


def _in_arrays(problem: PlanProblem, plans: Sequence[tuple[PlanRow, TrainingPlan, bool]]) -> list[PricedRow]:
    """Whole plans of one problem, each with the best order and number of copies where its row leaves them open."""
    arrays = PlanArrays.of([plan for _, plan, _ in plans])
    table = np.stack([getattr(arrays, key) for key in CHOSEN_KEYS], axis=1)
    owners = np.arange(len(plans))
    other = np.array([is_open for *_, is_open in plans])
    moved = table[other]
    moved[:, CHOSEN_KEYS.index("order")] = ORDERS.index(PIPELINE_INSIDE)
    table, owners = np.concatenate([table, moved]), np.concatenate([owners, owners[other]])
    copies_open = np.array(["zero_copies" not in row.fixed for row, *_ in plans])[owners]
    members, of_member = [table[~copies_open]], [owners[~copies_open]]
    for zero in range(4):
        chosen = copies_open & (table[:, CHOSEN_KEYS.index("zero")] == zero)
        if chosen.any():
            fixed = replace(problem, fixed=tuple(sorted({**dict(problem.fixed), "zero": zero}.items())))
            members.append(with_sharing(fixed, table[chosen]))
            of_member.append(np.repeat(owners[chosen], sharing_counts(fixed, table[chosen])))
    every, owner = np.concatenate(members), np.concatenate(of_member)
    step_s, memory_bytes = _costs(problem, every)
    does_not_fit = memory_bytes > problem.usable_bytes
    merit = np.where(does_not_fit, memory_bytes, step_s)
    order = np.lexsort((merit, does_not_fit, owner))
    first = order[np.r_[True, np.diff(owner[order]) > 0]]
    best = plans_of(problem, every[first])
    return [
        PricedRow(
            plans[owner[place]][0].line, problem, best.plan(number), float(step_s[place]), float(memory_bytes[place])
        )
        for number, place in enumerate(first)
    ]


def _costs(problem: PlanProblem, rows: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Seconds of a step and bytes of the fullest rank, [rows] each."""
    parts = [
        evaluate(problem, plans_of(problem, rows[start : start + _CHUNK])) for start in range(0, len(rows), _CHUNK)
    ]
    return np.concatenate([each.step_s for each in parts]), np.concatenate([each.memory_bytes for each in parts])


def _chosen(row: PlanRow) -> PricedRow | Refused:
    """The best plan that has what a row fixes."""
    problem = replace(row.problem, fixed=tuple(sorted({**dict(row.problem.fixed), **row.fixed}.items())))
    broken = faults(problem)
    if broken:
        return Refused(row.line, words(InputError(broken)))
    found = enumerate_plans(problem)
    if found.least is None:
        reason = nothing_legal(problem)
        return Refused(row.line, words(reason) if isinstance(reason, InputError) else str(reason))
    best = found.best or found.least
    return PricedRow(row.line, row.problem, best.plan, best.step_s, best.memory_bytes)
