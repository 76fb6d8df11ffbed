"""What is known of a chip's stage before it is measured.

Everything comes from the graph and the reference evaluator: a package's own parameters, which an evaluator may keep to
itself, are not read. Amounts are seconds, over those of the stage under the reference evaluator, so that graphs of any
size look alike; what costs a launch each counts as the shortest operator of the graph.
"""

import numpy as np
import numpy.typing as npt

from dse.partition.evaluators.analytical import AnalyticalEvaluator
from dse.partition.problem import Chips, Floats, PartitionProblem, Words
from dse.partition.search.context import throughput_of

FEATURES = (
    "latency",
    "sent and received",
    "operators",
    "operators behind their only producer",
    "bytes between those",
    "edges from other chips",
    "edges to other chips",
    "weights",
    "weights beyond latency",
    "stage",
)
"""Columns of :meth:`StageFeatures.of`."""

_SEED = 0x57A6E
"""Of the words that name sets of operators."""


class StageFeatures:
    """Features of the stages of one graph's partitions.

    Args:
        problem: graph and package.
    """

    def __init__(self, problem: PartitionProblem) -> None:
        graph = problem.graph
        self._chips = problem.chips
        self._reference = AnalyticalEvaluator(throughput_of(problem))
        positive = graph.latency_s[graph.latency_s > 0]
        self._launch_s = float(positive.min()) if len(positive) else 1.0
        edges = graph.edges.reshape(-1, 2)
        self._source, self._target = edges[:, 0], edges[:, 1]
        consumers = np.bincount(self._source, minlength=len(graph))
        producers = np.bincount(self._target, minlength=len(graph))
        self._is_chained = (consumers[self._source] == 1) & (producers[self._target] == 1)
        self._between_s = graph.output_bytes[self._source] / problem.link_bytes_per_s
        self._latency_s = graph.latency_s
        self._weight_s = graph.weight_bytes / problem.link_bytes_per_s
        self._word = np.random.default_rng(_SEED).integers(1 << 63, size=len(graph), dtype=np.uint64)

    def reference_s(self, chips: Chips) -> Floats:
        """Seconds of chips and links of each partition [B, N] under the reference evaluator, [B, 2, C]."""
        return self._reference.busy_s(chips)

    def sets(self, chips: Chips) -> Words:
        """A word for the operators of each chip of each partition [B, N], the same for the same ones, [B, C]."""
        words = np.zeros((len(chips), self._chips), dtype=np.uint64)
        np.add.at(words, (np.arange(len(chips))[:, None], chips), self._word)
        return words

    def of(self, chips: Chips, reference_s: Floats) -> Floats:
        """Features of the chips of each partition [B, N], [B, C, :data:`FEATURES`]; zeros for unused chips."""
        cell = self._cells(chips)
        source, target = cell[:, self._source], cell[:, self._target]
        inside = source == target
        chained = inside & self._is_chained
        latency_s, weight_s = self._sums(cell, self._latency_s), self._sums(cell, self._weight_s)
        seconds = [
            latency_s,
            reference_s[:, 0] - latency_s,
            self._launch_s * self._sums(cell, 1.0),
            self._launch_s * self._sums(source, chained),
            self._sums(source, chained * self._between_s),
            self._launch_s * self._sums(target, ~inside),
            self._launch_s * self._sums(source, ~inside),
            weight_s,
            np.maximum(0.0, weight_s - latency_s),
            np.full_like(latency_s, self._launch_s),
        ]
        amounts, whole_s = np.stack(seconds, axis=-1), reference_s[:, 0, :, None]
        return np.asarray(np.divide(amounts, whole_s, out=np.zeros_like(amounts), where=whole_s > 0), dtype=np.float64)

    def _cells(self, chips: Chips) -> npt.NDArray[np.int64]:
        """Where each operator of each partition counts in sums over chips, [B, N]."""
        return chips.astype(np.int64) + self._chips * np.arange(len(chips))[:, None]

    def _sums(self, cell: npt.NDArray[np.int64], amounts: npt.ArrayLike) -> Floats:
        """Sums of the amounts over the cells, [B, C]."""
        weights = np.broadcast_to(np.asarray(amounts, dtype=np.float64), cell.shape)
        sums = np.bincount(cell.ravel(), weights.ravel(), minlength=len(cell) * self._chips)
        return np.asarray(sums.reshape(len(cell), self._chips), dtype=np.float64)
