"""Products of operands narrower than the words of the template's arrays.

A word of 16 bits holds ``operands`` = 16 / bits of them, neighbours along the inner dimension; an element multiplies
the pairs of two words and adds them up, in ``cycles`` cycles. So the product [m, k] · [k, n] has the mapping and the
traffic of words [m, ⌈k / operands⌉] · [⌈k / operands⌉, n], with results of 16 bits, at a clock that is ``cycles`` times
slower; it runs on words of one operand each where that is faster. What packing adds to the area of an element is in no
area table.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from hardware.machines import Machines
from hardware.precisions import ELEMENT_BYTES, halved

WORD_BYTES = 2
"""Of a word of the searched template."""

RATE_TOLERANCE = 5e-3
"""By which a stated rate may differ from that of the array: data sheets round."""


@dataclass(frozen=True)
class PackedWords:
    """How a product of narrow operands runs on words.

    Attributes:
        operands: that a word holds.
        cycles: that an element takes for two words.
    """

    operands: int
    cycles: float

    def inner(self, elements: float) -> int:
        """Words along an inner dimension of so many operands."""
        return math.ceil(elements / self.operands)

    def slowed(self, machines: Machines) -> Machines:
        """Machines whose every cycle takes as long as an element needs for two words."""
        return machines if self.cycles == 1.0 else replace(machines, clock_hz=machines.clock_hz / self.cycles)


def packed_words(product_format: str, rates: Mapping[str, float]) -> PackedWords | None:
    """How products of this format run, by the rates of products of an array; None where words hold one operand."""
    operands = int(WORD_BYTES / ELEMENT_BYTES[product_format])
    if operands == 1:
        return None
    cycles = operands * word_rate(rates, product_format) / rates[product_format]
    return PackedWords(operands, 1.0 if abs(cycles - 1.0) < RATE_TOLERANCE else cycles)


def word_rate(rates: Mapping[str, float], product_format: str = "bf16") -> float:
    """The rate of products of words."""
    return rates[halved(product_format, rates)]
