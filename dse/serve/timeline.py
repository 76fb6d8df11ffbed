"""The first steps of a batch in time: a trace of steps and requests for Perfetto, and memory of keys and values."""

import heapq
import math

import numpy as np

from dse.report.chart import Axis, Line, PointChart
from dse.report.palette import ANSWER, BLUE
from dse.report.trace_events import MAX_EVENTS, Span, TraceEvents, trace
from dse.report.units import time_scale
from dse.serve.disaggregated_repricing import repriced_apart
from dse.serve.problem import ServeProblem
from dse.serve.repricing import recorded_steps
from dse.serve.serving_plan import Plan, SplitPlan
from hardware.kernel_times.form import Floats

STEPS = MAX_EVENTS // 2
"""That a trace holds; requests have the rest of its events."""


def requests_trace(problem: ServeProblem, plan: Plan, seed: int) -> TraceEvents:
    """Steps on lanes of their own; each request waits and is computed up to its first token, then writes."""
    if isinstance(plan, SplitPlan):
        record, _ = repriced_apart(problem, plan, seed, STEPS)
        lanes = _lanes(plan)
        spans = [_step(lanes[int(station)], *row) for station, *row in record.steps.tolist()]
        stations = [
            f"{part} rank {n}" for part in ("prefill", "decode") for n in range(1, getattr(plan, part).groups + 1)
        ]
        what = "all workers"
        return _with_requests(
            problem, what, stations, spans, (record.sent_s, record.first_s, record.last_s), record.outcome.steps
        )
    batch, _ = recorded_steps(problem, plan, seed, STEPS)
    spans = [_step(0, *row) for row in batch.steps.tolist()]
    times = (batch.sent_s, batch.first_s, batch.last_s)
    return _with_requests(problem, "one batch", ["steps"], spans, times, batch.outcome.steps)


def _lanes(plan: SplitPlan) -> dict[int, int]:
    """Of stations that make steps: prefill ranks, and decode ranks, behind the links of the first."""
    prefill, decode = plan.prefill.groups, plan.decode.groups
    return {n: n for n in range(prefill)} | {2 * prefill + n: prefill + n for n in range(decode)}


def _with_requests(
    problem: ServeProblem, what: str, stations: list[str], spans: list[Span], times: tuple[Floats, ...], whole: int
) -> TraceEvents:
    steps, shown_steps = len(spans), list(spans)
    end = max((each.end_s for each in spans), default=0.0)
    sent_s, last_s = times[0], times[2]
    free: list[tuple[float, int]] = []
    count = 0
    order = np.argsort(sent_s, kind="stable")
    for request in order[np.isfinite(last_s[order]) & (sent_s[order] < end)].tolist():
        sent, first, last = (float(each[request]) for each in times)
        if len(shown_steps) + 2 > MAX_EVENTS:
            break
        if free and free[0][0] <= sent:
            lane = heapq.heappop(free)[1]
        else:
            lane = len(stations) + count
            count += 1
        heapq.heappush(free, (last, lane))
        shown_steps.append(Span(lane, f"request {request}: to its first token", "prompt", sent, first))
        shown_steps.append(Span(lane, f"request {request}: writes", "decode", first, last))
    shown = f", the first {steps:,} of {whole:,} steps" if whole > steps else ""
    name = f"{problem.name}, {what}{shown}"
    return trace(name, [*stations, *(f"requests {number}" for number in range(1, count + 1))], shown_steps)


def _step(lane: int, begin: float, end: float, prompt_tokens: float, requests: float, held: float) -> Span:
    what = f"{prompt_tokens:,.0f} tokens of prompts, " if prompt_tokens else ""
    name = f"{what}{requests:,.0f} requests, {held:,.0f} tokens held"
    return Span(lane, name, "prompt" if prompt_tokens else "decode", begin, end)


def memory_chart(problem: ServeProblem, plan: Plan, seed: int) -> PointChart | None:
    """Tokens whose keys and values a batch holds over its first steps, below what it may hold; None for no steps.

    Of workers apart, the batch of the first decode rank.
    """
    if isinstance(plan, SplitPlan):
        record, split = repriced_apart(problem, plan, seed, STEPS)
        steps, room = record.steps[record.steps[:, 0] == 2 * plan.prefill.groups][:, 1:], split.cache_tokens
    else:
        batch, limits = recorded_steps(problem, plan, seed, STEPS)
        steps, room = batch.steps, limits.cache_tokens
    if not len(steps):
        return None
    scale = time_scale(float(steps[-1, 1]))
    times, held = [scale.of(each) for each in steps[:, 0].tolist()], steps[:, 4].tolist()
    most = max(held)
    share = math.ceil(100 * most / room)
    title = f"Memory of keys and values: at most {most:,.0f} of {room:,.0f} tokens ({share} %)"
    lines = [
        Line("held by a batch", times, held, BLUE, steps=True, filled=True),
        Line("room", [times[0], times[-1]], [room] * 2, ANSWER, dash="dash"),
    ]
    return PointChart(title, Axis(f"time [{scale.unit}]"), Axis("tokens", from_zero=True), lines, height=300)
