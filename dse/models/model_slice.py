"""One tensor-parallel slice of a model at one microbatch size: the sizes that every layer builder needs."""

from dataclasses import dataclass

from dse.graph.differentiable import LinearShape, normalise
from dse.graph.operator_graph import Layer
from dse.graph.tape import Tape, Tensor
from dse.models.hyperparameters import Hyperparameters
from dse.models.layer import finished_layer
from dse.models.recipe import TrainingRecipe


@dataclass(frozen=True)
class ModelSlice:
    """``width`` accelerators share each sliced layer; what is named here is one accelerator's part of it."""

    model: Hyperparameters
    microbatch: int
    width: int
    recipe: TrainingRecipe

    def tape(self) -> Tape:
        """An empty tape for one layer."""
        return Tape(self.recipe.element_bytes, self.recipe.weight_gradients)

    @property
    def tokens(self) -> int:
        """Tokens of a microbatch."""
        return self.microbatch * self.model.sequence

    @property
    def hidden_elements(self) -> int:
        """Elements of the residual stream of a microbatch: whole on every accelerator of the group."""
        return self.tokens * self.model.hidden

    def linear(self, inputs: int, outputs: int, bias: bool) -> LinearShape:
        """A linear layer over all tokens of a microbatch."""
        rows = self.tokens if self.recipe.linear_keeps_batch else self.model.sequence
        return LinearShape(self.tokens, rows, inputs, outputs, bias)

    def normalise(self, tape: Tape, name: str, source: Tensor, row: int) -> Tensor:
        """The model's normalisation over rows of length ``row``."""
        return normalise(tape, name, self.model.normalisation, source, row)

    def layer(self, kind: str, tape: Tape, outputs: tuple[Tensor, ...], tied_weights: int = 0) -> Layer:
        """The finished layer. ``tied_weights`` of its parameters are copies of another layer's."""
        return finished_layer(kind, tape, outputs, self.recipe, tied_weights, sliced=self.width > 1)
