"""The stages of a pipeline side by side: what one microbatch costs in each."""

import plotly.graph_objects as go

from dse.placement.check import stage_passes
from dse.placement.problem import Placement, PlacementProblem
from dse.report.charts import chart
from dse.report.palette import PART_COLOURS
from dse.report.units import time_scale

_HEIGHT_PIXELS = 320


def stage_loads(problem: PlacementProblem, placement: Placement) -> go.Figure:
    """Forward, recomputed and backward pass of a microbatch in every stage, transfers included, one on the other."""
    graph, count = problem.tensor_parallel[placement.tensor], len(placement.stages)
    passes = [
        stage_passes(problem, graph, stage, last=position == count - 1)
        for position, stage in enumerate(placement.stages)
    ]
    causes = {
        "forward": [each.forward_s for each in passes],
        "recomputation": [each.recompute_s for each in passes],
        "backward": [each.backward_s for each in passes],
    }
    scale = time_scale(max(map(sum, zip(*causes.values(), strict=True))))
    drawn = chart("stage", f"a microbatch [{scale.unit}]", _HEIGHT_PIXELS)
    for cause, seconds in causes.items():
        if any(seconds):
            stages = list(range(1, count + 1))
            heights = [scale.of(each) for each in seconds]
            drawn.add_trace(go.Bar(name=cause, x=stages, y=heights, marker={"color": PART_COLOURS[cause]}))
    drawn.update_layout(barmode="stack", showlegend=True)
    drawn.update_xaxes(dtick=1 if count <= 32 else None, tickformat="d")
    return drawn
