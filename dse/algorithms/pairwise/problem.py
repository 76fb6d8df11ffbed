"""The problem: one choice for each node, at the least sum of node costs and pairwise edge costs, within a memory limit.

Costs and usages are whole numbers (int64), so that a plan is proven to the unit: whoever has costs in seconds states
them in nanoseconds. A cost of :data:`FORBIDDEN` or more is not a cost but excludes the choice, or the pair of choices.
The largest allowed costs of all nodes and edges together must stay below it, so that no sum of allowed costs is
mistaken for an excluded one, and int64 holds the sum of a few.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

FORBIDDEN = 10**17
"""The cost that excludes a choice or a pair; larger ones, and infinity, are replaced by it."""

MAX_TOTAL_USAGE = 2**60
"""The largest usages of all nodes together stay below this, so that int64 holds every sum."""

NO_INTERVAL = (0, 0)
"""The interval of a node that never uses memory."""


class TotalCostError(ValueError):
    """The largest allowed costs add up to :data:`FORBIDDEN` or more."""

    def __init__(self, total: int) -> None:
        super().__init__(f"costs: the largest allowed costs must add up to less than 1e17, but add up to {total}")
        self.total = total


@dataclass(frozen=True, eq=False)
class PairwiseProblem:
    """Minimise ``Σ_u costs[u][x_u] + Σ_{(u,v)} edge_costs[u,v][x_u, x_v]`` over choices x.

    At every time t the usages of the nodes that are live, ``Σ usages[u][x_u]`` over u with start <= t < end, must not
    exceed ``usage_limit``. Made by :meth:`build`, which checks it.

    Attributes:
        costs: of each node's choices, [choices of u] each, 0 to :data:`FORBIDDEN`.
        usages: of memory by each node's choices, [choices of u] each, not negative.
        intervals: [nodes, 2], start and end; the same number twice where the node never uses memory.
        edges: [edges, 2], each pair once, the smaller node first, in rising order.
        edge_costs: of each edge, [choices of its first node, choices of its second node].
        usage_limit: None if memory is not limited.
        name: for people.
    """

    costs: tuple[Ints, ...]
    usages: tuple[Ints, ...]
    intervals: Ints
    edges: Ints
    edge_costs: tuple[Ints, ...]
    usage_limit: int | None
    name: str = ""

    @classmethod
    def build(
        cls,
        costs: Sequence[npt.ArrayLike],
        edges: Sequence[tuple[int, int]] = (),
        edge_costs: Sequence[npt.ArrayLike] = (),
        usages: Sequence[npt.ArrayLike] | None = None,
        intervals: Sequence[tuple[int, int]] | Ints | None = None,
        usage_limit: int | None = None,
        name: str = "",
    ) -> "PairwiseProblem":
        """The problem of these numbers; the costs of parallel edges, in either direction, are added up.

        Args:
            costs: of each node's choices; whole numbers or infinity.
            edges: pairs of different nodes, in any order and direction, and repeatedly.
            edge_costs: of each edge, as a matrix or flat, row-major in the first node.
            usages: of memory by each node's choices; None if none uses any.
            intervals: half-open, in which each node uses memory; None if none does.
            usage_limit: of the sum of usages at any time; None if there is none.
            name: for people.

        Raises:
            TotalCostError: the costs are too large in all.
            ValueError: a number breaks another rule of the class, or two lengths do not agree.
        """
        node_costs = tuple(cost_array(each, f"costs[{node}]").ravel() for node, each in enumerate(costs))
        sizes = [len(each) for each in node_costs]
        if 0 in sizes:
            raise ValueError(f"costs[{sizes.index(0)}]: a node must have at least one choice")
        node_usages = _usages(usages, sizes)
        spans = np.array(intervals if intervals is not None else [NO_INTERVAL] * len(sizes), dtype=np.int64)
        spans = spans.reshape(-1, 2)
        if len(spans) != len(sizes):
            raise ValueError(f"intervals: must have an entry for each of {len(sizes)} nodes, but has {len(spans)}")
        if reversed_nodes := np.flatnonzero(spans[:, 0] > spans[:, 1]).tolist():
            raise ValueError(f"intervals[{reversed_nodes[0]}]: start <= end must hold")
        if usage_limit is not None and usage_limit < 0:
            raise ValueError(f"usage_limit: must not be negative, but is {usage_limit}")
        merged = _merged(edges, edge_costs, sizes)
        pairs = sorted(merged)
        problem = cls(
            node_costs,
            node_usages,
            spans,
            np.array(pairs, dtype=np.int64).reshape(-1, 2),
            tuple(merged[pair] for pair in pairs),
            None if usage_limit is None else int(usage_limit),
            name,
        )
        total = sum(_largest_allowed(each) for each in (*problem.costs, *problem.edge_costs))
        if total >= FORBIDDEN:
            raise TotalCostError(total)
        if sum(int(each.max()) for each in node_usages) >= MAX_TOTAL_USAGE:
            raise ValueError("usages: the largest usages must add up to less than 2**60")
        return problem

    def __eq__(self, other: object) -> bool:
        """Whether all numbers and the name are the same."""
        if not isinstance(other, PairwiseProblem):
            return NotImplemented
        return (
            (self.name, self.usage_limit) == (other.name, other.usage_limit)
            and _same((self.intervals, self.edges), (other.intervals, other.edges))
            and _same(self.costs, other.costs)
            and _same(self.usages, other.usages)
            and _same(self.edge_costs, other.edge_costs)
        )

    @property
    def node_count(self) -> int:
        """The number of nodes."""
        return len(self.costs)


def cost_array(costs: npt.ArrayLike, where: str) -> Ints:
    """``costs`` as int64, those that forbid as :data:`FORBIDDEN`.

    Raises:
        ValueError: one is negative or no whole number; the message begins with ``where``.
    """
    array = np.asarray(costs)
    if array.dtype == np.int64:  # most are, and large problems have a hundred thousand of them
        if array.size and array.min() < 0:
            raise ValueError(f"{where}: costs must be at least 0 and not NaN")
        limited: Ints = np.minimum(array, FORBIDDEN)
        return limited
    if array.dtype == object:  # integers beyond int64
        array = np.array([min(each, FORBIDDEN) for each in array.ravel()], dtype=np.int64).reshape(array.shape)
    if array.dtype.kind not in "iuf":
        if array.size:
            raise ValueError(f"{where}: costs must be numbers")
        array = array.astype(np.int64)
    if not (array >= 0).all():
        raise ValueError(f"{where}: costs must be at least 0 and not NaN")
    array = np.minimum(array, FORBIDDEN)
    whole: Ints = array.astype(np.int64)
    if (whole != array).any():
        raise ValueError(f"{where}: costs must be whole numbers")
    return whole


def _usages(usages: Sequence[npt.ArrayLike] | None, sizes: list[int]) -> tuple[Ints, ...]:
    if usages is None:
        return tuple(np.zeros(size, np.int64) for size in sizes)
    arrays = tuple(np.array(each, dtype=np.int64).ravel() for each in usages)
    if len(arrays) != len(sizes):
        raise ValueError(f"usages: must have an entry for each of {len(sizes)} nodes, but has {len(arrays)}")
    for node, (array, size) in enumerate(zip(arrays, sizes, strict=True)):
        if len(array) != size:
            raise ValueError(f"usages[{node}]: must have an entry for each of {size} choices, but has {len(array)}")
        if array.min() < 0:
            raise ValueError(f"usages[{node}]: must not be negative")
    return arrays


def _merged(
    edges: Sequence[tuple[int, int]], edge_costs: Sequence[npt.ArrayLike], sizes: list[int]
) -> dict[tuple[int, int], Ints]:
    """(smaller node, larger node) → costs, the sum of all parallel edges."""
    if len(edges) != len(edge_costs):
        raise ValueError(f"edge_costs: must have an entry for each of {len(edges)} edges, but has {len(edge_costs)}")
    merged: dict[tuple[int, int], Ints] = {}
    for number, ((first, second), costs) in enumerate(zip(edges, edge_costs, strict=True)):
        u, v = int(first), int(second)
        if not (0 <= u < len(sizes) and 0 <= v < len(sizes)):
            raise ValueError(f"edges[{number}]: nodes must be from 0 to {len(sizes) - 1}, but are {u}, {v}")
        if u == v:
            raise ValueError(f"edges[{number}]: must join two different nodes, but both are {u}")
        matrix = cost_array(costs, f"edge_costs[{number}]")
        if matrix.size != sizes[u] * sizes[v]:
            raise ValueError(f"edge_costs[{number}]: must have {sizes[u]} x {sizes[v]} costs, but has {matrix.size}")
        matrix = matrix.reshape(sizes[u], sizes[v])
        if u > v:
            u, v, matrix = v, u, np.ascontiguousarray(matrix.T)
        merged[u, v] = np.minimum(merged[u, v] + matrix, FORBIDDEN) if (u, v) in merged else matrix
    return merged


def _largest_allowed(costs: Ints) -> int:
    return int(np.max(costs, initial=0, where=costs < FORBIDDEN))


def _same(first: Sequence[Ints], second: Sequence[Ints]) -> bool:
    return len(first) == len(second) and all(map(np.array_equal, first, second))
