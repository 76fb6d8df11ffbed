"""The neutral record of a forward pass that every front end writes and everything behind it reads.

A :class:`Trace` is a straight-line program: steps in execution order over values in single assignment. Shapes are
concrete (one microbatch). A view of a weight (transposed, reshaped, cast) is not a step but a value of the weight's
role (``parameter`` or ``frozen``) that names its base, so that a weight is counted once however it is used.

Inputs and attributes of each kind of step (``...`` are any leading dimensions; every step has one output, unless said
otherwise):

============== ============================================== ==========================================================
kind           inputs                                         attributes
============== ============================================== ==========================================================
matmul         a[..., m, k], b[..., k, n], bias[n] optional   –
convolution    x[N, C, H, W], w[O, C / groups, kh, kw],       stride, padding, dilation (pairs), groups,
               bias[O] optional                               transposed (0, 1)
elementwise    one or more, broadcast                         function: as listed below; operand (float)
softmax        x                                              axis
layer_norm     x, gain and offset optional                    axes (normalised together)
rms_norm       x, gain optional                               axes
batch_norm     x[N, C, ...], gain and offset optional         –
group_norm     x[N, C, ...], gain and offset optional         groups
dropout        x                                              probability
embedding      table[rows, width], indices                    –
cross_entropy  logits[..., classes], targets                  axis, participants (of a vocabulary split over a group)
reduction      x                                              function: sum, mean, max; axes; keep (0, 1)
pooling        x[N, C, H, W]                                  function: max, mean; kernel, stride, padding (pairs)
rotary         x, cos, sin                                    –
reshape        x                                              – (the shape is the output's)
permute        x                                              axes
expand         x                                              – (a broadcast view)
slice          x                                              axis, start, step
concatenate    x₀, x₁, …                                      axis
gather         x, indices                                     axis
cast           x                                              – (the dtype is the output's)
copy           x, and what is written into it                 – (moves data: padding, repeating, writing a part)
constant       none                                           – (arange, zeros, masks; carries no gradient)
all_reduce     x (a partial sum)                              participants
copy_to_group  x                                              participants (backward: an all-reduce of the gradient)
other          any                                            name: as its library calls it; flops where known
============== ============================================== ==========================================================

Elementwise functions: add, subtract, multiply, divide, scale, add_constant, negate, relu, gelu, silu, sigmoid, tanh,
exp, erf, log, sqrt, rsqrt, power, abs, sin, cos, maximum, minimum, clamp, compare, select, mask. ``scale``,
``add_constant`` and ``power`` have a scalar (attribute ``operand``) where they have one input; ``mask`` fills where a
mask says so.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Literal

StepKind = Literal[
    "matmul",
    "convolution",
    "elementwise",
    "softmax",
    "layer_norm",
    "rms_norm",
    "batch_norm",
    "group_norm",
    "dropout",
    "embedding",
    "cross_entropy",
    "reduction",
    "pooling",
    "rotary",
    "reshape",
    "permute",
    "expand",
    "slice",
    "concatenate",
    "gather",
    "cast",
    "copy",
    "constant",
    "all_reduce",
    "copy_to_group",
    "other",
]

VIEWS: frozenset[str] = frozenset({"reshape", "permute", "expand", "slice", "cast"})
"""Steps that move no data: a consumer reads through them."""

Granularity = Literal["operator", "primitive"]
"""What one operator of a graph made of a trace is: what the user's framework calls one (a softmax, a linear layer with
its bias), or a primitive operation of a compiler's graph (see :mod:`dse.partition.graphs.pieces`)."""

Role = Literal["parameter", "frozen", "buffer", "constant", "input", "activation"]
Attribute = int | float | str | tuple[int, ...]

WEIGHTS: frozenset[Role] = frozenset({"parameter", "frozen", "buffer"})
"""What a machine holds before the first microbatch: trained and frozen weights, and tables that the model stores."""

FIXED: frozenset[Role] = WEIGHTS | {"constant"}
"""What does not depend on the input."""


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the traced program.

    Attributes:
        name: its name in the module where it has one (``encoder.layer.0.weight``), else made from its step's.
        shape: its size, one microbatch.
        dtype: as numpy calls it: ``float16``, ``bfloat16``, ``float32``, ``int64``, ``bool``.
        role: ``parameter`` (trained), ``frozen`` (a parameter that is not trained), ``buffer`` (any other tensor that
            is kept in the module), ``constant`` (made of no stored tensor, or larger than those that it is made of: a
            causal mask, a table of positions; it is recomputed where it is read), ``input``, or ``activation``.
        base: for a view of a weight or buffer, the value it is a view of; None otherwise.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    role: Role
    base: int | None = None

    @property
    def elements(self) -> int:
        """Number of elements."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class Step:
    """One operator. ``inputs`` and ``outputs`` are positions in the trace's values; ``where`` is ``file:line``."""

    kind: StepKind
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    where: str = ""


@dataclass(frozen=True)
class Trace:
    """A traced forward pass over one microbatch.

    ``outputs`` are the values that the backward pass starts from (the loss, or what the module returns).

    Raises:
        ValueError: a step that reads a value before it is written, or a value that is written twice.
    """

    name: str
    microbatch: int
    values: tuple[Value, ...]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]

    def __post_init__(self) -> None:
        written = {index for index, value in enumerate(self.values) if value.role != "activation"}
        for position, step in enumerate(self.steps):
            missing = [index for index in step.inputs if index not in written]
            if missing:
                raise ValueError(
                    f"step {position} ({step.kind}) reads value {missing[0]}, which no earlier step writes"
                )
            twice = written.intersection(step.outputs)
            if twice:
                raise ValueError(f"step {position} ({step.kind}) writes value {min(twice)}, which already exists")
            written.update(step.outputs)

    @cached_property
    def producer(self) -> Mapping[int, int]:
        """The step that writes each activation."""
        return {value: position for position, step in enumerate(self.steps) for value in step.outputs}

    @cached_property
    def consumers(self) -> Mapping[int, tuple[int, ...]]:
        """The steps that read each value, in order; values that nothing reads are absent."""
        readers: dict[int, list[int]] = {}
        for position, step in enumerate(self.steps):
            for value in dict.fromkeys(step.inputs):
                readers.setdefault(value, []).append(position)
        return {value: tuple(steps) for value, steps in readers.items()}

    @cached_property
    def needs_gradient(self) -> frozenset[int]:
        """Values that depend on a parameter: the backward pass visits them."""
        return self._made_of("parameter")

    @cached_property
    def features(self) -> frozenset[int]:
        """Values that depend on a parameter, trained or frozen; all others are inputs, masks and tables."""
        return self._made_of("parameter", "frozen")

    def _made_of(self, *roles: Role) -> frozenset[int]:
        """The values of these roles and the floating values that depend on one."""
        dependent = {index for index, value in enumerate(self.values) if value.role in roles}
        for step in self.steps:
            if dependent.intersection(step.inputs):
                dependent.update(output for output in step.outputs if "float" in self.values[output].dtype)
        return frozenset(dependent)

    @property
    def parameters(self) -> int:
        """Trained parameters, views not counted again."""
        return sum(value.elements for value in self.values if value.role == "parameter" and value.base is None)
