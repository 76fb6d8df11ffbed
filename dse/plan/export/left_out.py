"""What files of settings leave out of the model that was asked about, and of its training."""

from collections.abc import Iterator

from dse.plan.model import Transformer

_ACTIVATIONS = {True: "silu", False: "gelu"}
"""Of gated feed-forward networks, and of others, as Megatron-LM has them by its flags here."""


def left_out(file: str, model: Transformer) -> list[str]:
    """Lines that say it; none for a file that has no comments."""
    sizes = f"{model.layers} layers, hidden size {model.hidden:,}, {model.heads} heads, vocabulary {model.vocabulary:,}"
    other = f"Not in this file: the model, {model.name} ({sizes})"
    return {
        "megatron.args": [
            f"{model.name} in Megatron-LM: pretrain_gpt.py $(grep -v '^#' megatron.args)",
            f"Not in this file: {', '.join(_not_in_arguments(model))}.",
        ],
        "torchtitan.toml": [f"{other}: merge these sections into a file whose [model] is that."],
        "maxtext.yml": [f"{other}: give these settings beside a model_name that is that."],
    }.get(file, [])


def _not_in_arguments(model: Transformer) -> Iterator[str]:
    numerics = model.numerics
    yield f"tokenizer (vocabulary of {model.vocabulary:,}), data, learning rate"
    if model.positions == "rotary" and numerics.rotary_base is None:
        yield "base of rotary embeddings (not known of the model; Megatron-LM takes 10000)"
    if numerics.rotary_scaling not in (None, "none"):
        yield f"scaling of rotary embeddings ({numerics.rotary_scaling})"
    if numerics.norm_epsilon is None:
        yield "epsilon of norms (not known of the model; Megatron-LM takes 1e-5)"
    if numerics.activation not in (None, _ACTIVATIONS[model.gated]):
        yield f"activation ({numerics.activation})"
    if model.dropout:
        yield "probabilities of dropout (Megatron-LM takes 0.1)"
    if model.experts is not None:
        yield "scores, groups and balancing of the router"
    if model.embedding_norm or model.token_types:
        yield "norm and token types of the embedding"
