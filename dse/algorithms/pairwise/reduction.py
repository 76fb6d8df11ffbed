"""Exact reduction: a smaller core whose optimum, with a constant, is that of the core given, and the way back.

Applied until nothing changes:

* the smallest cost of each row and column of an edge's matrix moves into the costs of its nodes; an edge whose matrix
  is then zero goes;
* a choice that is forbidden, has no allowed partner across an edge, or alone exceeds a memory limit, is dropped;
* a choice is dropped that another one dominates: it uses no less memory, and costs no less for any choice of the
neighbours
  choose, c(b) − c(a) + Σ_v min_j (E_v(b, j) − E_v(a, j)) >= 0 (Goldstein's dead-end elimination);
* a node that uses no memory, or has one choice, and has at most two neighbours, is eliminated: the best of its costs
  becomes a cost of its neighbours (bucket elimination);
* the least usage of a node is taken off the limits of its rows; a row that cannot be exceeded, or whose members are
  among those of another that leaves no more, goes.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dse.algorithms.pairwise.core import Core
from dse.algorithms.pairwise.problem import FORBIDDEN, Ints
from dse.algorithms.pairwise.reduction_kernels import best_middle, undominated
from dse.run.progress import StopSignal, never_stop

_Undo = Callable[[Ints], None]
"""Completes a vector of choices, by the numbers of the core that was reduced."""


@dataclass(frozen=True)
class Reduction:
    """What a core was reduced to.

    Attributes:
        core: the smaller one.
        constant: what its costs lack: cost in the core given = cost in ``core`` + ``constant``.
    """

    core: Core
    constant: int
    _nodes: Ints
    _choices: tuple[Ints, ...]
    _undo: tuple[_Undo, ...]
    _node_count: int

    def expand(self, choices: Ints) -> Ints:
        """The choices in the core given, [its nodes], of those in :attr:`core`."""
        full = np.full(self._node_count, -1, dtype=np.int64)
        for node, labels, choice in zip(self._nodes, self._choices, choices, strict=True):
            full[node] = labels[choice]
        for undo in reversed(self._undo):
            undo(full)
        return full


def reduce(core: Core, stop: StopSignal = never_stop) -> Reduction | None:
    """``core`` reduced; None if it has no plan.

    Args:
        core: to be reduced.
        stop: checked before each node. A reason leaves the core as reduced by then, with the same optimum,
            but perhaps with choices that are forbidden or have no partner.
    """
    try:
        return _Reducer(core).run(stop)
    except _NoPlanError:
        return None


class _NoPlanError(Exception):
    """A node has no choice left, or the least usages exceed a limit."""


class _Reducer:
    """The state of a reduction; ``adjacent[u][v]`` is the matrix of an edge, [choices of u, choices of v]."""

    def __init__(self, core: Core) -> None:
        self.costs = list(core.costs)
        self.usages = list(core.usages)
        self.labels = [np.arange(len(each)) for each in core.costs]
        self.adjacent: list[dict[int, Ints]] = [{} for _ in core.costs]
        for (u, v), matrix in zip(core.edges.tolist(), core.edge_costs, strict=True):
            self.adjacent[u][v], self.adjacent[v][u] = matrix, matrix.T
        self.members = {row: set(members.tolist()) for row, members in enumerate(core.members)}
        self.limits = core.limits.tolist()
        self.rows: list[set[int]] = [set() for _ in core.costs]
        for row, members in self.members.items():
            for node in members:
                self.rows[node].add(row)
        self.constant = 0
        self.undo: list[_Undo] = []
        self.is_gone = [False] * len(core.costs)
        self.queue = dict.fromkeys(range(len(core.costs)))

    def run(self, stop: StopSignal) -> Reduction:
        while True:
            while self.queue:
                if stop() is not None:
                    return self._result()
                node = next(iter(self.queue))
                del self.queue[node]
                if not self.is_gone[node]:
                    self._simplify(node)
            self._drop_rows()
            if not self.queue:
                return self._result()

    def _simplify(self, node: int) -> None:
        for neighbour in list(self.adjacent[node]):
            self._normalise(node, neighbour)
        self._keep(node, self.costs[node] < FORBIDDEN)
        self._drop_usages(node)
        if len(self.costs[node]) > 1:
            self._drop_dominated(node)
            self._drop_usages(node)
        if len(self.costs[node]) == 1:
            self._fix(node)
        if not self.rows[node] and len(self.adjacent[node]) <= 2:
            self._eliminate(node)

    def _normalise(self, u: int, v: int) -> None:
        """Move the smallest costs of rows and columns into the nodes."""
        matrix = self.adjacent[u][v]
        by_row = matrix.min(axis=1)
        if by_row.any():
            matrix = np.where(matrix < FORBIDDEN, matrix - by_row[:, None], FORBIDDEN)
            self.costs[u] = np.minimum(self.costs[u] + by_row, FORBIDDEN)
        by_column = matrix.min(axis=0)
        if by_column.any():
            matrix = np.where(matrix < FORBIDDEN, matrix - by_column, FORBIDDEN)
            self.costs[v] = np.minimum(self.costs[v] + by_column, FORBIDDEN)
            if by_column.max() >= FORBIDDEN:
                self.queue[v] = None
        if matrix.any():
            self.adjacent[u][v], self.adjacent[v][u] = matrix, matrix.T
        else:
            self._disconnect(u, v)

    def _disconnect(self, u: int, v: int) -> None:
        del self.adjacent[u][v], self.adjacent[v][u]
        self.queue[v] = None

    def _keep(self, node: int, mask: np.typing.NDArray[np.bool_]) -> None:
        """Drop the other choices of ``node``."""
        if mask.all():
            return
        if not mask.any():
            raise _NoPlanError
        self.costs[node] = self.costs[node][mask]
        self.usages[node] = self.usages[node][mask]
        self.labels[node] = self.labels[node][mask]
        for neighbour, matrix in self.adjacent[node].items():
            remaining = matrix[mask]
            self.adjacent[node][neighbour], self.adjacent[neighbour][node] = remaining, remaining.T
            self.queue[neighbour] = None
        self.queue[node] = None

    def _drop_usages(self, node: int) -> None:
        """Take the least usage off the limits, and drop what exceeds them alone."""
        if not self.rows[node]:
            return
        least = int(self.usages[node].min())
        if least:
            self.usages[node] = self.usages[node] - least
            for row in self.rows[node]:
                self.limits[row] -= least
        tightest = min(self.limits[row] for row in self.rows[node])
        if tightest < 0:
            raise _NoPlanError
        self._keep(node, self.usages[node] <= tightest)
        if not self.usages[node].any():
            for row in self.rows[node]:
                self.members[row].discard(node)
            self.rows[node] = set()

    def _drop_dominated(self, node: int) -> None:
        matrices = list(self.adjacent[node].values())
        starts = np.cumsum([0, *(matrix.shape[1] for matrix in matrices)])
        count = len(self.costs[node])
        beside = np.concatenate(matrices, axis=1) if matrices else np.zeros((count, 0), np.int64)
        usages = self.usages[node] if self.rows[node] else np.zeros(count, np.int64)
        self._keep(node, undominated(self.costs[node], usages, np.ascontiguousarray(beside), starts, FORBIDDEN))

    def _fix(self, node: int) -> None:
        """Give the costs of a single choice to the neighbours."""
        for neighbour in list(self.adjacent[node]):
            self.costs[neighbour] = np.minimum(self.costs[neighbour] + self.adjacent[node][neighbour][0], FORBIDDEN)
            self._disconnect(node, neighbour)

    def _eliminate(self, node: int) -> None:
        """Let the neighbours, at most two, pay for the best choice."""
        costs, labels = self.costs[node], self.labels[node]
        neighbours = list(self.adjacent[node])
        matrices = [self.adjacent[node][neighbour] for neighbour in neighbours]
        for neighbour in neighbours:
            self._disconnect(node, neighbour)
        self.is_gone[node] = True
        if not neighbours:
            best = int(costs.argmin())
            self.constant += int(costs[best])
            choice = int(labels[best])
            self.undo.append(lambda full: full.__setitem__(node, choice))
        elif len(neighbours) == 1:
            total = np.minimum(costs[:, None] + matrices[0], FORBIDDEN)
            self._remember(node, neighbours, labels[total.argmin(axis=0)])
            self.costs[neighbours[0]] = np.minimum(self.costs[neighbours[0]] + total.min(axis=0), FORBIDDEN)
        else:
            first, second = neighbours
            through, best_choice = best_middle(costs, *map(np.ascontiguousarray, matrices), FORBIDDEN)
            self._remember(node, neighbours, labels[best_choice])
            beside = self.adjacent[first].get(second)
            matrix = through if beside is None else np.minimum(through + beside, FORBIDDEN)
            self.adjacent[first][second], self.adjacent[second][first] = matrix, matrix.T

    def _remember(self, node: int, neighbours: list[int], best: Ints) -> None:
        """``node`` chooses as ``best`` says for the choices that the neighbours have now."""
        labels = [self.labels[neighbour] for neighbour in neighbours]

        def undo(full: Ints) -> None:
            places = (np.searchsorted(each, full[n]) for each, n in zip(labels, neighbours, strict=True))
            full[node] = best[tuple(places)]

        self.undo.append(undo)

    def _drop_rows(self) -> None:
        """Drop memory rows that others imply; nodes that are then in none may be eliminated."""
        last: int | None = None
        for row in sorted(self.members):
            members = self.members[row]
            if self.limits[row] < 0:
                raise _NoPlanError
            if sum(int(self.usages[node].max()) for node in members) <= self.limits[row]:
                self._drop_row(row)
                continue
            # Rows are in the order of time: if a set is part of a later one, then of every one between them too.
            if last is not None and members <= self.members[last] and self.limits[row] >= self.limits[last]:
                self._drop_row(row)
                continue
            if last is not None and self.members[last] <= members and self.limits[last] >= self.limits[row]:
                self._drop_row(last)
            last = row

    def _drop_row(self, row: int) -> None:
        for node in self.members.pop(row):
            self.rows[node].discard(row)
            if not self.rows[node]:
                self.queue[node] = None

    def _result(self) -> Reduction:
        nodes = np.array([node for node, gone in enumerate(self.is_gone) if not gone], dtype=np.int64)
        number = {int(node): position for position, node in enumerate(nodes)}
        edges = [(u, v) for u in number for v in self.adjacent[u] if u < v]
        core = Core(
            tuple(self.costs[node] for node in nodes),
            tuple(self.usages[node] if self.rows[node] else np.zeros_like(self.usages[node]) for node in nodes),
            np.array([(number[u], number[v]) for u, v in edges], dtype=np.int64).reshape(-1, 2),
            tuple(np.ascontiguousarray(self.adjacent[u][v]) for u, v in edges),
            tuple(np.array(sorted(number[node] for node in self.members[row])) for row in sorted(self.members)),
            np.array([self.limits[row] for row in sorted(self.members)], dtype=np.int64),
        )
        labels = tuple(self.labels[node] for node in nodes)
        return Reduction(core, self.constant, nodes, labels, tuple(self.undo), len(self.costs))
