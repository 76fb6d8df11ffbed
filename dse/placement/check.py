"""Independent checker of placements: every rule of :mod:`dse.placement.problem`, recomputed from the definition.

Slow and plain on purpose; shares no code with the solvers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dse.placement.problem import LayerGraph, Placement, PlacementProblem, Stage

RELATIVE_TOLERANCE = 1e-9
"""How far a stated ``batch_s`` may be from the recomputed one."""

_MEMORY_TOLERANCE = 1e-12
"""Share of the memory by which a sum of doubles may exceed it (a thirtieth of a byte in 32 GiB)."""


def violations(problem: PlacementProblem, placement: Placement) -> list[str]:
    """Every rule that ``placement`` breaks, one line each; empty when it is valid and ``batch_s`` is right."""
    if placement.tensor not in problem.tensor_parallel:
        known = ", ".join(map(str, sorted(problem.tensor_parallel)))
        return [f"tensor-parallel width {placement.tensor} must be one of {known}"]
    graph = problem.tensor_parallel[placement.tensor]
    broken = _partition_violations(graph, placement.stages)
    if broken:
        return broken  # the other rules speak of a partition
    broken += _order_violations(graph, placement.stages)
    broken += _accelerator_violations(problem, graph, placement)
    if broken:
        return broken
    broken += _memory_violations(problem, graph, placement)
    expected_s = batch_s(problem, placement.tensor, placement.data, placement.stages)
    if not math.isclose(placement.batch_s, expected_s, rel_tol=RELATIVE_TOLERANCE, abs_tol=0.0):
        broken.append(f"batch_s must be {expected_s!r}, but is {placement.batch_s!r}")
    return broken


def batch_s(problem: PlacementProblem, tensor: int, data: int, stages: Sequence[Stage]) -> float:
    """Seconds a batch takes under a placement: the objective of :mod:`dse.placement.problem`."""
    graph = problem.tensor_parallel[tensor]
    longest_load_s = max(
        stage_load_s(problem, graph, stage, last=position == len(stages) - 1) for position, stage in enumerate(stages)
    )
    passes = math.ceil(problem.microbatches / data) + len(stages) - 1
    first = [graph.layers[position] for position in stages[0].layers]
    weight_bytes = math.fsum(layer.weight_bytes for layer in first)
    synchronisation_s = gradient_sync_s(problem, tensor, data, weight_bytes)
    return longest_load_s * passes + synchronisation_s + math.fsum(layer.update_s for layer in first)


def gradient_sync_s(problem: PlacementProblem, tensor: int, data: int, weight_bytes: float) -> float:
    """Seconds in which ``data`` replicas, ``tensor`` ranks apart, add up the gradients of ``weight_bytes``."""
    together = max(1, min(data, problem.node_accelerators // tensor))
    nodes = math.ceil(data / together)
    across_s = (nodes - 1) * weight_bytes / (nodes * together * problem.network_bytes_per_s)
    inside_s = 0.0
    if together > 1:
        inside_s = (together - 1) * weight_bytes / (together * problem.node_bytes_per_s)
    return problem.gradient_sync_factor * (inside_s + across_s)


@dataclass(frozen=True)
class StagePasses:
    """Seconds that one microbatch takes in a stage: ``backward_s`` holds the wait for a gradient, if there is one.

    ``recompute_s`` is the repeated forward pass, which comes before the backward pass (0 where nothing is repeated).
    """

    forward_s: float
    recompute_s: float
    backward_s: float


def stage_passes(problem: PlacementProblem, graph: LayerGraph, stage: Stage, last: bool) -> StagePasses:
    """What one microbatch costs in ``stage``; under 1F1B the last stage that could keep its activations does."""
    network = problem.network_bytes_per_s
    recompute_s = 0.0
    keeps_activations = problem.recompute_granularity == "stage" and problem.pipeline_schedule == "1f1b"
    if problem.recompute and not (last and keeps_activations):
        recompute_s = _pass_s(graph, stage, math.inf, backward=False, begin_s=0.0)
    return StagePasses(
        forward_s=_pass_s(graph, stage, network, backward=False, begin_s=0.0),
        recompute_s=recompute_s,
        backward_s=_pass_s(graph, stage, network, backward=True, begin_s=recompute_s) - recompute_s,
    )


def stage_load_s(problem: PlacementProblem, graph: LayerGraph, stage: Stage, last: bool) -> float:
    """Seconds one microbatch keeps ``stage`` busy, forward and backward; ``last`` is whether it ends the pipeline."""
    passes = stage_passes(problem, graph, stage, last)
    return passes.forward_s + (passes.recompute_s + passes.backward_s)


def _pass_s(graph: LayerGraph, stage: Stage, network_bytes_per_s: float, backward: bool, begin_s: float) -> float:
    """When one pass over the stage ends; no layer starts before ``begin_s``, and transfers start at zero."""
    group_of = {layer: group for group, layers in enumerate(_groups(stage)) for layer in layers}
    group_free_s = [begin_s] * len(_groups(stage))
    finish_s: dict[int, float] = {}
    for layer in reversed(stage.layers) if backward else stage.layers:
        start_s = group_free_s[group_of[layer]]
        for source, target, size_bytes in graph.edges:
            receiver, sender = (source, target) if backward else (target, source)
            if receiver == layer:
                inside = sender in group_of
                start_s = max(start_s, finish_s[sender] if inside else size_bytes / network_bytes_per_s)
        latency_s = graph.layers[layer].backward_s if backward else graph.layers[layer].forward_s
        finish_s[layer] = group_free_s[group_of[layer]] = start_s + latency_s
    return max(finish_s.values())


def stashed_microbatches(problem: PlacementProblem, from_end: int, data: int) -> int:
    """Microbatches that the ``from_end``-th stage from the end (1 is the last) stashes, of ``data`` pipelines.

    Of the current one under 1F1B only the inputs of layers are stashed, where it recomputes from these.
    """
    if problem.pipeline_schedule == "gpipe":
        return math.ceil(problem.microbatches / data)
    return from_end if problem.recompute and problem.recompute_granularity == "layer" else from_end - 1


@dataclass(frozen=True)
class MemoryParts:
    """What an accelerator holds: weights with gradients and optimizer state, activations in work, and stashed ones."""

    state_bytes: float
    activation_bytes: float
    stash_bytes: float

    @property
    def total_bytes(self) -> float:
        """All of it."""
        return self.state_bytes + self.activation_bytes + self.stash_bytes


def group_memory_bytes(
    problem: PlacementProblem, graph: LayerGraph, stage: Stage, group: Sequence[int], from_end: int, data: int = 1
) -> float:
    """Bytes an accelerator of ``group`` needs: the sum of :func:`group_memory_parts`."""
    return group_memory_parts(problem, graph, stage, group, from_end, data).total_bytes


def group_memory_parts(
    problem: PlacementProblem, graph: LayerGraph, stage: Stage, group: Sequence[int], from_end: int, data: int = 1
) -> MemoryParts:
    """What an accelerator of ``group`` holds when its stage is the ``from_end``-th from the end (1 is the last).

    The number of pipelines, ``data``, matters under GPipe only.
    """
    layers = [graph.layers[position] for position in group]
    activation_bytes = math.fsum(layer.activation_bytes for layer in layers)
    stash_bytes = activation_bytes
    if problem.recompute and problem.recompute_granularity == "layer":
        activation_bytes = max(layer.activation_bytes for layer in layers)
        stash_bytes = math.fsum(size for _, target, size in graph.edges if target in group)
    elif problem.recompute:
        stash_bytes = math.fsum(
            size for source, target, size in graph.edges if target in group and source not in stage.layers
        )
    weight_bytes = math.fsum(layer.weight_bytes for layer in layers)
    stashed = stashed_microbatches(problem, from_end, data)
    return MemoryParts(problem.state_factor * weight_bytes, activation_bytes, stashed * stash_bytes)


def stage_memory_bytes(
    problem: PlacementProblem, graph: LayerGraph, stage: Stage, from_end: int, data: int = 1
) -> float:
    """Bytes of the fullest accelerator of ``stage``, the ``from_end``-th from the end (1 is the last)."""
    return max(group_memory_bytes(problem, graph, stage, group, from_end, data) for group in _groups(stage))


def _groups(stage: Stage) -> tuple[tuple[int, ...], ...]:
    return stage.groups or (stage.layers,)


def _partition_violations(graph: LayerGraph, stages: Sequence[Stage]) -> list[str]:
    """Each layer in exactly one stage; stages and groups not empty, their layers in the order of the problem."""
    count = len(graph.layers)
    broken = [] if stages else ["there must be at least one stage"]
    seen: dict[int, int] = {}
    for number, stage in enumerate(stages, start=1):
        if not stage.layers:
            broken.append(f"stage {number} must have at least one layer, but is empty")
        for layer in stage.layers:
            if not 0 <= layer < count:
                broken.append(f"stage {number}: layer positions must be from 0 to {count - 1}, but got {layer}")
            elif layer in seen:
                broken.append(
                    f"layer {graph.layers[layer].name} must be in one stage, but is in {seen[layer]} and {number}"
                )
            seen.setdefault(layer, number)
        for layers in (stage.layers, *stage.groups):
            if list(layers) != sorted(layers):
                broken.append(f"stage {number} must list its layers in topological order")
        if stage.groups and (
            sorted(layer for group in stage.groups for layer in group) != sorted(stage.layers) or not all(stage.groups)
        ):
            broken.append(f"the groups of stage {number} must not be empty and must contain each of its layers once")
    missing = [layer.name for position, layer in enumerate(graph.layers) if position not in seen]
    if missing:
        broken.append(f"every layer must be placed, but these are not: {', '.join(missing)}")
    return broken


def _order_violations(graph: LayerGraph, stages: Sequence[Stage]) -> list[str]:
    """No edge from a stage to an earlier one (then every prefix of stages is closed under predecessors)."""
    stage_of = {layer: number for number, stage in enumerate(stages, start=1) for layer in stage.layers}
    return [
        f"the edge {graph.layers[source].name} → {graph.layers[target].name} must not go backwards, "
        f"but goes from stage {stage_of[source]} to stage {stage_of[target]}"
        for source, target, _ in graph.edges
        if stage_of[source] > stage_of[target]
    ]


def _accelerator_violations(problem: PlacementProblem, graph: LayerGraph, placement: Placement) -> list[str]:
    """The rules on data-parallel width and accelerators."""
    data_limit = min(problem.accelerators, problem.microbatches)
    if not 1 <= placement.data <= data_limit:
        return [f"the number of pipelines must be from 1 to {data_limit}, but is {placement.data}"]
    broken = []
    max_groups = max(len(_groups(stage)) for stage in placement.stages)
    if max_groups > 1 and max_groups > (width := _width(graph)):
        broken.append(f"a stage must use at most {width} groups, the width of the layer graph, but uses {max_groups}")
    for number, stage in enumerate(placement.stages, start=1):
        sliced = any(graph.layers[layer].sliced for layer in stage.layers)
        needed = len(_groups(stage)) * (placement.tensor if sliced else 1)
        if stage.accelerators != needed:
            broken.append(f"stage {number} must use {needed} accelerators, but uses {stage.accelerators}")
    used = sum(stage.accelerators for stage in placement.stages)
    if used * placement.data > problem.accelerators:
        broken.append(
            f"{placement.data} pipelines of {used} accelerators must not exceed the {problem.accelerators} available"
        )
    return broken


def _width(graph: LayerGraph) -> int:
    """Size of the largest antichain: layers less the largest matching of ordered pairs (Dilworth, Kőnig)."""
    count = len(graph.layers)
    behind: list[set[int]] = [set() for _ in range(count)]
    for layer in reversed(range(count)):
        for source, target, _ in graph.edges:
            if source == layer:
                behind[layer] |= {target} | behind[target]
    matched: dict[int, int] = {}

    def augments(layer: int, tried: set[int]) -> bool:
        for other in behind[layer] - tried:
            tried.add(other)
            if other not in matched or augments(matched[other], tried):
                matched[other] = layer
                return True
        return False

    return count - sum(augments(layer, set()) for layer in range(count))


def _memory_violations(problem: PlacementProblem, graph: LayerGraph, placement: Placement) -> list[str]:
    """Stages that do not fit the memory of an accelerator, with the bytes they are over."""
    broken = []
    for position, stage in enumerate(placement.stages):
        for group in _groups(stage):
            from_end = len(placement.stages) - position
            needed = group_memory_bytes(problem, graph, stage, group, from_end, placement.data)
            if needed > problem.hbm_bytes * (1 + _MEMORY_TOLERANCE):
                over = needed - problem.hbm_bytes
                names = f"{graph.layers[group[0]].name} … {graph.layers[group[-1]].name}"
                broken.append(
                    f"stage {position + 1} ({names}) must fit in {problem.hbm_bytes:.0f} bytes of memory, "
                    f"but needs {needed:.0f}, {over:.0f} too many"
                )
    return broken
