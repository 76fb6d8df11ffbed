"""The primitive operations that a step of a trace is made of.

A composite is taken apart as XLA's HLO states it: a bias is a broadcast and an addition, a softmax is a maximum, a
broadcast, a subtraction, an exponential, a sum, a broadcast and a division. Numbers (ε, 1 / n) are part of the
operation that uses them, weights of the one that reads them. Normalisations over a batch use what they have learned,
which is one factor and one summand a channel once the model is loaded (Ioffe and Szegedy 2015, algorithm 2).

FLOPs are those of the products, and one an element for everything else that computes.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod

from dse.graph.trace import Step, Trace
from dse.importer.work import tensor_flops

Source = int
"""Where a piece reads: a value of the trace, or −1 − k for piece k of the same step."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One primitive operation.

    Attributes:
        label: what it does.
        reads: its operands.
        elements: elements that it writes.
        flops: floating-point operations.
        parameter_elements: weights that it reads beyond those among ``reads`` (what a normalisation has learned).
        looks: whether it only picks from its operands or reads them otherwise: it reads what it writes, no more.
        moves: whether it moves anything at all (a reshape does not).
    """

    label: str
    reads: tuple[Source, ...]
    elements: int
    flops: int = 0
    parameter_elements: int = 0
    looks: bool = False
    moves: bool = True


@dataclass
class _Writer:
    """The pieces of one step, as they are written."""

    trace: Trace
    step: Step
    pieces: list[Piece] = field(default_factory=list)

    @property
    def elements(self) -> int:
        """Elements of what the step writes."""
        return sum(self.trace.values[index].elements for index in self.step.outputs)

    def size(self, source: Source) -> int:
        """Elements of an operand."""
        return self.pieces[-1 - source].elements if source < 0 else self.trace.values[source].elements

    def write(self, label: str, reads: tuple[Source, ...], elements: int, flops: int | None = None) -> Source:
        """A piece that computes one operation an element, or ``flops``."""
        self.pieces.append(Piece(label, reads, elements, elements if flops is None else flops))
        return -len(self.pieces)

    def pointwise(self, label: str, *reads: Source) -> Source:
        """An elementwise operation; smaller operands are broadcast first."""
        elements = max(map(self.size, reads))
        return self.write(label, tuple(self.broadcast(source, elements) for source in reads), elements)

    def broadcast(self, source: Source, elements: int) -> Source:
        """``source`` at the size of ``elements``."""
        return source if self.size(source) >= elements else self.write("broadcast", (source,), elements, 0)

    def learned(self, label: str, source: Source, channels: int) -> Source:
        """An elementwise operation with one learned number per channel that is not a value of the trace."""
        self.pieces.append(Piece("broadcast", (), self.size(source), parameter_elements=channels))
        return self.write(label, (source, -len(self.pieces)), self.size(source))

    def mean(self, source: Source, groups: int) -> Source:
        """The mean over all but ``groups``."""
        total = self.write("sum", (source,), groups, self.size(source))
        return self.pointwise("scale", total)


def pieces_of(trace: Trace, step: Step) -> tuple[Piece, ...]:
    """The pieces of ``step`` in order; the last one writes what the step writes.

    A step without operands (and without weights) gives nothing: it is known when the model is loaded.
    """
    if not step.inputs:
        return ()
    writer = _Writer(trace, step)
    _RULES.get(step.kind, _one_piece)(writer, step)
    return tuple(writer.pieces)


def _matmul(writer: _Writer, step: Step) -> None:
    product = writer.write("matmul", step.inputs[:2], writer.elements, tensor_flops(writer.trace, step))
    for bias in step.inputs[2:]:
        writer.pointwise("add", product, bias)


def _convolution(writer: _Writer, step: Step) -> None:
    product = writer.write("convolution", step.inputs[:2], writer.elements, tensor_flops(writer.trace, step))
    for bias in step.inputs[2:]:
        writer.pointwise("add", product, bias)


def _elementwise(writer: _Writer, step: Step) -> None:
    function = str(step.attributes["function"])
    source = step.inputs[0]
    if len(step.inputs) == 1 and function == "gelu" and step.attributes.get("approximate") == "tanh":
        # x · ½ (1 + tanh(√(2/π) (x + 0.044715 x³)))
        bent = writer.pointwise("add", source, writer.pointwise("scale", writer.pointwise("power", source)))
        gate = writer.pointwise("add_constant", writer.pointwise("tanh", writer.pointwise("scale", bent)))
        writer.pointwise("multiply", source, writer.pointwise("scale", gate))
    elif len(step.inputs) == 1 and function == "gelu":  # ½ x (1 + erf(x / √2))
        gate = writer.pointwise("erf", writer.pointwise("scale", source))
        writer.pointwise("multiply", writer.pointwise("scale", source), writer.pointwise("add_constant", gate))
    elif len(step.inputs) == 1 and function == "silu":
        writer.pointwise("multiply", source, writer.pointwise("sigmoid", source))
    else:
        reads = tuple(writer.broadcast(operand, writer.elements) for operand in step.inputs)
        writer.write(function, reads, writer.elements)


def _softmax(writer: _Writer, step: Step) -> None:
    (source,) = step.inputs
    axis = step.attributes["axis"]
    assert isinstance(axis, int)
    rows = writer.elements // (writer.trace.values[source].shape or (1,))[axis]
    largest = writer.write("max", (source,), rows, writer.elements)
    exponential = writer.pointwise("exp", writer.pointwise("subtract", source, largest))
    total = writer.write("sum", (exponential,), rows, writer.elements)
    writer.pointwise("divide", exponential, total)


def _centred_norm(writer: _Writer, step: Step) -> None:
    """Layer norm and group norm: (x − mean) / √(variance + ε), gain, offset."""
    source = step.inputs[0]
    groups = _groups(writer, step)
    centred = writer.pointwise("subtract", source, writer.mean(source, groups))
    variance = writer.mean(writer.pointwise("square", centred), groups)
    result = writer.pointwise(
        "multiply", centred, writer.pointwise("rsqrt", writer.pointwise("add_constant", variance))
    )
    for label, weight in zip(("multiply", "add"), step.inputs[1:], strict=False):
        result = writer.pointwise(label, result, weight)


def _folded_norm(writer: _Writer, step: Step) -> None:
    """Layer norm by moments: x · inv + (offset − mean · inv) with inv = gain / √(variance + ε)."""
    source, gain, offset = step.inputs
    groups, elements = _groups(writer, step), writer.elements
    mean = writer.broadcast(writer.mean(source, groups), elements)
    variance = writer.mean(writer.pointwise("square", writer.pointwise("subtract", source, mean)), groups)
    inverse = writer.broadcast(writer.pointwise("rsqrt", writer.pointwise("add_constant", variance)), elements)
    inverse = writer.pointwise("multiply", inverse, gain)
    shift = writer.pointwise("subtract", offset, writer.pointwise("multiply", mean, inverse))
    writer.pointwise("add", writer.pointwise("multiply", source, inverse), shift)


def _layer_norm(writer: _Writer, step: Step) -> None:
    rule = _folded_norm if step.attributes.get("form") == "moments" and len(step.inputs) == 3 else _centred_norm
    rule(writer, step)


def _root_mean_square_norm(writer: _Writer, step: Step) -> None:
    source = step.inputs[0]
    variance = writer.mean(writer.pointwise("square", source), _groups(writer, step))
    result = writer.pointwise("multiply", source, writer.pointwise("rsqrt", writer.pointwise("add_constant", variance)))
    for weight in step.inputs[1:]:
        result = writer.pointwise("multiply", result, weight)


def _groups(writer: _Writer, step: Step) -> int:
    """How many means a normalisation takes."""
    shape = writer.trace.values[step.inputs[0]].shape
    if step.kind == "group_norm":
        groups = step.attributes["groups"]
        assert isinstance(groups, int)
        return shape[0] * groups
    axes = step.attributes["axes"]
    assert isinstance(axes, tuple)
    return writer.elements // prod(shape[axis] for axis in axes)


def _batch_norm(writer: _Writer, step: Step) -> None:
    channels = writer.trace.values[step.inputs[0]].shape[1]
    writer.learned("add", writer.learned("multiply", step.inputs[0], channels), channels)


def _reduction(writer: _Writer, step: Step) -> None:
    (source,) = step.inputs
    function = str(step.attributes["function"])
    if function == "mean":
        writer.mean(source, writer.elements)
    else:
        writer.write(function, (source,), writer.elements, writer.size(source))


def _pooling(writer: _Writer, step: Step) -> None:
    kernel = step.attributes["kernel"]
    assert isinstance(kernel, tuple)
    writer.write("pooling", step.inputs, writer.elements, writer.elements * prod(kernel))


def _rotary(writer: _Writer, step: Step) -> None:
    """X · cos + (x's halves changed, one negated) · sin."""
    source, cos, sin = step.inputs
    half = writer.elements // 2
    first, second = (writer.write("slice", (source,), half, 0) for _ in range(2))
    turned = writer.write("concatenate", (writer.pointwise("negate", second), first), writer.elements, 0)
    writer.pointwise("add", writer.pointwise("multiply", source, cos), writer.pointwise("multiply", turned, sin))


def _cross_entropy(writer: _Writer, step: Step) -> None:
    logits = writer.size(step.inputs[0])
    writer.write("cross_entropy", step.inputs, writer.elements, 5 * logits)


def _picked(writer: _Writer, step: Step) -> None:
    """What reads no more of its first operand than it writes."""
    writer.pieces.append(Piece(step.kind, step.inputs, writer.elements, looks=True))


def _moved(writer: _Writer, step: Step) -> None:
    writer.write(step.kind, step.inputs, writer.elements, 0)


def _reshape(writer: _Writer, step: Step) -> None:
    writer.pieces.append(Piece("reshape", step.inputs, writer.elements, moves=False))


def _dropout(writer: _Writer, step: Step) -> None:
    writer.pointwise("scale", writer.pointwise("dropout", step.inputs[0]))


def _one_piece(writer: _Writer, step: Step) -> None:
    """An operator without a rule: the FLOPs that its library states, else one an element that it writes."""
    label = str(step.attributes.get("name", step.kind))
    writer.write(label, step.inputs, writer.elements, tensor_flops(writer.trace, step) or writer.elements)


_RULES: Mapping[str, Callable[[_Writer, Step], None]] = {
    "matmul": _matmul,
    "convolution": _convolution,
    "elementwise": _elementwise,
    "softmax": _softmax,
    "layer_norm": _layer_norm,
    "group_norm": _centred_norm,
    "rms_norm": _root_mean_square_norm,
    "batch_norm": _batch_norm,
    "reduction": _reduction,
    "pooling": _pooling,
    "rotary": _rotary,
    "cross_entropy": _cross_entropy,
    "embedding": _picked,
    "gather": _picked,
    "slice": _picked,
    "expand": _moved,
    "permute": _moved,
    "concatenate": _moved,
    "copy": _moved,
    "cast": _moved,
    "reshape": _reshape,
    "dropout": _dropout,
}


def unwritten(pieces: tuple[Piece, ...]) -> Iterator[Source]:
    """What a step's pieces read that none of them writes, each once."""
    yield from dict.fromkeys(source for piece in pieces for source in piece.reads if source >= 0)
