"""A ``config.json`` against the model that transformers builds from it, and what of it is refused."""

import copy
import json

import pytest

from dse.plan.check_costs import plan_costs
from dse.plan.evaluate import evaluate
from dse.plan.export.expressible import NotExpressibleError
from dse.plan.export.megatron import megatron_arguments
from dse.plan.plan_arrays import PlanArrays
from dse.plan.transformers_configs import of_config
from hardware.inputs import InputError
from tests.plan.problems import plan, problem

BASE = {
    "num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 8, "num_key_value_heads": 2,
    "intermediate_size": 160, "vocab_size": 256, "max_position_embeddings": 512,
}  # fmt: skip
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 48}
LATENT = {
    "num_key_value_heads": 8, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 12,
    "n_routed_experts": 8,
}  # fmt: skip
FAMILIES = {
    "llama": {},
    "llama, biases": {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True},
    "mistral": {},
    "mistral, biases that it does not read": {"attention_bias": True},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "phi3": {"pad_token_id": 0, "eos_token_id": 1},
    "qwen2": {},
    "qwen3": {"head_dim": 16},
    "qwen3, biases and the usual width of heads": {"attention_bias": True},
    "qwen3_moe": {**EXPERTS, "num_experts": 8, "head_dim": 16, "mlp_only_layers": [0, 1]},
    "glm4_moe": {**EXPERTS, "n_routed_experts": 8, "n_shared_experts": 1, "first_k_dense_replace": 1, "head_dim": 16,
                 "attention_bias": True, "use_qk_norm": True},
    "gpt_oss": {"num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 8, "sliding_window": 128,
                "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}},
    "deepseek_v2": {**EXPERTS, **LATENT, "n_shared_experts": 2, "first_k_dense_replace": 1, "q_lora_rank": None,
                    "attention_bias": True},
    "deepseek_v3": {**EXPERTS, **LATENT, "n_shared_experts": 1, "first_k_dense_replace": 2, "q_lora_rank": 24},
    "gemma": {},
    "gemma2": {"head_dim": 16},
    "granite": {"attention_bias": True},
    "granitemoe": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "smollm3": {"pad_token_id": 0},
    "starcoder2": {},
    "exaone4": {},
    "seed_oss": {"head_dim": 16},
    "ernie4_5": {"head_dim": 16},
    "glm": {"head_dim": 16, "pad_token_id": 0},
    "glm4": {"head_dim": 16, "pad_token_id": 0},
    "arcee": {},
    "deepseek_v32": {**EXPERTS, **LATENT, "q_lora_rank": 24, "index_topk": 64, "index_n_heads": 4,
                     "index_head_dim": 16, "n_group": 4, "topk_group": 2},
    "glm_moe_dsa": {**EXPERTS, **LATENT, "q_lora_rank": 24, "index_topk": 64},
    "glm_moe_dsa, layers that choose as the one before": {
        **EXPERTS, **LATENT, "q_lora_rank": 24, "index_topk_freq": 2, "index_skip_topk_offset": 1},
    "deepseek_v3, biases": {**EXPERTS, **LATENT, "q_lora_rank": 24, "attention_bias": True},
    "qwen3_moe, experts in every second layer": {**EXPERTS, "num_experts": 8, "head_dim": 16, "decoder_sparse_step": 2},
    "stablelm": {"use_parallel_residual": True, "use_qkv_bias": True},
    "internlm3": {"head_dim": 8},
    "granitemoeshared": {"num_local_experts": 4, "num_experts_per_tok": 2, "shared_intermediate_size": 320},
    "phimoe": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "glm4_moe_lite": {**EXPERTS, **LATENT, "q_lora_rank": 24},
    "solar_open": {**EXPERTS, "n_routed_experts": 8, "head_dim": 8},
    "exaone_moe": {**EXPERTS, "num_experts": 8, "head_dim": 8},
    "exaone": {},
    "granite_swa": {"layer_rope_theta": [1e4, 0, 1e4, 1e4]},
    "granitemoe_swa": {"num_local_experts": 4, "num_experts_per_tok": 2, "shared_intermediate_size": 320},
    "hyperclovax": {},
    "iquestcoder": {"head_dim": 16},
    "jais2": {},
    "hy_v3": {**EXPERTS, "num_experts": 8, "head_dim": 16},
    "minicpm3": {**LATENT, "q_lora_rank": 24},
    "youtu": {**LATENT, "q_lora_rank": 24},
    "sarvam_moe": {**EXPERTS, "n_routed_experts": 8, "head_dim": 16},
    "sarvam_mla": {**EXPERTS, **LATENT},
    "vaultgemma": {"head_dim": 16},
}  # fmt: skip
BY_LAYER = {
    "gemma4_text": {"head_dim": 16, "hidden_size_per_layer_input": 0, "global_head_dim": 32},
    "gemma4_text, keys that are values": {
        "head_dim": 16, "hidden_size_per_layer_input": 0, "global_head_dim": 32, "attention_k_eq_v": True,
        "num_global_key_value_heads": 1},
    "gemma4_unified_text": {"head_dim": 16},
    "mimo_v2_flash": {**EXPERTS, "n_routed_experts": 8, "head_dim": 24, "v_head_dim": 16, "attention_bias": True},
    "lfm3": {"head_dim": 16, "pad_token_id": 0},
}  # fmt: skip


@pytest.mark.parametrize("name", [*FAMILIES, *BY_LAYER])
def test_parameters_are_those_of_the_model_that_transformers_builds(name):
    transformers = pytest.importorskip("transformers")
    import torch

    family, sizes = name.partition(",")[0], BASE | {**FAMILIES, **BY_LAYER}[name]
    config = transformers.AutoConfig.for_model(family, **sizes)
    with torch.device("meta"):
        built = transformers.AutoModelForCausalLM.from_config(config)
    expected = sum(each.numel() for each in built.parameters())
    assert of_config(sizes | {"model_type": family}, "stated", "config.json").parameters == expected
    # what transformers itself writes has every key, some of other names
    assert of_config(json.loads(config.to_json_string()), "written", "config.json").parameters == expected


NEARLY = {
    "ministral3": {"head_dim": 16},
    "nemotron": {},
    "gemma3_text": {"head_dim": 16},
    "olmo2": {},
    "olmo3": {},
    "olmoe": {"num_experts": 4, "num_experts_per_tok": 2},
    "qwen2_moe": {**EXPERTS, "num_experts": 8, "shared_expert_intermediate_size": 96},
    "ernie4_5_moe": {"moe_num_experts": 8, "moe_k": 2, "moe_intermediate_size": 48, "moe_num_shared_experts": 1,
                     "moe_layer_start_index": 1, "moe_layer_end_index": 3},
    "dots1": {**EXPERTS, "n_routed_experts": 8, "n_shared_experts": 1, "first_k_dense_replace": 1, "head_dim": 16},
    "apertus": {},
    "afmoe": {**EXPERTS, "num_experts": 8, "num_shared_experts": 1, "head_dim": 16},
    "bitnet": {},
    "flint": {**EXPERTS, "num_experts": 8, "head_dim": 16, "shared_expert_intermediate_size": 96},
    "kolibri1": {**EXPERTS, "num_experts": 8, "head_dim": 16, "shared_expert_intermediate_size": 48},
    "mellum": {**EXPERTS, "num_experts": 8, "head_dim": 16},
    "nanochat": {},
    "olmo": {},
    "gemma4_text": {"head_dim": 16, "hidden_size_per_layer_input": 0, "enable_moe_block": True, "num_experts": 4,
                    "num_experts_per_tok": 2, "top_k_experts": 2, "moe_intermediate_size": 80},
    "laguna": {**EXPERTS, "num_experts": 8, "head_dim": 8, "shared_expert_intermediate_size": 96,
               "layer_types": ["full_attention", "sliding_attention"] * 2,
               "num_attention_heads_per_layer": [8, 12] * 2},
    "apertus1p5_text": {"pad_token_id": 0},
}  # fmt: skip
"""Families with norms of whole rows of heads, gates of shared experts, biases of the output alone or corrections of
scores, which are not counted: at most five numbers for each of a layer's channels, of thousands."""


@pytest.mark.parametrize("family", NEARLY)
def test_parameters_are_nearly_those_of_the_model_that_transformers_builds(family):
    transformers = pytest.importorskip("transformers")
    import torch

    sizes = BASE | NEARLY[family]
    with torch.device("meta"):
        built = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(family, **sizes))
    expected = sum(each.numel() for each in built.parameters())
    read = of_config(sizes | {"model_type": family}, "stated", "config.json")
    assert abs(read.parameters - expected) <= 5 * sizes["num_hidden_layers"] * sizes["hidden_size"]


