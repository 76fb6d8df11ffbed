"""Small networks of further families in random, mostly odd sizes, as dataflow graphs for cost models to learn from.

The blocks of :mod:`dse.models.dataflow_blocks` are chains whose sizes are whole tiles. These have long skips, wide
fan-out and fan-in, several outputs, products of activations, and rows and columns that fill no tile.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from dse.graph import differentiable as nn
from dse.graph.dataflow.compose import side_by_side
from dse.graph.dataflow.graph import DataflowGraph, GraphPass
from dse.graph.dataflow.recorded import forward_dataflow, output_names, training_dataflow
from dse.graph.tape import Tape, Tensor
from dse.models.recipe import TrainingRecipe
from hardware.operations import Gemm

NetworkKind = Literal["hourglass", "dense", "branches", "heads", "linear_attention", "excited"]
"""``hourglass``: layers that narrow and widen again, with a sum of each pair of equal width (U-Net). ``dense``: each
layer reads the sum of all before it (DenseNet). ``branches``: towers of different depth next to each other, whose
results are added (ResNeXt). ``heads``: a trunk with several classifiers, each with a softmax of its own.
``linear_attention``: keys are multiplied by values first, without a softmax (Katharopoulos et al. 2020). ``excited``:
layers whose results are scaled by gates of a bottleneck (squeeze and excitation).
"""

_ACTIVATIONS: tuple[nn.Nonlinearity, ...] = ("relu", "gelu", "tanh", "silu")


@dataclass(frozen=True)
class _Drawing:
    """A network under construction: random choices, and the tape that records what they come to.

    Attributes:
        tape: of the network.
        generator: of all choices.
        rows: of all activations.
        tile: by which sizes are scaled.
    """

    tape: Tape
    generator: np.random.Generator
    rows: int
    tile: int

    def count(self, low: int, high: int) -> int:
        """A number between two limits, both of which it may be."""
        return int(self.generator.integers(low, high, endpoint=True))

    def width(self, low: float, high: float) -> int:
        """Columns between so many tiles, rarely a whole number of them."""
        return max(1, round(self.tile * self.generator.uniform(low, high)))

    def name(self, what: str) -> str:
        """Of the next operator, which no other one has."""
        return f"{what}{len(self.tape.forward)}"

    def linear(self, source: Tensor, outputs: int) -> Tensor:
        """A layer with a bias."""
        shape = nn.LinearShape(self.rows, self.rows, source.elements // self.rows, outputs, bias=True)
        return nn.linear(self.tape, self.name("linear"), source, shape)

    def active(self, source: Tensor, outputs: int) -> Tensor:
        """A layer with an activation behind it, and in front of it, every other time, a norm."""
        if self.count(0, 1):
            source = nn.normalise(self.tape, self.name("norm"), "layer_norm", source, source.elements // self.rows)
        kind = _ACTIVATIONS[self.count(0, len(_ACTIVATIONS) - 1)]
        return self.nonlinear(kind, self.linear(source, outputs))

    def nonlinear(self, kind: nn.Nonlinearity, source: Tensor, row: int = 1) -> Tensor:
        """An elementwise function, or a softmax of rows."""
        return nn.nonlinearity(self.tape, self.name(kind), kind, source, row)

    def add(self, left: Tensor, right: Tensor) -> Tensor:
        """The sum of two activations."""
        return nn.add(self.tape, self.name("add"), left, right)


def network_graph(kind: NetworkKind, seed: int, graph_pass: GraphPass, tile: int, copies: int = 1) -> DataflowGraph:
    """The random network of a kind; the same for the same seed, in both passes.

    Args:
        kind: of the network.
        seed: of its sizes.
        graph_pass: forward or training.
        tile: rows and columns of a tile: the network has one to ten tiles of rows and up to twelve of columns.
        copies: of the whole, side by side, with inputs of their own.
    """
    generator = np.random.default_rng([seed, get_args(NetworkKind).index(kind)])
    rows = round(tile * generator.uniform(1.0, 10.0))
    tape = Tape(TrainingRecipe().element_bytes, weight_gradients=True)
    drawing = _Drawing(tape, generator, rows, tile)
    outputs = _KINDS[kind](drawing, tape.source("input", rows * drawing.width(1.0, 12.0)))
    build = forward_dataflow if graph_pass == "forward" else training_dataflow
    graph = build(f"{kind}-{seed}", tape, output_names(outputs))
    return side_by_side(graph.name, [(f"copy{number}", graph) for number in range(copies)]) if copies > 1 else graph


def _hourglass(drawing: _Drawing, source: Tensor) -> list[Tensor]:
    narrowing = [source]
    for _ in range(drawing.count(1, 3)):
        columns = narrowing[-1].elements // drawing.rows
        narrowing.append(drawing.active(narrowing[-1], max(1, round(columns * drawing.generator.uniform(0.3, 0.8)))))
    result = narrowing.pop()
    for mirrored in reversed(narrowing):
        result = drawing.add(drawing.active(result, mirrored.elements // drawing.rows), mirrored)
    return [result]


def _dense(drawing: _Drawing, source: Tensor) -> list[Tensor]:
    columns = source.elements // drawing.rows
    total = source
    for _ in range(drawing.count(2, 5)):
        total = drawing.add(total, drawing.active(total, columns))
    return [total]


def _branches(drawing: _Drawing, source: Tensor) -> list[Tensor]:
    columns = drawing.width(1.0, 12.0)
    total: Tensor | None = None
    for _ in range(drawing.count(2, 5)):
        tower = source
        for _ in range(drawing.count(0, 2)):
            tower = drawing.active(tower, drawing.width(0.5, 8.0))
        tower = drawing.linear(tower, columns)
        total = tower if total is None else drawing.add(total, tower)
    assert total is not None, "there are two branches at least"
    return [drawing.nonlinear("relu", total)]


def _heads(drawing: _Drawing, source: Tensor) -> list[Tensor]:
    trunk = source
    for _ in range(drawing.count(1, 3)):
        trunk = drawing.active(trunk, drawing.width(1.0, 12.0))
    outputs = []
    for _ in range(drawing.count(2, 5)):
        classes = drawing.width(0.3, 5.0)
        outputs.append(drawing.nonlinear("softmax", drawing.linear(trunk, classes), classes))
    return outputs


def _linear_attention(drawing: _Drawing, source: Tensor) -> list[Tensor]:
    rows, columns = drawing.rows, source.elements // drawing.rows
    heads, size, inner = drawing.count(1, 6), drawing.width(0.5, 2.0), drawing.width(0.5, 2.0)
    query = drawing.active(source, heads * size)
    key = drawing.active(source, heads * size)
    value = drawing.linear(source, heads * inner)
    summary = nn.product(drawing.tape, "summary", key, value, Gemm(size, inner, rows, heads))
    mixed = nn.product(drawing.tape, "mixed", query, summary, Gemm(rows, inner, size, heads))
    return [drawing.add(source, drawing.linear(mixed, columns))]


def _excited(drawing: _Drawing, source: Tensor) -> list[Tensor]:
    result = source
    for _ in range(drawing.count(1, 3)):
        result = drawing.active(result, drawing.width(1.0, 12.0))
        columns = result.elements // drawing.rows
        squeezed = drawing.active(result, max(1, round(columns * drawing.generator.uniform(0.1, 0.5))))
        gates = drawing.nonlinear("sigmoid", drawing.linear(squeezed, columns))
        result = nn.multiply(drawing.tape, drawing.name("excited"), result, gates)
    return [result]


_KINDS: Mapping[NetworkKind, Callable[[_Drawing, Tensor], list[Tensor]]] = {
    "hourglass": _hourglass,
    "dense": _dense,
    "branches": _branches,
    "heads": _heads,
    "linear_attention": _linear_attention,
    "excited": _excited,
}
