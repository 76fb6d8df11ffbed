"""Windows that move over an array: those of convolutions, ``reduce-window`` and ``select-and-scatter``."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from dse.sharding.factors import Dims, Shapes

_PARTS = re.compile(r"(\w+)=([\w\-x]+)")


class WindowDim(NamedTuple):
    """A window along one dimension, by the words of HLO text.

    Attributes:
        size: elements that it takes.
        stride: by how many elements it moves.
        low, high: elements that padding adds before and after the array; negative ones are taken away.
        lhs_dilate: the distance of the array's elements in the padded array.
        rhs_dilate: the distance of the window's own elements.
    """

    size: int
    stride: int
    low: int
    high: int
    lhs_dilate: int
    rhs_dilate: int

    @property
    def is_plain(self) -> bool:
        """Whether it takes single elements in order, without padding."""
        return self == _PLAIN

    def positions(self, size: int) -> int:
        """The positions that it has on an array of ``size`` elements (XLA's shape inference, ``StridedBound``)."""
        dilated = (size - 1) * self.lhs_dilate + 1 if size else 0
        room = self.low + dilated + self.high - ((self.size - 1) * self.rhs_dilate + 1)
        return max(0, room // self.stride + 1)


_PLAIN = WindowDim(1, 1, 0, 0, 1, 1)


def window_of(shapes: Shapes, rank: int) -> list[WindowDim]:
    """The window of an operation that moves over ``rank`` dimensions.

    Raises:
        RuleError: a window of another number of dimensions, or of numbers that no window has.
    """
    parts = {key: part.split("x") for key, part in _PARTS.findall(shapes.text("window"))}
    stated = {len(part) for key, part in parts.items() if key in _KEYS}
    shapes.require(stated <= {rank}, f"the window must have {rank} dimensions: {shapes.text('window')}")
    window = [_dim({key: part[dim] for key, part in parts.items() if key in _KEYS}) for dim in range(rank)]
    positive = all(min(each.size, each.stride, each.lhs_dilate, each.rhs_dilate) > 0 for each in window)
    shapes.require(positive, f"sizes, strides and dilations must be positive: {shapes.text('window')}")
    return window


_KEYS = ("size", "stride", "pad", "lhs_dilate", "rhs_dilate")


def _dim(texts: dict[str, str]) -> WindowDim:
    low, high = map(int, texts.get("pad", "0_0").split("_"))
    size, stride, lhs_dilate, rhs_dilate = (
        int(texts.get(key, "1")) for key in ("size", "stride", "lhs_dilate", "rhs_dilate")
    )
    return WindowDim(size, stride, low, high, lhs_dilate, rhs_dilate)


def require_positions(shapes: Shapes, window: Sequence[WindowDim], moved_over: Dims, result: Dims) -> None:
    """Raises where ``result`` is not what ``window`` has positions on an array of the sizes ``moved_over``."""
    for dim, (each, size, positions) in enumerate(zip(window, moved_over, result, strict=True)):
        expected = each.positions(size)
        padded = size if each.lhs_dilate == 1 else (size - 1) * each.lhs_dilate + 1
        shapes.require(
            expected == positions,
            f"a window of {(each.size - 1) * each.rhs_dilate + 1} has {expected} positions on "
            f"{max(0, each.low + padded + each.high)} padded elements along {dim}, but the result has {positions}",
        )
