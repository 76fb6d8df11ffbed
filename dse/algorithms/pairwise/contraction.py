"""Exact contraction of forbidden pairs: two nodes that they tie together become one, whose choices are what is allowed.

In problems made from real models a third to a half of all pairs are forbidden, and they only say that one tensor's
layout follows from another's. Applied until nothing changes:

* a choice that is forbidden, or has no allowed partner across an edge, is dropped (arc consistency);
* two nodes u, v across an edge with forbidden pairs become one node, whose choices are the allowed pairs (i, j)::

      c(i, j) = c_u(i) + c_v(j) + E_uv(i, j)        usage at any time = that of u's choice i + that of v's choice j
      E_w(i, j, k) = E_uw(i, k) + E_vw(j, k)

  Where each choice of u has one partner, these are u's own choices: v follows from u, and goes without cost. The edge
  that adds fewest choices is contracted first, and none that would make more than :data:`MAX_CHOICES`.

Nothing is lost: plans of both problems are in one-to-one correspondence, with equal costs and equal usage at any time.
A node of the contracted problem uses memory in several intervals, one for each node that went into it
(:class:`Usage`). Times become *rows*, the maximal sets of nodes that are live together, in the order of time.
"""

import heapq
from dataclasses import dataclass

import numpy as np

from dse.algorithms.pairwise.problem import FORBIDDEN, Ints, PairwiseProblem

MAX_CHOICES = 4096
"""The most choices that a contraction may give a node which had fewer."""


@dataclass(frozen=True, eq=False)
class Usage:
    """What a node uses in one interval of rows.

    Attributes:
        first, end: the rows, half-open.
        by_choice: [choices of the node].
    """

    first: int
    end: int
    by_choice: Ints


@dataclass(frozen=True, eq=False)
class Contracted:
    """Minimise ``Σ costs[u][x_u] + Σ edge_costs[u,v][x_u, x_v]`` where each row's usages are at most ``limit``.

    Attributes:
        costs: of each node's choices, [choices of u] each, all allowed.
        usages: of each node, by interval; no interval twice.
        edges: [edges, 2], the smaller node first, in rising order; each pair has an allowed partner.
        edge_costs: of each edge, [choices of its first node, choices of its second node].
        rows: in which memory is counted.
        limit: of each row; 0 where there are no rows.
        origins: for each node of the problem given, its node here.
        choices: for each node of the problem given, its choice by the choice of its node here.
    """

    costs: tuple[Ints, ...]
    usages: tuple[tuple[Usage, ...], ...]
    edges: Ints
    edge_costs: tuple[Ints, ...]
    rows: int
    limit: int
    origins: Ints
    choices: tuple[Ints, ...]

    @property
    def size(self) -> int:
        """Costs of nodes and edges."""
        return sum(each.size for each in (*self.costs, *self.edge_costs))

    def expand(self, choices: Ints) -> Ints:
        """The choices in the problem given, [its nodes], of those here."""
        return np.array(
            [of[choices[node]] for node, of in zip(self.origins.tolist(), self.choices, strict=True)], dtype=np.int64
        )

    def loads(self, choices: Ints) -> Ints:
        """The usage in each row, [rows]."""
        change = np.zeros(self.rows + 1, np.int64)
        for usages, choice in zip(self.usages, choices.tolist(), strict=True):
            for usage in usages:
                change[usage.first] += usage.by_choice[choice]
                change[usage.end] -= usage.by_choice[choice]
        loads: Ints = np.cumsum(change[:-1])
        return loads

    def cost(self, choices: Ints) -> int | None:
        """What ``choices``, [nodes], cost; None if they are not a plan."""
        costs = [int(costs[choice]) for costs, choice in zip(self.costs, choices, strict=True)]
        for (u, v), matrix in zip(self.edges.tolist(), self.edge_costs, strict=True):
            costs.append(int(matrix[choices[u], choices[v]]))
        if max(costs, default=0) >= FORBIDDEN or (self.loads(choices) > self.limit).any():
            return None
        return sum(costs)


def contracted(problem: PairwiseProblem) -> Contracted | None:
    """``problem`` contracted; None if a node has no choice left, so that there is no plan."""
    try:
        return _Contraction(problem).run()
    except _NoPlanError:
        return None


