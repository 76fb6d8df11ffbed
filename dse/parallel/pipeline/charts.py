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
    "transfer": "transfers, both ways",
    "synchronisation": "all-reduces",
}


def pipeline_in_time(of: Timeline) -> LaneChart:
    """Each stage with its transfers and its all-reduce as lanes."""
    title = f"{counted(of.microbatches, 'microbatch', 'microbatches')} through the pipeline take {time_text(of.end_s)}"
    return lanes_in_time(title, of.lanes, of.spans, _LABELS)


def along_the_step(problem: PipelineProblem, plan: PipelinePlan) -> PointChart:
    """Computing and weights so far, and what would be sent, at every cut (paper, figures 12 and 13)."""
    profile = problem.profile
    cuts = np.arange(profile.points + 1)
    work_s = np.concatenate(([0.0], np.cumsum(profile.forward_s + problem.backward_s)))
    weights = np.concatenate(([0.0], np.cumsum(profile.weight_bytes)))
    most = float(profile.cut_bytes.max())
    series = (
        (profile.cut_bytes, most, f"activations that pass (1: {memory_text(most)})", YELLOW, 1.0),
        (work_s, float(work_s[-1]), "computing so far", BLUE, 1.8),
        (weights, float(weights[-1]), "weights so far", PURPLE, 1.8),
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
    what = f"The step is cut where {', '.join(sent)} pass" if sent else "The step is not cut"
    x = Axis("points of the forward part in front of the cut", from_zero=True)
    title = f"{what}; at most {memory_text(most)} would"
    return PointChart(title, x, Axis("share of the whole, or of the most that passes", from_zero=True), marks, 380)
