"""Arguments of Megatron-LM's ``pretrain_gpt.py`` (Megatron Core 0.12 and later)."""

from collections.abc import Iterator
from itertools import groupby

from dse.plan.export.expressible import has_equal_stages, is_ordered_as, refuse, refuse_settings
from dse.plan.model import Transformer
from dse.plan.model_parts import Experts, Window
from dse.plan.problem import PlanProblem
from dse.plan.recomputation import modules_of
from dse.plan.stages import chunk_layers, stage_layers
from dse.plan.training_plan import AS_STACK, PIPELINE_INSIDE, USUAL_ORDER, TrainingPlan

_SHARDING = {2: "optim_grads", 3: "optim_grads_params"}
_RECIPES = {"fp8": "delayed", "mxfp8": "mxfp8"}
"""Scales of the first are those of earlier steps; ``moe_act`` and ``layernorm`` are not recomputed with these."""


def megatron_arguments(problem: PlanProblem, plan: TrainingPlan) -> str:
    """One argument per line.

    Raises:
        NotExpressibleError: the plan has what Megatron-LM lacks: GPipe, 8-bit integers, 4-bit formats, tensor without
            sequence parallelism with experts, recomputation of every second product, of unequal parts of chunks, or
            of every K layers with a multi-token-prediction layer (which Megatron-LM then leaves out), or
            precisions of state and overlaps that it ties to each other; or the model has biases or windows of
            attention that Megatron-LM has no arguments for.
    """
    cuts_experts = problem.model.experts is not None and plan.tensor > 1
    layers, chunks = problem.model.layers, plan.pipeline * plan.interleave * _every(plan)
    refuse(
        (plan.schedule != "1f1b", f"schedule={plan.schedule}"),
        (plan.precision in ("int8", "fp4"), f"precision={plan.precision}"),
        (
            not any(is_ordered_as(plan, order) for order in (USUAL_ORDER, PIPELINE_INSIDE)),
            f"order={plan.order}",
        ),
        (
            cuts_experts and not plan.sequence_parallel,
            f"tensor={plan.tensor} without sequence parallelism for a model with experts",
        ),
        (plan.recompute == "op", "recompute=op"),
        (_every(plan) > 1 and not has_equal_stages(plan), f"recompute={plan.recompute} with unequal stages"),
        (_every(plan) > 1 and layers % chunks > 0, f"recompute={plan.recompute} with unequal chunks"),
        (
            _every(plan) > 1 and problem.model.prediction_layers > 0,
            f"recompute={plan.recompute} with multi-token-prediction layers",
        ),
    )
    _refuse_settings(problem, plan)
    _refuse_model(problem.model, plan)
    lines = [*_plan(problem, plan), *_model(problem.model), *_job(problem)]
    return "\n".join(lines) + "\n"


def _refuse_settings(problem: PlanProblem, plan: TrainingPlan) -> None:
    """Megatron-LM reduces gradients as it keeps them, and keeps 8-bit weights where it gathers them so."""
    state = ("weights", "gradients", "moments", "gradient_transfer", "weight_transfer")
    refuse_settings(
        plan, (*state, "cross_entropy", *(f"overlap_{key}" for key in ("tensor", "gradients", "weights", "expert")))
    )
    refuse(
        (plan.cross_entropy == "unfused", "cross_entropy=unfused with PyTorch's operators"),
        (plan.cross_entropy == "chunked", "cross_entropy=chunked"),
    )
    halves, eight = (AS_STACK, "bf16"), (plan.weights, plan.weight_transfer)
    sharded, software = plan.zero > 0, problem.software
    exchanges = software.overlaps_expert and plan.expert > 1
    refuse(
        (plan.gradients != plan.gradient_transfer, "gradients and gradient_transfer of different precisions"),
        (plan.gradients not in (AS_STACK, "fp32", "bf16"), f"gradients={plan.gradients}"),
        ("fp8" in eight and eight != ("fp8", "fp8"), "fp8 for only one of weights and weight_transfer"),
        (eight != ("fp8", "fp8") and not {*eight} <= {*halves}, f"weights={plan.weights}"),
        ("fp8" in eight and plan.precision not in _RECIPES, "weights=fp8 without 8-bit matrix products"),
        ("fp8" in eight and not sharded, "weights=fp8 with zero=0"),
        (plan.moments not in (AS_STACK, "fp32") and not sharded, "moments below 32 bits with zero=0"),
        (
            exchanges and plan.recompute.startswith("full"),
            f"overlapped expert exchanges with recompute={plan.recompute}",
        ),
        (
            exchanges and plan.pipeline > 1 and plan.interleave == 1,
            "overlapped expert exchanges in a pipeline without interleaving",
        ),
        (
            exchanges and plan.pipeline == 1 and problem.model.prediction_layers > 0,
            "overlapped expert exchanges with multi-token-prediction layers and no pipeline",
        ),
        (plan.overlap_tensor == "yes" and not plan.sequence_parallel, "overlap_tensor=yes without sequence_parallel"),
        (
            software.overlaps_weights and not software.overlaps_gradients and sharded,
            "overlap of weights without overlap of gradients",
        ),
    )


