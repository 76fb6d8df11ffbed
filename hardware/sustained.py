"""Shares of an accelerator's peak rates that kernels sustain which were timed on it, one by one.

They stand where a software stack only assumes a share (:meth:`dse.plan.stack.Stack.on_chip`).
"""

import math
from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from hardware.precisions import Precision, halved
from hardware.spec_fields import PositiveInteger, Source, StrictModel

SustainedRate = Literal["matrix", "attention_rate", "memory", "link"]
"""Peak rates of which kernels sustain a share: matrix products, these in fused attention, memory, the network."""

SUSTAINED_RATES: tuple[SustainedRate, ...] = get_args(SustainedRate)


AttentionKernelName = Literal["cudnn", "flash-attention-2", "flash-attention-3"]
"""Kernels of fused attention: cuDNN's, and those of Dao 2023 and of Shah et al. 2024."""

SustainedShare = Annotated[float, Field(ge=1e-3, le=1, allow_inf_nan=False)]
"""No kernel worth timing is slower; a smaller share is a rate in another unit."""


class MeasuredShare(StrictModel):
    """A share and where it comes from.

    Attributes:
        value: of the peak rate.
        source: of the measurement.
    """

    value: SustainedShare
    source: Source


class ProductShare(MeasuredShare):
    """That of matrix products.

    Attributes:
        value: of the peak rate.
        source: of the measurement.
        precision: of the operands.
    """

    precision: Precision


class AttentionShape(StrictModel):
    """The share that fused attention sustains, both passes together, of the work that a causal mask leaves.

    Attributes:
        width: of a head's queries and keys.
        tokens: of a sample.
        value: of the peak rate.
    """

    width: PositiveInteger
    tokens: PositiveInteger
    value: SustainedShare


class AttentionShares(StrictModel):
    """Shares of attention.

    Attributes:
        precision: that was timed.
        shapes: each once.
        source: of the measurements.
        kernel: that was timed; None where it is not known.
    """

    precision: Precision
    shapes: Annotated[tuple[AttentionShape, ...], Field(min_length=1)]
    source: Source
    kernel: AttentionKernelName | None = None

    @model_validator(mode="after")
    def _has_each_shape_once(self) -> Self:
        if len({(shape.width, shape.tokens) for shape in self.shapes}) < len(self.shapes):
            raise ValueError("shapes must not repeat a pair of width and number of tokens")
        return self

    def value(self, width: int, tokens: float) -> float:
        """Of the nearest width, between its numbers of tokens linear in their logarithm; the outermost beyond them."""
        return float(self.values(width, np.array(float(tokens))))

    def values(self, width: int, tokens: NDArray[np.float64]) -> NDArray[np.float64]:
        """The same for each number of tokens."""
        near = min((shape.width for shape in self.shapes), key=lambda each: (abs(math.log(each / width)), each))
        points = sorted((math.log(shape.tokens), shape.value) for shape in self.shapes if shape.width == near)
        lengths, values = zip(*points, strict=True)
        return np.asarray(np.interp(np.log(tokens), lengths, values))


class Sustained(NamedTuple):
    """A share of a peak rate on certain shapes, and where it comes from."""

    rate: SustainedRate
    value: float
    source: str


class SustainedShares(StrictModel):
    """Sustained shares of one accelerator's rates; what was not measured is left out.

    Attributes:
        matrix: of matrix products.
        attention_rate: of fused attention, in software that names no kernel.
        attention_kernels: of fused attention in others, each kernel once.
        memory: of vector kernels.
        link: of collectives.
    """

    matrix: ProductShare | None = None
    attention_rate: AttentionShares | None = None
    attention_kernels: tuple[AttentionShares, ...] = ()
    memory: MeasuredShare | None = None
    link: MeasuredShare | None = None

    @model_validator(mode="after")
    def _names_each_kernel_once(self) -> Self:
        names = [each.kernel for each in self.attention_kernels]
        if None in names or len(set(names)) < len(names):
            raise ValueError("attention_kernels must name a kernel each, and each once")
        return self

    def attention(self, kernel: AttentionKernelName | None) -> AttentionShares | None:
        """Shares of this kernel of fused attention, or of software that names none; None where they are not known."""
        if kernel is None:
            return self.attention_rate
        tables = (*self.attention_kernels, *([self.attention_rate] if self.attention_rate else []))
        return next((table for table in tables if table.kernel == kernel), None)

    def on(
        self, width: int, tokens: int, precision: str, kernel: AttentionKernelName | None = None
    ) -> Iterator[Sustained]:
        """What is known for a model whose heads are so wide, on samples of so many tokens.

        ``precision``: of the operands of linear layers; attention has 16 bits even if these have 8 or 4. Shares that
        were timed in another precision are not known. ``kernel``: as :meth:`attention` has it.
        """
        if self.matrix is not None and self.matrix.precision == precision:
            yield Sustained("matrix", self.matrix.value, self.matrix.source)
        attention = self.attention(kernel)
        if attention is not None and attention.precision == halved(precision):
            yield Sustained("attention_rate", attention.value(width, tokens), attention.source)
        if self.memory is not None:
            yield Sustained("memory", self.memory.value, self.memory.source)
        if self.link is not None:
            yield Sustained("link", self.link.value, self.link.source)
