"""The optimizer of all learners."""

from collections.abc import Iterable
from typing import Any

import torch
from torch.optim import Adam


class FusedAdam(Adam):
    """Adam, all weights in one call: with many small ones, that is most of a step.

    Of a state it takes moments and steps; its settings stay those that it was made with. Ray 2.50 hands over settings
    as tensors, which Adam refuses.
    """

    def __init__(self, weights: Iterable[torch.Tensor]) -> None:
        super().__init__(weights, fused=True)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from what ``state_dict`` gave."""
        super().load_state_dict({"state": state_dict["state"], "param_groups": self.state_dict()["param_groups"]})
