"""Parts of a step against kernels that are listed one by one."""

from collections.abc import Mapping

import numpy as np
import pytest

from dse.plan.model_sources import transformer
from dse.serve.shape import Formats, Shape, WeightFormat
from dse.serve.step_tables import CONTEXTS, PROMPTS, TOKENS, step_tables
from dse.serve.step_work import StepWork
from hardware.kernel_model import KernelModel, kernel_model
from hardware.kernel_times.fitted import KernelKind

ENDING = {"dense": " fp8", "head": " bfloat16", "decode": " bfloat16 fp8"}


def work(
    model: str = "llama3-70b", chip: str = "h100-sxm", shape: Shape | None = None, weights: WeightFormat = "fp8"
) -> StepWork:
    """Of a model with keys and values in 8 bits."""
    formats = Formats(weights, 1.0)
    return StepWork(transformer(model), shape or Shape(tensor=4), formats, kernel_model(chip))


def starts(kernels: KernelModel, kind: KernelKind, ending: str) -> dict[str, float]:
    """Fixed times of the kernels of all engines for a format, but for those that no fit describes."""
    assert kernels.times is not None
    known = [each for each in kernels.times.kernels(kind) if each.variant.endswith(ending) and (each.error or 1) < 0.4]
    return {each.variant: each.constants.get("floor_s", 0.0) for each in known}


def kernel_s(
    kernels: KernelModel, kind: KernelKind, product_format: str, ending: str, shapes: Mapping[str, float]
) -> float:
    """The fastest of these kernels without its fixed time."""
    return min(
        float(kernels.seconds(kind, product_format, shapes, variant).seconds[0]) - start
        for variant, start in starts(kernels, kind, ending).items()
    )


