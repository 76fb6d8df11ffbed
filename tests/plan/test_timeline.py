"""Pipelines in time: the closed forms of bubble and kept microbatches, and the order of passes."""

import random
from collections import Counter

import pytest

from dse.plan.check_costs import plan_costs
from dse.plan.report import plan_charts
from dse.plan.stack import stack
from dse.plan.timeline import pipeline_trace, plan_timeline, timeline
from dse.report.view import Paragraph, charts_of
from tests.plan.problems import plan, problem

SHAPES = [(1, 1, 3), (2, 1, 5), (4, 1, 8), (4, 1, 2), (4, 2, 8), (4, 4, 16), (8, 3, 8), (3, 2, 9)]


def kept(row):
    """Microbatches, counted in chunks, of which a stage keeps activations at most."""
    now = most = 0
    for each, _, _ in row:
        now += -1 if each.is_backward else 1
        most = max(most, now)
    return most


@pytest.mark.parametrize(("stages", "chunks", "rounds"), SHAPES)
def test_equal_stages_take_what_the_closed_form_says(stages, chunks, rounds):
    drawn = timeline([(1.0, 2.0)] * stages, chunks, rounds)
    assert drawn.end_s == pytest.approx(3.0 * (rounds + (stages - 1) / chunks))
    for stage, row in enumerate(drawn.passes):
        assert Counter(each for each, _, _ in row).most_common(1)[0][1] == 1
        assert len(row) == 2 * chunks * rounds
        ahead = stages - stage if chunks == 1 else 2 * (stages - stage - 1) + (chunks - 1) * stages + 1
        assert kept(row) == min(ahead, chunks * rounds)


def test_gpipe_takes_as_long_as_1f1b_and_keeps_everything():
    passes = [(1.0, 2.0)] * 4
    drawn = timeline(passes, 1, 8, gpipe=True)
    assert drawn.end_s == pytest.approx(timeline(passes, 1, 8).end_s)
    assert [kept(row) for row in drawn.passes] == [8] * 4


@pytest.mark.parametrize("chunks", [1, 2, 4])
@pytest.mark.parametrize("seed", range(4))
def test_of_unequal_stages_the_closed_form_is_an_upper_bound(seed, chunks):
    """M · max L ≤ the step ≤ M · max L + (ΣL − max L) / v."""
    draws = random.Random(seed)
    loads = [draws.uniform(1.0, 2.0) for _ in range(6)]
    drawn = timeline([(load / 3, 2 * load / 3) for load in loads], chunks, 42)
    closed = 42 * max(loads) + (sum(loads) - max(loads)) / chunks
    assert 42 * max(loads) <= drawn.end_s <= closed * (1 + 1e-12)


def test_a_plan_in_time_ends_when_its_costs_say():
    posed = problem("llama3-8b", devices=32, batch=128)
    for values in ({"pipeline": 4, "interleave": 2}, {"pipeline": 8}, {"pipeline": 4, "schedule": "gpipe"}):
        each = plan(tensor=2, sequence_parallel=True, data=16 // values["pipeline"], zero=1, microbatch=2, **values)
        costs = plan_costs(posed, each)
        rounds = 128 // each.data // 2
        passes_s = costs.step_s - costs.time_s["data"] - costs.time_s["optimizer"]
        assert plan_timeline(posed, each, rounds).end_s == pytest.approx(passes_s, rel=0.02)
        shown = pipeline_trace(posed, each)
        assert len(shown["traceEvents"]) == 1 + 2 * each.pipeline + 2 * each.pipeline * each.interleave * rounds
    assert pipeline_trace(posed, plan(data=32)) is None


@pytest.mark.parametrize("software", ["generic", "torchtitan-2024"])
def test_a_page_draws_every_pass_and_the_memory_of_every_stage(software):
    posed = problem("llama3-8b", devices=32, batch=128, software=stack(software))
    each = plan(tensor=2, sequence_parallel=True, data=4, pipeline=4, interleave=2, zero=1, microbatch=2)
    in_time, memory = charts_of(plan_charts(posed, each.document()))
    assert len(in_time.bars) == 2 * 4 * 2 * (128 // 4 // 2)
    costs = plan_costs(posed, each)
    parts = {name for stage in costs.stage_memory for name, size in stage.items() if size}
    assert [len(bars.heights) for bars in memory.bars] == [4] * len(parts)
    assert ("reserved" in parts) is (software != "generic")
    highest = max(sum(heights) for heights in zip(*(bars.heights for bars in memory.bars), strict=True))
    ((limit, _),) = memory.limits.values()
    assert highest == pytest.approx(costs.memory_bytes / posed.system.chip.hbm_bytes * limit)
    assert plan_charts(posed, plan(data=32).document()) == []


def test_a_round_of_a_deep_interleaved_pipeline_is_drawn_whole():
    """530B on Selene (Korthikanti et al. 2022, table 3): 35 stages of three chunks, 7,350 passes a round."""
    posed = problem("megatron-529.6b", "a100-sxm", 280, 280, 2048)
    each = plan(tensor=8, sequence_parallel=True, pipeline=35, interleave=3, recompute="selective")
    passes = 2 * 35 * 3 * 35
    assert len(pipeline_trace(posed, each)["traceEvents"]) == 1 + 2 * 35 + passes
    in_time = next(charts_of(plan_charts(posed, each.document())))
    assert len(in_time.bars) == passes
    # outlines would cover bars that are a few pixels wide
    assert not in_time.outlined


def test_a_page_says_where_a_pipeline_is_too_large_for_a_picture():
    posed = problem("megatron-1008b", "a100-sxm", 1024, 128, 2048)
    each = plan(tensor=8, sequence_parallel=True, data=2, pipeline=64, interleave=2, recompute="full")
    assert pipeline_trace(posed, each) is None
    parts = plan_charts(posed, each.document())
    assert any("too many passes" in part.text for part in parts if isinstance(part, Paragraph))
    assert len(list(charts_of(parts))) == 1
