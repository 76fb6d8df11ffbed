"""Bytes of a chip that serves: weights, and keys and values of the tokens that it keeps.

Grouped-query attention keeps 2 · layers · ⌈key heads / tensor⌉ · width elements a token (heads are copied where
there are more chips than heads); latent attention layers · (rank + rotary width) on every chip of ``tensor``. Layers
with a window keep its tokens alone, layers with a state the same for any context, and indexers one key a token. With
latents that an indexer chooses from, 8 bits are those of FlashMLA: its rotary part stays in 16, and 128 elements share
a scale of 32.
"""

import numpy as np
from numpy.typing import NDArray

from dse.plan.model import Transformer
from dse.serve.layers import layer_counts
from dse.serve.mixers import INDEX_KEY_BYTES, STATE_BYTES, convolved_elements, state_elements
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
    """Bytes of one chip for its weights; embedding and output matrix in 16 bits."""
    dense = WEIGHT_BYTES[formats.dense]
    matrices = 3 if model.gated else 2
    counts = layer_counts(model)
    mixers = counts.attending * model.attention_weights / shape.tensor + counts.choosing * model.indexer_weights
    if model.recurrence is not None:
        mixers += counts.recurring * model.recurrence.weights(model.hidden) / shape.tensor
    attention = mixers * WEIGHT_BYTES[formats.attention]
    networks = counts.dense * matrices * model.hidden * model.feed_forward / shape.tensor
    of_experts = 0.0
    if model.experts is not None:
        one = matrices * model.hidden * model.experts.width
        of_experts = counts.sparse * model.experts.routed * one / (shape.expert * shape.expert_tensor)
        networks += counts.sparse * model.experts.shared * one / shape.tensor
    layers = attention + networks * dense + of_experts * WEIGHT_BYTES[formats.weights]
    return layers / shape.pipeline + end_bytes(model, shape)


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
