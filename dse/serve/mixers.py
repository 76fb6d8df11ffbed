"""Work of what stands in place of attention, or in front of it, on one chip: states, and indexers.

A state is read and written for every new token that follows a context, and in chunks of a prompt by products
(:meth:`dse.plan.model_parts.Recurrence.of_chunk`). Engines keep it in 32 bits (SGLang and vLLM: ``mamba_ssm_dtype``).

An indexer has one key a token, in 8 bits, and scores all tokens of a context (DeepSeek-V3.2, 2025, section 2.1); its
products and keys are copied to every chip. Scores are priced as attention whose keys and values are half as wide, which
reads as many bytes and does as many operations.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from dse.plan.model import Transformer
from dse.plan.model_parts import Indexer, Recurrence
from dse.serve.shape import Shape, WeightFormat
from hardware.kernel_model import KernelModel, Kind
from hardware.kernel_times.form import Floats

STATE_BYTES = 4.0
"""Of an element of a state."""

INDEX_KEY_BYTES = 1.0 + 4.0 / 128.0
"""Of an element of an indexer's keys: 8 bits, and a scale of 32 for each 128."""

_SCORE_BYTES = 4.0

_SPARSE_HEADS, _SPARSE_SHARE = 64, 0.64


class Priced(Protocol):
    """Prices kernels for the mixers."""

    @property
    def model(self) -> Transformer:
        """What is served."""

    @property
    def shape(self) -> Shape:
        """Of a replica."""

    @property
    def kernels(self) -> KernelModel:
        """Of the chip."""

    def product_s(self, m: Floats, n: float, k: float, weights: WeightFormat) -> Floats:
        """Seconds of m × n × k."""

    def attention_s(self, kind: Kind, **shapes: Floats | float) -> Floats:
        """Seconds of a kernel of attention."""

    def passes_s(self, elements: Floats, element_bytes: float) -> Floats:
        """Seconds of reading and writing so many elements."""


