"""The pipeline in time: when every stage runs every microbatch of one pipeline.

Each stage runs its passes one at a time, in the order of the schedule, each as soon as the stage is free and the
neighbour that it waits for is done; what a transfer costs is in the receiver's pass, as in the load.

- ``1f1b`` (PipeDream-Flush, Narayanan et al. 2021): the s-th stage from the end runs s − 1 forward passes, then one
  forward and one backward pass in turn, then the backward passes that are left.
- ``gpipe`` (Huang et al. 2019): all forward passes, then all backward passes, the last microbatch first.

A backward pass begins with the recomputed forward pass, where there is one (layers that are recomputed one by one do so
in between; drawn is their sum). Which stages recompute is in :mod:`dse.placement.problem`. After its last backward pass
a stage synchronises its gradients and takes its optimizer step.

How the end compares with the formula ``L · (n + s − 1)``, n microbatches, s stages, L the largest load:

- It is never below ``L · n``.
- Under 1F1B it is never above, and equal where all loads are equal, however they divide into forward and backward.
  (Follow a chain of passes that wait for each other from the first pass to the last. A step to another stage or another
  microbatch always completes pairs of a forward and a backward pass of one stage: counting both, the chain visits as
  many forward as backward passes of every stage, n + s − 1 pairs in all, and no pair takes longer than L.)
- Under GPipe it is ``sum of loads + (n − 1) · (longest forward + longest backward pass)``, a backward pass with its
  recomputed forward pass; it exceeds the formula where different stages hold the two.
- The formula adds synchronisation and update of the first stage only. Where a later stage takes longer for them than
  the pipeline takes to drain behind it, the batch ends later than the formula says.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dse.placement.check import gradient_sync_s, stage_passes
from dse.placement.problem import PipelineSchedule, Placement, PlacementProblem
from hardware.compiled import compiled

Times = NDArray[np.float64]

PASS_LIMIT = 2**22
"""Maximum number of (stage, microbatch) pairs of a timeline: 200 MB of arrays."""


@dataclass(frozen=True)
class Timeline:
    """Seconds from the start of a batch; arrays of S stages and n microbatches are float64[S, n].

    A backward pass of stage i runs from ``backward_start_s[i]``, right behind the recomputed forward pass that starts
    at ``recompute_start_s[i]`` (the same time where nothing is recomputed). ``drained_s``, ``synchronised_s`` and
    ``updated_s`` (float64[S]) are when a stage has ended its last backward pass, its gradient synchronisation, and its
    optimizer step.
    """

    schedule: PipelineSchedule
    forward_start_s: Times
    forward_end_s: Times
    recompute_start_s: Times
    backward_start_s: Times
    backward_end_s: Times
    drained_s: Times
    synchronised_s: Times
    updated_s: Times

    @property
    def pipeline_s(self) -> float:
        """When the last pass ends: what ``L · (n + s − 1)`` stands for."""
        return float(self.drained_s.max())

    @property
    def batch_s(self) -> float:
        """When the last stage has updated its weights: the batch as simulated."""
        return float(self.updated_s.max())


def timeline(problem: PlacementProblem, placement: Placement) -> Timeline:
    """The timeline of a pipeline with ceil(M / d) microbatches, O(stages · microbatches).

    Raises:
        ValueError: more passes than :data:`PASS_LIMIT`.
    """
    graph = problem.tensor_parallel[placement.tensor]
    count, rounds = len(placement.stages), math.ceil(problem.microbatches / placement.data)
    if not has_timeline(problem, placement):
        raise ValueError(f"stages · microbatches must be at most {PASS_LIMIT}, but is {count} · {rounds}")
    passes = [
        stage_passes(problem, graph, stage, last=position == count - 1)
        for position, stage in enumerate(placement.stages)
    ]
    forward_s = np.array([each.forward_s for each in passes])
    recompute_s = np.array([each.recompute_s for each in passes])
    both_s = recompute_s + np.array([each.backward_s for each in passes])
    run = _gpipe if problem.pipeline_schedule == "gpipe" else _one_forward_one_backward
    forward_start_s, forward_end_s, recompute_start_s, backward_end_s = run(forward_s, both_s, rounds)
    drained_s = backward_end_s.max(axis=1)
    held = [[graph.layers[layer] for layer in stage.layers] for stage in placement.stages]
    weight_bytes = [math.fsum(layer.weight_bytes for layer in layers) for layers in held]
    synchronising_s = [gradient_sync_s(problem, placement.tensor, placement.data, size) for size in weight_bytes]
    synchronised_s = drained_s + np.array(synchronising_s)
    return Timeline(
        schedule=problem.pipeline_schedule,
        forward_start_s=forward_start_s,
        forward_end_s=forward_end_s,
        recompute_start_s=recompute_start_s,
        backward_start_s=recompute_start_s + recompute_s[:, None],
        backward_end_s=backward_end_s,
        drained_s=drained_s,
        synchronised_s=synchronised_s,
        updated_s=synchronised_s + np.array([math.fsum(layer.update_s for layer in layers) for layers in held]),
    )


def has_timeline(problem: PlacementProblem, placement: Placement) -> bool:
    """Whether the passes of a placement are few enough for a timeline."""
    return len(placement.stages) * math.ceil(problem.microbatches / placement.data) <= PASS_LIMIT


# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"


@compiled
def _one_forward_one_backward(forward_s, backward_s, microbatches):
    """(forward start, forward end, backward start, backward end) under 1F1B, each [S, n].

    Stage i (from 0) of S pairs its forward pass of microbatch m with the backward pass of m − (S − 1 − i). In turn m
    each stage runs its pair, from the first stage on: it waits only for passes of turns before, and of stages before.
    """
    stages = len(forward_s)
    times = np.zeros((4, stages, microbatches))
    forward_start, forward_end, backward_start, backward_end = times
    free = np.zeros(stages)
    for turn in range(microbatches + stages - 1):
        for stage in range(stages):
            if turn < microbatches:
                arrived = forward_end[stage - 1, turn] if stage > 0 else 0.0
                forward_start[stage, turn] = max(free[stage], arrived)
                free[stage] = forward_end[stage, turn] = forward_start[stage, turn] + forward_s[stage]
            back = turn - (stages - 1 - stage)
            if 0 <= back < microbatches:
                arrived = backward_end[stage + 1, back] if stage < stages - 1 else 0.0
                backward_start[stage, back] = max(free[stage], arrived)
                free[stage] = backward_end[stage, back] = backward_start[stage, back] + backward_s[stage]
    return forward_start, forward_end, backward_start, backward_end


@compiled
def _gpipe(forward_s, backward_s, microbatches):
    """The same under GPipe."""
    stages = len(forward_s)
    times = np.zeros((4, stages, microbatches))
    forward_start, forward_end, backward_start, backward_end = times
    free = np.zeros(stages)
    for microbatch in range(microbatches):
        for stage in range(stages):
            arrived = forward_end[stage - 1, microbatch] if stage > 0 else 0.0
            forward_start[stage, microbatch] = max(free[stage], arrived)
            free[stage] = forward_end[stage, microbatch] = forward_start[stage, microbatch] + forward_s[stage]
    for microbatch in range(microbatches - 1, -1, -1):
        for stage in range(stages - 1, -1, -1):
            arrived = backward_end[stage + 1, microbatch] if stage < stages - 1 else 0.0
            backward_start[stage, microbatch] = max(free[stage], arrived)
            free[stage] = backward_end[stage, microbatch] = backward_start[stage, microbatch] + backward_s[stage]
    return forward_start, forward_end, backward_start, backward_end
