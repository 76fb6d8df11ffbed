"""A dataflow graph refuses what breaks its rules, and knows what is kept."""

import pytest

from dse.graph.dataflow.formats import graph_from_document
from dse.graph.dataflow.graph import DataflowEdge, DataflowGraph
from dse.graph.dataflow.operators import DataflowOperator, Pass
from hardware.operations import Gemm
from tests.graph.dataflow.graphs import FEED_FORWARD

INPUT = DataflowOperator("input", Pass("input", 6))
SCALE = DataflowOperator("scale", Pass("scale", 6))
OUTPUT = DataflowOperator("output", Pass("output", 6))
CHAIN = (INPUT, SCALE, OUTPUT)
EDGES = (DataflowEdge(0, 1, 6), DataflowEdge(1, 2, 6))


def test_flops_weights_and_order():
    graph = graph_from_document(FEED_FORWARD, "x.json")
    assert graph.flops == 2 * (3 * 4 * 8) * 2
    assert graph.weights == 40 + 32 + 8
    assert [graph.operators[each].name for each in graph.topological_order][-3:] == ["residual", "norm", "output"]
    assert [edge.elements for edge in graph.incoming[4]] == [12, 12]
    assert [graph.operators[edge.target].name for edge in graph.outgoing[0]] == ["up", "residual"]
    assert not graph.is_training
    assert graph.saved_elements == 0


def test_a_kept_tensor_counts_once_and_a_mask_beside_it():
    readers = tuple(DataflowOperator(f"back{each}", Pass("add", 6), 6, is_backward=True) for each in range(2))
    edges = (*EDGES, DataflowEdge(1, 3, 6), DataflowEdge(1, 4, 6), DataflowEdge(1, 4, 3, "mask"))
    graph = DataflowGraph("kept", (*CHAIN, *readers), edges)
    assert len(graph.saved) == 3
    assert graph.saved_elements == 6 + 3


BROKEN = {
    "must join two of the 3 operators": (CHAIN, (*EDGES, DataflowEdge(1, 3, 6))),
    "unique": ((INPUT, SCALE, SCALE, OUTPUT), EDGES),
    "every edge of a tensor must be listed once": (CHAIN, (*EDGES, DataflowEdge(0, 1, 6))),
    "cycle": (
        (*CHAIN, DataflowOperator("other", Pass("add", 6))),
        (*EDGES, DataflowEdge(1, 3, 6), DataflowEdge(3, 1, 6)),
    ),
    "must be at most the 6 elements that input writes": (CHAIN, (DataflowEdge(0, 1, 7, "part"), EDGES[1])),
    "must be all 6 elements that input writes": (CHAIN, (DataflowEdge(0, 1, 5), EDGES[1])),
    "edges of one tensor must carry the same": (
        (*CHAIN, DataflowOperator("end", Pass("output", 4))),
        (*EDGES, DataflowEdge(1, 3, 4)),
    ),
    "an input must have no incoming edge": (
        (INPUT, SCALE, DataflowOperator("output", Pass("output", 12)), DataflowOperator("second", Pass("input", 6))),
        (*EDGES, DataflowEdge(1, 3, 6), DataflowEdge(3, 2, 6)),
    ),
    "an output must have no outgoing edge": (
        (*CHAIN, DataflowOperator("end", Pass("output", 6))),
        (*EDGES, DataflowEdge(2, 3, 6)),
    ),
    "must have an incoming edge": ((*CHAIN, SCALE.__class__("lone", Pass("scale", 6))), EDGES),
    "must have an outgoing edge": (
        (*CHAIN, SCALE.__class__("lone", Pass("scale", 6))),
        (*EDGES, DataflowEdge(0, 3, 6)),
    ),
    "must be 6, the elements of its edges": ((INPUT, SCALE, DataflowOperator("o", Pass("output", 5))), EDGES),
    "must not read the backward pass": (
        (INPUT, DataflowOperator("scale", Pass("scale", 6), is_backward=True), OUTPUT),
        EDGES,
    ),
}


def test_the_chain_that_the_cases_break_is_sound():
    assert DataflowGraph("chain", CHAIN, EDGES).topological_order == (0, 1, 2)


@pytest.mark.parametrize("rule", BROKEN)
def test_a_broken_rule_is_named(rule):
    with pytest.raises(ValueError, match=rule):
        DataflowGraph("broken", *BROKEN[rule])


def test_a_part_may_be_smaller_than_the_product_it_is_of():
    gemm = DataflowOperator("gemm", Gemm(2, 3, 1), weight_elements=3)
    ports = DataflowOperator("input", Pass("input", 2)), DataflowOperator("output", Pass("output", 4))
    edges = (DataflowEdge(0, 1, 2), DataflowEdge(1, 2, 4, "[0:4]"))
    assert DataflowGraph("part", (ports[0], gemm, ports[1]), edges).outgoing[1] == (edges[1],)
    with pytest.raises(ValueError, match="must be all 6 elements that gemm writes, unless the edge names a part"):
        DataflowGraph("part", (ports[0], gemm, ports[1]), (edges[0], edges[1]._replace(tensor="")))
