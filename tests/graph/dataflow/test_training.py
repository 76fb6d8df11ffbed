"""The backward pass of a document: the rules of differentiation, and what they cannot be applied to."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.graph.dataflow.formats import graph_document, graph_from_document
from dse.graph.dataflow.training import differentiated
from dse.models.dataflow import layers_graph
from dse.models.dataflow_blocks import BlockSizes, block_graph, random_block
from hardware.inputs import InputError
from hardware.operations import Gemm
from tests.graph.dataflow.graphs import ATTENTION, FEED_FORWARD, named_operators, same_but_for_order
from tests.models.strategies import hyperparameters

SMALL = BlockSizes(step=2, tokens=(2, 8), width=(2, 12), copies=(1, 1), depth=(1, 1))


def graph_of(document):
    return graph_from_document(document, "graph.json")


def edges_to(graph, name):
    """What an operator reads: sources, elements, tensors."""
    return {(source, elements, tensor) for source, target, elements, tensor in graph.named_edges if target == name}


def test_a_linear_layer_has_two_products_and_a_sum_for_its_bias():
    training = differentiated(graph_of(FEED_FORWARD))
    operators = named_operators(training)
    assert operators["up_data_gradient"].work == Gemm(m=3, k=8, n=4)
    assert operators["up_data_gradient"].weight_elements == 32
    assert operators["up_weight_gradient"].work == Gemm(m=4, k=3, n=8)
    assert edges_to(training, "up_weight_gradient") == {("gelu_backward", 24, ""), ("input", 12, "")}
    assert edges_to(training, "up_bias_gradient") == {("gelu_backward", 24, "")}
    assert "down_bias_gradient" not in operators
    assert operators["up_bias_gradient_accumulation"].weight_elements == 8
    assert edges_to(training, "up_weight_gradient_accumulation") == {("up_weight_gradient", 32, "")}


def test_kept_activations_go_to_the_operators_that_read_them():
    """gelu and layer_norm read their operand, a linear layer's weight gradient its own, an addition nothing."""
    training = differentiated(graph_of(FEED_FORWARD))
    names = [operator.name for operator in training.operators]
    kept = {(names[edge.source], names[edge.target], edge.elements) for edge in training.saved}
    assert kept == {
        ("input", "up_weight_gradient", 12),
        ("up", "gelu_backward", 24),
        ("gelu", "down_weight_gradient", 24),
        ("residual", "norm_backward", 12),
    }


def test_a_residual_sums_both_gradients_into_the_inputs():
    training = differentiated(graph_of(FEED_FORWARD))
    assert edges_to(training, "input_gradient_sum") == {("norm_backward", 12, ""), ("up_data_gradient", 12, "")}
    assert edges_to(training, "input_gradient") == {("input_gradient_sum", 12, "")}


def test_products_read_each_others_operand_and_softmax_and_dropout_what_they_wrote():
    training = differentiated(graph_of(ATTENTION))
    assert edges_to(training, "context_left_gradient") == {("output_gradient", 12, ""), ("joint", 12, "[24:36]")}
    assert edges_to(training, "context_right_gradient") == {("output_gradient", 12, ""), ("dropout", 9, "")}
    assert edges_to(training, "dropout_backward") == {("context_left_gradient", 9, ""), ("dropout", 5, "mask")}
    assert edges_to(training, "softmax_backward") == {("dropout_backward", 9, ""), ("softmax", 9, "")}
    assert edges_to(training, "scores_left_gradient") == {("softmax_backward", 9, ""), ("joint", 12, "[12:24]")}
    parts = {("scores_left_gradient", 12, ""), ("scores_right_gradient", 12, ""), ("context_right_gradient", 12, "")}
    assert edges_to(training, "joint_weight_gradient") == {*parts, ("input", 12, "")}


