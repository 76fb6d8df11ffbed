"""A transformer as a training plan sees it: sizes of attention, feed-forward and experts; parameters; FLOPs."""

import math
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from hardware.spec_fields import Count, Positive, StrictModel

SCHEMA = "dse.transformer/1"

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


class Experts(StrictModel):
    """Feed-forward networks of which each token takes a few.

    Attributes:
        routed: how many there are.
        active: how many each token takes.
        width: inner width of one.
        shared: experts of the same width that every token takes too.
        dense_layers: layers at the beginning with a plain feed-forward network instead.
        biases: whether the router and the experts' linear layers have biases.
        groups, active_groups: groups of consecutive experts, and how many of them a token's experts may lie in
            (DeepSeek-V3, 2024, section 2.1.2: node-limited routing); 0 where they may lie in any.
    """

    routed: Size
    active: Size
    width: Size
    shared: Number = 0
    dense_layers: Number = 0
    biases: Flag = False
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


class Window(StrictModel):
    """Attention to the last tokens alone.

    Attributes:
        tokens: how many.
        share: of the layers that have it.
    """

    tokens: Size
    share: Annotated[float, Field(gt=0, le=1)]


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


class Transformer(StrictModel):
    """Equal layers, or dense and expert layers, under a language-model head.

    Attributes:
        name: what it is called.
        source: where the figures come from.
        layers: of the model, without multi-token-prediction layers.
        hidden: width of the residual stream.
        heads: of queries.
        vocabulary: rows of the embedding.
        kv_heads: heads of keys and values (Ainslie et al. 2023); ``heads`` where left out.
        head_width: of queries and keys; hidden / heads where left out.
        value_width: of values; ``head_width`` where left out.
        feed_forward: inner width of a dense layer's feed-forward network.
        gated: whether that has three matrices (SwiGLU, Shazeer 2020) instead of two.
        positions: rotary, or a learned table.
        position_rows: of that table; given with ``learned`` positions only.
        normalisation: by which gain, or gain and offset.
        post_norms: norms of a layer behind attention and feed-forward network, in addition to two in front (Gemma 2).
        query_key_norm: whether queries and keys are normalised over a head's width.
        attention_biases, feed_forward_biases: whether the linear layers have them.
        query_key_value_biases: whether the products of queries, keys and values alone have them (Qwen2).
        attention_sinks: whether each head has a learned logit in addition to its scores (GPT-OSS).
        tied_embeddings: whether the output matrix is the token embedding.
        head: ``causal_lm``, or ``masked_lm``: tokens see all others, and a dense layer with activation and norm comes
            before the output matrix, which has a bias (BERT; Devlin et al. 2019).
        pooler: whether it has a next-sentence classifier: parameters, and almost no work.
        token_types: rows of the token-type table.
        embedding_norm: whether the embedding is normalised.
        dropout: whether attention and residual branches have it.
        sequence: usual tokens of a sample.
        latent: latent attention.
        experts: mixture of experts.
        window: windowed attention.
        prediction_layers: multi-token-prediction layers (DeepSeek-V3, 2024, section 2.2): the normed stream and the
            normed embedding of the next token, both projected to one stream, a layer like the last one, a norm, and a
            pass through the shared head.
        numerics: needed by exports; no cost depends on it.
        assumed: by field, what its reader took where the user's file does not say; for notes, and in no problem.
        published_parameters: of the whole model without those layers, for comparison.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=80)]
    source: str = ""
    layers: Annotated[int, Field(strict=True, gt=0, le=1_000)]
    hidden: Size
    heads: Size
    kv_heads: Number = 0
    head_width: Number = 0
    value_width: Number = 0
    feed_forward: Number = 0
    gated: Flag = True
    vocabulary: Size
    sequence: Size
    positions: Literal["rotary", "learned", "none"] = "rotary"
    position_rows: Number = 0
    normalisation: Literal["rms_norm", "layer_norm"] = "rms_norm"
    post_norms: Annotated[int, Field(strict=True, ge=0, le=2)] = 0
    query_key_norm: Flag = False
    attention_biases: Flag = False
    feed_forward_biases: Flag = False
    query_key_value_biases: Flag = False
    attention_sinks: Flag = False
    tied_embeddings: Flag = False
    head: Literal["causal_lm", "masked_lm"] = "causal_lm"
    pooler: Flag = False
    token_types: Number = 0
    embedding_norm: Flag = False
    dropout: Flag = False
    latent: LatentAttention | None = None
    experts: Experts | None = None
    window: Window | None = None
    prediction_layers: Annotated[int, Field(strict=True, ge=0, le=16)] = 0
    numerics: Numerics = Numerics()
    assumed: dict[str, str] = Field(default_factory=dict)
    published_parameters: Count | None = None

    @model_validator(mode="after")
    def _sizes_fit(self) -> "Transformer":
        if self.heads % self.key_heads:
            raise ValueError(f"kv_heads must divide heads ({self.heads}), but got {self.kv_heads}")
        if not self.head_width and self.hidden % self.heads:
            raise ValueError(f"heads must divide hidden ({self.hidden}) if head_width is not given")
        if not self.feed_forward and self.dense_layers:
            raise ValueError("feed_forward must be given: the model has layers without experts")
        if bool(self.position_rows) != (self.positions == "learned"):
            rule = "must be given" if self.positions == "learned" else "must be 0"
            raise ValueError(f"position_rows {rule} with positions: {self.positions}")
        if self.positions == "learned" and self.sequence > self.position_rows:
            raise ValueError(f"sequence must be at most position_rows ({self.position_rows})")
        if self.experts is not None and self.experts.active > self.experts.routed:
            raise ValueError(f"experts.active must be at most experts.routed ({self.experts.routed})")
        if self.head == "masked_lm" and self.window is not None:
            raise ValueError("window must not be given with masked_lm, whose tokens attend in both directions")
        if self.head == "masked_lm" and self.prediction_layers:
            raise ValueError("prediction_layers must be 0 with masked_lm, which predicts no later tokens")
        if self.latent is not None and not self.head_width:
            raise ValueError("head_width must be given with latent attention")
        if self.latent is not None and self.latent.rotary_width >= self.head_width:
            raise ValueError(
                f"latent.rotary_width must be less than head_width ({self.head_width}), of which it is a part"
            )
        return self

    def document(self) -> dict[str, Any]:
        """In JSON types; a key that came later is there only where it says something, so that digests last."""
        document = self.model_dump(mode="json", exclude={"numerics", "assumed"})
        if not self.query_key_value_biases:
            del document["query_key_value_biases"]
        if not self.post_norms:
            del document["post_norms"]
        if self.experts is not None and not self.experts.groups:
            del document["experts"]["groups"], document["experts"]["active_groups"]
        return document

    @property
    def key_heads(self) -> int:
        """Heads of keys and values; those of latent attention are expanded to one for each query head."""
        return self.kv_heads or self.heads

    @property
    def key_width(self) -> int:
        """Of a head's queries and keys, positions included."""
        return self.head_width or self.hidden // self.heads

    @property
    def context_width(self) -> int:
        """Of a head's values."""
        return self.value_width or self.key_width

    @property
    def dense_layers(self) -> int:
        """Layers with a plain feed-forward network; they come first."""
        return self.layers if self.experts is None else min(self.layers, self.experts.dense_layers)

    @property
    def has_expert_layers(self) -> bool:
        """Whether any layer has experts: then the last one does, and those that predict later tokens."""
        return self.dense_layers < self.layers

    def attended(self, sequence: int) -> float:
        """Keys that a token sees on average: under a causal mask, if there is one, in the windows of some layers."""
        if self.head == "masked_lm":
            return float(sequence)
        causal = (sequence + 1) / 2
        if self.window is None or self.window.tokens >= sequence:
            return causal
        width = self.window.tokens
        near = width - width * (width - 1) / (2 * sequence)
        return (1 - self.window.share) * causal + self.window.share * near

    # Parameters -------------------------------------------------------------------------------------------------------

    @property
    def attention_weights(self) -> int:
        """Elements of the matrices of one attention."""
        query, value = self.heads * self.key_width, self.heads * self.context_width
        output = value * self.hidden
        if self.latent is None:
            return self.hidden * (query + self.key_heads * (self.key_width + self.context_width)) + output
        latent = self.latent
        rank = latent.query_rank
        queries = rank * (self.hidden + query) if rank else self.hidden * query
        made = self.heads * (self.key_width - latent.rotary_width + self.context_width)
        keys = self.hidden * (latent.key_value_rank + latent.rotary_width) + latent.key_value_rank * made
        return queries + keys + output

    @property
    def parameters(self) -> int:
        """Of the whole model without multi-token-prediction layers; a tied output matrix counts once."""
        dense, sparse = self.dense_layers, self.layers - self.dense_layers
        ends = self.vocabulary * self.hidden * (1 if self.tied_embeddings else 2)
        ends += self.embedding_parameters + self.head_parameters
        return self.layers * self._beside_network + dense * self._dense + sparse * self._sparse + ends

    @property
    def prediction_parameters(self) -> int:
        """Of all multi-token-prediction layers, which share embedding and output matrix with the model."""
        network = self._sparse if self.has_expert_layers else self._dense
        return self.prediction_layers * (self._beside_network + network + self.projection_parameters)

    @property
    def projection_parameters(self) -> int:
        """Of what such a layer has in addition to a usual one: a projection of two streams to one, and three norms."""
        return 2 * self.hidden * self.hidden + 3 * self.norm_parameters

    @property
    def _beside_network(self) -> int:
        """Of a layer, all but its feed-forward network."""
        return self.attention_weights + self._small_of_attention + (2 + self.post_norms) * self.norm_parameters

    @property
    def norm_parameters(self) -> int:
        """Of one normalisation of the residual stream."""
        return self.hidden * (2 if self.normalisation == "layer_norm" else 1)

    @property
    def embedding_parameters(self) -> int:
        """Of the embedding in addition to the tokens' table."""
        norm = self.norm_parameters if self.embedding_norm else 0
        return (self.position_rows + self.token_types) * self.hidden + norm

    @property
    def head_parameters(self) -> int:
        """Of the head in addition to the output matrix."""
        dense = self.hidden * (self.hidden + 1)
        masked = dense + self.vocabulary if self.head == "masked_lm" else 0
        pooler = dense + 2 * (self.hidden + 1) if self.pooler else 0
        return self.norm_parameters + masked + pooler

    @property
    def _small_of_attention(self) -> int:
        """Biases, sinks and norms of heads and ranks."""
        biases = self._made_width if self.attention_biases or self.query_key_value_biases else 0
        biases += self.hidden if self.attention_biases else 0
        norms = 2 * self.key_width if self.query_key_norm else 0
        ranks = self.latent.query_rank + self.latent.key_value_rank if self.latent is not None else 0
        return biases + norms + ranks + (self.heads if self.attention_sinks else 0)

    @property
    def _made_width(self) -> int:
        """Of the products of the residual stream that have biases in an attention with biases."""
        if self.latent is not None:
            # as DeepSeek's code has it: only the products that compress
            return self.latent.query_rank + self.latent.key_value_rank + self.latent.rotary_width
        return self.heads * self.key_width + self.key_heads * (self.key_width + self.context_width)

    @property
    def _dense(self) -> int:
        matrices = (3 if self.gated else 2) * self.hidden * self.feed_forward
        biases = (2 if self.gated else 1) * self.feed_forward + self.hidden if self.feed_forward_biases else 0
        return matrices + biases

    @property
    def _sparse(self) -> int:
        if self.experts is None:
            return 0
        one = (3 if self.gated else 2) * self.hidden * self.experts.width
        biases = (2 if self.gated else 1) * self.experts.width + self.hidden if self.experts.biases else 0
        router = self.experts.routed * (self.hidden + (1 if self.experts.biases else 0))
        return self.experts.routed * (one + biases) + self.experts.shared * one + router

    def flops_per_sample(self, sequence: int) -> float:
        """Model FLOPs of a training sample: every matrix product, three passes, attention counted without its mask.

        What MFU is measured by (Chowdhery et al., PaLM, appendix B; Narayanan et al., SC 2021, appendix). Of experts,
        those that a token takes. A window counts as it is. Multi-token-prediction layers count.
        """
        layers = self.layers + self.prediction_layers
        return 3.0 * 2.0 * sequence * (self.active_weights + layers * self._attention_width(sequence))

    @property
    def active_weights(self) -> int:
        """Elements of all matrices that a token is multiplied by; of the output matrix, at each pass through it."""
        later, h = self.prediction_layers, self.hidden
        matrices = 3 if self.gated else 2
        dense, sparse = self.dense_layers, self.layers - self.dense_layers
        if self.has_expert_layers:
            sparse += later
        else:
            dense += later
        networks = dense * matrices * h * self.feed_forward
        if self.experts is not None:
            taken = self.experts.active + self.experts.shared
            networks += sparse * (taken * matrices * h * self.experts.width + self.experts.routed * h)
        head = self.vocabulary + (h if self.head == "masked_lm" else 0)
        attention = (self.layers + later) * self.attention_weights
        return attention + networks + (1 + later) * head * h + later * 2 * h * h

    def _attention_width(self, sequence: int) -> float:
        """Products of one layer's scores and contexts, for each token."""
        seen = float(sequence)
        if self.window is not None and self.window.tokens < sequence:
            seen = (1 - self.window.share) * sequence + self.window.share * self.window.tokens
        return self.heads * (self.key_width + self.context_width) * seen
