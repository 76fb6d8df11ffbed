"""Settings of torchtitan 0.2: the sections that a plan decides, to be merged into a model's own file.

Its releases from 0.3 on have no such files (their settings are Python).
"""

import json
import math
from collections.abc import Iterator

from dse.plan.export.expressible import has_equal_stages, is_ordered_as, refuse, refuse_settings
from dse.plan.problem import PlanProblem
from dse.plan.recomputation import modules_of
from dse.plan.stages import stage_layers
from dse.plan.training_plan import AS_STACK, USUAL_ORDER, TrainingPlan

_CONVERTERS = {"fp8": "float8", "mxfp8": "mx"}
_SCHEDULES = {"1f1b": "1F1B", "gpipe": "GPipe"}
_TYPES = {"bf16": "bfloat16", "fp32": "float32"}
_STATE = ("weights", "gradients", "moments")


def torchtitan_toml(problem: PlanProblem, plan: TrainingPlan) -> str:
    """The TOML text.

    Raises:
        NotExpressibleError: the plan has what torchtitan lacks: ZeRO 1, replicas without FSDP together with other
            axes, tensor parallelism without sequence parallelism, recomputation by module, other precisions than bf16,
            fp8 and mxfp8, state of mixed precisions, gradients reduced in 16 bits, or overlaps that FSDP2 decides; or
            the model has multi-token-prediction layers, which it has had since 2026 alone (pull request 3392).
    """
    _refuse_what_it_lacks(problem, plan)
    replicas = problem.global_batch // plan.data
    schedule = _SCHEDULES[plan.schedule] if plan.interleave == 1 else "Interleaved1F1B"
    lines = [
        "[training]",
        f"seq_len = {problem.sequence}",
        f"local_batch_size = {replicas if plan.pipeline > 1 else plan.microbatch}",
        f"global_batch_size = {problem.global_batch}",
        *_precisions(plan),
        "",
        "[parallelism]",
        f"data_parallel_replicate_degree = {plan.zero_copies if plan.zero else plan.data}",
        f"data_parallel_shard_degree = {plan.data // plan.zero_copies if plan.zero else 1}",
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
            "pipeline_parallel_first_stage_less_layers = 0",
            "pipeline_parallel_last_stage_less_layers = 0",
        ]
    if plan.overlap_tensor != AS_STACK or _hides(problem, plan):
        lines.append(f"enable_async_tensor_parallel = {str(problem.software.overlaps_tensor).lower()}")
    mode, _, period = plan.recompute.partition("/")
    option = period or ("op" if mode == "op" else "")
    lines += ["", "[activation_checkpoint]", f'mode = "{"selective" if option else mode}"']
    if option:
        lines.append(f'selective_ac_option = "{option}"')
    lines += _converted(problem, plan)
    lines += _compiled(problem, plan)
    if plan.weight_transfer == "fp8":
        lines += ["", "[quantize.linear.float8]", "enable_fsdp_float8_all_gather = true"]
    return "\n".join(lines) + "\n"


def _hides(problem: PlanProblem, plan: TrainingPlan) -> bool:
    """Whether collectives of tensor parallelism are hidden (asynchronous tensor parallelism)."""
    return problem.software.overlaps_tensor and plan.tensor > 1


def _converted(problem: PlanProblem, plan: TrainingPlan) -> list[str]:
    """What has products of 8 bits: linear layers, and the grouped products of experts."""
    kind = _CONVERTERS.get(plan.precision)
    if kind is None:
        return []
    if problem.model.experts is None:
        return ["", "[model]", f'converters = ["quantize.linear.{kind}"]']
    lines = ["", "[model]", f'converters = ["quantize.linear.{kind}", "quantize.grouped_mm.{kind}"]']
    return [*lines, "", f"[quantize.grouped_mm.{kind}]", 'fqns = ["experts"]']


