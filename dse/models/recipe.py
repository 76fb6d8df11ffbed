"""What a training step is made of: the choices that shape the operator graph in addition to the model itself."""

from dataclasses import dataclass
from typing import Literal

from hardware.cost_model import CostModel
from hardware.operations import Vector


@dataclass(frozen=True)
class TrainingRecipe:
    """How a model is trained. The defaults are those of the cost model ``consistent``.

    Attributes:
        element_bytes: bytes of an activation, a weight in compute, and a gradient.
        weight_gradients: whether a GEMM's backward pass has the gradient of its weights (and bias) too. Without, every
            GEMM, attention products included, has the one gradient of its left operand, as in the published PHAZE tool.
        linear_keeps_batch: whether a linear layer has microbatch · sequence rows; without, it has ``sequence`` rows at
            any microbatch, as in the published PHAZE tool. Activation bytes and transfers keep the batch either way.
        optimizer: ``adam`` in mixed precision, or plain ``sgd``.
        optimizer_bytes: bytes of Adam's state for each parameter, regardless of ``element_bytes``: momentum, variance,
            and the master weight where there is one (Rajbhandari et al., ZeRO, SC 2020, section 3.1).
        has_master_weights: whether that is so; without, the weight in compute is the one that is updated.
        attention: one set of score, softmax and context operators for all heads (``batched``), or one for each
            key-value head (``per_head``).
        fuse: whether GEMMs are fused with their single vector consumer (:mod:`dse.graph.fusion`).
    """

    element_bytes: int = 2
    weight_gradients: bool = True
    linear_keeps_batch: bool = True
    optimizer: Literal["adam", "sgd"] = "adam"
    optimizer_bytes: int = 12
    has_master_weights: bool = True
    attention: Literal["batched", "per_head"] = "batched"
    fuse: bool = True

    def optimizer_step(self, weights: int) -> Vector:
        """The optimizer step over ``weights`` parameters, one element each.

        ``adam`` in mixed precision reads the gradient and the 32-bit master weight, momentum and variance, and writes
        the three and the weight for compute: with 2-byte elements 14 bytes read and 14 written a parameter, with 1-byte
        elements 13 and 13. Without master weights it reads the weight in addition to gradient and state: with 4-byte
        elements 16 and 12. ``sgd`` reads weight and gradient and writes the weight: 4 and 2 bytes.
        """
        if self.optimizer == "sgd":
            return Vector("sgd", weights, read_elements=2 * weights, write_elements=weights)
        written_bytes = self.optimizer_bytes + self.element_bytes
        read_bytes = written_bytes + (0 if self.has_master_weights else self.element_bytes)
        read, written = (-(-weights * size_bytes // self.element_bytes) for size_bytes in (read_bytes, written_bytes))
        return Vector("adam", weights, read_elements=read, write_elements=written)


def recipe_for(cost_model: CostModel) -> TrainingRecipe:
    """The recipe that a cost model's ``training`` rules describe."""
    rules = cost_model.training
    return TrainingRecipe(
        element_bytes=cost_model.hardware.element_bytes.value,
        weight_gradients=rules.weight_gradients.value,
        linear_keeps_batch=rules.linear_keeps_batch.value,
        optimizer=rules.optimizer.name,
        optimizer_bytes=cost_model.optimizer_bytes,
        has_master_weights=cost_model.has_master_weights,
    )
