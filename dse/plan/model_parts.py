"""Parts of a transformer's description: latent attention, indexers, experts, windows, recurrences, kinds of layers."""

import math
from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, model_validator

from hardware.spec_fields import Positive, StrictModel

MAX_SIZE = 2**24
"""Of any width or number."""

Size = Annotated[int, Field(strict=True, gt=0, le=MAX_SIZE)]
Number = Annotated[int, Field(strict=True, ge=0, le=MAX_SIZE)]
Flag = Annotated[bool, Field(strict=True)]


class LatentAttention(StrictModel):
    """Multi-head latent attention (DeepSeek-V2, 2024, section 2.1).

    Attributes:
        query_rank: width of the compressed queries; 0 where they are not compressed.
        key_value_rank: width of what keys and values are made from.
        rotary_width: of the part of queries and keys that carries positions; keys share one over all heads.
    """

    query_rank: Number = 0
    key_value_rank: Size
    rotary_width: Size


class Indexer(StrictModel):
    """What chooses the tokens that attention sees (lightning indexer: DeepSeek-V3.2, 2025, section 2.1).

    Attributes:
        heads, head_width: of its queries, which share one key.
        chosen: tokens that a token attends to, where there are more.
    """

    heads: Size
    head_width: Size
    chosen: Size

    def weights(self, hidden: int, query_rank: int) -> int:
        """Elements of its matrices: of queries, of keys, and of the weights of its heads."""
        return query_rank * self.heads * self.head_width + hidden * (self.head_width + self.heads)

    def seen(self, sequence: int) -> float:
        """Tokens that a token sees on average."""
        chosen = min(self.chosen, sequence)
        return chosen - chosen * (chosen - 1) / (2 * sequence)


class Experts(StrictModel):
    """Feed-forward networks of which each token takes a few.

    Attributes:
        routed: how many there are.
        active: how many each token takes.
        width: inner width of one.
        shared: experts of the same width that every token takes too.
        dense_layers: layers at the beginning with a plain feed-forward network instead.
        biases: whether the router and the experts' linear layers have biases.
        idle: others that return their input, of which a token takes some in addition to ``active`` ones
            (LongCat-Flash, 2025, section 2.1).
        groups, active_groups: groups of consecutive experts, and how many of them a token's experts may lie in
            (DeepSeek-V3, 2024, section 2.1.2: node-limited routing); 0 where they may lie in any.
    """

    routed: Size
    active: Size
    width: Size
    shared: Number = 0
    dense_layers: Number = 0
    biases: Flag = False
    idle: Number = 0
    groups: Number = 0
    active_groups: Number = 0

    @model_validator(mode="after")
    def _groups_hold_experts(self) -> "Experts":
        if bool(self.groups) != bool(self.active_groups):
            raise ValueError("groups and active_groups must be given together")
        if self.groups and self.routed % self.groups:
            raise ValueError(f"groups must divide routed ({self.routed}), but got {self.groups}")
        if self.active_groups > self.groups:
            raise ValueError(f"active_groups must be at most groups ({self.groups}), but got {self.active_groups}")
        if self.groups and self.active > self.active_groups * (self.routed // self.groups):
            raise ValueError(f"active_groups must have at least active ({self.active}) experts together")
        return self

    def reached(self, parts: int) -> float:
        """Of so many equal parts of the experts, consecutive ones in each, those that a token's experts lie in; mean.

        A token chooses evenly among groups, and among the experts of these. A part that has experts of g of the
        ``groups`` is missed if all choices fall on others: hypergeometric in the groups, and in the experts of those
        chosen. Without groups the experts are one group.
        """
        groups, chosen = (self.groups, self.active_groups) if self.groups else (1, 1)
        each, part = self.routed / groups, self.routed / parts
        of_part = max(1, round(groups / parts))
        missed = 0.0
        for hit in range(min(of_part, chosen) + 1):
            ways = math.comb(of_part, hit) * math.comb(max(0, groups - of_part), chosen - hit)
            others = chosen * each - hit * min(each, part)
            none = math.prod(max(0.0, others - taken) / (chosen * each - taken) for taken in range(self.active))
            missed += ways / math.comb(groups, chosen) * none
        return parts * (1.0 - missed)


class WindowAttention(StrictModel):
    """Attention of layers with a window where that of others differs (Gemma 4, MiMo-V2-Flash, Step 3.5).

    Attributes:
        heads, kv_heads, head_width, value_width, attention_sinks, values_are_keys: as of a transformer.
    """

    heads: Size
    kv_heads: Number = 0
    head_width: Size
    value_width: Number = 0
    attention_sinks: Flag = False
    values_are_keys: Flag = False


class Window(StrictModel):
    """Attention to the last tokens alone.

    Attributes:
        tokens: how many.
        share: of the layers that have it.
        chunked: whether tokens see those of their own chunk of so many tokens alone (Llama 4).
        attention: of these layers; as in others where left out.
    """

    tokens: Size
    share: Annotated[float, Field(gt=0, le=1)]
    chunked: Flag = False
    attention: WindowAttention | None = None

    def seen(self, sequence: int) -> float:
        """Tokens that a token sees on average, of a longer sequence."""
        width = self.tokens
        if self.chunked:
            chunks, rest = divmod(sequence, width)
            return (chunks * width * (width + 1) + rest * (rest + 1)) / (2 * sequence)
        return width - width * (width - 1) / (2 * sequence)


class Numerics(StrictModel):
    """What decides the results of a model and none of its costs here; None where it is not known.

    Attributes:
        rotary_base: θ of rotary embeddings.
        rotary_fraction: of a head's width (of latent attention: of ``rotary_width``), the part that they rotate.
        rotary_scaling: how these are scaled to longer sequences: ``none``, ``llama3``, ``yarn``, …
        norm_epsilon: what norms add to a variance.
        activation: of feed-forward networks: ``silu``, ``gelu``, …
        norms: where those of a layer are: in front of attention and network, behind them, or on both sides.
    """

    rotary_base: Positive | None = None
    rotary_fraction: Annotated[float, Field(gt=0, le=1)] = 1.0
    rotary_scaling: str | None = None
    norm_epsilon: Positive | None = None
    activation: str | None = None
    norms: Literal["front", "behind", "both"] = "front"


Recurrences = Literal["mamba2", "lightning", "gated_delta", "kda", "mamba", "rg_lru", "gated_convolution"]

_SIZES_OF: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("mamba2", "lightning", "gated_delta"), ("key_heads", "state_width")),
    "kda": ("key_heads", "state_width", "rank"),
    "mamba": ("state_width", "rank"),
    "rg_lru": (),
    "gated_convolution": ("kernel",),
}
"""Sizes that a kind cannot be without, of those that may be left out."""


