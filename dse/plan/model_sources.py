"""What a user names as a model, as a :class:`~dse.plan.model.Transformer`."""

from collections.abc import Mapping
from importlib import resources
from typing import Any, TypeVar

from dse.models.hyperparameters import Hyperparameters
from dse.plan.model import SCHEMA, Transformer
from dse.sources.kinds import HyperparameterModel, ProblemFormat, ProblemInput, TransformersConfig
from dse.sources.resolve import resolve
from hardware.documents import read_document
from hardware.input_files import noting, read_once
from hardware.inputs import fail, validate


def list_transformers() -> list[str]:
    """Names of the transformers that come with this package, sorted."""
    files = resources.files("dse.plan").joinpath("models").iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))


def transformer(source: object) -> Transformer:
    """The transformer that ``source`` names.

    Args:
        source: a name of :func:`list_transformers` or of ``dse models``, a ``config.json`` of transformers, a YAML file
            of schema ``dse.transformer/1`` or ``dse.model/1``, or an object of either kind.

    Raises:
        InputError: nothing of this name (the nearest one is offered), a file with a fault, or a source of another kind.
    """
    described = f"a transformer ({', '.join(list_transformers())})"
    own = ProblemFormat(described, schema=SCHEMA, names=tuple(list_transformers()), object_type=Transformer)
    named = resolve(source, (own,))
    if isinstance(named, ProblemInput):
        if named.content is None:
            return built_in(named.where)
        return named.content if isinstance(named.content, Transformer) else _read(named.content, named.where)
    if isinstance(named, HyperparameterModel):
        return _of_hyperparameters(named.hyperparameters, named.where)
    if isinstance(named, TransformersConfig):
        return of_config(read_document(str(named.path)), named.name, str(named.path))
    rule = "must be the hyper-parameters of a transformer: a name, a config.json or a YAML file"
    raise fail(named.where, "", "", rule)


@read_once
def built_in(name: str) -> Transformer:
    """The transformer of this name that comes with the package."""
    with noting(), resources.as_file(resources.files("dse.plan").joinpath("models", f"{name}.yaml")) as path:
        return _read(read_document(path), f"models/{name}.yaml")


def _read(document: Mapping[str, Any], where: str) -> Transformer:
    return validate(Transformer, {key: value for key, value in document.items() if key != "schema"}, where)


def _of_hyperparameters(model: Hyperparameters, where: str) -> Transformer:
    if model.head == "pooler":
        raise fail(where, "head", model.head, "must be a language model's: causal_lm, masked_lm")
    if model.embedding_width != model.hidden:
        raise fail(where, "embedding_width", model.embedding_width, f"must be hidden ({model.hidden})")
    return Transformer(
        name=model.name,
        source=model.source,
        layers=model.layers,
        hidden=model.hidden,
        heads=model.heads,
        kv_heads=model.kv_heads,
        feed_forward=model.feed_forward,
        gated=model.activation == "silu_gated",
        vocabulary=model.vocabulary,
        sequence=model.sequence,
        positions=model.positions,
        position_rows=model.position_rows,
        normalisation=model.normalisation,
        attention_biases=model.biases,
        feed_forward_biases=model.biases,
        tied_embeddings=model.tied_embeddings,
        head="causal_lm" if model.head == "causal_lm" else "masked_lm",
        pooler=model.head == "masked_lm_next_sentence",
        token_types=model.token_types,
        embedding_norm=model.embedding_norm,
        dropout=model.dropout > 0,
    )


Value = TypeVar("Value", int, bool, list[Any])
_TYPES: dict[type, str] = {int: "a whole number", bool: "true or false", list: "a list"}


def of_config(document: Any, name: str, where: str) -> Transformer:
    """The transformer of a ``config.json``, by the keys that the released models have.

    Raises:
        InputError: a family that has other keys, or a key that is missing.
    """
    family = document.get("model_type") if isinstance(document, dict) else None
    if not isinstance(family, str) or family not in _FAMILIES:
        raise fail(where, "model_type", family, f"must be one of {', '.join(_FAMILIES)}")
    sizes = _Config(document, where)
    fields: dict[str, Any] = {
        "name": name,
        "source": f"config.json of {family}",
        "layers": sizes["num_hidden_layers"],
        "hidden": sizes["hidden_size"],
        "heads": sizes["num_attention_heads"],
        "kv_heads": sizes.get("num_key_value_heads", 0),
        "head_width": sizes.get("head_dim", 0),
        "feed_forward": sizes["intermediate_size"],
        "vocabulary": sizes["vocab_size"],
        "sequence": min(4096, sizes.get("max_position_embeddings", 4096)),
        "tied_embeddings": sizes.get("tie_word_embeddings", False),
        "attention_biases": sizes.get("attention_bias", False),
        "prediction_layers": sizes.get("num_nextn_predict_layers", 0),
    }
    return validate(Transformer, fields | _FAMILIES[family](sizes), where)


class _Config:
    """A ``config.json`` of sizes and switches; null is as if left out. A fault names the key that the file has."""

    def __init__(self, document: dict[str, Any], where: str) -> None:
        self._document, self._where = document, where

    def __getitem__(self, key: str) -> int:
        if self._document.get(key) is None:
            raise fail(self._where, key, "", "must be given")
        return self.get(key, 0)

    def get(self, key: str, usual: Value) -> Value:
        """The value at ``key``, of the type of ``usual``, which stands for a missing one."""
        value = self._document.get(key)
        if value is None:
            return usual
        if type(value) is not type(usual):
            raise fail(self._where, key, value, f"must be {_TYPES[type(usual)]}")
        if isinstance(value, int) and value < 0:
            raise fail(self._where, key, value, "must be at least 0")
        return value


def _llama(_: _Config) -> dict[str, Any]:
    return {}


def _mixtral(sizes: _Config) -> dict[str, Any]:
    experts = {
        "routed": sizes["num_local_experts"],
        "active": sizes["num_experts_per_tok"],
        "width": sizes["intermediate_size"],
    }
    return {"experts": experts, "feed_forward": 0}


def _qwen3(sizes: _Config) -> dict[str, Any]:
    experts = {
        "routed": sizes["num_experts"],
        "active": sizes["num_experts_per_tok"],
        "width": sizes["moe_intermediate_size"],
    }
    return {"experts": experts, "query_key_norm": True}


def _gpt_oss(sizes: _Config) -> dict[str, Any]:
    kinds: list[Any] = sizes.get("layer_types", [])
    windowed = sum(kind == "sliding_attention" for kind in kinds) / len(kinds) if kinds else 0.5
    fields: dict[str, Any] = _mixtral(sizes)
    fields["experts"]["biases"] = True
    if windowed:
        fields["window"] = {"tokens": sizes["sliding_window"], "share": windowed}
    return fields | {"attention_biases": True, "attention_sinks": True}


def _deepseek(sizes: _Config) -> dict[str, Any]:
    experts = {
        "routed": sizes["n_routed_experts"],
        "active": sizes["num_experts_per_tok"],
        "width": sizes["moe_intermediate_size"],
        "shared": sizes.get("n_shared_experts", 0),
        "dense_layers": sizes.get("first_k_dense_replace", 0),
    }
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
    return {"experts": experts, "latent": latent, **widths}


_FAMILIES = {
    "llama": _llama,
    "mistral": _llama,
    "mixtral": _mixtral,
    "qwen3_moe": _qwen3,
    "gpt_oss": _gpt_oss,
    "deepseek_v2": _deepseek,
    "deepseek_v3": _deepseek,
}
