"""What GigaPlacer's compiled steps read of a problem, and the two parts of the cost that its steps compare by."""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dse.wafer.problem import WaferProblem
from dse.wafer.search.gigaplacer.sizing import INPUTS, OUTPUTS, Sizes, image_steps, sizes_of
from dse.wafer.shapes import Ints
from hardware.compiled import compiled, kernel

UNEQUAL = -1
"""The c of a kernel whose convolutions have several: it differs from every other."""


class Instance(NamedTuple):
    """A problem of N kernels and E edges.

    Attributes:
        sizes: of the kernels.
        order: [N] the kernels in topological order.
        rank: [N] the position of each kernel in it.
        edges: [E, 2] producer and consumer.
        first: [N + 1] where the neighbours of each kernel begin in ``joined``.
        joined: [2 E] the neighbours of all kernels, one for each edge.
        weights: [2] of a tile of distance and of an adapter.
    """

    sizes: Sizes
    order: Ints
    rank: Ints
    edges: Ints
    first: Ints
    joined: Ints
    weights: npt.NDArray[np.float64]


def instance_of(problem: WaferProblem) -> Instance:
    """The instance that a problem is."""
    count = len(problem.kernels)
    neighbours: list[list[int]] = [[] for _ in range(count)]
    for source, target in problem.edges:
        neighbours[source].append(target)
        neighbours[target].append(source)
    order = np.array(problem.order, dtype=np.int64)
    return Instance(
        sizes_of(problem),
        order,
        np.argsort(order),
        np.array(problem.edges, dtype=np.int64).reshape(-1, 2),
        np.cumsum([0, *map(len, neighbours)], dtype=np.int64),
        np.array([each for joined in neighbours for each in joined], dtype=np.int64),
        np.array([problem.weights.distance, problem.weights.adapter], dtype=np.float64),
    )


@kernel
def common_c(c, count):
    """The c of all convolutions of a kernel, [V] of which ``count`` count; :data:`UNEQUAL` where they have several."""
    for place in range(1, count):
        if c[place] != c[0]:
            return UNEQUAL
    return c[0]


@kernel
def adapters(h, w, c, other_h, other_w, other_c):
    """How many of (h, w, c) differ between two kernels."""
    return int(h != other_h) + int(w != other_w) + int(c != other_c or c == UNEQUAL)


@compiled
def distance(instance, rows):
    """Twice the distance of kernels in rows: twice a centre is a whole number of tiles."""
    total = 0
    for edge in range(len(instance.edges)):
        one, other = instance.edges[edge, 0], instance.edges[edge, 1]
        total += abs(2 * rows.x[one] + rows.wide[one] - 2 * rows.x[other] - rows.wide[other])
        total += abs(2 * rows.y[one] + rows.high[one] - 2 * rows.y[other] - rows.high[other])
    return total


@compiled
def slowest(instance, rows):
    """The ticks of the slowest kernel, equation (1c)."""
    sizes, most = instance.sizes, 0
    for number in range(len(instance.order)):
        group = sizes.group[number]
        for place in range(sizes.convolutions[group]):
            formal = sizes.formal[group, place]
            rounds = -(-formal[INPUTS] // rows.c[number, place]) * -(-formal[OUTPUTS] // rows.k[number, place])
            most = max(most, image_steps(formal, rows.h[number], rows.w[number]) * rounds)
    return most
