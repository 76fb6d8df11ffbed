"""Families of transformers that have a ``config.json``: what their keys say, and what they have without saying it."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from dse.plan.config_values import Config
from hardware.inputs import fail


def kv_heads(sizes: Config) -> int:
    """Heads of keys and values; 0 where each head has its own."""
    heads, groups = sizes["num_attention_heads"], sizes.get("num_key_value_heads", 0, lowest=1)
    if groups and heads % groups:
        divisors = [each for each in range(1, min(heads, 2**16) + 1) if heads % each == 0]
        closest = min(divisors, key=lambda each: abs(each - groups))
        raise fail(
            sizes.where, "num_key_value_heads", groups, f"must divide num_attention_heads ({heads})", str(closest)
        )
    return groups


def routed_experts(sizes: Config, routed: str, width: str) -> dict[str, Any]:
    """Equal experts; ``routed`` and ``width`` are the keys of their number and of the inner width of one."""
    number, active = sizes[routed], sizes["num_experts_per_tok"]
    if active > number:
        rule = f"must be at most {routed} ({number})"
        raise fail(sizes.where, "num_experts_per_tok", active, rule, str(number))
    return {"routed": number, "active": active, "width": sizes[width]}


def window(sizes: Config, tokens: int, usual: Sequence[bool]) -> dict[str, Any]:
    """A window of so many tokens (0: none) in the layers that ``layer_types`` names, or else in the ``usual`` ones.

    ``windowed`` says which these are; :func:`by_layer` makes kinds of it.
    """
    kinds = layer_types(sizes, KINDS)
    within = [kind == "sliding_attention" for kind in kinds] if kinds else [*usual]
    if not (tokens and any(within)):
        return {}
    return {"window": {"tokens": tokens, "share": sum(within) / len(within)}, "windowed": within}


def layer_types(sizes: Config, known: Sequence[str], key: str = "layer_types") -> list[str]:
    """The entries of a list with one for each layer, all of them known; empty where it is left out."""
    layers, kinds = sizes["num_hidden_layers"], sizes.get(key, [])
    if len(kinds) == layers + sizes.get("num_nextn_predict_layers", 0):  # those of multi-token prediction come last
        kinds = kinds[:layers]
    if kinds and len(kinds) != layers:
        rule = f"must have one entry per layer (num_hidden_layers is {layers})"
        raise fail(sizes.where, key, f"{len(kinds)} entries", rule)
    for layer, kind in enumerate(kinds):
        if kind not in known:
            raise fail(sizes.where, f"{key}[{layer}]", kind, f"must be one of {', '.join(known)}")
    return kinds


def flags(sizes: Config, key: str) -> list[bool]:
    """A list with 0 or 1 for each layer; empty where it is left out."""
    layers, own = sizes["num_hidden_layers"], sizes.get(key, [])
    if own and (len(own) != layers or any(each not in (0, 1) for each in own)):
        rule = f"must have 0 or 1 for each layer (num_hidden_layers is {layers})"
        raise fail(sizes.where, key, f"{len(own)} entries", rule)
    return [bool(each) for each in own]


def by_layer(fields: dict[str, Any]) -> dict[str, Any]:
    """The same with the kinds of layers, where some have a window and others none."""
    windowed = fields.pop("windowed", [])
    if all(windowed) and "layer_kinds" not in fields:
        windowed = []
    mixed = fields.get("experts")
    if windowed and "layer_kinds" not in fields:
        dense = len(windowed) if mixed is None else min(len(windowed), mixed.get("dense_layers", 0))
        fields["layer_kinds"] = ["attention+dense"] * dense + ["attention+experts"] * (len(windowed) - dense)
    if mixed is not None and fields.get("layer_kinds"):
        fields["experts"] = {key: value for key, value in mixed.items() if key != "dense_layers"}
    for layer, within in enumerate(windowed):
        if within:
            fields["layer_kinds"][layer] = fields["layer_kinds"][layer].replace("attention", "window")
    return fields


def with_experts(experts: dict[str, Any], sparse: Sequence[bool]) -> dict[str, Any]:
    """Experts in these layers."""
    dense = [*sparse, True].index(True)
    if all(sparse[dense:]):
        return {"experts": experts | {"dense_layers": dense}}
    return {"experts": experts, "layer_kinds": [f"attention+{'experts' if each else 'dense'}" for each in sparse]}


KINDS = ("full_attention", "sliding_attention")


def _llama(sizes: Config) -> dict[str, Any]:
    return {"attention_biases": biased(sizes), "feed_forward_biases": sizes.get("mlp_bias", False)}


def biased(sizes: Config) -> bool:
    """Whether attention has biases, in the families that read this; others never have, or always."""
    return sizes.get("attention_bias", False)


def _in_all_layers(sizes: Config) -> dict[str, Any]:
    return window(sizes, sizes.get("sliding_window", 0), [True] * sizes["num_hidden_layers"])


def _mixtral(sizes: Config) -> dict[str, Any]:
    experts = routed_experts(sizes, "num_local_experts", "intermediate_size")
    return {"experts": experts, "feed_forward": 0, **_in_all_layers(sizes)}


def _qwen_window(sizes: Config, first: int) -> dict[str, Any]:
    tokens = sizes.get("sliding_window", 0) if sizes.get("use_sliding_window", False) else 0
    return window(sizes, tokens, [layer >= first for layer in range(sizes["num_hidden_layers"])])


def _qwen2(sizes: Config) -> dict[str, Any]:
    return {"query_key_value_biases": True, **_qwen_window(sizes, sizes.get("max_window_layers", 0))}


def _qwen3(sizes: Config) -> dict[str, Any]:
    fields = {"attention_biases": biased(sizes), "query_key_norm": True}
    return fields | _qwen_window(sizes, sizes.get("max_window_layers", 0))


def _qwen3_moe(sizes: Config) -> dict[str, Any]:
    fields = {"attention_biases": biased(sizes), "query_key_norm": True}
    return fields | qwen_experts(sizes) | _qwen_window(sizes, 0)


def qwen_experts(sizes: Config) -> dict[str, Any]:
    """Experts in every so many layers, but for those that are listed."""
    period, plain = sizes.get("decoder_sparse_step", 1, lowest=1), sizes.get("mlp_only_layers", [])
    sparse = [layer not in plain and (layer + 1) % period == 0 for layer in range(sizes["num_hidden_layers"])]
    routed = "num_local_experts" if "num_local_experts" in sizes else "num_experts"  # since transformers 5, and before
    return with_experts(routed_experts(sizes, routed, "moe_intermediate_size"), sparse)


def _every_nth_full(sizes: Config, period: int) -> dict[str, Any]:
    """Windows in all layers but the last of each ``period``."""
    layers, tokens = sizes["num_hidden_layers"], sizes.get("sliding_window", 0)
    return window(sizes, tokens, [bool((layer + 1) % period) for layer in range(layers)])


def _gemma2(sizes: Config) -> dict[str, Any]:
    return {"attention_biases": biased(sizes), **_every_nth_full(sizes, 2)}


def _gemma3(sizes: Config) -> dict[str, Any]:
    if "layer_types" in sizes or not sizes.get("sliding_window", 0):
        return {"attention_biases": biased(sizes), **_in_all_layers(sizes)}
    return {"attention_biases": biased(sizes), **_every_nth_full(sizes, _period(sizes))}


def _period(sizes: Config) -> int:
    """Layers of which the last has no window: a number, or a text with a letter for each (EXAONE 4: LLLG)."""
    key = "sliding_window_pattern"
    if not sizes.has_text(key):
        return sizes[key]
    letters = sizes.text(key) or ""
    if not re.fullmatch("L+G", letters):
        raise fail(sizes.where, key, letters, "must be a whole number, or L for each layer with a window and then G")
    return len(letters)


def _olmo3(sizes: Config) -> dict[str, Any]:
    return {"attention_biases": biased(sizes), **_every_nth_full(sizes, 4)}


def _starcoder2(sizes: Config) -> dict[str, Any]:
    biases = sizes.get("use_bias", True)
    return {"attention_biases": biases, "feed_forward_biases": biases, **_in_all_layers(sizes)}


def _ernie(sizes: Config) -> dict[str, Any]:
    biases = sizes.get("use_bias", False)
    return {"attention_biases": biases, "feed_forward_biases": biases}


def _ernie_moe(sizes: Config) -> dict[str, Any]:
    layers, interval = sizes["num_hidden_layers"], sizes.get("moe_layer_interval", 1, lowest=1)
    first, last = sizes.get("moe_layer_start_index", 1), sizes.get("moe_layer_end_index", 0) or layers - 1
    sparse = [first <= layer <= last and (layer + 1) % interval == 0 for layer in range(layers)]
    number, active = sizes["moe_num_experts"], sizes["moe_k"]
    shared = sizes.get("moe_num_shared_experts", 0)
    experts = {"routed": number, "active": active, "width": sizes["moe_intermediate_size"], "shared": shared}
    return _ernie(sizes) | with_experts(experts, sparse)


def _query_key_value_biased(sizes: Config) -> dict[str, Any]:
    return {"query_key_value_biases": biased(sizes), "feed_forward_biases": sizes.get("mlp_bias", False)}


def shared_width(sizes: Config, key: str, width: str) -> int:
    """Shared experts of the width of others, of which so much is together at ``key``."""
    each, together = sizes[width], sizes.get(key, 0)
    if together % each:
        rule = f"must be a multiple of {width} ({each}): shared experts have the width of others"
        raise fail(sizes.where, key, together, rule)
    return together // each


def _qwen2_moe(sizes: Config) -> dict[str, Any]:
    fields = _qwen3_moe(sizes)
    fields["experts"] |= {"shared": shared_width(sizes, "shared_expert_intermediate_size", "moe_intermediate_size")}
    return fields | {"query_key_norm": False, "attention_biases": False, "query_key_value_biases": True}


def _equal_experts(sizes: Config) -> dict[str, Any]:
    """Experts of the inner width that other families have for layers without any."""
    number = "num_local_experts" if "num_local_experts" in sizes else "num_experts"
    experts = routed_experts(sizes, number, "intermediate_size")
    return {"experts": experts, "feed_forward": 0, "attention_biases": biased(sizes)}


def _dots1(sizes: Config) -> dict[str, Any]:
    return some_dense(sizes) | {"attention_biases": biased(sizes), "query_key_norm": True}


def _gpt_oss(sizes: Config) -> dict[str, Any]:
    experts = routed_experts(sizes, "num_local_experts", "intermediate_size") | {"biases": True}
    every_second = [layer % 2 == 0 for layer in range(sizes["num_hidden_layers"])]
    windows = window(sizes, sizes.get("sliding_window", 0), every_second)
    fields = {"experts": experts, "feed_forward": 0, "attention_biases": biased(sizes), "attention_sinks": True}
    return fields | windows


def some_dense(sizes: Config) -> dict[str, Any]:
    """Routed and shared experts behind some layers without any."""
    layers, key = sizes["num_hidden_layers"], "moe_layer_freq"
    shared, dense = sizes.get("n_shared_experts", 0), sizes.get("first_k_dense_replace", 0)
    if sizes.has_list(key):
        sparse = flags(sizes, key)
    else:
        period = sizes.get(key, 1, lowest=1)
        sparse = [layer >= dense and layer % period == 0 for layer in range(layers)]
    if kinds := layer_types(sizes, ("dense", "sparse"), "mlp_layer_types"):
        sparse = [kind == "sparse" for kind in kinds]
    number = "num_local_experts" if "num_local_experts" in sizes else "n_routed_experts"
    experts = routed_experts(sizes, number, "moe_intermediate_size") | _groups(sizes)
    return with_experts(experts | {"shared": shared}, sparse)


def _groups(sizes: Config) -> dict[str, int]:
    """Groups of experts, where a router takes its choices from some of them alone."""
    groups, taken = sizes.get("n_group", 1, lowest=1), sizes.get("topk_group", 1, lowest=1)
    return {"groups": groups, "active_groups": taken} if taken < groups else {}


def _glm4_moe(sizes: Config) -> dict[str, Any]:
    own = {"query_key_value_biases": biased(sizes), "query_key_norm": sizes.get("use_qk_norm", False)}
    return some_dense(sizes) | own


def _deepseek(sizes: Config) -> dict[str, Any]:
    return some_dense(sizes) | latent(sizes)


def latent(sizes: Config, value_width: int = 0) -> dict[str, Any]:
    """Multi-head latent attention; values have this width where a file may leave it out."""
    ranks = {
        "query_rank": sizes.get("q_lora_rank", 0),
        "key_value_rank": sizes["kv_lora_rank"],
        "rotary_width": sizes["qk_rope_head_dim"],
    }
    widths = {
        "head_width": sizes["qk_nope_head_dim"] + sizes["qk_rope_head_dim"],
        "value_width": sizes.get("v_head_dim", value_width) or sizes["v_head_dim"],
        "kv_heads": 0,
    }
    return {"attention_biases": biased(sizes), "latent": ranks, **widths}


FAMILIES: dict[str, Callable[[Config], dict[str, Any]]] = {
    "llama": _llama,
    "mistral": _in_all_layers,
    "mixtral": _mixtral,
    "phi3": _in_all_layers,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "glm4_moe": _glm4_moe,
    "gpt_oss": _gpt_oss,
    "deepseek_v2": _deepseek,
    "deepseek_v3": _deepseek,
    "kimi_k2": _deepseek,
    "arcee": _llama,
    "cwm": _in_all_layers,
    "dots1": _dots1,
    "ernie4_5": _ernie,
    "ernie4_5_moe": _ernie_moe,
    "exaone4": _gemma3,
    "gemma": _llama,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
    "glm": _query_key_value_biased,
    "glm4": _query_key_value_biased,
    "granite": _llama,
    "granitemoe": _equal_experts,
    "minimax_m2": _equal_experts,
    "ministral": _in_all_layers,
    "ministral3": _in_all_layers,
    "nemotron": _llama,
    "olmo2": _llama,
    "olmo3": _olmo3,
    "olmoe": _equal_experts,
    "qwen2_moe": _qwen2_moe,
    "seed_oss": _query_key_value_biased,
    "starcoder2": _starcoder2,
}
