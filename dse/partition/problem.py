"""The multi-chip partitioning problem (paper section 3, equations 1 to 5).

Every operator v of a directed acyclic graph gets a chip f(v) of 0 … C−1 on a one-directional ring, so that

(2) no edge leads to a lower chip: f(u) ≤ f(v) for every edge (u, v);
(3) no chip below a used one is empty;
(4) the *chip graph*, with an arc a → b where an edge leads from an operator on chip a to one on chip b ≠ a, is its own
    transitive reduction: an arc does not coexist with a longer path between the same two chips. (The printed form of
    (4) takes the length of the longest path; where there is no path it must be −∞, not 0.)
(5) each chip's memory holds its weights, where the problem has a limit.

The reference cost of a chip is the sum of its operators' latencies, the sending of every output that another chip
consumes (once), and the receiving of every distinct output of another chip; a link between neighbours carries each
output once whose farthest consumer lies beyond it. The slowest chip or link is the time between two inputs of a
pipeline, the reciprocal of its throughput.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from dse.graph.named_edges import topological_order

MEMORY_TOLERANCE = 1e-9
"""Relative: bytes that are not whole numbers come to another sum in another order."""

ObjectiveName = Literal["throughput", "latency"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

Chips = npt.NDArray[np.int8]
"""Partitions: the chip of every operator, [B, N]."""


@dataclass(frozen=True)
class Copy:
    """An operator that graph preparation has copied.

    Attributes:
        operator: the user's operator that it is a copy of.
        consumer: the user's operator that it is for; no other copy of ``operator`` is for that one.
    """

    operator: str
    consumer: str


@dataclass(frozen=True, eq=False)
class PartitionGraph:
    """Operators and the tensors between them.

    Attributes:
        name: of the graph.
        names: the operators' names, [N].
        latency_s: time of each operator on one chip, [N]; NaN where a package is to price it (:meth:`priced`).
        output_bytes: size of each operator's output, [N].
        weight_bytes: size of each operator's weights, [N].
        edges: (producer, consumer) by position, [E, 2], each once.
        flops: floating-point operations of each operator, [N]; NaN where they are not known.
        moved_bytes: bytes that each operator reads and writes, [N]; NaN where they are not known.
        copy_of: what each operator is a copy of, None for one that was not copied, [N]; empty where none was.
        formats: the formats of the operands of each operator's products
            (:meth:`hardware.packages.Package.rates`), [N]; empty where they are not known.
    """

    name: str
    names: tuple[str, ...]
    latency_s: Floats
    output_bytes: Floats
    weight_bytes: Floats
    edges: Ints
    flops: Floats
    moved_bytes: Floats
    copy_of: tuple[Copy | None, ...] = ()
    formats: tuple[str, ...] = ()

    @classmethod
    def unpriced(
        cls,
        name: str,
        names: Iterable[str],
        columns: Sequence[Sequence[float]],
        edges: Iterable[tuple[int, int]],
        formats: Iterable[str] = (),
    ) -> "PartitionGraph":
        """A graph for a package to price; ``columns``: output, weights, FLOPs and bytes of each operator, [N, 4]."""
        output, weight, flops, moved = np.array(columns, dtype=np.float64).reshape(-1, 4).T.copy()
        pairs = np.array(list(edges), dtype=np.int64).reshape(-1, 2)
        unknown_s = np.full(len(output), np.nan)
        return cls(name, tuple(names), unknown_s, output, weight, pairs, flops, moved, formats=tuple(formats))

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The operators' names for people: the user's, of a copy with the consumer that it is for, [N]."""
        if not self.copy_of:
            return self.names
        pairs = zip(self.names, self.copy_of, strict=True)
        return tuple(name if copy is None else f"{copy.operator} (for {copy.consumer})" for name, copy in pairs)

    @cached_property
    def topological_order(self) -> Ints:
        """The operators, producers before consumers; of those that may come next the first by position."""
        edges = [(int(source), int(target)) for source, target in self.edges]
        return np.array(topological_order(len(self), edges), dtype=np.int64)

    @cached_property
    def late_order(self) -> Ints:
        """The operators, producers before consumers, branch by branch and each branch as late as possible.

        What a graph computes early and uses late, as a mask for every layer, comes right before its first use: the
        order is made from its end, and of the producers of an operator the one comes first then that has the fewest
        operators on the longest way to it. O((N + E) log N).
        """
        producers: list[list[int]] = [[] for _ in self.names]
        left, depth = np.zeros(len(self), dtype=np.int64), np.zeros(len(self), dtype=np.int64)
        for source, target in self.edges.tolist():
            producers[target].append(source)
            left[source] += 1
        for operator in self.topological_order.tolist():
            depth[operator] = max((depth[producer] + 1 for producer in producers[operator]), default=0)
        ready, order = np.flatnonzero(left == 0).tolist(), []
        while ready:
            operator = ready.pop()
            order.append(operator)
            for producer in sorted(producers[operator], key=lambda each: (-depth[each], each)):
                left[producer] -= 1
                if not left[producer]:
                    ready.append(producer)
        return np.array(order[::-1], dtype=np.int64)

    def priced(self, latency_s: Floats) -> "PartitionGraph":
        """The graph with ``latency_s`` [N] wherever it has no latency of its own."""
        return replace(self, latency_s=np.where(np.isnan(self.latency_s), latency_s, self.latency_s))

    def with_weights_as_read(self) -> "PartitionGraph":
        """The graph with the weights that an input reads, where weights are streamed: of a lookup table a few rows."""
        return replace(self, weight_bytes=np.fmin(self.weight_bytes, self.moved_bytes))

    def document(self) -> dict[str, object]:
        """The graph as JSON types (``dse.graph/1``), without what is not known."""
        columns = {
            "latency_s": self.latency_s,
            "output_bytes": self.output_bytes,
            "weight_bytes": self.weight_bytes,
            "flops": self.flops,
            "bytes": self.moved_bytes,
        }
        return {
            "schema": "dse.graph/1",
            "name": self.name,
            "nodes": [
                {"name": name}
                | {key: float(column[index]) for key, column in columns.items() if not np.isnan(column[index])}
                for index, name in enumerate(self.names)
            ],
            "edges": [[self.names[source], self.names[target]] for source, target in self.edges],
        }


@dataclass(frozen=True, eq=False)
class PartitionProblem:
    """A graph on a package.

    Attributes:
        graph: the operators.
        chips: C, at most :data:`~hardware.packages.MAX_CHIPS`.
        link_bytes_per_s: bandwidth of the link between two neighbours, and of a chip's port to its links.
        memory_bytes: what a chip holds of weights; None where memory does not count.
        objective: ``throughput`` of a pipeline, or ``latency`` of one input.
    """

    graph: PartitionGraph
    chips: int
    link_bytes_per_s: float
    memory_bytes: float | None = None
    objective: ObjectiveName = "throughput"

    @property
    def memory_limit_bytes(self) -> float:
        """What the weights of a chip may come to, summed in any order; infinite where memory does not count."""
        return np.inf if self.memory_bytes is None else self.memory_bytes * (1 + MEMORY_TOLERANCE)

    def document(self) -> dict[str, object]:
        """The problem as JSON types, as it is digested."""
        return {
            "graph": self.graph.document(),
            "chips": self.chips,
            "link_bytes_per_s": self.link_bytes_per_s,
            "memory_bytes": self.memory_bytes,
            "objective": self.objective,
        }
