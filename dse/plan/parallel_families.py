"""Families whose attention and feed-forward network work side by side, and others of attention in every layer.

Each reader returns fields of a :class:`~dse.plan.model.Transformer`.
"""

from collections.abc import Callable
from typing import Any

from dse.plan.config_families import (
    biased,
    latent,
    layer_types,
    qwen_experts,
    routed_experts,
    shared_width,
    some_dense,
    window,
    with_experts,
)
from dse.plan.config_values import Config
from hardware.inputs import fail


def _gptj(sizes: Config) -> dict[str, Any]:
    return {
        "kv_heads": 0,
        "parallel_norms": 1,
        "feed_forward": sizes.get("n_inner", 0) or 4 * sizes["hidden_size"],
        "feed_forward_biases": True,
    }


def _gpt_neox(sizes: Config) -> dict[str, Any]:
    parallel = sizes.get("use_parallel_residual", True)
    biases = {"attention_biases": sizes.get("attention_bias", True), "feed_forward_biases": True}
    return biases | {"kv_heads": 0, "parallel_norms": 2 if parallel else 0}


def _falcon(sizes: Config) -> dict[str, Any]:
    """40B and 180B have groups of keys and two norms, 7B has one head of keys and one norm."""
    heads, is_new, biases = sizes["num_attention_heads"], sizes.get("new_decoder_architecture", False), False
    groups = sizes.get("num_kv_heads", 0) or heads
    if not is_new:
        groups = 1 if sizes.get("multi_query", True) else heads
    biases = sizes.get("bias", False)
    norms = sizes.get("num_ln_in_parallel_attn", 2 if is_new else 1, lowest=1)
    return {
        "heads": heads,
        "kv_heads": groups,
        "head_width": 0,
        "feed_forward": sizes.get("ffn_hidden_size", 0) or 4 * sizes["hidden_size"],
        "parallel_norms": norms if is_new or sizes.get("parallel_attn", True) else 0,
        "attention_biases": biases,
        "feed_forward_biases": biases,
        "positions": "none" if sizes.get("alibi", False) else "rotary",
        "tied_embeddings": sizes.get("tie_word_embeddings", True),
    }


def _phi(sizes: Config) -> dict[str, Any]:
    norm = sizes.get("qk_layernorm", False)
    return {"parallel_norms": 1, "attention_biases": True, "feed_forward_biases": True, "query_key_norm": norm}


def _stablelm(sizes: Config) -> dict[str, Any]:
    return {
        "parallel_norms": 1 if sizes.get("use_parallel_residual", False) else 0,
        "query_key_value_biases": sizes.get("use_qkv_bias", False),
        "query_key_norm": sizes.get("qk_layernorm", False),
    }


def _cohere(sizes: Config) -> dict[str, Any]:
    norm = sizes.get("use_qk_norm", False)
    return {"parallel_norms": 1, "attention_biases": biased(sizes), "query_key_norm": norm}


def _cohere2(sizes: Config) -> dict[str, Any]:
    """Layers that see all tokens have no rotary embeddings."""
    layers, period = sizes["num_hidden_layers"], sizes.get("sliding_window_pattern", 4, lowest=1)
    usual = [bool((layer + 1) % period) for layer in range(layers)]
    fields = window(sizes, sizes.get("sliding_window", 4096), usual)
    near = fields.get("windowed", [False] * layers)
    kinds = ["attention+dense" if each else "attention+nope+dense" for each in near]
    return {"parallel_norms": 1, "attention_biases": biased(sizes), "layer_kinds": kinds, **fields}


def _llama4(sizes: Config) -> dict[str, Any]:
    """Layers with rotary embeddings see the tokens of their own chunk."""
    layers, step = sizes["num_hidden_layers"], sizes.get("interleave_moe_layer_step", 1, lowest=1)
    period = sizes.get("no_rope_layer_interval", 4, lowest=1)
    turned = sizes.get("no_rope_layers", []) or [int((layer + 1) % period != 0) for layer in range(layers)]
    listed = sizes.get("moe_layers", [*range(step - 1, layers, step)])
    kinds = layer_types(sizes, ("chunked_attention", "full_attention"))
    chunked = [kind == "chunked_attention" for kind in kinds] if kinds else [bool(each) for each in turned]
    tokens = sizes.get("attention_chunk_size", 0)
    words = [
        ("window" if near and tokens else "attention") + ("" if turns else "+nope") + "+"
        + ("experts" if layer in listed else "dense")
        for layer, (near, turns) in enumerate(zip(chunked, turned, strict=True))
    ]  # fmt: skip
    near = {"window": {"tokens": tokens, "share": sum(chunked) / layers, "chunked": True}}
    experts = routed_experts(sizes, "num_local_experts", "intermediate_size") | {"shared": 1}
    return {
        "experts": experts,
        "feed_forward": sizes.get("intermediate_size_mlp", 0),
        "attention_biases": biased(sizes),
        "query_key_norm": sizes.get("use_qk_norm", True),
        "layer_kinds": words,
        **(near if tokens and any(chunked) else {}),
    }


