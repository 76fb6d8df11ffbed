"""Prompts and tokens on workers of their own: events against objects, the closed form, and laws."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.serving_disaggregated import compared, split_of
from benchmarks.serving_rows import load_of
from dse.plan.model_sources import transformer
from dse.serve.disaggregated import Split, disaggregated_state, transfer_s
from dse.serve.disaggregated_simulation import simulated_apart
from dse.serve.engine import engine
from dse.serve.load import Lengths, Load
from dse.serve.shape import Formats, Shape
from dse.serve.simulation import Limits, Outcome, simulated
from dse.serve.steady_state import SteadyState
from dse.serve.step_tables import StepTables, step_tables
from tests.serve.disaggregated_oracle import Rules, served_apart
from tests.serve.test_events import ENGINES, REQUESTS, fixed, seconds, tables, with_constants
from tests.serve.test_step_work import work


def split(**changes: Any) -> Split:
    """Of linear tables."""
    own = Split(tables(), tables(), 1, 1, 80, 8, 300, 1e-3, 1e-5)
    return replace(own, **changes)


@settings(max_examples=150)
@given(
    lengths=REQUESTS,
    gaps=st.lists(st.floats(0, 0.02), min_size=14, max_size=14),
    clients=st.integers(0, 6),
    name=st.sampled_from(ENGINES),
    prefill_ranks=st.integers(1, 3),
    decode_ranks=st.integers(1, 3),
    step_tokens=st.integers(8, 80),
    requests=st.integers(1, 8),
    cache=st.integers(40, 300),
)
def test_every_request_has_the_times_of_stations_of_objects(
    lengths: list[tuple[int, int]],
    gaps: list[float],
    clients: int,
    name: str,
    prefill_ranks: int,
    decode_ranks: int,
    step_tokens: int,
    requests: int,
    cache: int,
) -> None:
    own = with_constants(name, host_s=1e-3, request_s=5e-3)
    arrivals = np.cumsum(gaps)[: len(lengths)].tolist()
    outcome = simulated_apart(
        split(
            prefill_ranks=prefill_ranks, decode_ranks=decode_ranks, step_tokens=step_tokens, requests=requests,
            cache_tokens=cache,
        ),
        own, fixed(lengths, clients, arrivals), len(lengths),
    )  # fmt: skip
    whole = own.steps.value == "whole prompts"
    rules = Rules(whole, prefill_ranks, decode_ranks, step_tokens, requests, cache, 5e-3)
    expected = served_apart(rules, seconds, lambda prompt: 1e-3 + 1e-5 * prompt, lengths, clients, arrivals)
    times = [(each.sent, each.first, each.last) for each in expected]
    latency = [last - sent for sent, _, last in times if last is not None]
    ttft = [first - sent for sent, first, last in times if first is not None and last is not None]
    assert outcome.latency_s == pytest.approx(latency, rel=1e-9)
    assert outcome.ttft_s == pytest.approx(ttft, rel=1e-9)


@pytest.fixture(scope="module")
def llama() -> Split:
    """Llama 3 70B: prompts on one worker of four H100, tokens on two."""
    own: StepTables = step_tables(work())
    return Split(own, own, 1, 2, 8192, 256, 1e9, 1e-3, 1e-7)


def both(own: Split, clients: int, prompt: int, output: int, name: str = "vllm") -> tuple[SteadyState, Outcome]:
    """By the closed form, and by events."""
    load = Load(Lengths(round(0.8 * prompt), prompt), Lengths(round(0.8 * output), output), clients)
    ones = np.ones(1)
    closed = disaggregated_state(
        own, engine(name), load, clients * ones, own.prefill_ranks * ones, own.decode_ranks * ones, own.requests * ones
    )
    return closed, simulated_apart(own, engine(name), load, 10 * clients)


@pytest.mark.parametrize(
    ("clients", "prompt", "output"), [(1, 4000, 200), (8, 1000, 500), (64, 1000, 1000), (64, 8000, 1000)]
)
@pytest.mark.parametrize("name", ENGINES)
def test_the_closed_form_has_about_the_pace_and_the_rate_of_events(
    llama: Split, name: str, clients: int, prompt: int, output: int
) -> None:
    closed, events = both(llama, clients, prompt, output, name)
    assert float(closed.tpot_s[0]) == pytest.approx(events.mean_tpot_s, rel=0.1)
    assert float(closed.tokens_per_s[0]) == pytest.approx(events.output_tokens_per_s, rel=0.2)


def test_requests_and_tokens_are_conserved(llama: Split) -> None:
    _, events = both(llama, 16, 1000, 100)
    assert len(events.latency_s) == 160
    assert events.refused == 0
    assert 160 * 80 <= events.output_tokens <= 160 * 100
    assert (events.ttft_s <= events.latency_s).all()


def test_tokens_wait_for_no_prompts(llama: Split) -> None:
    load = Load(Lengths(3200, 4000), Lengths(400, 500), 32)
    together = simulated(llama.decode, engine("vllm"), Limits(8192, 64, 1e9), load, 320)
    _, apart = both(replace(llama, prefill_ranks=4, decode_ranks=1), 32, 4000, 500)
    assert apart.mean_tpot_s < together.mean_tpot_s


@given(share=st.floats(0.1, 1.0), clients=st.integers(1, 200), prompt=st.integers(50, 9000), output=st.integers(2, 900))
@settings(max_examples=40)
def test_faster_links_are_never_slower_in_the_closed_form(
    llama: Split, share: float, clients: int, prompt: int, output: int
) -> None:
    load, ones = Load(Lengths(prompt, prompt), Lengths(output, output), clients), np.ones(1)
    slow, fast = (
        disaggregated_state(own, engine("vllm"), load, clients * ones, ones, 2 * ones, 64 * ones)
        for own in (llama, replace(llama, token_transfer_s=share * llama.token_transfer_s))
    )
    assert fast.tokens_per_s[0] >= slow.tokens_per_s[0] * (1 - 1e-9)
    more = disaggregated_state(llama, engine("vllm"), load, clients * ones, 2 * ones, 2 * ones, 64 * ones)
    assert more.tokens_per_s[0] >= slow.tokens_per_s[0] * (1 - 1e-9)


def test_faster_links_are_never_slower_for_one_client(llama: Split) -> None:
    _, slow = both(replace(llama, token_transfer_s=1e-5), 1, 4000, 100)
    _, fast = both(llama, 1, 4000, 100)
    assert (fast.latency_s < slow.latency_s).all()


def test_keys_and_values_of_latent_attention_arrive_whole_at_every_chip() -> None:
    formats, rate = Formats("fp8", 1.0), 50e9
    llama, deepseek = transformer("llama3-70b"), transformer("deepseek-v3")
    eight, one = Shape(tensor=8), Shape()
    assert transfer_s(llama, eight, eight, formats, 1000, rate) == pytest.approx(1000 * 2 * 80 * 128 / rate)
    assert transfer_s(llama, one, eight, formats, 1000, rate) == pytest.approx(1000 * 2 * 80 * 8 * 128 / rate)
    assert transfer_s(deepseek, eight, eight, formats, 1000, rate) == pytest.approx(1000 * 61 * 576 / rate)


def test_a_measured_row_is_posed_as_it_states_its_workers() -> None:
    row = dict.fromkeys(("prefill_moe_ep", "decode_moe_ep", "prefill_attention_dp", "decode_attention_dp"), "1")
    row |= {"prefill_tp": "4", "prefill_moe_tp": "4", "decode_tp": "8", "decode_moe_tp": "8", "prefill_workers": "3"}
    row |= {"decode_workers": "2", "gpus": "28", "model": "deepseek-r1", "gpu": "b200", "engine": "sglang"}
    row |= {"precision": "nvfp4", "isl": "8192", "osl": "1024", "lengths": "0.8-1", "concurrency": "4"}
    load = load_of(row)
    own, held = split_of(row, load, engine("sglang"))
    assert (own.prefill_ranks, own.decode_ranks, own.step_tokens) == (3, 2, 8192)
    assert own.cache_tokens > 300 * load.prompt.high
    assert held == int(own.cache_tokens / (0.9 * 9216))
    # each of four chips sends a quarter, each of eight receives all, over a port of 50 GB/s
    assert own.token_transfer_s == pytest.approx(61 * 576 / 50e9)
    both = compared(row | {"tpot_ms": "7", "ttft_ms": "300"})
    assert both.tpot == pytest.approx(both.closed_tpot, abs=0.05)


def test_requests_that_memory_never_holds_are_refused_and_the_next_one_is_sent() -> None:
    lengths = [(10, 5), (600, 5), (10, 5), (10, 5)]
    outcome = simulated_apart(split(), engine("vllm"), fixed(lengths, 1, [0.0] * 4), 4)
    assert (outcome.refused, len(outcome.latency_s)) == (1, 3)