def test_the_language_model_of_a_nested_configuration_is_read_and_its_faults_have_its_path():
    nested = {"model_type": "gemma3", "text_config": BASE | {"model_type": "gemma3_text", "head_dim": 16}}
    plain = BASE | {"model_type": "gemma3_text", "head_dim": 16}
    assert of_config(nested, "a", "config.json") == of_config(plain, "a", "config.json")
    del nested["text_config"]["hidden_size"]
    with pytest.raises(InputError, match=r"^config.json: text_config.hidden_size: must be given$"):
        of_config(nested, "a", "config.json")


@pytest.mark.parametrize(
    ("change", "kinds"),
    [
        ({"model_type": "zamba2", "hybrid_layer_ids": [2], "mamba_d_state": 64}, "Mamba and shared transformer"),
        ({"model_type": "plamo2", "mamba_d_state": 16}, "Mamba"),
        ({"model_type": "rwkv", "rescale_every": 6, "attention_hidden_size": 64}, "RWKV"),
        ({"model_type": "new_hybrid", "layer_types": ["linear_attention", "full_attention"] * 2}, "linear_attention"),
        ({"model_type": "longcat_flash_ngram", "zero_expert_num": 256}, "shortcut-connected"),
        ({"model_type": "deepseek_v4", "hc_mult": 4, "compress_rates": {}}, "hyper-connected"),
        ({"model_type": "qwen4_exp_text", "indexer_compress_ratio": 4}, "compressed attention"),
        ({"model_type": "gemma4_text", "hidden_size_per_layer_input": 256}, "per-layer embedding"),
        ({"model_type": "qwen3", "swa_num_key_value_heads": 8}, "unequal-head attention"),
        ({"model_type": "jetmoe", "num_local_experts": 8}, "mixture-of-attention"),
        ({"model_type": "qwen3", "sparse_attention_config": {"sparse_block_size": 128}}, "block-sparse attention"),
        ({"model_type": "deepseek_v3", "index_topk": 2048}, "indexed attention"),
        ({"model_type": "nemotron_h", "moe_latent_size": 64, "hybrid_override_pattern": "ME*"}, "latent expert"),
        ({"model_type": "gemma3n", "text_config": {"model_type": "gemma3n_text", "altup_num_inputs": 4}}, "AltUp"),
    ],
)
def test_a_hybrid_is_refused_by_the_name_of_the_layers_that_are_not_known(change, kinds):
    with pytest.raises(InputError, match=f"model_type: .*: has {kinds} layers, which are not known$"):
        of_config(BASE | change, "a", "config.json")


