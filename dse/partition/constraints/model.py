"""The constraints (2) to (5) in full and the reference cost as one CP-SAT model, for graphs of some ten to hundred
operators: a second opinion on what is possible, and proven optima.

It is built from the definition in :mod:`dse.partition.problem` alone. What :mod:`dse.partition.constraints.structure`
derives is left out, so that the two can be held against each other.

- on(v, k) and below(v, k): operator v is on chip k, on chip k or a lower one (order encoding). Exactly one on(v, ·).
- (2) below(v, k) ⇒ below(u, k) for every edge (u, v).
- (3) used(k + 1) ⇒ used(k) ⇔ some on(·, k).
- (4) arc(a, b) for a < b where an edge (u, v) has on(u, a) and on(v, b); reach(a, b) where a path leads from a to b;
  not arc(a, b), arc(a, m) and reach(m, b) at once, since that is a longer path. Both may be true without need, which
  only forbids more, so nothing is lost by saying when they must be.
- (5) the weights on a chip.
- Cost: sends(v, k), receives(v, k) and carries(v, k): chip k sends v's output (once), chip k receives it (once), the
  link from k to k + 1 carries it (once).

Accuracy: times are rounded down to units, 10⁻¹² of the work and the transfers together, so the model's optimum is a
lower bound on the problem's. A partition that is optimal in the model costs at most one unit more for each operator and
each tensor on its slowest chip than the problem's optimum. Weights are rounded down to bytes. Partitions are checked
and priced by :mod:`dse.partition.check`.
"""

from itertools import pairwise
from math import ceil, inf
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from ortools.sat.python import cp_model

from dse.algorithms.cp_sat import solved
from dse.partition.check import cost_s, violations
from dse.partition.problem import Chips, Floats, PartitionGraph, PartitionProblem
from dse.run.progress import StopSignal, never_stop

DETERMINISTIC_TIME = 10.0
"""CP-SAT's deterministic seconds, of the order of real ones on one thread."""

_UNITS = 1e12
"""Units that the work and the transfers together make."""


class GeneralOptimum(NamedTuple):
    """The outcome of CP-SAT.

    Attributes:
        chip: the best partition, [N]; None where CP-SAT has none in time, or none exists.
        bound_s: no valid partition costs less; infinite where none exists. Within the module's accuracy of the cost
            of ``chip`` where that is proven to be the best.
    """

    chip: npt.NDArray[np.int8] | None
    bound_s: float


def solve_general(
    problem: PartitionProblem,
    deterministic_time: float = DETERMINISTIC_TIME,
    seed: int = 0,
    start: Chips | None = None,
    stop: StopSignal = never_stop,
) -> GeneralOptimum:
    """The best valid partition of ``problem`` under the reference evaluator, with a bound; one thread.

    Args:
        problem: graph, package and objective.
        deterministic_time: when to stop, in CP-SAT's deterministic seconds.
        seed: of CP-SAT.
        start: a partition to begin at, [N].
        stop: polled during the search; a reason ends it with the best so far.
    """
    model = ConstraintModel(problem.graph, problem.chips)
    model.add_memory(problem.graph.weight_bytes, problem.memory_limit_bytes)
    unit_s = model.minimise_cost(problem)
    for operator, chip in enumerate(() if start is None else start):
        model.hint(operator, int(chip))
    solver, status = solved(model.model, deterministic_time, seed, stop)
    if status == cp_model.INFEASIBLE:
        return GeneralOptimum(None, inf)
    bound_s = max(0.0, ceil(solver.best_objective_bound - 1e-6) * unit_s)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return GeneralOptimum(None, bound_s)
    chip = model.chips_of(solver)
    if violations(problem, chip.tolist()):  # Weights in fractions of a byte may not fit after all.
        return GeneralOptimum(None, bound_s)
    # Sums of floats differ in their last digits, and a bound must not be above the cost of a partition.
    return GeneralOptimum(chip, min(bound_s, cost_s(problem, chip.tolist())))


def has_no_partition(problem: PartitionProblem, deterministic_time: float = DETERMINISTIC_TIME, seed: int = 0) -> bool:
    """Whether CP-SAT proves in its time that no partition is valid. Costs have no part in that, and are left out."""
    model = ConstraintModel(problem.graph, problem.chips)
    model.add_memory(problem.graph.weight_bytes, problem.memory_limit_bytes)
    _, status = solved(model.model, deterministic_time, seed)
    return bool(status == cp_model.INFEASIBLE)


