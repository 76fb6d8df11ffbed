"""The best linear partition by CP-SAT: difference constraints, loads and cuts as one model.

An operator's chip is in order encoding: b(v, k) says that v is on chip k or below. An edge (u, v) asks
b(v, k) ⇒ b(u, k) ⇒ b(v, k + 1), so that tensors go from one chip to the next only, and what chip k sends, chip k + 1
receives and the link between them carries is the same: the outputs of operators at or below k with a consumer above.
Chips beyond those that a linear partition can use (:func:`dse.partition.graphs.usable.linear_partition`) are left out,
which makes the difference between seconds and hours on unrolled recurrent networks.

Times are whole multiples of :data:`_UNIT_S`, or of more where they are so long that sums of them would overflow, and
bytes likewise; the partition is priced again by the evaluator. The limit is deterministic.

The model is that of throughput under the reference evaluator. With another objective or evaluator the method works on
that problem all the same, and prices its partitions with the context's evaluator.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from ortools.sat.python import cp_model

from dse.algorithms.cp_sat import solved
from dse.partition.check import violations
from dse.partition.evaluators.analytical import AnalyticalEvaluator
from dse.partition.graphs.usable import linear_partition
from dse.partition.problem import Chips, PartitionProblem
from dse.partition.search.context import SearchContext, SearchResult, on_one_chip, throughput_of
from dse.partition.search.sampling import greedy

DETERMINISTIC_TIME = 4.0
"""CP-SAT's deterministic seconds for one number of chips, of the order of real ones on one thread."""

_FEW = 2
"""Numbers of chips that are tried in addition to the maximum of a linear partition."""

_UNIT_S = 1e-10

_MAX_UNITS = 2**42
"""Of one time or size, so that sums over all operators stay below 2^63."""

MAX_BOOLEANS = 20_000
"""Operators × chips of a model that is worth its time."""


def linear_chips(problem: PartitionProblem) -> int:
    """The chips that a linear partition of the problem can use."""
    return min(problem.chips, int(linear_partition(problem.graph).max(initial=0)) + 1)


def cp_sat(context: SearchContext, deterministic_time: float = DETERMINISTIC_TIME) -> SearchResult:
    """The best linear partition for throughput within the limits, better than the best of the context's ``starts``.

    Without any, it is to be better than greedy's partition and than everything on one chip.

    Models of few chips are solved much faster than those of many that come to leave some empty, so the numbers of chips
    are tried from the least that could be better on, a few of them and the most. What a partition must be better than
    is a cost of the model, that of throughput under the reference evaluator, regardless of the context's evaluator;
    what the models give is then priced by the context's evaluator.

    ``deterministic_time``: when to stop with each number, in CP-SAT's deterministic seconds.
    """
    problem = context.problem
    throughput = AnalyticalEvaluator(throughput_of(problem))
    max_chips, starts = linear_chips(problem), _starts(context)
    best = SearchResult().with_candidates(starts, context.evaluator.costs(starts))
    limit_s = float(throughput.costs(starts).min())
    work_s = float(problem.graph.latency_s.sum())
    min_chips = max(1, math.ceil(work_s / limit_s)) if 0 < limit_s < np.inf else max_chips
    for chips in sorted({*range(min_chips, min(min_chips + _FEW, max_chips + 1)), max_chips}):
        if context.stop() is not None:
            break
        chip = _LinearModel(problem, chips, limit_s).best(context, deterministic_time)
        if chip is not None and not violations(problem, chip.tolist()):
            best = best.with_candidates(chip[None], context.evaluator.costs(chip[None]))
            limit_s = min(limit_s, float(throughput.costs(chip[None])[0]))
    return best


def _starts(context: SearchContext) -> Chips:
    """Everything on one chip, and the context's ``starts`` or else greedy's partition, [B, N].

    Of large models CP-SAT may find nothing at all in its time, and what greedy has is better than one chip then.
    """
    given = list(context.starts) or [chip for chip in (greedy(context).chip,) if chip is not None]
    return np.array([*on_one_chip(context).tolist(), *given], dtype=np.int8)


