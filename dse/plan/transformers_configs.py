"""A ``config.json`` of Hugging Face transformers as a :class:`~dse.plan.model.Transformer`."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from dse.plan.model import Transformer
from hardware.inputs import InputError, fail, nearest, validate

Value = TypeVar("Value", int, bool, list[Any])
_TYPES: dict[type, str] = {int: "a whole number", bool: "true or false", list: "a list"}


def of_config(document: Any, name: str, where: str) -> Transformer:
    """The transformer of a ``config.json``, by the keys that the released models have.

    Raises:
        InputError: a family that has other keys, a key that is missing, or layers that a transformer here cannot have.
    """
    family = document.get("model_type") if isinstance(document, dict) else None
    if not isinstance(family, str) or family not in _FAMILIES:
        similar = nearest(family, _FAMILIES) if isinstance(family, str) else None
        raise fail(where, "model_type", family, f"must be one of {', '.join(_FAMILIES)}", similar)
    sizes = _Config(document, where)
    fields: dict[str, Any] = {
        "name": name,
        "source": f"config.json of {family}",
        **{field: sizes[key] for field, key in _NEEDED.items()},
        "kv_heads": _kv_heads(sizes),
        "head_width": sizes.get("head_dim", 0),
        "sequence": min(4096, sizes.get("max_position_embeddings", 4096)),
        "tied_embeddings": sizes.get("tie_word_embeddings", False),
        "attention_biases": sizes.get("attention_bias", False),
        "prediction_layers": sizes.get("num_nextn_predict_layers", 0),
    }
    fields |= _FAMILIES[family](sizes)
    if not fields["head_width"] and fields["heads"] and fields["hidden"] % fields["heads"]:
        rule = f"must divide hidden_size ({fields['hidden']}) where head_dim is left out"
        raise fail(where, _NEEDED["heads"], fields["heads"], rule)
    try:
        return validate(Transformer, fields, where)
    except InputError as error:
        raise InputError(replace(fault, key=_KEYS.get(fault.key, fault.key)) for fault in error.faults) from error


_NEEDED = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "feed_forward": "intermediate_size",
    "vocabulary": "vocab_size",
}
_KEYS = _NEEDED | {
    "kv_heads": "num_key_value_heads",
    "head_width": "head_dim",
    "sequence": "max_position_embeddings",
    "prediction_layers": "num_nextn_predict_layers",
    "window.tokens": "sliding_window",
}
"""By field of a transformer, the key that it is read from."""


class _Config:
    """A ``config.json`` of sizes and switches; null is as if left out. A fault names the key that the file has."""

    def __init__(self, document: dict[str, Any], where: str) -> None:
        self._document, self.where = document, where

    def __contains__(self, key: str) -> bool:
        return key in self._document

    def __getitem__(self, key: str) -> int:
        if self._document.get(key) is None:
            raise fail(self.where, key, "", "must be given")
        return self.get(key, 0)

    def get(self, key: str, usual: Value) -> Value:
        """The value at ``key``, of the type of ``usual``, which stands for a missing one."""
        value = self._document.get(key)
        if value is None:
            return usual
        if type(value) is not type(usual):
            raise fail(self.where, key, value, f"must be {_TYPES[type(usual)]}")
        if isinstance(value, int) and value < 0:
            raise fail(self.where, key, value, "must be at least 0")
        return value


def _kv_heads(sizes: _Config) -> int:
    heads, groups = sizes["num_attention_heads"], sizes.get("num_key_value_heads", 0)
    if groups and heads % groups:
        divisors = [each for each in range(1, min(heads, 2**16) + 1) if heads % each == 0]
        closest = min(divisors, key=lambda each: abs(each - groups), default=None)
        rule = f"must divide num_attention_heads ({heads})"
        raise fail(sizes.where, "num_key_value_heads", groups, rule, None if closest is None else str(closest))
    return groups


def _experts(sizes: _Config, routed: str, width: str) -> dict[str, Any]:
    """Equal experts; ``routed`` and ``width`` are the keys of their number and of the inner width of one."""
    number, active = sizes[routed], sizes["num_experts_per_tok"]
    if active > number > 0:
        rule = f"must be at most {routed}, {number}"
        raise fail(sizes.where, "num_experts_per_tok", active, rule, str(number))
    return {"routed": number, "active": active, "width": sizes[width]}


def _window(sizes: _Config, tokens: int, first: int = 0) -> dict[str, Any]:
    """A window of so many tokens (0: none) in the layers that ``layer_types`` names, or in those from ``first`` on."""
    kinds, layers = sizes.get("layer_types", []), max(1, sizes["num_hidden_layers"])
    within = sum(kind == "sliding_attention" for kind in kinds) if kinds else max(0, layers - first)
    return {"window": {"tokens": tokens, "share": within / (len(kinds) or layers)}} if tokens and within else {}


def _llama(sizes: _Config) -> dict[str, Any]:
    return {"feed_forward_biases": sizes.get("mlp_bias", False)}


def _mistral(sizes: _Config) -> dict[str, Any]:
    # transformers' own default, which the first release relies on and later ones set to null
    usual = 0 if "sliding_window" in sizes else 4096
    return _window(sizes, sizes.get("sliding_window", usual))


def _phi3(sizes: _Config) -> dict[str, Any]:
    return _window(sizes, sizes.get("sliding_window", 0))


def _mixtral(sizes: _Config) -> dict[str, Any]:
    experts = _experts(sizes, "num_local_experts", "intermediate_size")
    return {"experts": experts, "feed_forward": 0, **_window(sizes, sizes.get("sliding_window", 0))}


def _qwen_window(sizes: _Config, first: int) -> dict[str, Any]:
    return _window(sizes, sizes.get("sliding_window", 4096) if sizes.get("use_sliding_window", False) else 0, first)


def _qwen2(sizes: _Config) -> dict[str, Any]:
    return {"query_key_value_biases": True, **_qwen_window(sizes, sizes.get("max_window_layers", 28))}


def _qwen3(sizes: _Config) -> dict[str, Any]:
    fields = {"head_width": sizes.get("head_dim", 128), "query_key_norm": True}
    return fields | _qwen_window(sizes, sizes.get("max_window_layers", 28))


def _qwen3_moe(sizes: _Config) -> dict[str, Any]:
    period, dense = sizes.get("decoder_sparse_step", 1), sizes.get("mlp_only_layers", [])
    if period != 1:
        raise fail(sizes.where, "decoder_sparse_step", period, "must be 1: layers without experts come first", "1")
    if dense != [*range(len(dense))]:
        rule = "must be the first layers, in order: layers without experts come first"
        raise fail(sizes.where, "mlp_only_layers", dense, rule)
    routed = "num_local_experts" if "num_local_experts" in sizes else "num_experts"  # since transformers 5, and before
    experts = _experts(sizes, routed, "moe_intermediate_size") | {"dense_layers": len(dense)}
    return {"experts": experts, "query_key_norm": True, **_qwen_window(sizes, 0)}


def _gpt_oss(sizes: _Config) -> dict[str, Any]:
    fields: dict[str, Any] = _mixtral(sizes)
    fields["experts"]["biases"] = True
    if "layer_types" not in sizes:
        fields["window"] = {"tokens": sizes["sliding_window"], "share": 0.5}
    return fields | {"attention_biases": True, "attention_sinks": True}


def _some_dense(sizes: _Config) -> dict[str, Any]:
    """Routed and shared experts behind some layers without any."""
    period = sizes.get("moe_layer_freq", 1)
    if period != 1:
        raise fail(sizes.where, "moe_layer_freq", period, "must be 1: layers without experts come first", "1")
    shared, dense = sizes.get("n_shared_experts", 0), sizes.get("first_k_dense_replace", 0)
    experts = _experts(sizes, "n_routed_experts", "moe_intermediate_size")
    return {"experts": experts | {"shared": shared, "dense_layers": dense}}


def _glm4_moe(sizes: _Config) -> dict[str, Any]:
    biased, normed = sizes.get("attention_bias", False), sizes.get("use_qk_norm", False)
    own = {"attention_biases": False, "query_key_value_biases": biased, "query_key_norm": normed}
    return _some_dense(sizes) | own


def _deepseek(sizes: _Config) -> dict[str, Any]:
    latent = {
        "query_rank": sizes.get("q_lora_rank", 0),
        "key_value_rank": sizes["kv_lora_rank"],
        "rotary_width": sizes["qk_rope_head_dim"],
    }
    widths = {
        "head_width": sizes["qk_nope_head_dim"] + sizes["qk_rope_head_dim"],
        "value_width": sizes["v_head_dim"],
        "kv_heads": 0,
    }
    return _some_dense(sizes) | {"latent": latent, **widths}


_FAMILIES: dict[str, Callable[[_Config], dict[str, Any]]] = {
    "llama": _llama,
    "mistral": _mistral,
    "mixtral": _mixtral,
    "phi3": _phi3,
    "qwen2": _qwen2,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "glm4_moe": _glm4_moe,
    "gpt_oss": _gpt_oss,
    "deepseek_v2": _deepseek,
    "deepseek_v3": _deepseek,
    "kimi_k2": _deepseek,
}
