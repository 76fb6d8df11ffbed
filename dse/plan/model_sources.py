"""What a user names as a model, as a :class:`~dse.plan.model.Transformer`."""

from collections.abc import Mapping
from importlib import resources
from types import MappingProxyType
from typing import Any

from dse.models.hyperparameters import Hyperparameters
from dse.plan.model import SCHEMA, Transformer
from dse.plan.transformers_configs import of_config
from dse.sources.kinds import HyperparameterModel, ProblemFormat, ProblemInput, TransformersConfig
from dse.sources.resolve import resolve
from hardware.documents import read_document
from hardware.input_files import noting, read_once
from hardware.inputs import fail, validate


def list_transformers() -> list[str]:
    """Names of the transformers that come with this package, sorted."""
    files = resources.files("dse.plan").joinpath("models").iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))


SAME_SIZES = MappingProxyType({"deepseek-r1": "deepseek-v3"})
"""Models with the sizes of another: DeepSeek-R1 was trained from DeepSeek-V3-Base (DeepSeek-AI, 2025, section 2)."""

TRANSFORMER = ProblemFormat(
    "a transformer (dse models lists them)",
    schema=SCHEMA,
    names=tuple(sorted([*list_transformers(), *SAME_SIZES])),
    object_type=Transformer,
)
"""Transformers with more than :class:`~dse.models.hyperparameters.Hyperparameters` have."""


def transformer(source: object) -> Transformer:
    """The transformer that ``source`` names.

    Args:
        source: a name of :func:`list_transformers`, of :data:`SAME_SIZES` or of ``dse models``, a ``config.json`` of
            transformers, a YAML file of schema ``dse.transformer/1`` or ``dse.model/1``, or an object of either kind.

    Raises:
        InputError: nothing of this name (the nearest one is offered), a file with a fault, or a source of another kind.
    """
    named = resolve(source, (TRANSFORMER,))
    if isinstance(named, ProblemInput):
        if named.content is None:
            return built_in(SAME_SIZES.get(named.where, named.where))
        return named.content if isinstance(named.content, Transformer) else _read(named.content, named.where)
    if isinstance(named, HyperparameterModel):
        return _of_hyperparameters(named.hyperparameters, named.where)
    if isinstance(named, TransformersConfig):
        return of_config(read_document(str(named.path)), named.name, str(named.path))
    rule = "must be a transformer: a name, a config.json or a YAML file of hyper-parameters"
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
        raise fail(where, "head", model.head, "must be causal_lm or masked_lm")
    if model.embedding_width != model.hidden:
        raise fail(where, "embedding_width", model.embedding_width, f"must equal hidden ({model.hidden})")
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
