"""H, W, R, S and T of a convolution, where a kernel of the contest counts its time and its memory exactly.

A kernel's time has H · W · R · S / T² products for each pair of features, and its memory the (H + R − 1)(W + S − 1)
points of the image that it reads, with the usual padding. A convolution that makes h × w points with strides t and u
makes h · w · R · S products and reads (t · h + R − 1)(u · w + S − 1) points. So

- *strides*: H = t · h and W = u · w with T² = t · u say both exactly, if T is whole: 2 × 2, but also 1 × 4 or 9 in one
  dimension.
- *stride and dilation* with a common divisor g: only every g-th point is read, so that both are those of the image of
  these points, divided by g.
- *dilation* d along a window of one row, at strides of 1: points that are d apart are never read together with others,
  so the row is d rows of a d-th of its length, its phases, each read by a window without gaps: H = d · h, W = w / d.
  These rows with their padding, d · (w / d + S − 1), are the w + d · (S − 1) points that are read. The length must be a
  multiple of d. Columns alike.

A window with gaps in both directions needs a kernel for each of its phases, so it is none; nor is anything else.
"""

from math import gcd, isqrt

Pair = tuple[int, int]
"""Up and across."""


class InexactError(ValueError):
    """No kernel counts a convolution exactly; the message states the rule."""


def convolution_sizes(made: Pair, window: Pair, strides: Pair, dilation: Pair) -> dict[str, int]:
    """The formal parameters H, W, R, S and T; O(1).

    Args:
        made: points of the image that is made.
        window: weights.
        strides: points between two windows.
        dilation: points between two weights of a window.

    Raises:
        InexactError: no kernel takes its time and its memory.
    """
    strides, gaps = _reduced(window, strides, dilation)
    if max(gaps) > 1:
        return _phases(made, window, strides, gaps)
    height, width = (stride * side for stride, side in zip(strides, made, strict=True))
    root = isqrt(strides[0] * strides[1])
    if root**2 != strides[0] * strides[1]:
        product = f"the product of the strides must be a square, T², but the strides are {strides[0]} × {strides[1]}"
        raise InexactError(f"{product}: a kernel has the same T in both directions")
    return {"H": height, "W": width, "R": window[0], "S": window[1], "T": root}


def _reduced(window: Pair, strides: Pair, dilation: Pair) -> tuple[Pair, Pair]:
    """Strides and dilation of the points that are read; a window of one weight has no gaps."""
    steps = []
    for size, stride, apart in zip(window, strides, dilation, strict=True):
        gap = apart if size > 1 else 1
        common = gcd(stride, gap)
        steps.append((stride // common, gap // common))
    (up, high), (across, wide) = steps
    return (up, across), (high, wide)


def _phases(made: Pair, window: Pair, strides: Pair, gaps: Pair) -> dict[str, int]:
    """A window of one row or column, over the phases of the rows or columns."""
    along = 0 if gaps[0] > 1 else 1
    gap, length = gaps[along], made[along]
    if gaps[1 - along] > 1 or window[1 - along] > 1:
        shown = f"{gaps[0]} × {gaps[1]}"
        raise InexactError(f"must not be dilated, but the dilation is {shown}: kernel types have no dilation")
    if max(strides) > 1:
        raise InexactError(f"with dilation {gap}, strides must be 1, but are {strides[0]} × {strides[1]}")
    if length % gap:
        raise InexactError(f"dilation {gap} must divide the output length {length}")
    sides = [made[0] * gap, made[1] * gap]
    sides[along] = length // gap
    return {"H": sides[0], "W": sides[1], "R": window[0], "S": window[1], "T": 1}
