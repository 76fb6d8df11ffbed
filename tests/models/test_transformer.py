"""The graphs of a transformer: their shape, their laws, and what each choice of the recipe changes."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.models import TrainingRecipe, build, recipe_for
from dse.sources.workloads import list_models, model
from hardware.cost_model import cost_model
from hardware.operations import Fused, Gemm, Vector, core_kind
from tests.models.strategies import PHAZE_2024, UNFUSED, hyperparameters, recipes


def names(graph):
    return [operator.name for operator in graph]


def predecessors(graph):
    return {
        operator.name: {graph.operators[source].name for source, target in graph.edges if target == position}
        for position, operator in enumerate(graph)
    }


def vector_parts(graph):
    """Every vector operation, those inside fused operators too."""
    for operator in graph:
        match operator.operation:
            case Vector() as work:
                yield work
            case Fused(epilogue=chain):
                yield from chain


def products(graph):
    return sum(isinstance(operator.operation, Gemm | Fused) for operator in graph)


@given(hyperparameters(), st.integers(1, 4), st.sampled_from([1, 2, 4]), recipes())
def test_any_model_builds_a_valid_graph(m, batch, width, recipe):
    graph = build(m, batch, width, recipe)
    assert graph.names == ("embedding", *(f"layer{index}" for index in range(m.layers)), "head")
    assert len(graph.distinct_layers) == 3
    assert graph.layer_index == (0, *[1] * m.layers, 2)
    for layer in graph.distinct_layers:
        assert layer.weight_bytes == sum(operator.weights for operator in layer.forward) * recipe.element_bytes
        assert layer.parameters * recipe.element_bytes <= layer.weight_bytes
        assert sum(operator.weights for operator in layer.backward) == 0
        for step in layer.update:
            assert step.operation.kind == recipe.optimizer
            assert step.operation.elements * recipe.element_bytes == layer.weight_bytes
        for operators in (layer.forward, layer.backward):
            assert set(map(core_kind, (operator.operation for operator in operators))) <= {"tensor", "vector", "fused"}
            for work in vector_parts(operators):
                assert min(work.elements, work.read_elements, work.write_elements) > 0
                assert work.elements % work.row == 0


@given(hyperparameters(), st.integers(1, 3), st.sampled_from([1, 2, 4]), st.sampled_from(["batched", "per_head"]))
def test_twice_the_microbatch_is_twice_the_work(m, batch, width, attention):
    recipe = TrainingRecipe(attention=attention)
    one = build(m, batch, width, recipe)
    two = build(m, 2 * batch, width, recipe)
    for single, double in zip(one.distinct_layers, two.distinct_layers, strict=True):
        assert double.forward.flops == 2 * single.forward.flops
        assert double.backward.flops == 2 * single.backward.flops
        assert double.activation_bytes == 2 * single.activation_bytes
        assert double.weight_bytes == single.weight_bytes
        assert names(double.forward) == names(single.forward)
    assert [2 * size for _, _, size in one.edges] == [size for _, _, size in two.edges]
    assert one.flops_per_sample == two.flops_per_sample


@given(hyperparameters(), st.sampled_from([1, 2]), recipes())
def test_fusion_changes_neither_work_nor_weights(m, width, recipe):
    fused = build(m, 2, width, replace(recipe, fuse=True))
    plain = build(m, 2, width, replace(recipe, fuse=False))
    for one, other in zip(fused.distinct_layers, plain.distinct_layers, strict=True):
        assert replace(one, forward=other.forward, backward=other.backward) == other
        for direction in ("forward", "backward"):
            before, after = getattr(other, direction), getattr(one, direction)
            assert after.flops == before.flops
            assert sorted(part for name in names(after) for part in name.split("+")) == sorted(names(before))
            assert sum(work.elements for work in vector_parts(after)) == sum(
                work.elements for work in vector_parts(before)
            )


def reachable(graph):
    """For every operator, the names of all that come after it."""
    after = {name: set() for name in names(graph)}
    for position in reversed(graph.topological_order):
        for source, target in graph.edges:
            if source == position:
                after[names(graph)[source]] |= {names(graph)[target]} | after[names(graph)[target]]
    return after


@settings(max_examples=25)
@given(hyperparameters(), st.sampled_from([1, 2]), st.sampled_from(["batched", "per_head"]))
def test_gradients_flow_against_the_forward_edges(m, width, attention):
    """a comes before b in the forward pass exactly where a gradient of b's comes before one of a's in the backward."""
    recipe = TrainingRecipe(fuse=False, attention=attention)
    for layer in build(m, 1, width, recipe).distinct_layers[1:]:
        forward, backward = reachable(layer.forward), reachable(layer.backward)
        endings = ("_backward", "_data_gradient", "_left_gradient", "_right_gradient")
        gradients = {name: {name + end for end in endings} & backward.keys() for name in forward}
        with_gradients = [name for name in forward if gradients[name]]
        assert with_gradients
        for a in with_gradients:
            for b in with_gradients:
                flows = any(gradients[a] & backward[gradient] for gradient in gradients[b])
                assert flows == (b in forward[a])


def test_the_block_of_bert_has_the_edges_of_post_norm():
    """Post-norm: the residual stream enters queries, keys, values and the addition; norms stand behind additions."""
    before = predecessors(build(model("bert-large"), 1, 1, UNFUSED).layers[1].forward)
    assert before == {
        "query": set(),
        "key": set(),
        "value": set(),
        "scores": {"query", "key"},
        "scale": {"scores"},
        "mask": {"scale"},
        "softmax": {"mask"},
        "attention_dropout": {"softmax"},
        "context": {"attention_dropout", "value"},
        "attention_output": {"context"},
        "attention_output_dropout": {"attention_output"},
        "attention_residual": {"attention_output_dropout"},
        "attention_norm": {"attention_residual"},
        "up": {"attention_norm"},
        "gelu": {"up"},
        "down": {"gelu"},
        "down_dropout": {"down"},
        "feed_forward_residual": {"attention_norm", "down_dropout"},
        "feed_forward_norm": {"feed_forward_residual"},
    }


def test_the_block_of_llama_has_rotary_and_gated_edges():
    before = predecessors(build(model("llama2-7b"), 1, 1, UNFUSED).layers[1].forward)
    assert before["query_rotary"] == {"query"}
    assert before["scores"] == {"query_rotary", "key_rotary"}
    assert before["context"] == {"softmax", "value"}
    assert before["attention_residual"] == {"attention_output"}
    assert before["gated"] == {"silu", "up"}
    assert before["feed_forward_residual"] == {"attention_residual", "down"}


def test_gradients_of_a_tensor_with_several_consumers_are_summed():
    before = predecessors(build(model("gpt2-xl"), 1, 1, UNFUSED).layers[1].backward)
    three = {"query_data_gradient", "key_data_gradient", "value_data_gradient"}
    assert before["attention_norm_gradient_sum"] == three
    assert before["input_gradient_sum"] == {"attention_norm_backward", "attention_residual_gradient_sum"}
    assert before["attention_residual_gradient_sum"] == {"feed_forward_norm_backward"}


def test_weight_gradients_are_sinks():
    for name in list_models():
        for layer in build(model(name), 1, 1).distinct_layers:
            sources = {source for source, _ in layer.backward.edges}
            for position, operator in enumerate(layer.backward):
                if operator.name.endswith(("weight_gradient", "bias_gradient", "table_gradient")):
                    assert position not in sources


def test_every_linear_layer_has_its_gradients():
    block = build(model("gpt2-xl"), 2, 1, UNFUSED).layers[1]
    backward = {operator.name: operator.operation for operator in block.backward}
    assert backward["up_data_gradient"] == Gemm(m=2048, n=1600, k=6400)
    assert backward["up_weight_gradient"] == Gemm(m=1600, n=6400, k=2048)
    assert backward["up_bias_gradient"] == Vector("bias_backward", 2048 * 6400, 2048 * 6400, 6400, row=2048)
    assert backward["scores_left_gradient"] == Gemm(m=1024, n=64, k=1024, batch=50)
    assert backward["scores_right_gradient"] == Gemm(m=64, n=1024, k=1024, batch=50)


def test_attention_per_head_has_one_set_of_operators_for_each():
    """Five operators a head and ten others: GPT-3's block on 8 accelerators has 12 heads."""
    m = model("gpt3-175b").model_copy(update={"heads": 16, "kv_heads": 16})
    block = build(m, 1, 1, TrainingRecipe(attention="per_head")).layers[1]
    assert len(block.forward) == 16 * 5 + 10
    before = predecessors(block.forward)
    assert before["head7_scores+head7_scale"] == {"query", "key"}
    assert before["head7_context"] == {"head7_attention_dropout", "value"}
    assert before["attention_output+attention_output_dropout"] == {f"head{index}_context" for index in range(16)}
    unfused = build(m, 1, 1, TrainingRecipe(attention="per_head", fuse=False)).layers[1]
    assert len(unfused.forward) == 16 * 6 + 13
    backward = predecessors(unfused.backward)
    assert backward["query_data_gradient"] == {f"head{index}_scores_left_gradient" for index in range(16)}
    assert backward["value_data_gradient"] == {f"head{index}_context_right_gradient" for index in range(16)}


