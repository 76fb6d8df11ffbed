"""The best configuration against brute force, and laws of the closed form and of events."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.serve.answer import solve
from dse.serve.check import costs, violations
from dse.serve.load import Lengths
from dse.serve.problem import Goals
from dse.serve.repricing import repriced
from dse.serve.search import search
from tests.serve.small import assert_best_of_brute_force, every_plan, fixed, problem

CASES: dict[str, dict[str, Any]] = {
    "closed loop": {},
    "tight TPOT": {"tpot": 0.008},
    "more requests than memory holds": {"concurrency": 300, "prompt": "3000", "ttft": 30.0},
    "Poisson arrivals": {"rate": 3.0, "tpot": 0.012},
    "fewest devices": {"rate": 14.0, "ttft": 0.3, "minimum_devices": True, "accelerators": 3},
    "experts": {"model": "qwen3-30b-a3b", "accelerators": 4, "engine": "sglang", "precision": "fp8_block"},
    "prompts that are not cut": {"model": "qwen3-32b", "engine": "trtllm", "prompt": "33000", "concurrency": 4},
    "shared prefix": {"concurrency": 3, "prompt": "500-700", "prefix": 400, "hit_rate": 0.5, "engine": "vllm,sglang"},
    "stages": {"model": "llama3-70b", "prompt": "2000", "precision": "fp8"},
    "nothing fits": {"model": "llama3-70b"},
    "nothing keeps the limits": {"tpot": 1e-4},
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_best_is_that_of_brute_force(case: dict[str, Any]) -> None:
    assert_best_of_brute_force(problem(**case))


def test_arrays_and_the_checker_price_every_configuration_alike() -> None:
    cases: list[dict[str, Any]] = [
        {"accelerators": 4, "model": "gpt-oss-120b", "concurrency": 7}, {"rate": 2.0, "prompt": "100-900"}
    ]  # fmt: skip
    for case in cases:
        searched = search(problem(**case))
        for part in searched.parts:
            for row in range(0, len(part.grid), 7):
                grid = part.grid
                plan = part.cell.plan(int(grid.replicas[row]), int(grid.batch[row]), int(grid.chunk[row]))
                own = costs(searched.problem, plan)
                assert own.fits == bool(part.room.fits[row])
                if own.fits:
                    assert part.ttft_s[row] == pytest.approx(own.ttft_s, rel=1e-9)
                    assert part.tpot_s[row] == pytest.approx(own.tpot_s, rel=1e-9)
                    assert part.tokens_per_s[row] == pytest.approx(own.tokens_per_s, rel=1e-9)
                    assert sum(own.time_s.values()) == pytest.approx(own.latency_s) or own.latency_s == np.inf
                assert sum(own.memory_bytes.values()) == pytest.approx(searched.problem.system.chip.hbm_bytes)


@settings(max_examples=12, deadline=None)
@given(
    prompt=st.integers(10, 6000), output=st.integers(2, 600), clients=st.integers(1, 200), limit=st.floats(0.004, 0.1)
)
def test_more_accelerators_are_never_worse(prompt: int, output: int, clients: int, limit: float) -> None:
    values = []
    for devices in (1, 2, 4):
        own = problem(prompt=f"{prompt}", output=f"{output}", concurrency=clients, tpot=limit, accelerators=devices)
        best = search(own).best(own.goals)
        values.append(0.0 if best is None else best.tokens_per_s_per_accelerator)
    assert values == sorted(values)


@settings(max_examples=12, deadline=None)
@given(tpot=st.floats(0.004, 0.05), ttft=st.floats(0.02, 3.0))
def test_a_limit_never_helps(tpot: float, ttft: float) -> None:
    searched = search(problem(prompt="2000", concurrency=48))
    free = searched.best(Goals())
    assert free is not None
    for goals in (Goals(tpot_s=tpot), Goals(ttft_s=ttft), Goals(ttft, tpot)):
        kept = searched.best(goals)
        assert kept is None or kept.tokens_per_s_per_accelerator <= free.tokens_per_s_per_accelerator * (1 + 1e-12)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm"])
def test_one_request_at_a_time_is_the_same_by_events(engine: str) -> None:
    own = problem(concurrency=1, engine=engine, prompt="900", output="300", accelerators=2)
    best = search(own).best(own.goals)
    assert best is not None
    events = repriced(own, best.plan, 0)
    assert events.outcome.mean_tpot_s == pytest.approx(best.tpot_s, rel=1e-2)
    assert events.tokens_per_s == pytest.approx(best.tokens_per_s, rel=3e-2)


def test_more_requests_a_second_need_no_fewer_devices() -> None:
    devices = []
    for rate in (1.0, 8.0, 20.0, 60.0):
        own = problem(rate=rate, tpot=0.02, minimum_devices=True, accelerators=16)
        best = search(own).best(own.goals)
        assert best is not None
        devices.append(best.plan.accelerators)
        assert best.rate_per_s > rate
    assert devices == sorted(devices)


def test_what_is_fixed_is_kept() -> None:
    own = fixed(problem(accelerators=4), tensor=2, batch=24, kv_precision="bf16")
    searched = search(own)
    assert searched.vocabulary
    best = searched.best(own.goals)
    assert best is not None
    assert (best.plan.tensor, best.plan.batch, best.plan.kv_precision) == (2, 24, "bf16")
    assert violations(own, best.plan, best.value(own.fewest)) == []


def test_a_prefix_in_memory_makes_room_and_saves_work() -> None:
    plain, shared = problem(prompt="3000"), problem(prompt="3000", prefix=2000, hit_rate=0.9)
    one, other = (search(each).best(Goals()) for each in (plain, shared))
    assert one is not None
    assert other is not None
    assert other.tokens_per_s_per_accelerator > 1.2 * one.tokens_per_s_per_accelerator
    assert costs(shared, one.plan).held > costs(plain, one.plan).held


def test_lengths_of_a_range_have_their_mean() -> None:
    own = problem(prompt="500-700")
    assert own.load.prompt == Lengths(500, 700)
    assert own.load.prompt.mean == 600


def test_a_percentile_may_keep_a_limit_that_no_mean_keeps() -> None:
    asked: dict[str, Any] = {"prompt": "3000", "concurrency": 48, "accelerators": 1, "ttft": 0.2}
    own = problem(**asked, statistic="p50")
    answer = solve(own)
    assert answer.matching.best(own.goals) is None
    assert answer.best is not None
    assert answer.bound is not None
    assert repriced(own, answer.best.plan, 0).keeps(own.goals)
    assert answer.bound.value(fewest=False) >= answer.best.value(fewest=False) > 0
    assert violations(own, answer.best.plan, answer.best.value(fewest=False)) == []
    assert solve(problem(**asked)).best is None


def test_the_bound_of_percentiles_holds_for_configurations_whose_means_exceed_them() -> None:
    own = problem(prompt="3000", concurrency=48, accelerators=1, ttft=0.25, statistic="p90")
    answer = solve(own)
    bound = answer.bound
    assert bound is not None
    for each in answer.matching.ranked(Goals(), 40, near=np.inf):
        if repriced(own, each.plan, 0).keeps(own.goals):
            assert each.value(fewest=False) <= bound.value(fewest=False)


@pytest.mark.parametrize("more", [{}, {"tpot": 0.012}, {"model": "qwen3-30b-a3b", "concurrency": 9}])
def test_the_most_output_of_a_machine_is_that_of_brute_force(more: dict[str, Any]) -> None:
    own = problem(**{"accelerators": 4, "concurrency": 16} | more)
    most = search(own, of_machine=True).best(own.goals)
    assert most is not None
    outputs = []
    for plan in every_plan(own):
        price = costs(own, plan)
        if price.fits and (own.goals.tpot_s is None or price.tpot_s <= own.goals.tpot_s):
            outputs.append(price.tokens_per_s)
    assert most.tokens_per_s == pytest.approx(max(outputs), rel=1e-9)


def test_the_fewest_accelerators_keep_a_percentile_by_events() -> None:
    asked: dict[str, Any] = {"prompt": "500-3000", "rate": 14.0, "minimum_devices": True, "accelerators": 8}
    by_means, own = (solve(problem(**asked, ttft=0.25, statistic=name)) for name in ("mean", "p99"))
    assert by_means.best is not None
    assert own.best is not None
    assert own.bound is not None
    goals = own.matching.problem.goals
    assert not repriced(own.matching.problem, by_means.best.plan, 0).keeps(goals)
    assert repriced(own.matching.problem, own.best.plan, 0).keeps(goals)
    assert own.best.plan.accelerators >= own.bound.plan.accelerators
