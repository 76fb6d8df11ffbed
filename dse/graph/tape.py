"""A recorder of one layer's forward operators that derives the backward graph from them.

It is reverse-mode differentiation on operators instead of numbers: each recorded step says which backward operators
turn the gradient of its output into gradients of its inputs and weights, and :meth:`Tape.differentiate` runs the steps
in reverse. Where a tensor has several consumers, its gradients are summed by an operator of their own. Each step also
names the tensors that must be kept for its backward operators; a tensor is kept once, however many steps need it.

Beside the order of operators the tape holds what flows between them (:class:`Flow`), of which
:mod:`dse.graph.dataflow.recorded` makes a graph whose edges carry elements.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dse.graph.flows import Flow, Flows
from dse.graph.operator_graph import KeptActivation, Operator, OperatorGraph
from hardware.operations import Operation, Vector

Backward = Callable[[Flows], None]
"""What a step does in the backward pass, given the gradient of its output: what flows from backward operators."""


@dataclass(frozen=True, eq=False, slots=True)
class Tensor:
    """``elements`` values, which ``flows`` from forward operators, or from outside the layer.

    One that is not ``differentiable`` (an image, a mask) takes no gradient. One that is ``resident`` (a frozen weight)
    is in memory all the time, so that keeping it for the backward pass costs nothing; nothing flows of it.
    """

    name: str
    elements: int
    flows: Flows
    differentiable: bool = True
    resident: bool = False


@dataclass(frozen=True, slots=True)
class Recorded:
    """One operator as the tape holds it.

    Attributes:
        operator: the operator.
        reads: what flows to it from operators of its own pass, or from outside.
        saved: of a backward operator, the forward tensors that it reads.
        resident_elements: the weights that it reads (all of them, whichever operator they are counted with).
        is_saved_left: whether what it reads of ``saved`` is the left operand of its matrix product, before ``reads``.
    """

    operator: Operator
    reads: Flows
    saved: tuple[Tensor, ...]
    resident_elements: int
    is_saved_left: bool = False

    @property
    def predecessors(self) -> list[int]:
        """Positions of the operators of its pass that it waits for, ascending."""
        return sorted({flow.operator for flow in self.reads if isinstance(flow.operator, int)})


def _graph(recorded: Sequence[Recorded]) -> OperatorGraph:
    edges = ((before, position) for position, each in enumerate(recorded) for before in each.predecessors)
    return OperatorGraph(tuple(each.operator for each in recorded), tuple(edges))


class Tape:
    """Records one layer. Use: :meth:`source`, then the functions of ``dse.graph.differentiable``, then the graphs.

    Args:
        element_bytes: bytes of an activation, a weight and a gradient.
        weight_gradients: whether steps with weights record the gradients of their weights.

    Attributes:
        arriving: what comes from outside the layer, by name, and its elements.
        forward, backward: the operators that are recorded.
        accumulated: the gradients of weights, each as it flows from backward operators.
        input_gradients: the gradients that leave the layer, by the source that each is of.
    """

    def __init__(self, element_bytes: int, weight_gradients: bool) -> None:
        self.element_bytes = element_bytes
        self.weight_gradients = weight_gradients
        self.arriving: dict[str, int] = {}
        self.forward: list[Recorded] = []
        self.backward: list[Recorded] = []
        self.accumulated: list[Flows] = []
        self.input_gradients: dict[str, Flows] = {}
        self._steps: list[tuple[Tensor, Backward]] = []
        self._sources: list[Tensor] = []
        self._gradients: dict[Tensor, list[Flows]] = {}
        self._detached: set[Tensor] = set()
        self._saved_bytes: dict[Tensor, int] = {}
        self._extra_bytes = 0

    def elements_of(self, size_bytes: int) -> int:
        """``size_bytes`` in elements of the tape's width, rounded up."""
        return -(-size_bytes // self.element_bytes)

    def source(self, name: str, elements: int) -> Tensor:
        """The layer's input; its gradient leaves the layer."""
        tensor = Tensor(name, elements, self._arriving(name, elements))
        self._sources.append(tensor)
        return tensor

    def constant(self, name: str, elements: int) -> Tensor:
        """A tensor from outside that takes no gradient."""
        return Tensor(name, elements, self._arriving(name, elements), differentiable=False)

    def resident(self, name: str, elements: int) -> Tensor:
        """A tensor that takes no gradient and is in memory all the time (a frozen weight)."""
        return Tensor(name, elements, (), differentiable=False, resident=True)

    def _arriving(self, name: str, elements: int) -> Flows:
        self.arriving[name] = elements
        return (Flow(name, elements),)

    def record(
        self,
        name: str,
        operation: Operation,
        inputs: Sequence[Tensor],
        elements: int,
        backward: Backward,
        weights: int = 0,
        trained: bool = False,
        weights_read: int | None = None,
    ) -> Tensor:
        """One forward operator over ``inputs`` that reads ``weights`` parameters and writes ``elements`` values.

        What it writes takes a gradient if any of ``inputs`` does, or if it has weights that are trained: its own, or
        those that are counted with another operator (``trained``). ``weights_read`` are the weights that it reads
        where they are not those that are counted with it.
        """
        operator = Operator(name, operation, weights)
        position = len(self.forward)
        read = weights if weights_read is None else weights_read
        self.forward.append(Recorded(operator, _flows(inputs), (), read + _resident_elements(inputs)))
        differentiable = trained or weights > 0 or any(tensor.differentiable for tensor in inputs)
        return self._written(Tensor(name, elements, (Flow(position, elements),), differentiable), backward)

    def written_beside(self, result: Tensor, name: str, elements: int) -> Tensor:
        """A second tensor of the operator that writes ``result``, which only the backward pass reads (a mask)."""
        ((position, _, _),) = result.flows
        return Tensor(f"{result.name}_{name}", elements, (Flow(position, elements, name),), differentiable=False)

    def view(self, name: str, sources: Sequence[Tensor], flows: Flows, elements: int, backward: Backward) -> Tensor:
        """A tensor that needs no operator of its own (a slice, a concatenation, an identity) to be read.

        ``flows`` is what of ``sources`` is read where it is read.
        """
        differentiable = any(source.differentiable for source in sources)
        resident = all(source.resident for source in sources)
        return self._written(Tensor(name, elements, flows, differentiable, resident), backward)

    def detached(self, source: Tensor) -> Tensor:
        """``source`` as one that takes no gradient; without other consumers it has none either."""
        self._detached.add(source)
        return Tensor(source.name, source.elements, source.flows, differentiable=False)

    def _written(self, tensor: Tensor, backward: Backward) -> Tensor:
        if tensor.differentiable:
            self._steps.append((tensor, backward))
        return tensor

    def record_backward(
        self,
        name: str,
        operation: Operation,
        after: Flows,
        writes: int,
        reads: Sequence[Tensor] = (),
        weights_read: int = 0,
        is_saved_left: bool = False,
    ) -> Flows:
        """One backward operator that reads the gradient ``after``; what flows from it, ``writes`` elements.

        ``reads`` are the forward tensors that it reads, ``weights_read`` the elements of weights. The left operand of a
        matrix product is the gradient or, with ``is_saved_left``, the forward tensor: a weight's gradient is xᵀ · dy.
        """
        position = len(self.backward)
        resident = weights_read + _resident_elements(reads)
        self.backward.append(Recorded(Operator(name, operation), after, tuple(reads), resident, is_saved_left))
        return (Flow(position, writes),) if writes else ()

    def contribute(self, tensor: Tensor, gradient: Flows) -> None:
        """Add a term to the gradient of ``tensor``, if it takes one."""
        if tensor.differentiable:
            self._gradients.setdefault(tensor, []).append(gradient)

    def propagate(
        self,
        tensor: Tensor,
        name: str,
        operation: Operation,
        after: Flows,
        reads: Sequence[Tensor] = (),
        weights_read: int = 0,
        is_saved_left: bool = False,
    ) -> None:
        """One backward operator whose result is a term of the gradient of ``tensor``; none if it takes no gradient."""
        if tensor.differentiable:
            gradient = self.record_backward(name, operation, after, tensor.elements, reads, weights_read, is_saved_left)
            self.contribute(tensor, gradient)

    def accumulate(self, gradient: Flows) -> None:
        """``gradient`` is that of weights: it is added to the sum of the batch."""
        self.accumulated.append(gradient)

    def keep(self, *tensors: Tensor) -> None:
        """Keep ``tensors`` for the backward pass, at the tape's element width."""
        for tensor in tensors:
            if not tensor.resident:
                self._saved_bytes[tensor] = tensor.elements * self.element_bytes

    def keep_bytes(self, size_bytes: int) -> None:
        """Keep ``size_bytes`` that are not a tensor of the tape (a dropout mask, 32-bit logits)."""
        self._extra_bytes += size_bytes

    @property
    def saved_bytes(self) -> int:
        """What the forward pass must keep for the backward pass."""
        return sum(self._saved_bytes.values()) + self._extra_bytes

    @property
    def largest_saved(self) -> KeptActivation | None:
        """The largest tensor that is kept, the first of equals; None where none is."""
        largest = max(self._saved_bytes, key=lambda tensor: self._saved_bytes[tensor], default=None)
        return None if largest is None else KeptActivation(largest.name, self._saved_bytes[largest])

    @property
    def saved_operators(self) -> frozenset[str]:
        """Names of the forward operators whose output is kept."""
        producers = {flow.operator for tensor in self._saved_bytes for flow in tensor.flows}
        return frozenset(self.forward[each].operator.name for each in producers if isinstance(each, int))

    @property
    def forward_flops(self) -> int:
        """Tensor-core FLOPs of the forward operators recorded so far."""
        return sum(each.operator.flops for each in self.forward)

    @property
    def weights(self) -> int:
        """Parameters that the forward operators read."""
        return sum(each.operator.weights for each in self.forward)

    def forward_graph(self) -> OperatorGraph:
        """The recorded forward operators."""
        return _graph(self.forward)

    def differentiate(self, *outputs: Tensor) -> OperatorGraph:
        """The backward graph, given gradients of ``outputs``. To be called once, when all is recorded."""
        for output in outputs:
            self.contribute(output, self._arriving(f"{output.name}_gradient", output.elements))
        for tensor, backward in reversed(self._steps):
            if tensor in self._gradients or tensor not in self._detached:
                backward(self._collect(tensor))
        for tensor in self._sources:
            self.input_gradients[tensor.name] = self._collect(tensor)
        return _graph(self.backward)

    def _collect(self, tensor: Tensor) -> Flows:
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
        after = tuple(flow for term in terms for flow in term)
        return self.record_backward(f"{tensor.name}_gradient_sum", sum_of_terms, after, tensor.elements)


def _flows(tensors: Sequence[Tensor]) -> Flows:
    return tuple(flow for tensor in tensors for flow in tensor.flows)


def _resident_elements(tensors: Sequence[Tensor]) -> int:
    return sum(tensor.elements for tensor in tensors if tensor.resident)
