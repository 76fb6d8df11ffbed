"""What the network sees of every operator, and the position of each along the work.

Rank, work and bytes before, and what lies between the ends of an edge, follow the graph's own topological order; the
other features are the same however the operators are numbered. Sizes are shares, so that graphs of any size and unit
look alike.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dse.partition.constraints.structure import Structure
from dse.partition.problem import Floats, Ints, PartitionGraph, PartitionProblem, Words
from dse.partition.search.proposals import Float32s, shares_before

FEATURES = (
    "rank",
    "work before",
    "bytes before",
    "latency, share of all",
    "latency over its mean",
    "latency over a chip's share of work",
    "output over its mean",
    "transfer over a chip's share of work",
    "transfer over latency",
    "weights over their mean",
    "producers",
    "consumers",
    "no producers",
    "no consumers",
    "depth from sources",
    "depth from sinks",
    "longest work before",
    "longest work behind",
    "work of ancestors",
    "work of descendants",
    "ancestors",
    "descendants",
    "nearest producer",
    "farthest consumer",
    "one over chips",
    "operators over chips",
)
"""Names of the columns of :func:`node_features`."""

_ROWS = 256
"""Operators whose sets are unpacked at once."""


@dataclass(frozen=True)
class Sequence:
    """Operators along the work.

    Attributes:
        order: the graph's topological order, [N].
        rank: place of each operator in it, [N].
        work: share of all latency before the middle of each operator, in that order, [N], in (0, 1).
    """

    order: Ints
    rank: Ints
    work: Floats


def sequence_of(graph: PartitionGraph) -> Sequence:
    """The operators of ``graph`` along its own topological order."""
    order = graph.topological_order
    rank = np.empty(len(graph), dtype=np.int64)
    rank[order] = np.arange(len(graph))
    return Sequence(order, rank, shares_before(graph.latency_s, order))


def node_features(problem: PartitionProblem, structure: Structure, sequence: Sequence) -> Float32s:
    """What the network sees of every operator, [N, :data:`FEATURES`]."""
    graph, chips = problem.graph, problem.chips
    count = len(graph)
    latency_s = graph.latency_s
    total_s = float(latency_s.sum()) or 1.0
    transfer_s = graph.output_bytes / problem.link_bytes_per_s
    producers, consumers = np.diff(structure.in_first), np.diff(structure.out_first)
    ancestors, work_above = _sets(structure.above, latency_s / total_s)
    descendants, work_below = _sets(structure.below, latency_s / total_s)
    ones = np.ones(count)
    depth, height = _longest(ones, graph, sequence), _longest(ones, graph, sequence, backward=True)
    path, tail = _longest(latency_s, graph, sequence), _longest(latency_s, graph, sequence, backward=True)
    columns = [
        (sequence.rank + 0.5) / count,
        sequence.work,
        shares_before(graph.output_bytes, sequence.order),
        latency_s / total_s,
        _log(_over_mean(latency_s)),
        _log(latency_s * chips / total_s),
        _log(_over_mean(graph.output_bytes)),
        _log(transfer_s * chips / total_s),
        _log(transfer_s / np.maximum(latency_s, 1e-3 * total_s / count)),
        _log(_over_mean(graph.weight_bytes)),
        _log(producers),
        _log(consumers),
        producers == 0,
        consumers == 0,
        depth / depth.max(),
        height / height.max(),
        path / (path.max() or 1.0),
        tail / (path.max() or 1.0),
        work_above,
        work_below,
        ancestors / count,
        descendants / count,
        _nearest_producer(graph, sequence),
        _farthest_consumer(graph, sequence),
        ones / chips,
        _log(ones * count / chips),
    ]
    return np.stack(columns, axis=1).astype(np.float32)


def _log(values: npt.NDArray[Any]) -> Floats:
    """log(1 + x): sizes that differ by powers of ten, on one scale."""
    return np.asarray(np.log1p(values), dtype=np.float64)


def _over_mean(values: Floats) -> Floats:
    mean = float(values.mean())
    return values / mean if mean > 0 else np.zeros_like(values)


def _sets(words: Words, share: Floats) -> tuple[Floats, Floats]:
    """(how many operators each set holds, their share of the work), [N] each; ``words``: [N, ⌈N / 64⌉]."""
    count = len(words)
    held, work = np.zeros(count), np.zeros(count)
    for first in range(0, count, _ROWS):
        packed = np.ascontiguousarray(words[first : first + _ROWS]).view(np.uint8)
        members = np.unpackbits(packed, axis=1, bitorder="little")[:, :count].astype(np.float32)
        held[first : first + _ROWS] = members.sum(axis=1)
        work[first : first + _ROWS] = members @ share.astype(np.float32)
    return held, work


def _longest(amount: Floats, graph: PartitionGraph, sequence: Sequence, *, backward: bool = False) -> Floats:
    """The largest amount on a path that ends (``backward``: begins) at each operator, itself in it, [N]."""
    edges = graph.edges.reshape(-1, 2)
    source, target = (edges[:, 1], edges[:, 0]) if backward else (edges[:, 0], edges[:, 1])
    rank = len(graph) - 1 - sequence.rank if backward else sequence.rank
    longest = amount.astype(np.float64).copy()
    # Edges by the rank of their source: whatever leads to an operator has been seen before what leaves it.
    for edge in np.argsort(rank[source], kind="stable").tolist():
        longest[target[edge]] = max(longest[target[edge]], longest[source[edge]] + amount[target[edge]])
    return longest


def _apart(graph: PartitionGraph, sequence: Sequence) -> tuple[Ints, Ints, Floats]:
    """(producer, consumer, share of the work between them along the sequence) of every edge, [E] each."""
    edges = graph.edges.reshape(-1, 2)
    return edges[:, 0], edges[:, 1], np.abs(sequence.work[edges[:, 1]] - sequence.work[edges[:, 0]])


def _nearest_producer(graph: PartitionGraph, sequence: Sequence) -> Floats:
    """Work between each operator and its nearest producer, [N]; 0 without one."""
    _, target, apart = _apart(graph, sequence)
    nearest = np.full(len(graph), np.inf)
    np.minimum.at(nearest, target, apart)
    return np.where(np.isinf(nearest), 0.0, nearest)


def _farthest_consumer(graph: PartitionGraph, sequence: Sequence) -> Floats:
    """Work between each operator and its farthest consumer, [N]; 0 without one."""
    source, _, apart = _apart(graph, sequence)
    farthest = np.zeros(len(graph))
    np.maximum.at(farthest, source, apart)
    return farthest