class Recurrence(StrictModel):
    """What mixes tokens by a state of fixed size, or a short convolution, in place of attention.

    Attributes:
        kind: ``mamba2`` (Dao & Gu 2024), ``lightning`` (MiniMax-01, 2025), ``gated_delta`` (Yang et al. 2024),
            ``kda`` (Kimi Linear, 2025), ``mamba`` (Gu & Dao 2023), ``rg_lru`` (De et al., Griffin, 2024), or
            ``gated_convolution``, which has no state (LFM2, 2025).
        heads, head_width: of values; their product is the inner width.
        key_heads: of keys and queries, which Mamba-2 calls groups of B and C.
        state_width: of a head's keys; Mamba's d_state.
        kernel: tokens of the short convolution; 0 where there is none.
        chunk: tokens of which scores exist at a time.
        rank: inner width of what makes the steps of ``mamba``, or the gates of ``kda``.
        has_norm: whether what a state yields is normalised (``mamba2``), or the steps, keys and queries (``mamba``).
        convolution_biases, biases: whether the convolution, and the products in and out, have them.
    """

    kind: Recurrences
    heads: Size
    head_width: Size
    key_heads: Number = 0
    state_width: Number = 0
    kernel: Number = 0
    chunk: Size = 64
    rank: Number = 0
    has_norm: Flag = True
    convolution_biases: Flag = False
    biases: Flag = False

    @model_validator(mode="after")
    def _has_its_sizes(self) -> "Recurrence":
        for field in _SIZES_OF[self.kind]:
            if not getattr(self, field):
                raise ValueError(f"{field} must be given with kind: {self.kind}")
        if self.kind == "mamba" and self.head_width != 1:
            raise ValueError(
                f"head_width must be 1 with kind: mamba, but got {self.head_width}: channels are its heads"
            )
        return self

    @property
    def width(self) -> int:
        """Of all heads' values."""
        return self.heads * self.head_width

    @property
    def key_width(self) -> int:
        """Of all heads' keys."""
        return self.key_heads * self.state_width

    def parameters(self, hidden: int) -> int:
        """Elements of everything, in a model with a residual stream of ``hidden``."""
        small = self.kernel * self._convolved + (self._convolved if self.convolution_biases else 0)
        if self.biases:
            small += self.made_width + hidden
        return self.weights(hidden) + small + self._of_states

    def weights(self, hidden: int) -> int:
        """Elements of matrices."""
        inner = {
            "kda": 2 * hidden * self.rank + self.rank * (self.key_width + self.width),
            "mamba": self.width * (2 * self.rank + 2 * self.state_width),
            "rg_lru": 2 * self.width * self.head_width,
        }
        return hidden * (self.made_width + self.width) + inner.get(self.kind, 0)

    @property
    def made_width(self) -> int:
        """Of the product that reads the residual stream."""
        both, values = 2 * self.key_width, self.width
        return {
            "mamba2": 2 * values + both + self.heads,
            "lightning": 2 * values + both,
            "gated_delta": 2 * values + both + 2 * self.heads,
            "kda": values + both + self.heads,
            "mamba": 2 * values,
            "rg_lru": 2 * values,
            "gated_convolution": 3 * values,
        }[self.kind]

    @property
    def _convolved(self) -> int:
        """Channels of the short convolution."""
        return self.width + (2 * self.key_width if self.kind in ("mamba2", "gated_delta", "kda") else 0)

    @property
    def _of_states(self) -> int:
        """Decays, gates and norms."""
        width, normed = self.width, self.has_norm
        return {
            "mamba2": 3 * self.heads + (width if normed else 0),
            "lightning": width,
            "gated_delta": 2 * self.heads + self.head_width,
            "kda": self.heads + self.key_width + self.head_width,
            "mamba": width * (self.state_width + 2) + (self.rank + 2 * self.state_width if normed else 0),
            "rg_lru": 3 * width,
            "gated_convolution": 0,
        }[self.kind]

    def products_of_token(self) -> float:
        """Multiply-adds of a token's scan by chunks: of scores, of their products with values, of states."""
        return sum(rows * columns * inner * count for rows, columns, inner, count in self.of_chunk()) / self.chunk

    def of_chunk(self) -> list[tuple[float, float, float, float]]:
        """(m, n, k, how many) of the products of a chunk, whose scores are whole squares.

        Mamba-2: C·Bᵀ once for each head of keys, its product with values, the state of a chunk, and what earlier
        states yield (Dao & Gu 2024, section 6). Delta rules: also scores of keys among themselves, the inverse of a
        unit triangle (a third of a cube), its products with keys and values, and a correction by earlier states (Yang
        et al. 2024, section 3.2).
        """
        chunk, wide, deep, heads = float(self.chunk), float(self.state_width), float(self.head_width), float(self.heads)
        scores, values = (chunk, chunk, wide), (chunk, deep, chunk)
        if self.kind in ("mamba2", "lightning"):
            groups = float(self.key_heads)
            return [(*scores, groups), (*values, heads), (wide, deep, chunk, heads), (chunk, deep, wide, heads)]
        if self.kind in ("gated_delta", "kda"):
            inverse, keys = (chunk, chunk, chunk / 3), (chunk, wide, chunk)
            return [
                (*scores, 2 * heads),
                (*inverse, heads),
                (*keys, heads),
                (*values, 2 * heads),
                (wide, deep, chunk, heads),
                (chunk, deep, wide, 2 * heads),
            ]
        return []


