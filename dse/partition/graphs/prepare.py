"""Graph preparation: operators that do no work and keep a graph from using many chips are taken out, reversibly.

Under (4) an operator that feeds the whole depth of a network holds that network on two chips: for an edge (u, v) every
operator on a path from u to v is on the chip of one of them. Two rewrites help, in this order:

* *weights and constants* are folded into their consumers: operators that compute nothing and make, of weights alone, no
  more than these are; a consumer then holds what it would have read;
* *cheap sources* (masks, position numbers, the slices of an input sequence) are copied, one copy for each consumer.

The prepared graph is a graph of its own, in which copy k of an operator is called ``name@k``; partitions of it are
searched and checked. People see the user's names: the graph knows what each copy is of and for
(:attr:`~dse.partition.problem.PartitionGraph.copy_of`). :meth:`Prepared.restore` says where the user's operators are,
which may be several chips; :meth:`Prepared.apply` makes a partition of the user's graph one of the prepared graph.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dse.partition.graphs.copies import USUAL_LIMITS, CopyLimits, copies_of
from dse.partition.problem import Copy, Floats, Ints, PartitionGraph

_NUMBER_BYTES = 8
"""An operator without producers whose output is no larger is a number: it is part of what reads it."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """A graph and what it was prepared from.

    Attributes:
        original: the user's graph.
        graph: the prepared graph.
        origin: for every operator of ``graph`` the position in ``original`` of what it is, or is a copy of, [N'].
        holders: for every operator of ``original`` that was folded the positions in ``original`` of those that hold it.
    """

    original: PartitionGraph
    graph: PartitionGraph
    origin: Ints
    holders: Mapping[int, tuple[int, ...]]

    @cached_property
    def copies(self) -> Mapping[int, tuple[int, ...]]:
        """For every operator of ``original`` that is left, its positions in ``graph``."""
        positions_of: dict[int, list[int]] = {}
        for position, source in enumerate(self.origin):
            positions_of.setdefault(int(source), []).append(position)
        return {source: tuple(positions) for source, positions in positions_of.items()}

    def restore(self, chip: Sequence[int]) -> dict[str, tuple[int, ...]]:
        """Where the user's operators are when ``chip`` [N'] is a partition of ``graph``.

        Each has its chips, ascending: one; those of its copies; those of the operators that hold it, for weights and
        constants.
        """
        chips_of = {}
        for position, name in enumerate(self.original.names):
            owners = self.holders.get(position, (position,))
            chips = {int(chip[copy]) for owner in owners for copy in self.copies.get(owner, ())}
            chips_of[name] = tuple(sorted(chips))
        return chips_of

    def apply(self, chip: Sequence[int]) -> tuple[int, ...]:
        """A partition ``chip`` [N] of the user's graph as one of ``graph``: every copy goes where its operator is.

        It has the same arcs between chips, so it satisfies (2) and (4) where ``chip`` does, and (3) unless a chip held
        only what was folded.
        """
        return tuple(int(chip[source]) for source in self.origin)


def prepare(graph: PartitionGraph, limits: CopyLimits = USUAL_LIMITS) -> Prepared:
    """``graph`` without weights and constants, and with its cheap sources copied.

    The same graph always gives the same result.

    Args:
        graph: the user's operators.
        limits: what is cheap enough to be copied.
    """
    holders, held_bytes = _folded(graph)
    left = [position for position in range(len(graph)) if position not in holders]
    number = {position: index for index, position in enumerate(left)}
    remaining = _restricted(graph, left, number, held_bytes)
    copies, edges = copies_of(remaining, limits)
    origin = np.array([position for position, _ in copies], dtype=np.int64)
    count = np.bincount(origin, minlength=len(remaining))
    prepared = replace(
        _picked(remaining, origin),
        names=_names(remaining, origin.tolist()),
        edges=np.array(edges, dtype=np.int64).reshape(-1, 2),
        copy_of=tuple(
            Copy(remaining.names[position], remaining.names[consumer]) if count[position] > 1 else None
            for position, consumer in copies
        ),
    )
    return Prepared(graph, prepared, np.array(left, dtype=np.int64)[origin], holders)


def _producers(graph: PartitionGraph) -> list[list[int]]:
    producers: list[list[int]] = [[] for _ in range(len(graph))]
    for source, target in graph.edges:
        producers[int(target)].append(int(source))
    return producers


def _folded(graph: PartitionGraph) -> tuple[dict[int, tuple[int, ...]], Floats]:
    """The operators that hold each folded one, and the bytes of weights that every operator holds then, [N]."""
    producers = _producers(graph)
    consumers: list[list[int]] = [[] for _ in range(len(graph))]
    for source, target in graph.edges:
        consumers[int(source)].append(int(target))
    idle = (graph.flops == 0) | (graph.latency_s == 0)
    held_bytes = graph.weight_bytes.copy()
    folded: list[int] = []
    is_folded = [False] * len(graph)
    for position in map(int, graph.topological_order):
        read = producers[position]
        held_bytes[position] += sum(float(graph.output_bytes[source]) for source in read if is_folded[source])
        known = all(is_folded[source] for source in read) and bool(idle[position])
        small = graph.output_bytes[position] <= max(held_bytes[position], 0 if read else _NUMBER_BYTES)
        if known and small and consumers[position]:
            is_folded[position] = True
            folded.append(position)
    holders: dict[int, tuple[int, ...]] = {}
    for position in reversed(folded):
        owners_of_consumers = [holders.get(consumer, (consumer,)) for consumer in consumers[position]]
        holders[position] = tuple(sorted({owner for owners in owners_of_consumers for owner in owners}))
    return holders, held_bytes


def _restricted(
    graph: PartitionGraph, left: Sequence[int], number: Mapping[int, int], held_bytes: Floats
) -> PartitionGraph:
    """The operators ``left`` and the edges between them."""
    edges = [
        (number[int(source)], number[int(target)])
        for source, target in graph.edges
        if int(source) in number and int(target) in number
    ]
    whole = replace(graph, weight_bytes=held_bytes)
    return replace(_picked(whole, np.array(left, dtype=np.int64)), edges=np.array(edges, dtype=np.int64).reshape(-1, 2))


def _picked(graph: PartitionGraph, positions: Ints) -> PartitionGraph:
    """The operators at ``positions``, with the edges of ``graph`` still."""
    return replace(
        graph,
        names=tuple(graph.names[int(position)] for position in positions),
        latency_s=graph.latency_s[positions],
        output_bytes=graph.output_bytes[positions],
        weight_bytes=graph.weight_bytes[positions],
        flops=graph.flops[positions],
        formats=tuple(graph.formats[position] for position in positions) if graph.formats else (),
        moved_bytes=graph.moved_bytes[positions],
    )


def _names(graph: PartitionGraph, origins: Sequence[int]) -> tuple[str, ...]:
    """Names of the copies: an operator's own where it has one copy, else ``name@k``."""
    count = np.bincount(np.array(origins, dtype=np.int64), minlength=len(graph))
    taken = set(graph.names)
    used: dict[int, int] = {}
    names = []
    for origin in origins:
        name = graph.names[origin]
        if count[origin] > 1:
            mark = "@"
            while any(f"{name}{mark}{copy}" in taken for copy in range(count[origin])):
                mark += "@"
            used[origin] = used.get(origin, -1) + 1
            name = f"{name}{mark}{used[origin]}"
        names.append(name)
    return tuple(names)
