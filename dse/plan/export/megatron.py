"""Arguments of Megatron-LM's ``pretrain_gpt.py`` (Megatron Core 0.12 and later)."""

from collections.abc import Iterator

from dse.plan.model import Transformer
from dse.plan.problem import PlanProblem
from dse.plan.stages import chunk_layers, stage_layers
from dse.plan.training_plan import TrainingPlan

_SHARDING = {2: "optim_grads", 3: "optim_grads_params"}
_RECIPES = {"fp8": "delayed", "mxfp8": "mxfp8"}


def megatron_arguments(problem: PlanProblem, plan: TrainingPlan) -> str | None:
    """One argument a line; None for what Megatron-LM lacks.

    That is GPipe, 8-bit integers, 4-bit formats, and recomputation of unequal parts of chunks.
    """
    if plan.schedule != "1f1b" or plan.precision in ("int8", "fp4"):
        return None
    if _every(plan) > 1 and problem.model.layers % (plan.pipeline * plan.interleave * _every(plan)):
        return None
    lines = [*_plan(problem, plan), *_model(problem.model), *_job(problem)]
    return "\n".join(lines) + "\n"


def _plan(problem: PlanProblem, plan: TrainingPlan) -> Iterator[str]:
    yield f"--tensor-model-parallel-size {plan.tensor}"
    if plan.sequence_parallel:
        yield "--sequence-parallel"
    yield f"--context-parallel-size {plan.context}"
    yield f"--pipeline-model-parallel-size {plan.pipeline}"
    if problem.model.layers % (plan.pipeline * plan.interleave):
        yield f"--pipeline-model-parallel-layout {_layout(problem.model.layers, plan)}"
    elif plan.interleave > 1:
        yield f"--num-virtual-stages-per-pipeline-rank {plan.interleave}"
    if problem.model.experts is not None:
        yield f"--expert-model-parallel-size {plan.expert}"
        yield "--expert-tensor-parallel-size 1"
    yield f"--micro-batch-size {plan.microbatch}"
    yield f"--global-batch-size {problem.global_batch}"
    if plan.zero:
        yield "--use-distributed-optimizer"
    if plan.zero in _SHARDING:
        yield "--use-megatron-fsdp"
        yield f"--data-parallel-sharding-strategy {_SHARDING[plan.zero]}"
        yield "--no-gradient-accumulation-fusion"
        yield "--ckpt-format fsdp_dtensor"
    if problem.stack.overlaps_data.value:
        yield "--overlap-grad-reduce"
        if plan.zero:
            yield "--overlap-param-gather"
    if problem.stack.overlaps_tensor.value and plan.sequence_parallel:
        yield "--tp-comm-overlap"
    if plan.recompute == "selective":
        yield "--recompute-activations"
    if plan.recompute == "full":
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
        yield f"--fp8-recipe {_RECIPES[plan.precision]}"


def _every(plan: TrainingPlan) -> int:
    """One of how many layers is made again, where any are."""
    return int(plan.recompute.partition("/")[2] or 1)


def _layout(layers: int, plan: TrainingPlan) -> str:
    """The layers of every chunk, in order: E embedding, t a layer, L the loss."""
    counts = stage_layers(layers, plan.pipeline)
    chunks = ["t" * size for chunk in chunk_layers(counts, plan.interleave) for size in chunk]
    return "E" + "|".join(chunks) + "L"


def _model(model: Transformer) -> Iterator[str]:
    yield f"--num-layers {model.layers}"
    yield f"--hidden-size {model.hidden}"
    yield f"--num-attention-heads {model.heads}"
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
    yield f"--ffn-hidden-size {model.feed_forward or (model.experts.width if model.experts else 4 * model.hidden)}"
    if model.gated:
        yield "--swiglu"
    if model.normalisation == "rms_norm":
        yield "--normalization RMSNorm"
    if model.positions != "learned":
        yield f"--position-embedding-type {'rope' if model.positions == 'rotary' else 'none'}"
    if model.query_key_norm:
        yield "--qk-layernorm"
    if not model.tied_embeddings:
        yield "--untie-embeddings-and-output-weights"
    if not model.feed_forward_biases:
        yield "--disable-bias-linear"
    if model.experts is not None:
        experts = model.experts
        yield f"--num-experts {experts.routed}"
        yield f"--moe-router-topk {experts.active}"
        yield f"--moe-ffn-hidden-size {experts.width}"
        if experts.shared:
            yield f"--moe-shared-expert-intermediate-size {experts.shared * experts.width}"
        if experts.dense_layers:
            sparse = model.layers - experts.dense_layers
            yield f"--moe-layer-freq ([0]*{experts.dense_layers}+[1]*{sparse})"
        yield "--moe-grouped-gemm"
        yield "--moe-token-dispatcher-type alltoall"


def _job(problem: PlanProblem) -> Iterator[str]:
    yield f"--seq-length {problem.sequence}"
    yield f"--max-position-embeddings {max(problem.sequence, problem.model.position_rows)}"
