"""The checker's prices of what is sent: collectives along mesh axes, and the ways between the layouts of an array.

They are worked out from the mesh and the network alone, and share nothing with the search
(:mod:`dse.parallel.resharding`) but the prices of collectives (:mod:`hardware.network`).
"""

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod

import numpy as np

from dse.parallel.mesh import Layout
from dse.parallel.problem import ParallelProblem
from dse.sharding.factors import Dims
from hardware.operations import CollectiveKind

_FAR = 2**60
"""More than any time in picoseconds: there is no such step."""


class Sending:
    """What is sent over the mesh of a problem; times in picoseconds."""

    def __init__(self, problem: ParallelProblem) -> None:
        self._problem = problem
        self._sizes = [axis.size for axis in problem.mesh.axes]
        self._distances: dict[tuple[Dims, int], Mapping[tuple[Layout, Layout], int]] = {}

    def distances(self, dims: Dims, size: int) -> Mapping[tuple[Layout, Layout], int]:
        """The least time from each layout of an array of so many bytes to each other one."""
        if (dims, size) not in self._distances:
            self._distances[dims, size] = self._all_distances(dims, size)
        return self._distances[dims, size]

    def parts(self, layout: Layout, dim: int) -> int:
        """Into how many parts a layout splits a dimension."""
        return prod(size for size, split in zip(self._sizes, layout, strict=True) if split == dim)

    def shards(self, layout: Layout) -> int:
        """Into how many parts a layout splits an array."""
        return prod(size for size, split in zip(self._sizes, layout, strict=True) if split >= 0)

    def collective_ps(self, kind: CollectiveKind, axis: int, size: int) -> int:
        """A collective along one axis."""
        each = self._problem.mesh.axes[axis]
        seconds = self._problem.network.collective_s(kind, size, each.size, each.stride, groups=each.stride)
        return round(seconds * 1e12)

    def all_reduce_ps(self, axes: Sequence[int], size: int) -> int:
        """An all-reduce along axes: neighbours as one; of others the inner ones scatter first and gather last."""
        inside_s = 0.0
        left: float = size
        outermost, *others = axes
        group = [outermost]
        for axis in others:
            if axis == group[-1] + 1 and group[0] == outermost:
                group.append(axis)
        for axis in reversed([axis for axis in axes if axis not in group]):
            each = self._problem.mesh.axes[axis]
            for kind in ("reduce_scatter", "all_gather"):
                inside_s += self._problem.network.collective_s(kind, left, each.size, each.stride, each.stride)
            left /= each.size
        members = prod(self._sizes[axis] for axis in group)
        stride = self._problem.mesh.axes[group[-1]].stride
        across_s = self._problem.network.collective_s("all_reduce", left, members, stride, stride)
        return round((inside_s + across_s) * 1e12)

    def _all_distances(self, dims: Dims, size: int) -> Mapping[tuple[Layout, Layout], int]:
        """The least time between all layouts of an array (Floyd and Warshall)."""
        layouts = [
            layout
            for layout in product(range(-1, len(dims)), repeat=len(self._sizes))
            if all(dim < 0 or (dims[dim] > 1 and dims[dim] % self.parts(layout, dim) == 0) for dim in layout)
        ]
        number = {layout: place for place, layout in enumerate(layouts)}
        distance = np.full((len(layouts), len(layouts)), _FAR)
        for one, other in product(layouts, repeat=2):
            changed = [axis for axis in range(len(self._sizes)) if one[axis] != other[axis]]
            if len(changed) <= 1:
                step_ps = self._one_step_ps(one, other, changed[0], size) if changed else 0
                distance[number[one], number[other]] = step_ps
        for middle in range(len(layouts)):
            distance = np.minimum(distance, distance[:, middle, None] + distance[None, middle, :])
        return {(one, other): int(distance[number[one], number[other]]) for one, other in product(layouts, repeat=2)}

    def _one_step_ps(self, one: Layout, other: Layout, axis: int, size: int) -> int:
        """The time to change one axis, if it is the innermost one along both dimensions."""
        inner = one[axis + 1 :]
        if (one[axis] >= 0 and one[axis] in inner) or (other[axis] >= 0 and other[axis] in inner):
            return _FAR
        if one[axis] < 0:
            return 0
        together = size // (self.shards(one) // self._sizes[axis])
        return self.collective_ps("all_gather" if other[axis] < 0 else "all_to_all", axis, together)
