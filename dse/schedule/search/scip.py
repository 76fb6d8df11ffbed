"""The integer linear program of the paper (Figure 3, constraints 1 to 16) on SCIP.

As in its appendix A the program is first solved without the variables z that assign cores; the schedule is built, and
z is added only for the kind of cores of which it uses too many, and for both kinds where fused operators leave no
assignment although the counts fit. Variables x exist for incomparable operators only: for i ≺ j constraints (5) and (6)
make them constants, which are folded into (4).
"""

import json
import warnings
from dataclasses import dataclass, field

import numpy as np
from pyscipopt import Model, Variable, quicksum

from dse.run.child import heard_from
from dse.run.progress import StopSignal, never_stop
from dse.schedule.problem import ScheduleProblem, ScheduleSolution
from dse.schedule.search import scip_process
from dse.schedule.search.reduce import NO_MODE, Ints
from dse.schedule.search.segment_search import serial_schedule
from dse.schedule.search.unit_problem import UnitProblem, solution, unit_problem, with_cores
from hardware.inputs import fail

NODE_LIMIT = 20_000
ROW_LIMIT = 100_000
_SCALE = 1_000.0
_KIND_NAMES = ("tensor", "vector")


def solve_scip(
    problem: ScheduleProblem, seed: int = 0, node_limit: int = NODE_LIMIT, stop: StopSignal = never_stop
) -> ScheduleSolution:
    """Schedules ``problem`` by the paper's program, within ``node_limit`` nodes of branch and bound for each solve, and
    until ``stop``.

    With no schedule in time the operators are run in sequence.

    Raises:
        ValueError: the edges close a cycle.
        InputError: the transitivity rows (4), cubic in the number of operators, would exceed the limit of 100,000.
    """
    units = unit_problem(problem)
    rows = _transitivity_rows(units)
    if rows > ROW_LIMIT:
        rule = f"supports at most {ROW_LIMIT} transitivity rows, but these {len(units.kind)} operators need {rows}"
        raise fail(problem.name, "method", "scip", rule, "auto")
    assigned: tuple[int, ...] = ()
    bound = 0.0
    while True:
        program = _program(units, assigned)
        start, on_all, solved_bound = _solve(program, units, seed, node_limit, stop)
        bound = max(bound, solved_bound)
        if start is None:
            serial = serial_schedule(units.single, units.all_cores)
            return solution(units, serial.start, serial.core, bound, "scip")
        cores = with_cores(units, start, on_all)
        if cores is not None:
            return solution(units, start, cores, bound, "scip")
        if stop() is not None:
            serial = serial_schedule(units.single, units.all_cores)
            return solution(units, serial.start, serial.core, bound, "scip")
        assigned = _next_assigned(units, assigned, start, on_all)


@dataclass
class _Program:
    """The program; times are in thousandths of the horizon. ``order[i, j]``: i finishes before j begins."""

    model: Model
    on_all: list[Variable]
    order: dict[tuple[int, int], Variable] = field(default_factory=dict)


def _transitivity_rows(units: UnitProblem) -> int:
    """Rows (4) with a variable in them: triples of operators of which some two are incomparable."""
    count = len(units.kind)
    comparable = (units.ancestor | units.ancestor.T).astype(np.float64)
    chains = round(float(np.einsum("ij,jk,ik->", comparable, comparable, comparable)))
    return count * (count - 1) * (count - 2) - chains


def _program(units: UnitProblem, assigned: tuple[int, ...]) -> _Program:
    """Constraints (1) to (9), and (10) to (16) for the kinds of cores in ``assigned``."""
    model = Model("operator schedule")
    model.hideOutput()
    count, scale = len(units.kind), _SCALE / max(units.horizon, 1)
    makespan = model.addVar("T", lb=0.0)
    start = [model.addVar(f"t{i}", lb=0.0) for i in range(count)]
    program = _Program(model, [model.addVar(f"y{i}", vtype="B") for i in range(count)])
    duration = []
    for i in range(count):
        single, all_cores = int(units.single[i]), int(units.all_cores[i])
        if single == NO_MODE:
            model.addCons(program.on_all[i] == 1)
        if all_cores == NO_MODE:
            model.addCons(program.on_all[i] == 0)
        only = min(single, all_cores)
        single, all_cores = (only if NO_MODE in (single, all_cores) else latency for latency in (single, all_cores))
        duration.append(scale * all_cores * program.on_all[i] + scale * single * (1 - program.on_all[i]))
        model.addCons(makespan >= start[i] + duration[i])
    for after, before in np.argwhere(units.covers).tolist():
        model.addCons(start[before] + duration[before] <= start[after])
    horizon = _SCALE
    for i, j in units.incomparable():
        forth = program.order[i, j] = model.addVar(f"x{i}_{j}", vtype="B")
        back = program.order[j, i] = model.addVar(f"x{j}_{i}", vtype="B")
        model.addCons(forth + back <= 1)
        model.addCons(start[i] + duration[i] - horizon * (1 - forth) <= start[j])
        model.addCons(start[j] + duration[j] - horizon * (1 - back) <= start[i])
        model.addCons(forth + back >= program.on_all[i])
        model.addCons(forth + back >= program.on_all[j])
    _add_transitivity(program, units)
    _add_cores(program, units, assigned)
    model.setObjective(makespan, "minimize")
    return program