def _refuse_model(model: Transformer, plan: TrainingPlan) -> None:
    attention, networks = model.attention_biases, _biased_networks(model)
    refuse(
        (model.recurrence is not None, "layers with states"),
        (model.parallel_norms > 0, "attention and feed-forward networks side by side"),
        (model.window is not None and model.window.chunked, "attention by chunks"),
        (model.attention_gate or model.head_gates, "gates behind attention"),
        (model.window is not None and model.window.attention is not None, "heads that differ by layer"),
        (model.values_are_keys, "values that are keys"),
        (model.indexer is not None, "indexed attention"),
        (any(len(model.layer_kinds) and not (k.attends and k.network) for k in model.kinds), "layers of one part"),
        (model.numerics.norms != "front", "norms behind attention and feed-forward networks"),
        (attention and True not in networks, "biases in attention (including its output) only"),
        (True in networks and (not attention or len(networks) > 1), "biases in only some linear layers"),
        (model.window is not None and _full_period(model.window) is None, "attention windows in these layers"),
        (model.window is not None and plan.context > 1, f"context={plan.context} with attention windows"),
        (model.attention_sinks and plan.context > 1, f"context={plan.context} with attention sinks"),
        (
            model.prediction_layers > 0 and model.positions == "learned",
            "multi-token-prediction layers with learned positions",
        ),
    )


def _biased_networks(model: Transformer) -> set[bool]:
    """Whether feed-forward networks have biases: both, where some have."""
    dense = {model.feed_forward_biases} if model.dense_layers else set()
    return dense | ({model.experts.biases} if model.experts is not None and model.has_expert_layers else set())


def _full_period(window: Window) -> int | None:
    """One of how many layers sees all tokens; 0 where none does, None where there is no such number."""
    if window.share == 1:
        return 0
    period = round(1 / (1 - window.share))
    return period if abs(window.share - (1 - 1 / period)) < 1e-9 else None


def _precisions(plan: TrainingPlan) -> Iterator[str]:
    """Of state and transfers, where the plan says them."""
    if plan.gradients == "bf16":
        yield "--grad-reduce-in-bf16"
    if plan.gradients == "fp32":
        yield "--accumulate-allreduce-grads-in-fp32"
    if plan.weights == "fp8":
        yield "--fp8-param-gather"
    if plan.moments not in (AS_STACK, "fp32"):
        yield "--use-precision-aware-optimizer"
        yield f"--exp-avg-dtype {plan.moments}"
        yield f"--exp-avg-sq-dtype {plan.moments}"


def _plan(problem: PlanProblem, plan: TrainingPlan) -> Iterator[str]:
    yield f"--tensor-model-parallel-size {plan.tensor}"
    if plan.sequence_parallel:
        yield "--sequence-parallel"
    yield f"--context-parallel-size {plan.context}"
    yield f"--pipeline-model-parallel-size {plan.pipeline}"
    if not is_ordered_as(plan, USUAL_ORDER):
        yield "--use-tp-pp-dp-mapping"
    if problem.model.layers % (plan.pipeline * plan.interleave) or not has_equal_stages(plan):
        yield f"--pipeline-model-parallel-layout {_layout(problem.model, plan)}"
    elif plan.interleave > 1:
        yield f"--num-virtual-stages-per-pipeline-rank {plan.interleave}"
    if problem.model.experts is not None:
        yield f"--expert-model-parallel-size {plan.expert}"
        yield "--expert-tensor-parallel-size 1"
    yield f"--micro-batch-size {plan.microbatch}"
    yield f"--global-batch-size {problem.global_batch}"
    if plan.zero:
        yield "--use-distributed-optimizer"
        if plan.zero_copies > 1:
            yield f"--num-distributed-optimizer-instances {plan.zero_copies}"
    if plan.zero in _SHARDING:
        yield "--use-megatron-fsdp"
        yield f"--data-parallel-sharding-strategy {_SHARDING[plan.zero]}"
        yield "--no-gradient-accumulation-fusion"
        yield "--ckpt-format fsdp_dtensor"
    if problem.software.overlaps_gradients:
        yield "--overlap-grad-reduce"
        if plan.zero and problem.software.overlaps_weights:
            yield "--overlap-param-gather"
    if problem.software.overlaps_tensor and plan.sequence_parallel:
        yield "--tp-comm-overlap"
    if problem.software.overlaps_expert and plan.expert > 1:
        yield "--overlap-moe-expert-parallel-comm"
    if plan.cross_entropy == "fused":
        yield "--cross-entropy-loss-fusion"
    yield from _precisions(plan)
    modules = modules_of(plan.recompute)
    if plan.recompute == "selective":
        yield "--recompute-activations"
    elif modules:
        yield "--recompute-granularity selective"
        yield f"--recompute-modules {' '.join(modules)}"
    elif plan.recompute == "full":
        yield "--recompute-granularity full"
        yield "--recompute-method uniform"
        yield "--recompute-num-layers 1"
    elif plan.recompute.startswith("full/"):
        yield "--recompute-granularity full"
        yield "--recompute-method block"
        yield f"--recompute-num-layers {problem.model.layers // (plan.pipeline * plan.interleave * _every(plan))}"
    yield "--fp16" if plan.precision == "fp16" else "--bf16"
    if plan.precision in _RECIPES:
        yield "--fp8-format hybrid"
        yield f"--fp8-recipe {_recipe(plan)}"


