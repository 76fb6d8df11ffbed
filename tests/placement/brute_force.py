"""Every placement of a small problem, one after another; the checker judges them."""

import math
from collections.abc import Iterator
from dataclasses import replace

from dse.placement.check import batch_s, violations
from dse.placement.problem import LayerGraph, Placement, PlacementProblem, Stage


def min_batch_s(problem: PlacementProblem, groups: bool = False) -> float:
    """The optimum over all placements (with ``groups`` over all assignments to groups too); infinite if none fits."""
    return min((placement.batch_s for placement in placements(problem, groups)), default=math.inf)


def placements(problem: PlacementProblem, groups: bool) -> Iterator[Placement]:
    """All valid placements."""
    for tensor, graph in problem.tensor_parallel.items():
        for parts in _ordered_partitions(graph, frozenset()):
            for stages in _with_groups(graph, tensor, parts, groups):
                used = sum(stage.accelerators for stage in stages)
                for data in range(1, min(problem.accelerators // used, problem.microbatches) + 1):
                    placement = Placement(tensor, data, stages, batch_s(problem, tensor, data, stages))
                    gpipe = problem.pipeline_schedule == "gpipe"
                    if (data == 1 or gpipe) and violations(problem, placement):
                        if gpipe:
                            continue
                        break  # under 1F1B memory does not depend on the number of pipelines
                    yield placement


def _ordered_partitions(graph: LayerGraph, done: frozenset[int]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Sequences of stages whose prefixes are closed under predecessors."""
    left = [layer for layer in range(len(graph.layers)) if layer not in done]
    if not left:
        yield ()
    for chosen in range(1, 1 << len(left)):
        stage = tuple(layer for place, layer in enumerate(left) if chosen >> place & 1)
        after = done | set(stage)
        if all(source in after for source, target, _ in graph.edges if target in after):
            for rest in _ordered_partitions(graph, after):
                yield (stage, *rest)


def _with_groups(
    graph: LayerGraph, tensor: int, parts: tuple[tuple[int, ...], ...], groups: bool
) -> Iterator[tuple[Stage, ...]]:
    if not parts:
        yield ()
        return
    size = tensor if any(graph.layers[layer].sliced for layer in parts[0]) else 1
    for rest in _with_groups(graph, tensor, parts[1:], groups):
        for partition in _set_partitions(parts[0]) if groups else [(parts[0],)]:
            stage = Stage(parts[0], size * len(partition), partition if len(partition) > 1 else ())
            yield (stage, *rest)


def _set_partitions(items: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], ...]]:
    if not items:
        yield ()
        return
    for partition in _set_partitions(items[1:]):
        yield ((items[0],), *partition)
        for place, group in enumerate(partition):
            yield (*partition[:place], (items[0], *group), *partition[place + 1 :])


def min_memory_bytes(problem: PlacementProblem, groups: bool = False) -> float:
    """The smallest ``hbm_bytes`` at which some placement exists: bisection on the brute force, to one byte."""
    low, high = 0, 2**40
    while high - low > 1:
        middle = (low + high) // 2
        if math.isfinite(min_batch_s(replace(problem, hbm_bytes=float(middle)), groups)):
            high = middle
        else:
            low = middle
    return float(high)
