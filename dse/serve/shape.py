"""How the chips of one replica share a model."""

from dataclasses import dataclass
from typing import Literal

WeightFormat = Literal["bf16", "fp8", "fp8_block", "nvfp4", "mxfp4", "int4"]
"""Of the linear layers of a checkpoint. ``fp8`` has a scale for each tensor, ``fp8_block`` one for each block;
``mxfp4`` has its experts alone in four bits, ``int4`` all of them, multiplied in 16."""

WEIGHT_BYTES = {"bf16": 2.0, "fp8": 1.0, "fp8_block": 1.0, "nvfp4": 0.5625, "mxfp4": 0.53125, "int4": 0.51953125}
"""Of a stored element with its share of scales: one byte for 16 elements (nvfp4) or 32 (mxfp4); 20 bits of
scale and zero for 128 (int4, as AWQ and GPTQ keep it)."""


@dataclass(frozen=True)
class Shape:
    """A replica: ``tensor`` · ``attention_data`` = ``expert_tensor`` · ``expert`` chips, times ``pipeline``.

    Attributes:
        tensor: chips that share each attention, heads cut.
        attention_data: groups of these with requests of their own.
        expert: groups over which experts are spread.
        expert_tensor: chips that share each expert.
        pipeline: stages of consecutive layers.
    """

    tensor: int = 1
    attention_data: int = 1
    expert: int = 1
    expert_tensor: int = 1
    pipeline: int = 1

    @property
    def chips(self) -> int:
        """Of the replica."""
        return self.tensor * self.attention_data * self.pipeline


@dataclass(frozen=True)
class Formats:
    """In which a replica keeps numbers.

    Attributes:
        weights: of linear layers.
        cache_bytes: of an element of keys and values.
        attention_weights: of linear layers of attention, where a checkpoint leaves them wider; None for the others'.
    """

    weights: WeightFormat
    cache_bytes: float
    attention_weights: WeightFormat | None = None

    @property
    def dense(self) -> WeightFormat:
        """Of linear layers outside experts."""
        return "bf16" if self.weights == "mxfp4" else self.weights

    @property
    def attention(self) -> WeightFormat:
        """Of the linear layers of attention."""
        return self.attention_weights or self.dense
