"""The operators of a layer in time, as a trace for Perfetto."""

from dse.report.trace_events import MAX_EVENTS, Span, TraceEvents, trace
from dse.schedule.problem import ALL_CORES, Schedule, ScheduleProblem

_CORE_NAMES = ("all", "tensor", "vector")


def schedule_trace(problem: ScheduleProblem, schedule: Schedule, max_events: int = MAX_EVENTS) -> TraceEvents:
    """The operators of a layer in time: a thread for each core that is used, and one for operators on all cores.

    A fused operator is shown on both cores of its pair. Beyond ``max_events`` the last operators are left out.
    """
    order = sorted(range(len(problem.operators)), key=lambda position: (schedule.start_s[position], position))
    runs: list[tuple[tuple[int, int], int]] = []  # lanes by (kind of core, number), and the operator
    for shown, position in enumerate(order):
        cores = _cores(problem, schedule, position)
        if len(runs) + len(cores) > max_events:
            order = order[:shown]
            break
        runs += [(core, position) for core in cores]
    used = sorted({core for core, _ in runs})
    spans = [
        Span(
            used.index(core),
            problem.operators[position].name,
            problem.operators[position].kind,
            schedule.start_s[position],
            schedule.finish_s[position],
        )
        for core, position in runs
    ]
    left_out = len(order) < len(problem.operators)
    which = f", the first {len(order)} of {len(problem.operators)} operators shown" if left_out else ""
    lanes = ["all cores" if kind == 0 else f"{_CORE_NAMES[kind]} core {number}" for kind, number in used]
    return trace(f"{problem.name}: operator schedule{which}", lanes, spans)


def _cores(problem: ScheduleProblem, schedule: Schedule, position: int) -> list[tuple[int, int]]:
    """(index in :data:`_CORE_NAMES`, number) of each lane that an operator is drawn on."""
    where = schedule.cores[position]
    if where == ALL_CORES:
        return [(0, 0)]
    kinds = {"tensor": (1,), "vector": (2,), "fused": (1, 2)}[problem.operators[position].kind]
    return [(kind, where[0]) for kind in kinds]
