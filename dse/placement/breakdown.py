"""Where the time of a batch and the memory of the fullest accelerator go, by the formulas of the placement problem."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dse.placement.check import (
    MemoryParts,
    gradient_sync_s,
    group_memory_parts,
    stage_load_s,
    stage_passes,
)
from dse.placement.problem import Placement, PlacementProblem
from dse.report.view import Breakdown, Plan, Share, StageBox


@dataclass(frozen=True)
class BatchTime:
    """``batch_s`` divided into its causes; the sum of all fields but ``stage`` is ``batch_s``.

    The stage with the largest load L decides: n microbatches keep it busy for n · L, and it waits for (stages − 1) · L
    while the pipeline fills and drains.

    Attributes:
        stage: position of the stage with the largest load.
        forward_s, recompute_s, backward_s: its passes over n microbatches if transfers took no time.
        transfer_s: what transfers between stages add to its passes.
        bubble_s: filling and draining the pipeline.
        synchronisation_s: of the gradients of the first stage, among pipelines.
        update_s: the optimizer step of the first stage.
    """

    stage: int
    forward_s: float
    recompute_s: float
    backward_s: float
    transfer_s: float
    bubble_s: float
    synchronisation_s: float
    update_s: float


def batch_time(problem: PlacementProblem, placement: Placement) -> BatchTime:
    """The causes of ``batch_s`` (the formula of :mod:`dse.placement.problem`)."""
    graph = problem.tensor_parallel[placement.tensor]
    count, rounds = len(placement.stages), math.ceil(problem.microbatches / placement.data)
    loads_s = [
        stage_load_s(problem, graph, stage, last=position == count - 1)
        for position, stage in enumerate(placement.stages)
    ]
    longest = max(range(count), key=loads_s.__getitem__)
    free = replace(problem, network_bytes_per_s=math.inf)
    passes = stage_passes(free, graph, placement.stages[longest], last=longest == count - 1)
    busy_s = passes.forward_s + passes.recompute_s + passes.backward_s
    first = [graph.layers[position] for position in placement.stages[0].layers]
    weight_bytes = math.fsum(layer.weight_bytes for layer in first)
    return BatchTime(
        stage=longest,
        forward_s=rounds * passes.forward_s,
        recompute_s=rounds * passes.recompute_s,
        backward_s=rounds * passes.backward_s,
        # Where nothing is received the two differ by rounding alone.
        transfer_s=rounds * max(0.0, loads_s[longest] - busy_s),
        bubble_s=(count - 1) * loads_s[longest],
        synchronisation_s=gradient_sync_s(problem, placement.tensor, placement.data, weight_bytes),
        update_s=math.fsum(layer.update_s for layer in first),
    )


def fullest_memory(problem: PlacementProblem, placement: Placement) -> tuple[int, MemoryParts]:
    """(position of its stage, what it holds) of the accelerator with the least memory to spare."""
    graph = problem.tensor_parallel[placement.tensor]
    count = len(placement.stages)
    held = [
        (position, group_memory_parts(problem, graph, stage, group, count - position, placement.data))
        for position, stage in enumerate(placement.stages)
        for group in stage.groups or (stage.layers,)
    ]
    return max(held, key=lambda each: each[1].total_bytes)


def time_breakdown(problem: PlacementProblem, placement: Placement, passes: Sequence[Share] | None = None) -> Breakdown:
    """The time of a batch by cause; ``passes``: forward, recomputed and backward passes divided in another way."""
    time = batch_time(problem, placement)
    if passes is None:
        passes = [
            Share("forward", time.forward_s, "forward"),
            Share("recomputation", time.recompute_s, "recomputation"),
            Share("backward", time.backward_s, "backward"),
        ]
    which = f", longest stage ({time.stage + 1})" if len(placement.stages) > 1 else ""
    return Breakdown(
        f"Batch time{which}",
        "s",
        [
            *passes,
            Share("transfers between stages", time.transfer_s, "transfer"),
            Share("pipeline bubble", time.bubble_s, "bubble"),
            Share("gradient synchronisation", time.synchronisation_s, "synchronisation"),
            Share("optimizer step", time.update_s, "update"),
        ],
    )


def memory_breakdown(problem: PlacementProblem, placement: Placement) -> Breakdown:
    """The memory of the fullest accelerator by part, of what it has."""
    stage, memory = fullest_memory(problem, placement)
    which = f", fullest stage ({stage + 1})" if len(placement.stages) > 1 else ""
    inputs = "inputs stored for recomputation" if problem.recompute else "activations stashed for other microbatches"
    return Breakdown(
        f"Memory per accelerator{which}",
        "bytes",
        [
            Share("weights, gradients and optimizer state", memory.state_bytes, "state"),
            Share("activations of the current microbatch", memory.activation_bytes, "activations"),
            Share(inputs, memory.stash_bytes, "stash"),
        ],
        limit=problem.hbm_bytes,
    )


def plan(problem: PlacementProblem, placement: Placement) -> Plan:
    """The placement as a diagram."""
    layers = problem.tensor_parallel[placement.tensor].layers
    return Plan(
        [
            StageBox(len(stage.layers), span([layers[layer].name for layer in stage.layers]), stage.accelerators)
            for stage in placement.stages
        ],
        placement.data,
        placement.tensor,
    )


def span(names: Sequence[str]) -> str:
    """The first and the last of the layers of a stage."""
    return names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"
