"""Imported, sliced by inference, and built: the same layers on each accelerator of a group."""

from collections import Counter

import pytest
import torch

from dse.graph.operator_graph import Layer, ModelGraph, OperatorGraph
from dse.importer.assemble import assemble, flops_per_sample
from dse.importer.canonical import canonical
from dse.models.hyperparameters import Hyperparameters
from dse.models.recipe import TrainingRecipe
from dse.models.transformer import build
from dse.sharding.slicing import slice_group, widths
from hardware.operations import Collective

BATCH, SEQUENCE, VOCABULARY, HIDDEN, LAYERS, HEADS, INNER = 2, 16, 128, 64, 3, 4, 96


def llama(kv_heads: int):
    import transformers

    config = transformers.LlamaConfig(
        hidden_size=HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=kv_heads,
        intermediate_size=INNER,
        vocab_size=VOCABULARY,
        max_position_embeddings=SEQUENCE,
        use_cache=False,
    )
    return transformers.LlamaForCausalLM(config)


def gpt2():
    import transformers

    config = transformers.GPT2Config(
        n_embd=HIDDEN,
        n_layer=LAYERS,
        n_head=HEADS,
        n_inner=INNER,
        vocab_size=VOCABULARY,
        n_positions=SEQUENCE,
        use_cache=False,
    )
    return transformers.GPT2LMHeadModel(config)


def bert():
    import transformers

    config = transformers.BertConfig(
        hidden_size=HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=INNER,
        vocab_size=VOCABULARY,
        max_position_embeddings=SEQUENCE,
    )
    return transformers.BertForMaskedLM(config)


LLAMA = {
    "activation": "silu_gated",
    "positions": "rotary",
    "normalisation": "rms_norm",
    "biases": False,
    "tied_embeddings": False,
}
BERT = {"dropout": 0.1, "norm_placement": "post", "embedding_norm": True, "head": "masked_lm", "token_types": 2}
MODELS = {
    "llama": (lambda: llama(HEADS), LLAMA, (1, 2, 4)),
    "llama-grouped": (lambda: llama(2), LLAMA | {"kv_heads": 2}, (1, 2)),
    "gpt2": (gpt2, {"dropout": 0.1}, (1, 2, 4)),
    "bert": (bert, BERT, (1, 2, 4)),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    """The canonical trace of a Hugging Face model, its hyper-parameters, and the widths it has heads for."""
    from dse.importer.torch.module import trace_module

    make, fields, expected = MODELS[request.param]
    with torch.device("meta"):
        module = make()
    tokens = torch.zeros(BATCH, SEQUENCE, dtype=torch.long)
    trace = canonical(trace_module(module, {"input_ids": tokens, "labels": tokens}, request.param, BATCH))
    sizes = {"layers": LAYERS, "hidden": HIDDEN, "heads": HEADS, "feed_forward": INNER}
    fields = sizes | {"vocabulary": VOCABULARY, "sequence": SEQUENCE} | fields
    return trace, Hyperparameters(name=request.param, **fields), expected


def collectives(graphs: list[OperatorGraph]) -> Counter[Collective]:
    operations = (operator.operation for graph in graphs for operator in graph)
    return Counter(operation for operation in operations if isinstance(operation, Collective))


def summed(layers: list[Layer]) -> dict[str, object]:
    return {
        "parameters": sum(layer.parameters for layer in layers),
        "forward FLOPs": sum(layer.forward.flops for layer in layers),
        "backward FLOPs": sum(layer.backward.flops for layer in layers),
        "forward collectives": collectives([layer.forward for layer in layers]),
        "backward collectives": collectives([layer.backward for layer in layers]),
    }


def parts(graph: ModelGraph) -> dict[str, list[Layer]]:
    """Embedding, blocks, and what stands behind them (which may be cut into several layers)."""
    first = next(position for position, name in enumerate(graph.names) if name.startswith("layer"))
    ends = {"embedding": list(graph.layers[:first]), "head": list(graph.layers[first + LAYERS :])}
    return ends | {f"block {i}": [graph.layers[first + i]] for i in range(LAYERS)}


def test_widths_are_those_of_the_builder(model):
    trace, _, expected = model
    assert widths(trace, (1, 2, 4, 8)) == expected


def test_slices_are_those_of_the_builder(model):
    """FLOPs, parameters and collectives are equal, part by part; activation bytes within 1 % (of the whole)."""
    trace, hyperparameters, expected = model
    for width in expected:
        built = build(hyperparameters, BATCH, width)
        imported = assemble(slice_group(trace, width), width, TrainingRecipe(), flops_per_sample(trace))
        wanted, found = parts(built), parts(imported)
        for part in wanted:
            assert summed(found[part]) == summed(wanted[part]), (width, part)
            kept = sum(layer.activation_bytes for layer in found[part])
            assert kept == pytest.approx(sum(layer.activation_bytes for layer in wanted[part]), rel=0.01), (width, part)


def test_equal_blocks_stay_one_layer(model):
    """Slicing does not tell equal blocks apart."""
    trace, _, expected = model
    graph = assemble(slice_group(trace, expected[-1]), expected[-1], TrainingRecipe(), flops_per_sample(trace))
    blocks = [layer for name, layer in zip(graph.names, graph.layers, strict=True) if name.startswith("layer")]
    assert len(blocks) == LAYERS
    assert len({id(layer) for layer in blocks}) == 1
