"""Speculative decoding: tokens of a step, its work, events against objects, and laws."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.plan.model_sources import transformer
from dse.serve.disaggregated import Split, disaggregated_state
from dse.serve.disaggregated_simulation import simulated_apart
from dse.serve.engine import engine
from dse.serve.load import Lengths, Load
from dse.serve.memory import cache_bytes, weight_bytes
from dse.serve.shape import Formats, Shape
from dse.serve.simulation import Limits, Outcome, simulated
from dse.serve.speculation import Speculation, held_model, prediction_layer
from dse.serve.steady_state import steady_state
from dse.serve.step_tables import BATCHES, StepTables, step_tables
from hardware.inputs import InputError
from tests.serve.scheduler_oracle import Rules, served
from tests.serve.test_events import (
    CONTEXT_S,
    ENGINES,
    OUT_S,
    REQUESTS,
    START_S,
    TOKEN_S,
    fixed,
    tables,
    with_constants,
)  # fmt: skip
from tests.serve.test_step_work import work

DRAFT = 0.1
"""Of the main model, what a pass of the layer that proposes tokens takes."""


def speculative(own: Speculation) -> StepTables:
    """Linear tables with a layer that proposes tokens."""
    main = tables()
    layer = replace(main, linear_s=DRAFT * main.linear_s, head_s=DRAFT * main.head_s, decode_s=DRAFT * main.decode_s)
    return replace(main, speculation=own, draft=replace(layer, prefill_s=DRAFT * main.prefill_s, layers=0.0))


def seconds(parts: Sequence[tuple[int, int]], contexts: Sequence[int], out: int, drafts: int) -> float:
    """What the tables charge for a step."""
    prompts, decodes = sum(part for _, part in parts), len(contexts)
    told = TOKEN_S * max(prompts + decodes * (1 + drafts), 1) + OUT_S * out + CONTEXT_S * sum(contexts) + 1e-3
    if decodes:
        told += drafts * DRAFT * ((TOKEN_S + OUT_S) * decodes + CONTEXT_S * sum(contexts))
    if parts:
        told += 2 * START_S + 1e-9 * (1 + DRAFT) * prompts + DRAFT * TOKEN_S * prompts
    return told


@settings(max_examples=80, deadline=None)
@given(
    lengths=REQUESTS,
    clients=st.integers(1, 6),
    name=st.sampled_from(ENGINES),
    drafts=st.integers(1, 3),
    acceptance=st.floats(0, 1),
    requests=st.integers(1, 6),
    cache=st.integers(90, 300),
)
def test_every_request_has_the_times_of_a_scheduler_of_objects(
    lengths: list[tuple[int, int]],
    clients: int,
    name: str,
    drafts: int,
    acceptance: float,
    requests: int,
    cache: int,
) -> None:
    own, speculation = with_constants(name, host_s=1e-3, request_s=5e-3), Speculation(drafts, acceptance)
    load, arrivals = fixed(lengths, clients, [0.0] * len(lengths)), [0.0] * len(lengths)
    outcome = simulated(speculative(speculation), own, Limits(80, requests, cache), load, len(lengths), seed=1)
    rules = Rules(
        own.steps.value, 80, requests, cache, own.reserves_output.value, 5e-3, drafts,
        tuple(speculation.gains(1).tolist()),
    )  # fmt: skip
    expected = served(
        rules, lambda parts, contexts, out: seconds(parts, contexts, out, drafts), lengths, clients, arrivals
    )
    latency = [each.last - each.sent for each in expected if each.last is not None]
    assert outcome.latency_s == pytest.approx(latency, rel=1e-9)


def closed(own: StepTables, output: int = 60) -> Outcome:
    """A closed loop of eight clients."""
    load = Load(Lengths(200, 300), Lengths(output, output), 8)
    return simulated(own, with_constants("vllm", host_s=1e-3), Limits(512, 64, 1e6), load, 80)


def test_tokens_of_a_step_are_a_geometric_sum() -> None:
    assert Speculation().tokens_per_step == 1
    assert Speculation(3, 1.0).tokens_per_step == 4
    own = Speculation(3, 0.7)
    assert own.tokens_per_step == pytest.approx((1 - 0.7**4) / (1 - 0.7))
    assert own.gains(0).mean() == pytest.approx(own.tokens_per_step, rel=0.03)
    assert {*own.gains(0).tolist()} == {1, 2, 3, 4}


def test_no_drafts_are_plain_decoding() -> None:
    plain, none = closed(tables()), closed(replace(tables(), speculation=Speculation(0, 0.8)))
    assert (plain.latency_s == none.latency_s).all()


def test_drafts_that_are_never_accepted_cost_time_and_more_acceptance_saves_it() -> None:
    latencies = [closed(speculative(Speculation(2, rate)), 61).latency_s.mean() for rate in (0.0, 0.5, 1.0)]
    assert latencies[0] > closed(tables(), 61).latency_s.mean() > latencies[2]
    assert latencies[0] > latencies[1] > latencies[2]


@pytest.mark.parametrize("name", ENGINES)
def test_the_closed_form_speculates_as_events_do(name: str) -> None:
    own, ones = with_constants(name, host_s=1e-3), np.ones(1)
    load = Load(Lengths(200, 300), Lengths(400, 500), 8)

    def paces(of: StepTables) -> tuple[float, float]:
        state = steady_state(of, own, load, 8 * ones, 64 * ones, 512 * ones)
        return float(state.tpot_s[0]), simulated(of, own, Limits(512, 64, 1e6), load, 80).mean_tpot_s

    plain = paces(tables())
    assert paces(replace(tables(), speculation=Speculation(0, 0.7))) == plain
    for acceptance in (0.0, 0.6, 1.0):
        closed_form, events = paces(speculative(Speculation(2, acceptance)))
        assert closed_form == pytest.approx(events, rel=0.1)
        assert (closed_form < plain[0]) == (acceptance > 0)


def test_every_token_is_written_once() -> None:
    assert closed(speculative(Speculation(3, 0.9))).output_tokens == closed(tables()).output_tokens


def test_a_step_of_deepseek_verifies_drafts_at_little_more_than_one_token() -> None:
    own = work("deepseek-v3", "h200-sxm", Shape(tensor=8, expert_tensor=8), "fp8_block")
    plain, drafting = step_tables(own), step_tables(own, Speculation(1, 0.8))
    assert drafting.draft is not None
    assert drafting.draft.layers == 1
    assert (drafting.decode_s >= plain.decode_s * (1 - 1e-12)).all()
    assert (drafting.decode_s <= 2 * plain.decode_s * (1 + 1e-12)).all()
    load = Load(Lengths(800, 1000), Lengths(800, 1000), 4)
    slow, fast = (simulated(each, engine("sglang"), Limits(8192, 64, 1e9), load, 40) for each in (plain, drafting))
    assert 1.3 < slow.mean_tpot_s / fast.mean_tpot_s < 1.8
    assert len(BATCHES) == drafting.decode_s.shape[0]


def test_workers_for_tokens_alone_speculate_too() -> None:
    split = Split(tables(), tables(), 2, 1, 512, 64, 1e6, 1e-3, 1e-6)
    load = Load(Lengths(200, 300), Lengths(61, 61), 8)
    own = with_constants("vllm", host_s=1e-3)
    plain = simulated_apart(split, own, load, 80)
    fast = simulated_apart(replace(split, decode=speculative(Speculation(2, 1.0))), own, load, 80)
    assert fast.output_tokens == plain.output_tokens
    assert fast.mean_tpot_s < plain.mean_tpot_s / 2
    ones = np.ones(1)
    for acceptance in (0.0, 0.6, 1.0):
        each = replace(split, decode=speculative(Speculation(2, acceptance)))
        state = disaggregated_state(each, own, load, 8 * ones, 2 * ones, ones, 64 * ones)
        events = simulated_apart(each, own, load, 80)
        assert state.tpot_s[0] == pytest.approx(events.mean_tpot_s, rel=0.1)


def test_a_prediction_layer_is_the_last_one_and_takes_memory() -> None:
    deepseek, formats = transformer("deepseek-v3"), Formats("fp8_block", 1.0)
    layer = prediction_layer(deepseek)
    assert (layer.layers, layer.has_expert_layers, layer.dense_layers) == (1, True, 0)
    held = held_model(deepseek, Speculation(1, 0.5))
    assert held_model(deepseek, Speculation()) is deepseek
    assert cache_bytes(held, Shape(), formats, 10) == 10 * 62 * 576
    assert weight_bytes(held, Shape(), formats) > weight_bytes(deepseek, Shape(), formats) + 256 * 3 * 7168 * 2048
    with pytest.raises(InputError, match="there is no multi-token-prediction layer"):
        step_tables(work(), Speculation(1, 0.5))
    assert np.isfinite(step_tables(work()).linear_s).all()
