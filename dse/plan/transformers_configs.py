"""A ``config.json`` of Hugging Face transformers as a :class:`~dse.plan.model.Transformer`."""

import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from dse.plan.model import Transformer
from dse.plan.model_parts import MAX_SIZE
from hardware.inputs import InputError, fail, nearest, validate

Value = TypeVar("Value", int, bool, list[Any])
_TYPES: dict[type, str] = {int: "a whole number", bool: "true or false", list: "a list"}


def of_config(document: Any, name: str, where: str) -> Transformer:
    """The transformer of a ``config.json``, by the keys that the released models have.

    Args:
        document: what the file holds.
        name: of the model; of a file or folder, what names may not have becomes a hyphen.
        where: the file, for errors.

    Raises:
        InputError: a family that has other keys, a key that is missing, or layers that a transformer here cannot have.
    """
    family = document.get("model_type") if isinstance(document, dict) else None
    nested = document.get("text_config") if isinstance(document, dict) else None
    path = ""
    if isinstance(nested, dict) and not (isinstance(family, str) and family in _FAMILIES):
        # Of a model that reads images too, the part that models language.
        document = {key: value for key, value in document.items() if key == "tie_word_embeddings"} | nested
        family, path = nested.get("model_type"), "text_config."
    if not isinstance(family, str) or family not in _FAMILIES:
        similar = nearest(family, _FAMILIES) if isinstance(family, str) else None
        unknown = _unknown_layers(document) if isinstance(document, dict) else ""
        raise fail(where, f"{path}model_type", family, f"{unknown}must be one of {', '.join(_FAMILIES)}", similar)
    sizes = _Config(_USUAL.get(family, {}) | document, where, path)
    fields: dict[str, Any] = {
        "name": re.sub(r"[^A-Za-z0-9._-]+", "-", name).lstrip("._-")[:80] or family,
        "source": f"config.json of {family}",
        **{field: sizes[key] for field, key in _NEEDED.items()},
        "kv_heads": _kv_heads(sizes),
        "head_width": sizes.get("head_dim", 0, lowest=1),
        "sequence": (tokens := min(_SAMPLE_TOKENS, sizes.get("max_position_embeddings", _SAMPLE_TOKENS, lowest=1))),
        "assumed": _assumed(family, document, tokens),
        "tied_embeddings": sizes.get("tie_word_embeddings", False),
        "prediction_layers": sizes.get("num_nextn_predict_layers", 0),
        "numerics": _numerics(sizes, family),
    } | _ALWAYS.get(family, {})
    fields |= _FAMILIES[family](sizes)
    if not fields["head_width"] and fields["hidden"] % fields["heads"]:
        rule = f"must divide hidden_size ({fields['hidden']}) if head_dim is not given"
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
_SAMPLE_TOKENS = 4096
"""Of models with a ``config.json``, which has the longest sample and no usual one; or the longest, where it is less."""

_KEYS = {"layers": "num_hidden_layers", "prediction_layers": "num_nextn_predict_layers"}
"""By field of a transformer that may have a fault still, the key that it is read from."""

_LAYERS = {
    "Mamba": ("hybrid_override_pattern", "mamba_d_state", "mamba_n_heads", "ssm_state_size", "state_size", "ssm_cfg"),
    "linear attention": ("linear_num_key_heads", "linear_attn_config", "attn_type_list", "full_attention_interval"),
    "recurrent": ("block_types", "lru_width", "rescale_every"),
    "convolution": ("conv_L_cache",),
}
"""Kinds of layers that no transformer here has, and keys of families that have them."""


def _unknown_layers(document: dict[str, Any]) -> str:
    """The kinds of layers that a file of an unknown family names, and which are not known either."""
    kinds = [kind for kind, keys in _LAYERS.items() if any(document.get(key) is not None for key in keys)]
    listed = document.get("layer_types") or document.get("layers_block_type")
    if isinstance(listed, list):
        kinds += [kind for kind in dict.fromkeys(map(str, listed)) if kind not in (*_KINDS, "attention")]
    return f"has {' and '.join(dict.fromkeys(kinds))} layers, which are not known; " if kinds else ""


