"""Families whose latent attention sees the tokens that an indexer chooses.

Each reader returns fields of a :class:`~dse.plan.model.Transformer`.
"""

from collections.abc import Callable
from typing import Any

from dse.plan.config_families import latent, layer_types, some_dense
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


INDEXED_FAMILIES: dict[str, Callable[[Config], dict[str, Any]]] = {
    "deepseek_v32": _deepseek_v32,
    "glm_moe_dsa": _glm,
}
