"""A ``config.json`` of Hugging Face transformers as a :class:`~dse.plan.model.Transformer`."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dse.plan.config_by_keys import by_frequent_names, family_by_keys, is_masked, unknown_keys
from dse.plan.config_defaults import ALWAYS, NORMS, OTHER_KEYS, USUAL
from dse.plan.config_families import FAMILIES, KINDS, by_layer, kv_heads
from dse.plan.config_values import Config
from dse.plan.hybrid_families import HYBRID_FAMILIES
from dse.plan.latent_families import INDEXING, LATENT_FAMILIES
from dse.plan.model import Transformer
from dse.plan.parallel_families import PARALLEL_FAMILIES
from dse.plan.unequal_families import UNEQUAL_FAMILIES
from dse.plan.windowed_families import WINDOWED_FAMILIES
from hardware.inputs import InputError, fail, validate


def of_config(document: Any, name: str, where: str) -> Transformer:
    """The transformer of a ``config.json``, by the keys that the released models have.

    Args:
        document: what the file holds.
        name: of the model; of a file or folder, what names may not have becomes a hyphen.
        where: the file, for errors.

    Raises:
        InputError: a key that is missing or wrong, or layers that a transformer here cannot have.
    """
    document, path = _language_part(document)
    family = document.get("model_type")
    if not isinstance(family, str):
        raise fail(where, f"{path}model_type", family, "must be the name of a family, such as llama")
    sizes, own = _read(document, family, where, path)
    fields: dict[str, Any] = {
        "name": re.sub(r"[^A-Za-z0-9._-]+", "-", name).lstrip("._-")[:80] or family,
        "source": f"config.json of {family}",
        **{field: sizes[key] for field, key in _NEEDED.items() if field not in own},
        "sequence": (tokens := min(_SAMPLE_TOKENS, sizes.get("max_position_embeddings", _SAMPLE_TOKENS, lowest=1))),
        "assumed": _assumed(family, document, tokens),
        "tied_embeddings": sizes.get("tie_word_embeddings", False),
        "prediction_layers": next((sizes.get(key, 0) for key in _PREDICTION_LAYERS if key in sizes), 0),
        "numerics": _numerics(sizes, family),
    }
    if "heads" not in own:
        fields |= {"kv_heads": kv_heads(sizes), "head_width": sizes.get("head_dim", 0, lowest=1)}
    fields = by_layer(fields | ALWAYS.get(family, {}) | own)
    if not fields["head_width"] and fields["hidden"] % fields["heads"]:
        rule = f"must divide hidden_size ({fields['hidden']}) if head_dim is not given"
        raise fail(where, _NEEDED["heads"], fields["heads"], rule)
    try:
        return validate(Transformer, fields, where)
    except InputError as error:
        raise InputError(replace(fault, key=_KEYS.get(fault.key, fault.key)) for fault in error.faults) from error


def _read(document: dict[str, Any], family: str, where: str, path: str) -> tuple[Config, dict[str, Any]]:
    """The file with what its family takes for what it lacks, and what the reader of the family says."""
    if family not in _READERS:
        names = _unknown_layers(document)
        if not names and is_masked(document):
            names = "no known family, and a masked language model: only causal ones are planned"
        if not names and (keys := unknown_keys(document)):
            names = f"no known family, and has keys of layers that are not known: {', '.join(keys)}"
        if names:
            raise fail(where, f"{path}model_type", family, names)
        sizes = Config(by_frequent_names(document), where, path)
        return sizes, family_by_keys(sizes)
    others = {known: document[key] for key, known in OTHER_KEYS.get(family, {}).items() if key in document}
    sizes = Config(USUAL.get(family, {}) | others | document, where, path)
    foreign = {kind: keys for kind, keys in FOREIGN.items() if family not in _KNOWING.get(kind, ())}
    if names := _unknown_layers(document, foreign):
        raise fail(where, f"{path}model_type", family, names)
    return sizes, _READERS[family](sizes)


_NESTED = ("text_config", "llm_config", "language_config", "thinker_config")
"""Keys of the part that models language, in a file of a model that reads or writes something else too."""


def _language_part(document: Any) -> tuple[dict[str, Any], str]:
    """That part of a file, and its path with a dot behind it."""
    path = ""
    if not isinstance(document, dict):
        return {}, path
    while not isinstance(family := document.get("model_type"), str) or family not in _READERS:
        key = next((key for key in _NESTED if isinstance(document.get(key), dict)), None)
        if key is None:
            break
        document = {key: value for key, value in document.items() if key == "tie_word_embeddings"} | document[key]
        path += f"{key}."
    return document, path


_READERS: Mapping[str, Callable[[Config], dict[str, Any]]] = {
    **FAMILIES,
    **PARALLEL_FAMILIES,
    **HYBRID_FAMILIES,
    **LATENT_FAMILIES,
    **UNEQUAL_FAMILIES,
    **WINDOWED_FAMILIES,
}

_NEEDED = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "feed_forward": "intermediate_size",
    "vocabulary": "vocab_size",
}
_SAMPLE_TOKENS = 4096
"""Of models with a ``config.json``, which has the longest sample and no usual one; or the longest, where it is less."""

_PREDICTION_LAYERS = "num_nextn_predict_layers", "num_mtp_layers", "mtp_num_hidden_layers"
"""Names of the number of multi-token-prediction layers."""

_KEYS = {"layers": "num_hidden_layers", "prediction_layers": "num_nextn_predict_layers"}
"""By field of a transformer that may have a fault still, the key that it is read from."""

_LAYERS = {
    "Mamba": ("hybrid_override_pattern", "mamba_d_state", "mamba_n_heads", "ssm_state_size", "state_size", "ssm_cfg"),
    "linear attention": ("linear_num_key_heads", "linear_attn_config", "attn_type_list", "full_attention_interval"),
    "recurrent": ("block_types", "lru_width"),
    "convolution": ("conv_L_cache",),
    "shared transformer": ("hybrid_layer_ids", "num_mem_blocks"),
    "RWKV": ("rescale_every", "decay_low_rank_dim"),
    "xLSTM": ("qk_dim_factor", "mlstm_round_up_to_multiple_of"),
    "AltUp": ("altup_num_inputs",),
    "shortcut-connected": ("zero_expert_num",),
    "differential attention": ("lambda_std_dev",),
}
"""Kinds of layers, and keys of families that have them: those of a family that no reader knows."""

FOREIGN = {
    "indexed attention": ("index_topk",),
    "latent expert": ("moe_latent_size",),
    "shared key-value": ("num_kv_shared_layers",),
    "per-layer embedding": ("hidden_size_per_layer_input",),
    "hyper-connected": ("hc_mult", "hc_count"),
    "compressed attention": ("compress_rates", "compress_ratios", "index_kpool", "indexer_compress_ratio"),
    "block-sparse attention": ("index_topk_blocks", "sparse_attention_config", "sparse_config"),
    "unequal-head attention": (
        *("swa_num_key_value_heads", "swa_num_attention_heads", "num_sliding_attention_heads"),
        *("global_head_dim", "num_global_key_value_heads", "num_attention_heads_per_layer", "per_layer_config"),
    ),
    "looped": ("n_recurrent_loops", "total_ut_steps"),
    "gated norm": ("gated_norm_rank",),
    "n-gram embedding": ("ple_layer_ids", "ngram_vocab_size_ratio", "emb_neighbor_num"),
    "unequal": ("block_configs",),
}
"""Kinds of layers that no transformer here has, but for those of a few families."""

_BY_NAME = {"jetmoe": ("mixture-of-attention",)}
"""Those of families whose keys do not tell."""

_KNOWING: Mapping[str, Collection[str]] = {"indexed attention": INDEXING, "unequal-head attention": UNEQUAL_FAMILIES}
"""Families whose readers know such layers."""


def _unknown_layers(document: dict[str, Any], kinds: Mapping[str, Sequence[str]] | None = None) -> str:
    """The kinds of layers that a file of an unknown family names, and which are not known either."""
    known = kinds or {**_LAYERS, **FOREIGN}
    names = [kind for kind, keys in known.items() if any(document.get(key) for key in keys)]
    names += _BY_NAME.get(str(document.get("model_type")), ())
    listed = document.get("layer_types") or document.get("layers_block_type")
    if kinds is None and isinstance(listed, list):
        names += [kind for kind in dict.fromkeys(map(str, listed)) if kind not in (*KINDS, "attention")]
    return f"has {' and '.join(dict.fromkeys(names))} layers, which are not known" if names else ""


def _assumed(family: str, document: dict[str, Any], tokens: int) -> dict[str, str]:
    """What a file does not say and is taken for it: samples of so many ``tokens``, and sizes."""
    longest = document.get("max_position_embeddings")
    words = "no maximum" if longest is None else f"a maximum of {longest:,}"
    length = f"{tokens:,} tokens per sample: the file states {words} and no typical length"
    if family not in _READERS:
        read = f"{family} is not a known family: layers are read by their keys, and what these do not say as Llama's"
        return {"sequence": length, "family": read}
    left = {key: value for key, value in USUAL.get(family, {}).items() if key not in document}
    usual = ", ".join(f"{key} {value}" for key, value in left.items())
    return {"sequence": length} | (
        {"sizes": f"defaults of transformers for keys that the file lacks: {usual}"} if left else {}
    )


_PARTLY_ROTARY = {
    **dict.fromkeys(("phi3", "ministral3", "glm4_moe_lite", "sarvam_moe", "solar_open"), 1.0),
    **dict.fromkeys(("glm", "glm4", "glm4_moe", "nemotron", "phi"), 0.5),
    **dict.fromkeys(("gpt_neox", "stablelm"), 0.25),
}
"""Families whose code reads ``partial_rotary_factor``, and what transformers takes where it is left out."""


def _numerics(sizes: Config, family: str) -> dict[str, Any]:
    """What the file says of them, in its form of before transformers 5 (``rope_theta``, ``rope_scaling``) or since.

    Since then the parameters of rotary embeddings may differ by the kind of a layer. What differs is not known of the
    model as a whole.
    """
    rotary = [each for key in ("rope_parameters", "rope_scaling") for each in sizes.part(key).parts()]
    bases = {each.positive("rope_theta") for each in rotary} - {None}
    bases = bases or ({None} if sizes.has_list("rope_theta") else {sizes.positive("rope_theta")})
    scalings = {_scaling(each) for each in rotary} - {"none"} or {"none"}
    numerics: dict[str, Any] = {
        "rotary_base": bases.pop() if len(bases) == 1 else None,
        "rotary_scaling": scalings.pop() if len(scalings) == 1 else None,
        "norm_epsilon": sizes.positive("rms_norm_eps"),
        "activation": sizes.text("hidden_act") or sizes.text("hidden_activation"),
        "norms": NORMS.get(family, "front"),
    }
    if family in _PARTLY_ROTARY:
        fractions = [each.positive("partial_rotary_factor", highest=1) for each in (*rotary, sizes)]
        numerics["rotary_fraction"] = next(filter(None, fractions), _PARTLY_ROTARY[family])
    return numerics


def _scaling(rotary: Config) -> str | None:
    """How rotary embeddings are scaled; None where there are parameters of a scaling and no word for it."""
    kind = rotary.text("rope_type") or rotary.text("type")
    if kind is None and rotary.keys - {"rope_theta", "partial_rotary_factor"}:
        return None
    return "none" if kind in (None, "default") else kind
