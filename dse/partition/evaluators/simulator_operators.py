"""What the simulator knows of a graph's operators before any of them has a chip.

A graph file gives no kinds of operators, so they are derived from what it gives:

- **Work.** Beside its launch, an operator takes the larger of a time to compute and a time to move its data. Where the
  file gives operations and bytes, these divide by the chip's rates, and are scaled together if it also gives a latency.
  Where it gives a latency only, the bytes are those of its producers' outputs, its own output and its weights.
- **Fusion.** An operator may be fused into its producer if that is its only one, has no other consumer, and the
  operator does few operations a byte and has no more weights than output: so it is elementwise, a bias or
  normalisation, a transposition or a reduction. (Operations that are not given are at most what its latency allows.)
- **Fingerprints.** A hash of what the file says of an operator and of all that leads to it and from it. It depends
  neither on positions nor on names, so neither do choices and effects that hang on it. Names order what is alike.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dse.partition.problem import Floats, Ints, PartitionGraph
from hardware.packages import Package

EFFECT_SALTS = (0x5EED, 0xC41B)
"""What tells the two words apart that the compile effect of a set of operators is drawn from."""

_WORD = (1 << 64) - 1

Int32s = npt.NDArray[np.int32]
Words = npt.NDArray[np.uint64]


class Operators(NamedTuple):
    """A graph on the chips of a package, without a partition. Neighbours of v start at ``first[v]``.

    Attributes:
        out_first, out_node, in_first, in_node: consumers and producers, [N + 1], [E].
        order: producers before consumers, [N].
        compute_s, memory_s: of each operator alone, without its launch, [N].
        fused_into: the producer that an operator may be fused into, or −1, [N].
        output_bytes, weight_bytes: rounded up to whole bytes, so that sums are exact in any order, [N].
        fingerprint: [N].
        rank: place among all operators, by fingerprint and name, [N]; ``by_rank`` is its inverse.
    """

    out_first: Int32s
    out_node: Int32s
    in_first: Int32s
    in_node: Int32s
    order: Int32s
    compute_s: Floats
    memory_s: Floats
    fused_into: Int32s
    output_bytes: Floats
    weight_bytes: Floats
    fingerprint: Words
    rank: Int32s
    by_rank: Int32s


def operators_of(graph: PartitionGraph, package: Package) -> Operators:
    """The operators of ``graph`` on chips of ``package``, which prices those without a latency."""
    edges = graph.edges.reshape(-1, 2)
    priced = graph.priced(package.latency_s(graph.flops, graph.moved_bytes, rates_of(graph, package)))
    compute_s, memory_s, few_flops = _work(priced, package)
    fingerprint = fingerprints(graph)
    by_rank = np.array(sorted(range(len(graph)), key=lambda v: (fingerprint[v], graph.names[v])), dtype=np.int32)
    out_first, out_node = _neighbours(edges[:, 0], edges[:, 1], len(graph))
    in_first, in_node = _neighbours(edges[:, 1], edges[:, 0], len(graph))
    return Operators(
        out_first,
        out_node,
        in_first,
        in_node,
        graph.topological_order.astype(np.int32),
        compute_s,
        memory_s,
        _fused_into(graph, few_flops, out_first, in_first, in_node),
        np.ceil(graph.output_bytes),
        np.ceil(graph.weight_bytes),
        np.array(fingerprint, dtype=np.uint64),
        np.argsort(by_rank).astype(np.int32),
        by_rank,
    )


def _neighbours(source: Ints, target: Ints, count: int) -> tuple[Int32s, Int32s]:
    """(where the list of each operator begins, the neighbours)."""
    first = np.zeros(count + 1, dtype=np.int32)
    np.cumsum(np.bincount(source, minlength=count), out=first[1:])
    return first, target[np.argsort(source, kind="stable")].astype(np.int32)


def rates_of(graph: PartitionGraph, package: Package) -> Floats:
    """Floating-point operations per second of each operator on a chip, [N]."""
    return package.rates(graph.formats or ("",) * len(graph))


def _work(graph: PartitionGraph, package: Package) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
    """(seconds to compute, seconds to move data, whether operations a byte are few), [N] each."""
    busy_s = np.maximum(0.0, graph.latency_s - package.launch_s)
    touched_bytes = graph.output_bytes + graph.weight_bytes
    np.add.at(touched_bytes, graph.edges[:, 1], graph.output_bytes[graph.edges[:, 0]])
    given = ~(np.isnan(graph.flops) | np.isnan(graph.moved_bytes))
    moved_bytes = np.where(given, graph.moved_bytes, touched_bytes)
    flops = np.where(given, graph.flops, busy_s * package.peak_flops)
    few_flops = flops <= package.fused_flops_per_byte * moved_bytes
    compute_s, memory_s = flops / rates_of(graph, package), moved_bytes / package.memory_bytes_per_s
    larger_s = np.maximum(compute_s, memory_s)
    scale = np.divide(busy_s, larger_s, out=np.ones_like(busy_s), where=larger_s > 0)
    guessed_compute_s = np.where(few_flops, 0.0, busy_s)
    guessed_memory_s = np.where(few_flops, busy_s, np.minimum(busy_s, memory_s))
    return (
        np.where(given, compute_s * scale, guessed_compute_s),
        np.where(given, memory_s * scale, guessed_memory_s),
        few_flops,
    )


def _fused_into(
    graph: PartitionGraph, few_flops: npt.NDArray[np.bool_], out_first: Int32s, in_first: Int32s, in_node: Int32s
) -> Int32s:
    single = np.diff(in_first) == 1
    producer = np.full(len(graph), -1, dtype=np.int32)
    producer[single] = in_node[in_first[:-1][single]]
    fits = single & few_flops & (graph.weight_bytes <= graph.output_bytes)
    fits &= np.where(single, np.diff(out_first)[producer] == 1, False)
    return np.where(fits, producer, -1).astype(np.int32)


def min_bytes(operators: Operators) -> Floats:
    """Memory that some chip needs while each operator runs, regardless of the partition, [N].

    Its weights, its inputs and its output are there then, as parts of what waits or in buffers; only a tensor between
    two operators that may be fused need not be.
    """
    count = len(operators.order)
    producers = np.repeat(np.arange(count), np.diff(operators.out_first))
    consumers = operators.out_node
    apart = operators.fused_into[consumers] != producers
    needed = operators.weight_bytes.copy()
    np.add.at(needed, consumers[apart], operators.output_bytes[producers[apart]])
    inside = np.zeros(count, dtype=np.bool_)
    inside[operators.fused_into[operators.fused_into >= 0]] = True
    return np.asarray(needed + np.where(inside, 0.0, operators.output_bytes))


def fingerprints(graph: PartitionGraph) -> list[int]:
    """A word of 64 bits for every operator, the same for any order and any names of the operators."""
    columns = (graph.latency_s, graph.output_bytes, graph.weight_bytes, graph.flops, graph.moved_bytes)
    own = [0] * len(graph)
    for column in columns:
        patterns = np.where(np.isnan(column), -1.0, column).view(np.uint64)
        own = [mixed(word ^ int(pattern)) for word, pattern in zip(own, patterns, strict=True)]
    producers: list[list[int]] = [[] for _ in own]
    consumers: list[list[int]] = [[] for _ in own]
    for source, target in graph.edges:
        producers[target].append(int(source))
        consumers[source].append(int(target))
    order = [int(operator) for operator in graph.topological_order]
    above, below = list(own), list(own)
    for operator in order:
        for producer in producers[operator]:
            above[operator] += mixed(above[producer] ^ 1)
        above[operator] = mixed(above[operator])
    for operator in reversed(order):
        for consumer in consumers[operator]:
            below[operator] += mixed(below[consumer] ^ 2)
        below[operator] = mixed(below[operator])
    return [mixed(up ^ (down << 1)) for up, down in zip(above, below, strict=True)]


def mixed(word: int) -> int:
    """A word of 64 bits with its bits well mixed (the output function of splitmix64, Steele et al., OOPSLA 2014)."""
    word = (word + 0x9E3779B97F4A7C15) & _WORD
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 & _WORD
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB & _WORD
    return word ^ (word >> 31)
