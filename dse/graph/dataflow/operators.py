"""One operator of a dataflow graph: its shape, and the weights that stay with it."""

from dataclasses import dataclass
from typing import Literal

from hardware.operations import Gemm, VectorKind

PassKind = VectorKind | Literal["input", "output"]
"""What an operator other than a GEMM does."""


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass over ``elements`` values: vector work of ``kind``, or what comes into or leaves the graph.

    ``row`` is the length of the dimension that softmax, normalisations and sums over rows reduce over, 1 for
    elementwise work.
    """

    kind: PassKind
    elements: int
    row: int = 1


@dataclass(frozen=True, slots=True)
class DataflowOperator:
    """One operator.

    Attributes:
        name: unique in the graph.
        work: a GEMM (a convolution as its implicit GEMM), or a pass.
        weight_elements: what stays with it from sample to sample: weights, or their gradients' sum.
        is_backward: whether it is of the backward pass.
    """

    name: str
    work: Gemm | Pass
    weight_elements: int = 0
    is_backward: bool = False

    @property
    def kind(self) -> str:
        """``gemm``, or what the pass does."""
        return "gemm" if isinstance(self.work, Gemm) else self.work.kind

    @property
    def flops(self) -> int:
        """FLOPs of a GEMM, a multiply and an add as two; 0 for a pass."""
        return self.work.flops if isinstance(self.work, Gemm) else 0
