"""What the page of a pipeline draws: the stages in time, and the step along its forward part."""

import numpy as np
import plotly.graph_objects as go

from dse.parallel.pipeline.problem import PipelinePlan, PipelineProblem
from dse.parallel.pipeline.timeline import Timeline
from dse.report.charts import chart
from dse.report.palette import ANSWER, BLUE, PART_COLOURS, PURPLE, YELLOW
from dse.report.units import memory_scale, time_scale

_LANE_PIXELS = 26
_LABELS = {
    "forward": "forward",
    "backward": "backward",
    "transfer": "transfers, both ways",
    "synchronisation": "all-reduces",
}


def pipeline_in_time(of: Timeline) -> go.Figure:
    """Each stage with its transfers and its all-reduce as lanes; lanes on which nothing happens are left out."""
    used = sorted({span.lane for span in of.spans if span.end_s > span.start_s})
    row = {lane: number for number, lane in enumerate(used)}
    scale = time_scale(of.end_s)
    drawn = chart(f"time [{scale.unit}]", "", 130 + _LANE_PIXELS * len(used))
    for kind, label in _LABELS.items():
        spans = [span for span in of.spans if span.category == kind and span.lane in row]
        if spans:
            drawn.add_trace(
                go.Bar(
                    orientation="h",
                    name=label,
                    y=[row[span.lane] for span in spans],
                    base=[scale.of(span.start_s) for span in spans],
                    x=[scale.of(span.end_s - span.start_s) for span in spans],
                    marker={"color": PART_COLOURS[kind], "line": {"color": "white", "width": 0.5}},
                    customdata=[
                        (span.name, time_scale(span.end_s - span.start_s).text(span.end_s - span.start_s))
                        for span in spans
                    ],
                    hovertemplate="%{customdata[0]}: %{customdata[1]}, from %{base:.4~g} "
                    f"{scale.unit}<extra>{label}</extra>",
                )
            )
    drawn.update_layout(barmode="overlay", showlegend=True, bargap=0.2)
    drawn.update_xaxes(rangemode="tozero")
    drawn.update_yaxes(
        tickvals=list(range(len(used))), ticktext=[of.lanes[lane] for lane in used], range=[len(used) - 0.5, -0.5]
    )
    return drawn


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
