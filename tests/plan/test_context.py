"""What a ring of keys and values costs: sums over its blocks, launches, and what no block hides."""

import pytest

from dse.plan.check_costs import plan_costs
from dse.plan.evaluate import evaluate
from dse.plan.plan_arrays import PlanArrays
from dse.plan.stack import RingBytes, stack
from tests.plan.problems import GENERIC, plan, problem, with_facts

MODEL = "llama3-8b"


def parts(software=GENERIC, context=4, sequence=8192, **more):
    """Parts of a step by the checker, with which the arrays agree."""
    posed = problem(MODEL, devices=8, batch=8, sequence=sequence, software=software, **more)
    each = plan(context=context, data=8 // context, zero=1, **more)
    costs, arrays = plan_costs(posed, each), evaluate(posed, PlanArrays.of([each]))
    assert arrays.step_s[0] == pytest.approx(costs.step_s, rel=1e-11)
    return {**costs.time_s, "step": costs.step_s}


def with_ring(*each):
    return GENERIC.model_copy(update={"ring_bytes": RingBytes(value=each, source="a test")})


def test_each_step_of_the_ring_adds_its_traffic_to_attention_and_one_device_has_none():
    chip, model = problem(MODEL).system.chip, problem(MODEL).model
    tokens, heads, width = 8 * 8192 / 8, model.heads, model.key_width
    rate = chip.hbm_bytes_per_s * GENERIC.memory.value
    forward = 4 * tokens * heads * width * 7 * model.layers / rate
    backward = 4 * tokens * model.key_heads * 2 * width * 11 * model.layers / rate
    free = parts(with_ring(0, 0, 0, 0))["attention"]
    assert parts(with_ring(7, 0, 0, 0))["attention"] - free == pytest.approx(forward)
    assert parts(with_ring(0, 0, 0, 11))["attention"] - free == pytest.approx(backward)
    assert parts(with_ring(7, 7, 7, 7), context=1) == parts(with_ring(0, 0, 0, 0), context=1)


def test_the_first_block_hides_no_exchange_and_the_last_gradients_travel_alone():
    sent = parts(overlap_context="no")["context"]
    posed = problem(MODEL, devices=8, batch=8, sequence=8192)
    work = posed.model.layers * 4  # layers of all microbatches
    size = 2 * 2 * posed.model.key_heads * posed.model.key_width * 8192 / GENERIC.link.value
    gather, scatter = (posed.network.collective_s(kind, size, 4, 1) for kind in ("all_gather", "reduce_scatter"))
    assert sent == pytest.approx(work * (2 * gather + scatter))
    assert parts()["context"] == pytest.approx(work * scatter / 3)
    short = parts(sequence=1024)
    assert short["context"] > 0
    assert short["context"] < parts(sequence=1024, overlap_context="no")["context"]


def test_keys_that_are_repeated_for_each_head_travel_so():
    repeats = GENERIC.model_copy(
        update={
            "repeats_keys": GENERIC.repeats_keys.model_copy(update={"value": True}),
            "ring_bytes": with_ring(0, 0, 0, 0).ring_bytes,
        }
    )
    own, more = parts(with_ring(0, 0, 0, 0), overlap_context="no"), parts(repeats, overlap_context="no")
    groups = problem(MODEL).model.heads / problem(MODEL).model.key_heads
    assert more["context"] > 0.9 * groups * own["context"]
    assert stack("torchtitan-2024").repeats_keys.value


def test_short_blocks_wait_for_their_launches():
    eager = with_facts(launch_s=26.3e-6)
    waits = [parts(eager, context=context, sequence=1024)["launch"] for context in (1, 2, 4, 8)]
    assert waits == sorted(waits)
    assert waits[-1] > 1.5 * waits[0]
    assert parts(GENERIC, context=8, sequence=1024)["launch"] == 0


def test_context_parallelism_costs_the_less_the_longer_samples_are():
    eager = stack("megatron-bridge")
    ratios = [
        parts(eager, context=8, sequence=sequence)["step"] / parts(eager, context=1, sequence=sequence)["step"]
        for sequence in (2048, 8192, 32768)
    ]
    assert ratios == sorted(ratios, reverse=True)
