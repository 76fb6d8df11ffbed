"""Forward operators with their gradients: each function records one step on a :class:`~dse.graph.tape.Tape`.

What is kept for the backward pass follows Korthikanti et al. 2022 ("Reducing activation recomputation in large
transformer models", section 4.1): a GEMM keeps its inputs, softmax and tanh their output, relu its output (its sign is
all that is needed), other nonlinearities and normalisations their input, dropout a mask of one byte an element. The
per-row statistics of normalisations are left out, as there. ``read_elements`` and ``write_elements`` count every
operand of an operator once; token indices are left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Literal

from dse.graph.flows import Flows, part_of, share_of
from dse.graph.tape import Tape, Tensor
from hardware.operations import Collective, Gemm, Vector, VectorKind

MASK_BYTES = 1
"""Bytes of one element of a dropout mask."""

LOGIT_BYTES = 4
"""Bytes of a logit as the loss keeps it: in 32 bits (Korthikanti et al. 2022, section 4.3)."""

Nonlinearity = Literal["relu", "gelu", "silu", "tanh", "sigmoid", "sqrt", "power", "softmax"]
Normalisation = Literal["layer_norm", "rms_norm", "batch_norm"]


@dataclass(frozen=True, slots=True)
class LinearShape:
    """y[tokens, outputs] = x[tokens, inputs] · W[inputs, outputs] + b.

    ``rows`` is what the GEMM computes of ``tokens`` (fewer only under assumptions that lose the batch). The bias is
    added as the GEMM writes its result and is not a separate operator. ``parameters`` of W and b are counted with this
    layer, all of them when None (fewer where another operator reads the same weights).
    """

    tokens: int
    rows: int
    inputs: int
    outputs: int
    bias: bool
    parameters: int | None = None

    @property
    def weights(self) -> int:
        """Parameters that are counted with this layer."""
        if self.parameters is not None:
            return self.parameters
        return self.inputs * self.outputs + (self.outputs if self.bias else 0)


def linear(tape: Tape, name: str, source: Tensor, shape: LinearShape) -> Tensor:
    """A linear layer: one GEMM; backward one GEMM for the input, one for W, and a sum over rows for b."""
    tape.keep(source)
    rows, inputs, outputs = shape.rows, shape.inputs, shape.outputs
    matrix = inputs * outputs

    def backward(gradient: Flows) -> None:
        data = Gemm(rows, inputs, outputs)
        tape.propagate(source, f"{name}_data_gradient", data, gradient, weights_read=matrix)
        if tape.weight_gradients:
            product = Gemm(inputs, outputs, rows)
            of_weight = tape.record_backward(
                f"{name}_weight_gradient", product, gradient, matrix, [source], is_saved_left=True
            )
            tape.accumulate(of_weight)
            if shape.bias:
                sum_over_rows = Vector("bias_backward", rows * outputs, rows * outputs, outputs, row=rows)
                tape.accumulate(tape.record_backward(f"{name}_bias_gradient", sum_over_rows, gradient, outputs))

    operation = Gemm(m=rows, n=outputs, k=inputs)
    read = matrix + (outputs if shape.bias else 0)
    return tape.record(name, operation, [source], shape.tokens * outputs, backward, shape.weights, True, read)


def product(tape: Tape, name: str, left: Tensor, right: Tensor, shape: Gemm) -> Tensor:
    """``shape.batch`` products of two activations; backward one batched GEMM for each of them.

    On a tape without weight gradients the backward pass has the left one's only, which stands for both.
    """
    if not (left.differentiable and right.differentiable):
        return _product_with_constant(tape, name, left, right, shape)
    tape.keep(left, right)
    m, n, k, batch = shape.m, shape.n, shape.k, shape.batch

    def backward(gradient: Flows) -> None:
        product = Gemm(m, k, n, batch)
        of_left = tape.record_backward(f"{name}_left_gradient", product, gradient, product.output_elements, [right])
        of_right = of_left
        if tape.weight_gradients:
            product = Gemm(k, n, m, batch)
            of_right = tape.record_backward(
                f"{name}_right_gradient", product, gradient, product.output_elements, [left], is_saved_left=True
            )
        tape.contribute(left, of_left)
        tape.contribute(right, of_right)

    return tape.record(name, shape, [left, right], shape.output_elements, backward)


def _product_with_constant(tape: Tape, name: str, left: Tensor, right: Tensor, shape: Gemm) -> Tensor:
    """A product of which at most one operand takes a gradient; only the other one is kept."""
    m, n, k, batch = shape.m, shape.n, shape.k, shape.batch
    if left.differentiable or right.differentiable:
        tape.keep(right if left.differentiable else left)

    def backward(gradient: Flows) -> None:
        tape.propagate(left, f"{name}_left_gradient", Gemm(m, k, n, batch), gradient, [right])
        tape.propagate(right, f"{name}_right_gradient", Gemm(k, n, m, batch), gradient, [left], is_saved_left=True)

    return tape.record(name, shape, [left, right], shape.output_elements, backward)


def nonlinearity(tape: Tape, name: str, kind: Nonlinearity, source: Tensor, row: int = 1) -> Tensor:
    """An elementwise function, or softmax over rows of length ``row``."""
    n = source.elements
    backward_kind: dict[Nonlinearity, VectorKind] = {
        "relu": "relu_backward",
        "gelu": "gelu_backward",
        "silu": "silu_backward",
        "tanh": "tanh_backward",
        "sigmoid": "sigmoid_backward",
        "sqrt": "sqrt_backward",
        "power": "power_backward",
        "softmax": "softmax_backward",
    }

    def backward(gradient: Flows) -> None:
        operation = Vector(backward_kind[kind], n, read_elements=2 * n, write_elements=n, row=row)
        tape.propagate(source, f"{name}_backward", operation, gradient, [saved])

    result = tape.record(name, Vector(kind, n, n, n, row), [source], n, backward)
    saved = result if kind in ("relu", "tanh", "sigmoid", "sqrt", "softmax") else source
    if source.differentiable:
        tape.keep(saved)
    return result


def scale(tape: Tape, name: str, source: Tensor) -> Tensor:
    """Multiplication by a constant."""
    operation = Vector("scale", source.elements, source.elements, source.elements)

    def backward(gradient: Flows) -> None:
        tape.propagate(source, f"{name}_backward", operation, gradient)

    return tape.record(name, operation, [source], source.elements, backward)


def add_constant(tape: Tape, name: str, source: Tensor, constant_elements: int) -> Tensor:
    """Addition of a constant of ``constant_elements`` values (an attention mask); its gradient passes through."""
    n = source.elements
    operation = Vector("add", n, read_elements=n + constant_elements, write_elements=n)
    return tape.record(name, operation, [source], n, lambda gradient: tape.contribute(source, gradient))


def rotary(tape: Tape, name: str, source: Tensor, table_elements: int) -> Tensor:
    """Rotary position embedding (Su et al. 2021) with a table of sines and cosines; backward the inverse rotation."""
    n = source.elements

    def backward(gradient: Flows) -> None:
        operation = Vector("rotary_backward", n, n + table_elements, n)
        tape.propagate(source, f"{name}_backward", operation, gradient)

    return tape.record(name, Vector("rotary", n, n + table_elements, n), [source], n, backward)


def dropout(tape: Tape, name: str, source: Tensor) -> Tensor:
    """Dropout; writes a mask that the backward pass reads."""
    n = source.elements
    mask = tape.elements_of(n * MASK_BYTES)
    if source.differentiable:
        tape.keep_bytes(n * MASK_BYTES)

    def backward(gradient: Flows) -> None:
        operation = Vector("dropout_backward", n, n + mask, n)
        tape.propagate(source, f"{name}_backward", operation, gradient, [saved])

    result = tape.record(name, Vector("dropout", n, n, n + mask), [source], n, backward)
    saved = tape.written_beside(result, "mask", mask)
    return result


def add(tape: Tape, name: str, left: Tensor, right: Tensor) -> Tensor:
    """The sum of two tensors; the gradient passes to both."""
    n = left.elements

    def backward(gradient: Flows) -> None:
        tape.contribute(left, gradient)
        tape.contribute(right, gradient)

    return tape.record(name, Vector("add", n, 2 * n, n), [left, right], n, backward)


def multiply(tape: Tape, name: str, left: Tensor, right: Tensor) -> Tensor:
    """The elementwise product of two tensors; backward one product for each."""
    n = left.elements
    operation = Vector("multiply", n, 2 * n, n)
    tape.keep(*(other for one, other in ((left, right), (right, left)) if one.differentiable))

    def backward(gradient: Flows) -> None:
        tape.propagate(left, f"{name}_left_gradient", operation, gradient, [right])
        tape.propagate(right, f"{name}_right_gradient", operation, gradient, [left])

    return tape.record(name, operation, [left, right], n, backward)


def normalise(
    tape: Tape, name: str, kind: Normalisation, source: Tensor, row: int, weights: int | None = None
) -> Tensor:
    """Layer norm (gain and offset) or RMS norm (gain) over rows; their gradients come with the input's, in one pass.

    ``weights`` are as many as the norm usually has when None. Batch norm is over rows of all that a channel holds in
    the microbatch; group norm is layer norm over the groups.
    """
    n = source.elements
    weights = (row if kind == "rms_norm" else 2 * row) if weights is None else weights
    backward_kinds: dict[Normalisation, VectorKind] = {
        "layer_norm": "layer_norm_backward",
        "rms_norm": "rms_norm_backward",
        "batch_norm": "batch_norm_backward",
    }
    if source.differentiable or weights:
        tape.keep(source)

    def backward(gradient: Flows) -> None:
        operation = Vector(backward_kinds[kind], n, 2 * n + weights, n + weights, row)
        written = tape.record_backward(f"{name}_backward", operation, gradient, n, [source], weights)
        tape.contribute(source, written)
        if weights:
            tape.accumulate(tuple(flow._replace(elements=weights, tensor="weights") for flow in written))

    return tape.record(name, Vector(kind, n, n + weights, n, row), [source], n, backward, weights)


def lookup(tape: Tape, name: str, table_weights: int, elements: int, table_elements: int | None = None) -> Tensor:
    """Rows of an embedding table; backward adds the gradients to the table's rows.

    ``table_weights`` of the table are counted here: all its ``table_elements`` when None, fewer where another operator
    reads it too.
    """
    table = table_weights if table_elements is None else table_elements

    def backward(gradient: Flows) -> None:
        operation = Vector("embedding_backward", elements, 2 * elements, elements)
        tape.record_backward(f"{name}_table_gradient", operation, gradient, writes=0, weights_read=table)

    operation = Vector("embedding", elements, elements, elements)
    return tape.record(name, operation, [], elements, backward, table_weights, trained=True, weights_read=table)


def add_lookup(tape: Tape, name: str, source: Tensor, table_weights: int, rows_read: int) -> Tensor:
    """Adds rows of a small table (positions, token types), ``rows_read`` elements of it; backward sums into them."""
    n = source.elements

    def backward(gradient: Flows) -> None:
        tape.contribute(source, gradient)
        operation = Vector("embedding_backward", n, n + rows_read, rows_read)
        tape.record_backward(f"{name}_table_gradient", operation, gradient, writes=0, weights_read=table_weights)

    return tape.record(name, Vector("add", n, n + rows_read, n), [source], n, backward, table_weights)


def cross_entropy(tape: Tape, name: str, logits: Tensor, row: int, participants: int = 1) -> Tensor:
    """Cross-entropy loss over rows of ``row`` logits. Its own gradient is the backward pass's root.

    Where the classes are split over ``participants`` accelerators, three numbers a row are reduced over the group: the
    maximum, the target's logit and the sum of exponentials (Shoeybi et al. 2019, section 3).
    """
    n = logits.elements
    probabilities = tape.elements_of(n * LOGIT_BYTES)
    tape.keep_bytes(n * LOGIT_BYTES)

    def backward(gradient: Flows) -> None:
        operation = Vector("cross_entropy_backward", n, probabilities, n, row)
        tape.propagate(logits, f"{name}_backward", operation, gradient, [saved])

    loss = tape.record(
        name,
        Vector("cross_entropy", n, n, probabilities, row),
        [logits],
        tape.elements_of(n // row * LOGIT_BYTES),
        backward,
    )
    saved = tape.written_beside(loss, "probabilities", probabilities)
    for number in ("maximum", "target", "sum"):
        loss = all_reduce(tape, f"{name}_{number}_all_reduce", loss, participants)
    return loss


def all_reduce(tape: Tape, name: str, source: Tensor, participants: int) -> Tensor:
    """Sums partial results over the tensor-parallel group; the gradient passes through (Megatron's g).

    With one participant it is the tensor itself.
    """
    if participants == 1:
        return source
    operation = Collective("all_reduce", source.elements, participants)
    return tape.record(name, operation, [source], source.elements, lambda gradient: tape.contribute(source, gradient))


def copy_to_group(tape: Tape, name: str, source: Tensor, participants: int) -> Tensor:
    """The input of a column-parallel GEMM: nothing forward, an all-reduce of its gradient backward (Megatron's f).

    With one participant it is the tensor itself. What consumers keep of it is the source's own memory.
    """
    if participants == 1:
        return source
    operation = Collective("all_reduce", source.elements, participants)

    def backward(gradient: Flows) -> None:
        tape.propagate(source, f"{name}_all_reduce", operation, gradient)

    return tape.view(name, [source], source.flows, source.elements, backward)


def split(tape: Tape, name: str, source: Tensor, parts: int) -> list[Tensor]:
    """``source`` in equal parts, without an operator; the parts' gradients together are its gradient."""
    return partition(tape, name, source, [source.elements // parts] * parts)


def partition(tape: Tape, name: str, source: Tensor, sizes: Sequence[int]) -> list[Tensor]:
    """``source`` in parts of these sizes, without an operator; the parts' gradients together are its gradient."""
    gradients: dict[int, Flows] = {}

    def backward(part: int, gradient: Flows) -> None:
        gradients[part] = gradient
        if len(gradients) == len(sizes):
            tape.contribute(source, tuple(flow for part in range(len(sizes)) for flow in gradients[part]))

    return [
        tape.view(f"{name}{part}", [source], part_of(source.flows, start, size), size, partial(backward, part))
        for part, (start, size) in enumerate(zip(accumulate(sizes, initial=0), sizes, strict=False))
    ]


def concatenate(tape: Tape, name: str, parts: Sequence[Tensor]) -> Tensor:
    """``parts`` side by side, without an operator."""

    def backward(gradient: Flows) -> None:
        start = 0
        for part in parts:
            tape.contribute(part, part_of(gradient, start, part.elements))
            start += part.elements

    flows = tuple(flow for part in parts for flow in part.flows)
    return tape.view(name, parts, flows, sum(part.elements for part in parts), backward)


def select(tape: Tape, name: str, source: Tensor, elements: int) -> Tensor:
    """``elements`` values of ``source`` (the first token), a view; backward places their gradient among zeros."""

    def backward(gradient: Flows) -> None:
        operation = Vector("copy", source.elements, elements, source.elements)
        tape.propagate(source, f"{name}_backward", operation, gradient)

    return tape.view(name, [source], share_of(source.flows, elements, f"[{name}]"), elements, backward)
