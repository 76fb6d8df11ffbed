"""From what a tape recorded to a layer: backward pass, fusion, optimizer step, and saved activations."""

from dse.graph.fusion import fuse
from dse.graph.operator_graph import Layer, Operator, OperatorGraph
from dse.graph.tape import Tape, Tensor
from dse.models.recipe import TrainingRecipe


def finished_layer(
    kind: str, tape: Tape, outputs: tuple[Tensor, ...], recipe: TrainingRecipe, tied_weights: int, sliced: bool
) -> Layer:
    """The layer that ``tape`` holds, trained as ``recipe`` says.

    Args:
        kind: what the layer is called.
        tape: its forward operators; it is used up.
        outputs: the tensors that the backward pass starts from.
        recipe: how the model is trained.
        tied_weights: parameters of it that are copies of another layer's.
        sliced: whether a tensor-parallel group shares it.
    """
    forward = tape.forward_graph()
    backward = tape.differentiate(*outputs)
    if recipe.fuse:
        forward = fuse(forward, tape.saved_operators)
        backward = fuse(backward)
    step = Operator("optimizer_step", recipe.optimizer_step(tape.weights))
    return Layer(
        kind=kind,
        forward=forward,
        backward=backward,
        update=OperatorGraph((step,) if tape.weights else (), ()),
        parameters=tape.weights - tied_weights,
        weight_bytes=tape.weights * recipe.element_bytes,
        activation_bytes=tape.saved_bytes,
        sliced=sliced,
        largest_saved=tape.largest_saved,
    )
