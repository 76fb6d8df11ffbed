"""What ``dse models`` prints: the table of built-in models, and the layers of one model, built or imported."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from dse.graph.operator_graph import ModelGraph
from dse.models.hyperparameters import Hyperparameters
from dse.models.recipe import TrainingRecipe
from dse.models.transformer import flops_per_sample, parameters
from dse.models.workload import Workload
from dse.sources.workloads import list_models, model
from hardware.units import GIGA, MIB, TERA, gib_from_bytes

HEADERS = ("model", "layers", "hidden", "heads", "sequence", "parameters", "TFLOPs/sample", "tensor parallel")
"""Columns of :func:`describe`."""


@dataclass(frozen=True)
class ModelDescription:
    """What a model is in one line. ``flops_per_sample`` are model FLOPs, forward and backward."""

    name: str
    layers: int
    hidden: int
    heads: int
    sequence: int
    parameters: int
    flops_per_sample: int
    tensor_parallel: tuple[int, ...]
    source: str

    def row(self) -> tuple[str, ...]:
        """The columns of :data:`HEADERS`, as people read them."""
        return (
            self.name,
            f"{self.layers}",
            f"{self.hidden:,}",
            f"{self.heads}",
            f"{self.sequence:,}",
            f"{self.parameters:,}",
            f"{self.flops_per_sample / TERA:,.2f}",
            " ".join(f"{width}" for width in self.tensor_parallel),
        )


def describe_model(hyperparameters: Hyperparameters) -> ModelDescription:
    """The description of one model."""
    return ModelDescription(
        name=hyperparameters.name,
        layers=hyperparameters.layers,
        hidden=hyperparameters.hidden,
        heads=hyperparameters.heads,
        sequence=hyperparameters.sequence,
        parameters=parameters(hyperparameters),
        flops_per_sample=flops_per_sample(hyperparameters),
        tensor_parallel=hyperparameters.tensor_parallel,
        source=hyperparameters.source,
    )


def describe() -> list[tuple[str, ...]]:
    """One row for each built-in model, in alphabetical order."""
    return [describe_model(model(name)).row() for name in list_models()]


def counted_parameters(described: dict[str, Any]) -> str:
    """The parameters of what :func:`describe_layers` returns in words; how many are trained where some are frozen."""
    trained, frozen = described["parameters"], described["frozen_parameters"]
    return f"{trained:,} parameters trained, {frozen:,} frozen" if frozen else f"{trained:,} parameters"


LAYER_HEADERS = ("layer", "count", "operators", "parameters", "GFLOPs", "activations")
"""Columns of :func:`layer_rows`."""


def describe_layers(workload: Workload) -> dict[str, Any]:
    """One model's distinct layers at microbatch 1, forward and backward, and what no cost is known for, as JSON types.

    ``largest_kept`` is the largest tensor of ``activation_bytes`` (``operator``, ``bytes``), None where there is none.
    ``parameters`` are trained, ``frozen_parameters`` are not. ``flops`` are those of tensor cores, forward and
    backward, of one layer; ``activation_bytes`` the activations that its backward pass needs.
    """
    graph = workload.graph(1, 1, TrainingRecipe())
    layers = [
        {
            "layer": layer.kind,
            "count": graph.layer_index.count(index),
            "operators": len(layer.forward) + len(layer.backward),
            "parameters": layer.parameters,
            "frozen_parameters": layer.frozen_parameters,
            "flops": layer.forward.flops + layer.backward.flops,
            "activation_bytes": layer.activation_bytes,
            "largest_kept": None
            if layer.largest_saved is None
            else {"operator": layer.largest_saved.operator, "bytes": layer.largest_saved.size_bytes},
        }
        for index, layer in enumerate(graph.distinct_layers)
    ]
    return {
        "name": workload.name,
        "parameters": graph.parameters,
        "frozen_parameters": graph.frozen_parameters,
        "flops_per_sample": graph.flops_per_sample,
        "tensor_parallel": list(workload.tensor_parallel),
        "layers": layers,
        "unpriced": [asdict(each) for each in graph.unpriced],
    }


_NOTED_SHARE = 0.25


def note_on_scores(graph: ModelGraph) -> str | None:
    """A sentence where attention scores, which grow as sequence², are the largest activation that is kept.

    None where another activation is larger, or where they are less than :data:`_NOTED_SHARE` of what the layer keeps.
    """
    if graph.largest_saved is None:
        return None
    layer, activation = graph.largest_saved
    if "softmax" not in activation.operator or activation.size_bytes < _NOTED_SHARE * layer.activation_bytes:
        return None
    return (
        f"The attention scores are kept whole, not recomputed by fused attention, which is not modelled: of the "
        f"{gib_from_bytes(layer.activation_bytes):,.1f} GB of activations that {layer.kind} keeps of a microbatch of "
        f"{graph.microbatch}, {activation.operator} alone has {gib_from_bytes(activation.size_bytes):,.1f} GB; "
        "they grow with the square of the sequence."
    )


def layer_rows(described: dict[str, Any]) -> list[tuple[str, ...]]:
    """The columns of :data:`LAYER_HEADERS`, as people read them."""
    return [
        (
            layer["layer"],
            f"{layer['count']}",
            f"{layer['operators']}",
            f"{layer['parameters']:,}",
            f"{layer['flops'] / GIGA:,.1f}",
            f"{layer['activation_bytes'] / MIB:,.1f} MiB",
        )
        for layer in described["layers"]
    ]


UNPRICED_HEADERS = ("no cost known for", "count", "of FLOPs", "of bytes", "first at")
"""Columns of :func:`unpriced_rows`."""


def unpriced_rows(unpriced: Iterable[dict[str, Any]]) -> list[tuple[str, ...]]:
    """The columns of :data:`UNPRICED_HEADERS`."""
    return [
        (
            each["name"],
            f"{each['count']}",
            f"{100 * each['flops_share']:.2f} %",
            f"{100 * each['bytes_share']:.2f} %",
            each["where"],
        )
        for each in unpriced
    ]
