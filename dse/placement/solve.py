"""The exact optimum of a placement problem, by the algorithm that its layer graphs call for."""

import math
from itertools import pairwise

import numpy as np

from dse.placement.problem import LayerGraph, Placement, PlacementProblem, PlacementSolution, Stage
from dse.placement.search.chain_dp import ChainLatencies, optimum
from dse.placement.search.chain_structure import chain_structures, is_totally_ordered
from dse.placement.search.downset_dp import DownsetAnswer, downset_placement
from dse.placement.shortfall import explain
from dse.run.progress import StopSignal, never_stop
from hardware.inputs import fail

_PROVEN = 1e-9
"""Relative distance of bound and placement up to which the placement counts as proven."""


def solve(problem: PlacementProblem, cutoff_s: float = math.inf, stop: StopSignal = never_stop) -> PlacementSolution:
    """The placement of least ``batch_s`` over all widths; the exact optimum, with a fixed choice among equal ones.

    Totally ordered layers go through :mod:`dse.placement.search.chain_dp`, graphs that branch through
    :mod:`dse.placement.search.downset_dp`. With ``cutoff_s`` only a placement that is faster is looked for; where there
    is none, neither a placement nor a shortfall is returned. A ``stop`` leaves what was found of graphs that branch by
    then, with a bound; there may be neither a placement nor a shortfall then, too.

    Raises:
        InputError: no width can be placed on so few accelerators, or a graph branches beyond the limits of
            :mod:`dse.placement.search.downset_dp`.
    """
    min_accelerators = min(map(_group_size, problem.tensor_parallel.items()))
    if min_accelerators > problem.accelerators:
        rule = f"the smallest tensor-parallel width needs at least {min_accelerators} accelerators"
        raise fail(problem.name, "accelerators", problem.accelerators, rule)
    best: Placement | None = None
    bound_s = best_s = cutoff_s
    for tensor in sorted(problem.tensor_parallel):
        answer = _width_answer(problem, tensor, best_s, stop)
        bound_s = min(bound_s, answer.bound_s)
        if answer.placement is not None:
            best, best_s = answer.placement, answer.placement.batch_s
    proven = bound_s >= best_s * (1.0 - _PROVEN)
    if best is None and not proven:
        if stop() is not None:
            return PlacementSolution(None, None, bound_s)
        rule = "existence of a placement was not decided within the limits for branching layer graphs"
        raise fail(problem.name, "tensor_parallel", "", rule)
    shortfall = explain(problem) if best is None and cutoff_s == math.inf else None
    return PlacementSolution(best, shortfall, None if proven else bound_s)


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


def _width_answer(problem: PlacementProblem, tensor: int, cutoff_s: float, stop: StopSignal) -> DownsetAnswer:
    graph = problem.tensor_parallel[tensor]
    if _group_size((tensor, graph)) > problem.accelerators:
        return DownsetAnswer(None, math.inf)
    contiguous = ChainSolver(problem, tensor)(layer_latencies(graph), cutoff_s)
    incumbent_s = contiguous.batch_s if contiguous else cutoff_s
    if is_totally_ordered(graph):
        return DownsetAnswer(contiguous, incumbent_s)
    answer = downset_placement(problem, tensor, incumbent_s, stop=stop)
    return DownsetAnswer(answer.placement or contiguous, answer.bound_s)


class ChainSolver:
    """The best placement of one width whose stages are contiguous in the problem's order, each on one group.

    For totally ordered layers that is the optimum. Build it once, call it for many latencies.

    Args:
        problem: the problem; latencies in it are ignored.
        tensor: the width.
    """

    def __init__(self, problem: PlacementProblem, tensor: int) -> None:
        self._graph = problem.tensor_parallel[tensor]
        self._tensor = tensor
        self._structures = chain_structures(problem, tensor)

    def __call__(self, latencies: ChainLatencies, cutoff_s: float = math.inf) -> Placement | None:
        """The best placement with layers of ``latencies``; None where none is faster than ``cutoff_s``."""
        chain = optimum([(structure, latencies) for structure in self._structures], cutoff_s)
        if chain is None:
            return None
        bounds = (0, *chain.cuts, len(self._graph.layers))
        stages = tuple(_chain_stage(self._graph, self._tensor, begin, end) for begin, end in pairwise(bounds))
        return Placement(self._tensor, chain.data, stages, chain.batch_s)


def _chain_stage(graph: LayerGraph, tensor: int, begin: int, end: int) -> Stage:
    layers = tuple(range(begin, end))
    return Stage(layers, tensor if any(graph.layers[layer].sliced for layer in layers) else 1)
