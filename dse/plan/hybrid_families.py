"""Families of hybrid models: layers with states, short convolutions or one part, and attention in some of them.

Each reader returns fields of a :class:`~dse.plan.model.Transformer`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from dse.plan.config_families import (
    biased,
    flags,
    latent,
    layer_types,
    qwen_experts,
    routed_experts,
    shared_width,
    some_dense,
)
from dse.plan.config_values import Config
from hardware.inputs import fail

_WORDS = {
    "attention": "attention",
    "full_attention": "attention",
    "sliding_attention": "window",
    "hybrid": "attention+recurrence",
    "linear_attention": "recurrence",
    "mamba": "recurrence",
    "mamba2": "recurrence",
    "recurrent": "recurrence",
    "conv": "recurrence",
    "moe": "experts",
    "mlp": "dense",
}
"""What a family calls a layer, or a part of one, and what it is here."""

_STATES = 16


def _listed(sizes: Config, key: str, usual: Sequence[str]) -> list[str]:
    """The words of the layers that the file lists, or of the ``usual`` ones."""
    return [_WORDS[each] for each in layer_types(sizes, (*_WORDS,), key) or usual]


def _networks(mixers: Sequence[str], sparse: Sequence[bool]) -> list[str]:
    """Layers of these mixers, and networks with experts where ``sparse``."""
    return [f"{mixer}+{'experts' if each else 'dense'}" for mixer, each in zip(mixers, sparse, strict=True)]


def mixed(mixers: Sequence[str], experts: dict[str, Any]) -> dict[str, Any]:
    """Layers of these mixers in front of what :func:`~dse.plan.config_families.with_experts` says of networks."""
    own = dict(experts["experts"])
    dense = own.pop("dense_layers", 0)
    words = experts.get("layer_kinds") or ["dense"] * dense + ["experts"] * (len(mixers) - dense)
    return {"experts": own, "layer_kinds": _networks(mixers, [word.endswith("experts") for word in words])}


def _without_rotation(kinds: Sequence[str]) -> list[str]:
    return [kind.replace("attention", "attention+nope") for kind in kinds]


# Mamba ----------------------------------------------------------------------------------------------------------------


def _mamba2(sizes: Config, prefix: str = "mamba_", **keys: str) -> dict[str, Any]:
    """Mamba-2 by the keys of Bamba and its relatives, or by others."""
    named = {
        "heads": f"{prefix}n_heads",
        "head_width": f"{prefix}d_head",
        "key_heads": f"{prefix}n_groups",
        "state_width": f"{prefix}d_state",
        "kernel": f"{prefix}d_conv",
        "chunk": f"{prefix}chunk_size",
    } | keys
    heads = sizes[named["heads"]]
    key = named["head_width"]
    inner = sizes.get("mamba_d_ssm", 0) or sizes.get(f"{prefix}expand", 2, lowest=1) * sizes["hidden_size"]
    width = inner // heads if sizes.has_text(key) or key not in sizes else sizes[key]
    return {
        "kind": "mamba2",
        "heads": heads,
        "head_width": width,
        **{field: sizes[named[field]] for field in ("key_heads", "state_width", "kernel", "chunk")},
    }


def _bamba(sizes: Config) -> dict[str, Any]:
    layers, attending = sizes["num_hidden_layers"], sizes.get("attn_layer_indices", [])
    mixers = ["attention" if layer in attending else "recurrence" for layer in range(layers)]
    biases = {
        "convolution_biases": sizes.get("mamba_conv_bias", True),
        "biases": sizes.get("mamba_proj_bias", False),
    }
    return {
        "attention_biases": biased(sizes),
        "feed_forward_biases": sizes.get("mlp_bias", False),
        "layer_kinds": [f"{each}+dense" for each in mixers],
        "recurrence": _mamba2(sizes) | biases,
    }


def _falcon_h1(sizes: Config) -> dict[str, Any]:
    fields = _bamba(sizes)
    fields["recurrence"] |= {"has_norm": sizes.get("mamba_rms_norm", False)}
    return fields | {"layer_kinds": ["attention+recurrence+dense"] * sizes["num_hidden_layers"]}


def _granite_hybrid(sizes: Config) -> dict[str, Any]:
    layers = sizes["num_hidden_layers"]
    key = "layer_types" if "layer_types" in sizes else "layers_block_type"
    mixers = _listed(sizes, key, ["mamba"] * layers)
    if sizes.text("position_embedding_type") != "rope":
        mixers = _without_rotation(mixers)
    number = sizes.get("num_local_experts", 0)
    fields: dict[str, Any] = {"attention_biases": biased(sizes)}
    if any("recurrence" in each for each in mixers):
        own = {"convolution_biases": sizes.get("mamba_conv_bias", True), "biases": sizes.get("mamba_proj_bias", False)}
        fields["recurrence"] = _mamba2(sizes) | own
    if not number:
        width = sizes["shared_intermediate_size"]
        return fields | {"feed_forward": width, "layer_kinds": _networks(mixers, [False] * layers)}
    experts = routed_experts(sizes, "num_local_experts", "intermediate_size")
    experts |= {"shared": shared_width(sizes, "shared_intermediate_size", "intermediate_size")}
    return fields | {"feed_forward": 0, "experts": experts, "layer_kinds": _networks(mixers, [True] * layers)}


_NEMOTRON_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}


def _nemotron_h(sizes: Config) -> dict[str, Any]:
    key = "hybrid_override_pattern"
    if pattern := sizes.text(key):
        for letter in pattern:
            if letter not in _NEMOTRON_LETTERS:
                raise fail(sizes.where, key, letter, f"must have letters of {', '.join(_NEMOTRON_LETTERS)} alone")
        listed = [_NEMOTRON_LETTERS[letter] for letter in pattern]
    else:
        listed = sizes.get("layers_block_type", [])
        if not listed:
            raise fail(sizes.where, key, "", f"must be given, or layers_block_type with {', '.join(_WORDS)}")
        key = "layers_block_type"
        for layer, each in enumerate(listed):
            if each not in [*_WORDS]:
                raise fail(sizes.where, f"{key}[{layer}]", each, f"must be one of {', '.join(_WORDS)}")
    if (layers := sizes.get("num_hidden_layers", len(listed))) != len(listed):
        raise fail(sizes.where, key, f"{len(listed)} layers", f"must have num_hidden_layers of them ({layers})")
    words = _without_rotation([_WORDS[each] for each in listed])
    fields: dict[str, Any] = {
        "layers": len(words),
        "layer_kinds": words,
        "prediction_layers": 0,
        "gated": False,
        "attention_biases": biased(sizes),
        "feed_forward_biases": sizes.get("mlp_bias", False),
    }
    if "recurrence" in words:
        names = {"heads": "mamba_num_heads", "head_width": "mamba_head_dim", "key_heads": "n_groups"}
        names |= {"state_width": "ssm_state_size", "kernel": "conv_kernel", "chunk": "chunk_size"}
        biases = {"convolution_biases": sizes.get("use_conv_bias", True), "biases": sizes.get("use_bias", False)}
        fields["recurrence"] = _mamba2(sizes, **names) | biases
    if "experts" in words:
        shared = shared_width(sizes, "moe_shared_expert_intermediate_size", "moe_intermediate_size")
        experts = routed_experts(sizes, "n_routed_experts", "moe_intermediate_size")
        fields["experts"] = experts | {"shared": shared if sizes.get("n_shared_experts", 1) else 0}
    return fields | ({"feed_forward": 0} if "dense" not in words else {})


def _selective(sizes: Config, prefix: str, normed: bool) -> dict[str, Any]:
    """Mamba's selective scan: channels are heads of one number; its steps come from a narrow product."""
    names = {"state": f"{prefix}d_state", "conv": f"{prefix}d_conv", "rank": f"{prefix}dt_rank"}
    if not prefix:
        names = {"state": "state_size", "conv": "conv_kernel", "rank": "time_step_rank"}
    hidden = sizes["hidden_size"]
    inner = 0 if prefix else sizes.get("intermediate_size", 0)
    inner = inner or sizes.get(f"{prefix}expand", 2, lowest=1) * hidden
    rank = -(-hidden // 16) if sizes.has_text(names["rank"]) or names["rank"] not in sizes else sizes[names["rank"]]
    return {
        "kind": "mamba",
        "heads": inner,
        "head_width": 1,
        "state_width": sizes.get(names["state"], _STATES, lowest=1),
        "kernel": sizes.get(names["conv"], 4, lowest=1),
        "rank": rank,
        "has_norm": normed,
        "convolution_biases": sizes.get("mamba_conv_bias" if prefix else "use_conv_bias", True),
        "biases": sizes.get("mamba_proj_bias" if prefix else "use_bias", False),
    }


def _jamba(sizes: Config) -> dict[str, Any]:
    layers = range(sizes["num_hidden_layers"])
    period, offset = sizes.get("attn_layer_period", 8, lowest=1), sizes.get("attn_layer_offset", 4)
    every, first = sizes.get("expert_layer_period", 2, lowest=1), sizes.get("expert_layer_offset", 1)
    mixers = ["attention+nope" if layer % period == offset else "recurrence" for layer in layers]
    number = "num_local_experts" if "num_local_experts" in sizes else "num_experts"
    sparse = [layer % every == first and sizes.get(number, 16, lowest=1) > 1 for layer in layers]
    fields: dict[str, Any] = {"recurrence": _selective(sizes, "mamba_", normed=True)}
    if any(sparse):
        fields["experts"] = routed_experts(sizes, number, "intermediate_size")
    return fields | {"layer_kinds": _networks(mixers, sparse)}


def _without_attention(sizes: Config, recurrence: dict[str, Any]) -> dict[str, Any]:
    """A model of recurrences alone."""
    layers = sizes["num_hidden_layers"]
    heads = {"heads": 1, "kv_heads": 1, "head_width": recurrence["head_width"], "feed_forward": 0}
    return heads | {"recurrence": recurrence, "layer_kinds": ["recurrence"] * layers, "positions": "none"}


def _mamba(sizes: Config) -> dict[str, Any]:
    return _without_attention(sizes, _selective(sizes, "", normed=False))


def _mamba2_alone(sizes: Config) -> dict[str, Any]:
    names = {"heads": "num_heads", "head_width": "head_dim", "key_heads": "n_groups"}
    names |= {"state_width": "state_size", "kernel": "conv_kernel", "chunk": "chunk_size"}
    biases = {"convolution_biases": sizes.get("use_conv_bias", True), "biases": sizes.get("use_bias", False)}
    return _without_attention(sizes, _mamba2(sizes, **names) | biases)


# Rules of deltas, and linear attention --------------------------------------------------------------------------------


def _gated_delta(sizes: Config) -> dict[str, Any]:
    """By the keys of Qwen3-Next."""
    return {
        "kind": "gated_delta",
        "heads": sizes["linear_num_value_heads"],
        "head_width": sizes["linear_value_head_dim"],
        "key_heads": sizes["linear_num_key_heads"],
        "state_width": sizes["linear_key_head_dim"],
        "kernel": sizes["linear_conv_kernel_dim"],
    }


def _qwen_mixers(sizes: Config) -> list[str]:
    layers, period = sizes["num_hidden_layers"], sizes.get("full_attention_interval", 4, lowest=1)
    usual = ["linear_attention" if (layer + 1) % period else "full_attention" for layer in range(layers)]
    return _listed(sizes, "layer_types", usual)


def _qwen_hybrid(sizes: Config) -> dict[str, Any]:
    """Qwen3.5: a gate behind attention, gated delta rules in most layers."""
    mixers = _qwen_mixers(sizes)
    fields: dict[str, Any] = {"attention_biases": biased(sizes), "query_key_norm": True, "attention_gate": True}
    if "recurrence" in mixers:
        fields["recurrence"] = _gated_delta(sizes)
    return fields | {"layer_kinds": [f"{each}+dense" for each in mixers]}


def _qwen_hybrid_moe(sizes: Config) -> dict[str, Any]:
    experts = qwen_experts(sizes)
    shared = shared_width(sizes, "shared_expert_intermediate_size", "moe_intermediate_size")
    experts["experts"] |= {"shared": shared}
    fields = _qwen_hybrid(sizes) | mixed(_qwen_mixers(sizes), experts)
    return fields | ({} if any(kind.endswith("dense") for kind in fields["layer_kinds"]) else {"feed_forward": 0})


def _kimi_linear(sizes: Config) -> dict[str, Any]:
    layers, part = sizes["num_hidden_layers"], sizes.part("linear_attn_config")
    usual = ["full_attention" if layer and layer % 4 == 0 else "linear_attention" for layer in range(layers)]
    if full := part.get("full_attn_layers", []):
        usual = ["full_attention" if layer + 1 in full else "linear_attention" for layer in range(layers)]
    heads, width = part.get("num_heads", 0) or sizes.get("linear_num_heads", 32, lowest=1), part.get("head_dim", 0)
    width = width or sizes.get("linear_head_dim", 128, lowest=1)
    kernel = part.get("short_conv_kernel_size", 0) or sizes.get("linear_conv_kernel_dim", 4)
    recurrence = {"kind": "kda", "heads": heads, "head_width": width, "key_heads": heads, "state_width": width}
    mixers = _without_rotation(_listed(sizes, "layer_types", usual))
    fields = latent(sizes) | {"recurrence": recurrence | {"kernel": kernel, "rank": width}}
    return fields | mixed(mixers, some_dense(sizes))


def _minimax(sizes: Config) -> dict[str, Any]:
    """Lightning attention; MiniMax's own files list 0 for it and 1 for attention."""
    layers = sizes["num_hidden_layers"]
    usual = ["linear_attention" if layer % 2 else "full_attention" for layer in range(layers)]
    if own := flags(sizes, "attn_type_list"):
        usual = ["full_attention" if each else "linear_attention" for each in own]
    heads = sizes["num_attention_heads"]
    width = sizes.get("head_dim", 0) or sizes["hidden_size"] // heads
    recurrence = {"kind": "lightning", "heads": heads, "head_width": width, "key_heads": heads, "state_width": width}
    experts = routed_experts(sizes, "num_local_experts", "intermediate_size")
    return {
        "recurrence": recurrence | {"chunk": sizes.get("block_size", 256, lowest=1)},
        "experts": experts,
        "feed_forward": 0,
        "layer_kinds": _networks(_listed(sizes, "layer_types", usual), [True] * layers),
    }


# Convolutions and gates -----------------------------------------------------------------------------------------------


def convolution(sizes: Config) -> dict[str, Any]:
    """Short convolutions with gates, by the keys of LFM2."""
    kernel, biases = sizes.get("conv_L_cache", 3, lowest=1), sizes.get("conv_bias", False)
    return {
        "recurrence": {
            "kind": "gated_convolution",
            "heads": sizes["hidden_size"],
            "head_width": 1,
            "kernel": kernel,
            "convolution_biases": biases,
            "biases": biases,
        },
        "query_key_norm": True,
        "tied_embeddings": sizes.get("tie_embedding", sizes.get("tie_word_embeddings", True)),
    }


def _lfm2(sizes: Config) -> dict[str, Any]:
    """Feed-forward widths are two thirds of what is stated, in whole multiples."""
    layers = sizes["num_hidden_layers"]
    attending = sizes.get("full_attn_idxs", [*range(layers)])
    usual = ["full_attention" if layer in attending else "conv" for layer in range(layers)]
    width = sizes.get("block_ff_dim", 0) or sizes["intermediate_size"]
    if sizes.get("block_auto_adjust_ff_dim", True):
        part = int((sizes.positive("block_ffn_dim_multiplier") or 1.0) * int(2 * width / 3))
        multiple = sizes.get("block_multiple_of", 256, lowest=1)
        width = multiple * -(-part // multiple)
    mixers, fields = _listed(sizes, "layer_types", usual), convolution(sizes) | {"feed_forward": width}
    if "recurrence" not in mixers:
        del fields["recurrence"]
    return fields | {"layer_kinds": [f"{each}+dense" for each in mixers]}


def _lfm2_moe(sizes: Config) -> dict[str, Any]:
    layers, dense = sizes["num_hidden_layers"], sizes.get("num_dense_layers", 2)
    mixers = _listed(sizes, "layer_types", ["conv"] * layers)
    number = "num_local_experts" if "num_local_experts" in sizes else "num_experts"
    experts = routed_experts(sizes, number, "moe_intermediate_size")
    sparse = [layer >= dense for layer in range(layers)]
    return convolution(sizes) | {"experts": experts, "layer_kinds": _networks(mixers, sparse)}


def _recurrent_gemma(sizes: Config) -> dict[str, Any]:
    """Griffin: the blocks repeat; attention has a window."""
    layers = sizes["num_hidden_layers"]
    blocks = sizes.get("block_types", []) or ["recurrent", "recurrent", "attention"]
    for place, block in enumerate(blocks):
        if block not in ("recurrent", "attention"):
            raise fail(sizes.where, f"block_types[{place}]", block, "must be recurrent or attention")
    names = {"recurrent": "recurrence", "attention": "window"}
    mixers = [names[blocks[layer % len(blocks)]] for layer in range(layers)]
    heads, width = sizes["num_attention_heads"], sizes.get("lru_width", 0) or sizes["hidden_size"]
    recurrence = {"kind": "rg_lru", "heads": heads, "head_width": width // heads, "convolution_biases": True}
    window = {"tokens": sizes.get("attention_window_size", 2048, lowest=1), "share": mixers.count("window") / layers}
    return {
        "recurrence": recurrence | {"kernel": sizes.get("conv1d_width", 4, lowest=1), "biases": True},
        "window": window,
        "feed_forward": sizes["intermediate_size"] // 2,
        "feed_forward_biases": True,
        "layer_kinds": [f"{each}+dense" for each in mixers],
        "tied_embeddings": sizes.get("tie_word_embeddings", True),
    }


HYBRID_FAMILIES: dict[str, Callable[[Config], dict[str, Any]]] = {
    "bamba": _bamba,
    "falcon_h1": _falcon_h1,
    "falcon_mamba": _mamba,
    "granitemoehybrid": _granite_hybrid,
    "jamba": _jamba,
    "kimi_linear": _kimi_linear,
    "lfm2": _lfm2,
    "lfm2_moe": _lfm2_moe,
    "mamba": _mamba,
    "mamba2": _mamba2_alone,
    "minimax": _minimax,
    "minimax_m1": _minimax,
    "minimax_text_01": _minimax,
    "nemotron_h": _nemotron_h,
    "qwen3_5_moe_text": _qwen_hybrid_moe,
    "qwen3_5_text": _qwen_hybrid,
    "qwen3_next": _qwen_hybrid_moe,
    "recurrent_gemma": _recurrent_gemma,
}