def test_without_weight_gradients_a_product_has_one_gradient():
    m = model("gpt2-xl")
    published = build(m, 1, 1, replace(UNFUSED, weight_gradients=False)).layers[1]
    assert products(published.backward) == products(published.forward)
    assert published.backward.flops == published.forward.flops
    assert not any(name.endswith(("weight_gradient", "bias_gradient")) for name in names(published.backward))
    assert predecessors(published.backward)["key_data_gradient"] == {"scores_left_gradient"}


def test_without_the_batch_linear_layers_have_a_samples_rows():
    m = model("gpt2-xl")
    lost = {o.name: o.operation for o in build(m, 8, 1, replace(UNFUSED, linear_keeps_batch=False)).layers[1].forward}
    kept = {o.name: o.operation for o in build(m, 8, 1, UNFUSED).layers[1].forward}
    assert lost["up"] == Gemm(m=1024, n=6400, k=1600)
    assert kept["up"] == Gemm(m=8 * 1024, n=6400, k=1600)
    assert lost["scores"] == kept["scores"]
    assert lost["gelu"] == kept["gelu"]


def test_the_optimizer_step_moves_its_bytes():
    """Adam in mixed precision moves 14 bytes each way a parameter, SGD reads 4 and writes 2."""
    assert TrainingRecipe().optimizer_step(10) == Vector("adam", 10, 70, 70)
    assert TrainingRecipe(optimizer="sgd").optimizer_step(10) == Vector("sgd", 10, 20, 10)
    assert TrainingRecipe(element_bytes=1).optimizer_step(10) == Vector("adam", 10, 130, 130)
    whole = TrainingRecipe(element_bytes=4, optimizer_bytes=8, has_master_weights=False)
    assert whole.optimizer_step(10) == Vector("adam", 10, 40, 30)