_NORMS = dict.fromkeys(("gemma2", "gemma3_text", "glm4"), "both") | dict.fromkeys(
    ("olmo2", "olmo3", "exaone4"), "behind"
)
"""Where the norms of a layer are, of families that have them not in front alone."""

_ALWAYS: dict[str, dict[str, Any]] = {
    "gemma2": {"post_norms": 2},
    "gemma3_text": {"post_norms": 2, "query_key_norm": True},
    "glm4": {"post_norms": 2},
    "olmo2": {"query_key_norm": True},
    "olmo3": {"query_key_norm": True},
    "olmoe": {"query_key_norm": True},
    "exaone4": {"query_key_norm": True},
    "minimax_m2": {"query_key_norm": True},
    "starcoder2": {"normalisation": "layer_norm", "gated": False},
    "nemotron": {"normalisation": "layer_norm", "gated": False},
    "arcee": {"gated": False},
}
"""What every model of a family has, and no key says."""

_USUAL: dict[str, dict[str, Any]] = {
    "mistral": {"num_key_value_heads": 8, "sliding_window": 4096},
    "mixtral": {"num_key_value_heads": 8},
    "qwen2": {"num_key_value_heads": 32, "sliding_window": 4096, "max_window_layers": 28},
    "qwen3": {"num_key_value_heads": 32, "head_dim": 128, "sliding_window": 4096, "max_window_layers": 28},
    "qwen3_moe": {"num_key_value_heads": 4, "sliding_window": 4096},
    "glm4_moe": {"num_key_value_heads": 8, "n_shared_experts": 1, "first_k_dense_replace": 1},
    "gpt_oss": {"num_key_value_heads": 8, "head_dim": 64, "sliding_window": 128, "attention_bias": True},
    "gemma": {"num_key_value_heads": 16, "head_dim": 256, "tie_word_embeddings": True},
    "gemma2": {"num_key_value_heads": 4, "head_dim": 256, "tie_word_embeddings": True, "sliding_window": 4096},
    "gemma3_text": {
        "num_key_value_heads": 4,
        "head_dim": 256,
        "tie_word_embeddings": True,
        "sliding_window": 4096,
        "sliding_window_pattern": 6,
    },
    "smollm3": {"num_key_value_heads": 4, "tie_word_embeddings": True},
    "starcoder2": {"num_key_value_heads": 2, "tie_word_embeddings": True, "use_bias": True},
    "exaone4": {"num_key_value_heads": 32, "sliding_window": 4096, "sliding_window_pattern": 4},
    "seed_oss": {"num_key_value_heads": 8, "head_dim": 128, "attention_bias": True},
    "ernie4_5": {"num_key_value_heads": 2, "head_dim": 128, "tie_word_embeddings": True},
    "ernie4_5_moe": {
        "num_key_value_heads": 4,
        "tie_word_embeddings": True,
        "moe_num_shared_experts": 2,
        "moe_layer_start_index": 1,
    },
    "glm": {"num_key_value_heads": 2, "head_dim": 128, "attention_bias": True},
    "glm4": {"num_key_value_heads": 2, "head_dim": 128, "attention_bias": True},
    "granitemoe": {"num_local_experts": 8},
    "ministral3": {"num_key_value_heads": 8, "head_dim": 128},
    "olmo3": {"sliding_window": 4096},
    "qwen2_moe": {"num_key_value_heads": 16, "sliding_window": 4096, "max_window_layers": 28},
    "dots1": {"num_key_value_heads": 32, "first_k_dense_replace": 0, "n_shared_experts": 0},
    "deepseek_v2": {"n_shared_experts": 2, "q_lora_rank": 1536},
    "deepseek_v3": {"n_shared_experts": 1, "first_k_dense_replace": 3, "q_lora_rank": 1536},
    "kimi_k2": {"n_shared_experts": 1, "first_k_dense_replace": 3, "q_lora_rank": 1536},
}
"""What transformers takes where a file leaves a key out; null is another thing: no window, a head of keys each."""