@pytest.mark.parametrize("family", ["gemma2", "gemma3_text", "olmo3"])
def test_layers_with_norms_behind_cost_what_the_checker_finds_and_are_in_no_settings_of_megatron(family):
    model = of_config(BASE | {"model_type": family, "head_dim": 16}, "a", "config.json")
    posed, each = problem(model, batch=8, sequence=512), plan(data=8, zero=1)
    costs = evaluate(posed, PlanArrays.of([each]))
    expected = plan_costs(posed, each)
    assert costs.step_s[0] == pytest.approx(expected.step_s, rel=1e-11)
    assert costs.memory_bytes[0] == pytest.approx(expected.memory_bytes, rel=1e-11)
    with pytest.raises(NotExpressibleError, match="norms behind"):
        megatron_arguments(posed, each)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        (name, key)
        for name, sizes in {**FAMILIES, **BY_LAYER}.items()
        for key in BASE | sizes
        if not key.endswith("token_id")
    ],
)
def test_a_key_that_is_left_out_has_the_value_of_transformers_or_must_be_given(name, key):
    transformers = pytest.importorskip("transformers")
    import torch

    family = name.partition(",")[0]
    sizes = {
        each: value
        for each, value in (BASE | {"num_attention_heads": 32} | {**FAMILIES, **BY_LAYER}[name]).items()
        if each != key
    }
    try:
        read = of_config(sizes | {"model_type": family}, "short", "config.json")
    except InputError as error:
        refused = str(error)
    else:
        with torch.device("meta"):
            built = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(family, **sizes))
        assert read.parameters == sum(each.numel() for each in built.parameters())
        return
    assert refused == f"config.json: {key}: must be given" or refused.endswith("layers, which are not known")


