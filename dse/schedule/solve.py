"""One facade over the schedulers: a table of methods, and no answer that the checker has not passed."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from dse.results.result import FailedCheckError
from dse.run.progress import StopSignal, never_stop
from dse.schedule.bound import lower_bound
from dse.schedule.check import violations
from dse.schedule.problem import ScheduleProblem, ScheduleSolution
from dse.schedule.search.layer import Layer, solve_many
from dse.schedule.search.segment_search import SearchLimits
from hardware.inputs import choose

__all__ = ["METHODS", "Method", "solve", "solve_many", "solve_search"]

EVENT_SEARCH = "event search"

ANSWERED_BY: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"auto": (EVENT_SEARCH,), "cp-sat": ("cp-sat",), "scip": ("scip",)}
)
"""Whose schedule each method of :data:`METHODS` returns."""

THOROUGH = SearchLimits(nodes=400_000)
"""The limits of :func:`solve`: a few seconds for a segment that stays open."""

Method = Callable[[ScheduleProblem, StopSignal], ScheduleSolution]


def solve(problem: ScheduleProblem, method: str = "auto", stop: StopSignal = never_stop) -> ScheduleSolution:
    """A schedule of ``problem`` with its proof, by one of :data:`METHODS`, or the best by the time of a ``stop``.

    Raises:
        InputError: an unknown method, or a problem too large for the method.
        ValueError: the edges close a cycle.
        FailedCheckError: the method returned a schedule that breaks a rule (a fault of this program).
    """
    solution = METHODS[choose("", "method", method, METHODS, "scheduling method")](problem, stop)
    faults = violations(problem, solution.schedule)
    if faults:
        raise FailedCheckError(f"{method} returned an infeasible schedule: {'; '.join(faults)}")
    return solution


def solve_search(
    problem: ScheduleProblem, limits: SearchLimits = THOROUGH, stop: StopSignal = never_stop
) -> ScheduleSolution:
    """Segments in series, each by bounds and exact search (:mod:`dse.schedule.search.event_search`)."""
    single_s = np.array([operator.single_s for operator in problem.operators], dtype=np.float64)
    all_cores_s = np.array([operator.all_cores_s for operator in problem.operators], dtype=np.float64)
    layer = Layer([operator.kind for operator in problem.operators], problem.edges)
    best = layer.schedule(single_s, all_cores_s, problem.tensor_cores, problem.vector_cores, limits, stop)
    makespan_s = best.schedule.makespan_s
    bound_s = min(makespan_s, max(best.bound_s, lower_bound(problem) if problem.operators else 0.0))
    return ScheduleSolution(best.schedule, bound_s, EVENT_SEARCH)


def _search(problem: ScheduleProblem, stop: StopSignal) -> ScheduleSolution:
    return solve_search(problem, stop=stop)


def _cp_sat(problem: ScheduleProblem, stop: StopSignal) -> ScheduleSolution:
    from dse.schedule.search.cp_sat import solve_cp_sat

    return solve_cp_sat(problem, stop=stop)


def _scip(problem: ScheduleProblem, stop: StopSignal) -> ScheduleSolution:
    from dse.schedule.search.scip import solve_scip

    return solve_scip(problem, stop=stop)


METHODS: Mapping[str, Method] = MappingProxyType({"auto": _search, "cp-sat": _cp_sat, "scip": _scip})
"""The methods by name: ``auto`` is the project's own search; the others are general solvers."""
