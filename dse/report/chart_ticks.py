"""Round numbers for an axis."""

import math
from collections.abc import Sequence

from dse.report.chart import Axis

_COUNT = 6
"""Ticks of an axis, about."""

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)

_ROOM = 0.03
"""Of the span, on either side of the lowest and the highest value."""

_LEAST_SPAN = 1e-300
"""Of an axis: a smaller one has no ticks that floats can hold."""


def ticks_of(axis: Axis, values: Sequence[float]) -> tuple[list[tuple[float, str]], float, float]:
    """((value, label) of every tick, the lowest and the highest value of the axis) for the values that it must hold."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    if axis.logarithmic and low > 0:
        low, high = low / (high / low) ** _ROOM / 1.02, high * (high / low) ** _ROOM * 1.02
        places = _logarithmic(low, high)
    else:
        low = min(low, 0.0) if axis.from_zero else low
        if low == high and not axis.from_zero:
            low, high = low - 1.0, high + 1.0
        room = _ROOM * ((high - low) or 1.0)
        low, high = (low if low == 0 else low - room), (high if high == 0 else high + room)
        high = high if high - low >= _LEAST_SPAN else low + 1.0
        places = _linear(low, high)
    if axis.ticks is not None:
        return sorted(axis.ticks.items()), low, high
    return [(place, f"{place:,.10g}") for place in places], low, high


def _linear(low: float, high: float) -> list[float]:
    """Multiples of 1, 2, 2.5 or 5 times a power of ten."""
    rough = (high - low) / _COUNT
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next(each for each in _STEPS if each * power >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [place * step for place in range(first, last + 1)]


def _logarithmic(low: float, high: float) -> list[float]:
    """Powers of ten, with 2 and 5 times them where these are few, or round numbers within a short span."""
    if high / low < 4:
        return [each for each in _linear(low, high) if each > 0]
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    digits = (1.0,) if len(powers) > 4 else (1.0, 2.0, 5.0)
    every = max(1, len(powers) // 8)
    places = [digit * 10.0**power for power in powers if power % every == 0 for digit in digits]
    return [each for each in places if low <= each <= high]
