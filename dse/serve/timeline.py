"""The first steps of a batch in time: a trace of steps and requests for Perfetto, and memory of keys and values."""

import heapq
import math

import numpy as np

from dse.report.chart import Axis, Line, PointChart
from dse.report.palette import ANSWER, BLUE
from dse.report.trace_events import MAX_EVENTS, Span, TraceEvents, trace
from dse.report.units import time_scale
from dse.serve.problem import ServeProblem
from dse.serve.repricing import recorded_steps
from dse.serve.serving_plan import ServingPlan

STEPS = MAX_EVENTS // 2
"""That a trace holds; requests have the rest of its events."""


def requests_trace(problem: ServeProblem, plan: ServingPlan, seed: int) -> TraceEvents:
    """Steps on a lane of their own; each request waits and is computed up to its first token, then writes."""
    record, _ = recorded_steps(problem, plan, seed, STEPS)
    end = float(record.steps[-1, 1]) if len(record.steps) else 0.0
    spans = [_step(*row) for row in record.steps.tolist()]
    lanes: list[tuple[float, int]] = []
    count = 0
    order = np.argsort(record.sent_s, kind="stable")
    for request in order[np.isfinite(record.last_s[order]) & (record.sent_s[order] < end)].tolist():
        sent, first, last = (float(each[request]) for each in (record.sent_s, record.first_s, record.last_s))
        if len(spans) + 2 > MAX_EVENTS:
            break
        if lanes and lanes[0][0] <= sent:
            lane = heapq.heappop(lanes)[1]
        else:
            count += 1
            lane = count
        heapq.heappush(lanes, (last, lane))
        spans.append(Span(lane, f"request {request}: to its first token", "prompt", sent, first))
        spans.append(Span(lane, f"request {request}: writes", "decode", first, last))
    whole = record.outcome.steps
    shown = f", the first {len(record.steps):,} of {whole:,} steps" if whole > len(record.steps) else ""
    name = f"{problem.name}, one batch{shown}"
    return trace(name, ["steps", *(f"requests {number}" for number in range(1, count + 1))], spans)


def _step(begin: float, end: float, prompt_tokens: float, requests: float, held: float) -> Span:
    what = f"{prompt_tokens:,.0f} tokens of prompts, " if prompt_tokens else ""
    name = f"{what}{requests:,.0f} requests, {held:,.0f} tokens held"
    return Span(0, name, "prompt" if prompt_tokens else "decode", begin, end)


def memory_chart(problem: ServeProblem, plan: ServingPlan, seed: int) -> PointChart | None:
    """Tokens whose keys and values a batch holds over its first steps, below what it may hold; None for no steps."""
    record, limits = recorded_steps(problem, plan, seed, STEPS)
    if not len(record.steps):
        return None
    scale = time_scale(float(record.steps[-1, 1]))
    times, held = [scale.of(each) for each in record.steps[:, 0].tolist()], record.steps[:, 4].tolist()
    most, room = max(held), limits.cache_tokens
    share = math.ceil(100 * most / room)
    title = f"Memory of keys and values: at most {most:,.0f} of {room:,.0f} tokens ({share} %)"
    lines = [
        Line("held by a batch", times, held, BLUE, steps=True, filled=True),
        Line("room", [times[0], times[-1]], [room] * 2, ANSWER, dash="dash"),
    ]
    return PointChart(title, Axis(f"time [{scale.unit}]"), Axis("tokens", from_zero=True), lines, height=300)
