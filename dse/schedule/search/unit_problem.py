"""A whole problem in units and topological order, as general solvers take it, and the way back."""

from dataclasses import dataclass

import numpy as np

from dse.schedule.bound import kind_codes, lower_bound
from dse.schedule.precedence import precedence
from dse.schedule.problem import ALL_CORES, Cores, Schedule, ScheduleProblem, ScheduleSolution
from dse.schedule.search.core_assignment import assign_cores
from dse.schedule.search.event_search import COUNTED_CORE, ON_ALL_CORES
from dse.schedule.search.layer import start_times
from dse.schedule.search.reduce import Bools, Floats, Ints, interchangeable_chains, unit_latencies
from dse.schedule.search.segment import Codes

_ASSIGNMENT_STEPS = 1_000_000
_ROUNDING = 1e-11


@dataclass(frozen=True)
class UnitProblem:
    """Operators in topological order; latencies in whole units, ``NO_MODE`` where a mode is missing or useless.

    ``capacity`` holds the tensor and vector cores, no more of them than operators; ``rounding`` as in
    :class:`dse.schedule.search.reduce.UnitLatencies`.
    """

    source: ScheduleProblem
    order: Ints
    kind: Codes
    single: Ints
    all_cores: Ints
    single_s: Floats
    all_cores_s: Floats
    ancestor: Bools
    covers: Bools
    twin_before: Ints
    capacity: Ints
    unit_s: float
    rounding: int

    @property
    def horizon(self) -> int:
        """The makespan of running one operator after the other."""
        return int(np.minimum(self.single, self.all_cores).sum())

    def incomparable(self) -> list[tuple[int, int]]:
        """Pairs i < j of operators that may run side by side as far as the edges say."""
        free = ~(self.ancestor | self.ancestor.T)
        return [(i, j) for i, j in np.argwhere(free).tolist() if i < j]


def unit_problem(problem: ScheduleProblem) -> UnitProblem:
    """``problem`` in units.

    Raises:
        ValueError: the edges close a cycle.
    """
    structure = precedence(len(problem.operators), problem.edges)
    order = structure.order
    operators = [problem.operators[position] for position in order.tolist()]
    kind = kind_codes([operator.kind for operator in operators])
    single_s = np.array([operator.single_s for operator in operators], dtype=np.float64)
    all_cores_s = np.array([operator.all_cores_s for operator in operators], dtype=np.float64)
    cores = np.array(
        [problem.tensor_cores, problem.vector_cores, min(problem.tensor_cores, problem.vector_cores)], dtype=np.int64
    )
    units = unit_latencies(kind, single_s, all_cores_s, cores)
    covers = np.ascontiguousarray(structure.covers[np.ix_(order, order)])
    return UnitProblem(
        source=problem,
        order=order,
        kind=kind,
        single=units.single,
        all_cores=units.all_cores,
        single_s=single_s,
        all_cores_s=all_cores_s,
        ancestor=np.ascontiguousarray(structure.ancestor[np.ix_(order, order)]),
        covers=covers,
        twin_before=interchangeable_chains(kind, units.single, units.all_cores, covers),
        capacity=np.minimum(cores[:2], len(operators)),
        unit_s=float(units.unit_s),
        rounding=int(units.rounding),
    )


def with_cores(problem: UnitProblem, start: Ints, on_all: Bools) -> Ints | None:
    """A core or pair for each operator of a schedule in units, or None where its cores cannot be assigned."""
    core = np.where(on_all, ON_ALL_CORES, COUNTED_CORE)
    finish = start + np.where(on_all, problem.all_cores, problem.single)
    fits = assign_cores(problem.kind, start, finish, core, problem.capacity, _ASSIGNMENT_STEPS)
    return core if fits else None


def solution(problem: UnitProblem, start: Ints, core: Ints, bound: float, method: str) -> ScheduleSolution:
    """The schedule with times as given, in the order of ``problem.source``, and the better of ``bound`` and ours."""
    start_s, makespan_s = start_times(problem.kind, problem.covers, start, core, problem.single_s, problem.all_cores_s)
    count = len(problem.order)
    starts, finishes = [0.0] * count, [0.0] * count
    cores: list[Cores] = [ALL_CORES] * count
    for i, position in enumerate(problem.order.tolist()):
        on_all = core[i] == ON_ALL_CORES
        starts[position] = float(start_s[i])
        finishes[position] = starts[position] + float((problem.all_cores_s if on_all else problem.single_s)[i])
        cores[position] = ALL_CORES if on_all else (int(core[i]),)
    proven_s = (bound - problem.rounding) * problem.unit_s * (1 - _ROUNDING)
    if bound >= np.max(start + np.where(core == ON_ALL_CORES, problem.all_cores, problem.single), initial=0):
        proven_s = float(makespan_s)
    bound_s = min(float(makespan_s), max(proven_s, lower_bound(problem.source) if count else 0.0))
    return ScheduleSolution(Schedule(tuple(starts), tuple(finishes), tuple(cores)), bound_s, method)