@pytest.mark.parametrize(
    ("family", "sizes", "window"),
    [
        ("mistral", {"sliding_window": 128}, (128, 1.0)),
        ("mistral", {"sliding_window": None}, None),
        ("mistral", {}, (4096, 1.0)),  # transformers' own default
        ("phi3", {}, None),
        ("qwen2", {"sliding_window": 128, "max_window_layers": 1}, None),
        ("qwen2", {"sliding_window": 128, "max_window_layers": 1, "use_sliding_window": True}, (128, 0.75)),
        ("qwen2", {"sliding_window": 128, "max_window_layers": 4, "use_sliding_window": True}, None),
        ("qwen3", {"sliding_window": 128, "use_sliding_window": True,
                   "layer_types": ["sliding_attention", "full_attention"] * 2}, (128, 0.5)),
        ("qwen2", {"sliding_window": None, "max_window_layers": 1, "use_sliding_window": True}, None),
        ("gpt_oss", {"sliding_window": 128, "num_local_experts": 4, "num_experts_per_tok": 2}, (128, 0.5)),
        ("gpt_oss", {"num_local_experts": 4, "num_experts_per_tok": 2, "layer_types": None}, (128, 0.5)),
        ("gpt_oss", {"num_local_experts": 4, "num_experts_per_tok": 2, "num_hidden_layers": 5}, (128, 0.6)),
        ("gpt_oss", {"sliding_window": 128, "num_local_experts": 4, "num_experts_per_tok": 2,
                     "layer_types": ["full_attention"] * 4}, None),
        ("exaone4", {"sliding_window_pattern": "LLLG"}, (4096, 0.75)),
        ("exaone4", {"sliding_window_pattern": "LG"}, (4096, 0.5)),
        ("exaone4", {"sliding_window": None, "sliding_window_pattern": None}, None),
        ("gemma3_text", {"sliding_window_pattern": None,
                         "layer_types": ["sliding_attention", "full_attention"] * 2}, (4096, 0.5)),
    ],
)  # fmt: skip
def test_windows_are_those_of_the_family(family, sizes, window):
    read = of_config(BASE | sizes | {"model_type": family}, "windows", "config.json").window
    assert (read and (read.tokens, read.share)) == window


def test_folders_may_have_names_that_models_may_not():
    named = [of_config(BASE | {"model_type": "llama"}, name, "").name for name in ("my model (7B)", ".cache", "模型")]
    assert named == ["my-model-7B-", "cache", "llama"]


STEP = BASE | EXPERTS | {
    "head_dim": 8, "share_expert_dim": 96, "sliding_window": 64, "n_routed_experts": 8,
    "layer_types": ["full_attention", "sliding_attention"] * 2, "mlp_layer_types": ["dense"] + ["sparse"] * 3,
}  # fmt: skip


