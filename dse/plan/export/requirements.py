"""What frameworks assert of a configuration: numbers that must divide others, or be at least as large.

One table, a row for each assertion that an exported plan can violate. Each is the framework's own, of the version and
in the file that it names.
"""

import math
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

from dse.plan.problem import PlanProblem
from dse.plan.training_plan import TrainingPlan

Sizes = Callable[[PlanProblem, TrainingPlan], tuple[int, int]]


class Requirement(NamedTuple):
    """A number that must be a multiple of another one, or at least as large.

    Attributes:
        file: of settings, which names the framework.
        what, by: both numbers, in words.
        source: version, file and, where it has one, name of the assertion.
        sizes: both numbers of a plan; (0, 1) where the framework does not ask for a multiple, (0, 0) for a size.
        relation: of the first number to the second.
    """

    file: str
    what: str
    by: str
    source: str
    sizes: Sizes
    relation: Literal["a multiple of", "at least"] = "a multiple of"

    def broken(self, problem: PlanProblem, plan: TrainingPlan) -> str | None:
        """What a plan violates, in words; None where it keeps the rule."""
        size, other = self.sizes(problem, plan)
        if (size >= other) if self.relation == "at least" else (size % other == 0):
            return None
        return f"{FRAMEWORKS[self.file]} requires {self.what} ({size:,}) to be {self.relation} {self.by} ({other:,})"


def broken_requirements(file: str, problem: PlanProblem, plan: TrainingPlan) -> list[str]:
    """All that a framework would refuse of a plan."""
    found = (each.broken(problem, plan) for each in REQUIREMENTS if each.file == file)
    return [words for words in found if words is not None]


def _groups(problem: PlanProblem, _: TrainingPlan) -> int:
    return 0 if problem.model.latent is not None else problem.model.key_heads


def _experts(problem: PlanProblem) -> int:
    return 0 if problem.model.experts is None else problem.model.experts.routed


def _shared(problem: PlanProblem) -> int:
    return 0 if problem.model.experts is None else problem.model.experts.shared * problem.model.experts.width


def _batch(problem: PlanProblem, plan: TrainingPlan) -> tuple[int, int]:
    return problem.global_batch, plan.data * plan.microbatch


def _halves(problem: PlanProblem, plan: TrainingPlan) -> tuple[int, int]:
    return (problem.sequence if plan.context > 1 else 0), 2 * plan.context


def _rounds(problem: PlanProblem, plan: TrainingPlan) -> int:
    return problem.global_batch // (plan.data * plan.microbatch)


def _expert_ranks(plan: TrainingPlan) -> int:
    return plan.tensor * plan.context * plan.data


