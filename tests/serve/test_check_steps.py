"""The checker's own sums of kernels against the search's tables, and answers of a search that counts wrongly."""

from typing import Any

import numpy as np
import pytest

from dse.plan.model import Transformer
from dse.plan.model_sources import transformer
from dse.results.result import FailedCheckError
from dse.serve import closed_form, step_tables
from dse.serve.answer import checked, solve
from dse.serve.check import costs
from dse.serve.check_kernels import Kernels
from dse.serve.check_steps import BATCHES, CONTEXTS, PROMPTS, TOKENS, LayerSums, Parts
from dse.serve.memory import cache_bytes, end_bytes, weight_bytes
from dse.serve.search import search
from dse.serve.serving_plan import ServingPlan
from dse.serve.shape import Formats, Shape, WeightFormat
from dse.serve.step_tables import step_tables as tables_of
from dse.serve.step_work import StepWork
from hardware.kernel_model import kernel_model
from tests.serve.small import fixed, problem

RECURRENCES: dict[str, dict[str, Any]] = {
    "kda": {"rank": 128},
    "mamba": {"rank": 128, "head_width": 1, "heads": 8192, "state_width": 16, "key_heads": 0},
    "rg_lru": {},
    "gated_convolution": {"key_heads": 0},
    "lightning": {},
}


def model_of(name: str) -> Transformer:
    """A built-in model, or Qwen3.5 with states of another kind."""
    if name not in RECURRENCES:
        return transformer(name)
    qwen = transformer("qwen3.5-397b-a17b")
    assert qwen.recurrence is not None
    other = qwen.recurrence.model_copy(update={"kind": name} | RECURRENCES[name])
    return qwen.model_copy(update={"recurrence": other})


CASES: list[tuple[str, WeightFormat, Shape]] = [
    ("llama3-70b", "fp8", Shape(4)),
    ("llama3-8b", "int4", Shape()),
    ("gpt-oss-120b", "mxfp4", Shape(2, 1, 1, 2)),
    ("qwen3-235b-a22b", "bf16", Shape(2, 4, 2, 4)),
    ("deepseek-v3", "fp8_block", Shape(1, 32, 32, 1)),
    ("deepseek-v3.2", "nvfp4", Shape(8, 1, 8, 1)),
    ("qwen3.5-397b-a17b", "nvfp4", Shape(4, 1, 4, 1)),
    ("longcat-flash", "bf16", Shape(4, 2, 8, 1)),
    *((name, "bf16", Shape(4, 2, 4, 2)) for name in RECURRENCES),
]  # fmt: skip


ON_CHIPS = [
    pytest.param(name, weights, shape, chip, id=f"{name} {weights} on {chip}")
    for name, weights, shape in CASES
    for chip in ("b200", "mi300x")
    if (chip, weights) != ("mi300x", "nvfp4")  # has no products in four bits
]


@pytest.mark.parametrize(("name", "weights", "shape", "chip"), ON_CHIPS)
def test_two_sums_of_the_same_layers_agree(name: str, weights: WeightFormat, shape: Shape, chip: str) -> None:
    model, formats, kernels = model_of(name), Formats(weights, 1.0), kernel_model(chip)
    tables = tables_of(StepWork(model, shape, formats, kernels))
    cut = shape.tensor, shape.attention_data, shape.expert, shape.expert_tensor
    parts = Parts(LayerSums(model, cut, formats, Kernels(kernels)))
    for place in range(0, len(TOKENS), 11):
        tokens = TOKENS[place]
        assert parts.linear_s(tokens) == pytest.approx(tables.linear_s[place], rel=1e-9)
        assert parts.head_s(tokens) == pytest.approx(tables.head_s[place], rel=1e-9)
        assert parts.exchange_s(tokens) == pytest.approx(tables.exchange_s[place], rel=1e-9)
    for row, column in ((0, 0), (20, 9), (len(BATCHES) - 1, 20)):
        expected = tables.decode_s[row, column]
        assert parts.decode_s(BATCHES[row], CONTEXTS[column]) == pytest.approx(expected, rel=1e-9)
    for place in range(0, len(PROMPTS), 9):
        assert parts.prefill_s(PROMPTS[place]) == pytest.approx(tables.prefill_s[place], rel=1e-9)
    starts = parts.product_starts_s, parts.decode_start_s, parts.prefill_start_s
    assert starts == pytest.approx((tables.starts.linear_s, tables.starts.decode_s, tables.starts.prefill_s))
    assert parts.sums.weight_bytes + end_bytes(model, shape) == pytest.approx(weight_bytes(model, shape, formats))
    for tokens in (1, 100, 30_000):
        assert parts.sums.cache_bytes(tokens) == pytest.approx(cache_bytes(model, shape, formats, tokens))


