"""What a plan makes of its software stack: sizes of state and transfers, and which communication is hidden."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from dse.plan.stack import Stack
from dse.plan.training_plan import AS_STACK

STORED_BYTES: Mapping[str, float] = MappingProxyType({"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0})
"""Of an element of state, or of a transfer; scales of 8-bit formats are neglected."""

_MOMENTS = 2


@dataclass(frozen=True)
class Software:
    """The facts of a stack after the settings of a plan.

    Attributes:
        weight_bytes, gradient_bytes, optimizer_bytes: kept for each parameter.
        moment_bytes: of optimizer_bytes, those of both moments.
        gradient_transfer_bytes, weight_transfer_bytes: sent for each parameter.
        cross_entropy: ``fused``, ``unfused`` or ``chunked``.
        overlaps_tensor, overlaps_context, overlaps_expert, overlaps_gradients, overlaps_weights, overlaps_pipeline:
            whether this communication overlaps with compute.
        offloads_optimizer, offloads_activations: whether these are kept in the host's memory.
    """

    weight_bytes: float
    gradient_bytes: float
    optimizer_bytes: float
    moment_bytes: float
    gradient_transfer_bytes: float
    weight_transfer_bytes: float
    cross_entropy: str
    overlaps_tensor: bool
    overlaps_context: bool
    overlaps_expert: bool
    overlaps_gradients: bool
    overlaps_weights: bool
    overlaps_pipeline: bool
    offloads_optimizer: bool
    offloads_activations: bool

    @classmethod
    def of(cls, stack: Stack, settings: Mapping[str, Any]) -> "Software":
        """Of ``settings``, keys that are missing are as the stack has them."""

        def stored(key: str, of_stack: float, elements: int = 1) -> float:
            word = settings.get(key, AS_STACK)
            return of_stack if word == AS_STACK else elements * STORED_BYTES[word]

        def overlaps(key: str, by_stack: bool) -> bool:
            word = settings.get(key, AS_STACK)
            return by_stack if word == AS_STACK else word == "yes"

        word, on_host = settings.get("cross_entropy", AS_STACK), settings.get("offload", AS_STACK).split("+")
        moments = stored("moments", stack.moment_bytes.value, _MOMENTS)
        return cls(
            weight_bytes=stored("weights", stack.weight_bytes.value),
            gradient_bytes=stored("gradients", stack.gradient_bytes.value),
            optimizer_bytes=stack.optimizer_bytes.value - stack.moment_bytes.value + moments,
            moment_bytes=moments,
            gradient_transfer_bytes=stored("gradient_transfer", stack.gradient_transfer_bytes.value),
            weight_transfer_bytes=stored("weight_transfer", stack.weight_transfer_bytes.value),
            cross_entropy=stack.cross_entropy.value if word == AS_STACK else word,
            overlaps_tensor=overlaps("overlap_tensor", stack.overlaps_tensor.value),
            overlaps_context=overlaps("overlap_context", stack.overlaps_context.value),
            overlaps_expert=overlaps("overlap_expert", stack.overlaps_expert.value),
            overlaps_gradients=overlaps("overlap_gradients", stack.overlaps_data.value),
            overlaps_weights=overlaps("overlap_weights", stack.overlaps_data.value),
            overlaps_pipeline=overlaps("overlap_pipeline", stack.overlaps_pipeline.value),
            offloads_optimizer="optimizer" in on_host,
            offloads_activations="activations" in on_host,
        )
