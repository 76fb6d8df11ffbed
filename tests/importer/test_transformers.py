"""Real transformers classes against the models built from hyper-parameters, and against PyTorch's own counts."""

import json

import pytest
import torch

from dse.models import build
from dse.models.recipe import TrainingRecipe
from dse.sources.workloads import model, workload
from hardware.inputs import InputError

CONFIGS = {
    "bert-large": (
        "BertForPreTraining",
        {"model_type": "bert", "hidden_size": 1024, "num_attention_heads": 16, "intermediate_size": 4096},
        "num_hidden_layers",
    ),
    "llama2-7b": ("LlamaForCausalLM", {"model_type": "llama", "max_position_embeddings": 4096}, "num_hidden_layers"),
    "gpt2-xl": ("GPT2LMHeadModel", {"model_type": "gpt2", "n_embd": 1600, "n_head": 25}, "n_layer"),
}
LAYERS = 3
RECIPES = [
    TrainingRecipe(fuse=False),
    TrainingRecipe(weight_gradients=False, linear_keeps_batch=False, optimizer="sgd"),
]


@pytest.fixture(scope="module", params=sorted(CONFIGS))
def case(request, tmp_path_factory):
    """(name, imported model, its config as a dictionary, class name)."""
    name = request.param
    cls, config, depth = CONFIGS[name]
    folder = tmp_path_factory.mktemp(name)
    document = {**config, depth: LAYERS}
    (folder / "config.json").write_text(json.dumps(document))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DSE_CACHE_DIR", str(folder / "cache"))
        yield name, workload(str(folder / "config.json")), document, cls


def real_module(document, cls):
    import transformers

    config = transformers.CONFIG_MAPPING[document["model_type"]].from_dict(document, attn_implementation="eager")
    config.use_cache = False
    with torch.device("meta"):
        return getattr(transformers, cls)(config).train()


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("microbatch", [1, 2])
def test_import_and_builder_agree_layer_by_layer(case, microbatch, recipe):
    name, imported, _, _ = case
    ours = imported.graph(microbatch, 1, recipe)
    built = build(model(name).model_copy(update={"layers": LAYERS}), microbatch, 1, recipe)
    assert ours.names == built.names
    assert ours.layer_index == built.layer_index
    assert ours.edges == built.edges
    assert ours.flops_per_sample == pytest.approx(built.flops_per_sample, rel=1e-3)
    assert ours.unpriced == ()
    for one, other in zip(ours.distinct_layers, built.distinct_layers, strict=True):
        assert one.parameters == other.parameters
        assert one.weight_bytes == other.weight_bytes
        assert one.forward.flops == pytest.approx(other.forward.flops, rel=1e-3)
        assert one.backward.flops == pytest.approx(other.backward.flops, rel=1e-3)
        assert one.activation_bytes == pytest.approx(other.activation_bytes, rel=1e-2)


def test_parameters_and_flops_are_the_real_modules(case):
    _, imported, document, cls = case
    from torch.utils.flop_counter import FlopCounterMode

    module = real_module(document, cls)
    graph = imported.graph(1, 1, TrainingRecipe(fuse=False))
    assert graph.parameters == sum(weight.numel() for weight in module.parameters())
    length = getattr(module.config, "max_position_embeddings", None) or module.config.n_positions
    tokens = torch.zeros(1, length, dtype=torch.long, device="meta")
    positions = torch.zeros(1, length, dtype=torch.long, device="meta")
    if cls == "BertForPreTraining":
        inputs = {"input_ids": tokens, "labels": tokens, "next_sentence_label": tokens[:, 0]}
    else:
        mask = torch.zeros(1, 1, length, length, device="meta")
        inputs = {"input_ids": tokens, "labels": tokens, "attention_mask": mask, "position_ids": positions}
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        loss = module(**inputs).loss
        forward = counter.get_total_flops()
        loss.backward()
    assert sum(layer.forward.flops for layer in graph.layers) == forward
    assert sum(layer.forward.flops + layer.backward.flops for layer in graph.layers) == counter.get_total_flops()


def test_slices_have_a_part_of_the_work(case):
    name, imported, _, _ = case
    if name == "gpt2-xl":
        assert imported.tensor_parallel == (1,), "25 heads divide by none of 2, 4, 8"
        return
    whole, half = (imported.graph(1, width, TrainingRecipe(fuse=False)) for width in (1, 2))
    block, sliced = whole.distinct_layers[1], half.distinct_layers[1]
    assert 2 * sliced.forward.flops == block.forward.flops
    assert half.flops_per_sample == whole.flops_per_sample
    assert sliced.sliced
    collectives = [operator for operator in sliced.forward if "all_reduce" in operator.name]
    assert len(collectives) == 2


