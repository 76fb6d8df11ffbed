"""The form in which solvers take a problem: memory as rows, the sets of nodes that are live together."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import rustworkx

from dse.algorithms.pairwise.problem import FORBIDDEN, Ints, PairwiseProblem


@dataclass(frozen=True, eq=False)
class Core:
    """Minimise ``Σ costs[u][x_u] + Σ edge_costs[u,v][x_u, x_v]`` within the limit of each memory row r.

    A choice of all nodes is within it if ``Σ_{u in members[r]} usages[u][x_u] <= limits[r]``.

    All costs and usages are at least 0. So a sum that reaches :data:`~dse.algorithms.pairwise.problem.FORBIDDEN` may be
    replaced by it: no plan of lower cost contains it.

    Attributes:
        costs: of each node's choices, [choices of u] each.
        usages: of each node's choices, [choices of u] each, in every row that it is a member of.
        edges: [edges, 2], each pair once.
        edge_costs: of each edge, [choices of its first node, choices of its second node].
        members: the nodes of each memory row, rising.
        limits: [rows].
    """

    costs: tuple[Ints, ...]
    usages: tuple[Ints, ...]
    edges: Ints
    edge_costs: tuple[Ints, ...]
    members: tuple[Ints, ...]
    limits: Ints

    @property
    def size(self) -> int:
        """Costs of nodes and edges."""
        return sum(each.size for each in (*self.costs, *self.edge_costs))

    @property
    def min_cost(self) -> int:
        """The sum of the least costs of all nodes and edges: no plan costs less."""
        return sum(int(each.min()) for each in (*self.costs, *self.edge_costs))

    def cost(self, choices: Ints) -> int | None:
        """What ``choices``, [nodes], cost; None if they are not a plan."""
        costs = [int(costs[choice]) for costs, choice in zip(self.costs, choices, strict=True)]
        for (u, v), matrix in zip(self.edges.tolist(), self.edge_costs, strict=True):
            costs.append(int(matrix[choices[u], choices[v]]))
        if max(costs, default=0) >= FORBIDDEN:
            return None
        return None if (self.excess(choices) > 0).any() else sum(costs)

    def excess(self, choices: Ints) -> Ints:
        """By how much ``choices``, [nodes], exceed each limit, [rows]; below 0 where they leave something."""
        usages = np.array([usages[choice] for usages, choice in zip(self.usages, choices, strict=True)], dtype=np.int64)
        loads = [usages[members].sum() for members in self.members]
        return np.array(loads, dtype=np.int64) - self.limits

    def with_rows(self, rows: npt.NDArray[np.bool_]) -> "Core":
        """The core with those of its memory rows that are set in ``rows``."""
        members = tuple(members for members, row in zip(self.members, rows, strict=True) if row)
        return replace(self, members=members, limits=self.limits[rows])

    def components(self) -> list[Ints]:
        """The nodes of each part that neither an edge nor a memory row ties to another, rising."""
        graph = rustworkx.PyGraph()
        graph.add_nodes_from(range(len(self.costs)))
        graph.add_edges_from_no_data(list(map(tuple, self.edges.tolist())))
        for members in self.members:
            graph.add_edges_from_no_data([(int(members[0]), int(each)) for each in members[1:]])
        return [np.array(sorted(part), dtype=np.int64) for part in rustworkx.connected_components(graph)]

    def part(self, nodes: Ints) -> "Core":
        """The core of ``nodes``, one of :meth:`components`, numbered in their order."""
        number = np.full(len(self.costs), -1)
        number[nodes] = np.arange(len(nodes))
        inside = np.flatnonzero(number[self.edges[:, 0]] >= 0)
        rows = [row for row, members in enumerate(self.members) if number[members[0]] >= 0]
        return Core(
            tuple(self.costs[node] for node in nodes),
            tuple(self.usages[node] for node in nodes),
            number[self.edges[inside]],
            tuple(self.edge_costs[edge] for edge in inside),
            tuple(number[self.members[row]] for row in rows),
            self.limits[rows],
        )


def core_of(problem: PairwiseProblem) -> Core:
    """The core of ``problem``, node for node: its memory rows are the time points at which the limit can be exceeded.

    Live sets only grow when an interval starts, so the time of every last start before an end stands for all others.
    """
    members: list[Ints] = []
    if problem.usage_limit is not None:
        largest = np.array([each.max() for each in problem.usages], dtype=np.int64)
        start, end = problem.intervals[:, 0], problem.intervals[:, 1]
        is_live = (start < end) & (largest > 0)
        times = np.unique(start[is_live])
        next_end = np.append(np.unique(end[is_live]), np.iinfo(np.int64).max)
        next_end = next_end[np.searchsorted(next_end, times, side="right")]
        is_last_start = np.append(times[1:], np.iinfo(np.int64).max) >= next_end
        for time in times[is_last_start]:
            nodes = np.flatnonzero(is_live & (start <= time) & (time < end))
            if largest[nodes].sum() > problem.usage_limit:
                members.append(nodes)
    return Core(
        problem.costs,
        problem.usages,
        problem.edges,
        problem.edge_costs,
        tuple(members),
        np.full(len(members), problem.usage_limit or 0, dtype=np.int64),
    )
