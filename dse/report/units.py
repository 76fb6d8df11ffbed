"""Times and memory sizes in the unit that fits their size, and counts with their nouns, for people."""

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context

from hardware.units import GIB, KIB, MIB

_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_BYTES = ((1024.0 * GIB, "TB"), (float(GIB), "GB"), (float(MIB), "MB"), (float(KIB), "KB"), (1.0, "B"))


@dataclass(frozen=True)
class Scale:
    """A unit for the figures of one axis or one list: ``text(amount)`` is in it.

    Attributes:
        size: one of the unit, in seconds or bytes.
        unit: its symbol.
    """

    size: float
    unit: str

    def of(self, amount: float) -> float:
        """``amount`` [s or bytes] in this unit."""
        return amount / self.size

    def text(self, amount: float, digits: int = 4) -> str:
        """The amount with its unit: ``digits`` significant ones, but never an exponent for what fits the unit."""
        return f"{_rounded(self.of(amount), digits)} {self.unit}"


def time_scale(longest_s: float) -> Scale:
    """The largest of s, ms, µs and ns in which ``longest_s`` is at least 1; ns for anything shorter, s for zero."""
    return _scale(longest_s, _SECONDS)


def memory_scale(largest_bytes: float) -> Scale:
    """The largest of TB, GB, MB, KB and B (binary, as :mod:`hardware.units`) in which it is at least 1; B for zero."""
    return _scale(largest_bytes, _BYTES) if largest_bytes else Scale(*_BYTES[-1])


def time_text(seconds: float, digits: int = 4) -> str:
    """``0.03874`` as ``38.74 ms``."""
    return time_scale(seconds).text(seconds, digits)


def memory_text(size_bytes: float, digits: int = 4) -> str:
    """``1048576`` as ``1 MB``."""
    return memory_scale(size_bytes).text(size_bytes, digits)


def needed_memory_text(size_bytes: float, digits: int = 4) -> str:
    """A size that is needed, rounded up, so that what is written suffices."""
    scale = memory_scale(size_bytes)
    rounded = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(repr(scale.of(size_bytes)))
    return scale.text(float(rounded) * scale.size, digits)


def share_text(share: float) -> str:
    """A part of a whole in percent: ``12 %``, and ``< 0.1 %`` for what is there but too small to write."""
    if 0 < share < 0.0005:
        return "< 0.1 %"
    return f"{100 * share:.1f} %"


def lower_bound_text(bound: float) -> str:
    """A lower bound, rounded down to eight digits, so that what is written holds."""
    rounded = Context(prec=8, rounding=ROUND_FLOOR).create_decimal(repr(bound))
    return f"{rounded.normalize():,f}"


def _scale(largest: float, units: tuple[tuple[float, str], ...]) -> Scale:
    largest = abs(largest)
    if largest == 0:
        return Scale(*units[0])
    # What would be written as 1,000 of a unit is 1 of the next.
    return Scale(*next((each for each in units if largest >= each[0] * (1 - 5e-5)), units[-1]))


def _rounded(value: float, digits: int) -> str:
    """Significant digits, with separators; trailing zeros of a fraction are left out."""
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """``1 stage``, ``2 stages``: the noun as the count needs it, by default with an s."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
