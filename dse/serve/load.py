"""What clients ask for: lengths, and how requests arrive."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Lengths:
    """Tokens of a prompt or an output: drawn evenly from ``low`` to ``high``, both included.

    ``average``: of lengths that are given one by one and not drawn; None for drawn ones.
    """

    low: int
    high: int
    average: float | None = None

    @property
    def mean(self) -> float:
        """Expected tokens."""
        return (self.low + self.high) / 2 if self.average is None else self.average


@dataclass(frozen=True)
class Load:
    """Requests to one replica.

    Attributes:
        prompt, output: their lengths.
        concurrency: of a closed loop: so many requests are in flight, and each that ends is followed by one; 0 for
            an open one.
        rate_per_s: of an open loop with Poisson arrivals; 0 for a closed one.
        prefix: first tokens of a prompt that many requests share.
        hit_rate: share of requests that find the keys and values of this prefix in memory.
    """

    prompt: Lengths
    output: Lengths
    concurrency: int = 0
    rate_per_s: float = 0.0
    prefix: int = 0
    hit_rate: float = 0.0

    @property
    def longest(self) -> int:
        """Tokens of the longest request, prompt and output."""
        return self.prompt.high + self.output.high

    @property
    def reused(self) -> float:
        """Mean tokens of a prompt that need not be computed."""
        return self.prefix * self.hit_rate

    def reused_tokens(self, prompts: Integers, seed: int) -> Integers:
        """First tokens of each prompt that are found in memory, [N]; the last token is always computed."""
        hits = np.random.default_rng([seed, 1]).random(len(prompts)) < self.hit_rate
        return np.where(hits, np.minimum(self.prefix, prompts - 1), 0)

    def document(self) -> dict[str, Any]:
        """In JSON types."""
        return asdict(self)

    def drawn(self, requests: int, seed: int) -> tuple[Integers, Integers, NDArray[np.float64]]:
        """(prompts, outputs, arrivals in s) of so many requests, each of shape [requests]."""
        random = np.random.default_rng(seed)
        prompts = random.integers(self.prompt.low, self.prompt.high + 1, requests)
        outputs = random.integers(self.output.low, self.output.high + 1, requests)
        gaps = random.exponential(1.0, requests)
        arrivals = np.cumsum(gaps) / self.rate_per_s if self.rate_per_s else np.zeros(requests)
        return prompts, outputs, arrivals