def _assumed(family: str, document: dict[str, Any], tokens: int) -> dict[str, str]:
    """What a file does not say and is taken for it: samples of so many ``tokens``, and sizes."""
    longest = document.get("max_position_embeddings")
    words = "no maximum" if longest is None else f"a maximum of {longest:,}"
    length = f"{tokens:,} tokens per sample: the file states {words} and no typical length"
    left = {key: value for key, value in _USUAL.get(family, {}).items() if key not in document}
    usual = ", ".join(f"{key} {value}" for key, value in left.items())
    return {"sequence": length} | (
        {"sizes": f"defaults of transformers for keys that the file lacks: {usual}"} if left else {}
    )


class _Config:
    """A ``config.json`` of sizes and switches; null is as if left out. A fault names the key that the file has.

    Args:
        document: what the file holds, or a mapping in it.
        where: the file.
        path: of the mapping in the file, with a dot behind it.
    """

    def __init__(self, document: dict[str, Any], where: str, path: str = "") -> None:
        self._document, self.where, self._path = document, where, path

    @property
    def keys(self) -> set[str]:
        """Those that have a value."""
        return {key for key, value in self._document.items() if value is not None}

    def __contains__(self, key: str) -> bool:
        return key in self.keys

    def __getitem__(self, key: str) -> int:
        if key not in self:
            raise fail(self.where, self._path + key, "", "must be given")
        return self.get(key, 0, lowest=1)

    def get(self, key: str, usual: Value, lowest: int = 0) -> Value:
        """The value at ``key``, of the type of ``usual``, which stands for a missing one."""
        value = self._document.get(key)
        if value is None:
            return usual
        if type(value) is not type(usual):
            raise fail(self.where, self._path + key, value, f"must be {_TYPES[type(usual)]}")
        if type(value) is int and not lowest <= value <= MAX_SIZE:
            rule = f"must be at most {MAX_SIZE}" if value > MAX_SIZE else f"must be at least {lowest}"
            raise fail(self.where, self._path + key, value, rule)
        return value

    def positive(self, key: str, highest: float = math.inf) -> float | None:
        """A positive number up to the highest one, or None where it is left out."""
        value = self._document.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= highest:
            rule = "must be a positive number" + (f", at most {highest:g}" if math.isfinite(highest) else "")
            raise fail(self.where, self._path + key, value, rule)
        return float(value)

    def has_text(self, key: str) -> bool:
        """Whether the value at ``key`` is a text."""
        return isinstance(self._document.get(key), str)

    def text(self, key: str) -> str | None:
        """A word, or None where it is left out."""
        value = self._document.get(key)
        if value is not None and not isinstance(value, str):
            raise fail(self.where, self._path + key, value, "must be a string")
        return value

    def part(self, key: str) -> "_Config":
        """The mapping at ``key``; an empty one where it is left out."""
        value = self._document.get(key)
        if value is not None and not isinstance(value, dict):
            raise fail(self.where, self._path + key, value, "must be a mapping of keys to values")
        return _Config(value or {}, self.where, f"{self._path}{key}.")

    def parts(self) -> list["_Config"]:
        """The mappings in it; itself where it has none."""
        return [self.part(key) for key, value in self._document.items() if isinstance(value, dict)] or [self]


_PARTLY_ROTARY = {"phi3": 1.0, "glm4_moe": 0.5, "glm": 0.5, "glm4": 0.5, "nemotron": 0.5, "ministral3": 1.0}
"""Families whose code reads ``partial_rotary_factor``, and what transformers takes where it is left out."""


