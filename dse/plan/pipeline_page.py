"""What the page of a pipelined plan draws: its stages in time, and what fills the memory of each."""

from collections.abc import Mapping

from dse.plan.check_costs import plan_costs
from dse.plan.problem import PlanProblem
from dse.plan.timeline import pipeline_spans, stage_names
from dse.plan.training_plan import TrainingPlan
from dse.report.charts import lanes_in_time, stacked_by_stage
from dse.report.units import memory_scale, memory_text, time_text
from dse.report.view import Heading, Paragraph, Part

_MAX_PASSES = 1500
"""In the picture; the trace has more."""

_MAX_PASSES_OF_A_STAGE = 240
"""In the picture, on about 1,000 pixels."""

_LABELS = {"forward": "forward", "backward": "backward, with recomputation"}


def pipeline_parts(problem: PlanProblem, plan: TrainingPlan, memory_names: Mapping[str, tuple[str, str]]) -> list[Part]:
    """Two charts; nothing for a plan of one stage.

    Args:
        problem: the question.
        plan: keeps its rules.
        memory_names: of each part of the memory, its label and its kind (:class:`dse.report.view.Share`).
    """
    if plan.pipeline == 1:
        return []
    parts: list[Part] = []
    shown = pipeline_spans(problem, plan, min(_MAX_PASSES, _MAX_PASSES_OF_A_STAGE * plan.pipeline))
    if shown is None:
        parts += [
            Heading("Pipeline timeline"),
            Paragraph("One round of microbatches has too many passes to draw.", small=True),
        ]
    else:
        which, spans = shown
        about = f"One replica: {which}, timed by their dependencies, with {plan.interleave} chunks per stage."
        title = (
            f"One replica: {which} through {plan.pipeline} stages take {time_text(max(span.end_s for span in spans))}"
        )
        parts += [
            Heading("Pipeline timeline"),
            Paragraph(about, small=True),
            lanes_in_time(title, stage_names(plan), spans, _LABELS),
        ]
    memories, limit = plan_costs(problem, plan).stage_memory, float(problem.usable_bytes)
    names = (name for name in memory_names if name in memories[0])
    amounts = {memory_names[name][0]: (memory_names[name][1], [stage[name] for stage in memories]) for name in names}
    sizes = [sum(stage.values()) for stage in memories]
    title = (
        f"Stage {sizes.index(max(sizes)) + 1} uses the most memory: {memory_text(max(sizes))} of {memory_text(limit)}"
    )
    return [
        *parts,
        Heading("Memory per stage"),
        Paragraph("Per rank of each stage; the line is the capacity of an accelerator.", small=True),
        stacked_by_stage(title, amounts, "memory per rank", memory_scale(limit), ("capacity of an accelerator", limit)),
    ]
