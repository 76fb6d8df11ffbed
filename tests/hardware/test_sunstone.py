"""What the mapper of the published PHAZE tool can reach, by its rules, bounds what it gives.

Its rules for one core, in which every tile divides its dimension and only weights stay in the registers, are enumerated
here by themselves: a bound from below on the mapper as :mod:`dse.reproduce.phaze.mapper` has it.
"""

import itertools

import pytest

from dse.reproduce.phaze.mapper import cycles
from tests.hardware.reference_cycles import SUNSTONE_CORES, SUNSTONE_CYCLES

REGISTERS, CORE_WORDS_PER_CYCLE = 16, 64
"""Weights in an element, and words a cycle between L1 and arrays: those of the published tool."""

ODD = ((1024, 1600, 6400), (1024, 6400, 1600), (1024, 1600, 4800), (1024, 1600, 1600), (1024, 1920, 7680))
"""Rows, inputs and outputs of GPT-2 XL and Megatron 2.5B."""


def factors(size: int, limit: int) -> list[int]:
    """Factors of ``size`` up to ``limit``."""
    return [factor for factor in range(1, min(size, limit) + 1) if size % factor == 0]


def largest(factors_of: list[int]) -> list[int]:
    """Only those that no larger one is a multiple of: more of the same dimension on a side is never worse."""
    return [each for each in factors_of if not any(other > each and other % each == 0 for other in factors_of)]


def whole_factor_cycles(rows: int, inputs: int, outputs: int, side: int) -> float:
    """The fastest weight-stationary mapping on one core of side × side in which every tile divides its dimension.

    One side carries inputs, the other outputs, each with rows beside them where there is room.
    """
    words = {"in": rows * inputs, "weights": inputs * outputs, "out": rows * outputs}
    best = float("inf")
    for along, across in itertools.product(factors(inputs, side), factors(outputs, side)):
        room = (side // along) * (side // across)
        copies = max(factors(rows, room))
        compute = rows * inputs * outputs / (along * across * copies)
        if compute >= best:
            continue
        for deep in factors(inputs // along, REGISTERS):
            for wide in largest(factors(outputs // across, REGISTERS // deep)):
                input_steps, output_steps = inputs // (along * deep), outputs // (across * wide)
                read = words["in"] * output_steps + words["weights"] + words["out"] * (input_steps - 1)
                written = words["out"] * input_steps
                best = min(best, max(compute, read / CORE_WORDS_PER_CYCLE, written / CORE_WORDS_PER_CYCLE))
    return best


def test_whole_factors_give_the_cycles_of_the_smallest_product():
    product = min(SUNSTONE_CYCLES)
    for (count, side), known in zip(SUNSTONE_CORES, SUNSTONE_CYCLES[product], strict=True):
        if count == 1:
            assert whole_factor_cycles(*product, side) == known


@pytest.mark.parametrize("product", SUNSTONE_CYCLES)
def test_whole_factors_are_a_lower_bound_on_the_known_cycles(product):
    for (count, side), known in zip(SUNSTONE_CORES, SUNSTONE_CYCLES[product], strict=True):
        if count == 1:
            assert whole_factor_cycles(*product, side) <= known


@pytest.mark.parametrize("product", ODD)
@pytest.mark.parametrize("side", [128, 256])
def test_the_mapper_is_no_faster_on_odd_sizes_than_its_rules_let_it_be(product, side):
    bound = whole_factor_cycles(*product, side)
    assert bound <= cycles(product, 1, side, side, 128 << 20) <= 2.5 * bound


def test_a_prime_fills_no_array():
    assert whole_factor_cycles(1, 131, 131, 128) == 131 * 131
    # Rows stand beside inputs and outputs.
    assert whole_factor_cycles(128, 131, 131, 128) == pytest.approx(
        (131 * 131 * 128 + 131 * 131 + 130 * 131 * 128) / 64
    )
