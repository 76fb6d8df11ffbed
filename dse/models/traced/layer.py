"""What the published tool makes of a traced layer: the figures of Table 4, and operators with their times.

All of a product's batch are rows of one matrix, so that heads share their right operands. The backward pass runs
through the nodes in reverse and has one product, the gradient of the left operand, for each of the forward pass. What a
product took in costs nothing; elementwise work costs what it took in, without itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from math import prod

from dse.graph.operator_graph import Layer, Operator, OperatorGraph
from dse.models.recipe import TrainingRecipe
from dse.models.traced.fusion import FusedNode, fused
from dse.models.traced.trace import PRODUCTS, Node, NodeKind, Trace
from hardware.operations import Collective, Fused, Gemm, Operation, Vector, VectorKind

_ADDED_NODES = 2
"""The tool counts a source and a sink that it adds to a layer."""

_FORWARD: dict[NodeKind, VectorKind] = {
    "add": "add",
    "subtract": "add",
    "multiply": "multiply",
    "divide": "divide",
    "power": "power",
    "tanh": "tanh",
    "relu": "relu",
    "layer_norm": "layer_norm",
    "dropout": "dropout",
    "softmax": "softmax",
    "fill": "copy",
}

_BACKWARD: dict[NodeKind, VectorKind] = {
    "divide": "divide_backward",
    "power": "power_backward",
    "tanh": "tanh_backward",
    "relu": "relu_backward",
    "layer_norm": "layer_norm_backward",
    "dropout": "dropout_backward",
    "softmax": "softmax_backward",
}
"""Where the backward pass is not the forward one's kind."""


@dataclass(frozen=True)
class Figures:
    """One layer as Table 4 counts it, at one microbatch and one tensor-parallel width.

    Attributes:
        operators: nodes that fusion leaves, with the source and the sink that the tool adds.
        tensor_operations: multiply-accumulates of all products, forward and backward.
        vector_operations: elements of the nodes that vector cores take part in, forward and backward.
        parameters: weights.
        activation_elements: outputs of all nodes before fusion, shapes and views included.
    """

    operators: int
    tensor_operations: int
    vector_operations: int
    parameters: int
    activation_elements: int


def figures(trace: Trace) -> Figures:
    """The figures of a layer."""
    nodes = fused(trace.nodes)
    products = [each.node for each in nodes.values() if each.node.kind in PRODUCTS]
    on_vector_cores = [
        each.node for each in nodes.values() if each.node.works and (each.node.kind not in PRODUCTS or each.taken_in)
    ]
    return Figures(
        operators=len(nodes) + _ADDED_NODES,
        tensor_operations=2 * sum(node.rows * node.columns * node.inner for node in products),
        vector_operations=2 * sum(prod(node.shape) for node in on_vector_cores),
        parameters=sum(node.weights for node in trace.nodes),
        activation_elements=sum(node.output_elements for node in trace.nodes),
    )


def layer(kind: str, trace: Trace, width: int, recipe: TrainingRecipe) -> Layer:
    """The layer with its operators: nodes that take no time are left out, and what waits for them waits before them."""
    nodes = fused(trace.nodes)
    parameters = sum(node.weights for node in trace.nodes)
    step = Operator("optimizer_step", recipe.optimizer_step(parameters))
    return Layer(
        kind=kind,
        forward=_graph(nodes, width, backward=False),
        backward=_graph(nodes, width, backward=True),
        update=OperatorGraph((step,), ()),
        parameters=parameters,
        weight_bytes=parameters * recipe.element_bytes,
        activation_bytes=figures(trace).activation_elements * recipe.element_bytes,
        sliced=width > 1,
    )


def _graph(nodes: dict[int, FusedNode], width: int, backward: bool) -> OperatorGraph:
    """One pass over the nodes."""
    operators: list[Operator] = []
    edges: list[tuple[int, int]] = []
    last: dict[int, frozenset[int]] = {}
    """For each node, the operators that whatever follows it waits for."""
    for position in sorted(nodes, reverse=backward):
        each = nodes[position]
        earlier = each.behind if backward else each.before
        waits_for = frozenset(chain.from_iterable(last[other] for other in earlier))
        for number, operation in enumerate(_operations(each, width, backward)):
            edges += [(before, len(operators)) for before in sorted(waits_for)]
            waits_for = frozenset((len(operators),))
            operators.append(Operator(f"{each.node.kind}{position}" + (f"_{number}" if number else ""), operation))
        last[position] = waits_for
    return OperatorGraph(tuple(operators), tuple(edges))


def _operations(each: FusedNode, width: int, backward: bool) -> Iterator[Operation]:
    """What a node does in one pass, in sequence."""
    node = each.node
    if node.kind in PRODUCTS:
        yield _product(each, backward)
    elif node.kind in _FORWARD:
        for part in _costing(each):
            yield _vector(part.kind, part.elements if part is node else prod(part.shape), backward)
    elif node.works and width > 1 and backward == (node.kind == "all_reduce_backward"):
        yield Collective("all_reduce", prod(node.shape), width)


def _costing(each: FusedNode) -> list[Node]:
    """The elementwise nodes that take time: those that were taken in, or the node itself where there is none."""
    return [part for part in each.taken_in if part.works] or [each.node]


def _product(each: FusedNode, backward: bool) -> Operation:
    """A product, on a pair of cores where it took in vector work."""
    node = each.node
    columns, inner = (node.inner, node.columns) if backward else (node.columns, node.inner)
    gemm = Gemm(node.rows, columns, inner)
    if not each.taken_in:
        return gemm
    kinds = [part.kind for part in each.taken_in if part.kind in _FORWARD]
    elements = gemm.output_elements
    return Fused(gemm, tuple(_vector(kind, elements, backward) for kind in kinds))


def _vector(kind: NodeKind, elements: int, backward: bool) -> Vector:
    """A pass over ``elements``; the tool prices no memory traffic of it."""
    name = _BACKWARD.get(kind, _FORWARD[kind]) if backward else _FORWARD[kind]
    return Vector(name, elements, 2 * elements, elements)
