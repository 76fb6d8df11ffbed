"""Rates of matrix products and convolutions by the type of their operands.

A product runs at the rate of its widest operand; of two equally wide ones (``fp16`` and ``bf16``), at the lower rate,
and a floating-point operand decides before an integer. Products of float32 have up to three rates: ``fp32`` is float32
arithmetic throughout, ``fp32_high`` and ``fp32_default`` are what XLA makes of them at its precisions HIGH and DEFAULT
(TensorFloat-32 on GPUs that have it; three passes of bfloat16, or one, on TPUs).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal, Self

ProductFormat = Literal["fp64", "fp32", "fp32_high", "fp32_default", "fp16", "bf16", "fp8", "int8", "int32"]
"""Keys of ``rates`` in a spec of a chip, of ``product_flops`` in one of a package."""

Float32Precision = Literal["default", "high", "highest"]
"""How exactly products of float32 are computed (XLA's ``PrecisionConfig``)."""

_WIDTHS: Mapping[str, tuple[str, int]] = MappingProxyType(
    {"fp64": ("float", 64), "fp32": ("float", 32), "fp16": ("float", 16), "bf16": ("float", 16), "fp8": ("float", 8),
     "int64": ("int", 64), "int32": ("int", 32), "int8": ("int", 8)}
)  # fmt: skip

_AT_LEAST_AS_EXACT: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"default": ("fp32_default", "fp32_high", "fp32"), "high": ("fp32_high", "fp32"), "highest": ("fp32",)}
)

_OF_ELEMENT_BYTES: Mapping[int, tuple[ProductFormat, ...]] = MappingProxyType(
    {1: ("int8", "fp8"), 2: ("fp16", "bf16"), 4: ("fp32",), 8: ("fp64",)}
)


class MissingRateError(ValueError):
    """A format without a rate, and the nearest one that has a rate."""

    def __init__(self, product_format: str, name: str, nearest: str) -> None:
        super().__init__(
            f"{name} has no rate for products of {product_format}; the nearest format that it has a rate for is "
            f"{nearest} (a spec states rates by format)"
        )


@dataclass(frozen=True)
class ProductRates:
    """Floating-point operations a second of one chip's products.

    Attributes:
        name: of the chip.
        flops_per_s: (format, rate) of every format that the chip has.
        float32: how products of float32 are computed; None where each product says so itself.
    """

    name: str
    flops_per_s: tuple[tuple[str, float], ...]
    float32: Float32Precision | None = None

    @classmethod
    def of_element_bytes(cls, name: str, element_bytes: int, flops_per_s: float) -> Self:
        """The rates of a chip that is known to compute in elements of one size alone."""
        formats = _OF_ELEMENT_BYTES.get(element_bytes, ())
        return cls(name, tuple((each, flops_per_s) for each in formats))

    def sustained(self, share: float) -> Self:
        """All rates times ``share``."""
        return replace(self, flops_per_s=tuple((each, share * rate) for each, rate in self.flops_per_s))

    def rate(self, operands: Iterable[str], precision: Float32Precision = "default") -> float:
        """The rate of a product of operands of these formats; ``precision`` as the product states it.

        Raises:
            MissingRateError: the chip has no rate for it.
        """
        rates = dict(self.flops_per_s)
        return min(self._of(each, rates, precision) for each in widest(operands))

    def _of(self, product_format: str, rates: Mapping[str, float], precision: Float32Precision) -> float:
        is_float32 = product_format == "fp32"
        for key in _AT_LEAST_AS_EXACT[self.float32 or precision] if is_float32 else (product_format,):
            if key in rates:
                return rates[key]
        raise MissingRateError(product_format, self.name, self._nearest(product_format, rates))

    @staticmethod
    def _nearest(product_format: str, rates: Mapping[str, float]) -> str:
        kind, width = _WIDTHS.get(product_format, ("float", 64))
        stated = {each for each in _WIDTHS if each in rates}
        near = sorted(stated, key=lambda each: (_WIDTHS[each][0] != kind, abs(_WIDTHS[each][1] - width), each))
        return next(iter(near), "none")


def widest(operands: Iterable[str]) -> set[str]:
    """The formats that decide how fast a product of ``operands`` runs."""
    ranks = {each: _rank(each) for each in operands}
    top = max(ranks.values())
    return {each for each, rank in ranks.items() if rank == top}


def _rank(product_format: str) -> tuple[bool, int]:
    kind, width = _WIDTHS.get(product_format, ("int", 64))
    return kind == "float", width
