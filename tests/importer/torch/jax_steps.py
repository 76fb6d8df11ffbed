"""The perceptron and the transformer of ``steps.py`` in JAX, with Adam: HLO text of their training steps."""

import jax
import jax.numpy as jnp


def linear(parameters, x):
    product = jnp.einsum("...i,oi->...o", x, parameters["weight"])
    return product + parameters["bias"] if "bias" in parameters else product


def normalise(parameters, x):
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred * centred).mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt(variance + 1e-5) * parameters["weight"] + parameters["bias"]


def dense(inputs, outputs, biased=True):
    shapes = {"weight": (outputs, inputs), "bias": (outputs,)}
    return shapes if biased else {"weight": shapes["weight"]}


def perceptron(parameters, batch):
    outputs = linear(parameters["second"], jnp.tanh(linear(parameters["first"], batch["x"])))
    return jnp.mean((outputs - batch["y"]) ** 2)


def attend(parameters, x, heads):
    def part(name):
        projected = linear(parameters[name], x)
        return projected.reshape(*projected.shape[:2], heads, -1)

    scores = jnp.einsum("bqhd,bkhd->bhqk", part("query"), part("key")) / 2.0
    weights = jax.nn.softmax(scores)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, part("value"))
    return linear(parameters["output"], mixed.reshape(*x.shape))


def transformer(parameters, batch):
    x = parameters["words"]["weight"][batch["tokens"]] + parameters["positions"]
    for layer in parameters["layers"]:
        x = normalise(layer["norm1"], x + attend(layer["attention"], x, 4))
        x = normalise(layer["norm2"], x + linear(layer["down"], jax.nn.gelu(linear(layer["up"], x), approximate=False)))
    logits = linear(parameters["head"], x).reshape(-1, 32)
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), batch["labels"].reshape(-1, 1), axis=-1)
    return -picked.mean()


def adam(loss):
    def step(parameters, moments, batch):
        value, gradients = jax.value_and_grad(loss)(parameters, batch)
        count = moments["count"] + 1
        rate, spread = 1e-3 / (1 - 0.9**count), jnp.sqrt(1 - 0.999**count)
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments["mean"], gradients)
        square = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, moments["square"], gradients)
        new = jax.tree.map(lambda p, m, v: p - rate * m / (jnp.sqrt(v) / spread + 1e-8), parameters, mean, square)
        return new, {"mean": mean, "square": square, "count": count}, value

    return step


def text(name):
    """HLO text of the step."""
    norm = {"weight": (16,), "bias": (16,)}
    layer = {
        "attention": {part: dense(16, 16) for part in ("query", "key", "value", "output")},
        "norm1": norm, "norm2": norm, "up": dense(16, 32), "down": dense(32, 16),
    }  # fmt: skip
    shapes, batch = {
        "perceptron": ({"first": dense(16, 32), "second": dense(32, 8)}, {"x": (64, 16), "y": (64, 8)}),
        "transformer": (
            {"positions": (8, 16), "words": {"weight": (32, 16)}, "layers": [layer] * 2, "head": dense(16, 32, False)},
            {"tokens": (4, 8), "labels": (4, 8)},
        ),
    }[name]
    tree = jax.tree.map(
        lambda dims: jax.ShapeDtypeStruct(dims, jnp.float32), shapes, is_leaf=lambda x: type(x) is tuple
    )
    kind = jnp.float32 if name == "perceptron" else jnp.int32
    data = {key: jax.ShapeDtypeStruct(dims, kind) for key, dims in batch.items()}
    moments = {"mean": tree, "square": tree, "count": jax.ShapeDtypeStruct((), jnp.float32)}
    loss = {"perceptron": perceptron, "transformer": transformer}[name]
    return jax.jit(adam(loss)).lower(tree, moments, data).compiler_ir("hlo").get_hlo_module().to_string()
