"""The passes of a pipeline in time, and the trace of them for Perfetto.

Stages run 1F1B, interleaved where they have several chunks (Narayanan et al., SC 2021, section 2.2, in the order of
Megatron Core's ``forward_backward_pipelining_with_interleaving``), or GPipe. A chunk takes its share of its stage's
pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dse.plan.check_costs import plan_costs
from dse.plan.problem import PlanProblem
from dse.plan.training_plan import DRAWN_SCHEDULES, TrainingPlan
from dse.report.trace_events import MAX_EVENTS, Span, TraceEvents, trace

MAX_PASSES_OF_A_ROUND = 10_000
"""Up to which a round of microbatches is shown whole."""


class Pass(NamedTuple):
    """A pass of one microbatch over one chunk of a stage."""

    is_backward: bool
    chunk: int
    microbatch: int


@dataclass(frozen=True)
class Timeline:
    """When each pass of each stage begins and ends.

    Attributes:
        passes: by stage, in the order in which they run: (pass, start, end), in seconds.
    """

    passes: tuple[tuple[tuple[Pass, float, float], ...], ...]

    @property
    def end_s(self) -> float:
        """When the last pass ends."""
        return max(end for stage in self.passes for _, _, end in stage)


def order(stage: int, stages: int, chunks: int, microbatches: int, gpipe: bool = False) -> list[Pass]:
    """The passes of one stage in their order."""
    total = chunks * microbatches
    forward = [Pass(False, *_place(step, stages, chunks)) for step in range(total)]
    backward = [
        Pass(True, chunks - 1 - chunk, microbatch)
        for chunk, microbatch in (_place(step, stages, chunks) for step in range(total))
    ]
    if gpipe:
        return forward + backward
    ahead = stages - stage - 1 if chunks == 1 else 2 * (stages - stage - 1) + (chunks - 1) * stages
    ahead = min(ahead, total)
    steady = [each for pair in zip(forward[ahead:], backward, strict=False) for each in pair]
    return forward[:ahead] + steady + backward[total - ahead :]


def _place(step: int, stages: int, chunks: int) -> tuple[int, int]:
    """(chunk, microbatch) of a stage's pass: groups of as many microbatches as stages go through all its chunks."""
    if chunks == 1:
        return 0, step
    group, within = divmod(step, stages * chunks)
    return within // stages, group * stages + within % stages


def timeline(
    passes_s: Sequence[tuple[float, float]],
    chunks: int,
    microbatches: int,
    transfer_s: float = 0.0,
    gpipe: bool = False,
) -> Timeline:
    """When everything runs, each pass as early as its stage and what it waits for let it.

    Args:
        passes_s: of each stage, seconds of the forward and the backward pass of a microbatch over all its chunks.
        chunks: of each stage.
        microbatches: a multiple of the stages where there are several chunks.
        transfer_s: from one stage to the next, while neither waits for it.
        gpipe: whether all forward passes come first.
    """
    stages = len(passes_s)
    waiting = [order(stage, stages, chunks, microbatches, gpipe) for stage in range(stages)]
    done: dict[tuple[int, Pass], float] = {}
    rows: list[list[tuple[Pass, float, float]]] = [[] for _ in range(stages)]
    free = [0.0] * stages
    left = sum(map(len, waiting))
    while left:
        for stage in range(stages):
            while len(rows[stage]) < len(waiting[stage]):
                each = waiting[stage][len(rows[stage])]
                ready = _ready(each, stage, stages, chunks, done, transfer_s)
                if ready is None:
                    break
                start = max(free[stage], ready)
                end = start + passes_s[stage][each.is_backward] / chunks
                rows[stage].append((each, start, end))
                done[stage, each] = free[stage] = end
                left -= 1
    return Timeline(tuple(map(tuple, rows)))


def _ready(
    each: Pass, stage: int, stages: int, chunks: int, done: dict[tuple[int, Pass], float], transfer_s: float
) -> float | None:
    """When what a pass waits for is there; None while it has not run."""
    place = each.chunk * stages + stage
    last = stages * chunks - 1
    if each.is_backward and place == last:
        return done.get((stage, each._replace(is_backward=False)))
    if not each.is_backward and place == 0:
        return 0.0
    chunk, neighbour = divmod(place + (1 if each.is_backward else -1), stages)
    before = done.get((neighbour, each._replace(chunk=chunk)))
    return None if before is None else before + (transfer_s if neighbour != stage else 0.0)


def plan_timeline(problem: PlanProblem, plan: TrainingPlan, microbatches: int) -> Timeline:
    """The first ``microbatches`` of a plan's step, as if it had no more."""
    costs = plan_costs(problem, plan)
    hidden = 0.0 if costs.time_s["transfer"] else costs.transfer_s
    return timeline(costs.passes_s, plan.interleave, microbatches, hidden, plan.schedule == "gpipe")


def pipeline_spans(
    problem: PlanProblem, plan: TrainingPlan, max_events: int = MAX_EVENTS
) -> tuple[str, list[Span]] | None:
    """Which microbatches are shown, in words, and their passes, a lane for each stage.

    Interleaved stages take as many microbatches as stages in turn: such a round may have more than ``max_events``.

    Returns:
        None for one stage, where not even a round of microbatches can be shown, and for schedules that split backward
        passes or have two stages on a device.
    """
    if plan.schedule not in DRAWN_SCHEDULES:
        return None
    stages, chunks = plan.pipeline, plan.interleave
    total = problem.global_batch // (plan.data * plan.microbatch)
    shown = min(total, max_events // (2 * stages * chunks))
    if chunks > 1:
        shown -= shown % stages
        if shown == 0 and 2 * chunks * stages**2 <= MAX_PASSES_OF_A_ROUND:
            shown = stages
    if stages == 1 or shown < 1:
        return None
    spans = [
        Span(stage, _name(each, chunks), "backward" if each.is_backward else "forward", start, end)
        for stage, row in enumerate(plan_timeline(problem, plan, shown).passes)
        for each, start, end in row
    ]
    return f"all {total} microbatches" if shown == total else f"{shown} of {total} microbatches", spans


def pipeline_trace(problem: PlanProblem, plan: TrainingPlan, max_events: int = MAX_EVENTS) -> TraceEvents | None:
    """A thread for each stage; None where :func:`pipeline_spans` has nothing to show."""
    shown = pipeline_spans(problem, plan, max_events)
    if shown is None:
        return None
    which, spans = shown
    title = f"{problem.name}: pipeline of {plan.pipeline} stages × {plan.interleave} chunks ({plan.schedule}), {which}"
    return trace(title, stage_names(plan), spans)


def stage_names(plan: TrainingPlan) -> list[str]:
    """Of the lanes."""
    return [f"stage {stage + 1}" for stage in range(plan.pipeline)]


def _name(each: Pass, chunks: int) -> str:
    letter = "B" if each.is_backward else "F"
    return f"{letter}{each.microbatch + 1}" + (f" chunk {each.chunk + 1}" if chunks > 1 else "")
