"""What the answer is compared with: a fixed accelerator with the expert placement, and with our own placement.

Expert placements are those of the paper's Table 4: pipeline depth, data width, tensor width, with equal layers in
every stage, as practitioners split a model. Everything the expert leaves open (microbatch, HBM size, recompute) is
chosen as well for the expert as for us.
"""

from dataclasses import dataclass

import numpy as np

from dse.codesign.evaluator import Choice, Evaluator
from dse.codesign.pricing import scheduled_latencies
from dse.codesign.problem import CodesignProblem, TrainingPlan
from dse.placement.check import batch_s, violations
from dse.placement.problem import Placement, PlacementProblem, Stage
from hardware.machines import Machines


def own_plan(problem: CodesignProblem, machine: Machines) -> TrainingPlan | None:
    """The proven best plan on one given machine at the largest HBM size of the problem; None if nothing fits."""
    return Evaluator(problem, machine).evaluate(0).plans[-1]


def expert_plan(problem: CodesignProblem, machine: Machines, expert: ExpertPlacement) -> TrainingPlan | None:
    """The expert's split on one given machine, with the best microbatch and recompute choice that fits."""
    evaluator = Evaluator(problem, machine)
    best: TrainingPlan | None = None
    for choice in evaluator.choices:
        if choice.hbm_bytes != problem.hbm_bytes[-1] or expert.tensor not in problem.tensor_parallel:
            continue
        graph = evaluator.graphs[choice.microbatch, expert.tensor]
        latencies = scheduled_latencies(graph, machine.take(np.array([0])), problem.network)[0]
        placement_problem = evaluator.placement_problem(choice, {(choice.microbatch, expert.tensor): latencies})
        placement = _even_split(placement_problem, choice, expert)
        if placement is not None and (best is None or placement.batch_s < best.placement.batch_s):
            best = TrainingPlan(choice.microbatch, choice.hbm_bytes, choice.recompute, placement, placement.batch_s)
    return best


def _even_split(problem: PlacementProblem, choice: Choice, expert: ExpertPlacement) -> Placement | None:
    """The repeated (sliced or largest) layers in equal runs; what comes before and after joins the end stages."""
    layers = problem.tensor_parallel[expert.tensor].layers
    count = len(layers)
    blocks = count - 2
    first = 1
    cuts = [0, *(first + round(blocks * stage / expert.pipeline) for stage in range(1, expert.pipeline)), count]
    stages = []
    for begin, end in zip(cuts, cuts[1:], strict=False):
        members = tuple(range(begin, end))
        if not members:
            return None
        sliced = any(layers[layer].sliced for layer in members)
        stages.append(Stage(members, expert.tensor if sliced else 1))
    data = min(expert.data, problem.microbatches)
    time_s = batch_s(problem, expert.tensor, data, tuple(stages))
    placement = Placement(expert.tensor, data, tuple(stages), time_s)
    return None if violations(problem, placement) else placement
