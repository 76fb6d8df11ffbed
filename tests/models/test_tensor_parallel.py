"""Megatron slices: what is split, what is whole, and which all-reduces hold the parts together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.models import TrainingRecipe, build
from dse.sources.workloads import model
from hardware.operations import Collective, Gemm
from tests.models.strategies import PHAZE_2024, UNFUSED, hyperparameters

SLICED_MODELS = ["megatron-bert", "megatron-2.5b", "megatron-8.3b", "gpt3-175b"]
WHOLE = ("transform", "pooler", "next_sentence", "project_in", "project_out")
"""GEMMs that every accelerator of a group computes whole."""


def all_reduces(graph):
    return [operator.operation for operator in graph if isinstance(operator.operation, Collective)]


def split_flops(graph):
    return sum(operator.flops for operator in graph if not operator.name.startswith(WHOLE))


def whole_flops(graph):
    return sum(operator.flops for operator in graph if operator.name.startswith(WHOLE))


@given(hyperparameters(), st.sampled_from([2, 4]), st.sampled_from(["batched", "per_head"]))
def test_slices_add_up_to_the_whole_flops(m, width, attention):
    recipe = TrainingRecipe(fuse=False, attention=attention)
    whole = build(m, 2, 1, recipe)
    part = build(m, 2, width, recipe)
    for one, slice_ in zip(whole.distinct_layers, part.distinct_layers, strict=True):
        for direction in ("forward", "backward"):
            before, after = getattr(one, direction), getattr(slice_, direction)
            assert width * split_flops(after) == split_flops(before)
            assert whole_flops(after) == whole_flops(before)
    assert part.flops_per_sample == whole.flops_per_sample


@given(hyperparameters(), st.sampled_from([2, 4]))
def test_slices_add_up_to_the_whole_parameters(m, width):
    """Matrices and column-split biases are split; norms, row-split biases, positions and projections are whole."""
    norm = m.hidden if m.normalisation == "rms_norm" else 2 * m.hidden
    whole = build(m, 1, 1)
    part = build(m, 1, width)
    replicated = 2 * norm + (2 * m.hidden if m.biases else 0)
    one, slice_ = whole.layers[1], part.layers[1]
    assert width * (slice_.parameters - replicated) == one.parameters - replicated
    table = m.vocabulary * m.embedding_width
    assert whole.layers[0].parameters - part.layers[0].parameters == table - table // width
    assert [layer.sliced for layer in part.layers] == [True] * len(part.layers)
    assert not any(layer.sliced for layer in whole.layers)


@pytest.mark.parametrize("name", SLICED_MODELS)
@pytest.mark.parametrize("width", [2, 4])
def test_a_block_has_two_all_reduces_each_way(name, width):
    """Shoeybi et al. 2019, Figure 3: of the whole residual stream, in one block."""
    m = model(name)
    graph = build(m, 4, width)
    expected = [Collective("all_reduce", 4 * m.sequence * m.hidden, width)] * 2
    block = graph.layers[1]
    assert all_reduces(block.forward) == expected
    assert all_reduces(block.backward) == expected
    assert all_reduces(build(m, 4, 1).layers[1].forward) == []


def test_forward_all_reduces_follow_the_row_split_products():
    block = build(model("megatron-8.3b"), 1, 4, UNFUSED).layers[1]
    names = [operator.name for operator in block.forward]
    sources = {names[target]: names[source] for source, target in block.forward.edges if "all_reduce" in names[target]}
    assert sources == {"attention_output_all_reduce": "attention_output", "down_all_reduce": "down"}


def test_backward_all_reduces_stand_between_the_column_split_products_and_the_norm():
    block = build(model("megatron-8.3b"), 1, 4, UNFUSED).layers[1]
    names = [operator.name for operator in block.backward]
    edges = {(names[source], names[target]) for source, target in block.backward.edges}
    assert ("attention_input_gradient_sum", "attention_input_all_reduce") in edges
    assert ("attention_input_all_reduce", "attention_norm_backward") in edges
    assert ("up_data_gradient", "feed_forward_input_all_reduce") in edges
    assert ("feed_forward_input_all_reduce", "feed_forward_norm_backward") in edges


def test_embedding_and_head_exchange_what_the_vocabulary_split_needs():
    """One all-reduce joins the embeddings; the loss exchanges 32-bit numbers, one a token, not the logits."""
    m = model("gpt3-175b")
    graph = build(m, 2, 8)
    tokens = 2 * m.sequence
    stream = Collective("all_reduce", tokens * m.hidden, 8)
    embedding, head = graph.layers[0], graph.layers[-1]
    assert all_reduces(embedding.forward) == [stream]
    assert all_reduces(embedding.backward) == []
    assert all_reduces(head.forward) == [Collective("all_reduce", 2 * tokens, 8)] * 3
    assert all_reduces(head.backward) == [stream]


def test_the_embeddings_all_reduce_is_as_wide_as_the_table():
    m = model("opt-350m").model_copy(update={"vocabulary": 50272})
    (collective,) = all_reduces(build(m, 1, 2).layers[0].forward)
    assert collective.elements == m.sequence * 512


@pytest.mark.parametrize("recipe", [TrainingRecipe(), PHAZE_2024])
def test_stages_exchange_the_whole_residual_stream(recipe):
    m = model("megatron-bert")
    for width in (1, 8):
        graph = build(m, 4, width, recipe)
        assert graph.edges == tuple((layer, layer + 1, 2 * 4 * 512 * 1024) for layer in range(25))


def test_grouped_query_heads_share_keys():
    """Ainslie et al. 2023: the products of a group's queries with its key are rows of one product."""
    m = model("llama2-7b").model_copy(update={"kv_heads": 8})
    block = build(m, 2, 4, UNFUSED).layers[1]
    operations = {operator.name: operator.operation for operator in block.forward}
    assert operations["scores"] == Gemm(m=4 * 4096, n=4096, k=128, batch=2 * 2)
    assert operations["key"] == Gemm(m=2 * 4096, n=2 * 128, k=4096)
    assert operations["query"] == Gemm(m=2 * 4096, n=8 * 128, k=4096)
