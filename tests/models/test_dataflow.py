"""Dataflow graphs of built models against the layers that ``dse codesign`` prices: FLOPs, bytes, order, operands."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dse.graph.dataflow.operators import Pass
from dse.models import build
from dse.models.dataflow import layers_graph
from dse.models.transformer import layer_names
from dse.sources.workloads import list_models, model
from hardware.inputs import InputError
from hardware.operations import Gemm
from tests.models.strategies import UNFUSED, hyperparameters

PASSES = st.sampled_from(["forward", "training"])
PORTS = ("input", "output")


def graph_and_layer(m, name, microbatch, graph_pass):
    graph = layers_graph(name, m, [name], microbatch, graph_pass)
    whole = build(m, microbatch, 1, UNFUSED)
    return graph, whole.layers[whole.names.index(name)]


@given(hyperparameters(), st.integers(1, 3), st.sampled_from(["embedding", "layer0", "head"]))
def test_flops_are_those_of_the_workload(m, microbatch, name):
    training, layer = graph_and_layer(m, name, microbatch, "training")
    assert training.flops == layer.forward.flops + layer.backward.flops
    assert sum(operator.flops for operator in training.operators if not operator.is_backward) == layer.forward.flops
    forward, _ = graph_and_layer(m, name, microbatch, "forward")
    assert forward.flops == layer.forward.flops


@pytest.mark.parametrize("name", list_models())
def test_training_a_block_is_three_times_the_forward_pass(name):
    m = model(name)
    forward, training = (layers_graph("block", m, ["layer0"], 1, each) for each in ("forward", "training"))
    assert training.flops == 3 * forward.flops
    work = {operator.name: operator.work for operator in training.operators}
    for operator in forward.operators:
        if isinstance(operator.work, Gemm):
            gradients = [work.get(f"{operator.name}_{each}_gradient") for each in ("data", "weight", "left", "right")]
            assert sorted(each.flops for each in gradients if each) == [operator.flops] * 2


@given(hyperparameters(), st.integers(1, 3), st.sampled_from(["embedding", "layer0", "head"]))
def test_kept_elements_are_the_bytes_that_the_layer_keeps(m, microbatch, name):
    """Of 2 bytes each; a mask of a byte an element is rounded up to whole elements.

    Of one token the tape counts the tensor that the pooler selects beside the same tensor as a whole.
    """
    assume(m.sequence > 1 or name != "head")
    graph, layer = graph_and_layer(m, name, microbatch, "training")
    rounded = sum(graph.operators[edge.source].work.elements % 2 for edge in graph.saved if edge.tensor == "mask")
    assert 2 * graph.saved_elements == layer.activation_bytes + rounded


@given(hyperparameters(), st.integers(1, 3), st.sampled_from(["embedding", "layer0", "head"]))
def test_operators_and_their_order_are_those_of_the_layer(m, microbatch, name):
    graph, layer = graph_and_layer(m, name, microbatch, "training")
    names = [operator.name for operator in graph.operators]
    for is_backward, operators in ((False, layer.forward), (True, layer.backward)):
        ours = {
            each.name
            for each in graph.operators
            if each.is_backward == is_backward and each.kind not in PORTS and not each.name.endswith("_accumulation")
        }
        assert ours == {each.name for each in operators}
        called = [each.name for each in operators]
        order = {(called[source], called[target]) for source, target in operators.edges}
        joined = ((names[edge.source], names[edge.target]) for edge in graph.edges)
        assert {(source, target) for source, target in joined if source in ours and target in ours} == order


def _table(m, operator, microbatch):
    """Elements that an operator reads and no edge carries: masks, sines and cosines, rows of tables, a bias."""
    if operator.name == "mask":
        return m.sequence**2
    if operator.kind.startswith("rotary"):
        return 2 * m.sequence * m.head_width
    return 0


@given(hyperparameters(), st.integers(1, 3), st.sampled_from(["layer0", "head"]), PASSES)
def test_every_operator_reads_its_operands_through_edges_and_weights(m, microbatch, name, graph_pass):
    if graph_pass == "forward":
        m = m.model_copy(update={"dropout": 0.0, "attention_dropout": 0.0})
    graph, layer = graph_and_layer(m, name, microbatch, graph_pass)
    operations = {each.name: each.operation for each in (*layer.forward, *layer.backward)}
    for position, operator in enumerate(graph.operators):
        if operator.name not in operations or operator.kind in PORTS:
            continue
        operation, read = operations[operator.name], sum(edge.elements for edge in graph.incoming[position])
        if isinstance(operator.work, Gemm):
            assert operator.work == operation
            biases = operator.weight_elements - operator.work.k * operator.work.n if operator.weight_elements else 0
            assert biases in (0, operator.work.n)
            assert read + operator.weight_elements - biases == operation.input_elements
        elif operator.kind != "cross_entropy_backward":  # whose root is the loss itself
            assert read + operator.weight_elements + _table(m, operator, microbatch) == operation.read_elements


@given(hyperparameters(), st.integers(1, 3), PASSES)
def test_every_edge_carries_what_its_source_writes(m, microbatch, graph_pass):
    """Elementwise operators write what they pass over; gradient sums one of their terms; sums over rows a row."""
    graph = layers_graph("block", m, ["layer0"], microbatch, graph_pass)
    for edge in graph.edges:
        source = graph.operators[edge.source]
        if edge.tensor == "mask":
            assert edge.elements == -(-source.work.elements // 2)
        elif edge.tensor == "weights":
            assert edge.elements == source.weight_elements
        elif isinstance(source.work, Gemm):
            assert edge.elements == source.work.output_elements
        elif source.name.endswith("_gradient_sum"):
            terms = len(graph.incoming[edge.source])
            assert edge.elements * (terms - 1) == source.work.elements
        elif source.kind == "bias_backward":
            assert edge.elements == source.work.elements // source.work.row
        else:
            assert edge.elements == source.work.elements


@given(hyperparameters(), st.integers(1, 2))
def test_the_gradient_of_every_weight_is_added_to_a_sum_of_its_size(m, microbatch):
    graph, layer = graph_and_layer(m, "layer0", microbatch, "training")
    assert graph.weights == layer.parameters
    sums = [each for each in graph.operators if each.is_backward and isinstance(each.work, Pass) and each.kind == "add"]
    assert sum(each.weight_elements for each in sums) == layer.parameters
    outputs = {each.name: each.work.elements for each in graph.operators if each.kind == "output"}
    stream = microbatch * m.sequence * m.hidden
    assert outputs == {"output": stream, "input_gradient": stream}


@given(hyperparameters(), st.integers(1, 2), PASSES)
def test_layers_in_a_row_are_their_layers_joined(m, microbatch, graph_pass):
    names = layer_names(m)
    whole = layers_graph("whole", m, names, microbatch, graph_pass)
    parts = [layers_graph(name, m, [name], microbatch, graph_pass) for name in names]
    assert whole.flops == sum(part.flops for part in parts)
    assert whole.weights == sum(part.weights for part in parts)
    joints = (len(parts) - 1) * (2 if graph_pass == "forward" else 4)
    assert len(whole.operators) == sum(len(part.operators) for part in parts) - joints
    if graph_pass == "training":
        assert whole.flops == build(m, microbatch, 1, UNFUSED).flops_per_sample * microbatch


def test_a_microbatch_below_one_is_refused():
    with pytest.raises(InputError, match="bert-large: microbatch: 0: must be at least 1"):
        layers_graph("x", model("bert-large"), ["layer0"], 0, "forward")
