"""Seconds of the parts of a step once more, for :mod:`dse.serve.check`: every kernel of every layer, in plain numbers.

A layer is a list of its products, and what mixes tokens; kernels are those of :mod:`dse.serve.check_kernels`. A part is
known at the points of docs/method/serving.md alone, and linear between them. No code of the search, and no arrays.
"""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from dse.plan.model import Transformer
from dse.plan.model_parts import Experts, LayerKind, Recurrence
from dse.serve.check_kernels import Kernels
from dse.serve.shape import WEIGHT_BYTES, Formats, WeightFormat
from hardware.kernel_model import Kind

_OCTAVES = [q << p for p in range(2, 15) for q in (4, 5, 6, 7)]
TOKENS = sorted({*range(1, 17), *_OCTAVES, 131_072})
BATCHES = [each for each in TOKENS if each <= 4096]
CONTEXTS = sorted({1, 128, 256, 1_048_576, *(q << p for p in range(7, 18) for q in (4, 6))})
PROMPTS = sorted({0, 1, 64, 128, 192, *range(256, 4096, 256), *(q << p for p in range(10, 18) for q in (4, 5, 6, 7))})

_NORM_PASSES = 10.0
_SERVER = 8
_TIMED_AS: dict[str, tuple[str, ...]] = {
    "bf16": (" bfloat16",), "fp8": (" fp8",), "fp8_block": (" fp8_block",), "nvfp4": (" nvfp4",),
    "mxfp4": (" w4a8_mxfp4_mxfp8", " w4a16_mxfp4", " bfloat16"), "int4": (" int4_wo", " bfloat16"),
}  # fmt: skip
_PRODUCTS = {"bf16": "bf16", "fp8": "fp8", "fp8_block": "fp8", "nvfp4": "fp4", "mxfp4": "bf16", "int4": "bf16"}

Product = tuple[float, float, WeightFormat]
"""(n, k, format of the weights): of a linear layer, one row for each new token."""


def between(points: Sequence[int], value: Callable[[int], float], at: float) -> float:
    """Linear between points, and beyond the last as before it; ``value`` is asked at two of them at most."""
    place = min(max(bisect_right(points, at), 1), len(points) - 1)
    low, high = points[place - 1], points[place]
    if at <= low:
        return value(low)
    return value(low) + (value(high) - value(low)) * (at - low) / (high - low)


def state_elements(own: Recurrence, tensor: int) -> tuple[float, float]:
    """What a layer keeps of a request on one chip: elements of states, and of tokens of the short convolution."""
    width = 0 if own.kind == "gated_convolution" else own.head_width * max(own.state_width, 1)
    return math.ceil(own.heads / tensor) * width, max(own.kernel - 1, 0) * (own.width + 2 * own.key_width) / tensor