def test_heads_by_layer_of_step_are_those_that_transformers_builds():
    transformers = pytest.importorskip("transformers")
    import torch

    config = transformers.Step3p7TextConfig(**copy.deepcopy(STEP), num_sliding_attention_heads=12)
    with torch.device("meta"):
        built = transformers.Step3p7TextModel(config)
    expected = sum(each.numel() for each in built.parameters()) + 256 * 64  # the output matrix
    written = of_config(json.loads(config.to_json_string()), "step", "config.json")
    assert written.parameters == expected
    released = {key: value for key, value in STEP.items() if key not in ("num_key_value_heads", "mlp_layer_types")} | {
        "model_type": "step3p5", "num_attention_groups": 2, "moe_layers_enum": "1,2,3", "num_nextn_predict_layers": 1,
        "attention_other_setting": {"num_attention_heads": 12, "num_attention_groups": 2, "head_dim": 8},
        "layer_types": ["full_attention", "sliding_attention"] * 2 + ["sliding_attention"],
        "rope_theta": [1e4, 1e6] * 2 + [1e6],
    }  # fmt: skip
    stated = of_config({"model_type": "step3p7", "text_config": released}, "step", "config.json")
    assert (stated.parameters, stated.layer_kinds, stated.window) == (expected, written.layer_kinds, written.window)
    assert (stated.prediction_layers, stated.numerics.rotary_base) == (1, None)


def test_heads_by_layer_of_mimo_are_as_released():
    """The keys of its own file, for 309 billion parameters (Xiaomi, MiMo-V2-Flash, 2025)."""
    pattern = [0] + [1, 1, 1, 1, 0] + [1, 1, 1, 1, 1, 0] * 7
    sizes = {
        "model_type": "mimo_v2_flash", "hidden_size": 4096, "intermediate_size": 16384, "num_hidden_layers": 48,
        "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 192, "v_head_dim": 128, "vocab_size": 152576,
        "swa_num_attention_heads": 64, "swa_num_key_value_heads": 8, "swa_head_dim": 192, "swa_v_head_dim": 128,
        "hybrid_layer_pattern": pattern, "moe_layer_freq": [0] + [1] * 47, "n_routed_experts": 256,
        "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "sliding_window": 128, "sliding_window_size": 128,
        "add_swa_attention_sink_bias": True, "add_full_attention_sink_bias": False, "n_group": 1, "topk_group": 1,
    }  # fmt: skip
    read = of_config(sizes, "mimo", "config.json")
    assert read.parameters == pytest.approx(309e9, rel=0.005)
    assert (read.window.tokens, read.window.share) == (129, 39 / 48)
    assert (read.attention_sinks, read.window.attention.attention_sinks) == (False, True)


