"""What a search maximises: the mean over models of throughput, throughput per watt or throughput per mm².

For architecture a and models m with weights w_m that sum to one::

    value_m(a) = throughput_m(a)                          [samples/s]
               | throughput_m(a) / (power_m(a) · K)       [samples/J]      K accelerators, each of power_m(a) on average
               | throughput_m(a) / die(a)                 [samples/s/mm²]  with its interfaces to HBM and network
    score(a)   = Π value_m(a) ^ w_m     geometric mean, the default: a model counts by ratios, whatever its throughput
               | Σ w_m · value_m(a)     arithmetic mean, as published (PHAZE's common architecture)

A model that does not fit makes the score 0. Every value rises with the model's throughput, and every mean with its
values, so upper bounds on throughput give upper bounds on the score. Power is that of the fastest plan.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

Per = Literal["throughput", "per-watt", "per-mm2", "per-dollar", "per-price", "per-kg"]
Mean = Literal["geometric", "arithmetic"]

UNITS: dict[Per, str] = {
    "throughput": "samples/s",
    "per-watt": "samples/J",
    "per-mm2": "samples/s/mm2",
    "per-dollar": "samples/$",
    "per-price": "samples/$",
    "per-kg": "samples/kg",
}
"""The unit of each value, and of the score."""

OF_CHIPS: tuple[Per, ...] = ("per-dollar", "per-price", "per-kg")
"""Values that only chips by their silicon have (:mod:`dse.codesign.chips.problem`)."""


@dataclass(frozen=True)
class Objective:
    """What is maximised; ``weights`` are the models', in their order (None: equal)."""

    per: Per = "throughput"
    mean: Mean = "geometric"
    weights: tuple[float, ...] | None = None

    @property
    def unit(self) -> str:
        """The unit of the score."""
        return UNITS[self.per]

    def score(self, values: Floats) -> Floats:
        """The mean over models (the first axis of ``values``), of the shape of the other axes."""
        if len(values) == 1:
            return np.asarray(values[0], dtype=np.float64)
        weights = np.array(self.weights) if self.weights is not None else np.ones(len(values))
        shares = (weights / weights.sum()).reshape(-1, *[1] * (values.ndim - 1))
        if self.mean == "arithmetic":
            mean = np.sum(shares * values, axis=0)
            return np.where((values > 0).all(axis=0), mean, 0.0)
        with np.errstate(divide="ignore"):
            return np.asarray(np.exp(np.sum(shares * np.log(values), axis=0)), dtype=np.float64)


THROUGHPUT = Objective()
"""The throughput of one model, or the geometric mean of several."""
