"""What the page of a pipeline draws: the stages in time, and the step along its forward part."""

import numpy as np

from dse.parallel.pipeline.problem import PipelinePlan, PipelineProblem
from dse.parallel.pipeline.timeline import Timeline
from dse.report.chart import Axis, LaneChart, Line, PointChart
from dse.report.charts import lanes_in_time
from dse.report.palette import ANSWER, BLUE, PURPLE, YELLOW
from dse.report.units import counted, memory_text, time_text

_LABELS = {
    "forward": "forward",
    "backward": "backward",
    "transfer": "transfers in both directions",
    "synchronisation": "all-reduces",
}


def pipeline_in_time(of: Timeline) -> LaneChart:
    """Each stage with its transfers and its all-reduce as lanes."""
    title = f"{counted(of.microbatches, 'microbatch', 'microbatches')} take {time_text(of.end_s)} through the pipeline"
    return lanes_in_time(title, of.lanes, of.spans, _LABELS)


def along_the_step(problem: PipelineProblem, plan: PipelinePlan) -> PointChart:
    """Computing and cumulative weights, and what would be sent, at every cut (paper, figures 12 and 13)."""
    profile = problem.profile
    cuts = np.arange(profile.points + 1)
    work_s = np.concatenate(([0.0], np.cumsum(profile.forward_s + problem.backward_s)))
    weights = np.concatenate(([0.0], np.cumsum(profile.weight_bytes)))
    most = float(profile.cut_bytes.max())
    series = (
        (profile.cut_bytes, most, f"activations sent (1 = {memory_text(most)})", YELLOW, 1.0),
        (work_s, float(work_s[-1]), "cumulative compute", BLUE, 1.8),
        (weights, float(weights[-1]), "cumulative weights", PURPLE, 1.8),
    )
    marks = [
        Line(name, cuts.tolist(), (values / max(whole, 1e-300)).tolist(), colour, width=width)
        for values, whole, name, colour, width in series
    ]
    marks += [
        Line("" if number else "cut", [cut, cut], [0.0, 1.0], ANSWER, dash="dash")
        for number, cut in enumerate(plan.cuts)
    ]
    sent = [memory_text(float(profile.cut_bytes[cut])) for cut in plan.cuts]
    what = f"The cuts send {', '.join(sent)}" if sent else "The step is not cut"
    x = Axis("points of the forward pass before the cut", from_zero=True)
    title = f"{what}; the largest cut would send {memory_text(most)}"
    return PointChart(title, x, Axis("share of the total, or of the largest cut", from_zero=True), marks, 380)
