"""What all forms of kernel times share: rates of a chip, bounds of constants, and how times that overlap add up."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Shapes = Mapping[str, Floats]
"""Arrays of [N] by name."""

Constants = Mapping[str, float]

_PIECE = 1 << 13
"""Kernels that are priced together: their arrays stay in the caches of a core."""


class Rates(NamedTuple):
    """Rates of a chip, each a number or an array of [N].

    Attributes:
        flops_per_s: peak of matrix products in the format of the kernel.
        bytes_per_s: peak of memory.
        processors: how many independent ones share the peak (streaming multiprocessors).
        link_bytes_per_s: peak of a chip's links, in one direction.
    """

    flops_per_s: Any
    bytes_per_s: Any
    processors: Any
    link_bytes_per_s: Any


class Range(NamedTuple):
    """Where a fit looks for a constant, and where it starts."""

    low: float
    start: float
    high: float


@dataclass(frozen=True)
class Form:
    """How the seconds of one class of kernels follow from their shapes.

    Attributes:
        shapes: what names the columns of a shape.
        constants: what is fitted, with its range. A share is one of a peak rate and at most 1.
        seconds: of [N] kernels.
    """

    shapes: tuple[str, ...]
    constants: Mapping[str, Range]
    seconds: Callable[[Shapes, Rates, Constants], Floats]

    def in_pieces(self, shapes: Shapes, rates: Rates, constants: Mapping[str, Any]) -> Floats:
        """As ``seconds``, a piece at a time, of numbers and arrays of [N]."""
        length = max(len(values) for values in shapes.values())
        seconds = np.empty(length)
        for start in range(0, length, _PIECE):
            piece = slice(start, start + _PIECE)
            seconds[piece] = self.seconds(
                {name: _cut(values, piece) for name, values in shapes.items()},
                Rates(*(_cut(rate, piece) for rate in rates)),
                {name: _cut(constant, piece) for name, constant in constants.items()},
            )
        return seconds

    def at_shares(self, compute: Any = 1.0, memory: Any = 1.0, link: Any = 1.0) -> dict[str, Any]:
        """Constants without fixed times at these shares of the peaks, numbers or arrays of [N]."""
        shares = {"compute_share": compute, "memory_share": memory}
        return {name: shares.get(name, _ideal(name, limits, link)) for name, limits in self.constants.items()}


def _cut(value: Any, piece: slice) -> Any:
    """A piece of an array of [N]; what stands for all of them as it is."""
    return value[piece] if np.size(value) > 1 else value


def _ideal(name: str, limits: Range, link: Any) -> Any:
    """The value of a constant at which only the peaks count."""
    if name.endswith("_share"):
        return link
    if name.endswith("_per_s"):
        return np.inf
    if name.endswith(("_s", "_passes")) or name == "tile_half":
        return 0.0
    return limits.high if name == "most_parts" else 1.0


def overlapping(power: float, first: Floats, second: Floats) -> Floats:
    """Seconds of two activities that overlap: at least the longer, at most the sum; ``power`` 1 is the sum."""
    longer, shorter = np.maximum(first, second), np.minimum(first, second)
    ratio = np.divide(shorter, longer, out=np.zeros_like(longer), where=longer > 0)
    return np.asarray(longer * (1.0 + ratio**power) ** (1.0 / power))


def blocks(size: Floats | float, block: float) -> Floats:
    """How many blocks cover ``size``."""
    return np.asarray(np.ceil(np.asarray(size) / block))
