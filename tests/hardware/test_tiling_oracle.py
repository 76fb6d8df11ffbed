"""The tiling search against a brute force over the same mappings, and its traffic counts against a walked loop nest."""

import itertools

import pytest

from hardware.estimator import estimate
from hardware.operations import Gemm
from tests.hardware.slow_tiler import OPERANDS, slowest_but_sure, walked_loads
from tests.hardware.small_machines import on_random_machines, small_machine


def cycles(gemm, machine):
    return estimate([gemm], machine, None).all_cores_s[0, 0] * machine.clock_hz


CASES = [
    (Gemm(8, 8, 8), small_machine(cores=2)),
    (Gemm(8, 4, 16), small_machine(cores=4, buffer_bytes=128)),
    (Gemm(4, 16, 8, batch=2), small_machine(cores=4, buffer_bytes=256, buffer_words_per_cycle=3.0)),
    (Gemm(7, 5, 6), small_machine(cores=3, width=4, depth=2, l2_bytes=48)),
    (Gemm(6, 6, 6, batch=3), small_machine(cores=6, buffer_bytes=160, hbm_bytes_per_s=4e9)),
    (Gemm(16, 2, 4), small_machine(cores=8, buffer_bytes=96, l2_bytes=40)),
    (Gemm(2, 2, 32), small_machine(cores=4, buffer_bytes=128, hbm_bytes_per_s=64e9)),
    (Gemm(8, 8, 8), small_machine(cores=2, model="phaze-2024", buffer_bytes=128)),
    (Gemm(8, 8, 4, batch=2), small_machine(cores=5, model="phaze-2024", buffer_words_per_cycle=2.0, l2_bytes=40)),
]


@pytest.mark.parametrize(("gemm", "machine"), CASES, ids=str)
def test_search_finds_the_best_mapping(gemm, machine):
    assert cycles(gemm, machine) == pytest.approx(slowest_but_sure(gemm, machine), rel=1e-12)


@on_random_machines(max_size=6, max_examples=25)
def test_search_finds_the_best_mapping_on_random_machines(gemm, machine):
    assert cycles(gemm, machine) == pytest.approx(slowest_but_sure(gemm, machine), rel=1e-12)


@pytest.mark.parametrize("x", range(3))
@pytest.mark.parametrize("outer_steps", [(1, 1, 1), (2, 1, 1), (1, 3, 1), (1, 1, 2), (2, 3, 2)])
@pytest.mark.parametrize("inner_steps", [(2, 2, 2), (1, 2, 3), (3, 1, 2), (1, 1, 1)])
def test_counted_loads_are_those_of_an_executed_loop_nest(x, outer_steps, inner_steps):
    """No operand is loaded more often than counted, and with several steps along every dimension exactly as often."""
    inner_order = [d for d in range(3) if d != x] + [x]
    for outer_order in itertools.permutations(range(3)):
        walked = walked_loads(outer_steps, outer_order, inner_steps, inner_order)
        for lacking, dimensions in OPERANDS.items():
            pieces = 1
            for dimension in dimensions:
                pieces *= outer_steps[dimension] * inner_steps[dimension]
            repeats = outer_steps[lacking] if lacking == x else outer_steps[lacking] * inner_steps[lacking]
            assert walked[lacking] <= pieces * repeats
            if min(inner_steps) > 1:
                assert walked[lacking] == pieces * repeats
