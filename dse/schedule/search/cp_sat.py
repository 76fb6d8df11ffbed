"""The schedule as intervals in OR-tools' CP-SAT: an optional all-core mode an operator, cores counted or one by one."""

from dataclasses import dataclass, field

import numpy as np
from ortools.sat.python import cp_model

from dse.algorithms.cp_sat import solved
from dse.run.progress import StopSignal, never_stop
from dse.schedule.problem import ScheduleProblem, ScheduleSolution
from dse.schedule.search.reduce import NO_MODE, Bools, Ints
from dse.schedule.search.segment_search import serial_schedule
from dse.schedule.search.unit_problem import UnitProblem, solution, unit_problem, with_cores

DETERMINISTIC_TIME = 60.0
"""Default limit, in CP-SAT's deterministic seconds (of the order of real ones on one thread)."""


def solve_cp_sat(
    problem: ScheduleProblem,
    seed: int = 0,
    deterministic_time: float = DETERMINISTIC_TIME,
    stop: StopSignal = never_stop,
) -> ScheduleSolution:
    """Schedules ``problem`` with CP-SAT on one thread, within ``deterministic_time`` and until ``stop``.

    Cores are first only counted (cumulative constraints). Where fused operators make an assignment of the counted
    cores impossible, the model is solved again with every core and pair of its own. With no schedule in time the
    operators are run in sequence.

    Raises:
        ValueError: the edges close a cycle.
    """
    units = unit_problem(problem)
    start, core, bound = _solve(_counting_model(units), units, seed, deterministic_time, stop)
    if core is None:
        start, core, core_bound = _solve(_core_model(units), units, seed, deterministic_time, stop)
        bound = max(bound, core_bound)
    if core is None:
        serial = serial_schedule(units.single, units.all_cores)
        start, core = serial.start, serial.core
    return solution(units, start, core, bound, "cp-sat")


@dataclass
class _Model:
    """A model with the start of each operator and whether it runs on all cores; ``on_core``: by operator and core."""

    model: cp_model.CpModel
    start: list[cp_model.IntVar]
    on_all: list[cp_model.IntVar]
    single: list[cp_model.IntervalVar | None]
    all_cores: list[cp_model.IntervalVar | None]
    on_core: list[dict[int, cp_model.IntVar]] = field(default_factory=list)


def _base_model(units: UnitProblem) -> _Model:
    """Starts, modes, precedence, the order of equal chains, and the makespan."""
    model = cp_model.CpModel()
    horizon, count = units.horizon, len(units.kind)
    built = _Model(model, [], [], [], [])
    makespan = model.new_int_var(0, horizon, "makespan")
    ends = []
    for i in range(count):
        start = model.new_int_var(0, horizon, f"start{i}")
        on_all = model.new_bool_var(f"on_all{i}")
        single, all_cores = int(units.single[i]), int(units.all_cores[i])
        if single == NO_MODE:
            model.add(on_all == 1)
        if all_cores == NO_MODE:
            model.add(on_all == 0)
        one = None if single == NO_MODE else model.new_optional_fixed_size_interval_var(start, single, ~on_all, "")
        every = (
            None if all_cores == NO_MODE else model.new_optional_fixed_size_interval_var(start, all_cores, on_all, "")
        )
        if single == NO_MODE:
            end = start + all_cores
        elif all_cores == NO_MODE:
            end = start + single
        else:
            end = start + single + (all_cores - single) * on_all
        model.add(end <= makespan)
        built.start.append(start)
        built.on_all.append(on_all)
        built.single.append(one)
        built.all_cores.append(every)
        ends.append(end)
    for after, before in np.argwhere(units.covers).tolist():
        model.add(ends[before] <= built.start[after])
    for i, twin in enumerate(units.twin_before.tolist()):
        if twin >= 0:
            model.add(built.start[twin] <= built.start[i])
    model.add_no_overlap([every for every in built.all_cores if every is not None])
    for k in range(2):
        _add_work(built, units, k, makespan)
    model.minimize(makespan)
    return built


def _add_work(built: _Model, units: UnitProblem, k: int, makespan: cp_model.IntVar) -> None:
    """The work of cores of kind k as a linear row, which the relaxation of the intervals does not see by itself."""
    cores = max(int(units.capacity[k]), 1)
    work: list[cp_model.LinearExprT] = []
    for i, kind in enumerate(units.kind.tolist()):
        if units.all_cores[i] != NO_MODE:
            work.append(cores * int(units.all_cores[i]) * built.on_all[i])
        if units.single[i] != NO_MODE and kind in (k, 2):
            work.append(int(units.single[i]) * (1 - built.on_all[i]))
    built.model.add(cores * makespan >= sum(work))


def _counting_model(units: UnitProblem) -> _Model:
    """Cores as two cumulative resources; an operator on all cores takes both to the full."""
    built = _base_model(units)
    for k in range(2):
        intervals, demands = [], []
        for i, kind in enumerate(units.kind.tolist()):
            one, every = built.single[i], built.all_cores[i]
            if one is not None and kind in (k, 2):
                intervals.append(one)
                demands.append(1)
            if every is not None:
                intervals.append(every)
                demands.append(max(int(units.capacity[k]), 1))
        built.model.add_cumulative(intervals, demands, max(int(units.capacity[k]), 1))
    return built


def _core_model(units: UnitProblem) -> _Model:
    """Every core by itself: no two operators on it at once; a fused operator is on both cores of its pair."""
    built = _base_model(units)
    model = built.model
    capacity = units.capacity.tolist()
    runs: dict[tuple[int, int], list[cp_model.IntervalVar]] = {
        (k, core): [every for every in built.all_cores if every is not None]
        for k in range(2)
        for core in range(capacity[k])
    }
    for i, kind in enumerate(units.kind.tolist()):
        cores = range(min(capacity) if kind == 2 else capacity[kind])
        chosen = {core: model.new_bool_var(f"core{i}_{core}") for core in cores}
        built.on_core.append(chosen)
        model.add_exactly_one([*chosen.values(), built.on_all[i]])
        for core, here in chosen.items():
            interval = model.new_optional_fixed_size_interval_var(built.start[i], int(units.single[i]), here, "")
            for k in range(2):
                if kind in (k, 2):
                    runs[k, core].append(interval)
    for intervals in runs.values():
        model.add_no_overlap(intervals)
    return built


def _solve(
    built: _Model, units: UnitProblem, seed: int, deterministic_time: float, stop: StopSignal = never_stop
) -> tuple[Ints, Ints | None, float]:
    """Starts, cores (None without a schedule, or where counted cores cannot be assigned) and the bound, in units."""
    solver, status = solved(built.model, deterministic_time, seed, stop)
    bound = max(0.0, solver.best_objective_bound)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return np.zeros(0, np.int64), None, bound
    start = np.array([solver.value(variable) for variable in built.start], dtype=np.int64)
    on_all: Bools = np.array([solver.value(variable) for variable in built.on_all], dtype=np.bool_)
    if not built.on_core:
        return start, with_cores(units, start, on_all), bound
    core = np.array(
        [next((core for core, here in chosen.items() if solver.value(here)), -2) for chosen in built.on_core],
        dtype=np.int64,
    )
    return start, core, bound
