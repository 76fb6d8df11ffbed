"""The one operator-graph type: operators with shapes, FLOPs, bytes and weights, edges with bytes, grouped in layers.

A model is a chain or DAG of *layers* (paper section 3.2: a layer is a continuous subgraph of the operator graph that is
always placed on one accelerator, or on ``t`` of them when it is sliced). Equal layers share one :class:`Layer` object,
so that everything downstream prices and schedules each distinct layer once. A :class:`ModelGraph` describes one
tensor-parallel slice at one microbatch size.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import rustworkx

from hardware.operations import Collective, Operation, Vector


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator: a named operation. ``weights`` counts the parameters it reads (of this slice).

    ``members`` are the operators that a fused one was made of, in order of execution; empty for any other.
    """

    name: str
    operation: Operation
    weights: int = 0
    members: tuple["Operator", ...] = ()

    @property
    def flops(self) -> int:
        """Tensor-core FLOPs (a multiply and an add are two); 0 for vector work and collectives."""
        return 0 if isinstance(self.operation, Vector | Collective) else getattr(self.operation, "flops", 0)


@dataclass(frozen=True)
class OperatorGraph:
    """A DAG of operators. ``edges`` are (from, to) positions in ``operators``.

    Raises:
        ValueError: a duplicate operator name, an edge to no operator, or a cycle.
    """

    operators: tuple[Operator, ...]
    edges: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        names = [operator.name for operator in self.operators]
        if len(set(names)) != len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise ValueError(f"operator names must be unique, but {twice[0]} occurs twice")
        for edge in self.edges:
            if not all(0 <= end < len(names) for end in edge):
                raise ValueError(f"edge {edge} must join two of the {len(names)} operators")
        self.topological_order  # noqa: B018  (raises on a cycle)

    @cached_property
    def topological_order(self) -> tuple[int, ...]:
        """Operator positions, every operator after its predecessors."""
        graph: rustworkx.PyDiGraph = rustworkx.PyDiGraph()
        graph.add_nodes_from(range(len(self.operators)))
        graph.add_edges_from_no_data(list(self.edges))
        try:
            return tuple(rustworkx.topological_sort(graph))
        except rustworkx.DAGHasCycle as error:
            raise ValueError("the operator graph must have no cycle") from error

    @property
    def flops(self) -> int:
        """Tensor-core FLOPs of all operators."""
        return sum(operator.flops for operator in self.operators)

    def __iter__(self) -> Iterator[Operator]:
        return iter(self.operators)

    def __len__(self) -> int:
        return len(self.operators)


@dataclass(frozen=True, slots=True)
class KeptActivation:
    """A tensor that the forward pass of one microbatch keeps for the backward pass.

    Attributes:
        operator: the forward operator that writes it, as it is called before fusion.
        size_bytes: its size.
    """

    operator: str
    size_bytes: int


@dataclass(frozen=True)
class Layer:
    """One layer (or layer slice) of a model, forward and backward.

    ``backward`` holds the data gradients, the weight gradients and what they need; ``update`` the optimizer step, run
    once per batch. ``weight_bytes`` are the bytes of the weights as used in compute (2 per parameter in 16 bits);
    ``activation_bytes`` what the forward pass of one microbatch must keep for its backward pass, ``largest_saved`` the
    largest tensor of that, None where nothing is kept. ``sliced`` is true when the layer is spread over the ``t``
    accelerators of a tensor-parallel group.

    ``parameters`` and ``weight_bytes`` are of trained weights. ``frozen_parameters`` and ``frozen_bytes`` are of those
    that are not trained: they are in memory once, without gradients, optimizer state or stashed copies. A weight that
    an earlier layer has too is in neither number of parameters, but in the bytes of both layers.
    """

    kind: str
    forward: OperatorGraph
    backward: OperatorGraph
    update: OperatorGraph
    parameters: int
    weight_bytes: int
    activation_bytes: int
    sliced: bool
    frozen_parameters: int = 0
    frozen_bytes: int = 0
    largest_saved: KeptActivation | None = None


@dataclass(frozen=True, slots=True)
class Unpriced:
    """Operators of one name that no cost is known for; they are counted as a pass over their operands' memory.

    ``flops_share`` and ``bytes_share`` are their parts of the model's FLOPs (0 where the front end has no formula) and
    of the bytes that all its operators read and write; ``where`` is the first one's ``file:line``.
    """

    name: str
    count: int
    flops_share: float
    bytes_share: float
    where: str


@dataclass(frozen=True)
class ModelGraph:
    """A model at one microbatch size and one tensor-parallel width.

    ``layers`` are in topological order and may repeat the same object; ``names`` are unique, one per layer. ``edges``
    are (from, to, bytes of one microbatch's activations). ``flops_per_sample`` counts the model FLOPs of one training
    sample, forward and backward, of the whole (unsliced) model, without recomputation: what model FLOPs utilisation is
    measured by (PaLM, appendix B). Frozen weights have no gradients in it. ``unpriced`` names what an importer found no
    cost for.
    """

    name: str
    microbatch: int
    tensor_parallel: int
    layers: tuple[Layer, ...]
    names: tuple[str, ...]
    edges: tuple[tuple[int, int, int], ...]
    flops_per_sample: float
    unpriced: tuple[Unpriced, ...] = ()

    @cached_property
    def distinct_layers(self) -> tuple[Layer, ...]:
        """Each layer object once, in order of first appearance."""
        return tuple({id(layer): layer for layer in self.layers}.values())

    @cached_property
    def layer_index(self) -> tuple[int, ...]:
        """For each layer its position in :attr:`distinct_layers`."""
        position = {id(layer): index for index, layer in enumerate(self.distinct_layers)}
        return tuple(position[id(layer)] for layer in self.layers)

    @property
    def largest_saved(self) -> tuple[Layer, KeptActivation] | None:
        """The largest tensor that any layer keeps for its backward pass, with the layer; None where none is kept."""
        candidates = [(layer, layer.largest_saved) for layer in self.distinct_layers if layer.largest_saved is not None]
        return max(candidates, key=lambda each: each[1].size_bytes, default=None)

    @property
    def parameters(self) -> int:
        """Trained parameters of this slice: the sum over layers."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def frozen_parameters(self) -> int:
        """Parameters of this slice that are not trained: the sum over layers."""
        return sum(layer.frozen_parameters for layer in self.layers)