def test_kimi_has_the_keys_of_deepseek():
    sizes = BASE | EXPERTS | LATENT
    read = [of_config(sizes | {"model_type": each}, "same", "config.json") for each in ("kimi_k2", "deepseek_v3")]
    assert read[0].model_copy(update={"source": read[1].source}) == read[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "qwen4", "keep_window_size": 64, "mystery": True, "is_sparse": False},
         "model_type: qwen4: no known family, and has keys of layers that are not known: keep_window_size, mystery$"),
        ({"model_type": "t6", "is_encoder_decoder": True},
         "model_type: t6: no known family, and has keys of layers that are not known: is_encoder_decoder$"),
        ({"model_type": "bert6", "architectures": ["Bert6ForMaskedLM"]},
         "model_type: bert6: no known family, and a masked language model: only causal ones are planned$"),
        ({"num_key_value_heads": 7}, r"num_key_value_heads: 7: must divide num_attention_heads \(8\) .*mean 8\?\)$"),
        ({"num_attention_heads": 10}, r"num_attention_heads: 10: must divide hidden_size \(64\) if head_dim"),
        ({"moe_intermediate_size": [48, 48, 48, 24]}, r"moe_intermediate_size: \[48, 48, 48, 24\]: must be a whole"),
        ({"vocab_size": 10**9}, "vocab_size: 1000000000: must be at most 16777216$"),
        ({"num_hidden_layers": 5000}, "num_hidden_layers: 5000: must be at most 1000$"),
        ({"sliding_window": 10**9, "model_type": "mistral"}, "sliding_window: 1000000000: must be at most"),
        ({"num_experts_per_tok": 9},
         r"num_experts_per_tok: 9: must be at most num_experts \(8\) \(did you mean 8\?\)$"),
        ({"decoder_sparse_step": 0}, "decoder_sparse_step: 0: must be at least 1$"),
        ({"mlp_only_layers": 3}, "mlp_only_layers: 3: must be a list$"),
        ({**LATENT, "model_type": "deepseek_v3", "moe_layer_freq": 0}, "moe_layer_freq: 0: must be at least 1$"),
        ({"model_type": "nemotron_h", "hybrid_override_pattern": "M-X"},
         r"hybrid_override_pattern: X: must have letters of M, \*, -, E alone$"),
        ({"model_type": "nemotron_h", "hybrid_override_pattern": "M-"},
         r"hybrid_override_pattern: 2 layers: must have num_hidden_layers of them \(4\)$"),
        ({"model_type": "nemotron_h", "layers_block_type": ["mamba", []] * 2},
         r"layers_block_type\[1\]: \[\]: must be one of attention, "),
        ({"model_type": "minimax", "num_local_experts": 8, "attn_type_list": [0, 1]},
         r"attn_type_list: 2 entries: must have 0 or 1 for each layer \(num_hidden_layers is 4\)$"),
        ({"model_type": "recurrent_gemma", "block_types": ["recurrent", "mamba"]},
         r"block_types\[1\]: mamba: must be recurrent or attention$"),
        ({"moe_intermediate_size": 10**9}, "moe_intermediate_size: 1000000000: must be at most 16777216$"),
        ({"num_experts": 0}, "num_experts: 0: must be at least 1$"),
        ({"intermediate_size": 0}, "intermediate_size: 0: must be at least 1$"),
        ({"num_key_value_heads": 0}, "num_key_value_heads: 0: must be at least 1$"),
        ({**LATENT, "model_type": "deepseek_v3", "qk_nope_head_dim": 0}, "qk_nope_head_dim: 0: must be at least 1$"),
        ({**LATENT, "model_type": "deepseek_v3", "v_head_dim": 0}, "v_head_dim: 0: must be at least 1$"),
        ({**STEP, "model_type": "laguna", "num_attention_heads_per_layer": [8, 12, 16, 12]},
         r"layer 2: 16 of 8: must have heads as other layers without a window: a third kind of attention"),
        ({**STEP, "model_type": "laguna", "num_attention_heads_per_layer": [8]},
         r"num_attention_heads_per_layer: 1 entries: must have one entry per layer \(num_hidden_layers is 4\)$"),
        ({**STEP, "model_type": "step3p5", "per_layer_config": {"1": {"hidden_size": 32}}},
         r"per_layer_config.1: hidden_size: must have num_attention_heads, num_key_value_heads and head_dim alone$"),
        ({"model_type": "apertus1p5_text", "output_vocab_size": 128},
         r"output_vocab_size: 128: must be vocab_size \(256\): a narrower head is not known"),
        ({"model_type": "gemma4_text", "use_bidirectional_attention": "all", "hidden_size_per_layer_input": 0},
         "use_bidirectional_attention: all: must leave text causal: only such is planned$"),
        ({"model_type": "gemma4_text"}, "hidden_size_per_layer_input: 256: has per-layer embedding layers, which are"),
        ({**LATENT, "model_type": "deepseek_v3", "moe_layer_freq": [0, 1]},
         r"moe_layer_freq: 2 entries: must have 0 or 1 for each layer \(num_hidden_layers is 4\)$"),
        ({"layer_types": ["full_attention"] * 3}, r"layer_types: 3 entries: must have one entry per layer"),
        ({"layer_types": ["full_attention", "linear_attention"] * 2},
         r"layer_types\[1\]: linear_attention: must be one of full_attention, sliding_attention$"),
        ({"model_type": "granite_swa", "layer_rope_theta": [1e4, 0]},
         r"layer_rope_theta: 2 entries: must have one entry per layer \(num_hidden_layers is 4\)$"),
        ({"model_type": "exaone4", "sliding_window_pattern": "GL"},
         "sliding_window_pattern: GL: must be a whole number, or L for each layer with a window and then G$"),
    ],
)  # fmt: skip
def test_what_no_transformer_here_can_have_is_refused_by_the_files_own_key(change, message):
    sizes = BASE | EXPERTS | {"model_type": "qwen3_moe", "num_experts": 8}
    with pytest.raises(InputError, match="^config.json: " + message):
        of_config(sizes | change, "broken", "config.json")


