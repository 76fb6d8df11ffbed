"""A test oracle of graph preparation: a prepared graph computes what the user's graph computes.

It shares no code with :mod:`dse.partition.graphs.prepare`. Together with :func:`dse.partition.check.violations` of the
prepared graph it says that an answer is one for the user's graph.
"""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from dse.partition.graphs.prepare import Prepared
from dse.partition.problem import PartitionGraph


def differences(prepared: Prepared) -> list[str]:
    """Every way in which the prepared graph is not the user's, one sentence each; empty when it is."""
    return [*_amounts(prepared), *_places(prepared)] or [*_operands(prepared), *_folded(prepared)]


def _amounts(prepared: Prepared) -> Iterator[str]:
    """An operator's work and output are those of what it is a copy of."""
    graph, original = prepared.graph, prepared.original
    if len(set(graph.names)) != len(graph):
        yield "operators of the prepared graph must have different names"
    for column in ("latency_s", "output_bytes", "flops", "moved_bytes"):
        ours, theirs = getattr(graph, column), getattr(original, column)
        for position, source in enumerate(prepared.origin):
            if not np.array_equal(ours[position], theirs[source], equal_nan=True):
                yield f"{graph.names[position]}: {column} must be that of {original.names[source]}"


def _places(prepared: Prepared) -> Iterator[str]:
    """Every operator of the user's is either there or folded."""
    there, folded = set(map(int, prepared.origin)), set(prepared.holders)
    for position, name in enumerate(prepared.original.names):
        if (position in there) == (position in folded):
            yield f"{name}: must be either there or folded"


def _operands(prepared: Prepared) -> Iterator[str]:
    """An operator reads one copy of everything that it read, and holds what was folded of it."""
    graph, original = prepared.graph, prepared.original
    read, was_read = _producers(graph), _producers(original)
    for position, source in enumerate(map(int, prepared.origin)):
        now = sorted(int(prepared.origin[operand]) for operand in read[position])
        folded = [operand for operand in was_read[source] if operand in prepared.holders]
        before = sorted(operand for operand in was_read[source] if operand not in prepared.holders)
        if now != before:
            names = ", ".join(original.names[operand] for operand in before)
            yield f"{graph.names[position]}: must read one copy of each of: {names}"
        held_bytes = original.weight_bytes[source] + sum(original.output_bytes[operand] for operand in folded)
        if not np.isclose(graph.weight_bytes[position], held_bytes, rtol=1e-12, atol=0):
            yield f"{graph.names[position]}: must hold {held_bytes:.0f} bytes"


def _folded(prepared: Prepared) -> Iterator[str]:
    """What was folded computes nothing, is made of weights alone, and its holders are those that read it."""
    original = prepared.original
    read, consumers = _producers(original), defaultdict(set)
    for position in range(len(original)):
        for operand in read[position]:
            consumers[operand].add(position)
    for position, holders in prepared.holders.items():
        name = original.names[position]
        if not (original.flops[position] == 0 or original.latency_s[position] == 0):
            yield f"{name}: computes something, so it must not be folded"
        if not prepared.holders.keys() >= set(read[position]):
            yield f"{name}: is made of more than weights, so it must not be folded"
        readers = {holder for consumer in consumers[position] for holder in prepared.holders.get(consumer, (consumer,))}
        if readers != set(holders) or not readers:
            yield f"{name}: must be held by all operators that read it"


def _producers(graph: PartitionGraph) -> list[list[int]]:
    producers: list[list[int]] = [[] for _ in range(len(graph))]
    for source, target in graph.edges:
        producers[int(target)].append(int(source))
    return producers
