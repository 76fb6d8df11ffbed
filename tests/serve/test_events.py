"""The event level against a scheduler of plain objects, and laws that any schedule keeps."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.serve.engine import Constants, Engine, engine
from dse.serve.events import COMPOSITIONS
from dse.serve.load import Integers, Lengths, Load
from dse.serve.simulation import Limits, Outcome, simulated
from dse.serve.step_tables import BATCHES, CONTEXTS, PROMPTS, TOKENS, StepTables
from dse.serve.step_work import Starts
from hardware.kernel_times.form import Floats
from tests.serve.scheduler_oracle import Rules, served

ENGINES = ("vllm", "sglang", "trtllm")

TOKEN_S, OUT_S, CONTEXT_S, START_S = 1e-5, 2e-6, 3e-9, 2e-4
"""Of tables that are linear, so that any way to read them gives the same."""


def tables(pair_s: float = 1e-9) -> StepTables:
    """A linear cost of every part, and of prompts their square."""
    return StepTables(
        linear_s=TOKEN_S * TOKENS,
        exchange_s=0.0 * TOKENS,
        head_s=OUT_S * TOKENS,
        decode_s=CONTEXT_S * BATCHES[:, None] * CONTEXTS[None, :],
        prefill_s=pair_s * PROMPTS,
        starts=Starts(0.0, 0.0, START_S),
        layers=1.0,
    )


def with_constants(name: str, **constants: float) -> Engine:
    """An engine whose constants are these, and otherwise do nothing."""
    return engine(name).model_copy(update={"constants": Constants(**constants, source="of the test")})


class _Fixed(Load):
    """Lengths and arrivals that are given."""

    lengths: list[tuple[int, int]]
    arrivals: list[float]

    def drawn(self, requests: int, seed: int) -> tuple[Integers, Integers, Floats]:
        """As given."""
        del seed
        prompts, outputs = zip(*self.lengths[:requests], strict=True)
        return np.array(prompts), np.array(outputs), np.array(self.arrivals[:requests], dtype=float)


def fixed(lengths: list[tuple[int, int]], clients: int, arrivals: list[float]) -> Load:
    """A load of these requests."""
    load = _Fixed(Lengths(1, 1), Lengths(1, 1), clients)
    object.__setattr__(load, "lengths", lengths)
    object.__setattr__(load, "arrivals", arrivals)
    return load


def seconds(parts: Sequence[tuple[int, int]], contexts: Sequence[int], out: int) -> float:
    """What the tables charge for a step."""
    new = sum(part for _, part in parts) + len(contexts)
    told = TOKEN_S * max(new, 1) + (OUT_S * out if out else 0.0) + CONTEXT_S * sum(contexts) + 1e-3
    if parts:
        told += START_S + 1e-9 * sum(part for _, part in parts)
    return told


REQUESTS = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 25)), min_size=1, max_size=14)


@settings(max_examples=150)
@given(
    lengths=REQUESTS,
    gaps=st.lists(st.floats(0, 0.02), min_size=14, max_size=14),
    clients=st.integers(0, 6),
    name=st.sampled_from(ENGINES),
    step_tokens=st.integers(8, 80),
    requests=st.integers(1, 8),
    cache=st.integers(40, 300),
    receive_steps=st.sampled_from((1, 1, 2, 7)),
    waits=st.sampled_from(((0, 0.0), (0, 0.0), (3, 0.5), (20, 0.9))),
    sharers=st.sampled_from((1, 3)),
)
def test_every_request_has_the_times_of_a_scheduler_of_objects(
    lengths: list[tuple[int, int]],
    gaps: list[float],
    clients: int,
    name: str,
    step_tokens: int,
    requests: int,
    cache: int,
    receive_steps: int,
    waits: tuple[int, float],
    sharers: int,
) -> None:
    own = with_constants(name, host_s=1e-3, request_s=5e-3, token_s=1e-4)
    arrivals = np.cumsum(gaps)[: len(lengths)].tolist()
    requests = min(requests, step_tokens)
    limits = Limits(step_tokens, requests, cache, receive_steps, *waits, sharers)
    outcome = simulated(tables(), own, limits, fixed(lengths, clients, arrivals), len(lengths))
    rules = Rules(
        own.steps.value, step_tokens, requests, cache, own.reserves_output.value, 5e-3,
        receive_steps=receive_steps, wait_steps=waits[0], wait_tokens=waits[1] * step_tokens,
        token_s=1e-4, sharers=sharers,
    )  # fmt: skip
    expected = served(rules, seconds, lengths, clients, arrivals)
    times = [(each.sent, each.first, each.last) for each in expected]
    latency = [last - sent for sent, _, last in times if last is not None]
    ttft = [first - sent for sent, first, last in times if first is not None and last is not None]
    assert outcome.latency_s == pytest.approx(latency, rel=1e-9)
    assert outcome.ttft_s == pytest.approx(ttft, rel=1e-9)


def closed(name: str, clients: int, limits: Limits | None = None, lengths: Lengths | None = None) -> Outcome:
    """A closed loop."""
    load = Load(lengths or Lengths(200, 300), Lengths(50, 60), clients)
    return simulated(tables(), with_constants(name, host_s=1e-3), limits or Limits(512, 64, 1e6), load, 8 * clients)


@pytest.mark.parametrize("name", ENGINES)
def test_every_token_is_written_once_although_requests_lose_their_memory(name: str) -> None:
    ample, tight = closed(name, 16), closed(name, 16, Limits(512, 64, 2000))
    assert tight.output_tokens == ample.output_tokens
    assert (tight.preemptions > 0) == (name != "trtllm")
    assert tight.seconds > ample.seconds


@pytest.mark.parametrize("name", ENGINES)
def test_doubled_arrivals_at_doubled_speed_halve_every_time(name: str) -> None:
    load = Load(Lengths(100, 200), Lengths(20, 40), rate_per_s=30.0)
    own = with_constants(name, host_s=1e-3, request_s=2e-3)
    slow = simulated(tables(), own, Limits(512, 16, 1e5), load, 200, seed=3)
    fast_engine = with_constants(name, host_s=5e-4, request_s=1e-3)
    whole = tables()
    halved = replace(
        whole,
        linear_s=whole.linear_s / 2,
        head_s=whole.head_s / 2,
        decode_s=whole.decode_s / 2,
        prefill_s=whole.prefill_s / 2,
        starts=Starts(0.0, 0.0, START_S / 2),
    )
    fast = simulated(halved, fast_engine, Limits(512, 16, 1e5), replace(load, rate_per_s=60.0), 200, seed=3)
    assert fast.latency_s == pytest.approx(slow.latency_s / 2, rel=1e-9)


@pytest.mark.parametrize("name", ENGINES)
def test_faster_memory_is_never_slower_for_one_client(name: str) -> None:
    slow = closed(name, 1)
    load = Load(Lengths(200, 300), Lengths(50, 60), 1)
    quicker = replace(tables(), decode_s=tables().decode_s / 3)
    fast = simulated(quicker, with_constants(name, host_s=1e-3), Limits(512, 64, 1e6), load, 8)
    assert (fast.latency_s < slow.latency_s).all()


def test_requests_that_memory_never_holds_are_counted_and_the_others_answered() -> None:
    lengths = [(10, 5), (5000, 5), (10, 5)]
    outcome = simulated(tables(), engine("trtllm"), Limits(8192, 4, 1000), fixed(lengths, 0, [0.0] * 3), 3)
    assert outcome.refused == 1
    assert len(outcome.latency_s) == 2


@pytest.mark.parametrize("name", ENGINES)
def test_a_request_that_outgrows_memory_is_refused_and_its_client_sends_the_next(name: str) -> None:
    lengths = [(600, 600), (10, 5), (600, 600), (10, 5), (10, 5)]
    outcome = simulated(tables(), engine(name), Limits(8192, 4, 1000), fixed(lengths, 1, [0.0] * 5), 5)
    assert outcome.refused == 2
    assert len(outcome.latency_s) == 3


def test_compositions_are_those_that_engines_name() -> None:
    assert {engine(name).steps.value for name in ENGINES} == set(COMPOSITIONS)
