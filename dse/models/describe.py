"""The table of built-in models that ``dse models`` prints."""

from dataclasses import dataclass

from dse.models.hyperparameters import Hyperparameters
from dse.models.library import list_models, model
from dse.models.transformer import flops_per_sample, parameters
from hardware.units import TERA

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
