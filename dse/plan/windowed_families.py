"""Families with a window in most layers, and a few of plain layers that came after 2024.

Each reader returns fields of a :class:`~dse.plan.model.Transformer`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from dse.plan.config_families import (
    biased,
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


def _plain(sizes: Config) -> dict[str, Any]:
    return {"attention_biases": biased(sizes), "feed_forward_biases": sizes.get("mlp_bias", False)}


def _exaone(sizes: Config) -> dict[str, Any]:
    return _plain(sizes) | {"layers": sizes.get("num_layers", 0) or sizes["num_hidden_layers"]}


def _hyperclovax(sizes: Config) -> dict[str, Any]:
    return _plain(sizes) | {"post_norms": 2 if sizes.get("use_post_norm", True) else 0}


def _sparse(sizes: Config, first: int) -> list[bool]:
    """Layers with experts: as the file lists them, or all behind so many dense ones."""
    kinds = layer_types(sizes, ("dense", "sparse"), "mlp_layer_types")
    return [kind == "sparse" for kind in kinds] or [layer >= first for layer in range(sizes["num_hidden_layers"])]


def _experts(sizes: Config) -> dict[str, Any]:
    number = "num_local_experts" if "num_local_experts" in sizes else "num_experts"
    return routed_experts(sizes, number, "moe_intermediate_size")


def _all_sparse(fields: dict[str, Any]) -> dict[str, Any]:
    """The same without the width of dense networks, which no layer has."""
    dense = fields["experts"].get("dense_layers", 0) or "dense" in str(fields.get("layer_kinds", ""))
    return fields | ({} if dense else {"feed_forward": 0})


def _afmoe(sizes: Config) -> dict[str, Any]:
    """Layers that see all tokens have no rotary embeddings."""
    layers, period = sizes["num_hidden_layers"], sizes.get("global_attn_every_n_layers", 4, lowest=1)
    fields = window(sizes, sizes["sliding_window"], [bool((layer + 1) % period) for layer in range(layers)])
    near, dense = fields.pop("windowed", [False] * layers), sizes.get("num_dense_layers", 1)
    experts = _experts(sizes) | {"shared": sizes.get("num_shared_experts", 2)}
    words = [
        f"{'window' if within else 'attention+nope'}+{'dense' if layer < dense else 'experts'}"
        for layer, within in enumerate(near)
    ]
    return fields | {
        "experts": experts,
        "layer_kinds": words,
        "attention_gate": True,
        "attention_biases": biased(sizes),
    }


def _mellum(sizes: Config) -> dict[str, Any]:
    fields = with_experts(_experts(sizes), _sparse(sizes, 0)) | window(sizes, sizes["sliding_window"], [])
    return _all_sparse(fields | {"attention_biases": biased(sizes)})


def _kolibri(sizes: Config) -> dict[str, Any]:
    layers = sizes["num_hidden_layers"]
    shared = shared_width(sizes, "shared_expert_intermediate_size", "moe_intermediate_size")
    near = window(sizes, sizes["sliding_window"], [bool((layer + 1) % 5) for layer in range(layers)])
    return {"experts": _experts(sizes) | {"shared": shared}, "feed_forward": 0, **near}


def _flint(sizes: Config) -> dict[str, Any]:
    """All tokens in the first two layers, in every fourth and in the last."""
    last = sizes["num_hidden_layers"] - 1
    usual = [layer >= 2 and layer % 4 != 1 and layer != last for layer in range(last + 1)]
    experts = qwen_experts(sizes)
    experts["experts"] |= {"shared": shared_width(sizes, "shared_expert_intermediate_size", "moe_intermediate_size")}
    return experts | window(sizes, sizes["sliding_window"], usual) | {"attention_biases": biased(sizes)}


def _granite_windows(sizes: Config) -> dict[str, Any]:
    """Three windows behind each layer that sees all; a base of 0 stands for no rotary embeddings."""
    layers, bases = sizes["num_hidden_layers"], sizes.get("layer_rope_theta", [])
    fields = window(sizes, sizes["sliding_window"], [layer % 4 > 0 for layer in range(layers)])
    near = fields.pop("windowed", [False] * layers)
    if bases and len(bases) != layers:
        rule = f"must have one entry per layer (num_hidden_layers is {layers})"
        raise fail(sizes.where, "layer_rope_theta", f"{len(bases)} entries", rule)
    turned: Sequence[bool] = [bool(base) for base in bases] or [True] * layers
    mixers = [("window" if within else "attention") + ("" if turns else "+nope")
              for within, turns in zip(near, turned, strict=True)]  # fmt: skip
    return fields | _plain(sizes) | {"attention_sinks": True, "layer_kinds": [f"{each}+dense" for each in mixers]}


def _granite_moe_windows(sizes: Config) -> dict[str, Any]:
    fields = _granite_windows(sizes)
    shared = shared_width(sizes, "shared_intermediate_size", "intermediate_size")
    experts = routed_experts(sizes, "num_local_experts", "intermediate_size") | {"shared": shared}
    words = [word.replace("dense", "experts") for word in fields["layer_kinds"]]
    return fields | {"experts": experts, "feed_forward": 0, "layer_kinds": words}


def _vaultgemma(sizes: Config) -> dict[str, Any]:
    layers = range(sizes["num_hidden_layers"])
    near = window(sizes, sizes["sliding_window"], [layer % 2 == 0 for layer in layers])
    return near | {"attention_biases": biased(sizes)}


def _hunyuan_3(sizes: Config) -> dict[str, Any]:
    experts = _experts(sizes) | {"shared": sizes.get("num_shared_experts", 1)}
    return with_experts(experts, _sparse(sizes, 1)) | {"attention_biases": biased(sizes)}


def _sarvam(sizes: Config) -> dict[str, Any]:
    norm = sizes.get("use_qk_norm", True)
    return some_dense(sizes) | {"query_key_norm": norm, "query_key_value_biases": biased(sizes)}


def _aria(sizes: Config) -> dict[str, Any]:
    number, active = sizes["moe_num_experts"], sizes["moe_topk"]
    shared = sizes.get("moe_num_shared_experts", 2)
    experts = {"routed": number, "active": active, "width": sizes["intermediate_size"], "shared": shared}
    return _plain(sizes) | {"experts": experts, "feed_forward": 0}


def _chatglm(sizes: Config) -> dict[str, Any]:
    """ChatGLM2 to GLM-4 in their first form; only some group their keys."""
    biases = sizes.get("add_bias_linear", False)
    fields = {"attention_biases": biases, "feed_forward_biases": biases}
    fields |= {"query_key_value_biases": sizes.get("add_qkv_bias", False)}
    grouped = sizes.get("multi_query_attention", False)
    heads = {"heads": sizes["num_attention_heads"], "head_width": sizes.get("head_dim", 0, lowest=1)}
    return fields | heads | {"kv_heads": sizes["num_key_value_heads"] if grouped else 0}


def _gpt2(sizes: Config) -> dict[str, Any]:
    return {
        "kv_heads": 0,
        "feed_forward": sizes.get("n_inner", 0) or 4 * sizes["hidden_size"],
        "positions": "learned",
        "position_rows": sizes.get("max_position_embeddings", 1024, lowest=1),
        "attention_biases": True,
        "feed_forward_biases": True,
    }


def _dbrx(sizes: Config) -> dict[str, Any]:
    attention, network = sizes.part("attn_config"), sizes.part("ffn_config")
    experts = {
        "routed": network["moe_num_experts"],
        "active": network["moe_top_k"],
        "width": network["ffn_hidden_size"],
    }
    heads = {"heads": sizes["num_attention_heads"], "kv_heads": attention["kv_n_heads"], "head_width": 0}
    return heads | {"experts": experts, "feed_forward": 0}


WINDOWED_FAMILIES: dict[str, Callable[[Config], dict[str, Any]]] = {
    "afmoe": _afmoe,
    "aria_text": _aria,
    "bitnet": _plain,
    "chatglm": _chatglm,
    "dbrx": _dbrx,
    "exaone": _exaone,
    "flint": _flint,
    "gpt2": _gpt2,
    "granite_swa": _granite_windows,
    "granitemoe_swa": _granite_moe_windows,
    "hy_v3": _hunyuan_3,
    "hyperclovax": _hyperclovax,
    "iquestcoder": _plain,
    "jais2": _plain,
    "kolibri1": _kolibri,
    "mellum": _mellum,
    "nanochat": _plain,
    "olmo": _plain,
    "sarvam_moe": _sarvam,
    "vaultgemma": _vaultgemma,
}