def _numerics(sizes: _Config, family: str) -> dict[str, Any]:
    """What the file says of them, in its form of before transformers 5 (``rope_theta``, ``rope_scaling``) or since.

    Since then the parameters of rotary embeddings may differ by the kind of a layer. What differs is not known of the
    model as a whole.
    """
    rotary = [each for key in ("rope_parameters", "rope_scaling") for each in sizes.part(key).parts()]
    bases = {each.positive("rope_theta") for each in rotary} - {None} or {sizes.positive("rope_theta")}
    scalings = {_scaling(each) for each in rotary} - {"none"} or {"none"}
    numerics: dict[str, Any] = {
        "rotary_base": bases.pop() if len(bases) == 1 else None,
        "rotary_scaling": scalings.pop() if len(scalings) == 1 else None,
        "norm_epsilon": sizes.positive("rms_norm_eps"),
        "activation": sizes.text("hidden_act") or sizes.text("hidden_activation"),
        "norms": _NORMS.get(family, "front"),
    }
    if family in _PARTLY_ROTARY:
        fractions = [each.positive("partial_rotary_factor", highest=1) for each in (*rotary, sizes)]
        numerics["rotary_fraction"] = next(filter(None, fractions), _PARTLY_ROTARY[family])
    return numerics


def _scaling(rotary: _Config) -> str | None:
    """How rotary embeddings are scaled; None where there are parameters of a scaling and no word for it."""
    kind = rotary.text("rope_type") or rotary.text("type")
    if kind is None and rotary.keys - {"rope_theta", "partial_rotary_factor"}:
        return None
    return "none" if kind in (None, "default") else kind


def _kv_heads(sizes: _Config) -> int:
    heads, groups = sizes["num_attention_heads"], sizes.get("num_key_value_heads", 0, lowest=1)
    if groups and heads % groups:
        divisors = [each for each in range(1, min(heads, 2**16) + 1) if heads % each == 0]
        closest = min(divisors, key=lambda each: abs(each - groups))
        raise fail(
            sizes.where, "num_key_value_heads", groups, f"must divide num_attention_heads ({heads})", str(closest)
        )
    return groups


def _experts(sizes: _Config, routed: str, width: str) -> dict[str, Any]:
    """Equal experts; ``routed`` and ``width`` are the keys of their number and of the inner width of one."""
    number, active = sizes[routed], sizes["num_experts_per_tok"]
    if active > number:
        rule = f"must be at most {routed} ({number})"
        raise fail(sizes.where, "num_experts_per_tok", active, rule, str(number))
    return {"routed": number, "active": active, "width": sizes[width]}


def _window(sizes: _Config, tokens: int, usual: int) -> dict[str, Any]:
    """A window of so many tokens (0: none) in the layers that ``layer_types`` names, or in the ``usual`` number."""
    layers, kinds = sizes["num_hidden_layers"], sizes.get("layer_types", [])
    if kinds and len(kinds) != layers:
        rule = f"must have one entry per layer (num_hidden_layers is {layers})"
        raise fail(sizes.where, "layer_types", f"{len(kinds)} entries", rule)
    for layer, kind in enumerate(kinds):
        if kind not in _KINDS:
            raise fail(sizes.where, f"layer_types[{layer}]", kind, f"must be one of {', '.join(_KINDS)}")
    within = kinds.count("sliding_attention") if kinds else usual
    return {"window": {"tokens": tokens, "share": within / layers}} if tokens and within else {}


_KINDS = ("full_attention", "sliding_attention")


def _llama(sizes: _Config) -> dict[str, Any]:
    return {"attention_biases": _biased(sizes), "feed_forward_biases": sizes.get("mlp_bias", False)}


def _biased(sizes: _Config) -> bool:
    """Whether attention has biases, in the families that read this; others never have, or always."""
    return sizes.get("attention_bias", False)


def _in_all_layers(sizes: _Config) -> dict[str, Any]:
    return _window(sizes, sizes.get("sliding_window", 0), sizes["num_hidden_layers"])


