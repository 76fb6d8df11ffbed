"""The nodes of a traced layer, and the recorder that the layers are written with."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

ProductKind = Literal["linear", "addmm", "matmul", "bmm"]
VectorNode = Literal[
    "add",
    "subtract",
    "multiply",
    "divide",
    "power",
    "tanh",
    "relu",
    "layer_norm",
    "dropout",
    "softmax",
    "fill",
    "all_reduce",
    "all_reduce_forward",
    "all_reduce_backward",
]
IdleNode = Literal["view", "sum", "index"]
NodeKind = ProductKind | VectorNode | IdleNode
"""What a node does. Every GELU is a ``relu`` and every exponential or logarithm a ``power``; ``fill`` makes a constant;
``view`` is any change of shape (with transpositions, permutations, copies), ``index`` any other node without work
(sizes, elements, slices, attributes, comparisons, conversions). An ``all_reduce_backward`` takes time in the backward
pass, the two others in the forward pass."""

PRODUCTS: frozenset[NodeKind] = frozenset({"linear", "addmm", "matmul", "bmm"})
INJECTIVE: frozenset[NodeKind] = frozenset({"add", "subtract", "multiply", "divide", "power"})
IDLE: frozenset[NodeKind] = frozenset({"view", "sum", "index"})
"""Nodes that take no time: operators of no core."""


@dataclass(frozen=True, slots=True)
class Node:
    """One node.

    Attributes:
        kind: what it does.
        inputs: the nodes of the layer that it reads, ascending; those of other layers are left out.
        shape: of its output, as the tool sees it; the shape of ``tensor.size()`` is the size of the tensor.
        elements: over which vector work passes; ``shape`` has as many but for arithmetic on sizes.
        output_elements: of all its outputs together.
        weights: parameters that it holds.
        inner: length of the dimension that a product sums over, as the tool sees it.
    """

    kind: NodeKind
    inputs: tuple[int, ...]
    shape: tuple[int, ...]
    elements: int
    output_elements: int
    weights: int = 0
    inner: int = 0

    @property
    def rows(self) -> int:
        """Of a product, the rows of one matrix that hold all of its batch; a linear module loses the batch."""
        return self.shape[-2] if self.kind == "linear" else prod(self.shape[:-1])

    @property
    def columns(self) -> int:
        """Of a product, the columns of its result."""
        return self.shape[-1]

    @property
    def works(self) -> bool:
        """Whether it takes time on some core."""
        return self.kind not in IDLE


class Trace:
    """Records the nodes of one layer, each as its position."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def node(
        self,
        kind: NodeKind,
        shape: Sequence[int],
        *inputs: int | None,
        weights: int = 0,
        inner: int = 0,
        elements: int | None = None,
        output_elements: int | None = None,
    ) -> int:
        """One node; an input None is of another layer. ``elements`` and ``output_elements`` are those of ``shape``."""
        own = tuple(sorted({each for each in inputs if each is not None}))
        size = prod(shape)
        passes, written = (size if given is None else given for given in (elements, output_elements))
        self.nodes.append(Node(kind, own, tuple(shape), passes, written, weights, inner))
        return len(self.nodes) - 1

    def view(self, shape: Sequence[int], *inputs: int | None) -> int:
        """A change of shape."""
        return self.node("view", shape, *inputs)

    def number(self, *inputs: int | None) -> int:
        """A number that is read off a tensor, its size or its attributes."""
        return self.node("index", (1,), *inputs)

    def attribute(self, *inputs: int | None) -> int:
        """An attribute of a tensor that is not a number: its type or device."""
        return self.node("index", (), *inputs, output_elements=0)

    def arithmetic(self, kind: NodeKind, *inputs: int | None) -> int:
        """Arithmetic on such numbers."""
        return self.node(kind, (1,), *inputs)

    def parameter(self, *shape: int) -> int:
        """A weight that is fetched by a node of its own."""
        return self.node("index", shape, weights=prod(shape))

    def new_shape(self, shape: Sequence[int], target: Sequence[int], source: int | None, leading_dims: int) -> int:
        """``tensor.size()[:leading_dims] + (…)``: three nodes, of which the sum of tuples counts as an addition."""
        size = self.node("index", shape, source)
        leading = self.node("index", shape[:leading_dims], size)
        return self.node("add", target, leading, elements=prod(shape[:leading_dims]))
