"""A training step of your own over devices:  dse parallel docs/examples/step.py:step --mesh 8

A function without parameters returns the step and its arguments, as arrays or as shapes.
"""

from typing import Any

import jax
import jax.numpy as jnp

Tree = dict[str, Any]


def loss(params: Tree, batch: Tree) -> jax.Array:
    """The squared error of two layers."""
    hidden = jnp.tanh(batch["x"] @ params["w1"])
    return jnp.mean((hidden @ params["w2"] - batch["y"]) ** 2)


def train(params: Tree, momentum: Tree, batch: Tree) -> tuple[Tree, Tree, jax.Array]:
    """One step with momentum: new weights, new momentum, the loss."""
    value, gradients = jax.value_and_grad(loss)(params, batch)
    momentum = jax.tree.map(lambda old, new: 0.9 * old + new, momentum, gradients)
    return jax.tree.map(lambda weight, change: weight - 0.01 * change, params, momentum), momentum, value


def shape(*sizes: int) -> jax.ShapeDtypeStruct:
    """An array that is never made."""
    return jax.ShapeDtypeStruct(sizes, jnp.float32)


def step() -> tuple[Any, ...]:
    """The step and the shapes of its arguments."""
    params = {"w1": shape(4096, 16384), "w2": shape(16384, 4096)}
    return train, params, params, {"x": shape(8192, 4096), "y": shape(8192, 4096)}