def _add_transitivity(program: _Program, units: UnitProblem) -> None:
    """Constraint (4), x_ik ≥ x_ij + x_jk − 1, wherever it does not hold by the constants alone."""
    count = len(units.kind)

    def value(i: int, j: int) -> Variable | int:
        return program.order[i, j] if (i, j) in program.order else int(units.ancestor[j, i])

    for i in range(count):
        for j in range(count):
            if i == j or units.ancestor[i, j]:
                continue
            for k in range(count):
                if k in (i, j) or units.ancestor[j, k] or units.ancestor[k, i]:
                    continue
                row = value(i, k) - value(i, j) - value(j, k)
                if not isinstance(row, int):
                    program.model.addCons(row >= -1)


def _add_cores(program: _Program, units: UnitProblem, assigned: tuple[int, ...]) -> None:
    """Constraints (10) to (16) for the kinds of cores in ``assigned``."""
    model, count = program.model, len(units.kind)
    pairs = int(units.capacity.min())
    assignment: dict[tuple[int, int, int], Variable] = {}
    for k in assigned:
        users = [i for i in range(count) if units.kind[i] in (k, 2)]
        for i in users:
            cores = range(pairs if units.kind[i] == 2 else int(units.capacity[k]))
            for core in cores:
                assignment[k, i, core] = model.addVar(f"z{_KIND_NAMES[k]}{i}_{core}", vtype="B")
            model.addCons(program.on_all[i] + quicksum(assignment[k, i, core] for core in cores) == 1)
        for i, j in units.incomparable():
            for core in range(int(units.capacity[k])):
                if (k, i, core) in assignment and (k, j, core) in assignment:
                    together = assignment[k, i, core] + assignment[k, j, core] - 1
                    model.addCons(program.order[i, j] + program.order[j, i] >= together)
    if len(assigned) == 2:
        for i in range(count):
            for core in range(pairs if units.kind[i] == 2 else 0):
                model.addCons(assignment[0, i, core] == assignment[1, i, core])


def _solve(
    program: _Program, units: UnitProblem, seed: int, node_limit: int, stop: StopSignal = never_stop
) -> tuple[Ints | None, np.ndarray[tuple[int], np.dtype[np.bool_]], float]:
    """Starts and modes of the best solution, timed again in whole units from its order x, and the bound in units."""
    known = _found(program.model, seed, node_limit, stop)
    bound = float(np.ceil(known["bound"] / _SCALE * units.horizon * (1 - 1e-6) - 1e-6))
    count, values = len(units.kind), known["values"]
    if values is None:
        return None, np.zeros(count, dtype=np.bool_), max(bound, 0.0)
    on_all = np.array([values[variable.name] > 0.5 for variable in program.on_all], dtype=np.bool_)
    before = units.ancestor.copy()
    for (i, j), variable in program.order.items():
        before[j, i] = values[variable.name] > 0.5
    duration = np.where(on_all, units.all_cores, units.single)
    start = np.zeros(count, dtype=np.int64)
    for i in np.argsort(before.sum(axis=1), kind="stable").tolist():
        start[i] = max((int(start[j] + duration[j]) for j in np.flatnonzero(before[i]).tolist()), default=0)
    return start, on_all, max(bound, 0.0)


def _found(model: Model, seed: int, node_limit: int, stop: StopSignal) -> scip_process.Line:
    """What SCIP knew last."""
    settings = {"randomization/randomseedshift": seed % 2**31, "limits/totalnodes": node_limit, "limits/gap": 0.0}
    given = f"{json.dumps(settings)}\n{scip_process.problem_text(model)}"
    heard = heard_from(scip_process.__name__, given.encode(), stop)
    if heard.killed is not None:
        warnings.warn(f"SCIP was ended by {heard.killed}; its best schedule so far is used", stacklevel=2)
    lines = [line for line in heard.output.splitlines(keepends=True) if line.endswith(b"\n")]
    known: scip_process.Line = json.loads(lines[-1]) if lines else {"bound": 0.0, "values": None}
    return known


def _next_assigned(
    units: UnitProblem, assigned: tuple[int, ...], start: Ints, on_all: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> tuple[int, ...]:
    """The kinds of cores that need variables z: those used too much, or both where only the pairs do not fit."""
    finish = start + np.where(on_all, units.all_cores, units.single)
    violated = set(assigned)
    for k in range(2):
        users = [i for i in range(len(start)) if units.kind[i] in (k, 2) and not on_all[i]]
        for i in users:
            if sum(start[j] <= start[i] < finish[j] for j in users) > units.capacity[k]:
                violated.add(k)
    if violated == set(assigned):
        return (0, 1)
    return tuple(sorted(violated))
