"""Building the graph of a transformer: embedding, equal blocks, head, each forward, backward and optimizer step."""

from typing import Literal, get_args

from dse.graph.differentiable import cross_entropy
from dse.graph.operator_graph import ModelGraph
from dse.graph.tape import Tape, Tensor
from dse.models.block import record_block
from dse.models.ends import Loss, record_embedding, record_head, tied_weights
from dse.models.hyperparameters import Hyperparameters
from dse.models.model_slice import ModelSlice
from dse.models.recipe import TrainingRecipe
from hardware.inputs import fail

_PASSES = 3
"""Forward, data gradients, weight gradients: each has the FLOPs of the forward pass."""

LayerKind = Literal["embedding", "block", "head"]


def build(
    hyperparameters: Hyperparameters, microbatch: int, tensor_parallel: int, recipe: TrainingRecipe | None = None
) -> ModelGraph:
    """The graph of one microbatch on one accelerator of a tensor-parallel group.

    The layers are ``embedding``, ``layer0`` … and ``head``, a chain; all blocks are one :class:`Layer` object. With
    more than one accelerator in the group every layer is ``sliced``. Edges carry the whole residual stream, which every
    accelerator of the group holds.

    Args:
        hyperparameters: the model.
        microbatch: samples in a microbatch.
        tensor_parallel: accelerators that share each layer.
        recipe: how it is trained; the defaults of :class:`TrainingRecipe` when None.

    Raises:
        InputError: a microbatch below 1, or a width that does not divide heads, feed-forward width or vocabulary.
    """
    if microbatch < 1:
        raise fail(hyperparameters.name, "microbatch", microbatch, "must be at least 1")
    hyperparameters.check_width(tensor_parallel)
    part = ModelSlice(hyperparameters, microbatch, tensor_parallel, recipe or TrainingRecipe())
    count = hyperparameters.layers

    embedding = part.layer("embedding", *recorded(part, "embedding"))
    block = part.layer("block", *recorded(part, "block"))
    head = part.layer("head", *recorded(part, "head"), tied_weights(part))
    stream_bytes = part.hidden_elements * part.recipe.element_bytes
    return ModelGraph(
        name=hyperparameters.name,
        microbatch=microbatch,
        tensor_parallel=tensor_parallel,
        layers=(embedding, *[block] * count, head),
        names=layer_names(hyperparameters),
        edges=tuple((layer, layer + 1, stream_bytes) for layer in range(count + 1)),
        flops_per_sample=float(flops_per_sample(hyperparameters)),
    )


def layer_names(hyperparameters: Hyperparameters) -> tuple[str, ...]:
    """What the layers are called, in order."""
    return ("embedding", *(f"layer{index}" for index in range(hyperparameters.layers)), "head")


def recorded(part: ModelSlice, kind: LayerKind, loss: Loss = cross_entropy) -> tuple[Tape, tuple[Tensor, ...]]:
    """A layer on a tape of its own, and its outputs; ``loss`` is what becomes of a head's logits."""
    tape = part.tape()
    match kind:
        case "embedding":
            return tape, (record_embedding(part, tape),)
        case "block":
            return tape, (record_block(part, tape),)
        case "head":
            return tape, record_head(part, tape, loss)


def flops_per_sample(hyperparameters: Hyperparameters) -> int:
    """Model FLOPs of one training sample: every GEMM of the whole model with both its gradients, nothing recomputed.

    What model FLOPs utilisation is measured by (Chowdhery et al., PaLM, appendix B): it depends on the model alone, not
    on the recipe.
    """
    part = ModelSlice(hyperparameters, microbatch=1, width=1, recipe=TrainingRecipe())
    embedding, block, head = (recorded(part, kind)[0].forward_flops for kind in get_args(LayerKind))
    return int(_PASSES * (embedding + hyperparameters.layers * block + head))


def parameters(hyperparameters: Hyperparameters) -> int:
    """Parameters of the whole model; a tied output matrix counts once."""
    return build(hyperparameters, 1, 1, TrainingRecipe(fuse=False)).parameters