def test_the_tied_output_matrix_is_held_and_updated_at_both_ends():
    m = model("gpt2-xl")
    tied, untied = build(m, 1, 1), build(m.model_copy(update={"tied_embeddings": False}), 1, 1)
    table = m.vocabulary * m.hidden
    assert untied.layers[-1].parameters - tied.layers[-1].parameters == table
    assert tied.layers[-1].weight_bytes == untied.layers[-1].weight_bytes > 2 * table
    assert tied.layers[-1].update == untied.layers[-1].update


@pytest.mark.parametrize(("element_bytes", "state_bytes"), [(1, 14), (2, 16), (4, 16), (8, 24)])
def test_smaller_elements_do_not_shrink_the_optimizers_state(element_bytes, state_bytes):
    # weight and gradient of element_bytes each; 32-bit momentum, variance and, below 4 bytes, master weight
    rules = cost_model().of_element_bytes(element_bytes)
    assert rules.state_factor * element_bytes == state_bytes
    recipe = recipe_for(rules)
    step = recipe.optimizer_step(100)
    assert step.write_elements * element_bytes == 100 * (state_bytes - element_bytes)
    assert recipe.element_bytes == element_bytes


@pytest.mark.parametrize(("name", "expected"), [("consistent", TrainingRecipe()), ("phaze-2024", PHAZE_2024)])
def test_cost_models_name_their_recipe(name, expected):
    assert recipe_for(cost_model(name)) == expected
