"""A configuration of DeepSpeed."""

import json

from dse.plan.export.expressible import refuse, refuse_settings
from dse.plan.problem import PlanProblem
from dse.plan.training_plan import AS_STACK, TrainingPlan


def deepspeed_json(problem: PlanProblem, plan: TrainingPlan) -> str:
    """The JSON text.

    Raises:
        NotExpressibleError: the plan has more than replicas, ZeRO and 16 bits: the rest is the model's own.
    """
    refuse_settings(plan, ("gradients", "gradient_transfer", "overlap_gradients", "overlap_weights"))
    software = problem.software
    overlaps = software.overlaps_gradients
    refuse(
        (plan.data != problem.devices or plan.expert > 1, "axes other than data"),
        (plan.precision not in ("bf16", "fp16"), f"precision={plan.precision}"),
        (plan.recompute != "none", f"recompute={plan.recompute}, which the model's own code controls"),
        (plan.zero_copies > 1, f"zero_copies={plan.zero_copies}, because it no longer has MiCS"),
        ("fp8" in (plan.gradients, plan.gradient_transfer), "8-bit gradients or gradient_transfer"),
        (plan.zero > 0 and software.overlaps_weights != overlaps, "overlap of only gradients or only weights"),
    )
    zero: dict[str, object] = {"stage": plan.zero, "overlap_comm": overlaps}
    document = {
        "train_batch_size": problem.global_batch,
        "train_micro_batch_size_per_gpu": plan.microbatch,
        "gradient_accumulation_steps": problem.global_batch // (plan.data * plan.microbatch),
        "bf16": {"enabled": plan.precision == "bf16"},
        "fp16": {"enabled": plan.precision == "fp16"},
        "zero_optimization": zero,
    }
    if plan.gradients != AS_STACK:
        document["data_types"] = {"grad_accum_dtype": plan.gradients}
    if plan.gradient_transfer != AS_STACK:
        document["communication_data_type"] = plan.gradient_transfer
    return json.dumps(document, indent=2) + "\n"
