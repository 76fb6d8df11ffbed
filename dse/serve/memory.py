"""Bytes of a chip that serves: weights, and keys and values of the tokens that it keeps.

Grouped-query attention keeps 2 · layers · ⌈key heads / tensor⌉ · width elements a token (heads are copied where
there are more chips than heads); latent attention layers · (rank + rotary width) on every chip of ``tensor``. Layers
with a window keep its tokens alone.
"""

from dse.plan.model import Transformer
from dse.serve.shape import WEIGHT_BYTES, Formats, Shape


def key_heads(model: Transformer, shape: Shape) -> int:
    """Of keys and values on the chip with the most."""
    return -(-model.key_heads // shape.tensor)


def cache_bytes_per_token(model: Transformer, shape: Shape, formats: Formats) -> float:
    """Bytes of one chip for a token of one layer's keys and values."""
    if model.latent is not None:
        return (model.latent.key_value_rank + model.latent.rotary_width) * formats.cache_bytes
    return key_heads(model, shape) * (model.key_width + model.context_width) * formats.cache_bytes


def cache_bytes(model: Transformer, shape: Shape, formats: Formats, tokens: float) -> float:
    """Bytes of one chip for a request with ``tokens`` in its context."""
    layers, near = model.layers / shape.pipeline, tokens
    if model.window is not None:
        near = min(tokens, model.window.tokens)
    share = 0.0 if model.window is None else model.window.share
    return layers * cache_bytes_per_token(model, shape, formats) * ((1 - share) * tokens + share * near)


def weight_bytes(model: Transformer, shape: Shape, formats: Formats) -> float:
    """Bytes of one chip for its weights; embedding and output matrix in 16 bits."""
    dense = WEIGHT_BYTES[formats.dense]
    matrices = 3 if model.gated else 2
    attention = model.layers * model.attention_weights / shape.tensor * WEIGHT_BYTES[formats.attention]
    networks = model.dense_layers * matrices * model.hidden * model.feed_forward / shape.tensor
    of_experts = 0.0
    if model.experts is not None:
        sparse = model.layers - model.dense_layers
        one = matrices * model.hidden * model.experts.width
        of_experts = sparse * model.experts.routed * one / (shape.expert * shape.expert_tensor)
        networks += sparse * model.experts.shared * one / shape.tensor
    ends = 2.0 * model.vocabulary * model.hidden * (1 if model.tied_embeddings else 2) / shape.tensor
    return (attention + networks * dense + of_experts * WEIGHT_BYTES[formats.weights]) / shape.pipeline + ends
