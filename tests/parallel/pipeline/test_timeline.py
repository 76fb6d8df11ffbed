"""Pipelines in time: against the definition where nothing waits, and without two things at once on a lane."""

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.parallel.pipeline.charts import pipeline_in_time
from dse.parallel.pipeline.length import StageTimes
from dse.parallel.pipeline.timeline import pipeline_trace, timeline
from dse.report.chart_svg import chart_svg

seconds = st.floats(0, 10).map(lambda value: round(value, 3))


@st.composite
def stages(draw):
    count = draw(st.integers(1, 5))
    last = count - 1
    return [
        StageTimes(draw(seconds) + 0.1, draw(seconds), 0.0 if at == last else draw(seconds), draw(seconds), 0.0)
        for at in range(count)
    ]


def first_s(times):
    return sum(each.forward_s + each.backward_s + 2 * each.send_s for each in times)


@settings(max_examples=60, deadline=None)
@given(stages(), st.integers(1, 7))
def test_every_lane_does_one_thing_at_a_time_and_everything_once(times, microbatches):
    of = timeline(times, microbatches)
    for lane in range(len(of.lanes)):
        spans = sorted((span.start_s, span.end_s) for span in of.spans if span.lane == lane)
        assert all(one[1] <= other[0] for one, other in itertools.pairwise(spans))
    for stage, each in enumerate(times):
        for kind, duration_s in (("forward", each.forward_s), ("backward", each.backward_s)):
            spans = [span for span in of.spans if span.lane == 3 * stage and span.category == kind]
            assert len(spans) == microbatches
            assert all(span.end_s - span.start_s == pytest.approx(duration_s, abs=1e-9) for span in spans)
    lane_of = {"forward": "stage", "backward": "stage", "synchronisation": "all-reduce", "transfer": "↔"}
    assert all(lane_of[span.category] in of.lanes[span.lane] for span in of.spans)
    slowest_s = max(each.forward_s + each.backward_s for each in times)
    assert of.end_s >= max(first_s(times), microbatches * slowest_s) * (1 - 1e-9)


@settings(max_examples=60, deadline=None)
@given(stages())
def test_one_microbatch_takes_what_the_definition_says(times):
    exposed_s = drain_s = 0.0
    for each in times:
        exposed_s = max(exposed_s, each.all_reduce_s - drain_s)
        drain_s += each.backward_s + each.send_s
    assert timeline(times, 1).end_s == pytest.approx(first_s(times) + exposed_s, abs=1e-9)


def test_equal_stages_with_free_transfers_take_what_the_definition_says():
    times = [StageTimes(1.0, 2.0, 0.0, 0.0, 0.0)] * 4
    assert timeline(times, 9).end_s == pytest.approx(first_s(times) + 8 * 3.0)


def test_long_batches_are_shown_in_part():
    of = timeline([StageTimes(1.0, 2.0, 0.5, 1.0, 0.0), StageTimes(1.0, 2.0, 0.0, 1.0, 0.0)], 100_000)
    assert of.microbatches < 1000
    assert f"{of.microbatches} of 100000" in pipeline_trace("step", of, 100_000)["otherData"]["name"]


def test_the_last_stage_sends_nothing_on():
    times = [StageTimes(1.0, 2.0, 0.5, 1.0, 0.0), StageTimes(1.0, 2.0, 0.0, 1.0, 0.0)]
    assert timeline(times, 2).lanes == ("stage 1", "all-reduce 1", "1 ↔ 2", "stage 2", "all-reduce 2")


def test_no_bar_of_the_picture_reaches_into_the_next_lane():
    times = [StageTimes(1.0, 2.0, 0.5, 1.0, 0.0), StageTimes(1.0, 2.0, 0.0, 1.0, 0.0)]
    drawn = pipeline_in_time(timeline(times, 2))
    assert {bar.kind for bar in drawn.bars} == set(drawn.legend)
    assert all(0 <= bar.lane < len(drawn.lanes) for bar in drawn.bars)
    rectangles = re.findall(r"<rect x='\d[^>]*>", chart_svg(drawn))
    boxes = [re.findall(r"(?<= )(?:y|height)='([\d.]+)'", rectangle) for rectangle in rectangles]
    tops, pixels = sorted({float(y) for y, _ in boxes}), {float(high) for _, high in boxes}
    assert max(pixels) < min(later - one for one, later in itertools.pairwise(tops))