def _recipe(plan: TrainingPlan) -> str:
    """How 8-bit operands are scaled: late, by default, but by their own maximum where a module asks for it."""
    if plan.precision == "fp8" and {"moe_act", "layernorm"} & {*modules_of(plan.recompute)}:
        return "tensorwise"
    return _RECIPES[plan.precision]


def _every(plan: TrainingPlan) -> int:
    """One of how many layers is recomputed, if any are."""
    return int(plan.recompute.partition("/")[2] or 1)


def _layout(model: Transformer, plan: TrainingPlan) -> str:
    """The layers of every chunk, in order: E embedding, t a layer, m one that predicts a later token, L the loss."""
    counts = stage_layers(model.layers, plan.pipeline, plan.first_layers, plan.last_layers)
    chunks = ["t" * size for chunk in chunk_layers(counts, plan.interleave) for size in chunk]
    return "E" + "|".join(chunks) + "m" * model.prediction_layers + "L"


def _model(model: Transformer) -> Iterator[str]:
    yield f"--num-layers {model.layers}"
    yield f"--hidden-size {model.hidden}"
    yield f"--num-attention-heads {model.heads}"
    yield from _heads(model)
    yield f"--ffn-hidden-size {model.feed_forward or (model.experts.width if model.experts else 4 * model.hidden)}"
    if model.gated:
        yield "--swiglu"
    if model.normalisation == "rms_norm":
        yield "--normalization RMSNorm"
    if model.positions != "learned":
        yield f"--position-embedding-type {'rope' if model.positions == 'rotary' else 'none'}"
    base = model.numerics.rotary_base
    if base is not None and base.is_integer() and model.positions == "rotary":
        yield f"--rotary-base {base:.0f}"
    if model.numerics.rotary_fraction < 1 and model.positions == "rotary":
        yield f"--rotary-percent {model.numerics.rotary_fraction:g}"
    if model.numerics.norm_epsilon is not None:
        yield f"--norm-epsilon {model.numerics.norm_epsilon:g}"
    if not model.dropout:
        yield "--attention-dropout 0"
        yield "--hidden-dropout 0"
    if model.query_key_norm:
        yield "--qk-layernorm"
    if not model.tied_embeddings:
        yield "--untie-embeddings-and-output-weights"
    if not model.attention_biases:
        yield "--disable-bias-linear"
    if model.query_key_value_biases and not model.attention_biases:
        yield "--add-qkv-bias"
    if model.window is not None:
        yield f"--window-size {model.window.tokens - 1},0"
        if period := _full_period(model.window):
            yield f"--window-attn-skip-freq {period}"
    if model.attention_sinks:
        yield "--softmax-type learnable"
    if model.experts is not None:
        yield from _experts(model, model.experts)
    if model.prediction_layers:
        yield f"--mtp-num-layers {model.prediction_layers}"


def _heads(model: Transformer) -> Iterator[str]:
    if model.latent is not None:
        latent = model.latent
        yield "--multi-latent-attention"
        if latent.query_rank:
            yield f"--q-lora-rank {latent.query_rank}"
        yield f"--kv-lora-rank {latent.key_value_rank}"
        yield f"--qk-head-dim {model.key_width - latent.rotary_width}"
        yield f"--qk-pos-emb-head-dim {latent.rotary_width}"
        yield f"--v-head-dim {model.context_width}"
    else:
        yield f"--kv-channels {model.key_width}"
        if model.key_heads != model.heads:
            yield "--group-query-attention"
            yield f"--num-query-groups {model.key_heads}"


def _experts(model: Transformer, experts: Experts) -> Iterator[str]:
    yield f"--num-experts {experts.routed}"
    yield f"--moe-router-topk {experts.active}"
    yield f"--moe-ffn-hidden-size {experts.width}"
    if experts.shared:
        yield f"--moe-shared-expert-intermediate-size {experts.shared * experts.width}"
    if model.dense_layers:
        yield f"--moe-layer-freq ({_layers_with_experts(model)})"
    yield "--moe-grouped-gemm"
    yield "--moe-token-dispatcher-type alltoall"


def _layers_with_experts(model: Transformer) -> str:
    """A list of 1 for each layer with experts, and 0, as Python adds up lists of equal ones."""
    runs = groupby(kind.network == "experts" for kind in model.kinds_of_layers)
    return "+".join(f"[{has:d}]*{len([*run])}" for has, run in runs)


def _job(problem: PlanProblem) -> Iterator[str]:
    yield f"--seq-length {problem.sequence}"
    yield f"--max-position-embeddings {max(problem.sequence, problem.model.position_rows)}"
