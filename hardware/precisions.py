"""Precisions of the operands of matrix products."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, get_args

Precision = Literal["fp16", "bf16", "fp8", "mxfp8", "int8", "fp4"]
"""Of the operands of matrix products."""

PRECISIONS: tuple[Precision, ...] = get_args(Precision)

ELEMENT_BYTES: Mapping[str, float] = MappingProxyType(
    {"fp16": 2.0, "bf16": 2.0, "fp8": 1.0, "mxfp8": 1.0, "int8": 1.0, "fp4": 0.5}
)
"""Bytes of an operand's element."""


def halved(precision: str) -> str:
    """The 16-bit precision of what is not a linear layer, where linear layers compute in ``precision``."""
    return "fp16" if precision == "fp16" else "bf16"
