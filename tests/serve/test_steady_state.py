"""The closed form beside the event level."""

from dataclasses import replace

import numpy as np
import pytest

from dse.serve.engine import engine
from dse.serve.load import Lengths, Load
from dse.serve.simulation import Limits, simulated
from dse.serve.steady_state import open_state, steady_state
from dse.serve.step_tables import StepTables, step_tables
from tests.serve.test_step_work import work

ENGINES = ("vllm", "sglang", "trtllm")


@pytest.fixture(scope="module")
def tables() -> StepTables:
    """Of Llama 3 70B on four H100."""
    return step_tables(work())


def both(tables: StepTables, name: str, clients: int, requests: int, prompt: int, output: int) -> tuple[float, ...]:
    """(TPOT, TTFT, tokens/s) by the closed form, then by events."""
    shortest = 0.8 if clients > 1 else 1.0  # equal requests stay in step: their prompts come together
    load = Load(Lengths(round(shortest * prompt), prompt), Lengths(round(shortest * output), output), clients)
    ones = np.ones(1)
    closed = steady_state(tables, engine(name), load, clients * ones, requests * ones, 8192 * ones)
    events = simulated(tables, engine(name), Limits(8192, requests, 1e9), load, 10 * clients)
    return (
        float(closed.tpot_s[0]), float(closed.ttft_s[0]), float(closed.tokens_per_s[0]),
        events.mean_tpot_s, events.mean_ttft_s, events.output_tokens_per_s,
    )  # fmt: skip


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("prompt", [200, 1000, 20000])
def test_one_request_at_a_time_takes_the_same_in_both(tables: StepTables, name: str, prompt: int) -> None:
    tpot, ttft, tokens_per_s, events_tpot, events_ttft, events_tokens = both(tables, name, 1, 8, prompt, 300)
    assert tpot == pytest.approx(events_tpot, rel=1e-2)
    assert ttft == pytest.approx(events_ttft, rel=1e-2)
    assert tokens_per_s == pytest.approx(events_tokens, rel=2e-2)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize(("clients", "prompt", "output"), [(16, 1000, 1000), (64, 1000, 500), (32, 8000, 1000)])
def test_a_full_batch_has_about_the_same_pace_in_both(
    tables: StepTables, name: str, clients: int, prompt: int, output: int
) -> None:
    tpot, ttft, tokens_per_s, events_tpot, events_ttft, events_tokens = both(tables, name, clients, 256, prompt, output)
    assert tpot == pytest.approx(events_tpot, rel=0.15)
    assert ttft == pytest.approx(events_ttft, rel=0.15)
    assert tokens_per_s == pytest.approx(events_tokens, rel=0.2)


def test_requests_that_find_no_room_wait(tables: StepTables) -> None:
    _, ttft, tokens_per_s, _, events_ttft, events_tokens = both(tables, "vllm", 64, 16, 1000, 500)
    assert ttft == pytest.approx(events_ttft, rel=0.25)
    assert tokens_per_s == pytest.approx(events_tokens, rel=0.2)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("share", [0.02, 0.6])
@pytest.mark.parametrize(("prompt", "output"), [(1000, 300), (8000, 500)])
def test_poisson_arrivals_wait_about_as_long_in_both(
    tables: StepTables, name: str, share: float, prompt: int, output: int
) -> None:
    ones = np.ones(1)
    load = Load(Lengths(prompt // 2, prompt), Lengths(output // 2, output))
    _, capacity = open_state(tables, engine(name), load, 1e-9 * ones, 256 * ones, 16384 * ones)
    load = replace(load, rate_per_s=share * float(capacity[0]))
    closed, _ = open_state(tables, engine(name), load, load.rate_per_s * ones, 256 * ones, 16384 * ones)
    events = simulated(tables, engine(name), Limits(16384, 256, 1e9), load, 2000)
    assert float(closed.ttft_s[0]) == pytest.approx(events.mean_ttft_s, rel=0.2)


def test_prompts_that_are_taken_in_one_after_another_bound_the_rate(tables: StepTables) -> None:
    ones, load = np.ones(1), Load(Lengths(1000, 1000), Lengths(50, 50))
    slow = engine("vllm").constants.model_copy(update={"token_s": 1e-3})
    own = engine("vllm").model_copy(update={"constants": slow})
    state, capacity = open_state(tables, own, load, 0.9 * ones, 64 * ones, 8192 * ones)
    _, shared = open_state(tables, own, load, 0.9 * ones, 64 * ones, 8192 * ones, sharers=4)
    assert (capacity[0], shared[0]) == pytest.approx((1.0, 0.25))
    # In an M/D/1 queue of service 1 s at 0.9 of its capacity, the mean wait is 4.5 s.
    assert state.ttft_s[0] == pytest.approx(1 + 4.5, abs=0.3)
    events = simulated(tables, own, Limits(8192, 64, 1e9), replace(load, rate_per_s=0.5), 2000)
    assert events.mean_ttft_s == pytest.approx(1 + 0.5 + 0.05, abs=0.15)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize(("clients", "output"), [(4, 1), (32, 1), (32, 2)])
def test_no_batch_computes_more_prompts_than_work_conservation_lets_it(
    tables: StepTables, name: str, clients: int, output: int
) -> None:
    load, ones = Load(Lengths(800, 1000), Lengths(output, output), clients), np.ones(1)
    closed = steady_state(tables, engine(name), load, clients * ones, 64 * ones, 8192 * ones)
    events = simulated(tables, engine(name), Limits(8192, 64, 1e9), load, 20 * clients)
    assert float(closed.tokens_per_s[0]) <= events.output_tokens_per_s * 1.1
    assert float(closed.tokens_per_s[0]) >= events.output_tokens_per_s * 0.55
