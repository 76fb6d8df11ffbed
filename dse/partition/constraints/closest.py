"""The linear partition that changes the fewest operators of a candidate: which of them keep their chips. Kernels.

A linear partition has 0 ≤ f(v) − f(u) ≤ 1 on every edge (u, v). Let reach(u, v) be the fewest edges in their direction
on any walk from u to v along edges in either direction: then f(v) − f(u) ≤ reach(u, v), and chips for some operators
that keep to this pairwise can be completed, with chips 0 … C − 1 (difference constraints: the shortest paths are the
tightest consequences).

So two operators cannot both keep the candidate's chips y where y(v) − y(u) > reach(u, v); say that u is below v. That
is a partial order: with v below w, y(w) − y(u) > reach(u, v) + reach(v, w) ≥ reach(u, w). Operators that can be kept
together are an antichain of it, and a largest one is what a minimum vertex cover of its pairs leaves (Dilworth, by
Kőnig's theorem from a maximum matching of the bipartite graph of all pairs).

The least completion must have an operator on chip 0 (3). Where that of the largest antichain has none, one of the
operators without producers is put there, and what cannot be kept with it is left out: each of them is tried, for
graphs with few.

Cost: reach once for a graph, O(N (N + E)); then O(N²) for the pairs, and O(N² / 64) for a phase of the matching, of
which there were 1 to 140 where this was measured.
"""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dse.algorithms.bits import bit, lowest
from hardware.compiled import compiled, kernel

FAR = 255
"""Of ``reach``: no walk, or one of more edges than there are chips."""

_SOURCES = 16
"""Operators without producers that are tried on chip 0 at most."""


class Room(NamedTuple):
    """Room to look for a closest linear partition of N operators; kernels make no arrays.

    Attributes:
        unmoved: the operators that stay on their wanted chips, [N].
        able, chosen: operators that may be kept, and those of one attempt, [N].
        above, seen: pairs and what a phase has visited, [N, ⌈N / 64⌉] and [⌈N / 64⌉] words.
        partner, owner: the matching, from below and from above, −1 for none, [N].
        parent, stack: paths, [N].
        order, chip: copies of an order and a partition, [N].
    """

    unmoved: npt.NDArray[np.bool_]
    able: npt.NDArray[np.bool_]
    chosen: npt.NDArray[np.bool_]
    above: npt.NDArray[np.uint64]
    seen: npt.NDArray[np.uint64]
    partner: npt.NDArray[np.int32]
    owner: npt.NDArray[np.int32]
    parent: npt.NDArray[np.int32]
    stack: npt.NDArray[np.int32]
    order: npt.NDArray[np.int64]
    chip: npt.NDArray[np.int32]