def _compiled(problem: PlanProblem, plan: TrainingPlan) -> list[str]:
    """What is compiled: the model for asynchronous tensor parallelism, which asks for it, and the loss to fuse it."""
    if plan.cross_entropy == AS_STACK and not _hides(problem, plan):
        return []
    fuses = problem.software.cross_entropy == "fused"
    return ["", "[compile]", "enable = true", f"components = {json.dumps(['model', 'loss'] if fuses else ['model'])}"]


def _refuse_what_it_lacks(problem: PlanProblem, plan: TrainingPlan) -> None:
    every = int(plan.recompute.partition("/")[2] or 1)
    sizes = sorted({*stage_layers(problem.model.layers, plan.pipeline)})
    has_odd_stage = any(size % every for size in sizes)
    cuts = plan.tensor == 1 or plan.sequence_parallel
    shards = (plan.data // plan.zero_copies if plan.zero else 1) * plan.context
    narrow = shards > 1 or plan.devices == plan.data or plan.weights == "bf16"
    state = {getattr(plan, key) for key in _STATE}
    refuse_settings(plan, (*_STATE, "gradient_transfer", "weight_transfer", "overlap_tensor", "cross_entropy"))
    refuse(
        (problem.model.prediction_layers > 0, "multi-token-prediction layers"),
        (plan.cross_entropy == "chunked", "cross_entropy=chunked"),
        (plan.zero == 1, "zero=1"),
        (plan.zero > 0 and plan.zero_copies == plan.data > 1, f"zero={plan.zero} over only the context axis"),
        (
            plan.zero == 0 and plan.context > 1,
            f"zero=0 with context={plan.context}, because it shards weights over the context axis",
        ),
        (
            plan.zero == 0 and plan.context == 1 and 1 < plan.data < problem.devices,
            f"zero=0 with data={plan.data}: replicas combined with other axes but without FSDP",
        ),
        (not narrow, "16-bit products of 32-bit weights with tensor or pipeline but without FSDP"),
        (
            plan.precision == "fp8" and problem.model.experts is not None and plan.pipeline * plan.context > 1,
            "precision=fp8 for experts with pipeline or context",
        ),
        (
            plan.precision == "mxfp8" and plan.tensor > 1 and bool(_compiled(problem, plan)),
            "precision=mxfp8 with tensor and a compiled model",
        ),
        (
            problem.model.experts is not None and plan.tensor > 1 and plan.expert == 1,
            f"expert=1 with tensor={plan.tensor}, because it shards experts over the tensor axis",
        ),
        (plan.schedule not in _SCHEDULES, f"schedule={plan.schedule}"),
        (not is_ordered_as(plan, USUAL_ORDER), f"order={plan.order}"),
        (not has_equal_stages(plan), "first_layers and last_layers"),
        (not cuts, f"tensor={plan.tensor} without sequence parallelism"),
        (
            len(modules_of(plan.recompute)) > 0,
            f"recompute={plan.recompute}, because it selects single operators, not modules",
        ),
        (has_odd_stage, f"recompute={plan.recompute} with stages of {' and '.join(map(str, sizes))} layers"),
        (plan.precision not in ("bf16", *_CONVERTERS), f"precision={plan.precision}"),
        (len(state) > 1, "weights, gradients and moments of different precisions"),
        (not state <= {AS_STACK, *_TYPES}, f"weights={plan.weights}"),
        (plan.gradient_transfer not in (AS_STACK, "fp32"), f"gradient_transfer={plan.gradient_transfer}"),
        (plan.weight_transfer == "fp16", "weight_transfer=fp16"),
        (plan.weight_transfer == "fp8" and plan.precision != "fp8", "weight_transfer=fp8 without precision=fp8"),
    )


def _precisions(plan: TrainingPlan) -> Iterator[str]:
    """Of state and transfers, where the plan says them."""
    if plan.weights != AS_STACK:
        yield f'dtype = "{_TYPES[plan.weights]}"'
    if plan.weight_transfer in _TYPES:
        yield f'mixed_precision_param = "{_TYPES[plan.weight_transfer]}"'
    if plan.gradient_transfer != AS_STACK:
        yield f'mixed_precision_reduce = "{_TYPES[plan.gradient_transfer]}"'
