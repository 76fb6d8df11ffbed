"""Layers of a transformer as dataflow graphs, from hyper-parameters."""

from collections.abc import Sequence
from typing import get_args

from dse.graph.dataflow.compose import chained
from dse.graph.dataflow.graph import DataflowGraph, GraphPass
from dse.graph.dataflow.recorded import forward_dataflow, output_names, training_dataflow
from dse.models.ends import no_loss
from dse.models.hyperparameters import Hyperparameters
from dse.models.model_slice import ModelSlice
from dse.models.recipe import TrainingRecipe
from dse.models.transformer import LayerKind, recorded
from hardware.inputs import fail

UNFUSED = TrainingRecipe(fuse=False)


def layers_graph(
    name: str, hyperparameters: Hyperparameters, layers: Sequence[str], microbatch: int, graph_pass: GraphPass
) -> DataflowGraph:
    """Consecutive layers over one microbatch.

    The operators of a training step are those that a workload of ``dse codesign`` has before fusion, dropout and loss
    included; a forward pass is that of inference, without the two. Where there are several layers, their operators'
    names begin with the layer's (``layer3.query``).

    Args:
        name: what the graph is called.
        hyperparameters: the model.
        layers: names of consecutive layers, of :func:`dse.models.transformer.layer_names`.
        microbatch: samples in a microbatch.
        graph_pass: ``forward`` or ``training``.

    Raises:
        InputError: a microbatch below 1.
    """
    if microbatch < 1:
        raise fail(hyperparameters.name, "microbatch", microbatch, "must be at least 1")
    kinds = {layer: _kind(layer) for layer in layers}
    build = training_graph if graph_pass == "training" else inference_graph
    graphs = {kind: build(name, hyperparameters, kind, microbatch) for kind in dict.fromkeys(kinds.values())}
    if len(layers) == 1:
        return graphs[kinds[layers[0]]]
    return chained(name, [(layer, graphs[kind]) for layer, kind in kinds.items()])


def _kind(layer: str) -> LayerKind:
    return next((kind for kind in get_args(LayerKind) if kind == layer), "block")


def training_graph(name: str, hyperparameters: Hyperparameters, kind: LayerKind, microbatch: int) -> DataflowGraph:
    """The training step of one layer."""
    tape, outputs = recorded(ModelSlice(hyperparameters, microbatch, 1, UNFUSED), kind)
    return training_dataflow(name, tape, output_names(outputs))


def inference_graph(name: str, hyperparameters: Hyperparameters, kind: LayerKind, microbatch: int) -> DataflowGraph:
    """The forward pass of one layer as inference runs it."""
    undropped = hyperparameters.model_copy(update={"dropout": 0.0, "attention_dropout": 0.0})
    tape, outputs = recorded(ModelSlice(undropped, microbatch, 1, UNFUSED), kind, no_loss)
    return forward_dataflow(name, tape, output_names(outputs))
