"""The independent checker: the constraints and the reference cost of :mod:`dse.partition.problem`, from the definition.

It shares no code with the evaluators, the constraint solver and the search methods.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dse.partition.problem import PartitionGraph, PartitionProblem

_RELATIVE_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Stages:
    """What a partition costs: seconds of every used chip, and of every link between two neighbours."""

    chip_s: tuple[float, ...]
    link_s: tuple[float, ...]

    @property
    def slowest_s(self) -> float:
        """The slowest chip or link."""
        return max((*self.chip_s, *self.link_s))

    @property
    def bottleneck(self) -> str:
        """What decides the throughput: ``chip 3`` or ``link 3 → 4``; of equals the first, chips before links."""
        if self.slowest_s in self.chip_s:
            return f"chip {self.chip_s.index(self.slowest_s)}"
        link = self.link_s.index(self.slowest_s)
        return f"link {link} → {link + 1}"


def violations(problem: PartitionProblem, chip: Sequence[int]) -> list[str]:
    """Every constraint that ``chip`` breaks, one sentence each; empty when the partition is valid."""
    graph = problem.graph
    if len(chip) != len(graph):
        return [f"the partition must assign a chip to each of {len(graph)} operators, but assigns {len(chip)}"]
    unknown_chips = [
        f"{name}: chip must be from 0 to {problem.chips - 1}, but is {where}"
        for name, where in zip(graph.labels, chip, strict=True)
        if not 0 <= where < problem.chips
    ]
    return unknown_chips or [
        *_backward_edges(graph, chip),
        *_empty_chips(chip),
        *_triangles(graph, chip),
        *_full_chips(problem, chip),
    ]


def _backward_edges(graph: PartitionGraph, chip: Sequence[int]) -> list[str]:
    return [
        f"(2) data must not flow to a lower chip, but {graph.labels[source]} is on chip {chip[source]} and its "
        f"consumer {graph.labels[target]} on chip {chip[target]}"
        for source, target in graph.edges
        if chip[source] > chip[target]
    ]


def _empty_chips(chip: Sequence[int]) -> list[str]:
    used = set(chip)
    return [
        f"(3) chips must be used without gaps, but chip {number} is empty and chip {max(used)} is used"
        for number in range(max(used, default=-1))
        if number not in used
    ]


def chip_graph(graph: PartitionGraph, chip: Sequence[int]) -> dict[int, dict[int, tuple[int, int]]]:
    """For every chip with consumers elsewhere, those chips, each with one edge that leads there."""
    arcs: dict[int, dict[int, tuple[int, int]]] = defaultdict(dict)
    for source, target in graph.edges:
        if chip[source] != chip[target]:
            arcs[chip[source]].setdefault(chip[target], (int(source), int(target)))
    return arcs


def _triangles(graph: PartitionGraph, chip: Sequence[int]) -> list[str]:
    arcs = chip_graph(graph, chip)
    faults = []
    for first, targets in sorted(arcs.items()):
        for last, (source, target) in sorted(targets.items()):
            for middle in sorted(targets):
                if middle != last and _leads(arcs, middle, last):
                    edge = f"{graph.labels[source]} → {graph.labels[target]}"
                    faults.append(
                        f"(4) chip {first} must not reach chip {last} both directly and indirectly, but {edge} does so "
                        f"directly and another path goes through chip {middle}"
                    )
                    break
    return faults


def _leads(arcs: dict[int, dict[int, tuple[int, int]]], first: int, last: int) -> bool:
    """Whether a path leads from chip ``first`` to chip ``last``."""
    seen, left = {first}, [first]
    while left:
        for chip in arcs.get(left.pop(), {}):
            if chip == last:
                return True
            if chip not in seen:
                seen.add(chip)
                left.append(chip)
    return False


def _full_chips(problem: PartitionProblem, chip: Sequence[int]) -> list[str]:
    limit = problem.memory_bytes
    if limit is None:
        return []
    held: dict[int, float] = defaultdict(float)
    for position, where in enumerate(chip):
        held[where] += float(problem.graph.weight_bytes[position])
    return [
        f"(5) weights on a chip must fit in {limit:.0f} bytes, but chip {where} has {size:.0f} bytes"
        for where, size in sorted(held.items())
        if size > limit * (1 + _RELATIVE_TOLERANCE)
    ]


def stages(problem: PartitionProblem, chip: Sequence[int]) -> Stages:
    """The reference cost of a partition, tensor by tensor."""
    graph = problem.graph
    count = max(chip) + 1
    chip_s, link_s = [0.0] * count, [0.0] * max(0, count - 1)
    consumers: dict[int, set[int]] = defaultdict(set)
    for source, target in graph.edges:
        consumers[int(source)].add(chip[target])
    for position, where in enumerate(chip):
        chip_s[where] += float(graph.latency_s[position])
        elsewhere = consumers[position] - {where}
        transfer_s = float(graph.output_bytes[position]) / problem.link_bytes_per_s
        if elsewhere:
            chip_s[where] += transfer_s
        for other in elsewhere:
            chip_s[other] += transfer_s
        for link in range(where, max(elsewhere, default=where)):
            link_s[link] += transfer_s
    return Stages(tuple(chip_s), tuple(link_s))


def latency_s(problem: PartitionProblem, chip: Sequence[int]) -> float:
    """The time of one input alone: each chip starts when the last of its producers' chips has finished."""
    chip_s = stages(problem, chip).chip_s
    arcs = chip_graph(problem.graph, chip)
    finish_s = [0.0] * len(chip_s)
    for number, own_s in enumerate(chip_s):
        ready_s = [finish_s[other] for other, targets in arcs.items() if number in targets]
        finish_s[number] = max(ready_s, default=0.0) + own_s
    return max(finish_s)


def partition_metrics(problem: PartitionProblem, chip: Sequence[int]) -> dict[str, Any]:
    """What a result says of a valid partition, from the definition: sizes, seconds of chips and links, weights.

    All times are the reference evaluator's, whatever evaluator the search used.
    """
    cost = stages(problem, chip)
    weight_bytes = [0.0] * len(cost.chip_s)
    for position, where in enumerate(chip):
        weight_bytes[where] += float(problem.graph.weight_bytes[position])
    return {
        "operators": len(problem.graph),
        "edges": len(problem.graph.edges),
        "chips": problem.chips,
        "chips_used": max(chip) + 1,
        "chip_s": list(cost.chip_s),
        "link_s": list(cost.link_s),
        "bottleneck": cost.bottleneck,
        "chip_weight_bytes": weight_bytes,
    }


def cost_s(problem: PartitionProblem, chip: Sequence[int]) -> float:
    """What the problem minimises, under the reference evaluator."""
    return stages(problem, chip).slowest_s if problem.objective == "throughput" else latency_s(problem, chip)
