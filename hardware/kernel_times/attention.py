"""Fused attention: whole prompts and single new tokens, with heads of keys and values or with latent ones.

A prompt's blocks of 128 queries are spread over the processors; a block passes over the blocks of keys that a causal
mask, or a window, leaves. Softmax overlaps with the products. A new token reads all keys and values once; few sequences
with few heads of keys are cut along the context, and each part is a chain of its own.
"""

import numpy as np

from hardware.kernel_times.form import Constants, Floats, Form, Range, Rates, Shapes, blocks, overlapping

BLOCK = 128
_HALF_BYTES = 2.0
_LATENT_KEY, _LATENT_VALUE = 576, 512
_WIDE_KEY, _WIDE_VALUE = 192, 128
_MOST_PARTS = 32.0


def _prefill_s(shapes: Shapes, rates: Rates, constants: Constants) -> Floats:
    samples, tokens, heads = shapes["samples"], shapes["tokens"], shapes["heads"]
    width, window = shapes["width"], shapes["window"]
    rows = blocks(tokens, BLOCK)
    deepest = np.where(window > 0, np.minimum(blocks(np.minimum(window, tokens), BLOCK) + 1.0, rows), rows)
    pairs = (deepest * (deepest + 1.0) / 2.0 + (rows - deepest) * deepest) * BLOCK**2
    share = constants["compute_share"] * np.where(width < BLOCK, constants["narrow"], 1.0)
    pair = overlapping(
        4.0,
        4.0 * width * rates.processors / (rates.flops_per_s * np.minimum(share, 1.0)),
        np.broadcast_to(1.0 / constants["softmax_per_s"], np.shape(width)),
    )
    work = np.maximum(samples * heads * pairs / rates.processors, deepest * BLOCK**2) * pair
    work = work * np.where(window > 0, constants["windowed"], 1.0)
    own = 2.0 * heads * width * _HALF_BYTES + 2.0 * shapes["key_heads"] * width * shapes["cache_bytes"]
    memory = samples * tokens * own / (rates.bytes_per_s * constants["memory_share"])
    return np.asarray(constants["floor_s"] + work + memory)


def _decode_s(shapes: Shapes, rates: Rates, constants: Constants) -> Floats:
    samples, heads, key_heads, window = shapes["samples"], shapes["heads"], shapes["key_heads"], shapes["window"]
    width = shapes["width"]
    context = np.where(window > 0, np.minimum(window, shapes["context"]), shapes["context"])
    chains = samples * key_heads
    traffic = 2.0 * chains * context * width * shapes["cache_bytes"]
    parts = np.clip(rates.processors / chains, 1.0, constants["most_parts"])
    busy = overlapping(
        2.0,
        traffic / (rates.bytes_per_s * constants["memory_share"]),
        context / parts * constants["chain_s"],
    )
    queries = samples * heads * context * width / BLOCK / rates.processors
    return np.asarray(
        constants["floor_s"]
        + busy
        + constants["sample_s"] * chains / rates.processors
        + constants["query_s"] * queries
        + constants["window_s"] * (window > 0)
    )


def _latent_prefill_s(shapes: Shapes, rates: Rates, constants: Constants) -> Floats:
    samples, tokens, heads = shapes["samples"], shapes["tokens"], shapes["heads"]
    rows = blocks(tokens, BLOCK)
    flops = 2.0 * (_WIDE_KEY + _WIDE_VALUE) * BLOCK**2 * rows
    longest = flops * rates.processors * constants["longest"]
    work = np.maximum(samples * heads * flops * (rows + 1.0) / 2.0, longest)
    memory = samples * tokens * heads * 2.0 * (_WIDE_KEY + _WIDE_VALUE) * _HALF_BYTES
    return np.asarray(
        constants["floor_s"]
        + work / (rates.flops_per_s * constants["compute_share"])
        + memory / (rates.bytes_per_s * constants["memory_share"])
    )


def _latent_decode_s(shapes: Shapes, rates: Rates, constants: Constants) -> Floats:
    samples, context, heads = shapes["samples"], shapes["context"], shapes["heads"]
    cache = samples * context * _LATENT_KEY * shapes["cache_bytes"]
    traffic = cache + samples * heads * (_LATENT_KEY + _LATENT_VALUE) * _HALF_BYTES
    together = shapes["heads_together"]
    flops = 2.0 * samples * context * blocks(heads / together, 1.0) * together * (_LATENT_KEY + _LATENT_VALUE)
    busy = overlapping(
        1.5,
        traffic / (rates.bytes_per_s * constants["memory_share"]),
        flops / (rates.flops_per_s * constants["compute_share"]),
    )
    parts = np.clip(rates.processors / samples, 1.0, _MOST_PARTS)
    return np.asarray(
        constants["floor_s"]
        + busy
        + constants["sample_s"] * samples * heads / 16.0 / rates.processors
        + constants["chain_s"] * context / parts
    )


PREFILL = Form(
    shapes=("samples", "tokens", "heads", "key_heads", "width", "window", "cache_bytes"),
    constants={
        "floor_s": Range(1e-6, 1.5e-5, 1e-4),
        "compute_share": Range(0.1, 0.7, 1.0),
        "softmax_per_s": Range(3e9, 1.8e10, 6e10),
        "memory_share": Range(0.1, 0.7, 1.0),
        "windowed": Range(0.5, 1.3, 4.0),
        "narrow": Range(0.4, 1.0, 1.5),
    },
    seconds=_prefill_s,
)

DECODE = Form(
    shapes=("samples", "context", "heads", "key_heads", "width", "window", "cache_bytes"),
    constants={
        "floor_s": Range(1e-6, 8e-6, 1e-4),
        "memory_share": Range(0.05, 0.85, 1.0),
        "sample_s": Range(1e-10, 3e-7, 1e-5),
        "query_s": Range(1e-14, 3e-11, 3e-9),
        "window_s": Range(1e-9, 1e-6, 3e-5),
        "chain_s": Range(1e-11, 2e-9, 3e-8),
        "most_parts": Range(1.0, 16.0, 128.0),
    },
    seconds=_decode_s,
)

LATENT_PREFILL = Form(
    shapes=("samples", "tokens", "heads"),
    constants={
        "floor_s": Range(1e-6, 2e-5, 2e-4),
        "compute_share": Range(0.02, 0.5, 1.0),
        "memory_share": Range(0.05, 0.7, 1.0),
        "longest": Range(0.05, 0.7, 1.5),
    },
    seconds=_latent_prefill_s,
)

LATENT_DECODE = Form(
    shapes=("samples", "context", "heads", "cache_bytes", "heads_together"),
    constants={
        "floor_s": Range(1e-6, 1.3e-5, 1e-4),
        "memory_share": Range(0.05, 0.8, 1.0),
        "compute_share": Range(0.02, 0.5, 1.0),
        "sample_s": Range(1e-9, 3e-7, 5e-5),
        "chain_s": Range(1e-11, 1e-9, 3e-8),
    },
    seconds=_latent_decode_s,
)
