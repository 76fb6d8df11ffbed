"""Settings of torchtitan (2025): the sections that a plan decides, to be merged into a model's own file."""

import math

from dse.plan.problem import PlanProblem
from dse.plan.training_plan import TrainingPlan

_CONVERTERS = {"fp8": "quantize.linear.float8", "mxfp8": "quantize.linear.mx"}


def torchtitan_toml(problem: PlanProblem, plan: TrainingPlan) -> str | None:
    """The TOML text; None for what torchtitan lacks.

    That is ZeRO 1, tensor parallelism without sequence parallelism, and other precisions than bf16, fp8 and mxfp8.
    """
    cuts = plan.tensor == 1 or plan.sequence_parallel
    if plan.zero == 1 or not cuts or plan.precision not in ("bf16", *_CONVERTERS):
        return None
    replicas = problem.global_batch // plan.data
    schedule = {"1f1b": "1F1B", "gpipe": "GPipe"}[plan.schedule] if plan.interleave == 1 else "Interleaved1F1B"
    lines = [
        "[training]",
        f"seq_len = {problem.sequence}",
        f"local_batch_size = {replicas if plan.pipeline > 1 else plan.microbatch}",
        f"global_batch_size = {problem.global_batch}",
        "",
        "[parallelism]",
        f"data_parallel_replicate_degree = {1 if plan.zero else plan.data}",
        f"data_parallel_shard_degree = {plan.data if plan.zero else 1}",
        f'fsdp_reshard_after_forward = "{"always" if plan.zero == 3 else "never"}"',
        f"tensor_parallel_degree = {plan.tensor}",
        f"context_parallel_degree = {plan.context}",
        f"expert_parallel_degree = {plan.expert}",
        f"pipeline_parallel_degree = {plan.pipeline}",
    ]
    if plan.pipeline > 1:
        lines += [
            f'pipeline_parallel_schedule = "{schedule}"',
            f"pipeline_parallel_microbatch_size = {plan.microbatch}",
            f"pipeline_parallel_layers_per_stage = {math.ceil(problem.model.layers / plan.pipeline / plan.interleave)}",
        ]
    mode, _, every = plan.recompute.partition("/")
    lines += ["", "[activation_checkpoint]", f'mode = "{"selective" if every else mode}"']
    if every or mode == "selective":
        lines.append(f'selective_ac_option = "{every or "op"}"')
    if plan.precision in _CONVERTERS:
        lines += ["", "[model]", f'converters = ["{_CONVERTERS[plan.precision]}"]']
    return "\n".join(lines) + "\n"
