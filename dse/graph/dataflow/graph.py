"""The dataflow graph: operators with shapes, edges that carry elements, forward and backward in one graph.

What an edge says. An edge carries ``elements`` of one tensor that its source writes, for each sample. ``tensor`` tells
the tensors of one source apart: empty for its result as a whole, ``mask`` for the mask of a dropout, ``[0:64]`` for a
part, ``image`` for what the products of a convolution are summed into. Edges of one source and one tensor carry the
same data, so that they can be one multicast. Shapes that only change how elements are counted (reshape, transpose) are
not operators.

What is kept. A tensor that the forward pass writes and the backward pass reads has an edge to every backward operator
that reads it; what an edge of this kind carries waits between the passes.

Weights are not edges. ``weight_elements`` of an operator stay with it from sample to sample: the weights that it reads,
frozen ones included, and for the backward pass the weights of a data gradient (a second copy, or the same, is for the
machine to say). A weight that several operators read is counted with each.

Gradients of weights do not leave with each sample. Each goes to an operator ``add`` that adds it to the sum of the
batch, which is its ``weight_elements`` and stays there (gradient accumulation); ``embedding_backward`` adds gradients
to its table in place. The optimizer's step, once per batch, is not part of the graph.

Inputs and outputs are operators: the layer's input, images, and in a training step the gradients of the outputs come
in by ``input``; what later layers read, and the gradients of inputs, leave by ``output``. Attention masks, tables of
sines and cosines, and token indices are made or held where they are read, and have no edge.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from dse.graph.dataflow.operators import DataflowOperator
from dse.graph.dataflow.rules import graph_rule_faults
from dse.graph.named_edges import topological_order

GraphPass = Literal["forward", "training"]
"""What a graph holds: the forward pass alone, or the backward pass too."""


class DataflowEdge(NamedTuple):
    """``elements`` of one ``tensor`` that ``source`` writes and ``target`` reads, positions in the operators."""

    source: int
    target: int
    elements: int
    tensor: str = ""


@dataclass(frozen=True)
class DataflowGraph:
    """A DAG of operators for one sample.

    Raises:
        ValueError: an edge to no operator, or a rule of :mod:`dse.graph.dataflow.rules` that is broken.
    """

    name: str
    operators: tuple[DataflowOperator, ...]
    edges: tuple[DataflowEdge, ...]

    def __post_init__(self) -> None:
        count = len(self.operators)
        for edge in self.edges:
            if not (0 <= edge.source < count and 0 <= edge.target < count):
                raise ValueError(f"edge {tuple(edge)} must join two of the {count} operators")
        for key, value, rule, _ in graph_rule_faults(self.operators, self.named_edges):
            raise ValueError(f"{self.name}: {key}: {value}: {rule}")

    @property
    def named_edges(self) -> list[tuple[str, str, int, str]]:
        """The edges with the names of their operators."""
        names = [operator.name for operator in self.operators]
        return [(names[edge.source], names[edge.target], edge.elements, edge.tensor) for edge in self.edges]

    @cached_property
    def topological_order(self) -> tuple[int, ...]:
        """Operator positions, every operator after those that it reads; of those that may come next the first."""
        pairs = [(edge.source, edge.target) for edge in self.edges]
        return tuple(topological_order(len(self.operators), pairs))

    @cached_property
    def incoming(self) -> tuple[tuple[DataflowEdge, ...], ...]:
        """For each operator the edges to it, in the order of :attr:`edges`."""
        return self._edges_by([edge.target for edge in self.edges])

    @cached_property
    def outgoing(self) -> tuple[tuple[DataflowEdge, ...], ...]:
        """For each operator the edges from it, in the order of :attr:`edges`."""
        return self._edges_by([edge.source for edge in self.edges])

    def _edges_by(self, ends: Sequence[int]) -> tuple[tuple[DataflowEdge, ...], ...]:
        edges: list[list[DataflowEdge]] = [[] for _ in self.operators]
        for end, edge in zip(ends, self.edges, strict=True):
            edges[end].append(edge)
        return tuple(map(tuple, edges))

    @cached_property
    def saved(self) -> tuple[DataflowEdge, ...]:
        """The edges that carry kept activations: from the forward to the backward pass."""
        return tuple(
            edge
            for edge in self.edges
            if self.operators[edge.target].is_backward and not self.operators[edge.source].is_backward
        )

    @property
    def saved_elements(self) -> int:
        """Elements of the kept tensors, each counted once however many operators read it."""
        return sum({(edge.source, edge.tensor): edge.elements for edge in self.saved}.values())

    @property
    def is_training(self) -> bool:
        """Whether the graph has a backward pass."""
        return any(operator.is_backward for operator in self.operators)

    @property
    def flops(self) -> int:
        """FLOPs of all GEMMs."""
        return sum(operator.flops for operator in self.operators)

    @property
    def weights(self) -> int:
        """Elements of the weights that the forward pass reads, each as often as there are operators that read it."""
        return sum(operator.weight_elements for operator in self.operators if not operator.is_backward)
