"""The checker: feasible schedules pass, and every mutation of one is caught."""

import math
from dataclasses import replace

import pytest

from dse.schedule.check import violations
from dse.schedule.problem import ALL_CORES, Schedule, ScheduleOperator, ScheduleProblem
from dse.schedule.solve import solve
from tests.schedule.brute_force import random_problem

PROBLEM = ScheduleProblem(
    name="small",
    tensor_cores=2,
    vector_cores=3,
    operators=(
        ScheduleOperator("a", "tensor", 4.0, 2.0),
        ScheduleOperator("b", "vector", 3.0, 1.0),
        ScheduleOperator("c", "fused", 5.0, 3.0),
        ScheduleOperator("d", "vector", 2.0, 1.0),
        ScheduleOperator("e", "tensor", 0.0, 0.0),
    ),
    edges=((0, 3), (1, 3), (3, 4)),
)
SCHEDULE = Schedule(
    start_s=(0.0, 0.0, 0.0, 5.0, 6.0),
    finish_s=(4.0, 3.0, 5.0, 6.0, 6.0),
    cores=((0,), (0,), (1,), ALL_CORES, (0,)),
)


def changed(position: int, start_s=None, finish_s=None, cores=None) -> Schedule:
    def put(values, value):
        return values if value is None else (*values[:position], value, *values[position + 1 :])

    return Schedule(put(SCHEDULE.start_s, start_s), put(SCHEDULE.finish_s, finish_s), put(SCHEDULE.cores, cores))


def test_feasible_schedule_passes():
    assert violations(PROBLEM, SCHEDULE) == []


@pytest.mark.parametrize(
    ("mutant", "rule"),
    [
        (changed(0, finish_s=4.1), "must run for 4.0 s on one core, but runs for"),
        (changed(3, finish_s=7.0), "must run for 1.0 s on all cores"),
        (changed(0, cores=ALL_CORES), "must run for 2.0 s on all cores"),
        (changed(3, start_s=3.5, finish_s=4.5), "must start after a finishes at 4.0 s"),
        (changed(4, start_s=5.5, finish_s=5.5), "must start after d finishes"),
        (changed(3, start_s=4.0, finish_s=5.0), "c: must not run while d uses all cores"),
        (changed(0, cores=(2,)), "core must be from 0 to 1 of 2 tensor cores, but is 2"),
        (changed(1, cores=(3,)), "core must be from 0 to 2 of 3 vector cores, but is 3"),
        (changed(2, cores=(2,)), "core must be from 0 to 1 of 2 core pairs, but is 2"),
        (changed(1, cores=(-1,)), "but is -1"),
        (changed(0, cores=(0, 1)), "must run on one core, one pair or all cores"),
        (changed(0, cores=(1,)), "tensor core 1: must run one operator at a time"),
        (changed(1, cores=(1,)), "vector core 1: must run one operator at a time"),
        (changed(2, cores=(0,)), "tensor core 0: must run one operator at a time"),
        (changed(0, start_s=-1.0, finish_s=3.0), "must not start before 0"),
        (changed(0, start_s=math.nan), "start and finish must be finite"),
        (changed(0, finish_s=math.inf), "start and finish must be finite"),
        (replace(SCHEDULE, cores=SCHEDULE.cores[:-1]), "must have an entry for each of"),
    ],
)
def test_mutants_are_caught(mutant, rule):
    assert any(rule in fault for fault in violations(PROBLEM, mutant))


def test_operator_without_duration_must_not_lie_inside_another_run():
    problem = ScheduleProblem(
        "zero", 1, 1, (ScheduleOperator("long", "tensor", 4.0, 9.0), ScheduleOperator("zero", "tensor", 0.0, 0.0)), ()
    )
    for start_s, feasible in ((0.0, True), (4.0, True), (2.0, False)):
        for cores in ((0,), ALL_CORES):
            schedule = Schedule((0.0, start_s), (4.0, start_s), ((0,), cores))
            assert (violations(problem, schedule) == []) is feasible


@pytest.mark.parametrize("seed", range(12))
def test_moving_an_operator_of_a_tight_schedule_forward_is_caught(seed):
    """In an optimal schedule whatever starts last cannot be moved to the beginning and keep its cores."""
    problem = random_problem(seed, 7)
    schedule = solve(problem).schedule
    last = max(range(7), key=lambda i: schedule.finish_s[i])
    duration_s = schedule.finish_s[last] - schedule.start_s[last]
    moved = Schedule(
        (*schedule.start_s[:last], 0.0, *schedule.start_s[last + 1 :]),
        (*schedule.finish_s[:last], duration_s, *schedule.finish_s[last + 1 :]),
        schedule.cores,
    )
    blocked = any(b == last for _, b in problem.edges) or schedule.cores[last] == ALL_CORES
    alone_on_core = all(
        schedule.cores[i] != ALL_CORES and schedule.cores[i] != schedule.cores[last] for i in range(7) if i != last
    )
    assert bool(violations(problem, moved)) or schedule.start_s[last] == 0.0 or (not blocked and alone_on_core)
