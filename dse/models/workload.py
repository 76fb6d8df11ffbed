"""What a training job trains: anything that gives an operator graph for a microbatch and a tensor-parallel width."""

from dataclasses import dataclass
from typing import Any, Protocol

from dse.graph.operator_graph import ModelGraph
from dse.models.hyperparameters import ExpertPlacement, Hyperparameters
from dse.models.recipe import TrainingRecipe
from dse.models.transformer import build
from dse.run.remembered import Remembered, Same

_BUILT: Remembered[ModelGraph] = Remembered(64)
"""The last graphs: searches, checks and prices of energy ask for the same ones again."""


class Workload(Protocol):
    """A model as the engine sees it, whether built from hyper-parameters or imported.

    It is picklable, and small when pickled: workers build the graphs again.
    """

    @property
    def name(self) -> str:
        """What the model is called in tables and results; unique among the models of one search."""
        ...

    @property
    def tensor_parallel(self) -> tuple[int, ...]:
        """The tensor-parallel widths that it can be sliced to, ascending."""
        ...

    @property
    def expert_placement(self) -> ExpertPlacement | None:
        """How practitioners place it, for comparison; None where nobody has published one."""
        ...

    def graph(self, microbatch: int, tensor_parallel: int, recipe: TrainingRecipe) -> ModelGraph:
        """The graph of one microbatch on one accelerator of a tensor-parallel group.

        Raises:
            InputError: a microbatch below 1, or a width that the model cannot be sliced to.
        """
        ...

    def document(self) -> dict[str, Any]:
        """Everything about the model that decides an answer, as JSON types (part of the problem's digest)."""
        ...


@dataclass(frozen=True)
class OfHyperparameters:
    """What every workload has that is made from hyper-parameters, however its graph is."""

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


@dataclass(frozen=True)
class BuiltModel(OfHyperparameters):
    """A transformer built from its hyper-parameters."""

    def graph(self, microbatch: int, tensor_parallel: int, recipe: TrainingRecipe) -> ModelGraph:
        """See :func:`dse.models.transformer.build`."""
        key = (Same(self.hyperparameters), microbatch, tensor_parallel, recipe)
        return _BUILT.get(key, lambda: build(self.hyperparameters, microbatch, tensor_parallel, recipe))

    def document(self) -> dict[str, Any]:
        """The hyper-parameters."""
        return self.hyperparameters.model_dump(mode="json")
