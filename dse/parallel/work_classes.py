"""The work of a plan by classes of operations, for people."""

from collections import defaultdict
from typing import NamedTuple

from dse.parallel.plan import Plan
from dse.parallel.prices import Prices
from dse.parallel.problem import ParallelProblem
from dse.parallel.storage import FUSED

_CLASSES = {
    "dot": "matrix products",
    "convolution": "convolutions",
    "reduce": "reductions",
    "reduce-window": "reductions",
    "select-and-scatter": "reductions",
    "gather": "lookups and updates",
    "scatter": "lookups and updates",
    "dynamic-slice": "lookups and updates",
    "dynamic-update-slice": "lookups and updates",
}


class ClassWork(NamedTuple):
    """Operations of one class.

    Attributes:
        name: of the class.
        operations: how often a step runs one of them.
        work_ps: their time on one device, in picoseconds.
    """

    name: str
    operations: int
    work_ps: int


def work_by_class(problem: ParallelProblem, prices: Prices, plan: Plan) -> list[ClassWork]:
    """The work of ``plan`` by classes of operations, the longest first.

    Operations that make constants, or only forward, are left out. Together they take the work of
    :func:`~dse.parallel.plan.work_of_plan`.
    """
    counts: dict[str, int] = defaultdict(int)
    times: dict[str, int] = defaultdict(int)
    for operation, priced, choice in zip(problem.graph.operations, prices.priced, plan.choices, strict=True):
        if priced and not operation.forwards:
            name = _CLASSES.get(
                operation.opcode, "elementwise and data movement" if operation.opcode in FUSED else "other"
            )
            counts[name] += operation.repeats
            times[name] += priced[choice].work_ps
    return sorted((ClassWork(name, counts[name], times[name]) for name in counts), key=lambda each: -each.work_ps)
