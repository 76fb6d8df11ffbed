"""What the page of a pipeline draws: the stages in time, and the step along its forward part."""

import numpy as np
import plotly.graph_objects as go

from dse.parallel.pipeline.problem import PipelinePlan, PipelineProblem
from dse.parallel.pipeline.timeline import Timeline
from dse.report.charts import chart, lanes_in_time
from dse.report.palette import ANSWER, BLUE, PURPLE, YELLOW
from dse.report.units import memory_scale

_LABELS = {
    "forward": "forward",
    "backward": "backward",
    "transfer": "transfers, both ways",
    "synchronisation": "all-reduces",
}


def pipeline_in_time(of: Timeline) -> go.Figure:
    """Each stage with its transfers and its all-reduce as lanes."""
    return lanes_in_time(of.lanes, of.spans, _LABELS)


def along_the_step(problem: PipelineProblem, plan: PipelinePlan) -> go.Figure:
    """Computing and weights so far, and what would be sent, at every cut (paper, figures 12 and 13)."""
    profile = problem.profile
    cuts = np.arange(profile.points + 1)
    work_s = np.concatenate(([0.0], np.cumsum(profile.forward_s + problem.backward_s)))
    weights = np.concatenate(([0.0], np.cumsum(profile.weight_bytes)))
    sent = memory_scale(float(profile.cut_bytes.max()))
    drawn = chart("points of the forward part in front of the cut", "share of the whole", 380)
    for values, name, colour in ((work_s, "computing so far", BLUE), (weights, "weights so far", PURPLE)):
        whole = max(float(values[-1]), 1e-300)
        drawn.add_trace(go.Scatter(x=cuts, y=values / whole, mode="lines", name=name, line={"color": colour}))
    drawn.add_trace(
        go.Scatter(
            x=cuts,
            y=[sent.of(float(each)) for each in profile.cut_bytes],
            mode="lines",
            name="activations that pass",
            line={"color": YELLOW, "width": 1},
            yaxis="y2",
        )
    )
    for cut in plan.cuts:
        drawn.add_vline(x=cut, line={"color": ANSWER, "width": 1.5})
    drawn.update_layout(
        showlegend=True,
        yaxis2={
            "title": f"activations of a batch [{sent.unit}]",
            "overlaying": "y",
            "side": "right",
            "showgrid": False,
            "rangemode": "tozero",
        },
    )
    return drawn
