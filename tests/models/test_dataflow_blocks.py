"""The building blocks: sizes as asked, seeds, depth and copies."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.models.dataflow_blocks import Block, BlockSizes, block_graph, random_block
from hardware.operations import Gemm

KINDS = ["gemm", "mlp", "ffn", "mha"]
FLOPS = {
    "gemm": lambda b: 2 * b.tokens * b.width * b.inner * b.depth,
    "mlp": lambda b: 2 * b.tokens * b.width * b.inner * b.depth,
    "ffn": lambda b: 4 * b.tokens * b.width * b.inner * b.depth,
    "mha": lambda b: (8 * b.tokens * b.width**2 + 4 * b.tokens**2 * b.width) * b.depth,
}


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 2**32))
def test_flops_are_those_of_the_closed_form_and_three_times_that_in_training(kind, seed):
    block = random_block(kind, seed)
    forward, training = block_graph(block, "forward"), block_graph(block, "training")
    assert forward.flops == block.copies * FLOPS[kind](block)
    assert training.flops == 3 * forward.flops
    assert not forward.is_training
    assert training.is_training


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_gives_one_block_and_seeds_differ(kind):
    assert random_block(kind, 7) == random_block(kind, 7)
    assert len({random_block(kind, seed) for seed in range(50)}) > 40


@given(st.sampled_from(KINDS), st.integers(0, 2**32))
def test_random_sizes_are_within_their_limits(kind, seed):
    sizes = BlockSizes(step=8, tokens=(12, 40), width=(8, 30), ratio=(2, 3), depth=(2, 5), copies=(1, 2))
    block = random_block(kind, seed, sizes)
    assert block.tokens in (16, 24, 32, 40)
    assert block.width in (8, 16, 24)
    assert block.inner in (2 * block.width, 3 * block.width)
    assert block.heads * 8 == block.width
    assert 2 <= block.depth <= 5
    assert 1 <= block.copies <= 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("graph_pass", ["forward", "training"])
def test_copies_are_alike_and_apart(kind, graph_pass):
    one = Block(kind, tokens=4, width=6, inner=12, heads=2, depth=2)
    single, triple = block_graph(one, graph_pass), block_graph(replace(one, copies=3), graph_pass)
    assert len(triple.operators) == 3 * len(single.operators)
    assert {name.partition(".")[0] for name in (each.name for each in triple.operators)} == {"copy0", "copy1", "copy2"}
    for source, target, *_ in triple.named_edges:
        assert source.partition(".")[0] == target.partition(".")[0]
    first = [(each.work, each.weight_elements) for each in triple.operators[: len(single.operators)]]
    assert first == [(each.work, each.weight_elements) for each in single.operators]


def test_layers_of_a_gemm_alternate_between_width_and_inner():
    graph = block_graph(Block("gemm", tokens=3, width=4, inner=5, depth=3), "forward")
    assert [each.work for each in graph.operators if each.kind == "gemm"] == [
        Gemm(3, 5, 4),
        Gemm(3, 4, 5),
        Gemm(3, 5, 4),
    ]
    assert [each.name for each in graph.operators] == [
        "layer0.input",
        "layer0.linear",
        "layer1.linear",
        "layer2.linear",
        "layer2.output",
    ]


def test_heads_must_divide_the_width():
    with pytest.raises(ValueError, match="heads must divide width, but got heads=4 and width=6"):
        Block("mha", tokens=4, width=6, inner=6, heads=4)


@pytest.mark.parametrize("size", ["tokens", "width", "inner", "heads", "depth", "copies"])
def test_sizes_must_be_positive(size):
    with pytest.raises(ValueError, match=f"{size} must be at least 1, but got 0"):
        replace(Block("gemm", tokens=4, width=6, inner=6), **{size: 0})