def _mixtral(sizes: _Config) -> dict[str, Any]:
    experts = _experts(sizes, "num_local_experts", "intermediate_size")
    return {"experts": experts, "feed_forward": 0, **_in_all_layers(sizes)}


def _qwen_window(sizes: _Config, first: int) -> dict[str, Any]:
    tokens = sizes.get("sliding_window", 0) if sizes.get("use_sliding_window", False) else 0
    return _window(sizes, tokens, max(0, sizes["num_hidden_layers"] - first))


def _qwen2(sizes: _Config) -> dict[str, Any]:
    return {"query_key_value_biases": True, **_qwen_window(sizes, sizes.get("max_window_layers", 0))}


def _qwen3(sizes: _Config) -> dict[str, Any]:
    fields = {"attention_biases": _biased(sizes), "query_key_norm": True}
    return fields | _qwen_window(sizes, sizes.get("max_window_layers", 0))


def _qwen3_moe(sizes: _Config) -> dict[str, Any]:
    period, dense = sizes.get("decoder_sparse_step", 1), sizes.get("mlp_only_layers", [])
    if period != 1:
        raise fail(
            sizes.where,
            "decoder_sparse_step",
            period,
            "must be 1: layers without experts are supported only before all others",
            "1",
        )
    if dense != [*range(len(dense))]:
        rule = "must list the first layers in order: layers without experts are supported only before all others"
        raise fail(sizes.where, "mlp_only_layers", dense, rule)
    routed = "num_local_experts" if "num_local_experts" in sizes else "num_experts"  # since transformers 5, and before
    experts = _experts(sizes, routed, "moe_intermediate_size") | {"dense_layers": len(dense)}
    fields = {"experts": experts, "attention_biases": _biased(sizes), "query_key_norm": True}
    return fields | _qwen_window(sizes, 0)


