"""Copying cheap sources: which operators have copies, and for which consumer each copy is.

The *sources* of a graph are here the operators that are cheap together with everything that they are made of. What is
made of more is a *consumer* of them. Each consumer gets its own copy of the sources that it needs, of all the depth:
were only the last one copied, the one behind it would still join all consumers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dse.partition.problem import PartitionGraph

Cost = np.ndarray[tuple[int], np.dtype[np.float64]]
"""FLOPs, bytes of weights, bytes moved, seconds: [4]."""


@dataclass(frozen=True)
class CopyLimits:
    """What is cheap.

    Attributes:
        share: of the graph's FLOPs, and of its weights, that one copy of a source has at most, with all it is made of.
        growth: of the graph's FLOPs, weights, moved bytes and latency that all further copies have at most, of the
            sources that hang together.
    """

    share: float = 1e-3
    growth: float = 0.1


USUAL_LIMITS = CopyLimits()
"""A mask or the slice of an input is well below them, the first layer of a network above."""


def copies_of(graph: PartitionGraph, limits: CopyLimits) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The operators of the new graph and its edges; copies are adjacent.

    Each is the position in ``graph`` of what it is (a copy of), and that of the consumer that the copy is for; −1 where
    all consumers share it.
    """
    producers: list[list[int]] = [[] for _ in range(len(graph))]
    consumers: list[list[int]] = [[] for _ in range(len(graph))]
    for source, target in graph.edges:
        producers[int(target)].append(int(source))
        consumers[int(source)].append(int(target))
    made_of = _sources(graph, producers, limits)
    exits = _exits(graph, made_of, producers, consumers)
    users: dict[int, list[int]] = {}
    for exit_, needed in exits.items():
        for source in needed:
            users.setdefault(source, []).append(exit_)
    _keep_dear(graph, users, exits, limits)
    return _rebuilt(graph, producers, users, exits)


def _costs(graph: PartitionGraph) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """What each operator costs, unknown amounts as 0, [N, 4]."""
    columns = (graph.flops, graph.weight_bytes, graph.moved_bytes, graph.latency_s)
    return np.nan_to_num(np.stack(columns, axis=1), nan=0.0)


def _sources(
    graph: PartitionGraph, producers: Sequence[Sequence[int]], limits: CopyLimits
) -> dict[int, frozenset[int]]:
    """The sources, each with all that it is made of, itself included.

    Where FLOPs are not known, an operator with weights is taken to compute.
    """
    costs = _costs(graph)
    max_costs = costs.sum(axis=0) * np.array([limits.share, limits.share, limits.growth, limits.growth])
    computes = np.isnan(graph.flops) & (graph.weight_bytes > 0)
    sources: dict[int, frozenset[int]] = {}
    for position in map(int, graph.topological_order):
        if computes[position] or any(source not in sources for source in producers[position]):
            continue
        made_of = frozenset({position}.union(*(sources[source] for source in producers[position])))
        if (costs[sorted(made_of)].sum(axis=0) <= max_costs).all():
            sources[position] = made_of
    return sources


def _exits(
    graph: PartitionGraph,
    made_of: Mapping[int, frozenset[int]],
    producers: Sequence[Sequence[int]],
    consumers: Sequence[Sequence[int]],
) -> dict[int, frozenset[int]]:
    """Every operator that needs sources of its own, with them: consumers, and sources that nothing consumes."""
    exits = {}
    for position in map(int, graph.topological_order):
        read = [source for source in producers[position] if source in made_of]
        if position not in made_of and read:
            exits[position] = frozenset().union(*(made_of[source] for source in read))
        elif position in made_of and not consumers[position]:
            exits[position] = made_of[position]
    return exits


def _keep_dear(
    graph: PartitionGraph, users: dict[int, list[int]], exits: dict[int, frozenset[int]], limits: CopyLimits
) -> None:
    """Take the sources out of ``users`` and ``exits`` whose copies would cost too much."""
    costs = _costs(graph)
    total = costs.sum(axis=0) * limits.growth
    left = set(users)
    while left:
        joined = _joined(left, users, exits)
        left -= joined
        extra = sum((len(users[source]) - 1) * costs[source] for source in sorted(joined))
        if not (extra <= total).all():
            for exit_ in {exit_ for source in joined for exit_ in users.pop(source)}:
                exits[exit_] -= joined


def _joined(left: set[int], users: Mapping[int, Sequence[int]], exits: Mapping[int, frozenset[int]]) -> set[int]:
    """The sources that hang together with one of ``left``: some consumer needs both."""
    waiting = [min(left)]
    joined = set(waiting)
    seen: set[int] = set()
    while waiting:
        for exit_ in users[waiting.pop()]:
            if exit_ not in seen:
                seen.add(exit_)
                waiting.extend(exits[exit_] - joined)
                joined |= exits[exit_]
    return joined


def _rebuilt(
    graph: PartitionGraph,
    producers: Sequence[Sequence[int]],
    users: Mapping[int, Sequence[int]],
    exits: Mapping[int, frozenset[int]],
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The operators with their copies, each with the exit that it is for (−1: all share it), and the edges."""
    number: dict[tuple[int, int], int] = {}
    for position in range(len(graph)):
        for exit_ in users.get(position, (-1,)):
            number[position, exit_] = len(number)
    edges = []
    for (position, exit_), copy in number.items():
        served = position if exit_ < 0 else exit_
        for source in producers[position]:
            private = served in exits and source in exits[served] and source in users
            edges.append((number[source, served if private else -1], copy))
    return list(number), edges
