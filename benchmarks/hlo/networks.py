"""Training steps of published networks in plain JAX: layers unrolled, parameters as nested dicts."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.hlo.layers import (
    Tree,
    array,
    attend,
    attention_shapes,
    cross_entropy,
    dense,
    feed_forward,
    linear,
    norm,
    normalise,
    training,
)

VGG19 = (64, 64, 0, 128, 128, 0, 256, 256, 256, 256, 0, 512, 512, 512, 512, 0, 512, 512, 512, 512, 0)
"""Output channels of the convolutions; 0: maximum over 2 × 2 pixels."""


def vgg(batch: int = 64, size: int = 224, widths: tuple[int, ...] = VGG19, hidden: int = 4096) -> Any:
    """VGG (Simonyan and Zisserman 2015) on images of three channels and 1,000 classes."""
    parameters: Tree = {}
    channels, side = 3, size
    for number, width in enumerate(widths):
        if width:
            kernel = {"kernel": array(3, 3, channels, width), "bias": array(width)}
            parameters[f"conv{number:02}"], channels = kernel, width
        else:
            side //= 2
    parameters |= {
        "fc1": dense(channels * side * side, hidden),
        "fc2": dense(hidden, hidden),
        "predictions": dense(hidden, 1000),
    }

    def loss(parameters: Tree, batch: Tree) -> jax.Array:
        x = batch["image"]
        for number, width in enumerate(widths):
            with jax.named_scope(f"conv{number:02}"):
                if width:
                    kernel = parameters[f"conv{number:02}"]
                    convolved = lax.conv_general_dilated(
                        x, kernel["kernel"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
                    )
                    x = jax.nn.relu(convolved + kernel["bias"])
                else:
                    x = lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        x = x.reshape(x.shape[0], -1)
        for name in ("fc1", "fc2"):
            with jax.named_scope(name):
                x = jax.nn.relu(linear(parameters[name], x))
        with jax.named_scope("predictions"):
            return cross_entropy(linear(parameters["predictions"], x), batch["label"])

    return training(loss, parameters, {"image": array(batch, size, size, 3), "label": array(batch, dtype=jnp.int32)})


def t5(
    layers: int = 6, hidden: int = 512, inner: int = 2048, heads: int = 8, head: int = 64, batch: int = 16,
    sequence: int = 512, words: int = 32128, *, cross_table: bool = False,
) -> Any:  # fmt: skip
    """T5 (Raffel et al. 2020) with so many encoder and as many decoder layers, one embedding, tables of positions.

    ``cross_table``: attention of the decoder to the encoder has a table of positions, too, as in the published weights.
    """
    attention = partial(attention_shapes, hidden, heads, head, biased=False)
    wide = {"conv1": dense(hidden, inner), "conv2": dense(inner, hidden)}
    encoder = {"attention": attention(), "norm1": norm(hidden), "feed_forward": wide, "norm2": norm(hidden)}
    decoder = encoder | {"cross": attention(), "norm3": norm(hidden)}
    parameters = {
        "embedding": array(words, hidden),
        "encoder": {f"layer{n:02}": encoder for n in range(layers)} | {"norm": norm(hidden), "bias": array(32, heads)},
        "decoder": {f"layer{n:02}": decoder for n in range(layers)} | {"norm": norm(hidden), "bias": array(32, heads)},
    }
    if cross_table:
        parameters["decoder"]["cross_bias"] = array(32, heads)
    buckets = np.clip(np.arange(sequence)[:, None] - np.arange(sequence) + 16, 0, 31)

    def by_position(table: jax.Array) -> jax.Array:
        return jnp.moveaxis(table[buckets], -1, 0)[None]

    def stack(name: str, parameters: Tree, x: jax.Array, memory: jax.Array | None) -> jax.Array:
        bias = by_position(parameters["bias"])
        if memory is not None:
            bias = bias + jnp.where(np.tri(sequence, dtype=bool), 0.0, -1e9)
        cross_bias = by_position(parameters["cross_bias"]) if "cross_bias" in parameters else None
        for number in range(layers):
            layer = parameters[f"layer{number:02}"]
            with jax.named_scope(f"{name}/layer{number:02}"):
                inside = normalise(layer["norm1"], x)
                with jax.named_scope("attention"):
                    x = x + attend(layer["attention"], inside, inside, heads, bias)
                if memory is not None:
                    with jax.named_scope("cross"):
                        x = x + attend(layer["cross"], normalise(layer["norm3"], x), memory, heads, cross_bias)
                with jax.named_scope("feed_forward"):
                    x = x + feed_forward(layer["feed_forward"], normalise(layer["norm2"], x), jax.nn.relu)
        return normalise(parameters["norm"], x)

    def loss(parameters: Tree, batch: Tree) -> jax.Array:
        table = parameters["embedding"]
        with jax.named_scope("embedding"):
            source, target = (jnp.take(table, batch[name], axis=0) for name in ("source", "target"))
        memory = stack("encoder", parameters["encoder"], source, None)
        x = stack("decoder", parameters["decoder"], target, memory)
        with jax.named_scope("head"):
            return cross_entropy(x @ table.T / np.sqrt(hidden), batch["label"])

    tokens = array(batch, sequence, dtype=jnp.int32)
    return training(loss, parameters, {"source": tokens, "target": tokens, "label": tokens})


def bert(
    layers: int = 24, hidden: int = 1024, inner: int = 4096, heads: int = 16, batch: int = 8, sequence: int = 512,
    words: int = 30522,
) -> Any:  # fmt: skip
    """BERT (Devlin et al. 2019) with both of its pretraining losses."""
    layer = {
        "attention": attention_shapes(hidden, heads, hidden // heads, biased=True), "norm1": norm(hidden),
        "feed_forward": {"conv1": dense(hidden, inner), "conv2": dense(inner, hidden)}, "norm2": norm(hidden),
    }  # fmt: skip
    parameters = {
        "embedding": {"word": array(words, hidden), "position": array(sequence, hidden), "type": array(2, hidden)},
        "embedding_norm": norm(hidden),
        **{f"layer{number:02}": layer for number in range(layers)},
        "masked": {"dense": dense(hidden, hidden), "norm": norm(hidden), "bias": array(words)},
        "pooler": dense(hidden, hidden),
        "next": dense(hidden, 2),
    }

    def loss(parameters: Tree, batch: Tree) -> jax.Array:
        table = parameters["embedding"]
        with jax.named_scope("embedding"):
            x = jnp.take(table["word"], batch["token"], axis=0) + jnp.take(table["type"], batch["segment"], axis=0)
            x = normalise(parameters["embedding_norm"], x + table["position"])
        for number in range(layers):
            layer = parameters[f"layer{number:02}"]
            with jax.named_scope(f"layer{number:02}"):
                with jax.named_scope("attention"):
                    x = normalise(layer["norm1"], x + attend(layer["attention"], x, x, heads, None))
                with jax.named_scope("feed_forward"):
                    x = normalise(layer["norm2"], x + feed_forward(layer["feed_forward"], x, jax.nn.gelu))
        with jax.named_scope("masked"):
            inside = normalise(parameters["masked"]["norm"], jax.nn.gelu(linear(parameters["masked"]["dense"], x)))
            words_lost = cross_entropy(inside @ table["word"].T + parameters["masked"]["bias"], batch["label"])
        with jax.named_scope("next"):
            pooled = jnp.tanh(linear(parameters["pooler"], x[:, 0]))
            return words_lost + cross_entropy(linear(parameters["next"], pooled), batch["next"])

    tokens = array(batch, sequence, dtype=jnp.int32)
    inputs = {"token": tokens, "segment": tokens, "label": tokens, "next": array(batch, dtype=jnp.int32)}
    return training(loss, parameters, inputs)


def dlrm(batch: int = 2048, tables: int = 8, rows: int = 100_000, width: int = 64) -> Any:
    """A recommendation model in the manner of DLRM (Naumov et al. 2019)."""
    pairs = (tables + 1) * tables // 2
    parameters = {
        "table": {f"table{number}": array(rows, width) for number in range(tables)},
        "bottom": {"layer0": dense(13, 512), "layer1": dense(512, 256), "layer2": dense(256, width)},
        "top": {"layer0": dense(width + pairs, 512), "layer1": dense(512, 256), "layer2": dense(256, 1)},
    }

    def tower(name: str, parameters: Tree, x: jax.Array) -> jax.Array:
        for number in range(3):
            with jax.named_scope(f"{name}/layer{number}"):
                x = linear(parameters[f"layer{number}"], x)
                x = jax.nn.relu(x) if number < 2 else x
        return x

    def loss(parameters: Tree, batch: Tree) -> jax.Array:
        dense_features = tower("bottom", parameters["bottom"], batch["dense"])
        with jax.named_scope("embedding"):
            looked_up = [
                jnp.take(parameters["table"][f"table{number}"], batch["sparse"][:, number], axis=0)
                for number in range(tables)
            ]
        features = jnp.stack([dense_features, *looked_up], axis=1)
        products = jnp.einsum("bif,bjf->bij", features, features)
        upper = np.triu_indices(tables + 1, 1)
        joined = jnp.concatenate([dense_features, products[:, upper[0], upper[1]]], axis=1)
        logit = tower("top", parameters["top"], joined)[:, 0]
        return jnp.mean(jax.nn.softplus(logit) - batch["click"] * logit)

    inputs = {"dense": array(batch, 13), "sparse": array(batch, tables, dtype=jnp.int32), "click": array(batch)}
    return training(loss, parameters, inputs)