def test_slices_of_llama_are_the_builders(case):
    name, imported, _, _ = case
    if name != "llama2-7b":
        pytest.skip("the vocabularies of the others do not divide")
    recipe = TrainingRecipe(fuse=False)
    ours = imported.graph(1, 4, recipe)
    hyperparameters = model(name).model_copy(update={"layers": LAYERS, "tensor_parallel": (1, 4)})
    for one, other in zip(ours.distinct_layers, build(hyperparameters, 1, 4, recipe).distinct_layers, strict=True):
        assert one.parameters == other.parameters
        assert one.forward.flops == other.forward.flops
        assert one.backward.flops == other.backward.flops
        assert one.activation_bytes == pytest.approx(other.activation_bytes, rel=1e-2)


def test_a_shorter_sequence_is_another_model(case, tmp_path):
    _, imported, document, _ = case
    path = tmp_path / "config.json"
    path.write_text(json.dumps(document))
    shorter = workload(str(path), sequence=128)
    assert shorter.graph(1, 1, RECIPES[0]).flops_per_sample < imported.graph(1, 1, RECIPES[0]).flops_per_sample
    assert shorter.name.endswith("-128")


QWEN = {  # Qwen2.5-7B, but for its 28 layers
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "attention_dropout": 0.0,
    "hidden_act": "silu",
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_attention_heads": 28,
    "num_hidden_layers": 2,
    "num_key_value_heads": 4,
    "max_position_embeddings": 131072,
    "max_window_layers": 28,
    "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0,
    "sliding_window": 131072,
    "use_sliding_window": False,
    "tie_word_embeddings": False,
    "vocab_size": 152064,
}
QWEN_LAYER = 2 * 3584 * 3584 + 2 * 3584 * 512 + 3584 + 2 * 512 + 3 * 3584 * 18944 + 2 * 3584


@pytest.mark.parametrize(
    "changes",
    [{}, {"use_sliding_window": True, "max_window_layers": 1, "sliding_window": 4096}],
    ids=["whole", "window"],
)
def test_long_sequences_in_large_microbatches_are_traced(tmp_path, monkeypatch, changes):
    """transformers looks at the position numbers of all samples, 8 × 32,768, to see whether sequences are packed."""
    monkeypatch.setenv("DSE_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "config.json"
    path.write_text(json.dumps(QWEN | changes))
    one, eight = (workload(path, sequence=32_768).graph(size, 1, TrainingRecipe(fuse=False)) for size in (1, 8))
    assert one.parameters == 2 * 152064 * 3584 + 3584 + 2 * QWEN_LAYER
    forward = [sum(layer.forward.flops for layer in graph.layers) for graph in (one, eight)]
    assert forward[1] == 8 * forward[0]


SMALL = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}


def test_images_among_tokens_are_refused_in_one_line(tmp_path, dse):
    document = {
        "model_type": "gemma3",
        "architectures": ["Gemma3ForConditionalGeneration"],
        "text_config": {**SMALL, "num_key_value_heads": 1, "head_dim": 16, "vocab_size": 300},
        "vision_config": {**SMALL, "image_size": 28, "patch_size": 14},
        "mm_tokens_per_image": 4,
    }
    (tmp_path / "config.json").write_text(json.dumps(document))
    answer = dse("partition", tmp_path / "config.json", "--package", "mcm-4", "--method", "greedy")
    assert answer.code == 2
    (line,) = answer.err.splitlines()
    assert "Gemma3ForConditionalGeneration: places images among its tokens" in line
    assert "text_config" in line
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gemma3_text", **document["text_config"]}))
    assert workload(str(tmp_path / "config.json")).graph(1, 1, TrainingRecipe()).parameters > 0


def test_sizes_that_a_class_refuses_name_the_config_and_no_file_of_a_library(tmp_path):
    file = tmp_path / "config.json"
    sizes = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": 64, "pad_token_id": 100}
    file.write_text(json.dumps({"model_type": "whisper", **sizes}))
    with pytest.raises(InputError) as error:
        workload(str(file)).graph(1, 1, TrainingRecipe())
    assert str(error.value).startswith(f"{file}: ")
    assert "Padding_idx must be within num_embeddings" in str(error.value)
    assert "site-packages" not in str(error.value)


def test_a_model_of_images_and_texts_is_fed_both(tmp_path):
    from dse.sources.resolve import resolve
    from dse.sources.traces import inference_trace_of

    document = {
        "model_type": "clip",
        "architectures": ["CLIPModel"],
        "text_config": {**SMALL, "vocab_size": 300, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0},
        "vision_config": {**SMALL, "image_size": 28, "patch_size": 14},
        "projection_dim": 16,
    }
    (tmp_path / "config.json").write_text(json.dumps(document))
    trace = inference_trace_of(resolve(str(tmp_path / "config.json")))
    assert {value.shape for value in trace.values if value.role == "input"} >= {(1, 3, 28, 28), (1, 77)}
    assert trace.parameters == sum(p.numel() for p in real_module(document, "CLIPModel").parameters())
