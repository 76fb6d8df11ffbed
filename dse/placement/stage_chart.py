"""The stages of a pipeline side by side: what one microbatch costs in each."""

import plotly.graph_objects as go

from dse.placement.check import stage_passes
from dse.placement.problem import Placement, PlacementProblem
from dse.report.charts import stacked_by_stage
from dse.report.units import time_scale


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
    return stacked_by_stage({cause: (cause, seconds) for cause, seconds in causes.items()}, "a microbatch", scale)
