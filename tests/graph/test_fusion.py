"""Fusion: the rule on small graphs, its laws on random ones, and its inverse."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.graph.fusion import EPILOGUES, fuse
from dse.graph.operator_graph import Operator, OperatorGraph
from hardware.operations import Collective, Fused, Gemm, Vector

GEMM = Gemm(4, 6, 8)
GELU = Vector("gelu", 24, 24, 24)
ADD = Vector("add", 24, 48, 24)


def graph_of(operations, edges):
    operators = tuple(Operator(f"op{index}", operation, index) for index, operation in enumerate(operations))
    return OperatorGraph(operators, tuple(edges))


def unfuse(graph):
    """The inverse of ``fuse``: every fused operator as its members again, in a chain."""
    operators, first, edges = [], [], []
    for operator in graph:
        members = operator.members or (operator,)
        first.append(len(operators))
        operators.extend(members)
        edges.extend((node, node + 1) for node in range(first[-1], len(operators) - 1))
    last = [*(start - 1 for start in first[1:]), len(operators) - 1]
    edges.extend((last[source], first[target]) for source, target in graph.edges)
    return OperatorGraph(tuple(operators), tuple(edges))


def names(graph):
    return [operator.name for operator in graph]


def test_gemm_with_its_only_elementwise_consumer_becomes_one_operator():
    fused = fuse(graph_of([GEMM, GELU, GEMM], [(0, 1), (1, 2)]))
    assert names(fused) == ["op0+op1", "op2"]
    assert fused.operators[0].operation == Fused(GEMM, (GELU,))
    assert fused.operators[0].weights == 1
    assert [member.name for member in fused.operators[0].members] == ["op0", "op1"]
    assert fused.edges == ((0, 1),)


@pytest.mark.parametrize(
    ("operations", "edges"),
    [
        pytest.param([GEMM, GEMM, ADD], [(0, 2), (1, 2)], id="residual add of two products"),
        pytest.param([GEMM, ADD], [(0, 1)], id="residual add of a product and the layer's input"),
        pytest.param([GEMM, GELU, GELU], [(0, 1), (0, 2)], id="two consumers"),
        pytest.param([GEMM, GEMM, GELU], [(0, 2), (1, 2)], id="consumer of two products"),
        pytest.param([GELU, GELU], [(0, 1)], id="no product"),
        pytest.param([GEMM, Collective("all_reduce", 24, 2)], [(0, 1)], id="collective"),
        pytest.param([GEMM, GEMM], [(0, 1)], id="product of a product"),
        pytest.param([GEMM, Vector("bias_backward", 24, 24, 6)], [(0, 1)], id="sum over rows"),
    ],
)
def test_nothing_else_is_fused(operations, edges):
    graph = graph_of(operations, edges)
    assert fuse(graph) == graph


def test_only_the_first_consumer_of_a_chain_is_fused():
    fused = fuse(graph_of([GEMM, GELU, Vector("dropout", 24, 24, 36)], [(0, 1), (1, 2)]))
    assert names(fused) == ["op0+op1", "op2"]


def test_a_kept_intermediate_is_written_too():
    graph = graph_of([GEMM, GELU], [(0, 1)])
    (kept,) = fuse(graph, {"op0"})
    assert kept.operation.epilogue[0].write_elements == GELU.write_elements + GEMM.output_elements
    (dropped,) = fuse(graph)
    assert dropped.operation.epilogue[0].write_elements == GELU.write_elements
    assert unfuse(fuse(graph, {"op0"})) == graph


@st.composite
def random_graphs(draw):
    count = draw(st.integers(1, 14))
    operations = draw(st.lists(st.sampled_from([GEMM, GEMM, GELU, ADD, Gemm(3, 8, 8)]), min_size=count, max_size=count))
    pairs = [(source, target) for target in range(count) for source in range(target)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=2 * count)) if pairs else []
    return graph_of(operations, edges)


def named_edges(graph):
    return {(graph.operators[source].name, graph.operators[target].name) for source, target in graph.edges}


def reachable_pairs(graph):
    """All (a, b) with a path from a to b, by repeated joining."""
    edges = named_edges(graph)
    pairs = set(edges)
    while True:
        longer = {(a, d) for a, b in pairs for c, d in edges if b == c} | pairs
        if longer == pairs:
            return pairs
        pairs = longer


@given(random_graphs())
def test_fusion_preserves_work_weights_and_reachability(graph):
    fused = fuse(graph)
    assert fused.flops == graph.flops
    assert sum(operator.weights for operator in fused) == sum(operator.weights for operator in graph)
    whole = {part: operator.name for operator in fused for part in operator.name.split("+")}
    assert set(whole) == set(names(graph))
    expected = {(whole[a], whole[b]) for a, b in reachable_pairs(graph) if whole[a] != whole[b]}
    assert reachable_pairs(fused) == expected


@given(random_graphs())
def test_every_fusible_pair_is_fused_and_no_other(graph):
    """Judged by the rule as the paper states it, pair by pair."""
    edges = named_edges(graph)
    operation = {operator.name: operator.operation for operator in graph}
    pairs = {
        f"{a}+{b}"
        for a, b in edges
        if isinstance(operation[a], Gemm)
        and isinstance(operation[b], Vector)
        and operation[b].kind in EPILOGUES
        and [source for source, _ in edges].count(a) == 1
        and [target for _, target in edges].count(b) == 1
    }
    assert {name for name in names(fuse(graph)) if "+" in name} == pairs


@given(random_graphs())
def test_unfusing_gives_the_graph_back(graph):
    back = unfuse(fuse(graph))
    assert sorted(back.operators, key=lambda operator: operator.name) == sorted(
        graph.operators, key=lambda operator: operator.name
    )
    assert named_edges(back) == named_edges(graph)
