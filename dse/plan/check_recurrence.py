"""A recurrence on one rank as docs/method/plan.md defines it, in plain numbers, for :mod:`dse.plan.check_layers`.

It shares no code with :mod:`dse.plan.recurrence_work`: each kind is a list of its operators.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

from dse.plan.check_kernels import Scan, VectorPass
from dse.plan.model_parts import Recurrence


class RecurrenceShape(NamedTuple):
    """The sizes of a model's recurrence, ranks that share its heads, tokens of a microbatch, width of the stream."""

    sizes: Recurrence
    ranks: int
    tokens: float
    hidden: float

    @property
    def heads(self) -> int:
        """Of values, on the widest rank."""
        return math.ceil(self.sizes.heads / self.ranks)

    @property
    def groups(self) -> int:
        """Of keys, which ranks have copies of where they are fewer."""
        return max(1, math.ceil(self.sizes.key_heads / self.ranks))

    @property
    def values(self) -> int:
        """Numbers of a token."""
        return self.heads * self.sizes.head_width

    @property
    def keys(self) -> int:
        """Numbers of a token; as many for queries."""
        return self.groups * self.sizes.state_width

    @property
    def gate(self) -> bool:
        """Whether values are gated as wide as they are, by what the first product makes."""
        return self.sizes.kind in ("mamba2", "gated_delta", "lightning", "mamba", "rg_lru")

    @property
    def made(self) -> int:
        """What the first product makes of a token: values, gates, keys and queries, and numbers for each head."""
        each = {"mamba2": 1, "gated_delta": 2, "kda": 1}.get(self.sizes.kind, 0)
        copies = 3 if self.sizes.kind == "gated_convolution" else 1 + self.gate
        return copies * self.values + 2 * self.keys * (self.sizes.kind != "mamba") + each * self.heads


def recurrence_products(shape: RecurrenceShape) -> Iterator[tuple[str, float, float, float]]:
    """(group, m, n, k) of each linear layer but gates by heads; those ``in`` read what a norm yields."""
    sizes, tokens = shape.sizes, shape.tokens
    yield "mixer in", tokens, float(shape.made), shape.hidden
    if sizes.kind == "kda":
        yield "mixer in", tokens, 2.0 * sizes.rank, shape.hidden
        yield "mixer", tokens, float(shape.keys + shape.values), float(sizes.rank)
    if sizes.kind == "mamba":
        yield "mixer", tokens, float(sizes.rank + 2 * sizes.state_width), float(shape.values)
        yield "mixer", tokens, float(shape.values), float(sizes.rank)
    yield "mixer out", tokens, shape.hidden, float(shape.values)


def gate_products(shape: RecurrenceShape) -> Iterator[tuple[float, float, float, float]]:
    """(m, n, k, how many) of gates that each head has of its own: an input and a recurrence gate (Griffin)."""
    if shape.sizes.kind == "rg_lru":
        width = float(shape.sizes.head_width)
        yield shape.tokens, width, width, 2.0 * shape.heads


def recurrence_passes(shape: RecurrenceShape) -> Iterator[VectorPass]:
    """Short convolutions, norms and gates."""
    sizes, tokens, kind = shape.sizes, shape.tokens, shape.sizes.kind
    mixed = tokens * (shape.values + 2 * shape.keys)
    if sizes.kernel:
        channels = mixed if kind in ("mamba2", "gated_delta", "kda") else tokens * shape.values
        yield VectorPass(channels, 1, 4, 6, ("multiply", "silu"), ("multiply", "silu_backward"))
    if kind in ("gated_delta", "kda"):
        yield VectorPass(2 * tokens * shape.keys, sizes.state_width, 4, 6, ("rms_norm",), ("rms_norm_backward",))
    if kind == "lightning":
        yield VectorPass(mixed, 1, 4, 6, ("silu",), ("silu_backward",))
    if kind == "kda":
        yield VectorPass(tokens * shape.keys, 1, 4, 6, ("power",), ("power_backward",))
    if kind == "mamba" and sizes.has_norm:
        steps = sizes.rank + 2 * sizes.state_width
        yield VectorPass(tokens * steps, steps, 4, 6, ("rms_norm",), ("rms_norm_backward",))
    times = 0 if kind == "mamba" else 2 if kind == "gated_convolution" else 1
    if times:
        yield VectorPass(times * tokens * shape.values, 1, 6, 10, ("silu", "multiply"), ("silu_backward", "multiply"))


def recurrence_bytes(shape: RecurrenceShape, inputs: float) -> float:
    """Bytes that a layer keeps of it; ``inputs`` of an element that a product reads."""
    sizes, kind = shape.sizes, shape.sizes.kind
    numbers = float(shape.made) + shape.values  # what is made, and what the state yields
    if kind in ("gated_delta", "kda", "lightning"):
        numbers += shape.values + 2 * shape.keys
    if kind == "kda":
        numbers += 2 * sizes.rank + shape.keys + shape.values
    if kind == "mamba":
        numbers += sizes.rank + 2 * sizes.state_width
    if kind == "rg_lru":
        numbers += 2 * shape.values
    return shape.tokens * (2 * numbers + inputs * shape.values)


def scan_of(shape: RecurrenceShape, sequence: int, samples: int, queries: float) -> Scan:
    """The scan of ``samples`` of so many tokens, of which a rank has ``queries``."""
    sizes, kind, tokens = shape.sizes, shape.sizes.kind, shape.tokens
    c, n, p = min(sizes.chunk, sequence), sizes.state_width, sizes.head_width
    chunks = samples * math.ceil(queries / c)
    if kind == "gated_convolution":
        return Scan([], 0.0, 0.0, 0.0)
    if kind == "rg_lru":
        return Scan([], 8 * tokens * shape.values, 0.0, 0.0)
    if kind == "mamba":
        return Scan([], tokens * (8 * shape.values + 4 * n), 9 * tokens * shape.values * n, 0.0)
    h, g = shape.heads, shape.groups
    state = 4.0 * chunks * h * n * p
    moved = 2 * tokens * (2 * (shape.values + 2 * shape.keys) + shape.values) + 4 * state
    if kind in ("mamba2", "lightning"):
        products = [(c, c, n, g * chunks), (c, p, c, h * chunks), (n, p, c, h * chunks), (c, p, n, h * chunks)]
        return Scan(products, moved + 8 * tokens * g * c, 0.0, 2 * state)
    each = [(c, c, n), (c, c, n), (c, c, c / 3), (c, n, c), (c, p, c), (c, p, c), (n, p, c), (c, p, n), (c, p, n)]
    moved += 4 * tokens * h * (n + p) + 8 * tokens * h * c
    return Scan([(*sides, h * chunks) for sides in each], moved, 0.0, 2 * state)
