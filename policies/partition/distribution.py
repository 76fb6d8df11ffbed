"""Distributions of every operator's chip.

They are independent of each other; draws from them need not be (:mod:`dse.partition.search.proposals`).
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class ChipDistribution:
    """A categorical distribution over the chips for every operator.

    Attributes:
        log_probabilities: of every chip, [*, N, C], normalised over C.
    """

    log_probabilities: Tensor

    @classmethod
    def from_logits(cls, logits: Tensor) -> "ChipDistribution":
        """The distributions with ``logits`` [*, N, C], up to a constant for each operator."""
        return cls(torch.log_softmax(logits, dim=-1))

    def log_probability(self, chips: Tensor) -> Tensor:
        """The logarithm of the probability of each operator's chip, [B, N].

        Args:
            chips: integers, [B, N]; the distributions are as many, or one for all.
        """
        shared = self.log_probabilities.expand(len(chips), -1, -1)
        return shared.gather(-1, chips.long().unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """−Σ p log p of every operator, in nats, [*, N]."""
        return -(self.log_probabilities.exp() * self.log_probabilities).sum(-1)

    def at(self, quantiles: Tensor) -> Tensor:
        """The chip at each operator's quantile: the first c with P(chip ≤ c) > u, [*, N]; ``quantiles``: u in [0, 1).

        For uniform u that is a draw from the distribution.
        """
        below = self.log_probabilities.exp().cumsum(-1)
        chips = (below <= quantiles.unsqueeze(-1).to(below)).sum(-1)
        # Rounding can leave the last sum short of 1, and u above it: that draw is the last chip with a probability.
        last = below.shape[-1] - 1 - (self.log_probabilities.flip(-1) > -40.0).to(torch.int8).argmax(-1)
        return torch.minimum(chips, last)
