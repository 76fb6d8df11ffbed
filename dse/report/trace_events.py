"""Schedules as Chrome trace-event JSON, which Perfetto (https://ui.perfetto.dev) and chrome://tracing open.

The JSON object format of the Trace Event Format specification (Google): ``traceEvents`` holds complete events (``X``,
with ``ts`` and ``dur`` in microseconds) and metadata events (``M``) that name processes and threads. Times are rounded
to whole nanoseconds before they are subtracted, so that what touches in the schedule touches in the trace.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dse.placement.problem import Placement, PlacementProblem
from dse.placement.timeline import Timeline
from dse.schedule.problem import ALL_CORES, Schedule, ScheduleProblem

MOST_EVENTS = 3000
"""Beyond it the middle of a pipeline, or the end of an operator schedule, is left out, and the trace's name says so."""

Trace = dict[str, Any]
"""A trace, made of JSON types."""


@dataclass(frozen=True)
class Span:
    """One thing that runs on one lane (a stage, a core) from ``start_s`` to ``end_s``; ``category`` sets its colour."""

    lane: int
    name: str
    category: str
    start_s: float
    end_s: float


def trace(name: str, lanes: Sequence[str], spans: Iterable[Span], process: int = 1) -> Trace:
    """A trace of one process called ``name`` with a thread for each of ``lanes``, in this order."""
    events: list[dict[str, Any]] = [_metadata("process_name", process, 0, name=name)]
    for thread, lane in enumerate(lanes, start=1):
        events.append(_metadata("thread_name", process, thread, name=lane))
        events.append(_metadata("thread_sort_index", process, thread, sort_index=thread))
    for span in sorted(spans, key=lambda span: (span.start_s, span.lane, span.end_s)):
        begin_ns, end_ns = round(span.start_s * 1e9), round(span.end_s * 1e9)
        events.append(
            {
                "name": span.name,
                "cat": span.category,
                "ph": "X",
                "ts": begin_ns / 1000,
                "dur": (end_ns - begin_ns) / 1000,
                "pid": process,
                "tid": span.lane + 1,
            }
        )
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"name": name}}


def _metadata(kind: str, process: int, thread: int, **arguments: str | int) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": process, "tid": thread, "args": arguments}


def merged(traces: Iterable[Trace]) -> Trace:
    """Several traces in one file, a process each."""
    events: list[dict[str, Any]] = []
    names = []
    for process, each in enumerate(traces, start=1):
        events += [event | {"pid": process} for event in each["traceEvents"]]
        names.append(each["otherData"]["name"])
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"name": "; ".join(names)}}


def pipeline_trace(
    problem: PlacementProblem, placement: Placement, timeline: Timeline, most_events: int = MOST_EVENTS
) -> Trace:
    """One pipeline in time: a thread for each stage, with its passes, gradient synchronisation and optimizer step.

    Where the passes of all microbatches are too many events, the first and the last ones are shown.
    """
    count, rounds = timeline.forward_start_s.shape
    shown = _ends(rounds, max(1, (most_events - 2 * count) // (3 * count)))
    spans = [span for stage in range(count) for span in _stage_spans(timeline, stage, shown)]
    which = f"all {rounds} microbatches" if len(shown) == rounds else _left_out(shown, rounds)
    title = f"{problem.name}: pipeline of {count} stages ({timeline.schedule}), {which}"
    names = [layer.name for layer in problem.tensor_parallel[placement.tensor].layers]
    lanes = [
        f"stage {number}: {names[stage.layers[0]]} … {names[stage.layers[-1]]}"
        if len(stage.layers) > 1
        else f"stage {number}: {names[stage.layers[0]]}"
        for number, stage in enumerate(placement.stages, start=1)
    ]
    return trace(title, lanes, spans)


def _ends(rounds: int, most: int) -> list[int]:
    """The microbatches that are shown: all of them, or as many from either end."""
    if rounds <= most:
        return list(range(rounds))
    first = most - most // 2
    return [*range(first), *range(rounds - most // 2, rounds)]


def _left_out(shown: list[int], rounds: int) -> str:
    first = sum(place == microbatch for place, microbatch in enumerate(shown))
    behind = f" and {rounds - len(shown) + first + 1}–{rounds}" if len(shown) > first else ""
    return f"microbatches 1–{first}{behind} of {rounds} shown"


def _stage_spans(timeline: Timeline, stage: int, shown: list[int]) -> list[Span]:
    spans = []
    for microbatch in shown:
        at = (stage, microbatch)
        times = [
            ("forward", "F", timeline.forward_start_s[at], timeline.forward_end_s[at]),
            ("recompute", "R", timeline.recompute_start_s[at], timeline.backward_start_s[at]),
            ("backward", "B", timeline.backward_start_s[at], timeline.backward_end_s[at]),
        ]
        spans += [
            Span(stage, f"{letter}{microbatch + 1}", kind, float(start_s), float(end_s))
            for kind, letter, start_s, end_s in times
            if kind != "recompute" or end_s > start_s
        ]
    drained_s, synchronised_s = float(timeline.drained_s[stage]), float(timeline.synchronised_s[stage])
    updated_s = float(timeline.updated_s[stage])
    if synchronised_s > drained_s:
        spans.append(Span(stage, "gradient synchronisation", "synchronisation", drained_s, synchronised_s))
    if updated_s > synchronised_s:
        spans.append(Span(stage, "optimizer step", "update", synchronised_s, updated_s))
    return spans


def schedule_trace(problem: ScheduleProblem, schedule: Schedule, most_events: int = MOST_EVENTS) -> Trace:
    """The operators of a layer in time: a thread for each core that is used, and one for operators on all cores.

    A fused operator stands on both cores of its pair. Beyond ``most_events`` the last operators are left out.
    """
    order = sorted(range(len(problem.operators)), key=lambda position: (schedule.start_s[position], position))
    runs: list[tuple[tuple[int, int], int]] = []  # lanes by (kind of core, number), and the operator
    for shown, position in enumerate(order):
        found = _cores(problem, schedule, position)
        if len(runs) + len(found) > most_events:
            order = order[:shown]
            break
        runs += [(core, position) for core in found]
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


_CORE_NAMES = ("all", "tensor", "vector")


def _cores(problem: ScheduleProblem, schedule: Schedule, position: int) -> list[tuple[int, int]]:
    """(index in :data:`_CORE_NAMES`, number) of each lane that an operator is drawn on."""
    where = schedule.cores[position]
    if where == ALL_CORES:
        return [(0, 0)]
    kinds = {"tensor": (1,), "vector": (2,), "fused": (1, 2)}[problem.operators[position].kind]
    return [(kind, where[0]) for kind in kinds]
