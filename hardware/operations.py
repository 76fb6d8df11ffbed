"""The operations that hardware can cost.

An operation states *what* is computed: its sizes, never where or how it runs. Sizes are element counts; bytes follow
from an element width in bytes that the machine or the graph supplies. FLOPs count a multiply and an add as two.
"""

from dataclasses import dataclass
from typing import Literal

VectorKind = Literal[
    "add",
    "multiply",
    "scale",
    "relu",
    "gelu",
    "silu",
    "tanh",
    "sigmoid",
    "divide",
    "sqrt",
    "power",
    "select",
    "reduction",
    "pooling",
    "softmax",
    "layer_norm",
    "rms_norm",
    "batch_norm",
    "dropout",
    "rotary",
    "cross_entropy",
    "embedding",
    "copy",
    "relu_backward",
    "gelu_backward",
    "silu_backward",
    "tanh_backward",
    "sigmoid_backward",
    "divide_backward",
    "sqrt_backward",
    "power_backward",
    "pooling_backward",
    "softmax_backward",
    "layer_norm_backward",
    "rms_norm_backward",
    "batch_norm_backward",
    "dropout_backward",
    "rotary_backward",
    "cross_entropy_backward",
    "embedding_backward",
    "bias_backward",
    "adam",
    "sgd",
]
"""What a vector core computes. ``power`` is any transcendental function of one operand (power, exponential, logarithm,
error function, sine), ``select`` a comparison and its choice (mask, maximum, clamp), ``reduction`` a sum, mean or
maximum along axes, ``pooling`` one tap of a window an element. ``bias_backward`` sums gradients over rows; ``adam`` and
``sgd`` update weights."""

CollectiveKind = Literal["all_reduce", "reduce_scatter", "all_gather", "all_to_all", "permute"]
"""What several accelerators do together. In a permute each sends its array to another one (collective-permute)."""

REDUCING: frozenset[CollectiveKind] = frozenset(("all_reduce", "reduce_scatter"))
"""Collectives that add."""


@dataclass(frozen=True, slots=True)
class Gemm:
    """``batch`` independent products ``C[m, n] = A[m, k] · B[k, n]``, on tensor cores.

    A linear layer over ``[batch, sequence, hidden]`` is one product with ``m = batch · sequence``; attention scores
    are ``batch · heads`` products.
    """

    m: int
    n: int
    k: int
    batch: int = 1

    @property
    def flops(self) -> int:
        """2 · batch · m · n · k."""
        return 2 * self.batch * self.m * self.n * self.k

    @property
    def input_elements(self) -> int:
        """Elements of A and B together."""
        return self.batch * (self.m * self.k + self.k * self.n)

    @property
    def output_elements(self) -> int:
        """Elements of C."""
        return self.batch * self.m * self.n


@dataclass(frozen=True, slots=True)
class Convolution:
    """A 2-D convolution, NCHW, on tensor cores: an implicit GEMM whose input is read once, not once per tap."""

    images: int
    in_channels: int
    out_channels: int
    height: int
    width: int
    kernel_height: int
    kernel_width: int
    stride: int = 1
    padding: int = 0
    groups: int = 1

    @property
    def output_height(self) -> int:
        """Rows of the output feature map."""
        return (self.height + 2 * self.padding - self.kernel_height) // self.stride + 1

    @property
    def output_width(self) -> int:
        """Columns of the output feature map."""
        return (self.width + 2 * self.padding - self.kernel_width) // self.stride + 1

    @property
    def gemm(self) -> Gemm:
        """The implicit GEMM: one product a group, m = output pixels, n = output channels, k = taps · input channels."""
        return Gemm(
            m=self.images * self.output_height * self.output_width,
            n=self.out_channels // self.groups,
            k=self.in_channels // self.groups * self.kernel_height * self.kernel_width,
            batch=self.groups,
        )

    @property
    def flops(self) -> int:
        """FLOPs of the implicit GEMM."""
        return self.gemm.flops

    @property
    def input_elements(self) -> int:
        """Elements of the input feature maps and the filters."""
        filters = self.out_channels * (self.in_channels // self.groups) * self.kernel_height * self.kernel_width
        return self.images * self.in_channels * self.height * self.width + filters

    @property
    def output_elements(self) -> int:
        """Elements of the output feature maps."""
        return self.images * self.out_channels * self.output_height * self.output_width


@dataclass(frozen=True, slots=True)
class Vector:
    """A pass of vector cores over ``elements`` values.

    ``row`` is the length of the dimension that softmax and normalisations reduce over (1 for elementwise work).
    ``read_elements`` and ``write_elements`` are what the op moves from and to memory, in elements of the graph's
    element width, when its operands do not stay on chip.
    """

    kind: VectorKind
    elements: int
    read_elements: int
    write_elements: int
    row: int = 1


@dataclass(frozen=True, slots=True)
class Fused:
    """A tensor-core op whose result passes straight through vector work (``epilogue``), on a paired tensor and vector
    core, without a trip to HBM in between.
    """

    tensor: Gemm | Convolution
    epilogue: tuple[Vector, ...]

    @property
    def flops(self) -> int:
        """Tensor-core FLOPs."""
        return self.tensor.flops


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective over ``participants`` accelerators; ``elements`` is the full tensor on each of them.

    Of an all-to-all, ``elements`` are those that all of them hold together. Reductions add on the vector cores of each
    accelerator.
    """

    kind: CollectiveKind
    elements: int
    participants: int


@dataclass(frozen=True, slots=True)
class Transfer:
    """``elements`` sent from one accelerator to another."""

    elements: int


Operation = Gemm | Convolution | Vector | Fused | Collective | Transfer

CoreKind = Literal["tensor", "vector", "fused"]


def core_kind(operation: Operation) -> CoreKind:
    """Which cores run ``operation`` (paper Table 3: an all-reduce runs on vector cores)."""
    match operation:
        case Gemm() | Convolution():
            return "tensor"
        case Fused():
            return "fused"
        case _:
            return "vector"