def _every_nth_full(sizes: _Config, period: int) -> dict[str, Any]:
    """Windows in all layers but the last of each ``period``."""
    layers, tokens = sizes["num_hidden_layers"], sizes.get("sliding_window", 0)
    return _window(sizes, tokens, layers - layers // period)


def _gemma2(sizes: _Config) -> dict[str, Any]:
    return {"attention_biases": _biased(sizes), **_every_nth_full(sizes, 2)}


def _gemma3(sizes: _Config) -> dict[str, Any]:
    if "layer_types" in sizes or not sizes.get("sliding_window", 0):
        return {"attention_biases": _biased(sizes), **_in_all_layers(sizes)}
    return {"attention_biases": _biased(sizes), **_every_nth_full(sizes, _period(sizes))}


def _period(sizes: _Config) -> int:
    """Layers of which the last has no window: a number, or a text with a letter for each (EXAONE 4: LLLG)."""
    key = "sliding_window_pattern"
    if not sizes.has_text(key):
        return sizes[key]
    letters = sizes.text(key) or ""
    if not re.fullmatch("L+G", letters):
        raise fail(sizes.where, key, letters, "must be a whole number, or L for each layer with a window and then G")
    return len(letters)


def _olmo3(sizes: _Config) -> dict[str, Any]:
    return {"attention_biases": _biased(sizes), **_every_nth_full(sizes, 4)}


def _starcoder2(sizes: _Config) -> dict[str, Any]:
    biases = sizes.get("use_bias", True)
    return {"attention_biases": biases, "feed_forward_biases": biases, **_in_all_layers(sizes)}


def _ernie(sizes: _Config) -> dict[str, Any]:
    biases = sizes.get("use_bias", False)
    return {"attention_biases": biases, "feed_forward_biases": biases}


def _ernie_moe(sizes: _Config) -> dict[str, Any]:
    first, last = sizes.get("moe_layer_start_index", 1), sizes.get("moe_layer_end_index", 0)
    layers, rule = sizes["num_hidden_layers"], "layers without experts are supported only before all others"
    if last and last < layers - 1:
        raise fail(sizes.where, "moe_layer_end_index", last, f"must be {layers - 1}: {rule}", str(layers - 1))
    if (interval := sizes.get("moe_layer_interval", 1)) != 1:
        raise fail(sizes.where, "moe_layer_interval", interval, f"must be 1: {rule}", "1")
    number, active = sizes["moe_num_experts"], sizes["moe_k"]
    shared = sizes.get("moe_num_shared_experts", 0)
    experts = {"routed": number, "active": active, "width": sizes["moe_intermediate_size"], "shared": shared}
    return {**_ernie(sizes), "experts": experts | {"dense_layers": first}}


def _query_key_value_biased(sizes: _Config) -> dict[str, Any]:
    return {"query_key_value_biases": _biased(sizes), "feed_forward_biases": sizes.get("mlp_bias", False)}


def _qwen2_moe(sizes: _Config) -> dict[str, Any]:
    fields = _qwen3_moe(sizes)
    width, shared = sizes["moe_intermediate_size"], sizes.get("shared_expert_intermediate_size", 0)
    if shared % width:
        rule = f"must be a multiple of moe_intermediate_size ({width}): shared experts have the width of others"
        raise fail(sizes.where, "shared_expert_intermediate_size", shared, rule)
    fields["experts"] |= {"shared": shared // width}
    return fields | {"query_key_norm": False, "attention_biases": False, "query_key_value_biases": True}


def _equal_experts(sizes: _Config) -> dict[str, Any]:
    """Experts of the inner width that other families have for layers without any."""
    number = "num_local_experts" if "num_local_experts" in sizes else "num_experts"
    experts = _experts(sizes, number, "intermediate_size")
    return {"experts": experts, "feed_forward": 0, "attention_biases": _biased(sizes)}


def _dots1(sizes: _Config) -> dict[str, Any]:
    return _some_dense(sizes) | {"attention_biases": _biased(sizes), "query_key_norm": True}


def _gpt_oss(sizes: _Config) -> dict[str, Any]:
    experts = _experts(sizes, "num_local_experts", "intermediate_size") | {"biases": True}
    every_second = (sizes["num_hidden_layers"] + 1) // 2
    window = _window(sizes, sizes.get("sliding_window", 0), every_second)
    fields = {"experts": experts, "feed_forward": 0, "attention_biases": _biased(sizes), "attention_sinks": True}
    return fields | window


def _some_dense(sizes: _Config) -> dict[str, Any]:
    """Routed and shared experts behind some layers without any."""
    period = sizes.get("moe_layer_freq", 1)
    if period != 1:
        raise fail(
            sizes.where,
            "moe_layer_freq",
            period,
            "must be 1: layers without experts are supported only before all others",
            "1",
        )
    shared, dense = sizes.get("n_shared_experts", 0), sizes.get("first_k_dense_replace", 0)
    experts = _experts(sizes, "n_routed_experts", "moe_intermediate_size") | _groups(sizes)
    return {"experts": experts | {"shared": shared, "dense_layers": dense}}


def _groups(sizes: _Config) -> dict[str, int]:
    """Groups of experts, where a router takes its choices from some of them alone."""
    groups, taken = sizes.get("n_group", 1, lowest=1), sizes.get("topk_group", 1, lowest=1)
    return {"groups": groups, "active_groups": taken} if taken < groups else {}


def _glm4_moe(sizes: _Config) -> dict[str, Any]:
    own = {"query_key_value_biases": _biased(sizes), "query_key_norm": sizes.get("use_qk_norm", False)}
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
    return _some_dense(sizes) | {"attention_biases": _biased(sizes), "latent": latent, **widths}


_FAMILIES: dict[str, Callable[[_Config], dict[str, Any]]] = {
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
    "smollm3": _llama,
    "starcoder2": _starcoder2,
}
