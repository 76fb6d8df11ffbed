"""One pipeline of a placement in time, as a trace for Perfetto."""

from dse.placement.problem import Placement, PlacementProblem
from dse.placement.timeline import Timeline
from dse.report.trace_events import MAX_EVENTS, Span, TraceEvents, trace


def pipeline_trace(
    problem: PlacementProblem, placement: Placement, timeline: Timeline, max_events: int = MAX_EVENTS
) -> TraceEvents:
    """One pipeline in time: a thread for each stage, with its passes, gradient synchronisation and optimizer step.

    Where the passes of all microbatches are too many events, the first and the last ones are shown.
    """
    count, rounds = timeline.forward_start_s.shape
    shown = _ends(rounds, max(1, (max_events - 2 * count) // (3 * count)))
    spans = [span for stage in range(count) for span in _stage_spans(timeline, stage, shown)]
    which = f"all {rounds} microbatches" if len(shown) == rounds else _left_out(shown, rounds)
    title = f"{problem.name}: pipeline of {count} stages ({timeline.schedule}), {which}"
    names = [layer.name for layer in problem.tensor_parallel[placement.tensor].layers]
    lanes = [
        f"stage {number}: {names[stage.layers[0]]} … {names[stage.layers[-1]]}"
        if len(stage.layers) > 1
        else f"stage {number}: {names[stage.layers[0]]}"
        for number, stage in enumerate(placement.stages, start=1)
    ]
    return trace(title, lanes, spans)


def _ends(rounds: int, max_shown: int) -> list[int]:
    """The microbatches that are shown: all of them, or as many from either end."""
    if rounds <= max_shown:
        return list(range(rounds))
    last = max_shown // 2
    return [*range(max_shown - last), *range(rounds - last, rounds)]


def _left_out(shown: list[int], rounds: int) -> str:
    first = sum(place == microbatch for place, microbatch in enumerate(shown))
    behind = f" and {rounds - len(shown) + first + 1}–{rounds}" if len(shown) > first else ""
    return f"microbatches 1–{first}{behind} of {rounds} shown"


def _stage_spans(timeline: Timeline, stage: int, shown: list[int]) -> list[Span]:
    spans = []
    for microbatch in shown:
        at = (stage, microbatch)
        times = [
            ("forward", "F", timeline.forward_start_s[at], timeline.forward_end_s[at]),
            ("recompute", "R", timeline.recompute_start_s[at], timeline.backward_start_s[at]),
            ("backward", "B", timeline.backward_start_s[at], timeline.backward_end_s[at]),
        ]
        spans += [
            Span(stage, f"{letter}{microbatch + 1}", kind, float(start_s), float(end_s))
            for kind, letter, start_s, end_s in times
            if kind != "recompute" or end_s > start_s
        ]
    drained_s, synchronised_s = float(timeline.drained_s[stage]), float(timeline.synchronised_s[stage])
    updated_s = float(timeline.updated_s[stage])
    if synchronised_s > drained_s:
        spans.append(Span(stage, "gradient synchronisation", "synchronisation", drained_s, synchronised_s))
    if updated_s > synchronised_s:
        spans.append(Span(stage, "optimizer step", "update", synchronised_s, updated_s))
    return spans
