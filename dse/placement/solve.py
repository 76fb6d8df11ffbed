"""The exact optimum of a placement problem, by the algorithm that its layer graphs call for."""

import math
from itertools import pairwise

import numpy as np

from dse.placement.chain_dp import ChainLatencies, width_optimum
from dse.placement.chain_structure import chain_structure, is_totally_ordered
from dse.placement.downset_dp import downset_placement
from dse.placement.problem import LayerGraph, MemoryShortfall, Placement, PlacementProblem, PlacementSolution, Stage
from dse.placement.shortfall import MemoryNeed, chain_memory_needs, explain, with_recompute
from hardware.inputs import fail


def solve(problem: PlacementProblem, cutoff_s: float = math.inf) -> PlacementSolution:
    """The placement of least ``batch_s`` over all widths; the exact optimum, with a fixed choice among equal ones.

    Totally ordered layers go through :mod:`dse.placement.chain_dp`, graphs that branch through
    :mod:`dse.placement.downset_dp`. With ``cutoff_s`` only a placement that is faster is looked for; where there is
    none, neither a placement nor a shortfall is returned.

    Raises:
        InputError: no width can be placed on so few accelerators, or a graph branches beyond the limits of
            :mod:`dse.placement.downset_dp`.
    """
    least_accelerators = min(map(_group_size, problem.tensor_parallel.items()))
    if least_accelerators > problem.accelerators:
        rule = f"the smallest tensor-parallel width needs at least {least_accelerators} accelerators"
        raise fail(problem.name, "accelerators", problem.accelerators, rule)
    best: Placement | None = None
    for tensor in sorted(problem.tensor_parallel):
        found = _width_placement(problem, tensor, cutoff_s)
        if found is not None:
            best, cutoff_s = found, found.batch_s
    shortfall = _shortfall(problem) if best is None and cutoff_s == math.inf else None
    return PlacementSolution(best, shortfall)


def layer_latencies(graph: LayerGraph) -> ChainLatencies:
    """The latencies of a graph's layers as arrays."""
    return ChainLatencies(
        np.array([layer.forward_s for layer in graph.layers], dtype=np.float64),
        np.array([layer.backward_s for layer in graph.layers], dtype=np.float64),
        np.array([layer.update_s for layer in graph.layers], dtype=np.float64),
    )


def _group_size(width: tuple[int, LayerGraph]) -> int:
    """Accelerators that any placement of a width needs at least."""
    tensor, graph = width
    return tensor if any(layer.sliced for layer in graph.layers) else 1


def _width_placement(problem: PlacementProblem, tensor: int, cutoff_s: float) -> Placement | None:
    graph = problem.tensor_parallel[tensor]
    if _group_size((tensor, graph)) > problem.accelerators:
        return None
    contiguous = _contiguous_placement(problem, tensor, cutoff_s)
    if is_totally_ordered(graph):
        return contiguous
    incumbent_s = contiguous.batch_s if contiguous else cutoff_s
    return downset_placement(problem, tensor, incumbent_s) or contiguous


def _contiguous_placement(problem: PlacementProblem, tensor: int, cutoff_s: float) -> Placement | None:
    """The best placement whose stages are contiguous in the problem's order, each on one group."""
    graph = problem.tensor_parallel[tensor]
    found = width_optimum(chain_structure(problem, tensor), layer_latencies(graph), cutoff_s)
    if found is None:
        return None
    bounds = (0, *found.cuts, len(graph.layers))
    stages = tuple(_chain_stage(graph, tensor, begin, end) for begin, end in pairwise(bounds))
    return Placement(tensor, found.data, stages, found.batch_s)


def _chain_stage(graph: LayerGraph, tensor: int, begin: int, end: int) -> Stage:
    layers = tuple(range(begin, end))
    return Stage(layers, tensor if any(graph.layers[layer].sliced for layer in layers) else 1)


def _shortfall(problem: PlacementProblem) -> MemoryShortfall:
    recomputing = with_recompute(problem)
    return explain(problem, _memory_needs(problem), _memory_needs(recomputing) if recomputing else {})


def _memory_needs(problem: PlacementProblem) -> dict[int, list[MemoryNeed]]:
    return {tensor: chain_memory_needs(problem, tensor) for tensor in problem.tensor_parallel}
