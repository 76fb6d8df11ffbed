"""What a model's checkpoint has: the longest context and the format of its weights."""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Annotated, Any

from pydantic import Field

from dse.plan.model import Transformer
from dse.plan.model_parts import MAX_SIZE
from dse.serve.shape import WEIGHT_BYTES, Formats, WeightFormat
from hardware.documents import read_document
from hardware.input_files import noting
from hardware.inputs import validate
from hardware.spec_fields import PositiveInteger, Source, StrictModel

FILE = "checkpoints.yaml"

CACHE_BYTES: Mapping[str, float] = {"bf16": 2.0, "fp8": 1.0}
"""Of an element of keys and values."""

_METHODS: Mapping[str, WeightFormat] = {"mxfp4": "mxfp4", "nvfp4": "nvfp4", "modelopt": "nvfp4"}
"""What ``quantization_config.quant_method`` of a config.json calls a format; of fp8 its blocks decide."""


class Checkpoint(StrictModel):
    """A published checkpoint.

    Attributes:
        context: tokens of the longest prompt with its output.
        weights: their format.
        source: of both.
    """

    context: PositiveInteger
    weights: Annotated[str, Field(pattern=f"^({'|'.join(WEIGHT_BYTES)})$")]
    source: Source


def checkpoint(model: Transformer, source: object) -> Checkpoint:
    """Of a built-in model by its name, of a config.json by what it says.

    Else any length that positions have, in 16 bits.

    Raises:
        InputError: a config.json that cannot be read.
    """
    known = _published().get(model.name)
    if known is not None:
        return known
    if isinstance(source, str) and source.endswith(".json"):
        return _of_config(read_document(source), model, source)
    context = model.position_rows if model.positions == "learned" else MAX_SIZE
    return Checkpoint(context=context, weights="bf16", source=model.source or model.name)


def formats_of(model: Transformer, weights: WeightFormat, cache_format: str) -> Formats:
    """Weights and cache; checkpoints with latent attention in four bits leave attention in 16."""
    attention: WeightFormat | None = "bf16" if model.latent is not None and weights == "nvfp4" else None
    return Formats(weights, CACHE_BYTES[cache_format], attention)


def _of_config(document: Any, model: Transformer, where: str) -> Checkpoint:
    own = document if isinstance(document, dict) else {}
    text = own.get("text_config")
    inner = text if isinstance(text, dict) else own
    context = inner.get("max_position_embeddings", model.sequence)
    quantized = own.get("quantization_config") or inner.get("quantization_config") or {}
    method = str(quantized.get("quant_method", ""))
    weights: WeightFormat = "fp8_block" if quantized.get("weight_block_size") else "fp8" if method == "fp8" else "bf16"
    if method in ("awq", "gptq") and quantized.get("bits", 4) == 4:
        weights = "int4"
    return Checkpoint(context=context, weights=_METHODS.get(method, weights), source=where)


@cache
def _published() -> Mapping[str, Checkpoint]:
    with noting(), resources.as_file(resources.files("dse.serve").joinpath(FILE)) as path:
        return {name: validate(Checkpoint, each, FILE) for name, each in read_document(path).items()}
