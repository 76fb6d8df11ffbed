"""Families whose layers with a window have other heads than the rest, or whose heads have a gate each.

Each reader returns fields of a :class:`~dse.plan.model.Transformer`.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from dse.plan.config_families import (
    KINDS,
    biased,
    flags,
    layer_types,
    routed_experts,
    shared_width,
    some_dense,
    with_experts,
)
from dse.plan.config_values import Config
from dse.plan.hybrid_families import convolution, mixed
from hardware.inputs import fail


class _Heads(NamedTuple):
    """Of a layer's attention."""

    heads: int
    kv_heads: int
    head_width: int
    value_width: int = 0
    attention_sinks: bool = False
    values_are_keys: bool = False


def _stated(sizes: Config) -> _Heads:
    """What the file has for all layers."""
    return _Heads(sizes["num_attention_heads"], sizes["num_key_value_heads"], sizes["head_dim"])


def _of_layers(sizes: Config, near: Sequence[bool], whole: _Heads, close: _Heads) -> list[_Heads]:
    """Of each layer: those of layers without or with a window, or what ``per_layer_config`` has (transformers 5)."""
    if "per_layer_config" not in sizes:
        return [close if each else whole for each in near]
    own, stated = [], _stated(sizes)
    for layer, is_near in enumerate(near):
        part = sizes.part("per_layer_config").part(str(layer))
        if others := part.keys - {"num_attention_heads", "num_key_value_heads", "head_dim"}:
            rule = "must have num_attention_heads, num_key_value_heads and head_dim alone"
            raise fail(sizes.where, f"per_layer_config.{layer}", ", ".join(sorted(others)), rule)
        heads = part.get("num_attention_heads", stated.heads, lowest=1)
        groups = part.get("num_key_value_heads", stated.kv_heads, lowest=1)
        width = part.get("head_dim", stated.head_width, lowest=1)
        own.append((close if is_near else whole)._replace(heads=heads, kv_heads=groups, head_width=width))
    return own


def _attention(sizes: Config, near: Sequence[bool], of_layers: Sequence[_Heads]) -> dict[str, Any]:
    """Fields of attention, if layers with a window are equal, and so are the others."""
    groups: dict[bool, _Heads] = {}
    for layer, (is_near, heads) in enumerate(zip(near, of_layers, strict=True)):
        if groups.setdefault(is_near, heads) != heads:
            kind = "with a window" if is_near else "without a window"
            rule = f"must have heads as other layers {kind}: a third kind of attention is not known"
            raise fail(sizes.where, f"layer {layer}", f"{heads.heads} of {heads.head_width}", rule)
    fields: dict[str, Any] = groups.get(False, groups.get(True, of_layers[0]))._asdict()
    if any(near):
        window = {"tokens": sizes["sliding_window"], "share": sum(near) / len(near)}
        differs = len({*groups.values()}) > 1
        fields |= {"window": window | ({"attention": groups[True]._asdict()} if differs else {})}
    return fields


def _near(sizes: Config, usual: Sequence[bool]) -> list[bool]:
    """Which layers have a window."""
    return [kind == "sliding_attention" for kind in layer_types(sizes, KINDS)] or [*usual]


def _words(near: Sequence[bool]) -> list[str]:
    return ["window" if each else "attention" for each in near]


def _without_dense(fields: dict[str, Any]) -> dict[str, Any]:
    """The same without the width of dense networks, where no layer has one."""
    has_dense = any(word.endswith("dense") for word in fields["layer_kinds"])
    return fields | ({} if has_dense else {"feed_forward": 0})


def _gemma4(sizes: Config) -> dict[str, Any]:
    """Layers that see all tokens have wider and fewer heads, whose keys may be values too; the last is one of them.

    With experts, each layer has a dense network beside them, as wide as several of them: they are taken for shared
    ones. Three of the seven norms of such a layer are not counted.
    """
    layers, close = sizes["num_hidden_layers"], _stated(sizes)
    if sizes.get("hidden_size_per_layer_input", 0):
        key, value = "hidden_size_per_layer_input", sizes["hidden_size_per_layer_input"]
        raise fail(sizes.where, key, value, "has per-layer embedding layers, which are not known")
    if sizes.text("use_bidirectional_attention") == "all":
        raise fail(sizes.where, "use_bidirectional_attention", "all", "must leave text causal: only such is planned")
    near = _near(sizes, [bool((layer + 1) % 6) for layer in range(layers)])
    near[-1] = False
    shared = sizes.get("attention_k_eq_v", False)
    groups = sizes.get("num_global_key_value_heads", 0) if shared else 0
    width = sizes.get("global_head_dim", 512, lowest=1)
    whole = close._replace(head_width=width, kv_heads=groups or close.kv_heads, values_are_keys=shared)
    fields = _attention(sizes, near, _of_layers(sizes, near, whole, close)) | {"attention_biases": biased(sizes)}
    if not sizes.get("enable_moe_block", False):
        return fields | {"layer_kinds": [f"{word}+dense" for word in _words(near)]}
    experts = routed_experts(sizes, "num_experts", "moe_intermediate_size")
    experts |= {"shared": shared_width(sizes, "intermediate_size", "moe_intermediate_size")}
    return fields | {"experts": experts, "feed_forward": 0, "layer_kinds": [f"{word}+experts" for word in _words(near)]}


