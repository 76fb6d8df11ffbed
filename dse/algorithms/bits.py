"""Sets of numbers below 64 as words of 64 bits: the kernels that read them."""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

_NONE = ir.Constant(ir.IntType(1), 0)


def _counting(count: Callable[[Any, Any], Any]) -> Any:
    """The kernel of one instruction of the processor: ``count`` of (its builder, the word)."""

    def described(_context: Any, _word: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return count(builder, arguments[0])

        return types.uint64(types.uint64), generate

    return intrinsic(described)


lowest = _counting(lambda builder, word: builder.cttz(word, _NONE))
"""The number of the lowest set bit of a word that has one."""

leading = _counting(lambda builder, word: builder.ctlz(word, _NONE))
"""How many bits above the highest set one of a word are not set."""

size = _counting(lambda builder, word: builder.ctpop(word))
"""How many bits of a word are set."""


@njit(inline="always")
def bit(number):
    """The set of one number."""
    return np.uint64(1) << np.uint64(number)


@njit(inline="always")
def interval(low, high):
    """The numbers low … high, of which there is at least one."""
    return (np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(63 - high)) & (np.uint64(0xFFFFFFFFFFFFFFFF) << np.uint64(low))
