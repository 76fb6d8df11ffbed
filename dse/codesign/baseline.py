"""What the answer is compared with: TPUv4 with the expert placement, and TPUv4 with our own placement.

Expert placements {p, d, t} are those of the paper's Table 4 (``expert_placement`` of a model's YAML file): equal runs of
blocks in every stage, as practitioners split a model, with the embedding in the first stage and the head in the last.
What the expert leaves open – microbatch, recompute or stash – is chosen for the expert as well as for us, at the
largest HBM size that is offered.
"""

from typing import Any

from dse.codesign.evaluator import Choice, Evaluator
from dse.codesign.formats import plan_summary
from dse.codesign.pricing import scheduled_latencies
from dse.codesign.problem import CodesignProblem, TrainingPlan
from dse.models.hyperparameters import ExpertPlacement
from dse.placement.check import batch_s, violations
from dse.placement.problem import Placement, PlacementProblem, Stage
from hardware.specs import accelerator

REFERENCE = "tpuv4"


def baselines(problem: CodesignProblem) -> list[dict[str, Any]]:
    """The comparison's rows as JSON types: name, area, model FLOPs utilisation and plan (None where nothing fits)."""
    machine = accelerator(REFERENCE, problem.cost_model).machines
    evaluator = Evaluator(problem, machine)
    rows = []
    if problem.model.expert_placement is not None:
        rows.append(("TPUv4, expert placement", expert_plan(evaluator, problem.model.expert_placement)))
    rows.append(("TPUv4, our placement", evaluator.evaluate(0).plans[-1]))
    return [
        {
            "name": name,
            "area_mm2": float(machine.area_mm2[0]),
            "model_flops_utilisation": None if plan is None else evaluator.utilisation(0, plan),
            "plan": None if plan is None else plan_summary(problem, plan),
        }
        for name, plan in rows
    ]


def expert_plan(evaluator: Evaluator, expert: ExpertPlacement) -> TrainingPlan | None:
    """The expert's split on the evaluator's first machine, with the best microbatch and recompute choice that fits."""
    problem = evaluator.problem
    if expert.tensor not in problem.tensor_parallel:
        return None
    best: TrainingPlan | None = None
    for choice in evaluator.choices:
        if choice.hbm_bytes != problem.hbm_bytes[-1]:
            continue
        graph = evaluator.graphs[choice.microbatch, expert.tensor]
        latencies = scheduled_latencies(graph, evaluator.machines.one(0), problem.network)[0]
        posed = evaluator.placement_problem(choice, {(choice.microbatch, expert.tensor): latencies}, (expert.tensor,))
        placement = _even_split(posed, expert)
        if placement is not None and (best is None or placement.batch_s < best.placement.batch_s):
            best = TrainingPlan(choice.microbatch, choice.hbm_bytes, choice.recompute, placement, placement.batch_s)
    return best


def _even_split(problem: PlacementProblem, expert: ExpertPlacement) -> Placement | None:
    """Blocks in equal runs; None where the split breaks a rule (memory, or more stages than blocks)."""
    layers = problem.tensor_parallel[expert.tensor].layers
    blocks = len(layers) - 2
    inner = [1 + round(blocks * stage / expert.pipeline) for stage in range(1, expert.pipeline)]
    cuts = [0, *inner, len(layers)]
    if expert.pipeline > blocks:
        return None
    stages = []
    for begin, end in zip(cuts, cuts[1:], strict=False):
        members = tuple(range(begin, end))
        stages.append(Stage(members, expert.tensor if any(layers[member].sliced for member in members) else 1))
    data = min(expert.data, problem.microbatches)
    time_s = batch_s(problem, expert.tensor, data, stages)
    placement = Placement(expert.tensor, data, tuple(stages), time_s)
    return None if violations(problem, placement) else placement
