"""Laws that no answer of serving may break."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dse.serve.closed_form import tables_of
from dse.serve.engine import Engine
from dse.serve.load import Lengths, Load
from dse.serve.problem import ServeProblem
from dse.serve.repricing import cell_of
from dse.serve.search import search
from dse.serve.simulation import Limits, Outcome, simulated
from dse.serve.step_tables import StepTables
from tests.serve.small import problem


def with_faster_memory(own: ServeProblem, factor: float) -> ServeProblem:
    """The same chip with so many times its memory bandwidth, its kernels at the same shares of it."""
    kernels = own.kernels
    chip = replace(kernels.chip, hbm_bytes_per_s=factor * kernels.chip.hbm_bytes_per_s)
    assert kernels.times is not None
    faster = replace(kernels, chip=chip, times=replace(kernels.times, chip=chip))
    return replace(own, kernels=faster, system=replace(own.system, chip=chip))


@pytest.mark.parametrize("load", [{"concurrency": 48}, {"concurrency": 3}, {"rate": 4.0, "tpot": 0.05}])
def test_more_bandwidth_is_never_slower(load: dict[str, Any]) -> None:
    reached = []
    for factor in (1.0, 1.3, 2.0):
        own = with_faster_memory(problem(prompt="1500", **load), factor)
        best = search(own).best(own.goals)
        assert best is not None
        reached.append(best.rate_per_s if own.is_open else best.tokens_per_s_per_accelerator)
    assert reached == sorted(reached)


def test_more_memory_is_never_worse() -> None:
    reached = []
    for gib in (80, 120, 200):
        own = problem("qwen3-32b", concurrency=150, prompt="4000", accelerators=2)
        chip = replace(own.system.chip, hbm_bytes=gib << 30)
        own = replace(own, system=replace(own.system, chip=chip))
        best = search(own).best(own.goals)
        assert best is not None
        reached.append(best.tokens_per_s_per_accelerator)
    assert reached == sorted(reached)


def halved(tables: StepTables, engine: Engine) -> tuple[StepTables, Engine]:
    """Everything that takes time takes half of it."""
    names = ("linear_s", "exchange_s", "head_s", "decode_s", "prefill_s")
    starts = tables.starts
    half = replace(starts, **{name: getattr(starts, name) / 2 for name in ("linear_s", "decode_s", "prefill_s")})
    faster = replace(tables, starts=half, **{name: getattr(tables, name) / 2 for name in names})
    own = engine.constants
    update = {name: getattr(own, name) / 2 for name in ("host_s", "layer_s", "launch_s", "request_s", "token_s")}
    return faster, engine.model_copy(update={"constants": own.model_copy(update=update)})


@pytest.mark.parametrize("name", ["vllm", "sglang", "trtllm"])
def test_twice_the_arrivals_at_twice_the_speed_take_half_the_time(name: str) -> None:
    own = problem(engine=name, accelerators=1)
    best = search(own).best(own.goals)
    assert best is not None
    cell = cell_of(own, best.plan)
    tables = tables_of(own, cell)

    def seen(rate: float, made: tuple[StepTables, Engine]) -> Outcome:
        load = Load(Lengths(300, 900), Lengths(20, 200), rate_per_s=rate)
        return simulated(*made, Limits(8192, 64, 40_000), load, 300, seed=5)

    slow, fast = seen(8.0, (tables, cell.engine)), seen(16.0, halved(tables, cell.engine))
    assert (slow.steps, slow.preemptions) == (fast.steps, fast.preemptions)
    np.testing.assert_allclose(fast.ttft_s, slow.ttft_s / 2, rtol=1e-9)
    np.testing.assert_allclose(fast.latency_s, slow.latency_s / 2, rtol=1e-9)


@pytest.mark.parametrize("name", ["vllm", "sglang", "trtllm"])
def test_requests_and_tokens_are_conserved(name: str) -> None:
    own = problem(engine=name, accelerators=1)
    best = search(own).best(own.goals)
    assert best is not None
    cell = cell_of(own, best.plan)
    load = Load(Lengths(300, 900), Lengths(20, 200), concurrency=40)
    outcome = simulated(tables_of(own, cell), cell.engine, Limits(4096, 32, 9_000), load, 200, seed=2)
    _, outputs, _ = load.drawn(200, 2)
    assert outcome.refused == 0
    assert len(outcome.latency_s) == 200
    assert outcome.output_tokens == outputs.sum()
    # Little's law: requests in flight are the rate times the mean latency, but for the end, when none follow.
    assert 200 / outcome.seconds * outcome.latency_s.mean() == pytest.approx(40, rel=0.15)
