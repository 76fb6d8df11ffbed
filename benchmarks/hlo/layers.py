"""Layers of training steps in plain JAX, shapes of their parameters, and the Adam step of a loss."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import ShapeDtypeStruct as Shape
from jax import lax

Tree = Any
Step = Callable[..., Any]


def array(*shape: int, dtype: Any = jnp.float32) -> Shape:
    """A shape."""
    return Shape(shape, dtype)


def dense(inputs: int, outputs: int) -> Tree:
    """Shapes of a linear layer."""
    return {"kernel": array(inputs, outputs), "bias": array(outputs)}


def norm(size: int) -> Tree:
    """Shapes of a layer normalisation."""
    return {"scale": array(size), "bias": array(size)}


def linear(parameters: Tree, x: jax.Array) -> jax.Array:
    """A linear layer over the last dimension."""
    return x @ parameters["kernel"] + parameters["bias"]


def normalise(parameters: Tree, x: jax.Array) -> jax.Array:
    """Layer normalisation over the last dimension."""
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred * centred).mean(-1, keepdims=True)
    return centred * lax.rsqrt(variance + 1e-6) * parameters["scale"] + parameters["bias"]


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Mean cross entropy of integer labels."""
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], axis=-1)
    return -picked.mean()


def adam(loss: Step, rate: float = 1e-3, first: float = 0.9, second: float = 0.999) -> Step:
    """The training step of a loss: gradients, moments, new parameters."""

    def step(parameters: Tree, moments: Tree, batch: Tree) -> tuple[Tree, Tree, jax.Array]:
        value, gradients = jax.value_and_grad(loss)(parameters, batch)
        with jax.named_scope("adam"):
            count = moments["count"] + 1
            time = count.astype(jnp.float32)
            mean = jax.tree.map(lambda m, g: first * m + (1 - first) * g, moments["mean"], gradients)
            square = jax.tree.map(lambda v, g: second * v + (1 - second) * g * g, moments["square"], gradients)
            scale = rate * jnp.sqrt(1 - second**time) / (1 - first**time)
            new = jax.tree.map(lambda p, m, v: p - scale * m / (jnp.sqrt(v) + 1e-8), parameters, mean, square)
        return new, {"mean": mean, "square": square, "count": count}, value

    return step


def training(loss: Step, parameters: Tree, batch: Tree) -> tuple[Step, tuple[Tree, Tree, Tree]]:
    """The Adam step of a loss and the shapes of its arguments."""
    moments = {"mean": parameters, "square": parameters, "count": array(dtype=jnp.int32)}
    return adam(loss), (parameters, moments, batch)


def attention_shapes(hidden: int, heads: int, head: int, *, biased: bool) -> Tree:
    """Shapes of multi-head attention."""
    inner = heads * head
    sizes = {"query": (hidden, inner), "key": (hidden, inner), "value": (hidden, inner), "output": (inner, hidden)}
    return {name: dense(*size) if biased else {"kernel": array(*size)} for name, size in sizes.items()}


def attend(parameters: Tree, x: jax.Array, memory: jax.Array, heads: int, bias: jax.Array | None) -> jax.Array:
    """Multi-head attention of ``x`` over ``memory``, both [batch, sequence, hidden]."""

    def project(name: str, of: jax.Array) -> jax.Array:
        with jax.named_scope(name):
            kernel = parameters[name]
            projected = linear(kernel, of) if "bias" in kernel else of @ kernel["kernel"]
            return projected.reshape(*projected.shape[:2], heads, -1)

    query, key, value = project("query", x), project("key", memory), project("value", memory)
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) / np.sqrt(query.shape[-1])
    weights = jax.nn.softmax(scores if bias is None else scores + bias)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, value).reshape(*x.shape[:2], -1)
    with jax.named_scope("output"):
        kernel = parameters["output"]
        return linear(kernel, mixed) if "bias" in kernel else mixed @ kernel["kernel"]


def feed_forward(parameters: Tree, x: jax.Array, activation: Step) -> jax.Array:
    """Two linear layers."""
    with jax.named_scope("conv1"):
        x = activation(linear(parameters["conv1"], x))
    with jax.named_scope("conv2"):
        return linear(parameters["conv2"], x)