class _NoPlanError(Exception):
    """A node has no choice left."""


@dataclass(frozen=True)
class _Step:
    """How the choices of ``node`` at one time follow from its choices after it, and those of a node that went into it.

    Attributes:
        own: of ``node`` before, by its choice after; None if they are the same.
        gone: the node that went into it, if one did.
        its: the choice of that one, by the choice of ``node`` after.
    """

    node: int
    own: Ints | None
    gone: int | None = None
    its: Ints | None = None


class _Contraction:
    """The state; ``adjacent[u][v]`` is the matrix of an edge, [choices of u, choices of v]."""

    def __init__(self, problem: PairwiseProblem) -> None:
        self.problem = problem
        self.costs = list(problem.costs)
        self.adjacent: list[dict[int, Ints]] = [{} for _ in problem.costs]
        for (u, v), matrix in zip(problem.edges.tolist(), problem.edge_costs, strict=True):
            if matrix.any():
                self.adjacent[u][v], self.adjacent[v][u] = matrix, matrix.T
        self.steps: list[_Step] = []
        self.is_gone = [False] * len(self.costs)
        self.unsettled = {(u, v): None for u, v in problem.edges.tolist() if v in self.adjacent[u]}
        self.heap: list[tuple[int, int, int]] = []

    def run(self) -> Contracted:
        for node, costs in enumerate(self.costs):
            self._keep(node, np.flatnonzero(costs < FORBIDDEN))
        while True:
            self._settle()
            if not self.heap:
                return self._result()
            growth, u, v = heapq.heappop(self.heap)
            if self._growth(u, v) == growth:
                self._merge(u, v)

    def _settle(self) -> None:
        """Drop choices without a partner, and put edges with forbidden pairs on the heap."""
        tied: dict[tuple[int, int], None] = {}
        while self.unsettled:
            (u, v), _ = self.unsettled.popitem()
            matrix = self.adjacent[u].get(v)
            if matrix is None or matrix.max() < FORBIDDEN:
                continue
            is_allowed = matrix < FORBIDDEN
            tied[u, v] = None
            self._keep(u, np.flatnonzero(is_allowed.any(axis=1)))
            self._keep(v, np.flatnonzero(is_allowed.any(axis=0)))
        for u, v in tied:
            growth = self._growth(u, v)
            if growth is not None:
                heapq.heappush(self.heap, (growth, u, v))

    def _keep(self, node: int, choices: Ints) -> None:
        """Drop the other choices of ``node``, where there are any."""
        if len(choices) == len(self.costs[node]):
            return
        if not len(choices):
            raise _NoPlanError
        self.steps.append(_Step(node, choices))
        self.costs[node] = self.costs[node][choices]
        for neighbour, matrix in self.adjacent[node].items():
            self._connect(node, neighbour, matrix[choices])

    def _connect(self, u: int, v: int, matrix: Ints) -> None:
        self.adjacent[u][v], self.adjacent[v][u] = matrix, matrix.T
        self.unsettled[min(u, v), max(u, v)] = None

    def _growth(self, u: int, v: int) -> int | None:
        """By how many choices contraction of an edge adds to the larger node; None where it is not to be contracted."""
        matrix = self.adjacent[u].get(v)
        if matrix is None or matrix.max() < FORBIDDEN:
            return None
        pairs = int(np.count_nonzero(matrix < FORBIDDEN))
        growth = pairs - max(matrix.shape)
        return growth if growth == 0 or pairs <= MAX_CHOICES else None

    def _merge(self, u: int, v: int) -> None:
        """Put one node into the other: the one with fewer choices, of equally many the one with fewer neighbours."""
        if (len(self.costs[u]), len(self.adjacent[u])) < (len(self.costs[v]), len(self.adjacent[v])):
            u, v = v, u
        matrix = self.adjacent[u].pop(v)
        del self.adjacent[v][u]
        own, its = np.nonzero(matrix < FORBIDDEN)
        is_same = len(own) == len(self.costs[u])  # each choice of u has one partner, and they are in order
        self.steps.append(_Step(u, None if is_same else own, v, its))
        self.costs[u] = self.costs[u][own] + self.costs[v][its] + matrix[own, its]
        if not is_same:
            for neighbour, beside in self.adjacent[u].items():
                self._connect(u, neighbour, beside[own])
        for neighbour, beside in self.adjacent[v].items():
            del self.adjacent[neighbour][v]
            moved = beside[its]
            before = self.adjacent[u].get(neighbour)
            # Sums of allowed costs stay below FORBIDDEN, and int64 holds the sum of several forbidden ones.
            self._connect(u, neighbour, moved if before is None else np.minimum(before + moved, FORBIDDEN))
        self.is_gone[v] = True
        self.adjacent[v] = {}

    def _result(self) -> Contracted:
        nodes = [node for node, is_gone in enumerate(self.is_gone) if not is_gone]
        number = {node: place for place, node in enumerate(nodes)}
        origins = np.array([number.get(node, -1) for node in range(len(self.costs))], dtype=np.int64)
        choices: list[Ints] = [np.arange(len(costs)) for costs in self.costs]
        for step in reversed(self.steps):
            after = choices[step.node]
            if step.gone is not None and step.its is not None:
                choices[step.gone] = step.its[after]
                origins[step.gone] = origins[step.node]
            if step.own is not None:
                choices[step.node] = step.own[after]
        ends = [sorted((number[u], number[v])) for u in nodes for v in self.adjacent[u] if u < v]
        matrices = [self.adjacent[nodes[u]][nodes[v]] for u, v in ends]
        order = sorted(range(len(ends)), key=ends.__getitem__)
        first, end = rows_of(self.problem)
        rows = int(end.max(initial=0))
        return Contracted(
            costs=tuple(self.costs[node] for node in nodes),
            usages=self._usages(len(nodes), origins, choices, first, end),
            edges=np.array([ends[edge] for edge in order], dtype=np.int64).reshape(-1, 2),
            edge_costs=tuple(np.ascontiguousarray(matrices[edge]) for edge in order),
            rows=rows,
            limit=(self.problem.usage_limit or 0) if rows else 0,
            origins=origins,
            choices=tuple(choices),
        )

    def _usages(
        self, count: int, origins: Ints, choices: list[Ints], first: Ints, end: Ints
    ) -> tuple[tuple[Usage, ...], ...]:
        """Of each node, by interval."""
        usages: list[dict[tuple[int, int], Ints]] = [{} for _ in range(count)]
        for node, (origin, *span) in enumerate(zip(origins.tolist(), first.tolist(), end.tolist(), strict=True)):
            interval = span[0], span[1]
            if span[0] < span[1]:
                by_choice = self.problem.usages[node][choices[node]]
                before = usages[origin].get(interval)
                usages[origin][interval] = by_choice if before is None else before + by_choice
        return tuple(tuple(Usage(*span, by_choice) for span, by_choice in of.items()) for of in usages)