@pytest.mark.parametrize("tokens", [1, 64, 3000])
def test_linear_layers_of_llama_are_four_products_and_norms(tokens: int) -> None:
    own = work()
    products = [(8192 // 4 + 2 * 2 * 128, 8192), (8192, 8192 // 4), (2 * 28672 // 4, 8192), (8192, 28672 // 4)]
    expected = 0.0
    for n, k in products:
        shapes = {"m": tokens, "n": n, "k": k, "element_bytes": 1.0}
        expected += 80 * kernel_s(own.kernels, "dense", "fp8", ENDING["dense"], shapes)
    norms = own.kernels.seconds("vector", "bf16", {"elements": 5.0 * tokens * 8192}).seconds[0]
    assert own.linear_s(np.array([float(tokens)]))[0] == pytest.approx(expected + 80 * norms, rel=1e-9)


_STARTS: tuple[tuple[KernelKind, str], ...] = (("dense", ENDING["head"]), ("decode", ENDING["decode"]))


def test_fixed_times_of_llama_are_those_of_four_products_of_16_bits() -> None:
    own = work()
    start, attention = (min(starts(own.kernels, *each).values()) for each in _STARTS)
    assert own.starts_s.linear_s == pytest.approx(80 * 4 * start)
    assert own.starts_s.decode_s == pytest.approx(80 * attention)


def test_half_of_gpt_oss_layers_read_their_window_alone() -> None:
    own = work("gpt-oss-120b", weights="mxfp4")
    sizes = {"samples": 8.0, "heads": 16.0, "key_heads": 2.0, "width": 64.0, "context": 9000.0, "cache_bytes": 1.0}
    expected = sum(
        18 * kernel_s(own.kernels, "decode", "bf16", ENDING["decode"], sizes | {"window": window})
        for window in (0.0, 128.0)
    )
    assert own.decode_s(np.array([8.0]), np.array([9000.0]))[0] == pytest.approx(expected, rel=1e-9)


def test_three_of_four_layers_of_qwen_read_and_write_their_states() -> None:
    own = work("qwen3.5-397b-a17b", "b200", Shape(tensor=4), "nvfp4")
    samples, context = np.array([32.0]), np.array([3000.0])
    passes = [(32 * 16 * 128 * 128, 4.0), (32 * 3 * 96 * 128 / 4, 2.0)]
    states = sum(
        own.kernels.seconds("vector", "bf16", {"elements": elements, "element_bytes": each}).seconds[0]
        for elements, each in passes
    )
    attention = own.attention_s(
        "decode", samples=samples, context=context, heads=8.0, key_heads=1.0, width=256.0, window=0.0, cache_bytes=1.0
    )
    assert own.decode_s(samples, context)[0] == pytest.approx(45 * states + 15 * attention[0], rel=1e-9)
    longer = own.decode_s(samples, 8 * context)[0]
    assert longer < 8 * own.decode_s(samples, context)[0] - 40 * states


def test_indexed_attention_reads_chosen_latents_and_scores_all_keys() -> None:
    glm = work("glm-5", "h200-sxm", Shape(tensor=8), "fp8_block")
    plain = StepWork(
        glm.model.model_copy(update={"indexer": None}), glm.shape, glm.formats, glm.kernels
    )  # fmt: skip
    samples, contexts = np.full(3, 16.0), np.array([1000.0, 2048.0, 16000.0])
    seen = plain.decode_s(samples, np.minimum(contexts, 2048.0))
    scores = glm.decode_s(samples, contexts) - seen
    assert (np.diff(scores) > 0).all()
    assert (scores > 0).all()
    # of scores: 32 heads of 128 elements a key, and each score read and written once
    assert scores[2] < 78 * (16 * 16000 * (132 + 2 * 4)) / 1e12 + 0.01
    assert glm.decode_s(samples, contexts)[2] < plain.decode_s(samples, contexts)[2]


def test_a_prompt_that_fits_a_choice_is_attended_to_whole() -> None:
    glm = work("glm-5", "h200-sxm", Shape(), "fp8_block")
    plain = StepWork(glm.model.model_copy(update={"indexer": None}), glm.shape, glm.formats, glm.kernels)
    lengths = np.array([500.0, 2048.0, 60000.0])
    own, whole = glm.prefill_s(lengths), plain.prefill_s(lengths)
    assert own[:2] == pytest.approx(whole[:2])
    assert own[2] > glm.prefill_s(lengths / 2)[2] * 1.9
    assert own[2] < whole[2]
    shared = work("glm-5", "h200-sxm", Shape(tensor=8), "fp8_block").prefill_s(lengths)
    assert shared[2] > own[2] / 2  # its kernel has 64 heads at once, of which a chip of eight has eight


def test_weights_of_four_bits_save_reading_and_no_work() -> None:
    few, many = np.array([1.0]), np.array([8192.0])
    wide, narrow = work(weights="bf16"), work(weights="int4")
    assert narrow.linear_s(few)[0] < 0.5 * wide.linear_s(few)[0]
    assert narrow.linear_s(many)[0] > 0.9 * wide.linear_s(many)[0]


def test_two_reductions_a_layer_where_attention_is_shared_and_none_where_it_is_not() -> None:
    own, tokens = work(), np.array([16.0])
    sizes = {"chips": 4.0, "bytes": 16 * 8192 * 2.0, "eager": 0.0}
    one = min(kernel_s(own.kernels, "all-reduce", "bf16", ending, sizes) for ending in ("_graph", "TRTLLM"))
    assert own.exchange_s(tokens)[0] == pytest.approx(2 * 80 * one, rel=1e-9)
    assert work(shape=Shape()).exchange_s(tokens)[0] == 0


def test_experts_on_many_servers_get_the_tokens_that_chose_them_alone() -> None:
    wide, tokens = work("deepseek-v3", "gb200", Shape(1, 32, 32, 1), "nvfp4"), np.array([64.0])
    size = 64 * wide.model.experts.reached(32) * 7168 * 2.0 if wide.model.experts else 0.0
    one = wide.kernels.seconds("nccl", "bf16", {"chips": 32, "bytes": size, "rounds": 1.0}, "2.29.2 alltoall")
    assert wide.exchange_s(tokens)[0] == pytest.approx(58 * 2 * one.seconds[0], rel=1e-9)
    assert size < 64 * 8 * 7168 * 2.0  # at most a copy for each chosen expert


def test_experts_are_read_once_any_token_chose_them() -> None:
    shape = Shape(tensor=1, attention_data=8, expert=8)
    own = work("deepseek-v3", "b200", shape, "nvfp4")
    few, many = own.linear_s(np.array([1.0, 512.0]))
    assert many < 8 * few  # of 512 · 8 tokens, all experts; of 8, a fifth


@pytest.mark.parametrize("model", [
    "llama3-70b", "deepseek-v3", "gpt-oss-120b", "qwen3-235b-a22b", "glm-5", "qwen3.5-397b-a17b"
])  # fmt: skip
@pytest.mark.parametrize("chip", ["h100-sxm", "b200", "mi300x"])
def test_tables_rise_with_what_they_count(model: str, chip: str) -> None:
    tables = step_tables(work(model, chip, weights="fp8_block"))
    assert (np.diff(tables.prefill_s) >= 0).all()
    assert (np.diff(tables.decode_s, axis=0) > -1e-12).all()
    assert (np.diff(tables.decode_s, axis=1) > -1e-12).all()
    assert tables.linear_s.shape == TOKENS.shape
    assert (tables.linear_s > 0).all()
    # Within a twentieth: a larger tile may be a little faster than what is below it.
    assert (np.maximum.accumulate(tables.linear_s) <= 1.05 * tables.linear_s).all()
    assert len(tables.prefill_s) == len(PROMPTS)
    assert tables.decode_s.shape[1] == len(CONTEXTS)
