"""Dies of a package: what they share of a product crosses their links, and nothing else changes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware.gemm import TensorWork, tensor_times
from hardware.operations import Gemm
from hardware.specs import accelerator
from tests.hardware.small_machines import small_machine

SIDES = st.integers(1, 300)


def on_chip_s(gemm, machine, cores=None):
    count = machine.tensor_cores if cores is None else np.array([cores])
    return float(tensor_times([TensorWork(gemm)], machine, count, np.ones(1)).on_chip_s[0, 0])


@settings(max_examples=40, deadline=None)
@given(m=SIDES, n=SIDES, k=SIDES, dies=st.integers(2, 4), rate=st.floats(1e6, 1e12))
def test_the_cheapest_side_to_split_a_product_by_is_what_crosses(m, n, k, dies, rate):
    one = small_machine(cores=4 * dies, l2_bytes=4096, buffer_bytes=1 << 16)
    several = replace(one, dies=dies, d2d_bytes_per_s=rate)
    received = []
    for shared in (k * n, m * k, m * n):  # split by m: k x n is shared; by n: m x k; by k: partial sums of m x n
        received.append(sum(2 * shared / dies for _ in range(dies - 1)))
    gemm = Gemm(m, n, k)
    assert on_chip_s(gemm, several) == pytest.approx(max(on_chip_s(gemm, one), min(received) / rate))
    assert on_chip_s(gemm, several, cores=4) == on_chip_s(gemm, one, cores=4)
    batch = Gemm(m, n, k, batch=dies)
    assert on_chip_s(batch, several) == on_chip_s(batch, one)


def test_a_template_has_the_links_of_its_dies_and_real_chips_those_of_their_package():
    template, b200 = (accelerator(name).machines for name in (Path("docs/examples/chip-2026.yaml"), "b200"))
    assert (template.dies, template.d2d_bytes_per_s) == (2, 2.0e12)
    assert (b200.dies, b200.d2d_bytes_per_s) == (2, 5.0e12)
    assert accelerator("h100-sxm").machines.dies == 1
    slow = replace(template, d2d_bytes_per_s=1e10)
    gemm = Gemm(8192, 8192, 8192)
    assert on_chip_s(gemm, slow) == pytest.approx(2 * 8192**2 / 2 / 1e10)
    assert on_chip_s(gemm, slow) > on_chip_s(gemm, template)
