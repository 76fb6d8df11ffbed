"""What settings files leave out of the model and its training."""

from collections.abc import Iterator

from dse.plan.model import Transformer
from dse.plan.problem import PlanProblem
from dse.plan.training_plan import TrainingPlan

_ACTIVATIONS = {True: "silu", False: "gelu"}
"""Of gated feed-forward networks, and of others, as Megatron-LM has them by its flags here."""

_OPENINGS = {
    "megatron.args": (
        "Run {name} with Megatron-LM: pretrain_gpt.py $(grep -v '^#' megatron.args), and add the settings that this "
        "file lacks:"
    ),
    "torchtitan.toml": (
        "These sections configure the parallel training of {name}. Merge them into a torchtitan job configuration "
        "that provides the settings that this file lacks:"
    ),
    "maxtext.yml": (
        "These settings configure the parallel training of {name}. Pass them to MaxText on top of a configuration "
        "that provides the settings that this file lacks:"
    ),
    "deepspeed.json": "sets only batch size, precision and ZeRO. The training script must set the rest:",
}
"""By file, the line before the list; JSON has no comments, so the one of DeepSpeed is in another file."""


def left_out(file: str, problem: PlanProblem, plan: TrainingPlan) -> list[str]:
    """Lines that say what to do with a file, and one for each thing that it lacks."""
    model = problem.model
    if file == "megatron.args":
        lacking = (*_of_the_environment(problem, plan), *_not_in_arguments(model))
    else:
        lacking = (*_of_the_model(model),)
    return [_OPENINGS[file].format(name=model.name), *(f"- {words}" for words in (*lacking, *_of_every_job(model)))]


def _of_every_job(model: Transformer) -> Iterator[str]:
    yield f"tokenizer (vocabulary size: {model.vocabulary:,}) and data"
    yield "optimizer and learning rate"


def _of_the_environment(problem: PlanProblem, plan: TrainingPlan) -> Iterator[str]:
    """What ``validate_args`` asserts of it (Megatron Core 0.16.1, megatron/training/arguments.py)."""
    if plan.zero in (2, 3):
        yield "environment: CUDA_DEVICE_MAX_CONNECTIONS must be unset or greater than 1"
    elif max(plan.tensor, plan.context) > 1 and not (problem.software.overlaps_expert and plan.expert > 1):
        yield "environment: CUDA_DEVICE_MAX_CONNECTIONS=1 on GPUs before Blackwell"


def _not_in_arguments(model: Transformer) -> Iterator[str]:
    numerics = model.numerics
    if model.positions == "rotary":
        if numerics.rotary_base is None:
            yield "--rotary-base: the model's value is unknown; Megatron-LM's default is 10000"
        elif not numerics.rotary_base.is_integer():
            yield f"--rotary-base: must be a whole number, but the model's value is {numerics.rotary_base}"
        yield from _scaling(model)
    if numerics.norm_epsilon is None:
        yield "--norm-epsilon: the model's value is unknown; Megatron-LM's default is 1e-5"
    if numerics.activation not in (None, _ACTIVATIONS[model.gated]):
        yield f"activation function: {numerics.activation}; the flags in this file select {_ACTIVATIONS[model.gated]}"
    if model.dropout:
        yield "--attention-dropout and --hidden-dropout: Megatron-LM's default is 0.1"
    yield from _router(model)
    if model.embedding_norm or model.token_types:
        yield "embedding norm and token types"


def _of_the_model(model: Transformer) -> Iterator[str]:
    """All of it, for frameworks that take a model by its name."""
    sizes = f"{model.layers} layers, hidden size {model.hidden:,}, {model.heads} heads, vocabulary {model.vocabulary:,}"
    numerics = model.numerics
    yield f"the model: {sizes}"
    if model.indexer is not None:
        yield f"indexed attention to {model.indexer.chosen:,} tokens"
    if model.positions == "rotary":
        base = "unknown" if numerics.rotary_base is None else f"{numerics.rotary_base:g}"
        yield f"rotary embedding base: {base}"
        if numerics.rotary_fraction < 1:
            yield f"rotary embeddings on only the first {numerics.rotary_fraction:g} of each head's width"
        yield from _scaling(model)
    epsilon = "unknown" if numerics.norm_epsilon is None else f"{numerics.norm_epsilon:g}"
    yield f"norm epsilon: {epsilon}"
    yield f"activation function: {numerics.activation or 'unknown'}"
    if model.dropout:
        yield "dropout probabilities"
    yield from _router(model)


def _scaling(model: Transformer) -> Iterator[str]:
    scaling = model.numerics.rotary_scaling
    if scaling != "none":
        yield f"rotary embedding scaling: {scaling or 'unknown'}"


def _router(model: Transformer) -> Iterator[str]:
    if model.experts is not None:
        yield "router: scores, groups and load balancing"
