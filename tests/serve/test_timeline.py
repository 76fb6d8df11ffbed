"""What a batch does in time: steps, requests, memory."""

from dse.report.trace_events import MAX_EVENTS
from dse.serve.repricing import recorded_steps, repriced
from dse.serve.search import search
from dse.serve.timeline import STEPS, memory_chart, requests_trace
from tests.serve.small import problem


def test_steps_follow_each_other_and_hold_what_their_requests_need() -> None:
    own = problem(prompt="800-1000", concurrency=24, accelerators=1)
    best = search(own).best(own.goals)
    assert best is not None
    record, limits = recorded_steps(own, best.plan, 0, 400)
    begin, end, prompts, requests, held = record.steps.T
    assert len(record.steps) == 400
    assert (end > begin).all()
    assert (begin[1:] >= end[:-1]).all()
    assert requests.max() <= limits.requests
    assert held.max() <= limits.cache_tokens
    assert prompts.max() <= limits.step_tokens
    assert (held >= 800 * requests * 0.9).all()
    assert record.outcome.mean_tpot_s == repriced(own, best.plan, 0).outcome.mean_tpot_s


def test_a_trace_has_no_more_events_than_viewers_show() -> None:
    own = problem(prompt="100-200", output="300-400", concurrency=60, accelerators=1)
    best = search(own).best(own.goals)
    assert best is not None
    events = requests_trace(own, best.plan, 0)["traceEvents"]
    spans = [each for each in events if each["ph"] == "X"]
    assert STEPS < len(spans) <= MAX_EVENTS + 1
    lanes: dict[int, float] = {}
    for each in sorted(spans, key=lambda span: span["ts"]):
        assert each["ts"] >= lanes.get(each["tid"], 0.0) - 2e-3
        lanes[each["tid"]] = each["ts"] + each["dur"]
    chart = memory_chart(own, best.plan, 0)
    assert chart is not None
    assert "tokens" in chart.title
