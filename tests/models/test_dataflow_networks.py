"""Random networks of further families: sizes, seeds, passes and copies."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.models.dataflow_networks import NetworkKind, network_graph

KINDS = get_args(NetworkKind)
SEEDS = st.integers(0, 2**31)


@pytest.mark.parametrize("kind", KINDS)
@given(seed=SEEDS)
def test_a_training_step_has_the_forward_pass_and_twice_its_work_again(kind, seed):
    forward, training = (network_graph(kind, seed, graph_pass, 32) for graph_pass in ("forward", "training"))
    assert not forward.is_training
    assert training.is_training
    assert training.flops == 3 * forward.flops
    assert training.weights == forward.weights


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_gives_one_network_and_seeds_differ(kind):
    assert network_graph(kind, 7, "training", 32) == network_graph(kind, 7, "training", 32)
    assert len({network_graph(kind, seed, "forward", 32).flops for seed in range(40)}) == 40


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_go_with_the_tile_and_rarely_fill_it(kind):
    sizes = [
        size
        for seed in range(20)
        for operator in network_graph(kind, seed, "forward", 32).operators
        if operator.kind == "gemm"
        for size in (operator.work.m, operator.work.n, operator.work.k)
    ]
    assert max(sizes) <= 32 * 12
    assert sum(size % 32 == 0 for size in sizes) < len(sizes) / 8
    small = sum(network_graph(kind, seed, "forward", 8).flops for seed in range(20))
    assert 20 * small < sum(network_graph(kind, seed, "forward", 32).flops for seed in range(20))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("graph_pass", ["forward", "training"])
def test_copies_are_alike_and_apart(kind, graph_pass):
    single, triple = (network_graph(kind, 3, graph_pass, 16, copies) for copies in (1, 3))
    assert len(triple.operators) == 3 * len(single.operators)
    for source, target, *_ in triple.named_edges:
        assert source.partition(".")[0] == target.partition(".")[0]


def test_kinds_have_the_shapes_that_they_are_named_for():
    kinds = {kind: [each.kind for each in network_graph(kind, 1, "forward", 32).operators] for kind in KINDS}
    assert kinds["heads"].count("output") == kinds["heads"].count("softmax") > 1
    assert kinds["excited"].count("sigmoid") == kinds["excited"].count("multiply") >= 1
    assert "softmax" not in kinds["linear_attention"]
    for kind in ("hourglass", "dense", "branches"):
        assert "add" in kinds[kind]
