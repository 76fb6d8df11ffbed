"""The operator graph refuses what is no graph, and a model graph knows its distinct layers."""

import pytest

from dse.graph.operator_graph import Layer, ModelGraph, Operator, OperatorGraph
from hardware.operations import Collective, Fused, Gemm, Transfer, Vector

GEMM = Operator("gemm", Gemm(2, 3, 4, 5), weights=12)
VECTOR = Operator("vector", Vector("add", 6, 12, 6))


def test_flops_count_tensor_cores_only():
    others = (
        Operator("fused", Fused(Gemm(1, 1, 1), ())),
        Operator("collective", Collective("all_reduce", 6, 2)),
        Operator("transfer", Transfer(6)),
    )
    assert OperatorGraph((GEMM, VECTOR, *others), ()).flops == 2 * 2 * 3 * 4 * 5 + 2


def test_a_duplicate_name_is_refused():
    with pytest.raises(ValueError, match="unique, but gemm occurs twice"):
        OperatorGraph((GEMM, GEMM), ())


@pytest.mark.parametrize("edge", [(0, 2), (-1, 0)])
def test_an_edge_to_nowhere_is_refused(edge):
    with pytest.raises(ValueError, match="must join two of the 2 operators"):
        OperatorGraph((GEMM, VECTOR), (edge,))


def test_a_cycle_is_refused():
    with pytest.raises(ValueError, match="no cycle"):
        OperatorGraph((GEMM, VECTOR), ((0, 1), (1, 0)))


def test_topological_order_puts_predecessors_first():
    graph = OperatorGraph((GEMM, VECTOR), ((1, 0),))
    assert graph.topological_order == (1, 0)


def test_equal_layers_count_once_among_the_distinct():
    empty = OperatorGraph((), ())

    def layer(parameters):
        return Layer("block", empty, empty, empty, parameters, 2 * parameters, 0, sliced=False)

    first, block = layer(3), layer(5)
    graph = ModelGraph("m", 1, 1, (first, block, block), ("a", "b", "c"), ((0, 1, 8), (1, 2, 8)), 0.0)
    assert graph.distinct_layers == (first, block)
    assert graph.layer_index == (0, 1, 1)
    assert graph.parameters == 13
