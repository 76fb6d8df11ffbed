"""Seconds of the kernels of a step, on one chip: linear layers, experts, collectives, attention.

Of kernels that engines were timed with, the fastest counts, whichever engine it was: engines share libraries of kernels
and choose among them when they start, and what they chose differs from version to version.

Experts are chosen at random and evenly: of T tokens of all ranks, an expert of E gets Binomial(T, k / E) ones, is read
if it gets any, and the rows of the busiest of ``expert`` groups lie above the mean by the largest of as many normal
deviations (√(2 ln groups) of them).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from dse.plan.model import Transformer
from dse.serve.layers import LayerCounts, layer_counts
from dse.serve.memory import key_heads
from dse.serve.mixers import (
    chosen_prompt_s,
    indexer_linear_s,
    indexer_prompt_s,
    indexer_step_s,
    recurrence_linear_s,
    recurrence_products,
    recurrence_prompt_s,
    recurrence_step_s,
)
from dse.serve.shape import WEIGHT_BYTES, Formats, Shape, WeightFormat
from hardware.inputs import fail
from hardware.kernel_model import KernelModel, Kind
from hardware.kernel_times.experts import HEIGHTS
from hardware.kernel_times.form import Floats

_PRODUCT_FORMAT: Mapping[WeightFormat, str] = {
    "bf16": "bf16", "fp8": "fp8", "fp8_block": "fp8", "nvfp4": "fp4", "mxfp4": "bf16", "int4": "bf16"
}  # fmt: skip

_WORDS: Mapping[WeightFormat, tuple[str, ...]] = {
    "bf16": ("bfloat16",),
    "fp8": ("fp8",),
    "fp8_block": ("fp8_block",),
    "nvfp4": ("nvfp4",),
    "mxfp4": ("w4a8_mxfp4_mxfp8", "w4a16_mxfp4", "bfloat16"),
    "int4": ("int4_wo", "bfloat16"),
}
"""What timed kernels call a format; several where engines have kernels with other activations. Experts in four bits are
also priced as kernels of 16 bits that read fewer bytes: some that were timed take longer than these would."""

_LARGEST_ERROR = 0.4
"""Above it a fit says nothing."""

_SERVER = 8
"""Chips of the usual server. Engines that spread experts over more of them send a token to the chips of its experts
alone (SGLang documentation, expert parallelism: DeepEP; TensorRT-LLM, wide expert parallelism)."""

_ACTIVATION_BYTES = 2.0
_NORM_PASSES = 10.0
"""Reads and writes of the residual stream by the norms, additions, rotations and activations of a layer."""


@dataclass(frozen=True)
class Starts:
    """Fixed times of the kernels of a step.

    Attributes:
        linear_s: of linear layers and experts.
        decode_s: of the attention of new tokens.
        prefill_s: of the attention of parts of prompts.
    """

    linear_s: float
    decode_s: float
    prefill_s: float


def _attention_words(kind: str, word: str) -> tuple[str, ...]:
    """Kernels by the formats of products and cache; for prompts, products of 8 bits too."""
    return (f"fp8 {word}", f"bfloat16 {word}") if kind == "prefill" else (f"bfloat16 {word}",)


@dataclass(frozen=True)
class StepWork:
    """Prices parts of steps of one model, in one shape, on one kind of chip.

    Attributes:
        model, shape, formats: what is served.
        kernels: of the chip.
    """

    model: Transformer
    shape: Shape
    formats: Formats
    kernels: KernelModel
    _variants: dict[tuple[Kind, tuple[str, ...]], tuple[str, ...]] = field(default_factory=dict, repr=False, init=False)

    def __post_init__(self) -> None:
        """Whether its layers are those that can be served.

        Raises:
            InputError: tokens see later ones.
        """
        if self.model.head != "causal_lm":
            raise fail(self.model.name, "head", self.model.head, "must be causal_lm: others write no tokens")

    @cached_property
    def _counts(self) -> LayerCounts:
        return layer_counts(self.model)

    def linear_s(self, tokens: Floats) -> Floats:
        """Seconds of all layers but attention and collectives, for new tokens of a rank, [N]."""
        model, counts, attention = self.model, self._counts, self.formats.attention
        seconds = model.layers * self._norms_s(tokens)
        if counts.attending:
            seconds = seconds + counts.attending * self._projections_s(tokens)
        if counts.choosing:
            seconds = seconds + counts.choosing * indexer_linear_s(self, tokens, attention)
        if counts.recurring:
            seconds = seconds + counts.recurring * recurrence_linear_s(self, tokens, attention)
        if counts.dense:
            seconds = seconds + counts.dense * self._network_s(tokens, model.feed_forward)
        if counts.sparse:
            seconds = seconds + counts.sparse * self._experts_s(tokens)
        return np.asarray(seconds / self.shape.pipeline)

    @property
    def starts_s(self) -> Starts:
        """Fixed times of the kernels of all layers.

        Products of fewer bits start as those of 16: what they take longer when they are timed alone is the cast of
        their input, which engines do in the kernel before.
        """
        model, formats, counts = self.model, self.formats, self._counts

        def start(kind: Kind, words: tuple[str, ...]) -> float:
            return min(self._start_s(kind, variant) for variant in self._known(kind, words))

        product, products = start("dense", _WORDS["bf16"]), 4 if model.latent is not None else 2
        linear = (counts.attending * products + 2 * (counts.choosing + counts.dense)) * product
        if model.recurrence is not None:
            linear += counts.recurring * len(recurrence_products(model.recurrence, model.hidden, 1)) * product
        if model.experts is not None:
            shared = 2 if model.experts.shared else 0
            linear += counts.sparse * (start("experts", _WORDS[formats.weights]) + (1 + shared) * product)
        latent = model.latent is not None
        word = "fp8" if formats.cache_bytes == 1.0 else "bfloat16"
        kinds: tuple[Kind, Kind] = ("latent prefill", "latent decode") if latent else ("prefill", "decode")
        prefill, decode = (start(kind, _attention_words(kind, word)) for kind in kinds)
        mixers = (counts.attending + counts.choosing + counts.recurring) / self.shape.pipeline
        return Starts(linear / self.shape.pipeline, mixers * decode, mixers * prefill)

    def head_s(self, tokens: Floats) -> Floats:
        """Seconds of the output matrix for tokens that get a successor, [N]."""
        rows = self.model.vocabulary / self.shape.tensor
        return self.product_s(tokens, rows, self.model.hidden, "bf16")

    def exchange_s(self, tokens: Floats) -> Floats:
        """Seconds of the collectives of all layers, for new tokens of a rank, [N]."""
        model, shape, counts = self.model, self.shape, self._counts
        stream = model.hidden * _ACTIVATION_BYTES
        seconds = np.zeros(len(tokens))
        of_network = counts.dense + counts.sparse
        if counts.sparse and shape.attention_data > 1:
            chips, size = float(shape.tensor * shape.attention_data), tokens * shape.attention_data * stream
            moved = self._nccl_s("all_gather", chips, size) + self._nccl_s("reduce_scatter", chips, size)
            if model.experts is not None and min(shape.expert, chips) > _SERVER:
                chosen = tokens / shape.tensor * model.experts.reached(shape.expert) * stream
                moved = np.minimum(moved, 2.0 * self._nccl_s("alltoall", chips, chosen))
            seconds += counts.sparse * moved
            of_network = counts.dense
        if shape.tensor > 1:
            both = counts.mixing + of_network
            seconds += both * self._fastest("all-reduce", ("_graph", "TRTLLM"), "bf16", chips=shape.tensor,
                                            bytes=tokens * stream, eager=0.0)  # fmt: skip
        return seconds / shape.pipeline

    def decode_s(self, samples: Floats, context: Floats, new: float = 1.0) -> Floats:
        """Seconds of the attention of ``new`` tokens for each of ``samples`` requests, [N].

        New tokens of a request share the reading of its keys and values, as heads do; each leaves a state.
        """
        model, counts, cache = self.model, self._counts, self.formats.cache_bytes
        heads = new * model.heads / self.shape.tensor
        seconds = np.zeros(np.broadcast(samples, context).shape)
        if counts.recurring:
            seconds = seconds + counts.recurring * recurrence_step_s(self, (1.0 + new) / 2.0 * samples)
        if counts.choosing:
            seconds = seconds + counts.choosing * indexer_step_s(self, samples, context, new)
        if model.latent is not None:
            seen = context if model.indexer is None else np.minimum(context, model.indexer.chosen)
            attention = self.attention_s("latent decode", samples=samples, context=seen, heads=heads, cache_bytes=cache)
            return np.asarray((seconds + counts.attending * attention) / self.shape.pipeline)
        sizes = {"heads": heads, "key_heads": float(key_heads(model, self.shape)), "width": float(model.key_width)}
        for layers, window in self._layers_by_window():
            seconds = seconds + layers * self.attention_s(
                "decode", samples=samples, context=context, window=window, cache_bytes=cache, **sizes
            )
        return np.asarray(seconds / self.shape.pipeline)

    def prefill_s(self, tokens: Floats) -> Floats:
        """Seconds of the attention of one whole prompt of ``tokens``, [N]."""
        model, counts = self.model, self._counts
        heads, seconds = model.heads / self.shape.tensor, np.zeros(len(tokens))
        if counts.recurring:
            seconds = seconds + counts.recurring * recurrence_prompt_s(self, tokens)
        if counts.choosing:
            seconds = seconds + counts.choosing * indexer_prompt_s(self, tokens)
        if model.latent is not None:

            def whole_s(length: Floats) -> Floats:
                return self.attention_s("latent prefill", samples=1.0, tokens=length, heads=heads)

            attention = whole_s(tokens) if model.indexer is None else chosen_prompt_s(self, tokens, whole_s)
            return np.asarray((seconds + counts.attending * attention) / self.shape.pipeline)
        sizes = {"heads": heads, "key_heads": float(key_heads(model, self.shape)), "width": float(model.key_width)}
        for layers, window in self._layers_by_window():
            seconds = seconds + layers * self.attention_s(
                "prefill", samples=1.0, tokens=tokens, window=window, cache_bytes=self.formats.cache_bytes, **sizes
            )
        return np.asarray(seconds / self.shape.pipeline)

    def _layers_by_window(self) -> list[tuple[float, float]]:
        """(layers, tokens of their window; 0 for none)."""
        window, counts = self.model.window, self._counts
        near = 0.0 if window is None else float(window.tokens)
        return [each for each in ((counts.whole, 0.0), (counts.near, near)) if each[0]]

    def _projections_s(self, tokens: Floats) -> Floats:
        model, parts, dense = self.model, self.shape.tensor, self.formats.attention
        query, value = model.heads * model.key_width / parts, model.heads * model.context_width / parts
        output = self.product_s(tokens, model.hidden, value, dense)
        if model.latent is None:
            keys = key_heads(model, self.shape) * (model.key_width + model.context_width)
            query += value if model.attention_gate else 0.0
            return self.product_s(tokens, query + keys, model.hidden, dense) + output
        latent = model.latent
        compressed = latent.query_rank + latent.key_value_rank + latent.rotary_width
        made = model.heads / parts * (model.key_width - latent.rotary_width + model.context_width)
        queries = self.product_s(tokens, query, latent.query_rank or model.hidden, dense)
        return (
            self.product_s(tokens, compressed, model.hidden, dense)
            + queries
            + self.product_s(tokens, made, latent.key_value_rank, "bf16")
            + output
        )

    def _network_s(self, tokens: Floats, width: float) -> Floats:
        model, dense = self.model, self.formats.dense
        own = width / self.shape.tensor
        entered = (2 if model.gated else 1) * own
        down = self.product_s(tokens, model.hidden, own, dense)
        return self.product_s(tokens, entered, model.hidden, dense) + down

    def _norms_s(self, tokens: Floats) -> Floats:
        return self.passes_s(tokens * self.model.hidden * _NORM_PASSES / 2.0, _ACTIVATION_BYTES)

    def _experts_s(self, tokens: Floats) -> Floats:
        """Router, routed experts of the busiest group, and shared experts."""
        model, shape, experts = self.model, self.shape, self.model.experts
        assert experts is not None, "a model with layers of experts"
        together = tokens * shape.attention_data
        likely = experts.active / experts.routed
        own = experts.routed / shape.expert
        mean = together * likely
        hit = own * -np.expm1(together * math.log1p(-likely))
        rows = own * mean
        if shape.expert > 1:
            spread = np.sqrt(2.0 * math.log(shape.expert) * rows * (1.0 - likely))
            rows = np.minimum(rows + spread, np.minimum(experts.active, own) * together)
        of_hit = rows / hit
        padded = {
            f"padded_{height}": hit * (of_hit + (height - 1.0) / 2.0 * np.minimum(1.0, of_hit)) for height in HEIGHTS
        }
        padded = {name: np.maximum(values, hit * int(name[7:])) for name, values in padded.items()}
        weights = self.formats.weights
        seconds = self._fastest(
            "experts", _WORDS[weights], _PRODUCT_FORMAT[weights], tokens=together, hidden=float(model.hidden),
            width=experts.width / shape.expert_tensor, chosen=float(experts.active), experts=float(experts.routed),
            element_bytes=WEIGHT_BYTES[weights], hit=hit, rows=rows, **padded,
        )  # fmt: skip
        seconds = seconds + self.product_s(tokens, experts.routed + experts.idle, model.hidden, "bf16")
        if experts.shared:
            seconds = seconds + self._network_s(tokens, float(experts.shared * experts.width))
        return seconds

    def passes_s(self, elements: Floats, element_bytes: float) -> Floats:
        """Seconds of reading and writing so many elements, [N]."""
        shapes: dict[str, Floats | float] = {"elements": np.maximum(elements, 1.0), "element_bytes": element_bytes}
        return self.kernels.seconds("vector", "bf16", shapes).seconds

    def product_s(self, m: Floats, n: float, k: float, weights: WeightFormat) -> Floats:
        """Seconds of a product of m rows with n · k weights of this format, [N]."""
        shapes: dict[str, Floats | float] = {
            "m": np.maximum(m, 1.0),
            "n": max(n, 1.0),
            "k": max(k, 1.0),
            "element_bytes": WEIGHT_BYTES[weights],
        }
        return self._fastest("dense", _WORDS[weights], _PRODUCT_FORMAT[weights], **shapes)

    def attention_s(self, kind: Kind, **shapes: Floats | float) -> Floats:
        """By the kernels for the format of the cache; their products have 16 bits."""
        word = "fp8" if self.formats.cache_bytes == 1.0 else "bfloat16"
        return self._fastest(kind, _attention_words(kind, word), "bf16", **shapes)

    def _nccl_s(self, operation: str, chips: float, size: Floats) -> Floats:
        return self._fastest("nccl", (f" {operation}",), "bf16", chips=chips, bytes=size, rounds=1.0)

    def _fastest(self, kind: Kind, words: tuple[str, ...], product_format: str, **shapes: Floats | float) -> Floats:
        """Seconds by the fastest of the kernels that were timed under these words, without their fixed time, [N]."""
        seconds = [
            self.kernels.seconds(kind, product_format, shapes, variant).seconds - self._start_s(kind, variant)
            for variant in self._known(kind, words)
        ]
        return np.asarray(np.minimum.reduce(seconds))

    def _known(self, kind: Kind, words: tuple[str, ...]) -> tuple[str, ...]:
        key = kind, words
        if key not in self._variants:
            self._variants[key] = self._timed(kind, words)
        return self._variants[key]

    def _start_s(self, kind: Kind, variant: str) -> float:
        """The fixed time of a kernel; none of kernels that were not timed."""
        if self.kernels.times is None or not variant or kind == "vector":
            return 0.0
        return self.kernels.times.kernel(kind, variant).constants.get("floor_s", 0.0)

    def _timed(self, kind: Kind, words: tuple[str, ...]) -> tuple[str, ...]:
        """Kernels of any engine under one of these words; any of the chip where there are none."""
        if self.kernels.times is None or kind == "vector":
            return ("",)
        known = [
            each
            for each in self.kernels.times.kernels(kind)
            if (each.error or 1.0) < _LARGEST_ERROR
            and (each.variant.endswith(words) if kind in ("all-reduce", "nccl") else
                 each.variant.endswith(tuple(f" {word}" for word in words)))
        ]  # fmt: skip
        return tuple(each.variant for each in known) or ("",)
