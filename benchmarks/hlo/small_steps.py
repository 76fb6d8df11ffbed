"""Training steps of parts of networks, and of what models seldom have, in plain JAX."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from benchmarks.hlo.layers import Tree, array, dense, linear, training


def rare(batch: int = 8, size: int = 16, channels: int = 8) -> Any:
    """What models seldom have: ``while``, ``conditional``, ``sort``, grouped convolution and ``custom-call``."""
    parameters = {"kernel": array(3, 3, channels // 4, channels), "mix": array(channels, channels), "head": array(5)}

    def loss(parameters: Tree, batch: Tree) -> jax.Array:
        numbers = ("NHWC", "HWIO", "NHWC")
        x = lax.conv_general_dilated(
            batch["image"], parameters["kernel"], (1, 1), "SAME", dimension_numbers=numbers, feature_group_count=4
        )

        def turn(state: jax.Array, _: Any) -> tuple[jax.Array, None]:
            return jnp.tanh(state @ parameters["mix"]), None

        x, _ = lax.scan(turn, x, None, length=3)
        x = lax.cond(batch["flag"] > 0, lambda y: y * 2.0, lambda y: jnp.sin(y), x)
        ranked = jnp.sort(x.mean((1, 2)), axis=-1)[:, -5:]
        orthogonal, _ = jnp.linalg.qr(lax.stop_gradient(parameters["mix"]))
        return jnp.mean(ranked @ parameters["head"]) + jnp.sum(orthogonal) * 1e-3

    return training(loss, parameters, {"image": array(batch, size, size, channels), "flag": array(dtype=jnp.int32)})


def convolutions(batch: int = 16, size: int = 16, channels: int = 64) -> Any:
    """Three convolutions with ReLU between them and a mean squared error."""

    def loss(parameters: Tree, batch: Tree) -> jax.Array:
        x = batch["image"]
        for name in sorted(parameters):
            numbers = ("NHWC", "HWIO", "NHWC")
            x = lax.conv_general_dilated(x, parameters[name]["kernel"], (1, 1), "SAME", dimension_numbers=numbers)
            x = jax.nn.relu(x)
        return jnp.mean((x - batch["target"]) ** 2)

    parameters = {f"conv{number}": {"kernel": array(3, 3, channels, channels)} for number in range(3)}
    images = array(batch, size, size, channels)
    return training(loss, parameters, {"image": images, "target": images})


def perceptron(batch: int = 64, hidden: int = 64, layers: int = 4) -> Any:
    """Linear layers with tanh between them."""

    def loss(parameters: Tree, batch: Tree) -> jax.Array:
        x = batch["x"]
        for name in sorted(parameters):
            x = jnp.tanh(linear(parameters[name], x))
        return jnp.mean((x - batch["y"]) ** 2)

    parameters = {f"layer{number}": dense(hidden, hidden) for number in range(layers)}
    return training(loss, parameters, {"x": array(batch, hidden), "y": array(batch, hidden)})


def llama(batch: int = 8, sequence: int = 32, hidden: int = 64, inner: int = 128, heads: int = 8) -> Any:
    """One block of Llama: attention with rotary positions, and a gated feed-forward network, behind RMS norms."""
    head = hidden // heads

    def rms(scale: jax.Array, x: jax.Array) -> jax.Array:
        return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * scale

    def turned(x: jax.Array) -> jax.Array:
        angles = np.arange(sequence)[:, None] / 10_000 ** (np.arange(0, head, 2) / head)
        cos, sin = (jnp.asarray(f(angles), jnp.float32)[None, :, None, :] for f in (np.cos, np.sin))
        one, other = x[..., : head // 2], x[..., head // 2 :]
        return jnp.concatenate([one * cos - other * sin, other * cos + one * sin], axis=-1)

    def loss(parameters: Tree, batch: Tree) -> jax.Array:
        x = batch["x"]
        y = rms(parameters["norm0"], x)
        q, k, v = ((y @ parameters[name]).reshape(*x.shape[:2], heads, head) for name in "qkv")
        scores = jnp.einsum("bqhd,bkhd->bhqk", turned(q), turned(k)) / head**0.5
        scores = jnp.where(np.tril(np.ones((sequence, sequence), bool)), scores, -1e9)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v).reshape(x.shape)
        x = x + mixed @ parameters["o"]
        y = rms(parameters["norm1"], x)
        x = x + (jax.nn.silu(y @ parameters["gate"]) * (y @ parameters["up"])) @ parameters["down"]
        return jnp.mean((x - batch["y"]) ** 2)

    parameters = {name: array(hidden, hidden) for name in "qkvo"}
    parameters |= {"gate": array(hidden, inner), "up": array(hidden, inner), "down": array(inner, hidden)}
    parameters |= {"norm0": array(hidden), "norm1": array(hidden)}
    data = array(batch, sequence, hidden)
    return training(loss, parameters, {"x": data, "y": data})