def _mimo_v2(sizes: Config) -> dict[str, Any]:
    """Layers with a window have twice the heads of keys, and sinks, where the file does not say otherwise."""
    layers, whole = sizes["num_hidden_layers"], _stated(sizes)
    whole = whole._replace(
        value_width=sizes.get("v_head_dim", whole.head_width, lowest=1),
        attention_sinks=sizes.get("add_full_attention_sink_bias", False),
    )
    close = _Heads(
        sizes.get("swa_num_attention_heads", whole.heads, lowest=1),
        sizes.get("swa_num_key_value_heads", 2 * whole.kv_heads, lowest=1),
        sizes.get("swa_head_dim", whole.head_width, lowest=1),
        sizes.get("swa_v_head_dim", whole.value_width, lowest=1),
        sizes.get("add_swa_attention_sink_bias", True),
    )
    usual = [layer > 0 and (layer + 1) % 6 > 0 for layer in range(layers)]
    near = _near(sizes, flags(sizes, "hybrid_layer_pattern") or usual)
    fields = _attention(sizes, near, [close if each else whole for each in near])
    if any(near) and (before := sizes.get("sliding_window_size", 0)):
        fields["window"] |= {"tokens": before + 1}  # a token sees so many before it
    own = {"query_key_value_biases": biased(sizes), **mixed(_words(near), some_dense(sizes))}
    return _without_dense(fields | own)


def _step3(sizes: Config) -> dict[str, Any]:
    """Step 3.5 and 3.7: more heads of queries in layers with a window, and a gate for each."""
    layers, whole = sizes["num_hidden_layers"], _stated(sizes)
    other = sizes.part("attention_other_setting")
    heads = sizes.get("num_sliding_attention_heads", 0) or other.get("num_attention_heads", whole.heads, lowest=1)
    groups = other.get("num_attention_groups", whole.kv_heads, lowest=1)
    close = _Heads(heads, groups, other.get("head_dim", whole.head_width, lowest=1))
    near = _near(sizes, [False] * layers)
    sparse = [layer >= 3 for layer in range(layers)]
    if (text := sizes.text("moe_layers_enum")) is not None:
        listed = {part.strip() for part in text.split(",")}
        sparse = [str(layer) in listed for layer in range(layers)]
    if kinds := layer_types(sizes, ("dense", "sparse"), "mlp_layer_types"):
        sparse = [kind == "sparse" for kind in kinds]
    experts = routed_experts(sizes, "n_routed_experts", "moe_intermediate_size")
    experts |= {"shared": shared_width(sizes, "share_expert_dim", "moe_intermediate_size")}
    fields = _attention(sizes, near, _of_layers(sizes, near, whole, close))
    gates = sizes.get("use_head_wise_attn_gate", True)
    own = {"attention_biases": biased(sizes), "feed_forward_biases": sizes.get("mlp_bias", False), "head_gates": gates}
    return _without_dense(fields | own | mixed(_words(near), with_experts(experts, sparse)))


def _laguna(sizes: Config) -> dict[str, Any]:
    """Heads of queries are listed by layer; gates of each head, or of each of its channels."""
    layers, base = sizes["num_hidden_layers"], _stated(sizes)
    near = _near(sizes, [False] * layers)
    listed = sizes.get("num_attention_heads_per_layer", [])
    if listed and len(listed) != layers:
        rule = f"must have one entry per layer (num_hidden_layers is {layers})"
        raise fail(sizes.where, "num_attention_heads_per_layer", f"{len(listed)} entries", rule)
    fields = _attention(sizes, near, [base._replace(heads=heads) for heads in listed or [base.heads] * layers])
    kinds = layer_types(sizes, ("dense", "sparse"), "mlp_layer_types")
    sparse = [kind == "sparse" for kind in kinds] or [layer > 0 for layer in range(layers)]
    experts = routed_experts(sizes, "num_experts", "moe_intermediate_size")
    experts |= {"shared": shared_width(sizes, "shared_expert_intermediate_size", "moe_intermediate_size")}
    by_channel = sizes.has_text("gating") and sizes.text("gating") == "per-element"
    gates = {"attention_gate": by_channel, "head_gates": not by_channel}
    own = {"attention_biases": biased(sizes), **gates}
    return _without_dense(fields | own | mixed(_words(near), with_experts(experts, sparse)))


def _lfm3(sizes: Config) -> dict[str, Any]:
    """Short convolutions, windows and attention to all tokens, with a gate for each head."""
    layers = sizes["num_hidden_layers"]
    usual = ["full_attention" if layer % 4 == 2 else "conv" if layer % 4 or not layer else "sliding_attention"
             for layer in range(layers)]  # fmt: skip
    names = {"full_attention": "attention", "sliding_attention": "window", "conv": "recurrence"}
    words = [names[kind] for kind in layer_types(sizes, [*names]) or usual]
    fields = convolution(sizes) if "recurrence" in words else {}
    if near := words.count("window"):
        fields |= {"window": {"tokens": sizes["sliding_window"], "share": near / layers}}
    return fields | {
        "attention_biases": biased(sizes),
        "query_key_norm": True,
        "head_gates": sizes.get("use_attention_gate", True),
        "post_norms": 2 if sizes.get("use_sandwich_norm", True) else 0,
        "layer_kinds": [f"{word}+dense" for word in words],
    }


UNEQUAL_FAMILIES: dict[str, Callable[[Config], dict[str, Any]]] = {
    "gemma4_text": _gemma4,
    "gemma4_unified_text": _gemma4,
    "laguna": _laguna,
    "lfm3": _lfm3,
    "mimo_v2_flash": _mimo_v2,
    "step3p5": _step3,
}
