"""Resharding: the cheapest sequence of collectives that turns one layout of an array into another.

On one axis: a slice (nothing is sent), an all-gather, or an all-to-all from one dimension to another. On a mesh, each
step changes one axis, which must be the innermost of those that split the dimension, before and after: parts are kept
in order, so nothing else has to move. Of all sequences the one of least time is taken (Dijkstra over the layouts of the
array, at most (rank + 1) ** axes of them), so the triangle inequality holds: no detour is cheaper.
"""

import heapq
from collections.abc import Iterator
from functools import lru_cache
from math import prod
from typing import Literal, NamedTuple

from dse.parallel.mesh import WHOLE, Layout, Mesh
from dse.sharding.factors import Dims
from hardware.inputs import fail
from hardware.network import Network

PICO = 1e-12

MAX_S = 1_000
"""One operation or collective takes less: int64 then holds the products and sums of their picoseconds."""

CollectiveName = Literal["all_reduce", "reduce_scatter", "all_gather", "all_to_all"]


def whole_picoseconds(seconds: float, key: str, spec: str) -> int:
    """The time of one operation or collective in whole picoseconds.

    Args:
        seconds: that it takes.
        key: the option that names what it takes them on, for the error.
        spec: the name of that.

    Raises:
        InputError: :data:`MAX_S` or more, as rates in other units give.
    """
    if not seconds < MAX_S:
        rule = f"is too slow: one operation takes {seconds:,.0f} s; rates must be per second"
        raise fail("dse parallel", key, spec, rule)
    return round(seconds / PICO)


def repeated_picoseconds(times: int, picoseconds: int, key: str, spec: str) -> int:
    """The time of all runs of an operation or of its collectives, in a loop.

    Raises:
        InputError: :data:`MAX_S` or more together; ``key`` and ``spec`` as in :func:`whole_picoseconds`.
    """
    total = times * picoseconds
    if total >= MAX_S / PICO:
        rule = f"is too slow: {times:,} runs of one operation take {total * PICO:,.0f} s; rates must be per second"
        raise fail("dse parallel", key, spec, rule)
    return total


class Collective(NamedTuple):
    """One collective of a plan.

    Attributes:
        kind: its kind.
        axes: the mesh axes along which it runs, by number; several only of an all-reduce.
        size_bytes: of the array that a group of devices along the axes holds together: the input of an all-reduce or a
            reduce-scatter on each device, the output of an all-gather, all parts of an all-to-all.
    """

    kind: CollectiveName
    axes: tuple[int, ...]
    size_bytes: int


class Path(NamedTuple):
    """A sequence of collectives, and what it takes."""

    picoseconds: int
    collectives: tuple[Collective, ...]


class Fabric(NamedTuple):
    """A mesh on a network."""

    mesh: Mesh
    network: Network

    def picoseconds(self, collective: Collective) -> int:
        """The time of a collective, in whole picoseconds.

        Neighbouring axes are one group of devices. Over others an all-reduce is nested: a reduce-scatter along the
        innermost axis, an all-reduce along the others, and an all-gather along the innermost. All groups of the mesh
        run it at once, and share what links their node has.
        """
        seconds = self._seconds(collective.kind, collective.axes, collective.size_bytes)
        return whole_picoseconds(seconds, "--network", self.network.name)

    def _seconds(self, kind: CollectiveName, axes: tuple[int, ...], size_bytes: float) -> float:
        last = self.mesh.axes[axes[-1]]
        if axes == tuple(range(axes[0], axes[-1] + 1)):
            participants = prod(self.mesh.axes[axis].size for axis in axes)
            return self.network.collective_s(kind, size_bytes, participants, last.stride, groups=last.stride)
        ends_s = sum(self._seconds(end, axes[-1:], size_bytes) for end in ("reduce_scatter", "all_gather"))
        return ends_s + self._seconds(kind, axes[:-1], size_bytes / last.size)


def resharding(fabric: Fabric, dims: Dims, size_bytes: int, before: Layout, after: Layout) -> Path:
    """The cheapest way from ``before`` to ``after`` of an array of ``dims`` and ``size_bytes`` in all.

    Raises:
        KeyError: a layout that the array cannot have.
    """
    return paths_from(fabric, dims, size_bytes, before)[after]


@lru_cache(maxsize=200_000)
def paths_from(fabric: Fabric, dims: Dims, size_bytes: int, before: Layout) -> dict[Layout, Path]:
    """The cheapest way from ``before`` to every other layout."""
    paths: dict[Layout, Path] = {}
    waiting: list[tuple[int, int, Layout, tuple[Collective, ...]]] = [(0, 0, before, ())]
    while waiting:
        picoseconds, _, layout, collectives = heapq.heappop(waiting)
        if layout in paths:
            continue
        paths[layout] = Path(picoseconds, collectives)
        for target, collective in steps(fabric.mesh, dims, size_bytes, layout):
            if target not in paths:
                sent = () if collective is None else (collective,)
                cost = picoseconds + sum(map(fabric.picoseconds, sent))
                heapq.heappush(waiting, (cost, len(collectives) + len(sent), target, (*collectives, *sent)))
    return paths


def steps(mesh: Mesh, dims: Dims, size_bytes: int, layout: Layout) -> Iterator[tuple[Layout, Collective | None]]:
    """Every layout that one step makes of ``layout``, and what is sent for it (None: nothing)."""
    for number, axis in enumerate(mesh.axes):
        split = layout[number]
        if split != WHOLE and split in layout[number + 1 :]:
            continue
        together = size_bytes // (mesh.shards(layout) // (axis.size if split != WHOLE else 1))
        for target in (WHOLE, *range(len(dims))):
            after = (*layout[:number], target, *layout[number + 1 :])
            if target == split or (target != WHOLE and (target in layout[number + 1 :] or dims[target] <= 1)):
                continue
            if not mesh.fits(after, dims):
                continue
            if split == WHOLE:
                yield after, None
            else:
                yield after, Collective("all_gather" if target == WHOLE else "all_to_all", (number,), together)
