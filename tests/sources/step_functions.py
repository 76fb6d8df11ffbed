"""A user's file of JAX steps."""

FUNCTIONS = """
import jax, jax.numpy as jnp
from dataclasses import dataclass

def loss(params, batch):
    hidden = jnp.tanh(batch["x"] @ params["w1"])
    return jnp.mean((hidden @ params["w2"] - batch["y"]) ** 2)

def train(params, batch):
    value, gradients = jax.value_and_grad(loss)(params, batch)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients), value

def shape(*dims):
    return jax.ShapeDtypeStruct(dims, jnp.float32)

WEIGHTS = {"w1": shape(16, 32), "w2": shape(32, 8)}
BATCH = {"x": shape(64, 16), "y": shape(64, 8)}

def step():
    return train, WEIGHTS, BATCH

def unnamed():
    return lambda *trees: train(*trees), WEIGHTS, BATCH

@jax.tree_util.register_dataclass
@dataclass
class State:
    params: dict

def stateful():
    def step(state, batch):
        params, value = train(state.params, batch)
        return State(params), value
    return jax.jit(step), State(WEIGHTS), BATCH

def shapes():
    return train, {"w1": shape(3, 32), "w2": shape(32, 8)}, BATCH

def number():
    return 3

def pair():
    return 3, 4

def needs(size):
    return train, WEIGHTS, BATCH

def branches():
    return lambda x: x if x > 0 else -x, shape()
"""
