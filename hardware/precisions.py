"""Precisions of the operands of matrix products."""

from collections.abc import Container, Mapping
from types import MappingProxyType
from typing import Literal, get_args

Precision = Literal["fp16", "bf16", "fp8", "mxfp8", "int8", "fp4"]
"""Of the operands of matrix products."""

PRECISIONS: tuple[Precision, ...] = get_args(Precision)

ELEMENT_BYTES: Mapping[str, float] = MappingProxyType(
    {"fp16": 2.0, "bf16": 2.0, "fp8": 1.0, "mxfp8": 1.0, "int8": 1.0, "fp4": 0.5}
)
"""Bytes of an operand's element."""


def halved(precision: str, known: Container[str] = PRECISIONS) -> str:
    """The 16-bit precision of what is not a linear layer, where linear layers compute in ``precision``.

    That is fp16 on chips of whose ``known`` formats it is the only one.
    """
    is_fp16 = precision == "fp16" or ("bf16" not in known and "fp16" in known)
    return "fp16" if is_fp16 else "bf16"
