"""Memory of serving, counted by hand."""

import pytest

from dse.plan.model_sources import transformer
from dse.serve.checkpoints import checkpoint
from dse.serve.memory import cache_bytes, weight_bytes
from dse.serve.shape import Formats, Shape

BF16, FP8 = Formats("bf16", 2.0), Formats("fp8", 1.0)


def test_a_token_of_llama_has_two_vectors_for_each_head_of_keys_in_each_layer() -> None:
    llama = transformer("llama3-70b")
    assert cache_bytes(llama, Shape(), BF16, 1) == 2 * 80 * 8 * 128 * 2
    assert cache_bytes(llama, Shape(tensor=8), FP8, 1000) == 1000 * 2 * 80 * 128


def test_heads_of_keys_are_copied_where_there_are_more_chips() -> None:
    qwen = transformer("qwen3-235b-a22b")
    assert cache_bytes(qwen, Shape(tensor=8), FP8, 1) == cache_bytes(qwen, Shape(tensor=4), FP8, 1) == 2 * 94 * 128


def test_a_chip_has_the_heads_of_keys_that_are_left_over() -> None:
    llama = transformer("llama3-70b")
    assert cache_bytes(llama, Shape(tensor=3), BF16, 1) == 2 * 80 * 3 * 128 * 2


def test_every_chip_that_shares_latent_attention_keeps_all_of_it() -> None:
    deepseek = transformer("deepseek-v3")
    assert cache_bytes(deepseek, Shape(tensor=8), FP8, 1) == cache_bytes(deepseek, Shape(), FP8, 1) == 61 * (512 + 64)


def test_layers_with_a_window_keep_no_more_than_it() -> None:
    oss = transformer("gpt-oss-120b")
    a_token = 2 * 8 * 64 * 1
    assert cache_bytes(oss, Shape(), Formats("mxfp4", 1.0), 1000) == 18 * a_token * 1000 + 18 * a_token * 128


def test_states_take_the_same_for_any_context() -> None:
    qwen = transformer("qwen3.5-397b-a17b")
    a_token = 15 * 2 * 2 * 256
    states = 45 * (64 * 128 * 128 * 4 + 3 * (64 + 2 * 16) * 128 * 2)
    assert cache_bytes(qwen, Shape(), FP8, 1000) == 1000 * a_token + states
    assert cache_bytes(qwen, Shape(tensor=4), FP8, 1000) == 1000 * a_token / 2 + states / 4


def test_an_indexer_keeps_a_key_a_token_with_a_scale() -> None:
    glm = transformer("glm-5")
    assert cache_bytes(glm, Shape(tensor=8), FP8, 1000) == 1000 * 78 * (512 + 4 * 4 + 64 * 2 + 128 + 4)
    assert cache_bytes(glm, Shape(tensor=8), BF16, 1000) == 1000 * 78 * (2 * 576 + 128 + 4)


@pytest.mark.parametrize(("name", "formats"), [("llama3-70b", BF16), ("qwen3-235b-a22b", BF16), ("deepseek-v3", BF16),
                                                ("glm-5", BF16), ("qwen3.5-397b-a17b", BF16)])  # fmt: skip
def test_weights_in_16_bits_take_two_bytes_a_parameter(name: str, formats: Formats) -> None:
    model = transformer(name)
    assert weight_bytes(model, Shape(), formats) == pytest.approx(2 * model.parameters, rel=2e-3)


def test_weights_of_four_bits_are_those_of_the_checkpoint() -> None:
    # gpt-oss-120b: 60.8 GiB of checkpoint (model card, table 1), its experts in 4.25 bits
    own = weight_bytes(transformer("gpt-oss-120b"), Shape(), Formats("mxfp4", 1.0))
    assert own == pytest.approx(60.8 * 2**30, rel=0.02)


def test_weights_of_int4_have_a_scale_and_a_zero_for_128() -> None:
    llama = transformer("llama3-70b")
    ends = 2 * 2 * llama.vocabulary * llama.hidden
    wide = weight_bytes(llama, Shape(), BF16) - ends
    narrow = weight_bytes(llama, Shape(), Formats("int4", 2.0)) - ends
    assert narrow / wide == pytest.approx((4 + 20 / 128) / 16)


def test_chips_share_weights_but_what_compresses_and_routers() -> None:
    deepseek, one = transformer("deepseek-v3"), Formats("fp8_block", 1.0)
    whole = weight_bytes(deepseek, Shape(), one)
    cut = weight_bytes(deepseek, Shape(tensor=8, expert=2, expert_tensor=4), one)
    copied = 61 * 7168 * (1536 + 512 + 64) + 58 * 2 * 7168 * 256
    assert cut == pytest.approx((whole - copied) / 8 + copied, rel=1e-9)


def test_chips_have_copies_of_few_heads_of_keys() -> None:
    qwen = transformer("qwen3-235b-a22b")
    ends = 2 * 2 * qwen.vocabulary * qwen.hidden
    four, eight = (weight_bytes(qwen, Shape(n, 1, n, 1), BF16) - ends / n for n in (4, 8))
    router, keys = 2 * 94 * 4096 * 128, 2 * 94 * 4096 * 2 * 128
    assert eight == pytest.approx((four - router - keys) / 2 + router + keys, rel=1e-9)


def test_a_gated_convolution_keeps_no_state() -> None:
    qwen = transformer("qwen3.5-397b-a17b")
    assert qwen.recurrence is not None
    convolved = qwen.recurrence.model_copy(update={"kind": "gated_convolution", "key_heads": 0, "kernel": 3})
    model = qwen.model_copy(update={"recurrence": convolved})
    assert cache_bytes(model, Shape(), FP8, 1000) == 1000 * 15 * 2 * 2 * 256 + 45 * 2 * convolved.width * 2


def test_models_that_are_served_have_the_checkpoint_that_was_published() -> None:
    """DeepSeek's come in 8 bits with scales by block; with 16, twice the accelerators would be needed."""
    for name, weights, context in (
        ("deepseek-v3.2", "fp8_block", 163_840), ("deepseek-r1", "fp8_block", 163_840), ("glm-5", "bf16", 202_752),
        ("qwen3.5-397b-a17b", "bf16", 262_144), ("longcat-flash", "bf16", 131_072),
    ):  # fmt: skip
        own = checkpoint(transformer(name), name)
        assert (own.weights, own.context) == (weights, context)
