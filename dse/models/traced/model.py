"""Models of the paper with layers as the published tool traces them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from dse.graph.operator_graph import Layer, ModelGraph, OperatorGraph
from dse.models.hyperparameters import ExpertPlacement, Hyperparameters
from dse.models.recipe import TrainingRecipe
from dse.models.traced import hugging_face, megatron
from dse.models.traced.layer import layer
from dse.models.traced.trace import Trace
from dse.models.transformer import build
from hardware.inputs import fail

_BLOCKS: dict[str, Callable[[Hyperparameters, int, int], Trace]] = {
    "bert-large": lambda model, microbatch, _: hugging_face.bert(model, microbatch),
    "opt-350m": lambda model, microbatch, _: hugging_face.opt(model, microbatch),
    "gpt2-xl": lambda model, microbatch, _: hugging_face.gpt2(model, microbatch),
    "megatron-bert": megatron.bert,
    "megatron-2.5b": megatron.gpt,
    "megatron-8.3b": megatron.gpt,
    "gpt3-175b": megatron.gpt,
}
"""The models of Table 4 and the code that each was traced from."""


def is_traced(model: Hyperparameters) -> bool:
    """Whether ``model`` is one of those."""
    return model.name in _BLOCKS


def traced_block(model: Hyperparameters, microbatch: int, width: int) -> Trace:
    """One block at a microbatch and a tensor-parallel width.

    Raises:
        InputError: a model that is not of Table 4, or a width that does not divide it.
    """
    if not is_traced(model):
        rule = f"only the models of PHAZE's Table 4 have traced layers: {', '.join(_BLOCKS)}"
        raise fail("dse codesign", "--granularity", f"trace of {model.name}", rule)
    model.check_width(width)
    return _BLOCKS[model.name](model, microbatch, width)


@dataclass(frozen=True)
class TracedModel:
    """A model of Table 4 whose blocks are as the tool traces them.

    The embedding is that of the same model built from its hyper-parameters. There is no head: where the tool sees one,
    it is a part of the last block, and it takes the first block for all of them.
    """

    hyperparameters: Hyperparameters

    @property
    def name(self) -> str:
        """The hyper-parameters' name."""
        return self.hyperparameters.name

    @property
    def tensor_parallel(self) -> tuple[int, ...]:
        """The widths that the hyper-parameters name."""
        return self.hyperparameters.tensor_parallel

    @property
    def expert_placement(self) -> ExpertPlacement | None:
        """The published placement of the hyper-parameters."""
        return self.hyperparameters.expert_placement

    def graph(self, microbatch: int, tensor_parallel: int, recipe: TrainingRecipe) -> ModelGraph:
        """The graph of one microbatch; its layers have the names of the built model's.

        Raises:
            InputError: as :func:`traced_block` and :func:`dse.models.transformer.build`.
        """
        block = layer("block", traced_block(self.hyperparameters, microbatch, tensor_parallel), tensor_parallel, recipe)
        built = build(self.hyperparameters, microbatch, tensor_parallel, recipe)
        layers = (built.layers[0], *[block] * self.hyperparameters.layers, _no_head(tensor_parallel))
        return replace(built, layers=layers)

    def document(self) -> dict[str, Any]:
        """The hyper-parameters, and that the layers are traced."""
        return {**self.hyperparameters.model_dump(mode="json"), "granularity": "trace"}


def _no_head(width: int) -> Layer:
    empty = OperatorGraph((), ())
    return Layer("head", empty, empty, empty, parameters=0, weight_bytes=0, activation_bytes=0, sliced=width > 1)
