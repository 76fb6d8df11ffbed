"""The plans that may be the fastest on the chips of a box, with lower bounds on their steps.

Plans that share a mesh, a microbatch and a schedule are a family (:mod:`dse.plan.search.vocabulary`). A family has the
bounds of :class:`dse.plan.step_memory.LeastStep`: collectives among replicas take no time, all state is shared out, no
module is recomputed. Where few families are left, their members have bounds of their own. Both are priced with
:class:`dse.plan.template_kernels.RooflineKernels` at rates that no chip of the box exceeds, so that a list that was
ruled out by is ruled out in every part of the box.
"""

import base64
import io
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dse.plan.evaluate import memory_needed, step_seconds
from dse.plan.plan_arrays import Floats, PlanArrays
from dse.plan.problem import PlanProblem
from dse.plan.search.vocabulary import (
    Rows,
    families,
    has_sets,
    member_counts,
    members,
    plans_of,
    with_all_modules,
)
from dse.plan.step_memory import LeastStep
from dse.plan.template_kernels import RooflineKernels

Indices = NDArray[np.int64]

_ROWS = 16_384
"""Rows that are priced together: their arrays stay in the cache."""

_MEMBERS = 20_000
"""Plans that are few enough to have bounds of their own."""

_ROUNDING = 1e-13
"""Relative weakening of a bound on memory: see :mod:`dse.plan.search.enumeration`."""


@dataclass(frozen=True)
class PlanList:
    """Families, or plans, of one model in one precision; arrays of shape [n].

    Attributes:
        rows: numbers in the order of the chosen keys.
        memory_bytes: lower bounds on the memory of families; of plans their own.
        bounds_s: lower bounds on their steps in the box that they were bounded for last.
        are_families: which of both they are.
    """

    rows: Rows
    memory_bytes: Floats
    bounds_s: Floats
    are_families: bool

    @property
    def count(self) -> int:
        """Families or plans."""
        return len(self.rows)

    def part(self, chosen: Indices | NDArray[np.bool_]) -> "PlanList":
        """Those at ``chosen`` positions."""
        return PlanList(self.rows[chosen], self.memory_bytes[chosen], self.bounds_s[chosen], self.are_families)

    def leading(self, most: int) -> "PlanList":
        """Those with the lowest bounds."""
        return self.part(np.sort(np.argsort(self.bounds_s, kind="stable")[:most]))

    def plans(self, problem: PlanProblem, chosen: Indices | slice = slice(None)) -> PlanArrays:
        """As arrays."""
        return plans_of(problem, self.rows[chosen])

    def within(self, hbm_bytes: int) -> "PlanList":
        """Those that may fit."""
        return self.part(self.memory_bytes <= hbm_bytes)


def all_families(problem: PlanProblem, kernels: RooflineKernels) -> PlanList:
    """Every family of a vocabulary, with bounds on memory; ``kernels`` say how many machines there are, one."""
    rows, memory = [], []
    for part in families(problem, _ROWS):
        lightest = plans_of(problem, np.where(has_sets(problem, part)[:, None], with_all_modules(problem, part), part))
        rows.append(part)
        memory.append(LeastStep(problem, lightest, kernels).memory_bytes() * (1 - _ROUNDING))
    if not rows:
        return PlanList(np.empty((0, 0), dtype=np.int64), np.empty(0), np.empty(0), are_families=True)
    every = np.concatenate(memory)
    return PlanList(np.concatenate(rows), every, np.zeros(len(every)), are_families=True)


def plans_in(problem: PlanProblem, every: PlanList) -> int:
    """Plans of families."""
    return int(member_counts(problem, every.rows).sum()) if every.count else 0


def expanded(problem: PlanProblem, own: PlanList, hbm_bytes: int, always: bool) -> PlanList:
    """The members that fit, where they are few or ``always`` wanted; else the families."""
    if not own.are_families or not own.count:
        return replace(own, are_families=own.are_families and not always)
    if not always and int(member_counts(problem, own.rows).sum()) > _MEMBERS:
        return own
    rows = members(problem, own.rows)
    memory = np.concatenate([memory_needed(problem, plans_of(problem, part)) for part in _pieces(rows)])
    fits = memory <= hbm_bytes
    return PlanList(rows[fits], memory[fits], np.zeros(np.count_nonzero(fits)), are_families=False)


def bounds_s(problem: PlanProblem, own: PlanList, kernels: RooflineKernels) -> Floats:
    """Lower bounds on the step of each row, on each machine of ``kernels``; [n, machines]."""
    size = max(1, _ROWS // kernels.machines)
    if own.are_families:
        parts = [
            LeastStep(problem, plans_of(problem, part), kernels).times()[0][:, None] for part in _pieces(own.rows, size)
        ]
    else:
        parts = [step_seconds(problem, plans_of(problem, part), kernels) for part in _pieces(own.rows, size)]
    return np.concatenate(parts) if parts else np.empty((0, kernels.machines))


def packed(own: PlanList) -> str:
    """A list as text."""
    file = io.BytesIO()
    rows = np.asfortranarray(own.rows)
    np.savez_compressed(file, rows=rows, memory=own.memory_bytes, bounds=own.bounds_s, families=own.are_families)
    return base64.b64encode(file.getvalue()).decode()


def unpacked(text: str) -> PlanList:
    """The list of a text.

    Raises:
        ValueError, KeyError: it is of none.
    """
    with np.load(io.BytesIO(base64.b64decode(text)), allow_pickle=False) as arrays:
        rows = np.ascontiguousarray(arrays["rows"])
        return PlanList(rows, arrays["memory"], arrays["bounds"], bool(arrays["families"]))


def _pieces(rows: Rows, size: int = _ROWS) -> Iterator[Rows]:
    return (rows[start : start + size] for start in range(0, len(rows), size))