class LayerSums:
    """Of one model in one shape, whose stages count together; every sum is over all layers.

    Fixed times of kernels are not in the seconds: :attr:`product_starts_s`, :meth:`attention_start_s`.
    """

    def __init__(
        self, model: Transformer, cut: tuple[int, int, int, int], formats: Formats, kernels: Kernels, joined: int = 0
    ) -> None:
        """``cut``: tensor, attention_data, expert, expert_tensor; ``joined``: streams made one before all layers."""
        self.joined = joined
        self.model, self.formats, self.kernels = model, formats, kernels
        self.tensor, self.ranks, self.expert, self.expert_tensor = cut
        self.layers = [(kind, float(count)) for kind, count in Counter(model.kinds_of_layers).items()]

    # Products ---------------------------------------------------------------------------------------------------------

    def products(self, kind: LayerKind) -> Iterator[Product]:
        """Linear layers of a layer, but routed experts."""
        if kind.attends:
            yield from self._of_attention()
        if kind.attends and kind.indexes and self.model.indexer is not None and self.model.latent is not None:
            own = self.model.indexer
            yield float(own.heads * own.head_width), float(self.model.latent.query_rank), self.formats.attention
            yield float(own.head_width + own.heads), float(self.model.hidden), self.formats.attention
        if kind.recurs and self.model.recurrence is not None:
            yield from self._of_states(self.model.recurrence)
        if kind.network == "dense":
            yield from self._of_network(self.model.feed_forward)
        if kind.network == "experts" and self.model.experts is not None:
            yield float(self.model.experts.routed + self.model.experts.idle), float(self.model.hidden), "bf16"
            if self.model.experts.shared:
                yield from self._of_network(self.model.experts.shared * self.model.experts.width)

    def _of_attention(self) -> Iterator[Product]:
        model, t, weights = self.model, self.tensor, self.formats.attention
        hidden, values = float(model.hidden), model.heads * model.context_width / t
        queries = model.heads * model.key_width / t
        if (latent := model.latent) is None:
            pairs = math.ceil(model.key_heads / t) * (model.key_width + model.context_width)
            yield queries + pairs + (values if model.attention_gate else 0.0), hidden, weights
        else:
            yield float(latent.query_rank + latent.key_value_rank + latent.rotary_width), hidden, weights
            yield queries, float(latent.query_rank or model.hidden), weights
            expanded = model.heads / t * (model.key_width - latent.rotary_width + model.context_width)
            yield expanded, float(latent.key_value_rank), "bf16"
        yield hidden, values, weights

    def _of_states(self, own: Recurrence) -> Iterator[Product]:
        hidden, keys, values = float(self.model.hidden), own.key_width / self.tensor, own.width / self.tensor
        weights = self.formats.attention
        yield own.made_width / self.tensor, hidden, weights
        if own.kind == "kda":
            yield 2.0 * own.rank, hidden, weights
            yield keys + values, float(own.rank), weights
        if own.kind == "mamba":
            yield float(own.rank + 2 * own.state_width), values, weights
            yield values, float(own.rank), weights
        if own.kind == "rg_lru":
            yield 2.0 * values, float(own.head_width), weights
        yield hidden, values, weights

    def _of_network(self, width: float) -> Iterator[Product]:
        own = width / self.tensor
        yield (2.0 if self.model.gated else 1.0) * own, float(self.model.hidden), self.formats.dense
        yield float(self.model.hidden), own, self.formats.dense

    def product_s(self, rows: float, product: Product) -> float:
        """Of one linear layer."""
        n, k, weights = product
        shape = {"m": max(rows, 1.0), "n": max(n, 1.0), "k": max(k, 1.0), "element_bytes": WEIGHT_BYTES[weights]}
        return self.kernels.seconds("dense", _TIMED_AS[weights], _PRODUCTS[weights], shape)

    def linear_s(self, tokens: float) -> float:
        """Products, experts and norms for so many new tokens of a rank."""
        norms = self.kernels.passes_s(tokens * self.model.hidden * _NORM_PASSES / 2.0, 2.0)
        seconds = 0.0
        for kind, count in self.layers:
            one = norms + sum(self.product_s(tokens, each) for each in self.products(kind))
            if kind.network == "experts" and self.model.experts is not None:
                one += self._routed_s(self.model.experts, tokens * self.ranks)
            seconds += count * one
        hidden = float(self.model.hidden)
        return seconds + (
            self.product_s(tokens, (hidden / self.tensor, self.joined * hidden, "bf16")) if self.joined else 0.0
        )

    def head_s(self, tokens: float) -> float:
        """The output matrix."""
        return self.product_s(tokens, (self.model.vocabulary / self.tensor, float(self.model.hidden), "bf16"))

    def _routed_s(self, experts: Experts, together: float) -> float:
        """The experts of the busiest group, for the tokens of all ranks, of which each is chosen as often."""
        chance, own = experts.active / experts.routed, experts.routed / self.expert
        hit = own * (1.0 - (1.0 - chance) ** together)
        rows = own * together * chance
        if self.expert > 1:
            deviation = math.sqrt(rows * (1.0 - chance))
            rows = min(rows + math.sqrt(2.0 * math.log(self.expert)) * deviation, min(experts.active, own) * together)
        weights = self.formats.weights
        shape = {
            "tokens": together, "hidden": float(self.model.hidden), "width": experts.width / self.expert_tensor,
            "chosen": float(experts.active), "experts": float(experts.routed), "hit": hit, "rows": rows,
            "element_bytes": WEIGHT_BYTES[weights],
        }  # fmt: skip
        for height in (16, 64, 128):
            padding = (height - 1.0) / 2.0 * min(1.0, rows / hit)
            shape[f"padded_{height}"] = max(rows + hit * padding, hit * height)
        return self.kernels.seconds("experts", _TIMED_AS[weights], _PRODUCTS[weights], shape)

    @property
    def product_starts_s(self) -> float:
        """Fixed times of all products, which start as those of 16 bits, and of routed experts."""
        product = self.kernels.start_s("dense", _TIMED_AS["bf16"])
        routed = self.kernels.start_s("experts", _TIMED_AS[self.formats.weights])
        return sum(
            count * (product * len(list(self.products(kind))) + (routed if kind.network == "experts" else 0.0))
            for kind, count in self.layers
        )

    @property
    def weight_bytes(self) -> float:
        """Of a chip that has all layers, without embedding and output matrix."""
        model, matrices, total = self.model, 3 if self.model.gated else 2, 0.0
        for kind, count in self.layers:
            total += count * sum(n * k * WEIGHT_BYTES[weights] for n, k, weights in self.products(kind))
            if kind.network == "experts" and model.experts is not None:
                whole = matrices * model.hidden * model.experts.width * model.experts.routed
                total += count * whole * WEIGHT_BYTES[self.formats.weights] / (self.expert * self.expert_tensor)
        return total

    # Collectives ------------------------------------------------------------------------------------------------------

    def exchange_s(self, tokens: float) -> float:
        """Collectives for so many new tokens of a rank."""
        seconds = 0.0
        for kind, count in self.layers:
            spread = kind.network == "experts" and self.ranks > 1
            reduced = kind.mixes + (bool(kind.network) and not spread)
            if self.tensor > 1:
                size = {"chips": float(self.tensor), "bytes": 2.0 * tokens * self.model.hidden, "eager": 0.0}
                one = self.kernels.seconds("all-reduce", ("_graph", "TRTLLM"), "bf16", size)
                seconds += count * reduced * one
            if spread and self.model.experts is not None:
                seconds += count * self._spread_s(self.model.experts, tokens)
        return seconds

    def _spread_s(self, experts: Experts, tokens: float) -> float:
        chips, stream = float(self.tensor * self.ranks), 2.0 * self.model.hidden

        def moved(name: str, size: float) -> float:
            shape = {"chips": chips, "bytes": size, "rounds": 1.0}
            return self.kernels.seconds("nccl", (f" {name}",), "bf16", shape)

        seconds = sum(moved(name, tokens * self.ranks * stream) for name in ("all_gather", "reduce_scatter"))
        if min(self.expert, chips) <= _SERVER:
            return seconds
        return min(seconds, 2.0 * moved("alltoall", tokens / self.tensor * experts.reached(self.expert) * stream))

    # What mixes tokens ------------------------------------------------------------------------------------------------

    def _attended(self) -> Iterator[tuple[float, float]]:
        """(layers with attention, tokens of their window; 0 for none)."""
        window = self.model.window
        for kind, count in self.layers:
            if kind.attends and window is not None and not self.model.layer_kinds:
                yield count * (1.0 - window.share), 0.0
                yield count * window.share, float(window.tokens)
            elif kind.attends:
                yield count, float(window.tokens) if window is not None and kind.is_windowed else 0.0

    def _attention_s(self, kind: Kind, **shape: float) -> float:
        size = " fp8" if self.formats.cache_bytes == 1.0 else " bfloat16"
        words = (f" bfloat16{size}", f" fp8{size}") if kind == "prefill" else (f" bfloat16{size}",)
        return self.kernels.seconds(kind, words, "bf16", shape)

    def attention_start_s(self, of_prompts: bool) -> float:
        """Fixed times of what mixes tokens, of all layers."""
        size = " fp8" if self.formats.cache_bytes == 1.0 else " bfloat16"
        both = (f" bfloat16{size}", f" fp8{size}")
        if self.model.latent is not None:
            one = self.kernels.start_s("latent prefill" if of_prompts else "latent decode", both[:1])
        else:
            one = self.kernels.start_s("prefill", both) if of_prompts else self.kernels.start_s("decode", both[:1])
        indexes = self.model.indexer is not None
        return one * sum(
            count * (kind.attends + kind.recurs + (indexes and kind.attends and kind.indexes))
            for kind, count in self.layers
        )

    def _heads(self) -> dict[str, float]:
        own = math.ceil(self.model.key_heads / self.tensor)
        return {"heads": self.model.heads / self.tensor, "key_heads": float(own), "width": float(self.model.key_width)}

    def decode_s(self, requests: float, context: float, new: float = 1.0) -> float:
        """``new`` tokens for each of so many requests at a mean context."""
        model, cache, seconds = self.model, self.formats.cache_bytes, 0.0
        heads = self._heads() | {"heads": new * model.heads / self.tensor, "samples": requests, "cache_bytes": cache}
        seen = context if model.indexer is None else min(context, float(model.indexer.chosen))
        for layers, window in self._attended():
            if model.latent is not None:
                sizes = {"samples": requests, "context": seen, "heads": heads["heads"], "cache_bytes": cache}
                seconds += layers * self._attention_s("latent decode", **sizes)
            elif layers:
                seconds += layers * self._attention_s("decode", context=context, window=window, **heads)
        for kind, count in self.layers:
            if kind.attends and kind.indexes and model.indexer is not None:
                keys = self._index_heads() | {"heads": new * model.indexer.heads, "samples": requests}
                scores = self._attention_s("decode", context=context, window=0.0, **keys)
                seconds += count * (scores + self.kernels.passes_s(new * requests * context, 4.0))
            if kind.recurs and model.recurrence is not None:
                seconds += count * self._states_s(model.recurrence, (1.0 + new) / 2.0 * requests)
        return seconds

    def _index_heads(self) -> dict[str, float]:
        own = self.model.indexer
        assert own is not None, "a model with an indexer"
        return {"heads": float(own.heads), "key_heads": 1.0, "width": own.head_width / 2.0, "cache_bytes": 1.0}

    def _states_s(self, own: Recurrence, tokens: float) -> float:
        states, convolved = state_elements(own, self.tensor)
        return self.kernels.passes_s(tokens * states, 4.0) + self.kernels.passes_s(tokens * convolved, 2.0)

    def prefill_s(self, tokens: float) -> float:
        """A whole prompt."""
        model, seconds = self.model, 0.0
        for layers, window in self._attended():
            if model.latent is not None:
                seconds += layers * self._latent_prompt_s(tokens)
            elif layers:
                sizes = self._heads() | {"window": window, "cache_bytes": self.formats.cache_bytes}
                seconds += layers * self._attention_s("prefill", samples=1.0, tokens=tokens, **sizes)
        for kind, count in self.layers:
            if kind.attends and kind.indexes and model.indexer is not None and tokens > model.indexer.chosen:
                scores = self._scores_s(tokens) - self._scores_s(float(model.indexer.chosen))
                seconds += count * max(scores, 0.0)
            if kind.recurs and model.recurrence is not None:
                seconds += count * self._scan_s(model.recurrence, tokens)
        return seconds

    def _latent_prompt_s(self, tokens: float) -> float:
        """Tokens beyond those that an indexer chooses read the chosen latents, 64 heads at once at 64 % of the peak."""
        model, chosen = self.model, tokens
        latent, reading = model.latent, 0.0
        assert latent is not None, "a model with latents"
        if model.indexer is not None:
            chosen = min(tokens, float(model.indexer.chosen))
            heads = 64 * math.ceil(model.heads / (64 * self.tensor))
            pairs = (tokens - chosen) * model.indexer.chosen * heads
            flops = 2.0 * pairs * (2 * latent.key_value_rank + latent.rotary_width)
            reading = flops / (0.64 * self.kernels.peak_flops("bf16"))
        whole = {"samples": 1.0, "tokens": chosen, "heads": model.heads / self.tensor}
        return reading + self._attention_s("latent prefill", **whole)

    def _scores_s(self, tokens: float) -> float:
        scores = self._attention_s("prefill", samples=1.0, tokens=tokens, window=0.0, **self._index_heads())
        return scores + self.kernels.passes_s(tokens * tokens / 2.0, 4.0)

    def _scan_s(self, own: Recurrence, tokens: float) -> float:
        seconds = self.kernels.passes_s(tokens * own.made_width / self.tensor, 2.0)
        for rows, columns, inner, count in own.of_chunk():
            chunks = tokens / own.chunk * count / self.tensor
            seconds += self.product_s(chunks * rows, (columns, inner, "bf16"))
        return seconds

    # What is kept -----------------------------------------------------------------------------------------------------

    def cache_bytes(self, tokens: float) -> float:
        """Of a chip that has all layers, for a request with so many tokens."""
        model, size, total = self.model, self.formats.cache_bytes, 0.0
        token = math.ceil(model.key_heads / self.tensor) * (model.key_width + model.context_width) * size
        if (latent := model.latent) is not None:
            token = size * (latent.key_value_rank + latent.rotary_width)
            if model.indexer is not None and size == 1.0:
                token = latent.key_value_rank + 4.0 * latent.key_value_rank / 128 + 2.0 * latent.rotary_width
        for layers, window in self._attended():
            total += layers * token * (min(tokens, window) if window else tokens)
        for kind, count in self.layers:
            if kind.attends and kind.indexes and model.indexer is not None:
                total += count * tokens * model.indexer.head_width * (1.0 + 4.0 / 128)
            if kind.recurs and model.recurrence is not None:
                states, convolved = state_elements(model.recurrence, self.tensor)
                total += count * (4.0 * states + 2.0 * convolved)
        return total


