"""Whether the bound that a result states holds: proven again, refuted by a partition, or open."""

from dataclasses import replace
from typing import Literal

import numpy as np

from dse.partition.bound import DownsetLattice, simple_bound_s
from dse.partition.check import cost_s, violations
from dse.partition.constraints.model import solve_general
from dse.partition.constraints.structure import structure_of
from dse.partition.problem import PartitionProblem
from dse.results.result import PROOF_TOLERANCE

BoundState = Literal["proven", "refuted", "open"]

_SMALL = 128
"""Operators × usable chips of the largest graph for which CP-SAT is run."""

_MODEL_TIME = 2.0
"""CP-SAT's deterministic seconds for that."""


def bound_state(problem: PartitionProblem, bound_s: float) -> tuple[BoundState, float]:
    """What can be said of ``bound_s``, and the cost of the best partition that refutes it (infinite for none).

    A bound is proven by the work of the chips, by the downsets of the longest operators, or by CP-SAT where the graph
    is small, which also looks for a partition that costs less.
    """
    below_s = bound_s * (1 - PROOF_TOLERANCE)
    if below_s <= simple_bound_s(problem):
        return "proven", np.inf
    candidates = []
    if problem.objective == "throughput":
        lattice = DownsetLattice(problem)
        if lattice.excludes(below_s):
            return "proven", np.inf
        candidates += list(lattice.partitions(below_s, simple_bound_s(problem)))
    usable = min(problem.chips, int(structure_of(problem.graph).max_chip.max(initial=0)) + 1)
    if len(problem.graph) * usable <= _SMALL:
        exact = solve_general(replace(problem, chips=usable), _MODEL_TIME)
        if exact.bound_s >= below_s:
            return "proven", np.inf
        candidates += [] if exact.chip is None else [exact.chip]
    costs_s = [cost_s(problem, chip.tolist()) for chip in candidates if not violations(problem, chip.tolist())]
    best_s = min(costs_s, default=np.inf)
    return ("refuted", best_s) if best_s < below_s else ("open", np.inf)
