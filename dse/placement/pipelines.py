"""Which numbers of data-parallel pipelines are worth looking at.

For a largest load L and a first stage of W bytes, a batch takes ``L · (ceil(M/d) + s − 1) + κ · W · (1 − 1/d)`` and
more that does not depend on d: a linear function, with coefficients that are not negative, of the point
``(1 − 1/d, ceil(M/d))``. Its minimum over the allowed d is therefore at a vertex of the lower convex hull of their
points. As M/d with integer value lies on one line, these vertices are few (2 to 6), whatever M and K are.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class PipelineChoices:
    """Hull vertices for several limits on d, one after another.

    Vertices of limit number r are at ``offset[r] : offset[r + 1]``, by ascending ``data``: ``data`` pipelines (d),
    ``rounds`` microbatches a pipeline (ceil(M/d)), and ``sync_s_per_byte`` (κ·(1 − 1/d)) seconds of gradient
    synchronisation a byte of the first stage's weights.
    """

    offset: NDArray[np.int64]
    data: NDArray[np.int64]
    rounds: NDArray[np.int64]
    sync_s_per_byte: NDArray[np.float64]


def pipeline_choices(microbatches: int, sync_s_per_byte: float, limits: Iterable[int]) -> PipelineChoices:
    """The useful d in ``1 … min(limit, microbatches)`` for each of ``limits`` (none where the limit is below 1)."""
    wanted = list(limits)
    hulls = _hulls(microbatches, sorted(set(wanted)))
    chosen = [hulls[limit] for limit in wanted]
    data = np.array([d for hull in chosen for d in hull], dtype=np.int64)
    return PipelineChoices(
        offset=np.cumsum([0, *map(len, chosen)], dtype=np.int64),
        data=data,
        rounds=-(-microbatches // np.maximum(data, 1)),
        sync_s_per_byte=sync_s_per_byte * (data - 1) / np.maximum(data, 1),
    )


def _hulls(microbatches: int, limits: list[int]) -> dict[int, tuple[int, ...]]:
    """The hull's d for each of the ascending ``limits``, by one monotone chain with a snapshot at every limit."""
    hulls: dict[int, tuple[int, ...]] = {}
    stack: list[tuple[int, int]] = []
    data = 1
    for limit in limits:
        while data <= min(limit, microbatches):
            rounds = -(-microbatches // data)
            while len(stack) >= 2 and _is_above(stack[-2], stack[-1], (data, rounds)):
                stack.pop()
            stack.append((data, rounds))
            # the smallest d with fewer rounds; of equal rounds the smallest d costs least
            data = -(-microbatches // (rounds - 1)) if rounds > 1 else microbatches + 1
        hulls[limit] = tuple(d for d, _ in stack)
    return hulls


def _is_above(left: tuple[int, int], middle: tuple[int, int], right: tuple[int, int]) -> bool:
    """Whether ``middle`` lies on or above the line from ``left`` to ``right`` over x = −1/d (exact, in integers)."""
    (d0, m0), (d1, m1), (d2, m2) = left, middle, right
    # (m1 − m0)/(x1 − x0) ≥ (m2 − m1)/(x2 − x1) with x_b − x_a = (d_b − d_a)/(d_a · d_b)
    return (m1 - m0) * d0 * (d2 - d1) >= (m2 - m1) * d2 * (d1 - d0)
