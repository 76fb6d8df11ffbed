"""Hybrid models by their ``config.json``: sizes as transformers builds them and as published, and plans of them."""

import json

import pytest

from dse.plan.evaluate import evaluate
from dse.plan.plan_arrays import PlanArrays
from dse.plan.transformers_configs import of_config
from tests.plan.problems import plan, problem
from tests.plan.test_layer_kinds import checked
from tests.plan.test_transformers_configs import BASE, EXPERTS, LATENT

MAMBA = {
    "mamba_n_heads": 16, "mamba_d_head": 8, "mamba_n_groups": 2, "mamba_d_state": 16, "mamba_d_conv": 4,
    "mamba_chunk_size": 32,
}  # fmt: skip
NEMOTRON = {
    "mamba_num_heads": 16, "mamba_head_dim": 8, "n_groups": 2, "ssm_state_size": 16, "chunk_size": 32, "head_dim": 8,
}  # fmt: skip
DELTA = {
    "linear_num_value_heads": 8, "linear_value_head_dim": 16, "linear_num_key_heads": 4, "linear_key_head_dim": 8,
}  # fmt: skip
HYBRIDS = {
    "helium": {"head_dim": 8},
    "hunyuan_v1_dense": {"head_dim": 8},
    "hunyuan_v1_moe": {"head_dim": 8, "num_experts": 4, "moe_topk": 2},
    "bamba": {**MAMBA, "attn_layer_indices": [2]},
    "falcon_h1": {**MAMBA, "mamba_d_ssm": 128},
    "granitemoehybrid": {**MAMBA, "num_local_experts": 4, "num_experts_per_tok": 2, "shared_intermediate_size": 320,
                         "layer_types": ["linear_attention"] * 3 + ["full_attention"]},
    "granitemoehybrid, no experts": {**MAMBA, "num_local_experts": 0, "shared_intermediate_size": 320,
                                     "layer_types": ["linear_attention"] * 3 + ["full_attention"]},
    "nemotron_h": {**NEMOTRON, "layers_block_type": ["linear_attention", "mlp", "full_attention", "linear_attention"]},
    "nemotron_h, experts": {**NEMOTRON, "layers_block_type": ["linear_attention", "moe", "full_attention", "moe"],
                            "n_routed_experts": 4, "moe_intermediate_size": 48, "num_experts_per_tok": 2,
                            "moe_shared_expert_intermediate_size": 96},
    "jamba": {"num_experts": 4, "attn_layer_period": 4, "attn_layer_offset": 2, "use_mamba_kernels": False},
    "mamba": {"state_size": 8},
    "falcon_mamba": {"state_size": 8},
    "mamba2": {"num_heads": 16, "head_dim": 8, "n_groups": 2, "state_size": 16, "chunk_size": 32},
    "qwen3_5_text": {**DELTA, "head_dim": 16},
    "kimi_linear": {**EXPERTS, **LATENT, "linear_num_heads": 8, "linear_head_dim": 8, "num_local_experts": 8,
                    "n_shared_experts": 1, "pad_token_id": 0},
    "minimax": {"num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 8},
    "lfm2": {"layer_types": ["conv", "conv", "full_attention", "conv"], "block_multiple_of": 16},
    "lfm2_moe": {**EXPERTS, "layer_types": ["conv", "conv", "full_attention", "conv"], "num_experts": 8},
    "falcon": {},
    "falcon, groups": {"new_decoder_architecture": True, "num_kv_heads": 2},
    "gpt_neox": {},
}  # fmt: skip
NEARLY = {
    "qwen3_next": {**EXPERTS, **DELTA, "num_experts": 8, "head_dim": 16, "shared_expert_intermediate_size": 48},
    "qwen3_5_moe_text": {**EXPERTS, **DELTA, "num_experts": 8, "head_dim": 16, "shared_expert_intermediate_size": 48},
    "recurrent_gemma": {"num_key_value_heads": 1},
    "gptj": {"n_embd": 64, "n_head": 8, "n_layer": 4, "rotary_dim": 4},
    "phi": {},
    "cohere": {},
    "cohere2": {},
    "llama4_text": {"num_local_experts": 4, "num_experts_per_tok": 1, "interleave_moe_layer_step": 2,
                    "intermediate_size_mlp": 320, "head_dim": 8},
}  # fmt: skip
"""Families with gates of shared experts, norms without parameters, or biases of one product alone."""


@pytest.mark.parametrize("name", [*HYBRIDS, *NEARLY])
def test_parameters_are_those_of_the_model_that_transformers_builds(name):
    transformers = pytest.importorskip("transformers")
    import torch

    family, sizes = name.partition(",")[0], BASE | {**HYBRIDS, **NEARLY}[name]
    config = transformers.AutoConfig.for_model(family, **sizes)
    with torch.device("meta"):
        built = transformers.AutoModelForCausalLM.from_config(config)
    expected = sum(each.numel() for each in built.parameters())
    slack = 4 * sizes["num_hidden_layers"] * sizes["hidden_size"] if name in NEARLY else 0
    stated = of_config(sizes | {"model_type": family}, "stated", "config.json")
    written = of_config(json.loads(config.to_json_string()), "written", "config.json")
    assert abs(stated.parameters - expected) <= slack
    assert abs(written.parameters - expected) <= slack
    assert written.layer_kinds == stated.layer_kinds


def _heads(queries, keys, width=None):
    sizes = {"num_attention_heads": queries, "num_key_value_heads": keys}
    return sizes | ({} if width is None else {"head_dim": width})


def _sizes(family, layers, hidden, feed_forward, vocabulary, **more):
    named = {"num_hidden_layers": layers, "hidden_size": hidden, "intermediate_size": feed_forward}
    return {"model_type": family, **named, "vocab_size": vocabulary, **more}


def _mamba2(heads, width, groups, states, chunk):
    names = ("mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_state", "mamba_chunk_size")
    return dict(zip(names, (heads, width, groups, states, chunk), strict=True)) | {"mamba_d_conv": 4}


def _nemotron(pattern, heads, states, groups=8):
    named = {"hybrid_override_pattern": pattern, "mamba_num_heads": heads, "ssm_state_size": states}
    return named | {"mamba_head_dim": 64, "n_groups": groups, "conv_kernel": 4, "chunk_size": 128}


DELTA_SIZES = {
    "linear_num_value_heads": 32, "linear_value_head_dim": 128, "linear_num_key_heads": 16,
    "linear_key_head_dim": 128, "linear_conv_kernel_dim": 4, "full_attention_interval": 4,
}  # fmt: skip
LLAMA_4 = _sizes(
    "llama4_text", 48, 5120, 8192, 202_048, **_heads(40, 8, 128), num_experts_per_tok=1, intermediate_size_mlp=16384
)
PUBLISHED = {
    "Jamba 52B": (52, _sizes(
        "jamba", 32, 4096, 14336, 65_536, **_heads(32, 8), num_experts=16, num_experts_per_tok=2)),
    "Nemotron-H 8B": (8.1, _sizes(
        "nemotron_h", 52, 4096, 21504, 131_072, **_heads(32, 8, 128),
        **_nemotron("M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-", 128, 128))),
    "Nemotron-H 47B": (47, _sizes(
        "nemotron_h", 98, 8192, 30720, 131_072, **_heads(64, 8, 128), **_nemotron(
            "M-M-M-M-M-M-M-M-M*-M-M-M-M-M-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-M-M---MM---M-M*-M-M-M-M-M-",
            256, 256))),
    "Nemotron 3 Nano 30B": (31.6, _sizes(
        "nemotron_h", 52, 2688, 1856, 131_072, **_heads(32, 2, 128), num_experts_per_tok=6, n_routed_experts=128,
        moe_intermediate_size=1856, moe_shared_expert_intermediate_size=3712,
        **_nemotron("MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME", 64, 128))),
    "Qwen3-Next 80B": (80, _sizes(
        "qwen3_next", 48, 2048, 5120, 151_936, **_heads(16, 2, 256), **DELTA_SIZES, num_experts=512,
        num_experts_per_tok=10, moe_intermediate_size=512, shared_expert_intermediate_size=512)),
    "Qwen3.5 397B": (397, {"model_type": "qwen3_5_moe", "text_config": _sizes(
        "qwen3_5_moe_text", 60, 4096, 0, 248_320, **_heads(32, 2, 256), **DELTA_SIZES | {"linear_num_value_heads": 64},
        num_experts=512, num_experts_per_tok=10, moe_intermediate_size=1024, shared_expert_intermediate_size=1024,
        mtp_num_hidden_layers=1)}),
    "LongCat-Flash 560B": (560, {
        "model_type": "longcat_flash", "num_layers": 28, "num_attention_heads": 64, "hidden_size": 6144,
        "ffn_hidden_size": 12288, "expert_ffn_hidden_size": 2048, "n_routed_experts": 512, "zero_expert_num": 256,
        "moe_topk": 12, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
        "v_head_dim": 128, "vocab_size": 131_072}),
    "DBRX 132B": (132, {
        "model_type": "dbrx", "d_model": 6144, "n_heads": 48, "n_layers": 40, "max_seq_len": 32_768,
        "vocab_size": 100_352, "attn_config": {"kv_n_heads": 8, "clip_qkv": 8},
        "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4}}),
    "Ling 1T": (1000, _sizes(
        "bailing_moe_v2", 80, 8192, 18432, 157_184, **_heads(64, 8, 128), num_experts=256, num_experts_per_tok=8,
        moe_intermediate_size=2048, num_shared_experts=1, moe_shared_expert_intermediate_size=2048, n_group=8,
        topk_group=4, first_k_dense_replace=4, use_qk_norm=True, score_function="sigmoid",
        moe_router_enable_expert_bias=True)),
    "Falcon-H1 34B": (34, _sizes(
        "falcon_h1", 72, 5120, 21504, 261_120, **_heads(20, 4, 128), **_mamba2(32, 128, 2, 256, 128),
        mamba_d_ssm=4096)),
    "Granite 4.0 H Small 32B": (32, _sizes(
        "granitemoehybrid", 40, 4096, 768, 100_352, **_heads(32, 8), **_mamba2(128, 64, 1, 128, 256),
        num_local_experts=72, num_experts_per_tok=10, shared_intermediate_size=1536, tie_word_embeddings=True,
        layer_types=["attention" if layer % 10 == 5 else "mamba" for layer in range(40)])),
    "Bamba 9B": (9.78, _sizes(
        "bamba", 32, 4096, 14336, 128_256, **_heads(32, 8), **_mamba2(128, 64, 1, 128, 256),
        attn_layer_indices=[9, 18, 27])),
    "Kimi Linear 48B": (48, _sizes(
        "kimi_linear", 27, 2304, 9216, 163_840, **_heads(32, 32), num_experts=256, num_experts_per_token=8,
        num_shared_experts=1, moe_intermediate_size=1024, kv_lora_rank=512, q_lora_rank=None, qk_nope_head_dim=128,
        qk_rope_head_dim=64, v_head_dim=128, linear_attn_config={
            "full_attn_layers": [4, 8, 12, 16, 20, 24, 27], "head_dim": 128, "num_heads": 32,
            "short_conv_kernel_size": 4})),
    "MiniMax-Text-01 456B": (456, _sizes(
        "minimax_text_01", 80, 6144, 9216, 200_064, **_heads(64, 8, 128), num_local_experts=32, num_experts_per_tok=2,
        attn_type_list=([0] * 7 + [1]) * 10)),
    "MiniMax-M1 456B": (456, _sizes(
        "minimax_m1", 80, 6144, 9216, 200_064, **_heads(64, 8, 128), num_local_experts=32, num_experts_per_tok=2,
        attn_type_list=([0] * 7 + [1]) * 10)),
    "Hunyuan-A13B 80B": (80, _sizes(
        "hunyuan_v1_moe", 32, 4096, 3072, 128_167, **_heads(32, 8, 128), num_experts=64, moe_topk=[8] * 32,
        moe_intermediate_size=[3072] * 32, num_shared_expert=[1] * 32, tie_word_embeddings=True)),
    "Step-3.5-Flash 196B": (196, _sizes(
        "step3p5", 45, 4096, 11264, 128_896, num_attention_heads=64, num_attention_groups=8, head_dim=128,
        moe_num_experts=288, moe_top_k=8, moe_intermediate_size=1280, sliding_window=512,
        moe_layers_enum=",".join(map(str, range(3, 45))),
        layer_types=(["full_attention"] + ["sliding_attention"] * 3) * 11 + ["full_attention"],
        attention_other_setting={"num_attention_heads": 96, "num_attention_groups": 8})),
    "GLM-4 9B": (9.4, {
        "model_type": "chatglm", "hidden_size": 4096, "ffn_hidden_size": 13696, "num_layers": 40, "kv_channels": 128,
        "num_attention_heads": 32, "multi_query_attention": True, "multi_query_group_num": 2, "add_qkv_bias": True,
        "padded_vocab_size": 151_552, "seq_length": 131_072}),
    "Grok-1 314B": (314, _sizes(
        "grok-1", 64, 6144, 32768, 131_072, **_heads(48, 8), num_experts=8, num_experts_per_tok=2, max_attn_value=30.0,
        embedding_multiplier_scale=78.38)),
    "RecurrentGemma 9B": (8.6, _sizes("recurrent_gemma", 38, 4096, 24576, 256_000, **_heads(16, 1))),
    "Llama 4 Scout 109B": (108, {"model_type": "llama4", "text_config": LLAMA_4 | {"num_local_experts": 16}}),
    "Llama 4 Maverick 400B": (400, {
        "model_type": "llama4", "text_config": LLAMA_4 | {"num_local_experts": 128, "interleave_moe_layer_step": 2}}),
    "Command A 111B": (111, _sizes("cohere2", 64, 12288, 36864, 256_000, **_heads(96, 8))),
    "GPT-NeoX 20B": (20.6, _sizes("gpt_neox", 44, 6144, 24576, 50_432, num_attention_heads=64)),
    "Falcon 180B": (180, _sizes(
        "falcon", 80, 14848, 0, 65_024, num_attention_heads=232, num_kv_heads=8, new_decoder_architecture=True)),
    "Codestral Mamba 7.3B": (7.29, {
        "model_type": "mamba2", "num_hidden_layers": 64, "hidden_size": 4096, "vocab_size": 32_768, "num_heads": 128}),
    "Falcon Mamba 7.3B": (7.27, {
        "model_type": "falcon_mamba", "num_hidden_layers": 64, "hidden_size": 4096, "vocab_size": 65_024,
        "tie_word_embeddings": False}),
    "MiMo 7B": (7.6, _sizes("mimo", 36, 4096, 11008, 151_680, **_heads(32, 8), num_nextn_predict_layers=1)),
    "Qwen3-Omni 30B": (30.5, {"model_type": "qwen3_omni_moe", "thinker_config": {"text_config": _sizes(
        "qwen3_omni_moe_text", 48, 2048, 768, 152_064, **_heads(32, 4, 128), num_experts=128, num_experts_per_tok=8,
        moe_intermediate_size=768)}}),
}  # fmt: skip
"""Billions of parameters by a model's name or card, and sizes by the keys of its file."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_sizes_are_the_published_ones_and_plans_cost_what_the_checker_finds(name):
    billions, sizes = PUBLISHED[name]
    model = of_config(sizes, "published", "config.json")
    assert model.parameters == pytest.approx(1e9 * billions, rel=0.025)
    posed = problem(model, devices=64, batch=128, sequence=4096)
    spread = {"expert": 4} if model.experts is not None else {}
    stages = max(depth for depth in (1, 2, 4) if model.layers >= depth)
    plans = [plan(data=64, zero=3, recompute="full", **spread), plan(data=64 // stages, pipeline=stages, zero=1)]
    checked(posed, plans)


def test_blocks_that_are_an_empty_list_are_the_usual_ones():
    sizes = BASE | {"model_type": "recurrent_gemma", "num_key_value_heads": 1}
    usual = of_config(sizes, "a", "config.json")
    assert of_config(sizes | {"block_types": []}, "a", "config.json") == usual


def test_a_layer_that_predicts_later_tokens_is_like_the_last_one():
    """MiMo's and GLM's files say how many there are."""
    for name, layers in (("MiMo 7B", 1), ("Nemotron-H 8B", 0)):
        assert of_config(PUBLISHED[name][1], "later", "config.json").prediction_layers == layers


def test_windows_and_rotary_embeddings_are_those_of_each_layer():
    command = of_config(PUBLISHED["Command A 111B"][1], "command", "config.json")
    assert command.layer_kinds[:4] == ("window+dense",) * 3 + ("attention+nope+dense",)
    scout = of_config(PUBLISHED["Llama 4 Scout 109B"][1], "scout", "config.json")
    assert scout.layer_kinds[:4] == ("window+experts",) * 3 + ("attention+nope+experts",)
    near, far = scout.kinds
    # Chunks of 8,192 tokens, of which a token sees half: 2½ chunks.
    seen = sum(position % 8192 + 1 for position in range(20480)) / 20480
    assert scout.attended(20480, near) == pytest.approx(seen)
    assert scout.attended(20480, far) == 20481 / 2


def test_stages_have_the_layers_with_windows_that_lie_in_them():
    """Five windows to one layer without: of eight stages of Gemma 3's 62 layers, one has two layers without."""
    sizes = BASE | {"model_type": "gemma3_text", "num_hidden_layers": 62, "sliding_window": 64, "head_dim": 16}
    posed = problem(of_config(sizes, "gemma", "config.json"), batch=64, sequence=8192)
    costs = checked(posed, [plan(pipeline=8, microbatch=1)])
    mean = posed.model.model_copy(update={"layer_kinds": ()})
    other = evaluate(problem(mean, batch=64, sequence=8192), PlanArrays.of([plan(pipeline=8, microbatch=1)]))
    assert costs.time_s["attention"][0] > 1.2 * other.time_s["attention"][0]
