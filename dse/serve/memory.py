"""Bytes of a chip that serves: weights, and keys and values of the tokens that it keeps.

Grouped-query attention keeps 2 · layers · ⌈key heads / tensor⌉ · width elements a token (heads are copied where
there are more chips than heads); latent attention layers · (rank + rotary width) on every chip of ``tensor``. Layers
with a window keep its tokens alone, layers with a state the same for any context, and indexers one key a token. With
latents that an indexer chooses from, 8 bits are those of FlashMLA: its rotary part stays in 16, and 128 elements share
a scale of 32.

Weights are those of a step's products: what compresses queries and keys of latent attention, indexers and routers are
copied to every chip of ``tensor``, and heads of keys where there are more chips. What expands latents is kept in 16
bits, as engines absorb it into products of 16 bits (vLLM and SGLang take it out of the checkpoint's format when they
load it).
"""

import numpy as np
from numpy.typing import NDArray

from dse.plan.model import Transformer
from dse.serve.layers import layer_counts
from dse.serve.mixers import INDEX_KEY_BYTES, STATE_BYTES, convolved_elements, recurrence_products, state_elements
from dse.serve.shape import WEIGHT_BYTES, Formats, Shape


def key_heads(model: Transformer, shape: Shape) -> int:
    """Of keys and values on the chip with the most."""
    return -(-model.key_heads // shape.tensor)


def cache_bytes_per_token(model: Transformer, shape: Shape, formats: Formats) -> float:
    """Bytes of one chip for a token of one layer's keys and values."""
    latent = model.latent
    if latent is None:
        return key_heads(model, shape) * (model.key_width + model.context_width) * formats.cache_bytes
    if model.indexer is not None and formats.cache_bytes == 1.0:
        return latent.key_value_rank * (1.0 + 4.0 / 128.0) + latent.rotary_width * 2.0
    return (latent.key_value_rank + latent.rotary_width) * formats.cache_bytes


def cache_bytes(model: Transformer, shape: Shape, formats: Formats, tokens: float) -> float:
    """Bytes of one chip for a request with ``tokens`` in its context."""
    counts, near = layer_counts(model), tokens
    if model.window is not None:
        near = min(tokens, model.window.tokens)
    held = cache_bytes_per_token(model, shape, formats) * (counts.whole * tokens + counts.near * near)
    if model.indexer is not None:
        held += counts.choosing * tokens * model.indexer.head_width * INDEX_KEY_BYTES
    if model.recurrence is not None:
        states = state_elements(model.recurrence, shape.tensor) * STATE_BYTES
        held += counts.recurring * (states + 2.0 * convolved_elements(model.recurrence, shape.tensor))
    return held / shape.pipeline


def weight_bytes(model: Transformer, shape: Shape, formats: Formats) -> float:
    """Bytes of one chip for its weights; embedding, output matrix and routers in 16 bits."""
    matrices = 3 if model.gated else 2
    counts, size = layer_counts(model), WEIGHT_BYTES[formats.attention]
    layers = counts.attending * _attention_bytes(model, shape, size) + counts.choosing * model.indexer_weights * size
    if model.recurrence is not None:
        products = recurrence_products(model.recurrence, model.hidden, shape.tensor)
        layers += counts.recurring * sum(n * k for n, k in products) * size
    networks = counts.dense * matrices * model.hidden * model.feed_forward / shape.tensor
    if (experts := model.experts) is not None:
        one = matrices * model.hidden * experts.width
        routed = counts.sparse * experts.routed * one / (shape.expert * shape.expert_tensor)
        networks += counts.sparse * experts.shared * one / shape.tensor
        layers += routed * WEIGHT_BYTES[formats.weights]
        layers += 2.0 * counts.sparse * (experts.routed + experts.idle) * model.hidden
    layers += networks * WEIGHT_BYTES[formats.dense]
    return layers / shape.pipeline + end_bytes(model, shape)


def _attention_bytes(model: Transformer, shape: Shape, size: float) -> float:
    """Of the matrices of one attention on one chip, ``size`` an element but for what expands latents."""
    hidden, query = model.hidden, model.heads * model.key_width / shape.tensor
    value = model.heads * model.context_width / shape.tensor
    latent = model.latent
    if latent is None:
        keys = key_heads(model, shape) * (model.key_width + model.context_width)
        return size * hidden * (query + keys + value * (2 if model.attention_gate else 1))
    compressed = hidden * (latent.query_rank + latent.key_value_rank + latent.rotary_width)
    made = model.heads / shape.tensor * (model.key_width - latent.rotary_width + model.context_width)
    cut = query * (latent.query_rank or hidden) + hidden * value
    return size * (compressed + cut) + 2.0 * made * latent.key_value_rank


def end_bytes(model: Transformer, shape: Shape) -> float:
    """Bytes of one chip for embedding and output matrix."""
    return 2.0 * model.vocabulary * model.hidden * (1 if model.tied_embeddings else 2) / shape.tensor


def activation_bytes(
    model: Transformer, shape: Shape, step_tokens: NDArray[np.int64], requests: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Bytes of one chip for what the largest step keeps at once, an estimate, [N].

    In 16 bits: residual stream and its norm, with the wider of the products of attention and of the network; routed
    tokens are those of all ranks, spread evenly over the groups of experts. In 32 bits: logits of ``requests`` tokens.
    """
    tokens = np.asarray(step_tokens, dtype=np.float64)
    attention = (
        model.heads * (model.key_width + model.context_width) + 2 * model.key_heads * model.key_width
    ) / shape.tensor
    network = np.zeros(len(tokens))
    if model.dense_layers:
        network = 3.0 * tokens * model.feed_forward / shape.tensor
    if model.experts is not None:
        rows = tokens * shape.attention_data * model.experts.active / shape.expert
        network = np.maximum(network, rows * (3.0 * model.experts.width / shape.expert_tensor + model.hidden))
    widest = np.maximum(tokens * attention, network)
    logits = 4.0 * np.minimum(tokens, requests) * model.vocabulary / shape.tensor
    return np.asarray(2.0 * (2.0 * tokens * model.hidden + widest) + logits)
