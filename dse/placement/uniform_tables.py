"""Tables for the closed form of :mod:`dse.placement.uniform_bound`: what does not depend on latencies."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dse.placement.problem import LayerGraph, PlacementProblem
from dse.placement.search.chain_structure import ChainStructure
from dse.placement.search.pipelines import gradient_sync, pipeline_choices

_SHARES, _OWN = 0, 1
"""Whether an end layer shares a stage with the run, or has its own."""


PLAN_COLUMNS = ("first", "last", "begin", "end", "share", "last_share", "between")
"""Columns of :attr:`UniformTables.plans`."""


@dataclass(frozen=True)
class UniformTables:
    """What the closed form needs in addition to latencies.

    ``run`` is (first layer, end) of the equal layers. ``plans[arrangement, stages]`` (arrangement: 2 · prefix + suffix,
    each shares 0 or own 1) holds the columns of :data:`PLAN_COLUMNS`: the most layers of the run in its first stage (0
    where the plan is impossible), in its last, the rows of ``choices`` from begin to end, the number of layers that
    some stage of the run reaches, the number that its last stage reaches if all others hold fewer, and the most layers
    in any stage between. A fifth arrangement allows whatever one of the others does.

    ``choices`` are (ceil(M/d), seconds of synchronisation a byte) of the useful numbers of pipelines.
    ``held[depth, c]`` is the sum, over depths 1 to ``depth``, of the layers of a stage that holds c or as many as fit.
    ``transfer_s`` are the transfers from prefix to run, inside the run, from run to suffix, and the least of all edges.
    ``weight_bytes`` are those of the prefix, an equal layer and the suffix. ``recompute`` and ``last_recomputes`` are
    those of :class:`dse.placement.search.chain_structure.ChainStructure`.
    """

    run: tuple[int, int]
    plans: NDArray[np.int64]
    choices: NDArray[np.float64]
    held: NDArray[np.int64]
    transfer_s: tuple[float, float, float, float]
    weight_bytes: tuple[float, float, float]
    recompute: bool
    last_recomputes: bool


def uniform_run(graph: LayerGraph, layer_index: Sequence[int]) -> tuple[int, int] | None:
    """(first, end) of the equal layers of a chain that has at most one other layer at each end; None for others.

    Equal layers have the same index, weights, activations and slicing, and the edges between them the same bytes.
    """
    layers, count = graph.layers, len(graph.layers)
    size = {(source, target): size_bytes for source, target, size_bytes in graph.edges}
    if sorted(size) != list(pairwise(range(count))) or len(graph.edges) != len(size):
        return None
    middle = count // 2

    def equal(position: int) -> bool:
        layer, model = layers[position], layers[middle]
        return layer_index[position] == layer_index[middle] and (
            (layer.weight_bytes, layer.activation_bytes, layer.sliced)
            == (model.weight_bytes, model.activation_bytes, model.sliced)
        )

    first = 0 if equal(0) else 1
    end = count if equal(count - 1) else count - 1
    edges = {size[pair] for pair in pairwise(range(first, end))}
    if first >= end or not all(map(equal, range(first, end))) or len(edges) > 1:
        return None
    return first, end


def uniform_tables(problem: PlacementProblem, structure: ChainStructure, run: tuple[int, int]) -> UniformTables:
    """The tables of one problem and width, from its chain structure and :func:`uniform_run`."""
    graph = problem.tensor_parallel[structure.tensor]
    first, end = run
    count, length = len(graph.layers), end - first
    fits = structure.last_end
    stage_limit = fits.shape[0] - 1
    inner = min(first + 1, end - 1)  # a layer that is entered by an edge of the run
    capacity = np.maximum(np.minimum(fits[:, inner], end) - inner, 0)
    max_layers = np.max([np.minimum(fits[:, begin], end) - max(begin, first) for begin in (0, first, inner)], axis=0)
    shares = _min_shares(max_layers, length)
    plans = np.zeros((5, stage_limit + 1, len(PLAN_COLUMNS)), dtype=np.int64)
    limits = np.zeros((5, stage_limit + 1), dtype=np.int64)
    for arrangement in range(4):
        prefix, suffix = divmod(arrangement, 2)
        if (prefix == _OWN and first == 0) or (suffix == _OWN and end == count):
            continue
        for stages in range(1 + prefix + suffix, min(stage_limit, length + prefix + suffix) + 1):
            capacities = _capacities(fits, capacity, run, prefix, suffix, stages)
            run_stages = stages - prefix - suffix
            if capacities[0] > 0 and shares[0][run_stages] <= length:
                plan = plans[arrangement, stages]
                plan[0], plan[1], plan[6] = capacities
                plan[4], plan[5] = shares[0][run_stages], shares[1][run_stages]
                used = _accelerators(graph, structure, run, prefix, suffix, stages)
                limits[arrangement, stages] = problem.accelerators // used
    limits[4] = limits[:4].max(axis=0)
    plans[4, :, 0] = plans[:4, :, 0].max(axis=0)
    plans[4, :, 4:6] = np.transpose(shares)
    sync = gradient_sync(problem, structure.tensor)
    choices = pipeline_choices(problem.microbatches, sync, limits.ravel().tolist(), *structure.pipelines)
    plans[:, :, 2] = choices.offset[:-1].reshape(limits.shape)
    plans[:, :, 3] = choices.offset[1:].reshape(limits.shape)
    return UniformTables(
        run=run,
        plans=plans,
        choices=np.column_stack([choices.rounds.astype(np.float64), choices.sync_s_per_byte]),
        held=np.cumsum(np.minimum(capacity[:, None], np.arange(length + 1)[None, :]), axis=0),
        transfer_s=_transfers(graph, run, problem.network_bytes_per_s),
        weight_bytes=(
            graph.layers[0].weight_bytes if first else 0.0,
            graph.layers[first].weight_bytes,
            graph.layers[-1].weight_bytes if end < count else 0.0,
        ),
        recompute=structure.recompute,
        last_recomputes=structure.last_recomputes,
    )


def _capacities(
    fits: NDArray[np.int64],
    capacity: NDArray[np.int64],
    run: tuple[int, int],
    prefix: int,
    suffix: int,
    stages: int,
) -> tuple[int, int, int]:
    """Maximum layers of the run in its first stage, its last, and one between (first 0: does not fit memory)."""
    first, end = run
    count, length = fits.shape[1], end - first
    if (prefix == _OWN and fits[stages, 0] < 1) or (suffix == _OWN and fits[1, count - 1] < count):
        return 0, 0, 0
    run_stages = stages - prefix - suffix
    depth = stages - prefix
    begin = first if prefix == _OWN else 0
    if run_stages == 1:
        return (length if fits[depth, begin] >= (end if suffix == _OWN else count) else 0), 0, 0
    max_first = min(fits[depth, begin], end) - first
    if suffix == _OWN:
        max_last = capacity[2]
    else:
        closing = np.flatnonzero(fits[1, first + 1 :] == count)  # the run's first stage has a layer at least
        max_last = end - first - 1 - closing[0] if closing.size else 0
    max_between = capacity[2 + suffix] if run_stages > 2 else 0
    if max_last <= 0 or (run_stages > 2 and capacity[depth - 1] == 0):
        return 0, 0, 0
    return max(0, min(int(max_first), length - run_stages + 1)), int(max_last), int(max_between)


def _accelerators(
    graph: LayerGraph, structure: ChainStructure, run: tuple[int, int], prefix: int, suffix: int, stages: int
) -> int:
    """Accelerators of one pipeline of ``stages`` stages in an arrangement."""
    first, end = run
    count = len(graph.layers)

    def group(*positions: int) -> int:
        return structure.slots if any(graph.layers[position].sliced for position in positions) else 1

    own = (group(0) if prefix == _OWN else 0) + (group(count - 1) if suffix == _OWN else 0)
    before = [0] if prefix == _SHARES and first else []
    behind = [count - 1] if suffix == _SHARES and end < count else []
    run_stages = stages - prefix - suffix
    if run_stages == 1:
        return own + group(*before, first, *behind)
    return own + group(*before, first) + (run_stages - 2) * group(first) + group(first, *behind)


def _min_shares(max_layers: NDArray[np.int64], length: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """``min_share`` and ``min_last`` of :class:`UniformTables`; ``max_layers[depth]`` bounds the layers of a stage."""
    layers = np.arange(length + 1)
    held = np.cumsum(np.minimum(max_layers[1:, None], layers[None, :]), axis=0)  # by s − 1, at most c layers per stage
    min_share = np.full(len(max_layers), length + 1, dtype=np.int64)
    min_last = np.full(len(max_layers), length + 1, dtype=np.int64)
    for stages in range(1, len(max_layers)):
        enough = np.flatnonzero(held[stages - 1] >= length)
        if enough.size:
            share = int(enough[0])
            min_share[stages] = share
            before = held[stages - 1, share - 1] - min(int(max_layers[1]), share - 1)
            min_last[stages] = length - before
    return min_share, min_last


def _transfers(
    graph: LayerGraph, run: tuple[int, int], network_bytes_per_s: float
) -> tuple[float, float, float, float]:
    """``transfer_s`` of :class:`UniformTables`; zero for an edge that does not exist."""
    first, end = run
    seconds = {source: size_bytes / network_bytes_per_s for source, _, size_bytes in graph.edges}
    inside = seconds[first] if end - first > 1 else 0.0
    entering = seconds[0] if first else 0.0
    return entering, inside, seconds.get(end - 1, 0.0), min(seconds.values(), default=0.0)
