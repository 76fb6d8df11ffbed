"""The stages of a pipeline side by side: what one microbatch costs in each."""

from dse.placement.check import stage_passes
from dse.placement.problem import Placement, PlacementProblem
from dse.report.chart import BarChart
from dse.report.charts import stacked_by_stage
from dse.report.units import time_scale


def stage_loads(problem: PlacementProblem, placement: Placement) -> BarChart:
    """Forward, recomputed and backward pass of a microbatch in every stage, transfers included, stacked."""
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
    loads_s = [sum(each) for each in zip(*causes.values(), strict=True)]
    slowest, scale = loads_s.index(max(loads_s)), time_scale(max(loads_s))
    title = f"Stage {slowest + 1} is the slowest: {scale.text(loads_s[slowest])} per microbatch"
    if count > 1:
        title += f"; the fastest takes {scale.text(min(loads_s))}"
    return stacked_by_stage(
        title, {cause: (cause, seconds) for cause, seconds in causes.items()}, "time per microbatch", scale
    )
