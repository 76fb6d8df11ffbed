"""What a pipeline timeline must obey: order, exclusion, durations and microbatches in flight, from the definition.

Plain on purpose; shares no code with :mod:`dse.placement.timeline` (the durations of passes are the definition's own).
"""

import math

import numpy as np

from dse.placement.check import gradient_sync_s, stage_passes
from dse.placement.problem import Placement, PlacementProblem
from dse.placement.timeline import Timeline

_TOLERANCE = 1e-9
"""Share of the batch by which times may be off: the accuracy of long sums of doubles."""

_Pass = tuple[float, float, str]
"""Start, end, and what it is."""


def timeline_violations(problem: PlacementProblem, placement: Placement, timeline: Timeline) -> list[str]:
    """Every rule that a timeline breaks, one line each; empty when it holds."""
    count, rounds = len(placement.stages), math.ceil(problem.microbatches / placement.data)
    if timeline.forward_start_s.shape != (count, rounds):
        return [f"there must be {count} stages of {rounds} microbatches, but are {timeline.forward_start_s.shape}"]
    slack_s = _TOLERANCE * timeline.batch_s
    broken = []
    for stage in range(count):
        passes = _passes(timeline, stage)
        broken += _overlaps(passes, stage, slack_s)
        broken += _in_flight_violations(problem, placement, timeline, stage, slack_s)
        broken += _duration_violations(problem, placement, timeline, stage, slack_s)
    broken += _order_violations(timeline, slack_s)
    broken += _ending_violations(problem, placement, timeline, slack_s)
    return broken


def _passes(timeline: Timeline, stage: int) -> list[_Pass]:
    """All passes of one stage by start."""
    passes = []
    for microbatch in range(timeline.forward_start_s.shape[1]):
        at = (stage, microbatch)
        forward = (float(timeline.forward_start_s[at]), float(timeline.forward_end_s[at]), f"F{microbatch}")
        repeat = (float(timeline.recompute_start_s[at]), float(timeline.backward_start_s[at]), f"R{microbatch}")
        backward = (float(timeline.backward_start_s[at]), float(timeline.backward_end_s[at]), f"B{microbatch}")
        passes += [forward, repeat, backward]
    return sorted(passes, key=lambda each: (each[0], each[1]))


def _overlaps(passes: list[_Pass], stage: int, slack_s: float) -> list[str]:
    broken = []
    end_s, last = 0.0, "the batch's start"
    for start_s, finish_s, name in passes:
        if start_s < end_s - slack_s:
            broken.append(f"stage {stage + 1} must run one pass at a time, but {name} starts before {last} ends")
        if finish_s > end_s:
            end_s, last = finish_s, name
    return broken


def _in_flight_violations(
    problem: PlacementProblem, placement: Placement, timeline: Timeline, stage: int, slack_s: float
) -> list[str]:
    """Microbatches between the start of their forward and the end of their backward pass, against the memory rule.

    Under 1F1B there are as many as stages from here to the end, under GPipe all of the pipeline.
    """
    rounds = timeline.forward_start_s.shape[1]
    allowed = rounds if problem.pipeline_schedule == "gpipe" else min(rounds, len(placement.stages) - stage)
    begun = np.sort(timeline.forward_start_s[stage])
    ended = np.sort(timeline.backward_end_s[stage])
    in_flight = max(
        place + 1 - int(np.searchsorted(ended, start_s + slack_s, side="right")) for place, start_s in enumerate(begun)
    )
    if in_flight > allowed:
        return [f"stage {stage + 1} must hold at most {allowed} microbatches, but holds {in_flight}"]
    return []


def _duration_violations(
    problem: PlacementProblem, placement: Placement, timeline: Timeline, stage: int, slack_s: float
) -> list[str]:
    """Every pass takes what the definition says, so the last stage recomputes only where the definition has it so."""
    graph = problem.tensor_parallel[placement.tensor]
    last = stage == len(placement.stages) - 1
    expected = stage_passes(problem, graph, placement.stages[stage], last)
    ends = (
        ("forward", timeline.forward_end_s[stage] - timeline.forward_start_s[stage], expected.forward_s),
        ("recompute", timeline.backward_start_s[stage] - timeline.recompute_start_s[stage], expected.recompute_s),
        ("backward", timeline.backward_end_s[stage] - timeline.backward_start_s[stage], expected.backward_s),
    )
    return [
        f"every {name} pass of stage {stage + 1} must take {seconds} s"
        for name, taken_s, seconds in ends
        if np.abs(taken_s - seconds).max() > slack_s
    ]


def _order_violations(timeline: Timeline, slack_s: float) -> list[str]:
    """Forward from stage to stage, backward the other way, backward of a microbatch behind its forward."""
    late = (
        ("forward", timeline.forward_end_s[:-1] - timeline.forward_start_s[1:]),
        ("backward", timeline.backward_end_s[1:] - timeline.recompute_start_s[:-1]),
        ("forward before backward", timeline.forward_end_s[-1:] - timeline.recompute_start_s[-1:]),
    )
    return [
        f"the {name} order must hold, but is broken by {waits.max()} s"
        for name, waits in late
        if waits.size and waits.max() > slack_s
    ]


def _ending_violations(
    problem: PlacementProblem, placement: Placement, timeline: Timeline, slack_s: float
) -> list[str]:
    """Synchronisation and update behind the last backward pass of each stage."""
    broken = []
    graph = problem.tensor_parallel[placement.tensor]
    for number, stage in enumerate(placement.stages):
        layers = [graph.layers[layer] for layer in stage.layers]
        weight_bytes = math.fsum(layer.weight_bytes for layer in layers)
        drained_s = float(timeline.backward_end_s[number].max())
        synchronised_s = drained_s + gradient_sync_s(problem, placement.tensor, placement.data, weight_bytes)
        updated_s = synchronised_s + math.fsum(layer.update_s for layer in layers)
        stated = (timeline.drained_s[number], timeline.synchronised_s[number], timeline.updated_s[number])
        for name, value, expected_s in zip(
            ("drained_s", "synchronised_s", "updated_s"), stated, (drained_s, synchronised_s, updated_s), strict=True
        ):
            if abs(float(value) - expected_s) > slack_s:
                broken.append(f"{name} of stage {number + 1} must be {expected_s}, but is {float(value)}")
    return broken
