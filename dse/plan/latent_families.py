"""Families of latent attention beside those of DeepSeek: all of it, to tokens that an indexer chooses, or in pairs.

Each reader returns fields of a :class:`~dse.plan.model.Transformer`.
"""

from collections.abc import Callable
from typing import Any

from dse.plan.config_families import latent, layer_types, routed_experts, some_dense
from dse.plan.config_values import Config
from dse.plan.hybrid_families import mixed
from hardware.inputs import fail


def _indexer(sizes: Config) -> dict[str, Any]:
    return {
        "indexer": {
            "heads": sizes["index_n_heads"],
            "head_width": sizes["index_head_dim"],
            "chosen": sizes["index_topk"],
        }
    }


def _deepseek_v32(sizes: Config) -> dict[str, Any]:
    return some_dense(sizes) | latent(sizes) | _indexer(sizes)


def _glm(sizes: Config) -> dict[str, Any]:
    """GLM-5: some layers see what the one before has chosen, by a list, letters F and S, or in so many of them."""
    fields, layers = _deepseek_v32(sizes), sizes["num_hidden_layers"]
    kinds = layer_types(sizes, ("full", "shared"), "indexer_types")
    if not kinds and sizes.has_text("index_topk_pattern"):
        letters = sizes.text("index_topk_pattern") or ""
        if len(letters) != layers or {*letters} - {*"FS"}:
            rule = f"must have F or S for each layer (num_hidden_layers is {layers})"
            raise fail(sizes.where, "index_topk_pattern", letters, rule)
        kinds = ["full" if letter == "F" else "shared" for letter in letters]
    if not kinds:
        period, offset = sizes.get("index_topk_freq", 1) or 1, sizes.get("index_skip_topk_offset", 2)
        kinds = ["shared" if max(layer - offset + 1, 0) % period else "full" for layer in range(layers)]
    if "shared" not in kinds:
        return fields
    if kinds[0] == "shared":
        raise fail(sizes.where, "indexer_types[0]", "shared", "must be full: no layer before it chooses tokens")
    return fields | mixed(["attention" if kind == "full" else "attention+reuse" for kind in kinds], fields)


def _moe(sizes: Config) -> dict[str, Any]:
    return some_dense(sizes) | latent(sizes)


def _longcat(sizes: Config) -> dict[str, Any]:
    """LongCat-Flash: a layer is two of attention and a network, and experts that start behind the first attention.

    Some experts return their input. A token takes so many of all; of those that work, in proportion.
    """
    layers = sizes.get("num_layers", 0) or sizes["num_hidden_layers"] // 2
    experts, idle = routed_experts(sizes, "n_routed_experts", "moe_intermediate_size"), sizes.get("zero_expert_num", 0)
    working = max(1, round(experts["active"] * experts["routed"] / (experts["routed"] + idle)))
    return latent(sizes) | {
        "layers": 3 * layers,
        "layer_kinds": ["attention+dense", "experts", "attention+dense"] * layers,
        "experts": experts | {"active": working, "idle": idle},
    }


def _minicpm3(sizes: Config) -> dict[str, Any]:
    return latent(sizes, sizes["hidden_size"] // sizes["num_attention_heads"])


INDEXING = "deepseek_v32", "glm_moe_dsa"
"""Families of these with an indexer."""

LATENT_FAMILIES: dict[str, Callable[[Config], dict[str, Any]]] = {
    "deepseek_v32": _deepseek_v32,
    "glm_moe_dsa": _glm,
    "longcat_flash": _longcat,
    "minicpm3": _minicpm3,
    "mistral4": _moe,
    "sarvam_mla": _moe,
    "youtu": latent,
}
