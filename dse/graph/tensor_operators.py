"""Forward operators with their gradients that models beyond transformers need: broadcasts, reductions, convolutions.

The rules are those of :mod:`dse.graph.differentiable`: every operand counts once, a GEMM keeps its inputs, and so on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from dse.graph.tape import Gradient, Tape, Tensor
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

    def backward(gradient: Gradient) -> None:
        for position, operand in enumerate(operands):
            if not operand.differentiable:
                continue
            suffix = f"_{position}" if len(differentiable) > 1 else ""
            _operand_gradient(tape, f"{name}{suffix}", rule, operand, elements, gradient)

    reads = sum(operand.elements for operand in operands)
    return tape.record(name, Vector(rule.forward, elements, reads, elements), operands, elements, backward)


def _operand_gradient(
    tape: Tape, name: str, rule: Elementwise, operand: Tensor, elements: int, gradient: Gradient
) -> None:
    if rule.backward is not None:
        operation = Vector(rule.backward, elements, (2 if rule.keeps_operands else 1) * elements, operand.elements)
        tape.propagate(operand, f"{name}_backward", operation, gradient)
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
        lambda gradient: tape.propagate(source, f"{name}_backward", operation, gradient),
    )


def weight(tape: Tape, name: str, elements: int, parameters: int) -> Tensor:
    """A weight that is used as a tensor (a learned token): read in a pass of its own.

    ``parameters`` of it are counted here (none where another operator reads it too).
    """
    operation = Vector("copy", elements, elements, elements)
    return tape.record(name, operation, [], elements, lambda _: None, parameters, trained=True)


def with_weight(tape: Tape, name: str, kind: Literal["add", "multiply"], source: Tensor, elements: int) -> Tensor:
    """``source`` plus, or times, a weight of ``elements`` that is broadcast to it (a bias, a scale of each channel)."""
    n = source.elements
    operation = Vector(kind, n, n + elements, n)
    if kind == "multiply":
        tape.keep(source)

    def backward(gradient: Gradient) -> None:
        if kind == "add":
            tape.contribute(source, gradient)
        else:
            tape.propagate(source, f"{name}_data_gradient", operation, gradient)
        if tape.weight_gradients:
            reads = n if kind == "add" else 2 * n
            sum_over_rows = Vector("bias_backward", n, reads, elements, row=max(1, n // elements))
            tape.record_backward(f"{name}_weight_gradient", sum_over_rows, gradient)

    return tape.record(name, operation, [source], n, backward, elements)


def reduction(tape: Tape, name: str, source: Tensor, elements: int) -> Tensor:
    """A sum, mean or maximum that leaves ``elements`` values; backward they are spread again."""
    n = source.elements

    def backward(gradient: Gradient) -> None:
        tape.propagate(source, f"{name}_backward", Vector("copy", n, elements, n), gradient)

    return tape.record(name, Vector("reduction", n, n, elements), [source], elements, backward)


def broadcast(tape: Tape, name: str, source: Tensor, elements: int) -> Tensor:
    """``source`` as if it had ``elements`` values, a view; backward they are summed. It is kept at its own size."""

    def backward(gradient: Gradient) -> None:
        tape.propagate(source, f"{name}_backward", Vector("reduction", elements, elements, source.elements), gradient)

    return tape.view(name, [source], source.elements, backward)


def move(tape: Tape, name: str, sources: Sequence[Tensor], elements: int, kind: VectorKind = "copy") -> Tensor:
    """A pass over ``sources`` that writes ``elements`` values (padding, gathering, or what is not known better).

    Backward it is a pass over the gradient for each source that takes one.
    """

    def backward(gradient: Gradient) -> None:
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

    def backward(gradient: Gradient) -> None:
        work = elements if keeps_indices else elements * taps
        tape.propagate(
            source, f"{name}_backward", Vector("pooling_backward", max(work, n), elements + indices, n), gradient
        )

    return tape.record(name, Vector("pooling", elements * taps, n, elements + indices), [source], elements, backward)


@dataclass(frozen=True, slots=True)
class ConvolutionShape:
    """The three products of a convolution: forward, gradient of the input, gradient of the filters."""

    forward: Convolution | Gemm
    data_gradient: Convolution | Gemm
    weight_gradient: Convolution | Gemm
    outputs: int
    bias: int


def convolution(
    tape: Tape, name: str, source: Tensor, shape: ConvolutionShape, parameters: int, trained: bool
) -> Tensor:
    """A convolution with its bias; backward one product for the input, one for the filters, a sum for the bias.

    ``parameters`` of it are counted here; one that is not ``trained`` has no gradients of filters and bias.
    """
    if trained:
        tape.keep(source)
    n = shape.outputs

    def backward(gradient: Gradient) -> None:
        tape.propagate(source, f"{name}_data_gradient", shape.data_gradient, gradient)
        if tape.weight_gradients and trained:
            tape.record_backward(f"{name}_weight_gradient", shape.weight_gradient, gradient)
            if shape.bias:
                sum_over_pixels = Vector("bias_backward", n, n, shape.bias, row=n // shape.bias)
                tape.record_backward(f"{name}_bias_gradient", sum_over_pixels, gradient)

    return tape.record(name, shape.forward, [source], n, backward, parameters, trained)


def weighted_products(tape: Tape, name: str, source: Tensor, shape: Gemm, weights: int) -> Tensor:
    """``shape.batch`` products with a weight matrix each (experts); backward one batched GEMM for each operand."""
    tape.keep(source)
    m, n, k, batch = shape.m, shape.n, shape.k, shape.batch

    def backward(gradient: Gradient) -> None:
        tape.propagate(source, f"{name}_data_gradient", Gemm(m, k, n, batch), gradient)
        if tape.weight_gradients:
            tape.record_backward(f"{name}_weight_gradient", Gemm(k, n, m, batch), gradient)

    return tape.record(name, shape, [source], shape.output_elements, backward, weights, trained=True)