@dataclass(frozen=True)
class _Units:
    """Times and sizes in whole units: [N] each; what alone exceeds its limit is one unit more than the limit."""

    latency: list[int]
    transfer: list[int]
    weight: list[int]
    limit: int
    memory: int | None

    @classmethod
    def of(cls, problem: PartitionProblem, limit_s: float) -> "_Units":
        graph = problem.graph
        transfer_s = graph.output_bytes / problem.link_bytes_per_s
        longest_s = min(float(graph.latency_s.sum() + transfer_s.sum()), limit_s)
        unit_s = max(_UNIT_S, longest_s / _MAX_UNITS)
        limit = int(longest_s / unit_s)
        memory_bytes = float(graph.weight_bytes.sum()) if problem.memory_bytes is None else problem.memory_bytes
        unit_bytes = max(1.0, memory_bytes / _MAX_UNITS)
        memory = int(memory_bytes / unit_bytes)
        return cls(
            latency=_whole(np.round(graph.latency_s / unit_s), limit),
            transfer=_whole(np.round(transfer_s / unit_s), limit),
            weight=_whole(np.ceil(graph.weight_bytes / unit_bytes), memory),
            limit=limit,
            memory=None if problem.memory_bytes is None else memory,
        )


def _whole(amounts: npt.NDArray[np.float64], limit: int) -> list[int]:
    whole: list[int] = np.minimum(amounts, limit + 1).astype(np.int64).tolist()
    return whole


class _LinearModel:
    def __init__(self, problem: PartitionProblem, chips: int, limit_s: float) -> None:
        graph = problem.graph
        self._count, self._chips = len(graph), chips
        self._units = _Units.of(problem, limit_s)
        self._model = cp_model.CpModel()
        self._below = [self._chip_variables() for _ in range(self._count)]
        self._add_edges(graph.edges.tolist())
        self._add_loads(self._cuts(graph.edges.tolist()))

    def _chip_variables(self) -> list[cp_model.IntVar]:
        """Of one operator: on chip k or below, for all chips but the last."""
        below = [self._model.new_bool_var("") for _ in range(self._chips - 1)]
        for lower, higher in pairwise(below):
            self._model.add_implication(lower, higher)
        return below

    def _add_edges(self, edges: list[list[int]]) -> None:
        for source, target in edges:
            for chip in range(self._chips - 1):
                self._model.add_implication(self._below[target][chip], self._below[source][chip])
            for chip in range(self._chips - 2):
                self._model.add_implication(self._below[source][chip], self._below[target][chip + 1])

    def _cuts(self, edges: list[list[int]]) -> list[cp_model.LinearExprT]:
        """Units of what passes from each chip to the next."""
        consumers: list[list[int]] = [[] for _ in range(self._count)]
        for source, target in edges:
            consumers[source].append(target)
        cuts: list[cp_model.LinearExprT] = []
        for chip in range(self._chips - 1):
            passing = []
            for operator, units in enumerate(self._units.transfer):
                if units and consumers[operator]:
                    passes = self._model.new_bool_var("")
                    passing.append(units * passes)
                    for consumer in consumers[operator]:
                        inside = self._below[operator][chip].negated()
                        self._model.add_bool_or(passes, inside, self._below[consumer][chip])
            cuts.append(cp_model.LinearExpr.sum(passing))
        return cuts

    def _on(self, chip: int, amounts: list[int]) -> cp_model.LinearExprT:
        """The amounts of the operators on ``chip``."""
        terms: list[Any] = []
        for below, amount in zip(self._below, amounts, strict=True):
            if amount:
                upper: Any = below[chip] if chip < self._chips - 1 else 1
                terms.append(amount * (upper - below[chip - 1]) if chip else amount * upper)
        return cp_model.LinearExpr.sum(terms)

    def _add_loads(self, cuts: list[cp_model.LinearExprT]) -> None:
        slowest = self._model.new_int_var(0, self._units.limit, "slowest")
        for chip in range(self._chips):
            parts = [self._on(chip, self._units.latency), *cuts[max(0, chip - 1) : chip + 1]]
            self._model.add(cp_model.LinearExpr.sum(parts) <= slowest)
            if self._units.memory is not None:
                self._model.add(self._on(chip, self._units.weight) <= self._units.memory)
        self._model.minimize(slowest)

    def best(self, context: SearchContext, deterministic_time: float) -> npt.NDArray[np.int8] | None:
        """The chips of the best partition, from 0 on, [N]."""
        solver, status = solved(self._model, deterministic_time, context.seed, context.stop)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return None
        chip = [self._chips - 1 - sum(solver.value(variable) for variable in below) for below in self._below]
        return np.array(chip, dtype=np.int8) - np.int8(min(chip))