def test_points_are_those_of_the_tables() -> None:
    points = (TOKENS, BATCHES, CONTEXTS, PROMPTS)
    names = ("TOKENS", "BATCHES", "CONTEXTS", "PROMPTS")
    for own, name in zip(points, names, strict=True):
        assert own == getattr(step_tables, name).tolist()


@pytest.mark.parametrize(("model", "more"), [("llama3-8b", {}), ("deepseek-v3.2", {"on": "b200", "accelerators": 8})])
def test_no_step_is_faster_than_its_bytes_and_operations_at_the_peaks(model: str, more: dict[str, Any]) -> None:
    """Facts of serving, section 2: weights are read once, each sequence's keys and values once."""
    own = problem(model, engine="sglang", concurrency=256, **more)
    chip, checked_plans = own.system.chip, 0
    for each in search(own).ranked(own.goals, 60, near=np.inf):
        plan = each.plan
        if not isinstance(plan, ServingPlan) or plan.pipeline > 1:
            continue
        price = costs(own, plan)
        ends = own.model.vocabulary * own.model.hidden * 2.0 / plan.tensor
        dense = price.memory_bytes["weights"] - 2 * ends
        if own.model.experts is not None:
            size = {"fp8_block": 1.0}[plan.precision]
            routed = own.model.experts.routed * 3 * own.model.hidden * own.model.experts.width * size
            dense -= (own.model.layers - own.model.dense_layers) * routed / (plan.expert * plan.expert_tensor)
        least = dense / chip.hbm_bytes_per_s
        assert price.tpot_s > least > 0
        checked_plans += 1
    assert checked_plans > 5


def _scaled(factor: float, name: str) -> Any:
    original = getattr(StepWork, name)
    return lambda self, *sizes: original(self, *sizes) * factor


WRONG: dict[str, tuple[Any, str, Any]] = {
    "no output matrix": (StepWork, "head_s", lambda self, tokens: np.zeros(len(tokens))),
    "one reduction a layer": (StepWork, "exchange_s", _scaled(0.5, "exchange_s")),
    "attention of half the layers": (StepWork, "decode_s", _scaled(0.5, "decode_s")),
    "prompts a thousandth too fast": (StepWork, "prefill_s", _scaled(0.999, "prefill_s")),
    "no norms": (StepWork, "_norms_s", lambda self, tokens: np.zeros(len(tokens))),
    "weights of half the size": (closed_form, "weight_bytes", lambda *sizes: 0.5 * weight_bytes(*sizes)),
    "keys without values": (closed_form, "cache_bytes", lambda *sizes: 0.5 * cache_bytes(*sizes)),
    "an activation left out": (closed_form, "activation_bytes", lambda model, shape, tokens, _: 0.0 * tokens),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_an_answer_of_a_search_that_counts_wrongly_is_refused(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    own = problem("qwen3-30b-a3b", accelerators=2, concurrency=1000, prompt="6000", output="600", engine="sglang")
    checked(own, solve(own))
    monkeypatch.setattr(*WRONG[wrong])
    again = problem("qwen3-30b-a3b", accelerators=2, concurrency=1000, prompt="6000", output="600", engine="sglang")
    with pytest.raises(FailedCheckError):
        checked(again, solve(again))


BEYOND: dict[str, dict[str, Any]] = {
    "more requests than the largest batch": {"concurrency": 20_000, "prompt": "20", "output": "20"},
    "a prompt of more tokens than any step": {
        "model": "qwen3.5-397b-a17b", "on": "b200", "engine": "trtllm", "prompt": "200000", "concurrency": 2,
        "precision": "fp8_block", "accelerators": 8,
    },
}  # fmt: skip


@pytest.mark.parametrize("case", BEYOND.values(), ids=BEYOND)
def test_sizes_beyond_the_tables_cost_as_much_for_both(case: dict[str, Any]) -> None:
    own = problem(**case)
    if case["concurrency"] > BATCHES[-1]:
        own = fixed(own, batch=2 * BATCHES[-1], chunk=16_384)
    answer = solve(own)
    checked(own, answer)
    assert answer.best is not None
    assert isinstance(answer.best.plan, ServingPlan)
    assert answer.best.plan.chunk > 8192
