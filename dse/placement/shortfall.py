"""Why no placement fits memory: how much the least demanding one needs, computed exactly.

The least memory with which some placement exists is a bottleneck problem: split the layers into s stages so that the
largest need of any stage is least. The need of a stage grows with its depth, so every depth has its own needs.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dse.placement.check import stage_memory_bytes
from dse.placement.problem import LayerGraph, MemoryShortfall, Placement, PlacementProblem
from dse.placement.search.chain_structure import edge_tables, is_totally_ordered, plain_ends, stash_table
from dse.placement.search.downset_dp import downset_placement
from dse.placement.search.pipelines import PipelineRange, pipeline_ranges
from hardware.compiled import compiled


@dataclass(frozen=True)
class MemoryNeed:
    """The least memory that some split needs at one width, with ``accelerators`` at hand.

    Under 1F1B, where more pipelines save no memory, the accelerators are those of a single one.
    ``stage_layers`` are the positions of the layers of the stage that needs most in that split.
    """

    tensor: int
    accelerators: int
    needed_bytes: float
    stage_layers: tuple[int, ...]


def chain_memory_needs(problem: PlacementProblem, tensor: int) -> list[MemoryNeed]:
    """Least needs of width ``tensor`` for ascending numbers of accelerators, each smaller than the one before.

    Under GPipe more pipelines, with fewer microbatches each, are one way to need less.

    The layers are totally ordered (or taken so). The needs go beyond the accelerators that the problem has.
    """
    splits = [
        split
        for pipelines in pipeline_ranges(problem, problem.microbatches)
        for split in _splits(problem, tensor, pipelines)
    ]
    needs: list[MemoryNeed] = []
    for split in sorted(splits, key=lambda split: split[:4]):
        accelerators, needed_bytes, stages, plain, need, cut = split
        if not needs or needed_bytes < needs[-1].needed_bytes:
            layers = _neediest_stage(need, cut, stages, plain)
            needs.append(MemoryNeed(tensor, accelerators, needed_bytes, layers))
    return needs


_Split = tuple[int, float, int, int, NDArray[np.float64], NDArray[np.int64]]
"""(accelerators, needed bytes, stages, plain stages) of the best split, and the tables that it is traced in."""


def _splits(problem: PlacementProblem, tensor: int, pipelines: PipelineRange) -> list[_Split]:
    """For each number of stages and plain stages the split of least need, with the fewest pipelines of the range."""
    graph = problem.tensor_parallel[tensor]
    sliced = [layer.sliced for layer in graph.layers]
    slots = tensor if any(sliced) else 1
    mixed = slots > 1 and not all(sliced)
    count = len(sliced)
    need, cut = _min_needs(
        np.array([layer.weight_bytes for layer in graph.layers], dtype=np.float64),
        np.array([layer.activation_bytes for layer in graph.layers], dtype=np.float64),
        stash_table(problem, graph, edge_tables(graph, problem.network_bytes_per_s)[2]),
        problem.recomputes_layers,
        float(problem.state_factor),
        pipelines.stashes,
        pipelines.growth,
        plain_ends(sliced) if mixed else np.arange(count, dtype=np.int64),
        sliced.count(False) if mixed else 0,
    )
    return [
        (
            pipelines.min_data * (slots * (stages - plain) + plain),
            float(need[stages, plain, 0]),
            stages,
            plain,
            need,
            cut,
        )
        for stages in range(1, count + 1)
        for plain in range(min(need.shape[1] - 1, stages) + 1)
        if math.isfinite(need[stages, plain, 0])
    ]


def branching_memory_needs(problem: PlacementProblem, tensor: int) -> list[MemoryNeed]:
    """As :func:`chain_memory_needs` for a graph that branches; the needs are rounded up to whole bytes.

    Under 1F1B, up to the accelerators of the problem, the least need is found by bisection over the placement of layers
    that take no time; it is exact where the searches for groups stay within their limits. Beyond them, and under GPipe,
    where each step would have to search all numbers of pipelines, it is that of contiguous stages on one group, which
    is enough but may not be least.
    """
    contiguous = chain_memory_needs(problem, tensor)
    graph = problem.tensor_parallel[tensor]
    idle = tuple(replace(layer, forward_s=0.0, backward_s=0.0, update_s=0.0) for layer in graph.layers)
    still = replace(problem, tensor_parallel={tensor: LayerGraph(idle, graph.edges)})

    def placement(hbm_bytes: int) -> Placement | None:
        return downset_placement(replace(still, hbm_bytes=float(hbm_bytes)), tensor).placement

    allowed = [need.needed_bytes for need in contiguous if need.accelerators <= problem.accelerators]
    if not allowed or problem.pipeline_schedule == "gpipe":
        return contiguous
    too_little, enough = -1, math.ceil(min(allowed))
    while enough - too_little > 1:
        middle = (too_little + enough) // 2
        if placement(middle) is None:
            too_little = middle
        else:
            enough = middle
    fitting = placement(enough)
    assert fitting is not None, "the contiguous placement fits"
    depth = len(fitting.stages)
    needs = [
        stage_memory_bytes(still, still.tensor_parallel[tensor], stage, depth - place, fitting.data)
        for place, stage in enumerate(fitting.stages)
    ]
    stage = fitting.stages[needs.index(max(needs))]
    own = MemoryNeed(tensor, sum(stage.accelerators for stage in fitting.stages), float(enough), stage.layers)
    return [own, *(need for need in contiguous if need.accelerators > problem.accelerators)]


def _neediest_stage(need: NDArray[np.float64], cut: NDArray[np.int64], stages: int, plain: int) -> tuple[int, ...]:
    """Layers of the stage whose own need is the need of the whole split (``cut`` holds end and plain stages left)."""
    begin = 0
    while stages > 1:
        end, plain_left = cut[stages, plain, begin]
        if need[stages - 1, plain_left, end] < need[stages, plain, begin]:
            break
        stages, plain, begin = stages - 1, plain_left, end
    return tuple(range(begin, int(cut[stages, plain, begin, 0])))


def memory_needs(problem: PlacementProblem) -> dict[int, list[MemoryNeed]]:
    """For each width its needs by ascending number of accelerators."""
    return {
        tensor: (chain_memory_needs if is_totally_ordered(graph) else branching_memory_needs)(problem, tensor)
        for tensor, graph in problem.tensor_parallel.items()
    }


def least_demanding(needs: dict[int, list[MemoryNeed]], accelerators: int) -> MemoryNeed | None:
    """The smallest need of any width that ``accelerators`` allow (ties: the smaller width)."""
    allowed = [need for width in sorted(needs) for need in needs[width] if need.accelerators <= accelerators]
    return min(allowed, key=lambda need: need.needed_bytes, default=None)


def explain(problem: PlacementProblem) -> MemoryShortfall:
    """The shortfall of a problem that fits no placement."""
    nearest = least_demanding(memory_needs(problem), problem.accelerators)
    assert nearest is not None, "at least one width must be placeable regardless of memory"
    names = [layer.name for layer in problem.tensor_parallel[nearest.tensor].layers]
    return MemoryShortfall(
        tensor=nearest.tensor,
        stage_layers=tuple(names[layer] for layer in nearest.stage_layers),
        needed_bytes=nearest.needed_bytes,
        hbm_bytes=problem.hbm_bytes,
    )


@compiled
def _min_needs(
    weight_bytes: NDArray[np.float64],
    activation_bytes: NDArray[np.float64],
    stash_bytes: NDArray[np.float64],
    one_by_one: bool,
    state_factor: float,
    stashes: float,
    growth: float,
    plain_end: NDArray[np.int64],
    plain_stages: int,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """need[s, q, i]: least largest need of splitting the layers from i on into s stages, q of them plain."""
    count = len(weight_bytes)
    need = np.full((count + 1, plain_stages + 1, count + 1), np.inf)
    cut = np.zeros((count + 1, plain_stages + 1, count + 1, 2), dtype=np.int64)
    need[0, 0, count] = 0.0
    for stages in range(1, count + 1):
        stashed = stashes + growth * (stages - 1)
        for begin in range(count - stages + 1):
            weights, activations, stash = 0.0, 0.0, 0.0
            for end in range(begin + 1, count - stages + 2):
                weights += weight_bytes[end - 1]
                layer = activation_bytes[end - 1]
                activations = max(activations, layer) if one_by_one else activations + layer
                stash += stash_bytes[begin, end - 1]
                own = state_factor * weights + activations + stashed * stash
                if plain_stages == 0 and own >= need[stages, 0, begin]:
                    break  # a longer stage needs no less
                here = 1 if end <= plain_end[begin] else 0
                for plain in range(here, plain_stages + 1):
                    value = max(own, need[stages - 1, plain - here, end])
                    if value < need[stages, plain, begin]:
                        need[stages, plain, begin] = value
                        cut[stages, plain, begin, 0] = end
                        cut[stages, plain, begin, 1] = plain - here
    return need, cut
