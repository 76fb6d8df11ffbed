"""The order of a layer's operators: ancestors, the edges that matter, and where the layer falls apart in series."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import rustworkx as rx

from dse.graph.named_edges import find_cycle

Edges = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Precedence:
    """The transitive closure of a layer's edges and its decomposition in series.

    ``ancestor[i, j]`` says that operator j must finish before operator i starts. ``order`` is a topological order.
    ``segments`` partitions ``order``: every operator of a segment precedes every operator of the next one, so a
    schedule runs the segments in sequence and the makespans of the segments add up. An operator comparable
    with all others is a segment of its own.
    """

    ancestor: npt.NDArray[np.bool_]
    order: npt.NDArray[np.int64]
    segments: tuple[npt.NDArray[np.int64], ...]

    @property
    def covers(self) -> npt.NDArray[np.bool_]:
        """``covers[i, j]``: j is a direct ancestor of i, with none between (the transitive reduction)."""
        closure = self.ancestor.astype(np.float32)
        return np.asarray(self.ancestor & ~(closure @ closure > 0))


def precedence(operators: int, edges: Edges) -> Precedence:
    """The :class:`Precedence` of ``operators`` operators under ``edges`` (from, to), by position.

    Raises:
        ValueError: the edges close a cycle, which :func:`dse.graph.named_edges.find_cycle` names.
    """
    graph: rx.PyDiGraph[None, None] = rx.PyDiGraph()
    graph.add_nodes_from([None] * operators)
    graph.add_edges_from_no_data(list(edges))
    try:
        topological = rx.topological_sort(graph)
    except rx.DAGHasCycle as error:
        cycle = find_cycle(operators, edges)
        raise ValueError(f"edges must not form a cycle, but positions {cycle} do") from error
    ancestor = np.zeros((operators, operators), dtype=np.bool_)
    for position in topological:
        for before in graph.predecessor_indices(position):
            ancestor[position] |= ancestor[before]
            ancestor[position, before] = True
    order = np.argsort(ancestor.sum(axis=1), kind="stable").astype(np.int64)
    return Precedence(ancestor, order, _segments(ancestor, order))


def _segments(ancestor: npt.NDArray[np.bool_], order: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], ...]:
    """Cuts ``order`` after every prefix of operators that precede all the others.

    An operator that has the whole prefix as ancestors comes after it in ``order``, which sorts by the number of
    ancestors, so the prefixes of ``order`` are the only candidates.
    """
    count = len(order)
    arranged = ancestor[np.ix_(order, order)]
    segments, begin = [], 0
    for end in range(1, count + 1):
        if bool(arranged[end:, begin:end].all()):
            segments.append(order[begin:end])
            begin = end
    return tuple(segments)