@given(st.sampled_from(["gemm", "mlp", "ffn", "mha"]), st.integers(0, 2**32))
def test_a_block_that_is_read_from_a_document_trains_as_the_block_itself(kind, seed):
    block = random_block(kind, seed, SMALL)
    document = graph_document(block_graph(block, "forward"))
    derived, built = differentiated(graph_of(document)), block_graph(block, "training")
    assert same_but_for_order(derived, built)


@given(hyperparameters(), st.integers(1, 2))
def test_the_forward_graph_of_a_layer_trains_with_the_work_of_the_layer(m, microbatch):
    m = m.model_copy(update={"dropout": 0.0, "attention_dropout": 0.0})
    forward, training = (layers_graph("x", m, ["layer0"], microbatch, each) for each in ("forward", "training"))
    derived = differentiated(forward)
    assert derived.flops == training.flops == 3 * forward.flops
    assert derived.saved_elements == training.saved_elements
    assert derived.weights == training.weights
    assert len(derived.operators) == len(training.operators)


def _small(*operators, edges):
    ports = [{"name": "x", "kind": "input", "elements": 6}, {"name": "y", "kind": "output", "elements": 6}]
    return {"schema": "dse.dataflow/1", "operators": [ports[0], *operators, ports[1]], "edges": edges}


@pytest.mark.parametrize(
    ("kind", "kept"),
    [
        *((kind, "op") for kind in ("relu", "tanh", "sigmoid", "sqrt", "softmax")),
        *((kind, "x") for kind in ("gelu", "silu", "power")),
        *((kind, "x") for kind in ("layer_norm", "rms_norm", "batch_norm")),
        *((kind, None) for kind in ("scale", "add", "select", "copy", "rotary")),
    ],
)
def test_each_kind_of_one_operand_keeps_what_its_gradient_reads(kind, kept):
    operator = {"name": "op", "kind": kind, "elements": 6, "row": 3}
    training = differentiated(graph_of(_small(operator, edges=[["x", "op", 6], ["op", "y", 6]])))
    assert [training.operators[edge.source].name for edge in training.saved] == ([kept] if kept else [])


@pytest.mark.parametrize(("kind", "kept"), [("add", 0), ("multiply", 12), ("divide", 12), ("select", 0)])
def test_each_kind_of_two_operands_keeps_what_its_gradients_read(kind, kept):
    operators = [{"name": "half", "kind": "scale", "elements": 6}, {"name": "op", "kind": kind, "elements": 6}]
    edges = [["x", "half", 6], ["x", "op", 6], ["half", "op", 6], ["op", "y", 6]]
    assert differentiated(graph_of(_small(*operators, edges=edges))).saved_elements == kept


def test_a_reduction_and_a_lookup_and_a_learned_token_have_gradients_too():
    operators = [
        {"name": "table", "kind": "embedding", "elements": 18, "weight_elements": 50},
        {"name": "token", "kind": "copy", "elements": 6, "weight_elements": 6},
        {"name": "mean", "kind": "reduction", "elements": 18},
        {"name": "sum", "kind": "add", "elements": 6},
    ]
    edges = [["table", "mean", 18], ["mean", "sum", 6], ["token", "sum", 6], ["x", "sum", 6], ["sum", "y", 6]]
    training = differentiated(graph_of(_small(*operators, edges=edges)))
    operators = named_operators(training)
    assert operators["table_table_gradient"].kind == "embedding_backward"
    assert operators["table_table_gradient"].weight_elements == 50
    assert edges_to(training, "table_table_gradient") == {("mean_backward", 18, "")}
    assert edges_to(training, "mean_backward") == {("y_gradient", 6, "")}
    assert [each.weight_elements for each in training.operators if each.name.endswith("accumulation")] == [6]


