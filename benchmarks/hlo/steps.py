"""Training steps in plain JAX: whole steps with Adam, layers unrolled, parameters as nested dicts, no weights.

Each of :data:`STEPS` gives a step and the shapes of its arguments ``(parameters, moments, batch)``. ``python -m
benchmarks.hlo.steps FOLDER [NAME …]`` lowers them to HLO text, before optimisation (``NAME.hlo``) and after it
(``NAME.opt.hlo``; by XLA's CPU compiler), and to StableHLO (``NAME.mlir``). JAX is needed for that alone.
"""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
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


# ----------------------------------------------------------------------------------------------------------- VGG

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


# ---------------------------------------------------------------------------------------------------- transformers


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


def t5(
    layers: int = 6, hidden: int = 512, inner: int = 2048, heads: int = 8, head: int = 64, batch: int = 16,
    sequence: int = 512, words: int = 32128,
) -> Any:  # fmt: skip
    """T5 (Raffel et al. 2020) with so many encoder and as many decoder layers, one embedding, tables of positions."""
    attention = partial(attention_shapes, hidden, heads, head, biased=False)
    wide = {"conv1": dense(hidden, inner), "conv2": dense(inner, hidden)}
    encoder = {"attention": attention(), "norm1": norm(hidden), "feed_forward": wide, "norm2": norm(hidden)}
    decoder = encoder | {"cross": attention(), "norm3": norm(hidden)}
    parameters = {
        "embedding": array(words, hidden),
        "encoder": {f"layer{n:02}": encoder for n in range(layers)} | {"norm": norm(hidden), "bias": array(32, heads)},
        "decoder": {f"layer{n:02}": decoder for n in range(layers)} | {"norm": norm(hidden), "bias": array(32, heads)},
    }
    buckets = np.clip(np.arange(sequence)[:, None] - np.arange(sequence) + 16, 0, 31)

    def stack(name: str, parameters: Tree, x: jax.Array, memory: jax.Array | None) -> jax.Array:
        bias = jnp.moveaxis(parameters["bias"][buckets], -1, 0)[None]
        if memory is not None:
            bias = bias + jnp.where(np.tri(sequence, dtype=bool), 0.0, -1e9)
        for number in range(layers):
            layer = parameters[f"layer{number:02}"]
            with jax.named_scope(f"{name}/layer{number:02}"):
                inside = normalise(layer["norm1"], x)
                with jax.named_scope("attention"):
                    x = x + attend(layer["attention"], inside, inside, heads, bias)
                if memory is not None:
                    with jax.named_scope("cross"):
                        x = x + attend(layer["cross"], normalise(layer["norm3"], x), memory, heads, None)
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


# ------------------------------------------------------------------------------------- recommendation, and the rare


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


# --------------------------------------------------------------------------------------- parts of networks, by hand


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


STEPS: dict[str, Callable[[], Any]] = {
    "vgg19": vgg,
    "t5-6": t5,
    "t5-3b": partial(t5, layers=24, hidden=1024, inner=16384, heads=32, head=128, batch=8),
    "t5-11b": partial(t5, layers=24, hidden=1024, inner=65536, heads=128, head=128, batch=8),
    "bert-large": bert,
    "bert-48": partial(bert, layers=48),
    "dlrm": dlrm,
    "convolutions": convolutions,
    "perceptron": perceptron,
    "llama-block": llama,
    "rare": rare,
    "vgg-tiny": partial(vgg, batch=4, size=8, widths=(8, 0, 16, 0), hidden=32),
    "t5-tiny": partial(t5, layers=1, hidden=16, inner=32, heads=4, head=4, batch=4, sequence=8, words=64),
    "bert-tiny": partial(bert, layers=2, hidden=16, inner=32, heads=4, batch=4, sequence=8, words=64),
    "dlrm-tiny": partial(dlrm, batch=16, tables=2, rows=32, width=8),
}


def lowered(name: str) -> Any:
    """The step of :data:`STEPS`, lowered."""
    step, arguments = STEPS[name]()
    return jax.jit(step).lower(*arguments)


def write(name: str, folder: Path, *, optimised: bool) -> None:
    """The dumps of one step."""
    step = lowered(name)
    (folder / f"{name}.hlo").write_text(step.compiler_ir("hlo").get_hlo_module().to_string())
    (folder / f"{name}.mlir").write_text(step.as_text("stablehlo", debug_info=True))
    if optimised:
        (folder / f"{name}.opt.hlo").write_text(step.compile().as_text())


if __name__ == "__main__":
    for each in sys.argv[2:] or STEPS:
        write(each, Path(sys.argv[1]), optimised=True)
        print(each, flush=True)