def state_elements(recurrence: Recurrence, tensor: int) -> float:
    """Of one request and layer on the chip with the most heads; none of a gated convolution."""
    if recurrence.kind == "gated_convolution":
        return 0.0
    return -(-recurrence.heads // tensor) * float(recurrence.head_width * max(recurrence.state_width, 1))


def convolved_elements(recurrence: Recurrence, tensor: int) -> float:
    """Of the tokens that the short convolution keeps of one request and layer."""
    return max(recurrence.kernel - 1, 0) * float(recurrence.width + 2 * recurrence.key_width) / tensor


def recurrence_products(own: Recurrence, hidden: int, tensor: int) -> list[tuple[float, float]]:
    """(n, k) of a layer's linear layers on one chip: into and out of its states, and what makes gates and steps.

    What compresses gates (KDA) is copied to every chip, as vLLM's Kimi Linear has it; what makes steps (Mamba) and the
    blocks of gates (RG-LRU) are cut.
    """
    keys, values = own.key_width / tensor, own.width / tensor
    inner = {
        "kda": [(2.0 * own.rank, float(hidden)), (keys + values, float(own.rank))],
        "mamba": [(own.rank + 2.0 * own.state_width, values), (values, float(own.rank))],
        "rg_lru": [(2.0 * values, float(own.head_width))],
    }
    return [(own.made_width / tensor, float(hidden)), *inner.get(own.kind, []), (float(hidden), values)]


def recurrence_linear_s(work: Priced, tokens: Floats, weights: WeightFormat) -> Floats:
    """Seconds of the products of a layer with states, [N]."""
    products = recurrence_products(_recurrence(work), work.model.hidden, work.shape.tensor)
    return np.asarray(np.sum([work.product_s(tokens, *each, weights) for each in products], axis=0))


def recurrence_step_s(work: Priced, samples: Floats) -> Floats:
    """Seconds of one new token for each of ``samples`` requests in a layer, [N]."""
    recurrence, tensor = _recurrence(work), work.shape.tensor
    states = work.passes_s(samples * state_elements(recurrence, tensor), STATE_BYTES)
    return states + work.passes_s(samples * convolved_elements(recurrence, tensor), 2.0)


def recurrence_prompt_s(work: Priced, tokens: Floats) -> Floats:
    """Seconds of the states of a whole prompt in a layer, [N]."""
    recurrence, tensor = _recurrence(work), work.shape.tensor
    seconds = work.passes_s(tokens * recurrence.made_width / tensor, 2.0)
    for rows, columns, inner, count in recurrence.of_chunk():
        m = tokens / recurrence.chunk * rows * count / tensor
        seconds = seconds + work.product_s(m, columns, inner, "bf16")
    return seconds


def indexer_linear_s(work: Priced, tokens: Floats, weights: WeightFormat) -> Floats:
    """Seconds of an indexer's products, [N]."""
    own, model = _indexer(work), work.model
    assert model.latent is not None, "an indexer reads compressed queries"
    queries = work.product_s(tokens, float(own.heads * own.head_width), float(model.latent.query_rank), weights)
    return queries + work.product_s(tokens, float(own.head_width + own.heads), float(model.hidden), weights)


def indexer_step_s(work: Priced, samples: Floats, context: Floats, new: float) -> Floats:
    """Seconds of the scores of ``new`` tokens for each of ``samples`` requests in a layer, and of the choice, [N]."""
    sizes = _halves(_indexer(work))
    sizes["heads"] *= new
    scores = work.attention_s("decode", samples=samples, context=context, window=0.0, **sizes)
    return scores + work.passes_s(new * samples * context, _SCORE_BYTES)


def indexer_prompt_s(work: Priced, tokens: Floats) -> Floats:
    """Seconds of the scores of a whole prompt in a layer, and of the choice, [N]; none of those that fit a choice."""
    own = _indexer(work)

    def scored(length: Floats | float) -> Floats:
        lengths = np.maximum(length, 1.0)
        scores = work.attention_s("prefill", samples=1.0, tokens=lengths, window=0.0, **_halves(own))
        return scores + work.passes_s(lengths * lengths / 2.0, _SCORE_BYTES)

    chosen = np.full(len(tokens), float(own.chosen))
    return np.asarray(np.where(tokens > own.chosen, np.maximum(scored(tokens) - scored(chosen), 0.0), 0.0))


def chosen_prompt_s(work: Priced, tokens: Floats, whole_s: Callable[[Floats], Floats]) -> Floats:
    """Seconds of attention in which each token sees those that an indexer chose, of a whole prompt in a layer, [N].

    As far as all tokens are seen, ``whole_s`` of the prompt. Each later token attends to latents, by a kernel for
    multiples of 64 heads at 64 % of the peak (FlashMLA, README: 640 Tflop/s on H800 and 1,450 on B200).
    """
    own, latent, chip = _indexer(work), work.model.latent, work.kernels.chip
    assert latent is not None, "an indexer chooses latents"
    heads = -(-work.model.heads // (_SPARSE_HEADS * work.shape.tensor)) * _SPARSE_HEADS
    later = np.maximum(tokens - own.chosen, 0.0)
    flops = 2.0 * later * own.chosen * heads * (2.0 * latent.key_value_rank + latent.rotary_width)
    reading = flops / (_SPARSE_SHARE * chip.peak_flops["bf16"])
    return np.asarray(whole_s(np.minimum(tokens, own.chosen)) + reading)


def _halves(own: Indexer) -> dict[str, float]:
    return {"heads": float(own.heads), "key_heads": 1.0, "width": own.head_width / 2.0, "cache_bytes": 1.0}


def _recurrence(work: Priced) -> Recurrence:
    recurrence = work.model.recurrence
    assert recurrence is not None, "a model with layers that recur"
    return recurrence


def _indexer(work: Priced) -> Indexer:
    assert work.model.indexer is not None, "a model with an indexer"
    return work.model.indexer
