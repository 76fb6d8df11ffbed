"""The reference cost of many valid partitions at once.

The definition is in :mod:`dse.partition.problem`, its plain form in :mod:`dse.partition.check`. Cost: O(N + E) for a
partition, 5 to 10 µs for 2,138 operators.
"""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import numpy as np

from dse.algorithms.bits import bit, leading, lowest
from dse.partition.constraints.structure import structure_of
from dse.partition.problem import Chips, Floats, PartitionProblem
from hardware.compiled import compiled, read_only
from hardware.packages import MAX_CHIPS


class AnalyticalEvaluator:
    """Costs of partitions that satisfy (2) to (4) under the reference evaluator.

    Args:
        problem: graph, package and objective.
    """

    is_reference = True

    def __init__(self, problem: PartitionProblem) -> None:
        graph = problem.graph
        self._structure = structure_of(graph)
        self._latency_s = read_only(graph.latency_s)
        self._transfer_s = graph.output_bytes / problem.link_bytes_per_s
        self._weight_bytes = read_only(graph.weight_bytes)
        self._memory_bytes = problem.memory_limit_bytes
        self._objective = problem.objective
        self._chips = problem.chips

    def costs(self, chips: Chips) -> Floats:
        """Seconds of each partition, [B]; infinite where a chip's memory does not hold its weights (5)."""
        slowest_s, latency_s, fullest_bytes, *_ = self._priced(chips)
        costs_s = slowest_s if self._objective == "throughput" else latency_s
        return np.where(fullest_bytes <= self._memory_bytes, costs_s, np.inf)

    def busy_s(self, chips: Chips) -> Floats:
        """Seconds of each chip, infinite where its memory does not hold its weights, and of the link behind it.

        Of each partition, [B, 2, C].
        """
        busy_s, held_bytes = self._priced(chips)[3:]
        busy_s[:, 0][held_bytes > self._memory_bytes] = np.inf
        return busy_s[:, :, : self._chips]

    def _priced(self, chips: Chips) -> tuple[Floats, ...]:
        priced: tuple[Floats, ...] = _costs(
            read_only(np.ascontiguousarray(chips, dtype=np.int8)),
            self._structure.out_first,
            self._structure.out_node,
            self._latency_s,
            self._transfer_s,
            self._weight_bytes,
            MAX_CHIPS,
        )
        return priced


@compiled
def _costs(chips, first, node, latency_s, transfer_s, weight_bytes, max_chips):
    """(slowest chip or link, latency of one input, fullest chip) of each partition, [B] each; busy, held."""
    count = chips.shape[0]
    slowest, latency, fullest = np.zeros(count), np.zeros(count), np.zeros(count)
    busy, held_bytes = np.zeros((count, 2, max_chips)), np.zeros((count, max_chips))
    link_s, finish_s = np.zeros(max_chips), np.zeros(max_chips)
    heard = np.zeros(max_chips, dtype=np.uint64)
    for number in range(count):
        chip_s, held = busy[number, 0], held_bytes[number]
        link_s[:] = 0.0
        heard[:] = 0
        chip = chips[number]
        for operator in range(chips.shape[1]):
            here = chip[operator]
            elsewhere = np.uint64(0)
            for index in range(first[operator], first[operator + 1]):
                elsewhere |= bit(chip[node[index]])
            elsewhere &= ~bit(here)
            chip_s[here] += latency_s[operator]
            held[here] += weight_bytes[operator]
            if elsewhere != np.uint64(0):
                seconds = transfer_s[operator]
                chip_s[here] += seconds
                link_s[here] += seconds
                link_s[np.int64(63) - np.int64(leading(elsewhere))] -= seconds
                while elsewhere != np.uint64(0):
                    there = lowest(elsewhere)
                    chip_s[there] += seconds
                    heard[there] |= bit(here)
                    elsewhere &= elsewhere - np.uint64(1)
        on_link = 0.0
        for here in range(max_chips):
            on_link += link_s[here]
            busy[number, 1, here] = on_link
            begin = 0.0
            while heard[here] != np.uint64(0):
                begin = max(begin, finish_s[lowest(heard[here])])
                heard[here] &= heard[here] - np.uint64(1)
            finish_s[here] = begin + chip_s[here]
            slowest[number] = max(slowest[number], chip_s[here], on_link)
            latency[number] = max(latency[number], finish_s[here])
            fullest[number] = max(fullest[number], held[here])
    return slowest, latency, fullest, busy, held_bytes