def _sharing(plan: TrainingPlan) -> int:
    return plan.context * (plan.data // plan.zero_copies if plan.zero else 1)


def _made_chunks(problem: PlanProblem, plan: TrainingPlan) -> int:
    """Chunks that torchtitan makes of a model where each has as many layers as the largest one of a plan."""
    return math.ceil(problem.model.layers / math.ceil(problem.model.layers / (plan.pipeline * plan.interleave)))


def _multiple_or_divisor(problem: PlanProblem, plan: TrainingPlan) -> tuple[int, int]:
    groups = _groups(problem, plan)
    return (max(groups, plan.tensor), min(groups, plan.tensor)) if groups else (0, 1)


def _dense_width(problem: PlanProblem) -> int:
    return problem.model.feed_forward if problem.model.dense_layers else 0


def _expert_width(problem: PlanProblem) -> int:
    return 0 if problem.model.experts is None else problem.model.experts.width


def _block(plan: TrainingPlan, fp8: int) -> int:
    """What sizes of 8-bit products must be multiples of: ``fp8`` of theirs, blocks of MXFP8 32; 1 of other products."""
    return {"fp8": fp8, "mxfp8": 32}.get(plan.precision, 1)


def _rank_tokens(problem: PlanProblem, plan: TrainingPlan) -> int:
    """Tokens of a microbatch on a rank that has gathered them over the tensor axis."""
    return plan.microbatch * problem.sequence // plan.context


def _linear_widths(problem: PlanProblem, plan: TrainingPlan) -> list[tuple[int, int]]:
    """(inputs, outputs) of each kind of linear layer on a rank; without router and output matrix, which stay wide."""
    model, cut = problem.model, plan.tensor
    queries, values = model.heads * model.key_width // cut, model.heads * model.context_width // cut
    widths = [(values, model.hidden)]
    if model.latent is None:
        groups = max(1, model.key_heads // cut)
        made = [queries, groups * model.key_width, groups * model.context_width]
        widths += [(model.hidden, width) for width in made]
    else:
        rank, keys, turned = model.latent.query_rank, model.latent.key_value_rank, model.latent.rotary_width
        widths += [(model.hidden, rank), (rank, queries)] if rank else [(model.hidden, queries)]
        unturned = model.heads * (model.key_width - turned + model.context_width) // cut
        widths += [(model.hidden, keys + turned), (keys, unturned)]
    inner = [_dense_width(problem) // cut, _shared(problem) // cut, _expert_width(problem)]
    return widths + [pair for width in inner if width for pair in ((model.hidden, width), (width, model.hidden))]


def _common(widths: Iterable[int]) -> int:
    """The greatest number that divides all: a block divides each where it divides this."""
    return math.gcd(*widths)


_TITAN, _MEGATRON, _MAXTEXT, _DEEPSPEED = "torchtitan.toml", "megatron.args", "maxtext.yml", "deepspeed.json"
FRAMEWORKS = {_TITAN: "torchtitan", _MEGATRON: "Megatron-LM", _MAXTEXT: "MaxText", _DEEPSPEED: "DeepSpeed"}
"""By file of settings."""
_TITAN_MODEL = "torchtitan 0.2.2, models/*/infra/parallelize.py"
_TITAN_ATTENTION = "torchtitan 0.2.2, models/*/model/model.py: Attention views its columns as whole heads"
_CORE = "Megatron Core 0.16.1"
_ENGINE = (
    "Transformer Engine 0139fa5, pytorch/utils.py: assert_dim_for_fp8_exec (8 and 16); "
    "00768c7, pytorch/tensor/mxfp8_tensor.py: MXFP8Quantizer (32 and 32)"
)
_SCALED = (
    "PyTorch 2.13.0, _meta_registrations.py: torch._scaled_mm, divisible by 16 (tokens are the inner size of gradients "
    "of weights); blocks of MXFP8 have 32 elements"
)
_JAX = "MaxText 000b810, configs/base.yml, logical_axis_rules; jax.jit: an axis of the mesh must divide what it shards"

REQUIREMENTS = (
    Requirement(
        _TITAN, "the sequence length", "2 · tensor · context", f"{_TITAN_MODEL}: seq_len_divisor",
        lambda problem, plan: (problem.sequence, 2 * plan.tensor * plan.context),
    ),
    Requirement(
        _TITAN, "the number of heads", "tensor", _TITAN_ATTENTION,
        lambda problem, plan: (problem.model.heads, plan.tensor),
    ),
    Requirement(
        _TITAN, "the number of key heads", "tensor", _TITAN_ATTENTION,
        lambda problem, plan: (_groups(problem, plan), plan.tensor),
    ),
    Requirement(
        _TITAN, "the number of experts", "expert",
        "torchtitan 0.2.2, distributed/expert_parallel.py: Shard(0) of grouped weights",
        lambda problem, plan: (_experts(problem), plan.expert),
    ),
    Requirement(
        _TITAN, "the number of ranks that share weights", "expert",
        "torchtitan 0.2.2, distributed/parallel_dims.py: efsdp",
        lambda _, plan: (_sharing(plan) * plan.tensor, plan.expert),
    ),
    Requirement(
        _TITAN, "the batch size", "data · microbatch",
        "torchtitan 0.2.2, train.py: global batch size must be multiple", _batch
    ),
    Requirement(
        _TITAN, "the number of chunks that it divides the layers into", "pipeline · interleave",
        "torchtitan 0.2.2, distributed/pipeline_parallel.py: num_virtual_stages, stages_per_rank",
        lambda problem, plan: (_made_chunks(problem, plan), plan.pipeline * plan.interleave),
    ),
    Requirement(
        _TITAN, "the number of microbatches", "pipeline",
        "PyTorch 2.13.0, distributed/pipelining/schedules.py: PipelineScheduleSingle, n_microbatches < num_stages",
        lambda problem, plan: (_rounds(problem, plan), plan.pipeline) if plan.interleave == 1 else (0, 0), "at least",
    ),
    Requirement(
        _TITAN, "the number of microbatches", "its number of pipeline rounds",
        "PyTorch 2.13.0, distributed/pipelining/schedules.py: ScheduleInterleaved1F1B, number_of_rounds",
        lambda problem, plan: (
            _rounds(problem, plan) if plan.interleave > 1 else 0, max(1, _rounds(problem, plan) // plan.pipeline)
        ),
    ),
    Requirement(
        _TITAN, "the number of tokens per microbatch and rank", "the block size of 8-bit products", _SCALED,
        lambda problem, plan: (_rank_tokens(problem, plan), _block(plan, 16)),
    ),
    Requirement(
        _TITAN, "the greatest common divisor of linear-layer widths per rank", "the block size of 8-bit products",
        _SCALED,
        lambda problem, plan: (
            _common(width for pair in _linear_widths(problem, plan) for width in pair), _block(plan, 16)
        ),
    ),
    Requirement(
        _MEGATRON, "the sequence length", "2 · context",
        "Megatron-LM 8c090f2, megatron/training/arguments.py: validate_args",
        _halves,
    ),
    Requirement(
        _MEGATRON, "the sequence length", "tensor · context",
        f"{_CORE}, tensor_parallel/mappings.py: dim_size % world_size",
        lambda problem, plan: (problem.sequence if plan.sequence_parallel else 0, plan.tensor * plan.context),
    ),
    Requirement(
        _MEGATRON, "the number of heads", "tensor", f"{_CORE}, transformer/transformer_config.py: num_attention_heads",
        lambda problem, plan: (problem.model.heads, plan.tensor),
    ),
    Requirement(
        _MEGATRON, "the larger of key heads and tensor", "the smaller",
        f"{_CORE}, transformer/transformer_config.py: num_query_groups, multiple or divisor", _multiple_or_divisor,
    ),
    Requirement(
        _MEGATRON, "the feed-forward width", "tensor", f"{_CORE}, tensor_parallel/layers.py: divide",
        lambda problem, plan: (_dense_width(problem), plan.tensor),
    ),
    Requirement(
        _MEGATRON, "the width of shared experts", "tensor", f"{_CORE}, tensor_parallel/layers.py: divide",
        lambda problem, plan: (_shared(problem), plan.tensor),
    ),
    Requirement(
        _MEGATRON, "the number of experts", "expert",
        f"{_CORE}, transformer/moe/moe_layer.py: num_moe_experts % ep_size",
        lambda problem, plan: (_experts(problem), plan.expert),
    ),
    Requirement(
        _MEGATRON, "the number of ranks per stage", "expert",
        f"{_CORE}, parallel_state.py: expert_tensor_model_pipeline_parallel",
        lambda problem, plan: (_expert_ranks(plan) if _experts(problem) else 0, plan.expert),
    ),
    Requirement(
        _MEGATRON, "the number of replicas", "zero_copies",
        f"{_CORE}, parallel_state.py: num_distributed_optimizer_instances",
        lambda _, plan: (plan.data * plan.context, plan.zero_copies),
    ),
    Requirement(
        _MEGATRON, "the number of ranks with the same experts", "zero_copies",
        f"{_CORE}, parallel_state.py: num_distributed_optimizer_instances",
        lambda problem, plan: (_expert_ranks(plan) // plan.expert if _experts(problem) else 0, plan.zero_copies),
    ),
    Requirement(
        _MEGATRON, "the batch size", "data · microbatch",
        f"{_CORE}, num_microbatches_calculator.py: global batch size", _batch
    ),
    Requirement(
        _MEGATRON, "the number of microbatches", "pipeline",
        f"{_CORE}, pipeline_parallel/schedules.py: microbatch_group_size",
        lambda problem, plan: (_rounds(problem, plan) if plan.interleave > 1 else 0, plan.pipeline),
    ),
    Requirement(
        _MEGATRON, "the number of tokens per microbatch and rank", "the first block size of 8-bit products", _ENGINE,
        lambda problem, plan: (
            _rank_tokens(problem, plan) // (plan.tensor if plan.sequence_parallel else 1), _block(plan, 8)
        ),
    ),
    Requirement(
        _MEGATRON, "the greatest common divisor of linear-layer input widths", "the last block size of 8-bit products",
        _ENGINE,
        lambda problem, plan: (_common(width for width, _ in _linear_widths(problem, plan)), _block(plan, 16)),
    ),
    Requirement(
        _MEGATRON, "the greatest common divisor of linear-layer output widths",
        "the first block size of 8-bit products",
        _ENGINE,
        lambda problem, plan: (_common(width for _, width in _linear_widths(problem, plan)), _block(plan, 8)),
    ),
    Requirement(
        _MAXTEXT, "the number of layers", "pipeline · interleave",
        "MaxText 0.2.5, configs/types.py: pipeline_parallel_layers, num_layers_per_pipeline_stage",
        lambda problem, plan: (problem.model.layers if plan.pipeline > 1 else 0, plan.pipeline * plan.interleave),
    ),
    Requirement(
        _MAXTEXT, "the number of microbatches", "pipeline",
        "MaxText 0.2.5, configs/types.py: num_pipeline_microbatches % num_stages",
        lambda problem, plan: (_rounds(problem, plan), plan.pipeline),
    ),
    Requirement(
        _MAXTEXT, "the batch size", "data · microbatch",
        "MaxText 0.2.5, configs/types.py: micro_batch_size_to_train_on % num_pipeline_microbatches", _batch,
    ),
    Requirement(
        _MAXTEXT, "the sequence length", "2 · context",
        "MaxText 0.2.5, context_parallel_load_balance: reorder_sequence", _halves
    ),
    Requirement(
        _MAXTEXT, "the sequence length", "tensor · context", f"{_JAX}: activation_norm_length",
        lambda problem, plan: (problem.sequence if plan.sequence_parallel else 0, plan.tensor * plan.context),
    ),
    Requirement(
        _MAXTEXT, "the number of heads", "tensor",
        f"{_JAX}: heads", lambda problem, plan: (problem.model.heads, plan.tensor)
    ),
    Requirement(
        _MAXTEXT, "the number of key heads", "tensor", f"{_JAX}: kv_heads",
        lambda problem, plan: (_groups(problem, plan), plan.tensor),
    ),
    Requirement(
        _MAXTEXT, "the feed-forward width", "tensor", f"{_JAX}: mlp",
        lambda problem, plan: (_dense_width(problem), plan.tensor),
    ),
    Requirement(
        _MAXTEXT, "the expert width", "tensor", f"{_JAX}: mlp_moe",
        lambda problem, plan: (_expert_width(problem), plan.tensor),
    ),
    Requirement(
        _MAXTEXT, "the width of shared experts", "tensor", f"{_JAX}: mlp",
        lambda problem, plan: (_shared(problem), plan.tensor),
    ),
    Requirement(
        _MAXTEXT, "the vocabulary size", "tensor", f"{_JAX}: vocab",
        lambda problem, plan: (problem.model.vocabulary, plan.tensor),
    ),
    Requirement(
        _MAXTEXT, "the hidden size", "the number of ranks that share weights", f"{_JAX}: embed",
        lambda problem, plan: (problem.model.hidden, _sharing(plan)),
    ),
    Requirement(
        _MAXTEXT, "the latent query rank", "the number of ranks that share weights", f"{_JAX}: q_lora",
        lambda problem, plan: (0 if problem.model.latent is None else problem.model.latent.query_rank, _sharing(plan)),
    ),
    Requirement(
        _MAXTEXT, "the latent key rank", "the number of ranks that share weights", f"{_JAX}: kv_lora",
        lambda problem, plan: (
            0 if problem.model.latent is None else problem.model.latent.key_value_rank, _sharing(plan)
        ),
    ),
    Requirement(
        _DEEPSPEED, "the batch size", "data · microbatch",
        "DeepSpeed 3a890ec, runtime/config.py: _batch_assertion", _batch,
    ),
)  # fmt: skip
"""Every assertion, framework by framework."""
