"""Schedules as Chrome trace-event JSON, which Perfetto (https://ui.perfetto.dev) and chrome://tracing open.

The JSON object format of the Trace Event Format specification (Google): ``traceEvents`` holds complete events (``X``,
with ``ts`` and ``dur`` in microseconds) and metadata events (``M``) that name processes and threads. Times are rounded
to whole nanoseconds before they are subtracted, so that what touches in the schedule touches in the trace.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

MAX_EVENTS = 3000
"""Events that a viewer still shows smoothly: of longer schedules a part is left out, and the trace's name says so."""

TraceEvents = dict[str, Any]
"""A trace file, made of JSON types."""


@dataclass(frozen=True)
class Span:
    """One thing that runs on one lane (a stage, a core) from ``start_s`` to ``end_s``; ``category`` sets its colour."""

    lane: int
    name: str
    category: str
    start_s: float
    end_s: float


def trace(name: str, lanes: Sequence[str], spans: Iterable[Span], process: int = 1) -> TraceEvents:
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


def merged(traces: Iterable[TraceEvents]) -> TraceEvents:
    """Several traces in one file, a process each."""
    events: list[dict[str, Any]] = []
    names = []
    for process, each in enumerate(traces, start=1):
        events += [event | {"pid": process} for event in each["traceEvents"]]
        names.append(each["otherData"]["name"])
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"name": "; ".join(names)}}
