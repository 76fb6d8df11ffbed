"""The hyper-parameters of a transformer, as a YAML file of schema ``dse.model/1`` states them.

Every field that has a usual value takes it when it is left out, so that a new model is a file of seven lines (see
``docs/examples/model.yaml``).
"""

from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from hardware.inputs import fail
from hardware.spec_fields import StrictModel

SCHEMA = "dse.model/1"

Size = Annotated[int, Field(strict=True, gt=0, le=2**24)]
"""A positive whole number; the limit catches a size given in the wrong unit before it fills the memory."""

LayerCount = Annotated[int, Field(strict=True, gt=0, le=1_000)]
Probability = Annotated[float, Field(strict=True, ge=0, lt=1, allow_inf_nan=False)]
Flag = Annotated[bool, Field(strict=True)]
Head = Literal["causal_lm", "masked_lm", "masked_lm_next_sentence", "pooler"]


class ExpertPlacement(StrictModel):
    """How practitioners place the model: pipeline depth, data-parallel and tensor-parallel width {p, d, t}."""

    pipeline: Size
    data: Size
    tensor: Size
    source: str


class Hyperparameters(StrictModel):
    """A transformer: an embedding, ``layers`` equal blocks, and a head.

    Attributes:
        name: what the model is called in tables and results.
        source: where the figures come from.
        layers: number of transformer blocks.
        hidden: width of the residual stream.
        heads: query heads; each is hidden / heads wide.
        kv_heads: key and value heads (grouped-query attention, Ainslie et al. 2023); ``heads`` when left out.
        activation: nonlinearity of the feed-forward network. ``silu_gated`` is SwiGLU (Shazeer 2020): three matrices.
        feed_forward: inner width of the feed-forward network; 4 · hidden when left out.
        vocabulary: rows of the token embedding, padding included.
        sequence: tokens in a training sample.
        positions: how positions enter: a learned table, rotary embeddings, or not at all.
        position_rows: rows of the learned table; ``sequence`` when left out.
        normalisation: layer norm (gain and offset) or RMS norm (gain).
        norm_placement: ``pre`` (in front of attention and feed-forward, and once behind the last block) or ``post``
            (behind each residual addition).
        embedding_norm: whether the embedding is normalised (BERT).
        biases: whether linear layers have biases. Masked-LM heads and poolers always have.
        dropout: dropout probability behind embedding, attention and feed-forward; 0 leaves the operators out.
        attention_dropout: the same on attention probabilities; ``dropout`` when left out.
        tied_embeddings: whether the output matrix is the token embedding.
        head: ``causal_lm``: output matrix and loss. ``masked_lm``: dense, activation, norm, output matrix with bias,
            and loss (BERT). ``masked_lm_next_sentence``: the same with BERT's pooler and next-sentence classifier.
            ``pooler``: the pooler alone, no loss (a BERT encoder to be fine-tuned).
        token_types: rows of the token-type table (BERT: 2).
        embedding_width: width of the token embedding, projected to ``hidden`` and back where it differs (OPT-350M);
            ``hidden`` when left out.
        tensor_parallel: the tensor-parallel widths the model is searched with, ascending.
        expert_placement: how practitioners place it, for comparison; None where nobody has published one.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=80)]
    source: str = ""
    layers: LayerCount
    hidden: Size
    heads: Size
    kv_heads: Size = Field(default=None, validate_default=True)
    activation: Literal["gelu", "relu", "silu_gated"] = "gelu"
    feed_forward: Size = Field(default=None, validate_default=True)
    vocabulary: Size
    sequence: Size
    positions: Literal["learned", "rotary", "none"] = "learned"
    position_rows: Annotated[int, Field(strict=True, ge=0, le=2**24)] = Field(default=None, validate_default=True)
    normalisation: Literal["layer_norm", "rms_norm"] = "layer_norm"
    norm_placement: Literal["pre", "post"] = "pre"
    embedding_norm: Flag = False
    biases: Flag = True
    dropout: Probability = 0.0
    attention_dropout: Probability = Field(default=None, validate_default=True)
    tied_embeddings: Flag = True
    head: Head = "causal_lm"
    token_types: Annotated[int, Field(strict=True, ge=0, le=2**24)] = 0
    embedding_width: Size = Field(default=None, validate_default=True)
    tensor_parallel: tuple[Size, ...] = (1,)
    expert_placement: ExpertPlacement | None = None

    @field_validator("heads")
    @classmethod
    def _heads_divide_hidden(cls, heads: int, info: ValidationInfo) -> int:
        hidden = info.data.get("hidden", heads)
        if hidden % heads:
            raise ValueError(f"must divide hidden ({hidden})")
        return heads

    @field_validator("kv_heads", "feed_forward", "position_rows", "attention_dropout", "embedding_width", mode="before")
    @classmethod
    def _usual_value(cls, value: Any, info: ValidationInfo) -> Any:
        """What a field left out is derived from; 1 where that is itself at fault, so that one fault is one line."""
        if value is not None:
            return value
        known = info.data
        usual: dict[str | None, Any] = {
            "kv_heads": known.get("heads", 1),
            "feed_forward": 4 * known.get("hidden", 1),
            "position_rows": known.get("sequence", 1) if known.get("positions") == "learned" else 0,
            "attention_dropout": known.get("dropout", 0.0),
            "embedding_width": known.get("hidden", 1),
        }
        return usual[info.field_name]

    @field_validator("kv_heads")
    @classmethod
    def _kv_heads_divide_heads(cls, kv_heads: int, info: ValidationInfo) -> int:
        heads = info.data.get("heads", kv_heads)
        if heads % kv_heads:
            raise ValueError(f"must divide heads ({heads})")
        return kv_heads

    @field_validator("positions")
    @classmethod
    def _rotary_pairs(cls, positions: str, info: ValidationInfo) -> str:
        known = info.data
        if positions == "rotary" and "hidden" in known and "heads" in known:
            head_width = known["hidden"] // known["heads"]
            if head_width % 2:
                raise ValueError(f"rotary positions need an even head width, but hidden / heads is {head_width}")
        return positions

    @field_validator("position_rows")
    @classmethod
    def _positions_cover_sequence(cls, rows: int, info: ValidationInfo) -> int:
        known = info.data
        if "positions" not in known or "sequence" not in known:
            return rows
        if known["positions"] == "learned" and rows < known["sequence"]:
            raise ValueError(f"must be at least sequence ({known['sequence']})")
        if known["positions"] != "learned" and rows:
            raise ValueError(f"must be 0 unless positions is learned, but positions is {known['positions']}")
        return rows

    @field_validator("tensor_parallel")
    @classmethod
    def _widths_divide(cls, widths: tuple[int, ...], info: ValidationInfo) -> tuple[int, ...]:
        if not widths:
            raise ValueError("must contain at least one width")
        if any(low >= high for low, high in pairwise(widths)):
            raise ValueError("widths must be in ascending order, without repeats")
        for width in widths:
            broken = _width_fault(info.data, width)
            if broken:
                raise ValueError(f"width {width} {broken}")
        return widths

    def check_width(self, width: int) -> None:
        """Refuse a tensor-parallel ``width`` that does not divide what is split.

        Raises:
            InputError: the width is below 1, or does not divide heads, kv_heads, feed_forward or vocabulary.
        """
        broken = "must be at least 1" if width < 1 else _width_fault(dict(self), width)
        if broken:
            raise fail(self.name, "tensor_parallel", width, broken)

    @property
    def head_width(self) -> int:
        """Width of one attention head."""
        return self.hidden // self.heads


def _width_fault(known: dict[str, Any], width: int) -> str | None:
    """Why ``width`` slices do not fit the hyper-parameters ``known``, or None."""
    for field in ("heads", "kv_heads", "feed_forward", "vocabulary"):
        size = known.get(field, width)
        if size % width:
            hint = f"; pad it to {-(-size // width) * width}" if field == "vocabulary" else ""
            return f"must divide {field} ({size}){hint}"
    return None
