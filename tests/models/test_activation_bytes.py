"""What the forward pass keeps, against the closed forms of Korthikanti et al. 2022 (section 4)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.models import build
from dse.models.recipe import TrainingRecipe
from dse.sources.workloads import model
from tests.models.strategies import hyperparameters

WITH_DROPOUT = ["bert-large", "gpt2-xl", "megatron-bert", "megatron-2.5b", "megatron-8.3b", "gpt3-175b"]


def block_of(graph):
    return next(layer for layer in graph.layers if layer.kind == "block")


def head_of(graph):
    return graph.layers[-1]


@pytest.mark.parametrize("name", WITH_DROPOUT)
@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("attention", ["batched", "per_head"])
@pytest.mark.parametrize("fuse", [False, True])
def test_block_keeps_what_equation_1_says(name, batch, attention, fuse):
    """s·b·h·(34 + 5·a·s/h) bytes, norms in front or behind."""
    m = model(name)
    s, h, a = m.sequence, m.hidden, m.heads
    graph = build(m, batch, 1, TrainingRecipe(attention=attention, fuse=fuse))
    assert block_of(graph).activation_bytes == 34 * s * batch * h + 5 * a * s * s * batch


@pytest.mark.parametrize("name", ["megatron-bert", "megatron-8.3b", "gpt3-175b"])
@pytest.mark.parametrize("width", [2, 4, 8])
def test_sliced_block_keeps_what_equation_2_says(name, width):
    """s·b·h·(10 + 24/t + 5·a·s/(h·t)) bytes."""
    m = model(name)
    s, h, a, batch = m.sequence, m.hidden, m.heads, 2
    expected = 10 * s * batch * h + 24 * s * batch * h // width + 5 * a * s * s * batch // width
    assert block_of(build(m, batch, width)).activation_bytes == expected


def test_head_keeps_norm_input_projection_input_and_32_bit_logits():
    """4·s·b·h·(1 + V/(h·t)): section 4.3 with the logits split over the group and no sequence parallelism."""
    m = model("gpt3-175b")
    for width in (1, 4):
        expected = 4 * m.sequence * 2 * m.hidden + 4 * m.sequence * 2 * m.vocabulary // width
        assert head_of(build(m, 2, width)).activation_bytes == expected


def test_embedding_keeps_a_dropout_mask():
    m = model("gpt3-175b")
    assert build(m, 2, 4).layers[0].activation_bytes == m.sequence * 2 * m.hidden


def test_relu_and_undropped_attention_keep_less():
    """OPT-350M: relu's output is the next GEMM's input (8 less); the softmax feeds its product directly (3·a less)."""
    m = model("opt-350m")
    s, h, a = m.sequence, m.hidden, m.heads
    assert block_of(build(m, 1, 1)).activation_bytes == 26 * s * h + 2 * a * s * s


def test_a_gated_block_without_dropout_keeps_its_closed_form():
    """Llama2: 2·s·h bytes for each of two norm inputs, two shared GEMM inputs, Q, K, V and the context; 2·a·s² for the
    softmax; 2·s·f for each of silu's input and output, the up projection and their product.
    """
    m = model("llama2-7b")
    s, h, a, f = m.sequence, m.hidden, m.heads, m.feed_forward
    assert block_of(build(m, 1, 1)).activation_bytes == 2 * s * h * 8 + 2 * a * s * s + 2 * s * f * 4


@given(hyperparameters(), st.integers(1, 3), st.sampled_from([1, 2, 4]))
def test_per_head_operators_keep_the_same(m, batch, width):
    batched = build(m, batch, width)
    per_head = build(m, batch, width, TrainingRecipe(attention="per_head"))
    for one, other in zip(batched.layers, per_head.layers, strict=True):
        assert one.activation_bytes == other.activation_bytes
        assert one.weight_bytes == other.weight_bytes
        assert one.forward.flops == other.forward.flops
        assert one.backward.flops == other.backward.flops