NETWORKS = ("dense", "experts")
_MIXERS = ("attention", "window", "recurrence")
WORDS = (*_MIXERS, "nope", "reuse", *NETWORKS)


class LayerKind(NamedTuple):
    """What a layer is made of; what mixes tokens stands in front of the feed-forward network, or beside it.

    Attributes:
        attends: whether it has attention.
        is_windowed: whether that has the model's window.
        turns: whether that has rotary embeddings, where the model has them.
        indexes: whether it chooses tokens of its own, where the model has an indexer; else it sees those of the layer
            before.
        recurs: whether it has the model's recurrence, beside attention where it has both.
        network: its feed-forward network: ``dense``, ``experts``, or none.
    """

    attends: bool
    is_windowed: bool
    turns: bool
    indexes: bool
    recurs: bool
    network: str

    @classmethod
    def of(cls, word: str) -> "LayerKind":
        """The kind that a word such as ``recurrence+dense`` names.

        Raises:
            ValueError: an unknown part, one that is given twice, or no part that works.
        """
        parts = word.split("+")
        unknown = [part for part in parts if part not in WORDS]
        twice = len({*parts}) < len(parts) or {*NETWORKS} <= {*parts} or {"attention", "window"} <= {*parts}
        if unknown or twice or {*parts} <= {"nope", "reuse"}:
            raise ValueError(
                f"layer_kinds must have words of {', '.join(WORDS)}, joined by +, with at most one of dense and "
                f"experts, and of attention and window, but got {word}"
            )
        windowed = "window" in parts
        network = next((part for part in NETWORKS if part in parts), "")
        attends, recurs = "attention" in parts or windowed, "recurrence" in parts
        indexes = "attention" in parts and "reuse" not in parts
        return cls(attends, windowed, "nope" not in parts, indexes, recurs, network)

    @property
    def mixes(self) -> bool:
        """Whether anything in it mixes tokens."""
        return self.attends or self.recurs
