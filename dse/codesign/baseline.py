"""What the answer is compared with: a reference accelerator with the paper's expert placement, and with our own.

The reference is the cost model's: TPUv4 as published, or under ``phaze-2024`` the paper's idea of it, which has 2 × 128
vector lanes instead of 4,096. Expert placements {p, d, t} are those of the paper's Table 4 (``expert_placement`` of a
model's YAML file): equal runs of blocks in every stage, as practitioners split a model, the embedding in the first
stage and the head in the last. What the expert leaves open – microbatch, HBM size, recompute or stash – is chosen for
the expert as well as for us.
"""

from itertools import pairwise, product
from typing import Any

from dse.codesign.evaluation.evaluator import Evaluator
from dse.codesign.evaluation.pricing import Pricing, price, scheduled_latencies
from dse.codesign.formats import plan_summary
from dse.codesign.problem import HBM_TOLERANCE, TrainingJob, TrainingPlan
from dse.models.hyperparameters import ExpertPlacement
from dse.placement.check import batch_s, violations
from dse.placement.problem import Placement, PlacementProblem, Stage
from dse.schedule.search.layer import DEFAULT_LIMITS
from hardware.energy_model import TEMPLATE_PROCESS_NM
from hardware.specs import Accelerator, accelerator

PAPERS_REFERENCE = "tpuv4-phaze"
"""The machine that the PHAZE paper calls TPUv4."""

_PLACEMENTS = {"expert": "the paper's expert placement", "own": "our placement"}

Plans = tuple[TrainingPlan | None, ...]
"""A plan for each HBM size of the problem, None where nothing fits."""


def baselines(job: TrainingJob, reference: str | None = None, pricing: Pricing = price) -> list[dict[str, Any]]:
    """The comparison's rows as JSON types, the one with our placement last.

    Each has name, placement (``expert``: the paper's; ``own``), area and its process, model FLOPs utilisation and plan
    (None where nothing fits). ``reference`` names the accelerator; the cost model's when None. ``pricing`` gives
    operators their latencies.
    """
    chosen = accelerator(reference or job.cost_model.reference.name, job.cost_model)
    evaluator = Evaluator(job, chosen.machines, pricing=pricing)
    rows: list[tuple[str, Plans]] = []
    if job.workload.expert_placement is not None:
        rows.append(("expert", expert_plans(evaluator, job.workload.expert_placement)))
    rows.append(("own", evaluator.evaluate(0).plans))
    best = [(placement, _smallest_within_tolerance(job, plans)) for placement, plans in rows]
    return [_row(chosen, placement, evaluator, plan) for placement, plan in best]


def _row(chosen: Accelerator, placement: str, evaluator: Evaluator, plan: TrainingPlan | None) -> dict[str, Any]:
    return {
        "name": f"{chosen.title}, {_PLACEMENTS[placement]}",
        "placement": placement,
        "area_mm2": float(evaluator.machines.area_mm2[0]),
        "process_nm": evaluator.machines.process_nm or TEMPLATE_PROCESS_NM,
        "model_flops_utilisation": None if plan is None else evaluator.utilisation(0, plan),
        "plan": None if plan is None else plan_summary(evaluator.job, plan),
    }


def _smallest_within_tolerance(job: TrainingJob, plans: Plans) -> TrainingPlan | None:
    """The plan at the smallest HBM size within one per cent of the best, as the search chooses it."""
    fitting = [plan for plan in plans if plan is not None]
    best = max((plan.throughput_per_s(job.global_batch) for plan in fitting), default=0.0)
    return next((p for p in fitting if p.throughput_per_s(job.global_batch) >= (1 - HBM_TOLERANCE) * best), None)


def expert_plans(evaluator: Evaluator, expert: ExpertPlacement) -> Plans:
    """The expert's split on the evaluator's first machine at each HBM size, with the best choices that fit."""
    job, machine = evaluator.job, evaluator.machines.one(0)
    best: dict[int, TrainingPlan] = {}
    for key, graph in evaluator.graphs.items():
        if key[1] != expert.tensor:
            continue
        makespan, _ = scheduled_latencies(graph, machine, job.network, DEFAULT_LIMITS, evaluator.pricing)
        for hbm_bytes, recompute in product(job.hbm_bytes, (False, True)):
            choice = evaluator.choice(key, hbm_bytes, recompute)
            placement = _even_split(evaluator.placement_problem(choice, makespan), expert)
            known = best.get(hbm_bytes)
            if placement is not None and (known is None or placement.batch_s < known.placement.batch_s):
                batch, nodes = placement.batch_s, DEFAULT_LIMITS.nodes
                best[hbm_bytes] = TrainingPlan(key[0], hbm_bytes, recompute, placement, batch, nodes)
    return tuple(best.get(size) for size in job.hbm_bytes)


def _even_split(problem: PlacementProblem, expert: ExpertPlacement) -> Placement | None:
    """Blocks in equal runs; None where the split breaks a rule (memory, or more stages than blocks)."""
    layers = problem.tensor_parallel[expert.tensor].layers
    blocks = len(layers) - 2
    inner = [1 + round(blocks * stage / expert.pipeline) for stage in range(1, expert.pipeline)]
    cuts = [0, *inner, len(layers)]
    if expert.pipeline > blocks:
        return None
    stages = []
    for begin, end in pairwise(cuts):
        members = tuple(range(begin, end))
        stages.append(Stage(members, expert.tensor if any(layers[member].sliced for member in members) else 1))
    data = min(expert.data, problem.microbatches)
    time_s = batch_s(problem, expert.tensor, data, stages)
    placement = Placement(expert.tensor, data, tuple(stages), time_s)
    return None if violations(problem, placement) else placement
