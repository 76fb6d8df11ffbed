"""Which numbers of data-parallel pipelines are worth looking at.

For a largest load L and a first stage of W bytes, a batch takes ``L · (ceil(M/d) + s − 1) + W · y(d)`` and more that
does not depend on d, y(d) being the seconds of gradient synchronisation a byte: a linear function, with coefficients
that are not negative, of the point ``(y(d), ceil(M/d))``. Its minimum over the allowed d is therefore at a vertex of
the lower convex hull of their points, regardless of the shape of y. As y never falls with d, only the smallest d of
each ceil(M/d) can be one. On a flat network ``y = κ · (1 − 1/d)``, M/d with integer value lies on one line, and the
vertices are few (2 to 6), whatever M and K are.

Under 1F1B all d share one memory rule. Under GPipe the rule depends on ceil(M/d), and so the d fall into ranges.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dse.placement.problem import PlacementProblem


@dataclass(frozen=True)
class GradientSync:
    """Gradient synchronisation of one width (:mod:`dse.placement.problem`) as a function of the number of pipelines d.

    ``s_per_byte`` is factor / network bandwidth, ``node_replicas`` the largest number of replicas in a node (1 on a
    flat network), ``node_ratio`` the network's bandwidth over the node's, exactly.
    """

    s_per_byte: float
    node_replicas: int = 1
    node_ratio: Fraction = Fraction(0)

    def share(self, data: int) -> tuple[int, int]:
        """y(data) / s_per_byte as an exact (numerator, denominator)."""
        together = min(data, self.node_replicas)
        nodes = -(-data // together)
        inside, unit = self.node_ratio.as_integer_ratio()
        return (together - 1) * nodes * inside + (nodes - 1) * unit, together * nodes * unit

    def seconds_per_byte(self, data: NDArray[np.int64]) -> NDArray[np.float64]:
        """y(d) for each d ≥ 1 of ``data``."""
        together = np.minimum(data, self.node_replicas)
        nodes = -(-data // together)
        inside = self.s_per_byte * float(self.node_ratio) * (together - 1) / together
        return np.asarray(inside + self.s_per_byte * (nodes - 1) / (nodes * together))


def gradient_sync(problem: PlacementProblem, tensor: int) -> GradientSync:
    """Gradient synchronisation at one width."""
    s_per_byte = problem.gradient_sync_factor / problem.network_bytes_per_s
    replicas = problem.node_accelerators // tensor
    if replicas < 2:
        return GradientSync(s_per_byte)
    ratio = Fraction(problem.network_bytes_per_s) / Fraction(problem.node_bytes_per_s)
    return GradientSync(s_per_byte, replicas, ratio)


@dataclass(frozen=True)
class PipelineRange:
    """Numbers of pipelines, ``min_data`` to ``max_data``, for which memory follows one rule.

    The s-th stage from the end stashes ``stashes + growth · (s − 1)`` microbatches; layers that are recomputed one by
    one leave their inputs in that of the current microbatch too.
    """

    min_data: int
    max_data: int
    stashes: int
    growth: int


def pipeline_ranges(problem: PlacementProblem, limit: int) -> list[PipelineRange]:
    """What d up to ``limit`` are worth looking at: one range under 1F1B, under GPipe one for each ceil(M/d), ascending.

    Of all d with one ceil(M/d) the smallest is enough: it needs the fewest accelerators and synchronises least.
    """
    max_data = min(limit, problem.microbatches)
    if problem.pipeline_schedule == "1f1b":
        return [PipelineRange(1, max_data, 1 if problem.recomputes_layers else 0, 1)]
    ranges = []
    data = 1
    while data <= max_data:
        rounds = -(-problem.microbatches // data)
        ranges.append(PipelineRange(data, data, rounds, 0))
        data = _next_data(problem.microbatches, rounds)
    return ranges[::-1]


@dataclass(frozen=True)
class PipelineChoices:
    """Hull vertices for several limits on d, one after another.

    Vertices of limit number r are at ``offset[r] : offset[r + 1]``, by ascending ``data``: ``data`` pipelines (d),
    ``rounds`` microbatches a pipeline (ceil(M/d)), and ``sync_s_per_byte`` (y(d)) seconds of gradient synchronisation
    a byte of the first stage's weights.
    """

    offset: NDArray[np.int64]
    data: NDArray[np.int64]
    rounds: NDArray[np.int64]
    sync_s_per_byte: NDArray[np.float64]


def pipeline_choices(
    microbatches: int, sync: GradientSync, limits: Iterable[int], min_data: int = 1, max_data: int | None = None
) -> PipelineChoices:
    """The useful d in ``min_data … min(limit, max_data, microbatches)`` for each of ``limits`` (none if it is empty).

    ``min_data`` must be the smallest d with its ceil(M/d).
    """
    wanted = [limit if max_data is None else min(limit, max_data) for limit in limits]
    hulls = _hulls(microbatches, sync, min_data, sorted(set(wanted)))
    chosen = [hulls[limit] for limit in wanted]
    data = np.array([d for hull in chosen for d in hull], dtype=np.int64)
    return PipelineChoices(
        offset=np.cumsum([0, *map(len, chosen)], dtype=np.int64),
        data=data,
        rounds=-(-microbatches // data),
        sync_s_per_byte=sync.seconds_per_byte(data),
    )


_Vertex = tuple[int, int, int, int]
"""(d, ceil(M/d), numerator and denominator of the synchronisation's share)."""


def _hulls(microbatches: int, sync: GradientSync, min_data: int, limits: list[int]) -> dict[int, tuple[int, ...]]:
    """The hull's d for each of the ascending ``limits``, by one monotone chain with a snapshot at every limit."""
    hulls: dict[int, tuple[int, ...]] = {}
    stack: list[_Vertex] = []
    data = min_data
    for limit in limits:
        while data <= min(limit, microbatches):
            rounds = -(-microbatches // data)
            vertex = (data, rounds, *sync.share(data))
            while len(stack) >= 2 and _is_above(stack[-2], stack[-1], vertex):
                stack.pop()
            stack.append(vertex)
            data = _next_data(microbatches, rounds)
        hulls[limit] = tuple(vertex[0] for vertex in stack)
    return hulls


def _next_data(microbatches: int, rounds: int) -> int:
    """The smallest d with less than ``rounds`` microbatches a pipeline (beyond ``microbatches`` if there is none)."""
    return -(-microbatches // (rounds - 1)) if rounds > 1 else microbatches + 1


def _is_above(left: _Vertex, middle: _Vertex, right: _Vertex) -> bool:
    """Whether ``middle`` lies on or above the line from ``left`` to ``right`` (exact, in integers)."""
    (_, m0, a0, b0), (_, m1, a1, b1), (_, m2, a2, b2) = left, middle, right
    # (m1 − m0) · (x2 − x1) ≥ (m2 − m1) · (x1 − x0) with x = a / b
    return (m1 - m0) * (a2 * b1 - a1 * b2) * b0 >= (m2 - m1) * (a1 * b0 - a0 * b1) * b2
