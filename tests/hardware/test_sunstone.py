"""What the mapper of the published PHAZE tool can reach, by its rules, is what it gives where that is known."""

import pytest

from benchmarks.sunstone import EVEN, whole_factor_cycles
from tests.hardware.reference_cycles import SUNSTONE_CORES, SUNSTONE_CYCLES


def test_whole_factors_give_the_cycles_of_the_smallest_product():
    product = min(EVEN)
    for (count, side), cycles in zip(SUNSTONE_CORES, SUNSTONE_CYCLES[product], strict=True):
        if count == 1:
            assert whole_factor_cycles(*product, side) == cycles


@pytest.mark.parametrize("product", SUNSTONE_CYCLES)
def test_whole_factors_are_a_lower_bound_on_the_known_cycles(product):
    for (count, side), cycles in zip(SUNSTONE_CORES, SUNSTONE_CYCLES[product], strict=True):
        if count == 1:
            assert whole_factor_cycles(*product, side) <= cycles


def test_a_prime_fills_no_array():
    assert whole_factor_cycles(1, 131, 131, 128) == 131 * 131
    # Rows stand beside inputs and outputs.
    assert whole_factor_cycles(128, 131, 131, 128) == pytest.approx(
        (131 * 131 * 128 + 131 * 131 + 130 * 131 * 128) / 64
    )
