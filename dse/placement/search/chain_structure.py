"""What a chain placement depends on other than latencies: memory, transfers, accelerators, pipelines.

The co-search changes the latencies of layers thousands of times; everything here is computed once for each problem and
width.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dse.placement.problem import LayerGraph, PlacementProblem
from dse.placement.search.pipelines import gradient_sync, pipeline_choices, pipeline_ranges
from hardware.compiled import compiled


def is_totally_ordered(graph: LayerGraph) -> bool:
    """Whether the layers have only one topological order (an edge joins every two neighbours in it)."""
    joined = {(source, target) for source, target, _ in graph.edges}
    return all((position, position + 1) in joined for position in range(len(graph.layers) - 1))


Bytes = NDArray[np.float64]


@dataclass(frozen=True)
class ChainStructure:
    """One width of a placement problem whose n layers are totally ordered, without its latencies.

    A stage [i, j) holds layers i to j − 1. At most S = min(n, K) stages are possible. ``slots`` is the number of
    accelerators of a stage, except that a *plain* stage, [i, j) with j ≤ ``plain_end[i]``, uses one: where sliced and
    unsliced layers mix, up to Q − 1 = ``plain_stages`` stages may be plain (otherwise Q = 1 and no stage is called so).

    ``arrival_s[i, v]`` is when the last outside input of layer v arrives in a stage that begins at i, and
    ``departure_s[j, v]`` when the last outside gradient of v does in a stage that ends at j.
    ``last_end[s, i]`` is the largest j for which [i, j) fits the memory as s-th stage from the end (i where none does).
    Row ``s · Q + q`` of ``choice_offset`` gives the useful d of s stages with q plain ones.
    ``fewest_passes[s]`` is the least ceil(M/d) + s − 1 of s stages (infinite where so many are impossible).
    ``pipelines`` are the smallest and largest d that the structure covers. With ``recompute`` all stages but the last
    repeat their forward pass; with ``last_recomputes``, which implies it, the last one does too.
    """

    tensor: int
    layers: int
    recompute: bool
    last_recomputes: bool
    slots: int
    plain_stages: int
    arrival_s: NDArray[np.float64]
    departure_s: NDArray[np.float64]
    last_end: NDArray[np.int64]
    plain_end: NDArray[np.int64]
    weight_bytes: NDArray[np.float64]
    choice_offset: NDArray[np.int64]
    choice_data: NDArray[np.int64]
    choice_rounds: NDArray[np.int64]
    choice_sync_s_per_byte: NDArray[np.float64]
    fewest_passes: NDArray[np.float64]
    pipelines: tuple[int, int]


def chain_structures(
    problem: PlacementProblem, tensor: int, max_pipelines: int | None = None
) -> tuple[ChainStructure, ...]:
    """The structures of width ``tensor``, each for its own numbers of pipelines; edges may skip layers.

    With ``max_pipelines`` they speak of placements with no more pipelines than that.

    Under GPipe numbers of pipelines with which the same stages fit memory share a structure, and those with which no
    split fits have none.

    The graph's layers are taken as totally ordered: on a graph that branches, the result speaks of the stages that are
    contiguous in the given order, each on a single group.
    """
    graph = problem.tensor_parallel[tensor]
    count = len(graph.layers)
    stage_limit = min(count, problem.accelerators)
    sliced = [layer.sliced for layer in graph.layers]
    slots = tensor if any(sliced) else 1
    mixed = slots > 1 and not all(sliced)
    plain_stages = min(sliced.count(False), stage_limit) if mixed else 0
    arrival_s, departure_s, entering_bytes = edge_tables(graph, problem.network_bytes_per_s)
    limits = [
        problem.accelerators // max(1, slots * (stages - plain) + plain) if plain <= stages else 0
        for stages in range(stage_limit + 1)
        for plain in range(plain_stages + 1)
    ]
    limits[: plain_stages + 1] = [0] * (plain_stages + 1)  # zero stages are not a placement
    if max_pipelines is not None:
        limits = [min(limit, max_pipelines) for limit in limits]
    sync = gradient_sync(problem, tensor)
    structures = []
    for pipelines, last_end in _memory_rules(problem, graph, entering_bytes, max(limits), stage_limit):
        choices = pipeline_choices(problem.microbatches, sync, limits, *pipelines)
        structures.append(
            ChainStructure(
                tensor=tensor,
                layers=count,
                recompute=problem.recompute,
                last_recomputes=problem.last_recomputes,
                slots=slots,
                plain_stages=plain_stages,
                arrival_s=arrival_s,
                departure_s=departure_s,
                last_end=last_end,
                plain_end=plain_ends(sliced) if mixed else np.arange(count, dtype=np.int64),
                weight_bytes=np.array([layer.weight_bytes for layer in graph.layers], dtype=np.float64),
                choice_offset=choices.offset,
                choice_data=choices.data,
                choice_rounds=choices.rounds,
                choice_sync_s_per_byte=choices.sync_s_per_byte,
                fewest_passes=_fewest_passes(choices.offset, choices.rounds, stage_limit, plain_stages + 1),
                pipelines=pipelines,
            )
        )
    return tuple(structures)


def _memory_rules(
    problem: PlacementProblem,
    graph: LayerGraph,
    entering_bytes: NDArray[np.float64],
    max_pipelines: int,
    stage_limit: int,
) -> Iterator[tuple[tuple[int, int], NDArray[np.int64]]]:
    """((min d, max d), ``last_end``) of each memory rule: under GPipe one for all d with which the same stages fit.

    Only rules are given under which some split fits.
    """
    gpipe = problem.pipeline_schedule == "gpipe"
    ranges = pipeline_ranges(problem, max_pipelines)
    stashes = [rule.stashes for rule in ranges] if gpipe else [ranges[0].stashes + s for s in range(stage_limit)]
    ends: NDArray[np.int64] = _last_end(
        np.array([layer.weight_bytes for layer in graph.layers], dtype=np.float64),
        np.array([layer.activation_bytes for layer in graph.layers], dtype=np.float64),
        stash_table(problem, graph, entering_bytes),
        problem.recomputes_layers,
        float(problem.state_factor),
        float(problem.hbm_bytes),
        np.array(stashes, dtype=np.float64),
    )
    nowhere = np.zeros((1, len(graph.layers)), dtype=np.int64)
    if not gpipe:
        yield (ranges[0].min_data, ranges[0].max_data), np.concatenate([nowhere, ends])
        return
    # some split fits if a stage from each layer, or from one before it, reaches beyond the layer
    furthest_end = np.maximum.accumulate(ends, axis=1)
    useful = int(np.sum(np.all(furthest_end > np.arange(len(graph.layers)), axis=1)))
    first = 0
    while first < useful:
        end = first + 1
        while end < useful and np.array_equal(ends[end], ends[first]):
            end += 1
        yield (ranges[end - 1].min_data, ranges[first].max_data), np.concatenate([nowhere, ends[[first] * stage_limit]])
        first = end


def edge_tables(
    graph: LayerGraph, network_bytes_per_s: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """``arrival_s`` and ``departure_s`` of :class:`ChainStructure`, and the bytes entering.

    The third table holds at [i, v] the bytes that enter a stage beginning at i on edges to layer v.
    """
    count = len(graph.layers)
    arrival_s = np.zeros((count, count))
    departure_s = np.zeros((count + 1, count))
    entering_bytes = np.zeros((count, count))
    for source, target, size_bytes in graph.edges:
        seconds = size_bytes / network_bytes_per_s
        begins, ends = slice(source + 1, target + 1), slice(source + 1, target + 1)
        arrival_s[begins, target] = np.maximum(arrival_s[begins, target], seconds)
        departure_s[ends, source] = np.maximum(departure_s[ends, source], seconds)
        entering_bytes[begins, target] += size_bytes
    return arrival_s, departure_s, entering_bytes


def stash_table(problem: PlacementProblem, graph: LayerGraph, entering_bytes: NDArray[np.float64]) -> Bytes:
    """What layer v adds to the stash of a microbatch in a stage that begins at i, float64[n, n] by [i, v].

    ``entering_bytes`` are those of :func:`edge_tables`. Entries with v < i mean nothing.
    """
    if problem.recompute and not problem.recomputes_layers:
        return entering_bytes
    count = len(graph.layers)
    own_bytes = np.array([layer.activation_bytes for layer in graph.layers], dtype=np.float64)
    if problem.recomputes_layers:
        own_bytes = np.diagonal(entering_bytes)  # all that enters a layer enters a stage that begins with it
    return np.tile(own_bytes, (count, 1))


def plain_ends(sliced: list[bool]) -> NDArray[np.int64]:
    """For each layer the end of the run of unsliced layers that begins there (the layer itself if it is sliced)."""
    ends = np.arange(len(sliced), dtype=np.int64)
    end = len(sliced)
    for position in range(len(sliced) - 1, -1, -1):
        if sliced[position]:
            end = position
        ends[position] = end
    return ends


def _fewest_passes(
    offset: NDArray[np.int64], rounds: NDArray[np.int64], stage_limit: int, plain_counts: int
) -> NDArray[np.float64]:
    passes = np.full(stage_limit + 1, np.inf)
    for stages in range(1, stage_limit + 1):
        for row in range(stages * plain_counts, (stages + 1) * plain_counts):
            if offset[row] < offset[row + 1]:  # d ascends in a row, so its last entry has the fewest rounds
                passes[stages] = min(passes[stages], rounds[offset[row + 1] - 1] + stages - 1)
    return passes


# No annotations: numba infers the types.
@compiled
def _last_end(weight_bytes, activation_bytes, stash_bytes, one_by_one, state_factor, hbm_bytes, stashes):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Row r: the largest j for which [i, j) fits memory with ``stashes[r]`` (ascending) microbatches stashed, or i.

    The needs grow with j and with the stash, so one sweep per beginning does. ``one_by_one``: only the activations of
    one layer at a time are held, in addition to the stash.
    """
    count = len(weight_bytes)
    last_end = np.zeros((len(stashes), count), dtype=np.int64)
    for begin in range(count):
        weights = 0.0
        activations = 0.0
        stash = 0.0
        fitting = len(stashes)
        for layer in range(begin, count):
            weights += weight_bytes[layer]
            own = activation_bytes[layer]
            activations = max(activations, own) if one_by_one else activations + own
            stash += stash_bytes[begin, layer]
            while fitting > 0 and state_factor * weights + activations + stashes[fitting - 1] * stash > hbm_bytes:
                fitting -= 1
                last_end[fitting, begin] = layer
        last_end[:fitting, begin] = count
    return last_end
