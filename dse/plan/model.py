"""A transformer as a training plan sees it: sizes of attention, feed-forward and experts; parameters; FLOPs."""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, model_validator

from dse.plan.model_parts import (
    Experts,
    Flag,
    Indexer,
    LatentAttention,
    LayerKind,
    Number,
    Numerics,
    Recurrence,
    Size,
    Window,
)
from hardware.spec_fields import Count, StrictModel

SCHEMA = "dse.transformer/1"

Amount = TypeVar("Amount", int, float)

_LATER = (
    *("post_norms", "parallel_norms", "attention_gate", "head_gates", "values_are_keys"),
    *("indexer", "recurrence", "layer_kinds"),
)
"""Fields that came later than others."""


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
        parallel_norms: norms in front of attention and feed-forward network that work side by side, of the same stream
            (Wang & Komatsuzaki, GPT-J, 2021: one; GPT-NeoX and Falcon 40B: two); 0 where the network follows.
        query_key_norm: whether queries and keys are normalised over a head's width.
        attention_biases, feed_forward_biases: whether the linear layers have them.
        query_key_value_biases: whether the products of queries, keys and values alone have them (Qwen2).
        attention_sinks: whether each head has a learned logit in addition to its scores (GPT-OSS).
        attention_gate: whether the results of heads are multiplied by gates of their width, which the product of
            queries makes too (Qwen3-Next).
        head_gates: whether each head's result is multiplied by one gate (Step 3.5, Laguna).
        values_are_keys: whether the product of keys makes values too (Gemma 4: in layers without a window).
        tied_embeddings: whether the output matrix is the token embedding.
        head: ``causal_lm``, or ``masked_lm``: tokens see all others, and a dense layer with activation and norm comes
            before the output matrix, which has a bias (BERT; Devlin et al. 2019).
        pooler: whether it has a next-sentence classifier: parameters, and almost no work.
        token_types: rows of the token-type table.
        embedding_norm: whether the embedding is normalised.
        dropout: whether attention and residual branches have it.
        sequence: usual tokens of a sample.
        latent: latent attention.
        indexer: what chooses the tokens that latent attention sees.
        experts: mixture of experts.
        window: windowed attention.
        recurrence: what some layers have in place of attention, or beside it.
        layer_kinds: of each layer, what it has, such as ``recurrence+dense`` (:class:`dse.plan.model_parts.LayerKind`);
            where left out, attention in each, with experts in all but their ``dense_layers``, and a window in a share
            of all.
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
    parallel_norms: Annotated[int, Field(strict=True, ge=0, le=2)] = 0
    query_key_norm: Flag = False
    attention_biases: Flag = False
    feed_forward_biases: Flag = False
    query_key_value_biases: Flag = False
    attention_sinks: Flag = False
    attention_gate: Flag = False
    head_gates: Flag = False
    values_are_keys: Flag = False
    tied_embeddings: Flag = False
    head: Literal["causal_lm", "masked_lm"] = "causal_lm"
    pooler: Flag = False
    token_types: Number = 0
    embedding_norm: Flag = False
    dropout: Flag = False
    latent: LatentAttention | None = None
    indexer: Indexer | None = None
    experts: Experts | None = None
    window: Window | None = None
    recurrence: Recurrence | None = None
    layer_kinds: tuple[str, ...] = ()
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
        if self.values_are_keys and (self.latent is not None or self.key_width != self.context_width):
            raise ValueError("values_are_keys must not be given with latent attention, or with values of another width")
        if self.indexer is not None and (self.latent is None or not self.latent.query_rank):
            raise ValueError("indexer must not be given without latent.query_rank: it reads compressed queries")
        self._kinds_fit()
        return self

    def _kinds_fit(self) -> None:
        """Whether what layers are made of has sizes, and what has sizes is in some layer."""
        kinds = self.kinds
        if self.layer_kinds and len(self.layer_kinds) != self.layers:
            rule = f"must have an entry for each of the {self.layers} layers, but has {len(self.layer_kinds)}"
            raise ValueError(f"layer_kinds {rule}")
        recurs = any(kind.recurs for kind in kinds)
        if recurs != (self.recurrence is not None):
            raise ValueError("recurrence must be given if and only if layers of layer_kinds have it")
        if self.layer_kinds and self.has_expert_layers != (self.experts is not None):
            raise ValueError("experts must be given if and only if layers of layer_kinds have them")
        if self.layer_kinds and self.experts is not None and self.experts.dense_layers:
            raise ValueError("experts.dense_layers must be 0 with layer_kinds, which say it")
        windowed = [kind.is_windowed for kind in self.kinds_of_layers]
        share = 0.0 if self.window is None else self.window.share
        if self.layer_kinds and round(share * self.layers) != sum(windowed):
            raise ValueError(f"window.share must be {sum(windowed) / self.layers:g}, as layer_kinds have it")
        if self.window is not None and (own := self.window.attention) is not None:
            if not self.layer_kinds or self.latent is not None:
                raise ValueError("window.attention must not be given without layer_kinds, or with latent attention")
            if own.heads % (own.kv_heads or own.heads):
                raise ValueError(f"window.attention.kv_heads must divide heads ({own.heads}), but got {own.kv_heads}")
        if self.indexer is not None and any(windowed):
            raise ValueError("indexer must not be given with layers that have a window")
        plain = all(kind.mixes and kind.network == "dense" for kind in kinds)
        if self.parallel_norms and (self.post_norms or not plain):
            raise ValueError("parallel_norms must be 0 with post_norms, experts, or layers of one part")
        if self.head == "masked_lm" and recurs:
            raise ValueError("recurrence must not be given with masked_lm, whose tokens see later ones")

    def document(self) -> dict[str, Any]:
        """In JSON types; a key that came later is there only where it says something, so that digests last."""
        document = self.model_dump(mode="json", exclude={"numerics", "assumed"})
        if not self.query_key_value_biases:
            del document["query_key_value_biases"]
        for key in _LATER:
            if not document[key]:
                del document[key]
        if self.window is not None and self.window.attention is None:
            del document["window"]["attention"]
        if self.window is not None and not self.window.chunked:
            del document["window"]["chunked"]
        if self.experts is not None and not self.experts.idle:
            del document["experts"]["idle"]
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

    # Layers -----------------------------------------------------------------------------------------------------------

    @property
    def kinds_of_layers(self) -> tuple[LayerKind, ...]:
        """Of each layer."""
        before = self.layers if self.experts is None else min(self.layers, self.experts.dense_layers)
        return _kinds_of(self.layer_kinds, self.layers, before)

    @property
    def kinds(self) -> tuple[LayerKind, ...]:
        """Those that differ, in the order of their first layers."""
        return tuple(dict.fromkeys(self.kinds_of_layers))

    def of_kind(self, kind: LayerKind) -> "Transformer":
        """The model as layers of this kind have it: those with a window may have attention of their own."""
        own = self.window.attention if self.window is not None and kind.is_windowed else None
        return self if own is None else self.model_copy(update=dict(own))

    def branches(self, kind: LayerKind) -> int:
        """Of a layer: what adds to the residual stream."""
        return kind.attends + kind.recurs + bool(kind.network)

    def norms(self, kind: LayerKind) -> int:
        """Of a layer: norms in front of what it has, and behind."""
        if self.parallel_norms:
            return self.parallel_norms
        parts = kind.mixes + bool(kind.network)
        return parts + min(self.post_norms, parts)

    @property
    def dense_layers(self) -> int:
        """Layers with a plain feed-forward network."""
        return sum(kind.network == "dense" for kind in self.kinds_of_layers)

    @property
    def has_expert_layers(self) -> bool:
        """Whether any layer has experts."""
        return any(kind.network == "experts" for kind in self.kinds)

    def attended(self, sequence: int, kind: LayerKind | None = None) -> float:
        """Keys that a token sees on average: under a causal mask, if there is one, in the windows of some layers.

        Of a ``kind`` of layers; of all that attend where none is given, or where no layer says whether it has a window.
        """
        if self.head == "masked_lm":
            return float(sequence)
        if self.indexer is not None:
            return self.indexer.seen(sequence)
        share = self._windowed(kind)
        causal = (sequence + 1) / 2
        if self.window is None or self.window.tokens >= sequence:
            return causal
        return (1 - share) * causal + share * self.window.seen(sequence)

    def _windowed(self, kind: LayerKind | None) -> float:
        """The share of layers with a window."""
        if kind is not None and self.layer_kinds:
            return float(kind.is_windowed)
        return 0.0 if self.window is None else self.window.share

    # Parameters -------------------------------------------------------------------------------------------------------

    @property
    def attention_weights(self) -> int:
        """Elements of the matrices of one attention."""
        query, value = self.heads * self.key_width, self.heads * self.context_width
        output = value * self.hidden * (2 if self.attention_gate else 1)
        output += self.heads * self.hidden if self.head_gates else 0
        if self.latent is None:
            return self.hidden * (query + self.key_heads * self.made_width) + output
        latent = self.latent
        rank = latent.query_rank
        queries = rank * (self.hidden + query) if rank else self.hidden * query
        made = self.heads * (self.key_width - latent.rotary_width + self.context_width)
        keys = self.hidden * (latent.key_value_rank + latent.rotary_width) + latent.key_value_rank * made
        return queries + keys + output

    @property
    def made_width(self) -> int:
        """Of a head's keys and values, as their products make them."""
        return self.key_width + (0 if self.values_are_keys else self.context_width)

    @property
    def indexer_weights(self) -> int:
        """Elements of the matrices of one indexer; 0 in a model without."""
        if self.indexer is None or self.latent is None:
            return 0
        return self.indexer.weights(self.hidden, self.latent.query_rank)

    @property
    def parameters(self) -> int:
        """Of the whole model without multi-token-prediction layers; a tied output matrix counts once."""
        ends = self.vocabulary * self.hidden * (1 if self.tied_embeddings else 2)
        ends += self.embedding_parameters + self.head_parameters
        return sum(self._counted(self._parameters_of)) + ends

    def _counted(self, of_kind: Callable[[LayerKind], Amount]) -> Iterator[Amount]:
        """What each kind of layer has, times its layers."""
        return (self.kinds_of_layers.count(kind) * of_kind(kind) for kind in self.kinds)

    def _parameters_of(self, kind: LayerKind) -> int:
        """Of a layer."""
        total = self.norms(kind) * self.norm_parameters
        if kind.attends:
            own = self.of_kind(kind)
            total += own.attention_weights + own._small_of_attention
        if kind.indexes and self.indexer is not None:
            total += self.indexer_weights + 2 * self.indexer.head_width
        if kind.recurs and self.recurrence is not None:
            total += self.recurrence.parameters(self.hidden)
        return total + {"dense": self._dense, "experts": self._sparse, "": 0}[kind.network]

    @property
    def prediction_parameters(self) -> int:
        """Of all multi-token-prediction layers, which share embedding and output matrix with the model."""
        return self.prediction_layers * (self._parameters_of(self.kinds_of_layers[-1]) + self.projection_parameters)

    @property
    def projection_parameters(self) -> int:
        """Of what such a layer has in addition to a usual one: a projection of two streams to one, and three norms."""
        return 2 * self.hidden * self.hidden + 3 * self.norm_parameters

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
        return self.heads * self.key_width + self.key_heads * self.made_width

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
        router = (self.experts.routed + self.experts.idle) * (self.hidden + (1 if self.experts.biases else 0))
        return self.experts.routed * (one + biases) + self.experts.shared * one + router

    def flops_per_sample(self, sequence: int) -> float:
        """Model FLOPs of a training sample: every matrix product, three passes, attention counted without its mask.

        What MFU is measured by (Chowdhery et al., PaLM, appendix B; Narayanan et al., SC 2021, appendix). Of experts,
        those that a token takes. A window counts as it is, and so do the tokens that an indexer chooses, with its own
        scores of all. Multi-token-prediction layers count.
        """
        return 3.0 * 2.0 * sequence * (self.active_weights + self._mixed_products(sequence))

    @property
    def active_weights(self) -> int:
        """Elements of all matrices that a token is multiplied by; of the output matrix, at each pass through it."""
        later, h = self.prediction_layers, self.hidden
        head = self.vocabulary + (h if self.head == "masked_lm" else 0)
        layers = sum(self._counted(self._active_of)) + later * self._active_of(self.kinds_of_layers[-1])
        return int(layers) + (1 + later) * head * h + later * 2 * h * h

    @property
    def detached_weights(self) -> int:
        """Elements of all matrices whose inputs have no gradients: those of indexers."""
        kinds = (*self.kinds_of_layers, *[self.kinds_of_layers[-1]] * self.prediction_layers)
        return self.indexer_weights * sum(kind.indexes for kind in kinds)

    def _active_of(self, kind: LayerKind) -> int:
        """Of a layer."""
        matrix = (3 if self.gated else 2) * self.hidden
        total = self.of_kind(kind).attention_weights if kind.attends else 0
        total += self.indexer_weights if kind.indexes else 0
        if kind.recurs and self.recurrence is not None:
            total += self.recurrence.weights(self.hidden)
        if kind.network == "dense":
            total += matrix * self.feed_forward
        if kind.network == "experts" and self.experts is not None:
            taken = self.experts.active + self.experts.shared
            router = (self.experts.routed + self.experts.idle) * self.hidden
            total += taken * matrix * self.experts.width + router
        return total

    def _mixed_products(self, sequence: int) -> float:
        """Products of the scores, contexts and states of all layers, for each token."""

        def of_kind(kind: LayerKind) -> float:
            seen, share, own = float(sequence), self._windowed(kind), self.of_kind(kind)
            if self.window is not None and self.window.tokens < sequence:
                seen = (1 - share) * sequence + share * self.window.tokens
            indexed = 0.0
            if self.indexer is not None:
                seen = min(float(self.indexer.chosen), seen)
                indexed = self.indexer.heads * self.indexer.head_width * float(sequence) if kind.indexes else 0.0
            width = own.heads * (own.key_width + own.context_width) * seen + indexed if kind.attends else 0.0
            return width + (self.recurrence.products_of_token() if kind.recurs and self.recurrence else 0.0)

        return sum(self._counted(of_kind)) + self.prediction_layers * of_kind(self.kinds_of_layers[-1])


@lru_cache(maxsize=1024)
def _kinds_of(words: tuple[str, ...], layers: int, dense: int) -> tuple[LayerKind, ...]:
    """Of ``words``, or of attention everywhere with experts behind so many ``dense`` layers."""
    words = words or ("attention+dense",) * dense + ("attention+experts",) * (layers - dense)
    return tuple(map(LayerKind.of, words))
