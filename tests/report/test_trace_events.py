"""Traces keep to the Trace Event Format (JSON object format, complete and metadata events)."""

import json
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.placement.check import batch_s
from dse.placement.pipeline_trace import pipeline_trace
from dse.placement.problem import Placement, Stage
from dse.placement.timeline import timeline
from dse.report.trace_events import MAX_EVENTS, Span, merged, trace
from dse.schedule.problem import ALL_CORES, Schedule, ScheduleOperator, ScheduleProblem
from dse.schedule.schedule_trace import schedule_trace
from tests.placement.strategies import chain_of


def assert_valid(content):
    """The rules of the format that viewers rely on; events of a thread must nest or be apart."""
    assert json.loads(json.dumps(content, allow_nan=False)) == content
    assert content["displayTimeUnit"] in ("ms", "ns")
    named, used, busy = set(), set(), defaultdict(list)
    for event in content["traceEvents"]:
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        if event["ph"] == "M":
            key = {"process_name": "name", "thread_name": "name", "thread_sort_index": "sort_index"}[event["name"]]
            assert list(event["args"]) == [key]
            if event["name"] == "thread_name":
                assert (event["pid"], event["tid"]) not in named
                named.add((event["pid"], event["tid"]))
            continue
        assert event["ph"] == "X"
        assert set(event) == {"name", "cat", "ph", "ts", "dur", "pid", "tid"}
        assert event["name"]
        assert event["ts"] >= 0
        assert event["dur"] >= 0
        used.add((event["pid"], event["tid"]))
        begin_ns = round(event["ts"] * 1000)
        busy[event["pid"], event["tid"]].append((begin_ns, begin_ns + round(event["dur"] * 1000)))
    assert used <= named
    for spans in busy.values():
        ordered = sorted(spans)
        assert all(first[1] <= second[0] for first, second in pairwise(ordered))


def complete(content):
    return [event for event in content["traceEvents"] if event["ph"] == "X"]


def threads(content):
    return [event["args"]["name"] for event in content["traceEvents"] if event["name"] == "thread_name"]


def pipeline(stages, **changes):
    problem = chain_of([(0.1, 0.2)] * stages, accelerators=2 * stages, **changes)
    held = tuple(Stage((layer,), 1) for layer in range(stages))
    placement = Placement(1, 2, held, batch_s(problem, 1, 2, held))
    return problem, placement, timeline(problem, placement)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 6), st.integers(1, 40), st.booleans(), st.sampled_from(["1f1b", "gpipe"]), st.integers(1, 200))
def test_pipelines_are_valid_traces(stages, microbatches, recompute, schedule, max_events):
    problem, placement, times = pipeline(
        stages, microbatches=max(2, microbatches), recompute=recompute, pipeline_schedule=schedule
    )
    content = pipeline_trace(problem, placement, times, max_events)
    assert_valid(content)
    assert len(complete(content)) <= max(max_events, 5 * stages)


def test_a_short_pipeline_is_shown_whole():
    problem, placement, times = pipeline(3, microbatches=8, recompute=True)
    content = pipeline_trace(problem, placement, times)
    assert threads(content) == ["stage 1: layer0", "stage 2: layer1", "stage 3: layer2"]
    names = [event["name"] for event in complete(content) if event["tid"] == 1]
    assert sorted(names[:-1]) == sorted(f"{kind}{number}" for kind in "FRB" for number in (1, 2, 3, 4))
    assert names[-1] == "gradient synchronisation"
    assert content["otherData"]["name"] == "chain: pipeline of 3 stages (1f1b), all 4 microbatches"
    last = max(event["ts"] + event["dur"] for event in complete(content))
    assert last == pytest.approx(times.batch_s * 1e6, abs=1e-3)


def test_a_long_pipeline_shows_its_ends_and_says_so():
    problem, placement, times = pipeline(10, microbatches=4096)
    content = pipeline_trace(problem, placement, times)
    assert_valid(content)
    assert len(complete(content)) <= MAX_EVENTS
    assert content["otherData"]["name"].endswith("microbatches 1–50 and 2000–2048 of 2048 shown")
    assert {"F1", "B50", "F2000", "B2048"} <= {event["name"] for event in complete(content)}
    assert "F51" not in {event["name"] for event in complete(content)}


OPERATORS = (
    ScheduleOperator("qk", "tensor", 2e-4, 6e-5),
    ScheduleOperator("softmax", "vector", 1e-4, 3e-5),
    ScheduleOperator("ffn", "fused", 3e-4, 1e-4),
    ScheduleOperator("norm", "vector", 1e-4, 3e-5),
)
PROBLEM = ScheduleProblem("layer", 2, 4, OPERATORS, ((0, 1),))
SCHEDULE = Schedule((0.0, 6e-5, 6e-5, 3.6e-4), (6e-5, 1.6e-4, 3.6e-4, 4.6e-4), (ALL_CORES, (3,), (1,), (1,)))


def test_operators_stand_on_their_cores():
    content = schedule_trace(PROBLEM, SCHEDULE)
    assert_valid(content)
    assert threads(content) == ["all cores", "tensor core 1", "vector core 1", "vector core 3"]
    shown = {(event["name"], event["tid"]): (event["ts"], event["dur"]) for event in complete(content)}
    assert shown == {
        ("qk", 1): (0.0, 60.0),
        ("softmax", 4): (60.0, 100.0),
        ("ffn", 2): (60.0, 300.0),
        ("ffn", 3): (60.0, 300.0),
        ("norm", 3): (360.0, 100.0),
    }


def test_a_long_schedule_is_cut_and_says_so():
    content = schedule_trace(PROBLEM, SCHEDULE, max_events=3)
    assert content["otherData"]["name"] == "layer: operator schedule, the first 2 of 4 operators shown"
    assert [event["name"] for event in complete(content)] == ["qk", "softmax"]
    assert_valid(content)


def test_an_empty_layer_has_an_empty_trace():
    content = schedule_trace(replace(PROBLEM, operators=(), edges=()), Schedule((), (), ()))
    assert_valid(content)
    assert complete(content) == []


def test_traces_are_merged_as_processes():
    problem, placement, times = pipeline(2)
    content = merged([pipeline_trace(problem, placement, times), schedule_trace(PROBLEM, SCHEDULE)])
    assert_valid(content)
    assert {event["pid"] for event in content["traceEvents"]} == {1, 2}


@given(st.lists(st.floats(0, 10), min_size=2, max_size=8))
def test_what_touches_in_the_schedule_touches_in_the_trace(times):
    cuts = sorted(times)
    spans = [Span(0, "s", "c", begin, end) for begin, end in pairwise(cuts)]
    content = trace("t", ["lane"], spans)
    assert_valid(content)