class Parts:
    """The parts of a step of one shape: summed once at each point, linear between points."""

    def __init__(self, sums: LayerSums) -> None:
        self.sums = sums
        self.product_starts_s = sums.product_starts_s
        self.decode_start_s, self.prefill_start_s = sums.attention_start_s(False), sums.attention_start_s(True)
        self._known: dict[tuple[object, ...], float] = {}
        self._prompts = [0.0]

    def _once(self, part: Callable[..., float], *at: float) -> float:
        key = part.__name__, *at
        if key not in self._known:
            self._known[key] = part(*at)
        return self._known[key]

    def linear_s(self, tokens: float) -> float:
        """As :meth:`LayerSums.linear_s`."""
        return between(TOKENS, lambda point: self._once(self.sums.linear_s, point), tokens)

    def head_s(self, tokens: float) -> float:
        """As :meth:`LayerSums.head_s`."""
        return between(TOKENS, lambda point: self._once(self.sums.head_s, point), tokens)

    def exchange_s(self, tokens: float) -> float:
        """As :meth:`LayerSums.exchange_s`."""
        return between(TOKENS, lambda point: self._once(self.sums.exchange_s, point), tokens)

    def decode_s(self, requests: float, context: float, new: float = 1.0) -> float:
        """As :meth:`LayerSums.decode_s`."""

        def of(batch: int) -> float:
            return between(CONTEXTS, lambda point: self._once(self.sums.decode_s, batch, point, new), context)

        return between(BATCHES, of, requests)

    def prefill_s(self, tokens: float) -> float:
        """As :meth:`LayerSums.prefill_s`; a longer prompt takes no less."""
        return between(PROMPTS, self._longest_s, tokens)

    def _longest_s(self, point: int) -> float:
        place = PROMPTS.index(point)
        while len(self._prompts) <= place:
            self._prompts.append(max(self._prompts[-1], self.sums.prefill_s(PROMPTS[len(self._prompts)])))
        return self._prompts[place]
