"""A recorder of one layer's forward operators that derives the backward graph from them.

It is reverse-mode differentiation on operators instead of numbers: each recorded step says which backward operators
turn the gradient of its output into gradients of its inputs and weights, and :meth:`Tape.differentiate` runs the steps
in reverse. Where a tensor has several consumers, its gradients are summed by an operator of their own. Each step also
names the tensors that must be kept for its backward operators; a tensor is kept once, however many steps need it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from dse.graph.operator_graph import KeptActivation, Operator, OperatorGraph
from hardware.operations import Operation, Vector

Gradient = tuple[int, ...]
"""Backward operators (positions) that together write a gradient; empty for one that arrives from the next layer."""

Backward = Callable[[Gradient], None]
"""What a step does in the backward pass, given the gradient of its output."""


@dataclass(frozen=True, eq=False, slots=True)
class Tensor:
    """``elements`` values written by the forward operators ``producers`` (none for the layer's input).

    One that is not ``differentiable`` (an image, a mask) takes no gradient. One that is ``resident`` (a frozen weight)
    is in memory all the time, so that keeping it for the backward pass costs nothing.
    """

    name: str
    elements: int
    producers: tuple[int, ...]
    differentiable: bool = True
    resident: bool = False


class _Draft:
    """Operators and edges of a graph under construction."""

    def __init__(self) -> None:
        self.operators: list[Operator] = []
        self.edges: list[tuple[int, int]] = []

    def add(self, operator: Operator, after: Iterable[int]) -> int:
        position = len(self.operators)
        self.operators.append(operator)
        self.edges.extend((node, position) for node in sorted(set(after)))
        return position

    def finished(self) -> OperatorGraph:
        return OperatorGraph(tuple(self.operators), tuple(self.edges))


class Tape:
    """Records one layer. Use: :meth:`source`, then the functions of ``dse.graph.differentiable``, then the graphs.

    Args:
        element_bytes: bytes of an activation, a weight and a gradient.
        weight_gradients: whether steps with weights record the gradients of their weights.
    """

    def __init__(self, element_bytes: int, weight_gradients: bool) -> None:
        self.element_bytes = element_bytes
        self.weight_gradients = weight_gradients
        self._forward = _Draft()
        self._backward = _Draft()
        self._steps: list[tuple[Tensor, Backward]] = []
        self._sources: list[Tensor] = []
        self._gradients: dict[Tensor, list[Gradient]] = {}
        self._detached: set[Tensor] = set()
        self._kept_bytes: dict[Tensor, int] = {}
        self._extra_bytes = 0

    def elements_of(self, size_bytes: int) -> int:
        """``size_bytes`` in elements of the tape's width, rounded up."""
        return -(-size_bytes // self.element_bytes)

    def source(self, name: str, elements: int) -> Tensor:
        """The layer's input; its gradient leaves the layer."""
        tensor = Tensor(name, elements, ())
        self._sources.append(tensor)
        return tensor

    def constant(self, name: str, elements: int) -> Tensor:
        """A tensor from outside that takes no gradient."""
        return Tensor(name, elements, (), differentiable=False)

    def resident(self, name: str, elements: int) -> Tensor:
        """A tensor that takes no gradient and is in memory all the time (a frozen weight)."""
        return Tensor(name, elements, (), differentiable=False, resident=True)

    def record(
        self,
        name: str,
        operation: Operation,
        inputs: Sequence[Tensor],
        elements: int,
        backward: Backward,
        weights: int = 0,
        trained: bool = False,
    ) -> Tensor:
        """One forward operator over ``inputs`` that reads ``weights`` parameters and writes ``elements`` values.

        What it writes takes a gradient if any of ``inputs`` does, or if it has weights that are trained: its own, or
        those that are counted with another operator (``trained``).
        """
        after = (producer for tensor in inputs for producer in tensor.producers)
        position = self._forward.add(Operator(name, operation, weights), after)
        differentiable = trained or weights > 0 or any(tensor.differentiable for tensor in inputs)
        return self._written(Tensor(name, elements, (position,), differentiable), backward)

    def view(self, name: str, sources: Sequence[Tensor], elements: int, backward: Backward) -> Tensor:
        """A tensor that needs no operator of its own (a slice, a concatenation, an identity) to be read."""
        producers = tuple(producer for source in sources for producer in source.producers)
        differentiable = any(source.differentiable for source in sources)
        resident = all(source.resident for source in sources)
        return self._written(Tensor(name, elements, producers, differentiable, resident), backward)

    def detached(self, source: Tensor) -> Tensor:
        """``source`` as one that takes no gradient; without other consumers it has none either."""
        self._detached.add(source)
        return Tensor(source.name, source.elements, source.producers, differentiable=False)

    def _written(self, tensor: Tensor, backward: Backward) -> Tensor:
        if tensor.differentiable:
            self._steps.append((tensor, backward))
        return tensor

    def record_backward(self, name: str, operation: Operation, after: Gradient) -> int:
        """One backward operator, after the operators ``after``; its position."""
        return self._backward.add(Operator(name, operation), after)

    def contribute(self, tensor: Tensor, gradient: Gradient) -> None:
        """Add a term to the gradient of ``tensor``, if it takes one."""
        if tensor.differentiable:
            self._gradients.setdefault(tensor, []).append(gradient)

    def propagate(self, tensor: Tensor, name: str, operation: Operation, after: Gradient) -> None:
        """One backward operator whose result is a term of the gradient of ``tensor``; none if it takes no gradient."""
        if tensor.differentiable:
            self.contribute(tensor, (self.record_backward(name, operation, after),))

    def keep(self, *tensors: Tensor) -> None:
        """Keep ``tensors`` for the backward pass, at the tape's element width."""
        for tensor in tensors:
            if not tensor.resident:
                self._kept_bytes[tensor] = tensor.elements * self.element_bytes

    def keep_bytes(self, size_bytes: int) -> None:
        """Keep ``size_bytes`` that are no tensor of the tape (a dropout mask, 32-bit logits)."""
        self._extra_bytes += size_bytes

    @property
    def kept_bytes(self) -> int:
        """What the forward pass must keep for the backward pass."""
        return sum(self._kept_bytes.values()) + self._extra_bytes

    @property
    def largest_kept(self) -> KeptActivation | None:
        """The largest tensor that is kept, the first of equals; None where none is."""
        largest = max(self._kept_bytes, key=lambda tensor: self._kept_bytes[tensor], default=None)
        return None if largest is None else KeptActivation(largest.name, self._kept_bytes[largest])

    @property
    def kept_operators(self) -> frozenset[str]:
        """Names of the forward operators whose output is kept."""
        producers = {producer for tensor in self._kept_bytes for producer in tensor.producers}
        return frozenset(self._forward.operators[producer].name for producer in producers)

    @property
    def forward_flops(self) -> int:
        """Tensor-core FLOPs of the forward operators recorded so far."""
        return sum(operator.flops for operator in self._forward.operators)

    @property
    def weights(self) -> int:
        """Parameters that the forward operators read."""
        return sum(operator.weights for operator in self._forward.operators)

    def forward_graph(self) -> OperatorGraph:
        """The recorded forward operators."""
        return self._forward.finished()

    def differentiate(self, *outputs: Tensor) -> OperatorGraph:
        """The backward graph, given gradients of ``outputs``. To be called once, when all is recorded."""
        for output in outputs:
            self.contribute(output, ())
        for tensor, backward in reversed(self._steps):
            if tensor in self._gradients or tensor not in self._detached:
                backward(self._collect(tensor))
        for tensor in self._sources:
            self._collect(tensor)
        return self._backward.finished()

    def _collect(self, tensor: Tensor) -> Gradient:
        """The gradient of ``tensor``: its only term, or an operator that sums its terms."""
        terms = self._gradients.pop(tensor, [])
        if len(terms) == 1:
            return terms[0]
        if not terms:
            raise ValueError(f"{tensor.name} must have a consumer or be an output, but has neither")
        sum_of_terms = Vector(
            "add",
            elements=(len(terms) - 1) * tensor.elements,
            read_elements=len(terms) * tensor.elements,
            write_elements=tensor.elements,
        )
        after = tuple(node for term in terms for node in term)
        return (self.record_backward(f"{tensor.name}_gradient_sum", sum_of_terms, after),)