def test_a_key_that_came_later_does_not_change_the_digest_of_models_without_it():
    plain = of_config(BASE | {"model_type": "llama"}, "plain", "config.json")
    biased = of_config(BASE | {"model_type": "qwen2"}, "biased", "config.json")
    assert "query_key_value_biases" not in plain.document()
    assert biased.document()["query_key_value_biases"] is True


@pytest.mark.parametrize("stated", [{}, {"partial_rotary_factor": 0.25}, {"rope_parameters": {
    "rope_type": "default", "rope_theta": 5000.0, "partial_rotary_factor": 0.25}}], ids=str)  # fmt: skip
@pytest.mark.parametrize("name", FAMILIES)
def test_rotary_embeddings_turn_as_much_of_a_head_as_those_of_transformers(name, stated):
    transformers = pytest.importorskip("transformers")
    family = name.partition(",")[0]
    sizes = BASE | FAMILIES[name] | copy.deepcopy(stated)  # which transformers adds to
    built = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(family, **sizes))
    read = of_config(sizes | {"model_type": family}, "partly", "config.json")
    width = read.latent.rotary_width if read.latent else read.key_width
    assert 2 * built.model.rotary_emb.inv_freq.numel() == int(width * read.numerics.rotary_fraction)
    theta = built.config.rope_parameters["rope_theta"]
    assert read.numerics.rotary_base in (None, theta)
    assert (read.numerics.rotary_base is None) == ("rope_parameters" not in sizes)


ROTARY = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 4.0}


@pytest.mark.parametrize(
    ("stated", "base", "scaling"),
    [
        ({}, None, "none"),
        ({"rope_scaling": None, "rope_theta": 5e5}, 5e5, "none"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, None, "linear"),
        ({"rope_scaling": {"factor": 2.0}}, None, None),
        ({"rope_scaling": {"short_factor": [1.0], "long_factor": [2.0]}}, None, None),
        ({"rope_parameters": ROTARY}, 1e6, "yarn"),
        ({"rope_parameters": {"rope_theta": 1e6}, "rope_scaling": {"type": "yarn"}}, 1e6, "yarn"),
        ({"rope_parameters": {"full_attention": ROTARY, "sliding_attention": ROTARY}}, 1e6, "yarn"),
        ({"rope_parameters": {"full_attention": ROTARY, "sliding_attention": {"rope_theta": 1e4}}}, None, "yarn"),
        ({"rope_parameters": {"full_attention": ROTARY,
                              "sliding_attention": {"rope_type": "linear", "factor": 2.0}}}, 1e6, None),
    ],
)  # fmt: skip
def test_what_is_read_of_rotary_embeddings_is_known_and_nothing_else(stated, base, scaling):
    numerics = of_config(BASE | stated | {"model_type": "llama"}, "rotary", "config.json").numerics
    assert (numerics.rotary_base, numerics.rotary_scaling) == (base, scaling)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rope_theta": "1e6"}, "rope_theta: 1e6: must be a positive number$"),
        ({"rope_parameters": {"rope_theta": -1}}, "rope_parameters.rope_theta: -1: must be a positive number$"),
        ({"rope_scaling": {"rope_type": ["yarn"]}}, r'rope_scaling.rope_type: \["yarn"\]: must be a string$'),
        ({"rope_parameters": {"full_attention": {"rope_type": 3}}},
         "rope_parameters.full_attention.rope_type: 3: must be a string$"),
        ({"rope_scaling": "yarn"}, "rope_scaling: yarn: must be a mapping of keys to values$"),
        ({"partial_rotary_factor": 1.5, "model_type": "phi3"},
         "partial_rotary_factor: 1.5: must be a positive number, at most 1$"),
        ({"rope_parameters": {"partial_rotary_factor": 0}, "model_type": "glm4_moe", "n_routed_experts": 8},
         "rope_parameters.partial_rotary_factor: 0: must be a positive number, at most 1$"),
        ({"rms_norm_eps": 0}, "rms_norm_eps: 0: must be a positive number$"),
        ({"hidden_act": ["silu"]}, r'hidden_act: \["silu"\]: must be a string$'),
    ],
)  # fmt: skip
def test_numerics_that_are_none_are_refused_by_the_files_own_key(change, message):
    sizes = BASE | EXPERTS | {"model_type": "qwen3_moe", "num_experts": 8}
    with pytest.raises(InputError, match="^config.json: " + message):
        of_config(sizes | change, "broken", "config.json")


