"""Models of the paper with layers as the published tool traces them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from dse.graph.operator_graph import Layer, ModelGraph, OperatorGraph
from dse.models.hyperparameters import Hyperparameters
from dse.models.recipe import TrainingRecipe
from dse.models.traced import hugging_face, megatron
from dse.models.traced.layer import layer
from dse.models.traced.trace import Trace
from dse.models.transformer import build
from dse.models.workload import OfHyperparameters
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

_SLICED = ("megatron-bert", "megatron-2.5b", "megatron-8.3b", "gpt3-175b")
"""Models whose code slices a block over a tensor-parallel group; blocks of Hugging Face are whole."""

_FREE = {"source", "tensor_parallel", "expert_placement"}
"""Hyper-parameters that do not decide what a block is."""


def is_traced(name: str) -> bool:
    """Whether the built-in model of this name is one of those."""
    return name in _BLOCKS


def check_traced(where: str, model: Hyperparameters, built_in: Hyperparameters) -> None:
    """Refuse a model that has the name of a traced one, but is another model.

    Args:
        where: the file or name that the user gave.
        model: what it holds.
        built_in: the model of the same name that was traced.

    Raises:
        InputError: a hyper-parameter that differs, or a width to which the block cannot be sliced.
    """
    for field, traced in built_in.model_dump(exclude=_FREE).items():
        value = getattr(model, field)
        if value != traced:
            rule = f"must be {traced}, as in the built-in {built_in.name}, whose layers --granularity trace uses"
            raise fail(where, field, value, rule)
    _check_width(where, model.name, max(model.tensor_parallel))


def _check_width(where: str, name: str, width: int) -> None:
    if width > 1 and name not in _SLICED:
        rule = f"must be 1 with --granularity trace: the code that {name} was traced from does not shard its blocks"
        raise fail(where, "tensor_parallel", width, rule)


def traced_block(model: Hyperparameters, microbatch: int, width: int) -> Trace:
    """One block at a microbatch and a tensor-parallel width.

    Raises:
        InputError: a model that is not of Table 4, or a width to which its block cannot be sliced.
    """
    if not is_traced(model.name):
        rule = f"only the models of PHAZE's Table 4 have traced layers: {', '.join(_BLOCKS)}"
        raise fail("dse codesign", "--granularity", f"trace of {model.name}", rule)
    model.check_width(width)
    _check_width(model.name, model.name, width)
    return _BLOCKS[model.name](model, microbatch, width)


@dataclass(frozen=True)
class TracedModel(OfHyperparameters):
    """A model of Table 4 whose blocks are as the tool traces them.

    The embedding is that of the same model built from its hyper-parameters. There is no head: where the tool sees one,
    it is a part of the last block, and it takes the first block for all of them.
    """

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