def test_a_smaller_operand_is_broadcast_and_its_gradient_summed():
    """Two products share their right operand, as query heads share keys."""
    operators = [
        {"name": "keys", "kind": "scale", "elements": 6},
        {"name": "op", "kind": "gemm", "m": 1, "k": 3, "n": 2, "batch": 2},
        {"name": "z", "kind": "output", "elements": 4},
    ]
    document = _small(*operators, edges=[["x", "keys", 6], ["x", "op", 6], ["keys", "op", 6], ["op", "z", 4]])
    document["edges"] += [["keys", "y", 6]]
    training = differentiated(graph_of(document))
    operator = named_operators(training)["op_operand_backward"]
    assert (operator.kind, operator.work.elements) == ("reduction", 12)
    assert edges_to(training, "op_operand_backward") == {("op_right_gradient", 12, "")}


def test_one_edge_to_a_product_stands_for_both_operands():
    operators = [
        {"name": "op", "kind": "gemm", "m": 2, "k": 3, "n": 2},
        {"name": "z", "kind": "output", "elements": 4},
    ]
    document = _small(*operators, edges=[["x", "op", 6], ["op", "z", 4], ["x", "y", 6]])
    training = differentiated(graph_of(document))
    assert training.flops == 3 * 2 * 2 * 3 * 2
    assert training.saved_elements == 6


REFUSED = [
    (1, {"weight_elements": 31}, "operators.1.weight_elements: 31: up: must be batch·k·n (32), or k·n + n with a bias"),
    (1, {"m": 6, "n": 4, "weight_elements": 16}, "operators.1.m: 12: up: must read batch·m·k elements, 24"),
    (1, {"weight_elements": 0}, "operators.1.kind: [12]: up: a gemm without weights must read batch·m·k (12) and then"),
    (2, {"kind": "pooling"}, "operators.2.kind: pooling: gelu: must be differentiable with 1 operands"),
    (2, {"kind": "multiply"}, "operators.2.kind: multiply: gelu: must be differentiable with 1 operands"),
    (2, {"elements": 25}, "operators.2.elements: 25: gelu: must be 24, as for its largest operand"),
    (4, {"elements": 11}, "operators.4.elements: 11: residual: must be 12, as for its largest operand"),
]


@pytest.mark.parametrize(("position", "change", "line"), REFUSED)
def test_what_has_no_derivative_is_named_with_file_and_key(position, change, line):
    document = copy.deepcopy(FEED_FORWARD)
    document["operators"][position] |= change
    with pytest.raises(InputError) as error:
        differentiated(graph_of(document), "graph.json")
    assert str(error.value).startswith(f"graph.json: {line}")
    assert "\n" not in str(error.value)


def test_a_training_step_is_not_differentiated_again():
    with pytest.raises(InputError, match="must be in the forward pass, but is in the backward pass"):
        differentiated(differentiated(graph_of(FEED_FORWARD)))


def test_operands_of_backward_products_come_left_one_first():
    """A weight's gradient is xᵀ · dy, an input's dy · Wᵀ; of l · r they are dy · rᵀ and lᵀ · dy."""
    up = {"name": "up", "kind": "gemm", "m": 4, "k": 3, "n": 8, "weight_elements": 24}
    key = {"name": "key", "kind": "gemm", "m": 4, "k": 3, "n": 5, "weight_elements": 15}
    product = {"name": "product", "kind": "gemm", "m": 8, "k": 4, "n": 5}
    operators = [{"name": "input", "kind": "input", "elements": 12}, up, key, product]
    operators += [{"name": "output", "kind": "output", "elements": 40}]
    edges = [["input", "up", 12], ["input", "key", 12], ["up", "product", 32], ["key", "product", 20]]
    edges += [["product", "output", 40]]
    document = {"schema": "dse.dataflow/1", "name": "products", "operators": operators, "edges": edges}
    training = differentiated(graph_of(document))
    for position, operator in enumerate(training.operators):
        incoming = training.incoming[position]
        if isinstance(operator.work, Gemm) and not operator.weight_elements:
            work = operator.work
            sizes = [work.batch * work.m * work.k, work.batch * work.k * work.n]
            assert [edge.elements for edge in incoming] == sizes, operator.name
