"""Figures with the lowest and the highest value that their sources allow."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Numbers = float | int | NDArray[np.float64] | NDArray[np.int64]
"""One size, or an array of sizes; arrays broadcast."""


@dataclass(frozen=True)
class Interval:
    """``low <= value <= high``, arrays of one shape or scalars."""

    value: Floats
    low: Floats
    high: Floats

    @classmethod
    def exact(cls, value: Numbers) -> "Interval":
        """A figure that is known."""
        array = np.asarray(value, dtype=np.float64)
        return cls(array, array, array)

    def __mul__(self, other: "Interval | Numbers") -> "Interval":
        """The product of figures that are not negative; deviations of two intervals are taken as independent."""
        if not isinstance(other, Interval):
            factor = np.asarray(other, dtype=np.float64)
            return Interval(self.value * factor, self.low * factor, self.high * factor)
        value = self.value * other.value
        below = np.hypot((self.value - self.low) * other.value, (other.value - other.low) * self.value)
        above = np.hypot((self.high - self.value) * other.value, (other.high - other.value) * self.value)
        return Interval(value, np.maximum(value - below, 0.0), value + above)

    __rmul__ = __mul__

    def __add__(self, other: "Interval") -> "Interval":
        return total([self, other])

    def inverse(self) -> "Interval":
        """Of a figure that is above 0, one over it."""
        return Interval(1 / self.value, 1 / self.high, 1 / self.low)

    def at_most(self, limit: Numbers) -> "Interval":
        """The figure where nothing exceeds ``limit``."""
        return Interval(*(np.minimum(each, limit) for each in (self.value, self.low, self.high)))

    def contains(self, value: float) -> bool:
        """Whether ``value`` lies within; of a scalar."""
        return bool(self.low <= value <= self.high)


def total(parts: Iterable[Interval]) -> Interval:
    """The sum of independent figures: their deviations add in quadrature, up and down for themselves."""
    listed = list(parts)
    value = np.asarray(sum(part.value for part in listed), dtype=np.float64)
    below = np.sqrt(sum((part.value - part.low) ** 2 for part in listed))
    above = np.sqrt(sum((part.high - part.value) ** 2 for part in listed))
    return Interval(value, np.maximum(value - below, 0.0), value + above)
