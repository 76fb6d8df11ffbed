"""Graphs behind each other and side by side."""

import pytest

from dse.graph.dataflow.compose import chained, side_by_side
from dse.graph.dataflow.formats import graph_from_document
from dse.graph.dataflow.graph import DataflowEdge, DataflowGraph
from dse.graph.dataflow.operators import DataflowOperator, Pass
from dse.graph.dataflow.training import differentiated
from tests.graph.dataflow.graphs import FEED_FORWARD


def chain_of(name, elements=6):
    kinds = ("input", "scale", "output")
    operators = tuple(DataflowOperator(kind, Pass(kind, elements)) for kind in kinds)
    return DataflowGraph(name, operators, (DataflowEdge(0, 1, elements), DataflowEdge(1, 2, elements)))


def test_a_chain_reads_across_the_joint():
    whole = chained("whole", [("a", chain_of("a")), ("b", chain_of("b")), ("c", chain_of("c"))])
    assert [each.name for each in whole.operators] == ["a.input", "a.scale", "b.scale", "c.scale", "c.output"]
    assert [(edge.source, edge.target) for edge in whole.edges] == [(0, 1), (1, 2), (2, 3), (3, 4)]


def test_a_tensor_that_only_passes_through_is_read_where_it_was_written():
    ports = tuple(DataflowOperator(kind, Pass(kind, 6)) for kind in ("input", "output"))
    through = DataflowGraph("through", ports, (DataflowEdge(0, 1, 6),))
    whole = chained("whole", [("a", chain_of("a")), ("b", through), ("c", through), ("d", chain_of("d"))])
    assert ("a.scale", "d.scale", 6, "") in whole.named_edges
    assert len(whole.operators) == 4


def test_a_part_of_what_arrives_is_a_part_of_what_was_written():
    input_, output = (DataflowOperator(kind, Pass(kind, size)) for kind, size in (("input", 6), ("output", 2)))
    cut = DataflowGraph("cut", (input_, output), (DataflowEdge(0, 1, 2, "[0:2]"),))
    assert chained("whole", [("a", chain_of("a")), ("b", cut)]).named_edges[-1] == ("a.scale", "b.output", 2, "[0:2]")


def test_gradients_run_against_the_chain():
    step = differentiated(graph_from_document(FEED_FORWARD, "x.json"))
    whole = chained("whole", [("a", step), ("b", step)])
    assert ("b.input_gradient_sum", "a.norm_backward", 12, "") in whole.named_edges
    assert ("a.norm", "b.up_weight_gradient", 12, "") in whole.named_edges
    assert whole.saved_elements == 2 * step.saved_elements
    ports = {each.name for each in whole.operators if each.kind in ("input", "output")}
    assert ports == {"a.input", "b.output", "b.output_gradient", "a.input_gradient"}


def test_sizes_at_a_joint_must_agree():
    with pytest.raises(ValueError, match=r"b must match the outputs of a, but have \[8\], not \[6\] elements"):
        chained("whole", [("a", chain_of("a")), ("b", chain_of("b", 8))])


def test_side_by_side_nothing_is_joined():
    whole = side_by_side("both", [("a", chain_of("a")), ("b", chain_of("b"))])
    assert whole.edges == (*chain_of("a").edges, DataflowEdge(3, 4, 6), DataflowEdge(4, 5, 6))