def test_a_family_that_no_reader_knows_is_read_by_its_keys_and_that_is_said():
    """As the families that have these keys: names of keys differ, sizes do not."""
    plain = of_config(BASE | {"model_type": "llama"}, "a", "config.json")
    named = {"n_embd": 64, "n_layer": 4, "n_heads": 8, "num_kv_heads": 2, "ffn_hidden_size": 160, "vocab_size": 256}
    for sizes in (BASE, named | {"max_position_embeddings": 512}):
        read = of_config(sizes | {"model_type": "brand-new", "scale_emb": 12, "rope_theta": 1e4}, "a", "config.json")
        assert read.assumed["family"].startswith("brand-new is not a known family: layers are read by their keys")
        assert read.parameters == plain.parameters
    experts = BASE | EXPERTS | {"head_dim": 16, "use_qk_norm": True}
    known = of_config(experts | {"model_type": "qwen3_moe", "num_experts": 8}, "a", "config.json")
    read = of_config(experts | {"model_type": "brand-new", "moe_num_experts": 8}, "a", "config.json")
    assert read.parameters == known.parameters
    attention = BASE | EXPERTS | LATENT | {"q_lora_rank": 24, "n_shared_experts": 1, "first_k_dense_replace": 1}
    known = of_config(attention | {"model_type": "deepseek_v3"}, "a", "config.json")
    read = of_config(attention | {"model_type": "brand-new"}, "a", "config.json")
    assert read.parameters == known.parameters
    near = ["sliding_attention", "full_attention"] * 2
    read = of_config(BASE | {"model_type": "brand-new", "layer_types": near, "sliding_window": 128}, "a", "config.json")
    assert read.layer_kinds[:2] == ("window+dense", "attention+dense")


def test_experts_that_return_their_input_take_a_share_of_the_choices():
    """LongCat-Flash: eight of twelve on average; the router chooses among 768."""
    sizes = BASE | LATENT | {"model_type": "longcat_flash", "num_layers": 2, "expert_ffn_hidden_size": 48}
    read = of_config(sizes | {"moe_topk": 12, "n_routed_experts": 512}, "a", "config.json")
    assert (read.layers, read.experts.active, read.experts.idle) == (6, 8, 256)
    one = 3 * 64 * 48
    router = (512 + 256) * 64
    without = read.model_copy(update={"experts": None, "layers": 4, "layer_kinds": ("attention+dense",) * 4})
    assert read.parameters - without.parameters == 2 * (512 * one + router + 64)