class ConstraintModel:
    """The constraints (2) to (4); cost and memory on demand.

    Args:
        graph: the operators.
        chips: C.

    Attributes:
        model: what CP-SAT gets.
    """

    def __init__(self, graph: PartitionGraph, chips: int) -> None:
        self.model = cp_model.CpModel()
        self._count, self._chips = len(graph), chips
        self._edges = [(int(source), int(target)) for source, target in graph.edges]
        self._on = [self._booleans(chips) for _ in range(self._count)]
        self._below = [self._order(on) for on in self._on]
        self._arc = {(a, b): self.model.new_bool_var("") for a in range(chips) for b in range(a + 1, chips)}
        self._add_order()
        self._add_no_holes()
        self._add_arcs()
        self._add_reduction()

    def place(self, operator: int, chip: int) -> None:
        """Ask for a chip."""
        self.model.add_bool_and(self._on[operator][chip])

    def hint(self, operator: int, chip: int) -> None:
        """Begin at a chip."""
        for number, variable in enumerate(self._on[operator]):
            self.model.add_hint(variable, number == chip)

    def chips_of(self, solver: cp_model.CpSolver) -> npt.NDArray[np.int8]:
        """The partition of the solution, [N]."""
        return np.array([[solver.value(variable) for variable in on].index(1) for on in self._on], dtype=np.int8)

    def _booleans(self, count: int) -> list[cp_model.IntVar]:
        return [self.model.new_bool_var("") for _ in range(count)]

    def _order(self, on: list[cp_model.IntVar]) -> list[cp_model.IntVar]:
        """Of one operator: on chip k or below, for every chip."""
        below = self._booleans(len(on))
        self.model.add_exactly_one(on)
        self.model.add(below[0] == on[0])
        self.model.add_bool_and(below[-1])
        for (lower, higher), here in zip(pairwise(below), on[1:], strict=True):
            self.model.add_implication(lower, higher)
            self.model.add(higher - lower == here)
        return below

    def _add_order(self) -> None:
        """(2)."""
        for source, target in self._edges:
            for ahead, behind in zip(self._below[source], self._below[target], strict=True):
                self.model.add_implication(behind, ahead)

    def _add_no_holes(self) -> None:
        """(3)."""
        used = self._booleans(self._chips)
        for chip, variable in enumerate(used):
            here = [on[chip] for on in self._on]
            self.model.add_max_equality(variable, here)
        for lower, higher in pairwise(used):
            self.model.add_implication(higher, lower)

    def _add_arcs(self) -> None:
        for source, target in self._edges:
            for (first, last), arc in self._arc.items():
                self.model.add_bool_or(arc, ~self._on[source][first], ~self._on[target][last])

    def _add_reduction(self) -> None:
        """(4)."""
        reach = {ends: self.model.new_bool_var("") for ends in self._arc}
        for ends, arc in self._arc.items():
            self.model.add_implication(arc, reach[ends])
        for first, last in self._arc:
            for middle in range(first + 1, last):
                path = ~reach[middle, last]
                self.model.add_bool_or(reach[first, last], ~self._arc[first, middle], path)
                self.model.add_bool_or(~self._arc[first, last], ~self._arc[first, middle], path)

    def add_memory(self, weight_bytes: Floats, limit_bytes: float) -> None:
        """(5)."""
        if np.isinf(limit_bytes):
            return
        sizes = np.floor(weight_bytes).astype(np.int64).tolist()
        limit = int(limit_bytes)
        for chip in range(self._chips):
            self.model.add(self._sum_on(chip, sizes) <= limit)

    def _sum_on(self, chip: int, amounts: list[int]) -> cp_model.LinearExprT:
        """The amounts of the operators on ``chip``."""
        variables = [on[chip] for on in self._on]
        total: cp_model.LinearExprT = cp_model.LinearExpr.weighted_sum(variables, amounts)
        return total

    def minimise_cost(self, problem: PartitionProblem) -> float:
        """Minimise the slowest chip or link, or the latency of one input; seconds of a unit."""
        latency_s, transfer_s = problem.graph.latency_s, problem.graph.output_bytes / problem.link_bytes_per_s
        unit_s = float(latency_s.sum() + transfer_s.sum()) / _UNITS or 1.0
        latency = np.floor(latency_s / unit_s).astype(np.int64).tolist()
        transfer = np.floor(transfer_s / unit_s).astype(np.int64).tolist()
        most = sum(latency) + (self._chips + 1) * sum(transfer)
        loads, links = self._loads(latency, transfer)
        if problem.objective == "latency":
            self.model.minimize(self._finish(loads, most * self._chips))
        else:
            slowest = self.model.new_int_var(0, most, "")
            for stage in (*loads, *links):
                self.model.add(stage <= slowest)
            self.model.minimize(slowest)
        return unit_s

    def _finish(self, loads: list[cp_model.LinearExpr], most: int) -> cp_model.IntVar:
        """When the last chip has finished one input."""
        finish = [self.model.new_int_var(0, most, "") for _ in loads]
        last = self.model.new_int_var(0, most, "")
        for chip, load in enumerate(loads):
            self.model.add(finish[chip] >= load)
            self.model.add(last >= finish[chip])
        for (source, target), arc in self._arc.items():
            self.model.add(finish[target] >= finish[source] + loads[target]).only_enforce_if(arc)
        return last

    def _loads(
        self, latency: list[int], transfer: list[int]
    ) -> tuple[list[cp_model.LinearExpr], list[cp_model.LinearExpr]]:
        """(units of every chip, units of every link)."""
        consumers: dict[int, list[int]] = {}
        for source, target in self._edges:
            if transfer[source]:
                consumers.setdefault(source, []).append(target)
        loads, links = [], []
        for chip in range(self._chips):
            moves: list[cp_model.LinearExprT] = [self._sum_on(chip, latency)]
            carries: list[cp_model.LinearExprT] = []
            for producer, targets in consumers.items():
                sent, received, carried = self._booleans(3)
                here = self._on[producer][chip]
                for target in targets:
                    there = self._on[target][chip]
                    self.model.add_bool_or(sent, ~here, there)
                    self.model.add_bool_or(received, here, ~there)
                    self.model.add_bool_or(carried, ~self._below[producer][chip], self._below[target][chip])
                moves.append(transfer[producer] * (sent + received))
                carries.append(transfer[producer] * carried)
            loads.append(cp_model.LinearExpr.sum(moves))
            links.append(cp_model.LinearExpr.sum(carries))
        return loads, links
