"""The independent checker: every rule of the definition in :mod:`dse.schedule.problem`, re-stated and re-tested.

It shares no code with the bounds and the solvers. Two operators collide where their open time intervals intersect, so
an operator may start in the instant another one finishes, and one that takes no time must not lie strictly inside the
run of another on the same core.
"""

import math
from collections import defaultdict
from itertools import pairwise

from dse.schedule.problem import ALL_CORES, Schedule, ScheduleOperator, ScheduleProblem

_RELATIVE_TOLERANCE = 1e-9


def violations(problem: ScheduleProblem, schedule: Schedule) -> list[str]:
    """Every rule that ``schedule`` breaks, one sentence each; empty when it is feasible.

    Checked: one entry per operator, finite times that are not negative, durations equal to ``single_s`` or
    ``all_cores_s`` as the claimed cores say (1e-9 relative), precedence, cores that exist, one operator at a time on
    each core, fused operators on both cores of a pair, and nothing else running during an operator on all cores.
    """
    count = len(problem.operators)
    if not len(schedule.start_s) == len(schedule.finish_s) == len(schedule.cores) == count:
        lengths = f"{len(schedule.start_s)} starts, {len(schedule.finish_s)} finishes, {len(schedule.cores)} cores"
        return [f"the schedule must have an entry for each of {count} operators, but has {lengths}"]
    tolerance_s = _RELATIVE_TOLERANCE * max((abs(finish) for finish in schedule.finish_s), default=0.0)
    faults = [text for position in range(count) for text in _operator_faults(problem, schedule, position)]
    if faults:
        return faults
    return [
        *_precedence_faults(problem, schedule, tolerance_s),
        *_core_faults(problem, schedule, tolerance_s),
        *_all_cores_faults(problem, schedule, tolerance_s),
    ]


def _operator_faults(problem: ScheduleProblem, schedule: Schedule, position: int) -> list[str]:
    operator = problem.operators[position]
    start_s, finish_s, cores = (schedule.start_s[position], schedule.finish_s[position], schedule.cores[position])
    if not (math.isfinite(start_s) and math.isfinite(finish_s)):
        return [f"{operator.name}: start and finish must be finite, but are {start_s} s and {finish_s} s"]
    faults = []
    if start_s < 0:
        faults.append(f"{operator.name}: must not start before 0, but starts at {start_s} s")
    expected_s = operator.all_cores_s if cores == ALL_CORES else operator.single_s
    slack_s = _RELATIVE_TOLERANCE * max(abs(expected_s), abs(finish_s))
    if not abs(finish_s - start_s - expected_s) <= slack_s:
        where = "all cores" if cores == ALL_CORES else "one core"
        faults.append(f"{operator.name}: must run for {expected_s} s on {where}, but runs for {finish_s - start_s} s")
    if cores != ALL_CORES:
        faults += _missing_core(problem, operator, cores)
    return faults


def _missing_core(problem: ScheduleProblem, operator: ScheduleOperator, cores: tuple[int, ...]) -> list[str]:
    if len(cores) != 1:
        return [f"{operator.name}: must run on one core, one pair or all cores, but runs on {list(cores)}"]
    if operator.kind == "fused":
        available, what = min(problem.tensor_cores, problem.vector_cores), "core pairs"
    elif operator.kind == "tensor":
        available, what = problem.tensor_cores, "tensor cores"
    else:
        available, what = problem.vector_cores, "vector cores"
    if 0 <= cores[0] < available:
        return []
    return [f"{operator.name}: core must be from 0 to {available - 1} of {available} {what}, but is {cores[0]}"]


def _precedence_faults(problem: ScheduleProblem, schedule: Schedule, tolerance_s: float) -> list[str]:
    names = [operator.name for operator in problem.operators]
    return [
        f"{names[after]}: must start after {names[before]} finishes at {schedule.finish_s[before]} s, "
        f"but starts at {schedule.start_s[after]} s"
        for before, after in problem.edges
        if schedule.start_s[after] < schedule.finish_s[before] - tolerance_s
    ]


def _core_faults(problem: ScheduleProblem, schedule: Schedule, tolerance_s: float) -> list[str]:
    """Operators that share a core at the same time; a fused one occupies both halves of its pair."""
    runs: dict[tuple[str, int], list[int]] = defaultdict(list)
    for position, operator in enumerate(problem.operators):
        cores = schedule.cores[position]
        if cores == ALL_CORES:
            continue
        for kind in ("tensor", "vector"):
            if operator.kind in (kind, "fused"):
                runs[kind, cores[0]].append(position)
    faults = []
    for (kind, core), positions in sorted(runs.items()):
        positions.sort(key=lambda position: (schedule.start_s[position], schedule.finish_s[position]))
        for first, second in pairwise(positions):
            if schedule.start_s[second] < schedule.finish_s[first] - tolerance_s:
                first_name, second_name = problem.operators[first].name, problem.operators[second].name
                faults.append(
                    f"{kind} core {core}: must run one operator at a time, but {second_name} starts at "
                    f"{schedule.start_s[second]} s and {first_name} finishes at {schedule.finish_s[first]} s"
                )
    return faults


def _all_cores_faults(problem: ScheduleProblem, schedule: Schedule, tolerance_s: float) -> list[str]:
    faults = []
    for position, operator in enumerate(problem.operators):
        if schedule.cores[position] != ALL_CORES:
            continue
        start_s, finish_s = schedule.start_s[position], schedule.finish_s[position]
        for other, neighbour in enumerate(problem.operators):
            if other == position or (schedule.cores[other] == ALL_CORES and other < position):
                continue
            if schedule.start_s[other] < finish_s - tolerance_s and start_s < schedule.finish_s[other] - tolerance_s:
                faults.append(f"{neighbour.name}: must not run while {operator.name} uses all cores")
    return faults
