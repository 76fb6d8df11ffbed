"""What the constraints imply for a graph before any operator has a chip.

For an edge (u, v) let *between* be the operators on paths from u to v, without u and v.

- Each of them sits on f(u) or f(v): on another chip, data would go from f(u) to f(v) directly and indirectly (4).
- f(v) ≤ operators outside descendants*(v): each chip below needs one of them (3).
- f(v) − f(u) ≤ 1 + (operators outside ancestors*(u) ∪ descendants*(v) ∪ between): every chip in the gap needs an
  operator (3), and those of the three sets lie at its ends or beyond.

Sets of operators are words of 64 bits. Cost: O(E N / 64) for the sets of a graph with N operators and E edges.
"""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dse.partition.problem import PartitionGraph, Words
from hardware.compiled import compiled, read_only

_MAX_BETWEEN = 4_000_000
"""Operators between the ends of edges, over all edges, that are listed at most; beyond, they only prune less."""

Int32s = npt.NDArray[np.int32]


class Structure(NamedTuple):
    """A graph as the kernels read it. Neighbours are lists by operator: those of v start at ``first[v]``.

    Attributes:
        out_first, out_node, out_edge: consumers of each operator, and the edges to them, [N + 1], [E], [E].
        in_first, in_node, in_edge: producers of each operator, and the edges from them.
        gap: how many chips an edge may lead on at most, [E].
        between_first, between_node: operators between the ends of each edge, [E + 1], [·].
        below, above: the operators that each one leads to and that lead to it, with itself, [N, ⌈N / 64⌉] words.
        max_chip: the highest chip that each operator can have on a package of any size, [N].
        sources: operators without producers.
    """

    out_first: Int32s
    out_node: Int32s
    out_edge: Int32s
    in_first: Int32s
    in_node: Int32s
    in_edge: Int32s
    gap: Int32s
    between_first: Int32s
    between_node: Int32s
    below: Words
    above: Words
    max_chip: Int32s
    sources: Int32s


def structure_of(graph: PartitionGraph) -> Structure:
    """The structure of ``graph``."""
    count = len(graph)
    edges = read_only(graph.edges.reshape(-1, 2))
    out_first, out_node, out_edge = _neighbours(edges[:, 0], edges[:, 1], count)
    in_first, in_node, in_edge = _neighbours(edges[:, 1], edges[:, 0], count)
    order = graph.topological_order.astype(np.int32)
    below, above = _descendants(order[::-1].copy(), out_first, out_node), _descendants(order, in_first, in_node)
    gap, sizes = _gaps(edges, below, above)
    listed = np.where(np.cumsum(sizes) <= _MAX_BETWEEN, sizes, 0)
    first = np.concatenate([[0], np.cumsum(listed)]).astype(np.int32)
    max_chip = _highest(edges[np.argsort(order.argsort()[edges[:, 0]], kind="stable")], gap, below)
    return Structure(
        out_first,
        out_node,
        out_edge,
        in_first,
        in_node,
        in_edge,
        gap,
        between_first=first,
        between_node=_between(edges, below, above, first),
        below=below,
        above=above,
        max_chip=max_chip,
        sources=np.flatnonzero(np.diff(in_first) == 0).astype(np.int32),
    )


def _neighbours(
    source: npt.NDArray[np.int64], target: npt.NDArray[np.int64], count: int
) -> tuple[Int32s, Int32s, Int32s]:
    """(where the list of each operator begins, the neighbours, the edges to them)."""
    by_source = np.argsort(source, kind="stable")
    first = np.zeros(count + 1, dtype=np.int32)
    np.cumsum(np.bincount(source, minlength=count), out=first[1:])
    return first, target[by_source].astype(np.int32), by_source.astype(np.int32)


@compiled
def _descendants(order, first, node):
    """The operators that each one leads to, itself among them, [N, ⌈N / 64⌉]; ``order``: consumers first."""
    count = len(order)
    words = np.zeros((count, (count + 63) // 64), dtype=np.uint64)
    for place in range(count):
        operator = order[place]
        words[operator, operator >> 6] |= np.uint64(1) << np.uint64(operator & 63)
        for index in range(first[operator], first[operator + 1]):
            other = node[index]
            for word in range(words.shape[1]):
                words[operator, word] |= words[other, word]
    return words


@compiled
def _bits(word):
    """How many bits of a word are set."""
    count = 0
    while word != np.uint64(0):
        word &= word - np.uint64(1)
        count += 1
    return count


@compiled
def _gaps(edges, below, above):
    """(how many chips each edge may lead on, how many operators are between its ends)."""
    count = below.shape[0]
    gap = np.zeros(len(edges), dtype=np.int32)
    sizes = np.zeros(len(edges), dtype=np.int64)
    for edge in range(len(edges)):
        source, target = edges[edge, 0], edges[edge, 1]
        inside = 0
        for word in range(below.shape[1]):
            path = below[source, word] & above[target, word]
            inside += _bits(above[source, word] | below[target, word] | path)
            sizes[edge] += _bits(path)
        gap[edge] = 1 + count - inside
        sizes[edge] -= 2
    return gap, sizes


@compiled
def _between(edges, below, above, first):
    """The operators between the ends of those edges that have room in the list."""
    nodes = np.zeros(first[-1], dtype=np.int32)
    for edge in range(len(edges)):
        place = first[edge]
        if first[edge + 1] == place:
            continue
        source, target = edges[edge, 0], edges[edge, 1]
        for word in range(below.shape[1]):
            path = below[source, word] & above[target, word]
            for bit in range(64):
                if path >> np.uint64(bit) & np.uint64(1):
                    node = 64 * word + bit
                    if node != source and node != target:
                        nodes[place] = node
                        place += 1
    return nodes


@compiled
def _highest(edges, gap, below):
    """The highest chip of every operator: what its descendants leave, carried along the edges until nothing moves."""
    count = below.shape[0]
    max_chip = np.zeros(count, dtype=np.int32)
    for operator in range(count):
        taken = 0
        for word in range(below.shape[1]):
            taken += _bits(below[operator, word])
        max_chip[operator] = count - taken
    moved = True
    while moved:
        moved = False
        for edge in range(len(edges)):
            source, target = edges[edge, 0], edges[edge, 1]
            if max_chip[target] > max_chip[source] + gap[edge]:
                max_chip[target], moved = max_chip[source] + gap[edge], True
            if max_chip[source] > max_chip[target]:
                max_chip[source], moved = max_chip[target], True
    return max_chip
