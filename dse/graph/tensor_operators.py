"""Forward operators with their gradients that models beyond transformers need: broadcasts, reductions, convolutions.

The rules are those of :mod:`dse.graph.differentiable`: every operand counts once, a GEMM keeps its inputs, and so on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from dse.graph.flows import Flows
from dse.graph.tape import Tape, Tensor
from hardware.operations import Convolution, Gemm, Vector, VectorKind

POOL_INDEX_BYTES = 1
"""Bytes of the position within its window that max pooling keeps of each output."""


@dataclass(frozen=True, slots=True)
class Elementwise:
    """How a function of one or more operands is computed and differentiated.

    ``backward`` is the kind of the operator that gives one operand its gradient; None where the gradient passes through
    unchanged. ``keeps_operands``: whether it reads the operands (of two, each gradient reads the other one).
    """

    forward: VectorKind
    backward: VectorKind | None
    keeps_operands: bool


PASS_THROUGH = Elementwise("add", None, keeps_operands=False)
PRODUCT = Elementwise("multiply", "multiply", keeps_operands=True)
QUOTIENT = Elementwise("divide", "divide_backward", keeps_operands=True)
CHOICE = Elementwise("select", "select", keeps_operands=False)


def elementwise(tape: Tape, name: str, rule: Elementwise, operands: Sequence[Tensor], elements: int) -> Tensor:
    """A function of ``operands``, broadcast to ``elements`` values; the gradient of a broadcast operand is summed."""
    differentiable = [operand for operand in operands if operand.differentiable]
    if rule.keeps_operands and differentiable:
        for operand in operands:
            if (
                len(operands) == 1
                or any(other is not operand for other in differentiable)
                or operands.count(operand) > 1
            ):
                tape.keep(operand)

    def backward(gradient: Flows) -> None:
        for position, operand in enumerate(operands):
            if not operand.differentiable:
                continue
            suffix = f"_{position}" if len(differentiable) > 1 else ""
            others = [other for number, other in enumerate(operands) if number != position]
            saved = (others or [operand]) if rule.keeps_operands else []
            _operand_gradient(tape, f"{name}{suffix}", rule, operand, elements, gradient, saved)

    reads = sum(operand.elements for operand in operands)
    return tape.record(name, Vector(rule.forward, elements, reads, elements), operands, elements, backward)


def _operand_gradient(
    tape: Tape,
    name: str,
    rule: Elementwise,
    operand: Tensor,
    elements: int,
    gradient: Flows,
    saved: Sequence[Tensor],
) -> None:
    if rule.backward is not None:
        operation = Vector(rule.backward, elements, (2 if rule.keeps_operands else 1) * elements, operand.elements)
        tape.propagate(operand, f"{name}_backward", operation, gradient, saved)
    elif operand.elements == elements:
        tape.contribute(operand, gradient)
    else:
        tape.propagate(operand, f"{name}_backward", Vector("reduction", elements, elements, operand.elements), gradient)


def scale_by(tape: Tape, name: str, source: Tensor, factor: Tensor) -> Tensor:
    """``source`` times a tensor that takes no gradient, itself not larger (a mask, a table)."""
    n = source.elements
    operation = Vector("multiply", n, n + factor.elements, n)
    return tape.record(
        name,
        operation,
        [source, factor],
        n,
        lambda gradient: tape.propagate(source, f"{name}_backward", operation, gradient, [factor]),
    )


def weight(tape: Tape, name: str, elements: int, parameters: int) -> Tensor:
    """A weight that is used as a tensor (a learned token): read in a pass of its own.

    ``parameters`` of it are counted here (none where another operator reads it too).
    """
    operation = Vector("copy", elements, elements, elements)
    return tape.record(name, operation, [], elements, tape.accumulate, parameters, True, elements)


def with_weight(tape: Tape, name: str, kind: Literal["add", "multiply"], source: Tensor, elements: int) -> Tensor:
    """``source`` plus, or times, a weight of ``elements`` that is broadcast to it (a bias, a scale of each channel)."""
    n = source.elements
    operation = Vector(kind, n, n + elements, n)
    if kind == "multiply":
        tape.keep(source)

    def backward(gradient: Flows) -> None:
        if kind == "add":
            tape.contribute(source, gradient)
        else:
            tape.propagate(source, f"{name}_data_gradient", operation, gradient, weights_read=elements)
        if tape.weight_gradients:
            saved = [] if kind == "add" else [source]
            sum_over_rows = Vector("bias_backward", n, n * (1 + len(saved)), elements, row=max(1, n // elements))
            tape.accumulate(tape.record_backward(f"{name}_weight_gradient", sum_over_rows, gradient, elements, saved))

    return tape.record(name, operation, [source], n, backward, elements)


def reduction(tape: Tape, name: str, source: Tensor, elements: int) -> Tensor:
    """A sum, mean or maximum that leaves ``elements`` values; backward they are spread again."""
    n = source.elements

    def backward(gradient: Flows) -> None:
        tape.propagate(source, f"{name}_backward", Vector("copy", n, elements, n), gradient)

    return tape.record(name, Vector("reduction", n, n, elements), [source], elements, backward)


def broadcast(tape: Tape, name: str, source: Tensor, elements: int) -> Tensor:
    """``source`` as if it had ``elements`` values, a view; backward they are summed. It is kept at its own size."""

    def backward(gradient: Flows) -> None:
        tape.propagate(source, f"{name}_backward", Vector("reduction", elements, elements, source.elements), gradient)

    return tape.view(name, [source], source.flows, source.elements, backward)


def move(tape: Tape, name: str, sources: Sequence[Tensor], elements: int, kind: VectorKind = "copy") -> Tensor:
    """A pass over ``sources`` that writes ``elements`` values (padding, gathering, or what is not known better).

    Backward it is a pass over the gradient for each source that takes one.
    """

    def backward(gradient: Flows) -> None:
        for position, source in enumerate(sources):
            suffix = f"_{position}" if len(sources) > 1 else ""
            operation = Vector("copy", max(elements, source.elements), elements, source.elements)
            tape.propagate(source, f"{name}{suffix}_backward", operation, gradient)

    reads = sum(source.elements for source in sources) if kind == "copy" else elements
    return tape.record(name, Vector(kind, elements, max(1, reads), elements), sources, elements, backward)


def pooling(tape: Tape, name: str, source: Tensor, elements: int, taps: int, keeps_indices: bool) -> Tensor:
    """``elements`` windows of ``taps`` values; max pooling keeps which one was the largest."""
    n = source.elements
    if keeps_indices and source.differentiable:
        tape.keep_bytes(elements * POOL_INDEX_BYTES)
    indices = tape.elements_of(elements * POOL_INDEX_BYTES) if keeps_indices else 0

    def backward(gradient: Flows) -> None:
        steps = max(elements if keeps_indices else elements * taps, n)
        operation = Vector("pooling_backward", steps, elements + indices, n)
        tape.propagate(source, f"{name}_backward", operation, gradient, saved)

    work = Vector("pooling", elements * taps, n, elements + indices)
    result = tape.record(name, work, [source], elements, backward)
    saved = [tape.written_beside(result, "indices", indices)] if keeps_indices else []
    return result


@dataclass(frozen=True, slots=True)
class ConvolutionShape:
    """The three products of a convolution: forward, gradient of the input, gradient of the filters.

    Attributes:
        outputs, bias: elements of the result, and of the bias.
        is_source_left: whether the input is the left operand of the gradient of the filters, and not dy.
    """

    forward: Convolution | Gemm
    data_gradient: Convolution | Gemm
    weight_gradient: Convolution | Gemm
    outputs: int
    bias: int
    is_source_left: bool = False

    @property
    def filters(self) -> int:
        """Elements of the filters."""
        product = self.forward.gemm if isinstance(self.forward, Convolution) else self.forward
        return product.batch * product.k * product.n


def convolution(
    tape: Tape, name: str, source: Tensor, shape: ConvolutionShape, parameters: int, trained: bool
) -> Tensor:
    """A convolution with its bias; backward one product for the input, one for the filters, a sum for the bias.

    ``parameters`` of it are counted here; one that is not ``trained`` has no gradients of filters and bias.
    """
    if trained:
        tape.keep(source)
    n = shape.outputs

    def backward(gradient: Flows) -> None:
        tape.propagate(source, f"{name}_data_gradient", shape.data_gradient, gradient, weights_read=shape.filters)
        if tape.weight_gradients and trained:
            filters = tape.record_backward(
                f"{name}_weight_gradient",
                shape.weight_gradient,
                gradient,
                shape.filters,
                [source],
                is_saved_left=shape.is_source_left,
            )
            tape.accumulate(filters)
            if shape.bias:
                sum_over_pixels = Vector("bias_backward", n, n, shape.bias, row=n // shape.bias)
                tape.accumulate(tape.record_backward(f"{name}_bias_gradient", sum_over_pixels, gradient, shape.bias))

    read = shape.filters + shape.bias
    return tape.record(name, shape.forward, [source], n, backward, parameters, trained, read)


def weighted_products(tape: Tape, name: str, source: Tensor, shape: Gemm, weights: int) -> Tensor:
    """``shape.batch`` products with a weight matrix each (experts); backward one batched GEMM for each operand."""
    tape.keep(source)
    m, n, k, batch = shape.m, shape.n, shape.k, shape.batch
    matrices = batch * k * n

    def backward(gradient: Flows) -> None:
        tape.propagate(source, f"{name}_data_gradient", Gemm(m, k, n, batch), gradient, weights_read=matrices)
        if tape.weight_gradients:
            product = Gemm(k, n, m, batch)
            of_weights = tape.record_backward(
                f"{name}_weight_gradient", product, gradient, matrices, [source], is_saved_left=True
            )
            tape.accumulate(of_weights)

    return tape.record(name, shape, [source], shape.output_elements, backward, weights, True, matrices)
