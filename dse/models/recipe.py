"""What a training step is made of: the choices that shape the operator graph beside the model itself."""

from dataclasses import dataclass
from typing import Literal

from hardware.cost_model import CostModel
from hardware.operations import Vector

MASTER_STATE_BYTES = 12
"""Bytes of a 32-bit master weight, momentum and variance (Rajbhandari et al., ZeRO, SC 2020, section 3.1)."""


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
        attention: one set of score, softmax and context operators for all heads (``batched``), or one for each
            key-value head (``per_head``).
        fuse: whether GEMMs are fused with their single vector consumer (:mod:`dse.graph.fusion`).
    """

    element_bytes: int = 2
    weight_gradients: bool = True
    linear_keeps_batch: bool = True
    optimizer: Literal["adam", "sgd"] = "adam"
    attention: Literal["batched", "per_head"] = "batched"
    fuse: bool = True

    def optimizer_step(self, weights: int) -> Vector:
        """The optimizer step over ``weights`` parameters, one element each.

        ``adam`` in mixed precision reads the gradient and the 32-bit master weight, momentum and variance, and writes
        the three and the weight for compute: with 2-byte elements 14 bytes read and 14 written a parameter. ``sgd``
        reads weight and gradient and writes the weight: 4 and 2 bytes.
        """
        if self.optimizer == "sgd":
            return Vector("sgd", weights, read_elements=2 * weights, write_elements=weights)
        moved = -(-weights * (MASTER_STATE_BYTES + self.element_bytes) // self.element_bytes)
        return Vector("adam", weights, read_elements=moved, write_elements=moved)


def recipe_for(cost_model: CostModel) -> TrainingRecipe:
    """The recipe that a cost model's ``training`` rules describe."""
    rules = cost_model.training
    return TrainingRecipe(
        element_bytes=cost_model.hardware.element_bytes.value,
        weight_gradients=rules.weight_gradients.value,
        linear_keeps_batch=rules.linear_keeps_batch.value,
        optimizer=rules.optimizer.name,
    )