def new_room(count: int) -> Room:
    """Room for graphs of ``count`` operators."""
    flags, numbers, words = np.zeros((3, count), dtype=np.bool_), np.zeros((5, count), dtype=np.int32), -(-count // 64)
    above, seen = np.zeros((count, words), dtype=np.uint64), np.zeros(words, dtype=np.uint64)
    order = np.zeros(count, dtype=np.int64)
    unmoved, able, chosen = flags
    partner, owner, parent, stack, chip = numbers
    return Room(unmoved, able, chosen, above, seen, partner, owner, parent, stack, order, chip)


@compiled
def reach_of(graph):
    """The fewest edges in their direction on walks from each operator to each, :data:`FAR` at most, [N, N] bytes.

    ``graph``: a :class:`~dse.partition.constraints.structure.Structure`.
    """
    count = len(graph.out_first) - 1
    reach = np.full((count, count), np.uint8(FAR))
    here, there = np.zeros(count, dtype=np.int32), np.zeros(count, dtype=np.int32)
    for source in range(count):
        row = reach[source]
        row[source] = 0
        here[0], size = source, 1
        for edges in range(FAR):
            place = 0
            while place < size:  # Against their direction edges cost nothing.
                operator = here[place]
                place += 1
                for index in range(graph.in_first[operator], graph.in_first[operator + 1]):
                    other = graph.in_node[index]
                    if row[other] == FAR:
                        row[other] = edges
                        here[size] = other
                        size += 1
            following = 0
            for place in range(size):
                operator = here[place]
                for index in range(graph.out_first[operator], graph.out_first[operator + 1]):
                    other = graph.out_node[index]
                    if row[other] == FAR and edges + 1 < FAR:
                        row[other] = edges + 1
                        there[following] = other
                        following += 1
            here, there, size = there, here, following
            if size == 0:
                break
    return reach


@kernel
def _pairs(reach, wanted, room):
    """Fill in what is above each operator; only those that are able to be kept count."""
    able, above = room.able, room.above
    for below in range(len(wanted)):
        above[below] = 0
        if not able[below]:
            continue
        row, least = reach[below], wanted[below]
        for other in range(len(wanted)):
            if wanted[other] - least > row[other] and able[other]:
                above[below, other >> 6] |= bit(other & 63)


@kernel
def _augmented(room, start):
    """Match ``start`` by an augmenting path over operators that are not seen yet; whether there is one."""
    size, room.stack[0] = 1, start
    while size > 0:
        size -= 1
        below = room.stack[size]
        for word in range(len(room.seen)):
            left = room.above[below, word] & ~room.seen[word]
            room.seen[word] |= left
            while left != np.uint64(0):
                other = np.int64(64 * word + lowest(left))
                left &= left - np.uint64(1)
                room.parent[other] = below
                if room.owner[other] >= 0:
                    room.stack[size] = room.owner[other]
                    size += 1
                    continue
                while other >= 0:
                    matched = room.parent[other]
                    former = np.int64(room.partner[matched])
                    room.partner[matched], room.owner[other] = other, matched
                    other = former
                return True
    return False


@kernel
def _antichain(room, antichain):
    """Fill in a largest set of operators, of those that are able, none of which is above another; its size."""
    count = len(antichain)
    for operator in range(count):
        room.partner[operator] = room.owner[operator] = -1
    longer = True
    while longer:
        longer = False
        room.seen[:] = 0
        for start in range(count):
            if room.able[start] and room.partner[start] < 0 and _augmented(room, start):
                longer = True
    # What alternating paths from unmatched operators lead to: the cover is the rest on one side and these on the other.
    room.seen[:] = 0
    size = 0
    for operator in range(count):
        antichain[operator] = room.able[operator] and room.partner[operator] < 0
        if antichain[operator]:
            room.stack[size] = operator
            size += 1
    while size > 0:
        size -= 1
        below = room.stack[size]
        for word in range(len(room.seen)):
            left = room.above[below, word] & ~room.seen[word]
            room.seen[word] |= left
            while left != np.uint64(0):
                other = room.owner[64 * word + lowest(left)]
                left &= left - np.uint64(1)
                if other >= 0 and not antichain[other]:
                    antichain[other] = True
                    room.stack[size] = other
                    size += 1
    total = 0
    for operator in range(count):
        if antichain[operator] and room.seen[operator >> 6] & bit(operator & 63):
            antichain[operator] = False
        if antichain[operator]:
            total += 1
    return total


@kernel
def _can_begin(reach, wanted, unmoved, source):
    """Whether ``source`` can be on chip 0 together with what is ``unmoved``."""
    possible = True
    for operator in range(len(wanted)):
        possible = possible and not (unmoved[operator] and wanted[operator] > reach[source, operator])
    return possible


@kernel
def keep_closest(reach, sources, wanted, chips, room):
    """Fill in ``room.unmoved``: which operators a closest linear partition keeps; the one that is on chip 0 in it.

    Args:
        reach: of :func:`reach_of`, [N, N].
        sources: operators without producers.
        wanted: the candidate's chips, [N].
        chips: C.
        room: a :class:`Room`.
    """
    count, able = len(wanted), room.able
    for operator in range(count):
        able[operator] = 0 <= wanted[operator] < chips
    _pairs(reach, wanted, room)
    _antichain(room, room.unmoved)
    for source in sources:
        if _can_begin(reach, wanted, room.unmoved, source):
            return source
    best, first = -1, sources[0]
    for number in range(min(len(sources), _SOURCES)):
        source = sources[number]
        for operator in range(count):
            able[operator] = 0 <= wanted[operator] <= reach[source, operator] and wanted[operator] < chips
        able[source] = wanted[source] == 0
        _pairs(reach, wanted, room)
        total = _antichain(room, room.chosen)
        if total > best:
            best, first = total, source
            for operator in range(count):
                room.unmoved[operator] = room.chosen[operator]
    return first