def rows_of(problem: PairwiseProblem) -> tuple[Ints, Ints]:
    """(the first row in which each node is live, the row after the last one), [nodes] each; equal where it never is.

    Live sets only grow when an interval starts: of all starts without an end between them, the last one stands for all.
    Rows in which the largest usages are within the limit are left out.
    """
    start, end = problem.intervals[:, 0], problem.intervals[:, 1]
    largest = np.array([each.max() for each in problem.usages], dtype=np.int64)
    is_live = (start < end) & (largest > 0)
    if problem.usage_limit is None or not is_live.any():
        return np.zeros(len(start), np.int64), np.zeros(len(start), np.int64)
    starts, ends = np.unique(start[is_live]), np.unique(end[is_live])
    next_end = ends[np.searchsorted(ends, starts, side="right")]
    times = starts[np.append(starts[1:] >= next_end[:-1], True)]
    change = np.zeros(len(times) + 1, np.int64)
    first, after = np.searchsorted(times, start), np.searchsorted(times, end)
    np.add.at(change, first[is_live], largest[is_live])
    np.add.at(change, after[is_live], -largest[is_live])
    kept = np.append(0, np.cumsum(np.cumsum(change[:-1]) > problem.usage_limit))
    return np.where(is_live, kept[first], 0), np.where(is_live, kept[after], 0)
