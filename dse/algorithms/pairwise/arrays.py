"""A core as flat arrays, for kernels."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dse.algorithms.pairwise.core import Core
from dse.algorithms.pairwise.problem import Ints


class CoreArrays(NamedTuple):
    """A core as flat arrays.

    Choice i of node u is number ``starts[u] + i``; the pair (i, j) of edge e is number
    ``pair_starts[e] + i * choices of second[e] + j``.

    Attributes:
        starts: [nodes + 1].
        costs: [choices of all nodes].
        usages: [choices of all nodes].
        first: [edges], the first node of each.
        second: [edges].
        pair_starts: [edges + 1].
        pairs: [pairs of all edges], their costs.
        incident_starts: [nodes + 1], where the edges of each node begin in ``incident``.
        incident: [2 edges], the edges of each node, by rising neighbour.
        row_starts: [nodes + 1], where the memory rows of each node begin in ``rows``.
        rows: [members of all rows].
        limits: [rows].
    """

    starts: Ints
    costs: Ints
    usages: Ints
    first: Ints
    second: Ints
    pair_starts: Ints
    pairs: Ints
    incident_starts: Ints
    incident: Ints
    row_starts: Ints
    rows: Ints
    limits: Ints


def arrays_of(core: Core) -> CoreArrays:
    """``core`` as flat arrays."""
    count, edges = len(core.costs), len(core.edges)
    first, second = np.ascontiguousarray(core.edges[:, 0]), np.ascontiguousarray(core.edges[:, 1])
    ends, others = np.concatenate([first, second]), np.concatenate([second, first])
    order = np.lexsort((others, ends))
    members = _joined(core.members)
    row_of = np.repeat(np.arange(len(core.members)), [len(each) for each in core.members])
    return CoreArrays(
        np.cumsum([0, *map(len, core.costs)]),
        _joined(core.costs),
        _joined(core.usages),
        first,
        second,
        np.cumsum([0, *(each.size for each in core.edge_costs)]),
        _joined([each.ravel() for each in core.edge_costs]),
        np.searchsorted(ends[order], np.arange(count + 1)),
        np.tile(np.arange(edges), 2)[order],
        np.searchsorted(np.sort(members), np.arange(count + 1)),
        row_of[np.argsort(members, kind="stable")],
        core.limits,
    )


def _joined(arrays: "tuple[Ints, ...] | list[Ints]") -> npt.NDArray[np.int64]:
    return np.concatenate(arrays) if len(arrays) else np.zeros(0, np.int64)