def _smollm3(sizes: Config) -> dict[str, Any]:
    """Every fourth layer has no rotary embeddings."""
    layers, period = sizes["num_hidden_layers"], sizes.get("no_rope_layer_interval", 4, lowest=1)
    turned = sizes.get("no_rope_layers", []) or [int((layer + 1) % period != 0) for layer in range(layers)]
    kinds = ["attention+dense" if each else "attention+nope+dense" for each in turned]
    biases = {"attention_biases": biased(sizes), "feed_forward_biases": sizes.get("mlp_bias", False)}
    return biases | {"layer_kinds": kinds if 0 in turned else []}


def _plain(sizes: Config) -> dict[str, Any]:
    return {"attention_biases": biased(sizes), "feed_forward_biases": sizes.get("mlp_bias", False)}


def _normed(sizes: Config) -> dict[str, Any]:
    return _plain(sizes) | {"query_key_norm": True}


def _apertus(sizes: Config) -> dict[str, Any]:
    """Apertus 1.5: the output matrix may lack rows of the embedding."""
    whole = sizes["vocab_size"]
    if (rows := sizes.get("output_vocab_size", whole)) != whole:
        raise fail(
            sizes.where, "output_vocab_size", rows, f"must be vocab_size ({whole}): a narrower head is not known"
        )
    return _normed(sizes)


def _latent_moe(sizes: Config) -> dict[str, Any]:
    return latent(sizes) | some_dense(sizes)


def _granite_shared(sizes: Config) -> dict[str, Any]:
    experts = routed_experts(sizes, "num_local_experts", "intermediate_size")
    experts |= {"shared": shared_width(sizes, "shared_intermediate_size", "intermediate_size")}
    return {"experts": experts, "feed_forward": 0, "attention_biases": biased(sizes)}


def _solar(sizes: Config) -> dict[str, Any]:
    return some_dense(sizes) | {"attention_biases": biased(sizes), "feed_forward": 0}


def _phimoe(sizes: Config) -> dict[str, Any]:
    experts = routed_experts(sizes, "num_local_experts", "intermediate_size")
    return {"experts": experts, "feed_forward": 0, "attention_biases": biased(sizes)}


def _hunyuan_moe(sizes: Config) -> dict[str, Any]:
    number = "num_local_experts" if "num_local_experts" in sizes else "num_experts"
    active = "num_experts_per_tok" if "num_experts_per_tok" in sizes else "moe_topk"
    experts = {"routed": sizes[number], "active": sizes[active], "width": sizes["intermediate_size"], "shared": 1}
    return {"experts": experts, "feed_forward": 0, "attention_biases": biased(sizes), "query_key_norm": True}


def _exaone_moe(sizes: Config) -> dict[str, Any]:
    layers, period = sizes["num_hidden_layers"], sizes.get("sliding_window_pattern", 4, lowest=1)
    near = [bool((layer + 1) % period) for layer in range(layers)]
    dense, kinds = sizes.get("first_k_dense_replace", 1), layer_types(sizes, ("dense", "sparse"), "mlp_layer_types")
    number = "num_local_experts" if "num_local_experts" in sizes else "num_experts"
    experts = routed_experts(sizes, number, "moe_intermediate_size") | {"shared": sizes.get("num_shared_experts", 1)}
    sparse = [kind == "sparse" for kind in kinds] or [layer >= dense for layer in range(layers)]
    return with_experts(experts, sparse) | window(sizes, sizes.get("sliding_window", 0), near) | {
        "query_key_norm": True
    }  # fmt: skip


def _qwen_mrope(sizes: Config) -> dict[str, Any]:
    return {"attention_biases": biased(sizes), "query_key_norm": True}


def _qwen_mrope_moe(sizes: Config) -> dict[str, Any]:
    return _qwen_mrope(sizes) | qwen_experts(sizes)


def _qwen2_mrope(sizes: Config) -> dict[str, Any]:
    del sizes
    return {"query_key_value_biases": True}


PARALLEL_FAMILIES: dict[str, Callable[[Config], dict[str, Any]]] = {
    "apertus": _normed,
    "apertus1p5_text": _apertus,
    "cohere": _cohere,
    "cohere2": _cohere2,
    "exaone_moe": _exaone_moe,
    "falcon": _falcon,
    "glm4_moe_lite": _latent_moe,
    "gpt_neox": _gpt_neox,
    "gptj": _gptj,
    "granitemoeshared": _granite_shared,
    "helium": _plain,
    "hunyuan_v1_dense": _normed,
    "hunyuan_v1_moe": _hunyuan_moe,
    "internlm3": _plain,
    "llama4_text": _llama4,
    "mimo": _qwen2_mrope,
    "phi": _phi,
    "phimoe": _phimoe,
    "qwen2_5_vl_text": _qwen2_mrope,
    "qwen2_vl_text": _qwen2_mrope,
    "qwen3_omni_moe_text": _qwen_mrope_moe,
    "qwen3_vl_moe_text": _qwen_mrope_moe,
    "qwen3_vl_text": _qwen_mrope,
    "smollm3": _smollm3,
    "solar_open": _solar,
    "stablelm": _stablelm,
}
