"""The tape: gradients of small graphs, worked out by hand."""

import pytest

from dse.graph import differentiable as nn
from dse.graph.tape import Tape
from hardware.operations import Gemm, Vector


def edges_of(graph):
    return {(graph.operators[source].name, graph.operators[target].name) for source, target in graph.edges}


def test_a_chain_runs_backwards():
    tape = Tape(2, weight_gradients=True)
    source = tape.source("x", 12)
    hidden = nn.linear(tape, "first", source, nn.LinearShape(3, 3, 4, 5, bias=False))
    result = nn.nonlinearity(tape, "gelu", "gelu", hidden)
    backward = tape.differentiate(result)
    assert edges_of(tape.forward_graph()) == {("first", "gelu")}
    assert edges_of(backward) == {("gelu_backward", "first_data_gradient"), ("gelu_backward", "first_weight_gradient")}
    operations = {operator.name: operator.operation for operator in backward}
    assert operations["first_data_gradient"] == Gemm(m=3, n=4, k=5)
    assert operations["first_weight_gradient"] == Gemm(m=4, n=5, k=3)
    assert tape.weights == 20


def test_a_tensor_is_kept_once_however_many_need_it():
    tape = Tape(2, weight_gradients=True)
    source = tape.source("x", 12)
    for name in ("a", "b", "c"):
        nn.linear(tape, name, source, nn.LinearShape(3, 3, 4, 5, bias=False))
    assert tape.saved_bytes == 24
    assert tape.saved_operators == frozenset()


def test_gradients_of_one_tensor_are_summed_by_one_operator():
    tape = Tape(2, weight_gradients=False)
    source = tape.source("x", 12)
    results = [nn.linear(tape, name, source, nn.LinearShape(3, 3, 4, 5, bias=False)) for name in ("a", "b", "c")]
    backward = tape.differentiate(*results)
    total = backward.operators[-1]
    assert total.name == "x_gradient_sum"
    assert total.operation == Vector("add", elements=24, read_elements=36, write_elements=12)
    assert len([edge for edge in backward.edges if edge[1] == len(backward) - 1]) == 3


def test_an_output_that_is_consumed_inside_sums_both_gradients():
    tape = Tape(2, weight_gradients=False)
    shared = nn.scale(tape, "shared", tape.source("x", 6))
    last = nn.scale(tape, "last", shared)
    backward = tape.differentiate(shared, last)
    assert edges_of(backward) == {("last_backward", "shared_gradient_sum"), ("shared_gradient_sum", "shared_backward")}


def test_a_tensor_without_a_consumer_is_refused():
    tape = Tape(2, weight_gradients=True)
    source = tape.source("x", 6)
    nn.scale(tape, "dangling", source)
    with pytest.raises(ValueError, match="dangling must have a consumer or be an output, but has neither"):
        tape.differentiate(nn.scale(tape, "used", source))


def test_parts_of_a_tensor_need_no_sum():
    tape = Tape(2, weight_gradients=False)
    whole = nn.scale(tape, "whole", tape.source("x", 6))
    parts = [nn.scale(tape, f"half{index}", part) for index, part in enumerate(nn.split(tape, "part", whole, 2))]
    backward = tape.differentiate(nn.concatenate(tape, "joined", parts))
    assert edges_of(backward) == {("half0_backward", "whole_backward"), ("half1_backward", "whole_backward")}
    assert parts[0].elements == 3


def test_one_accelerator_exchanges_nothing():
    tape = Tape(2, weight_gradients=False)
    source = tape.source("x", 6)
    assert nn.all_reduce(tape, "g", source, 1) is source
    assert nn.copy_to_group(tape, "f", source, 1) is source


@pytest.mark.parametrize(
    ("kind", "kept"), [("relu", "result"), ("tanh", "result"), ("softmax", "result"), ("gelu", "x"), ("silu", "x")]
)
def test_nonlinearities_keep_what_their_gradient_reads(kind, kept):
    tape = Tape(2, weight_gradients=False)
    first = nn.scale(tape, "x", tape.source("input", 6))
    nn.nonlinearity(tape, "result", kind, first)
    assert tape.saved_operators == {kept}
    assert tape.saved_bytes == 12


def test_odd_mask_bytes_round_up_in_traffic_but_not_in_memory():
    tape = Tape(2, weight_gradients=False)
    result = nn.dropout(tape, "dropout", tape.source("x", 5))
    assert tape.forward_graph().operators[0].operation == Vector("dropout", 5, 5, 5 + 3)
    assert tape.saved_bytes == 5
    assert tape.differentiate(result).operators[0].operation == Vector("dropout_backward", 5, 5 + 3, 5)
