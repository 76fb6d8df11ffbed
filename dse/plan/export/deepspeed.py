"""A configuration of DeepSpeed."""

import json

from dse.plan.problem import PlanProblem
from dse.plan.training_plan import TrainingPlan


def deepspeed_json(problem: PlanProblem, plan: TrainingPlan) -> str | None:
    """The JSON text; None where a plan has more than replicas, ZeRO and 16 bits: the rest is the model's own."""
    if plan.data != problem.devices or plan.expert > 1 or plan.precision not in ("bf16", "fp16"):
        return None
    if plan.recompute != "none":
        return None
    overlaps = problem.stack.overlaps_data.value
    document = {
        "train_batch_size": problem.global_batch,
        "train_micro_batch_size_per_gpu": plan.microbatch,
        "gradient_accumulation_steps": problem.global_batch // (plan.data * plan.microbatch),
        "bf16": {"enabled": plan.precision == "bf16"},
        "fp16": {"enabled": plan.precision == "fp16"},
        "zero_optimization": {"stage": plan.zero, "overlap_comm": overlaps},
    }
    return json.dumps(document, indent=2) + "\n"
