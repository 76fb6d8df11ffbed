"""The paper's mapper, implemented again, gives the cycles of the paper's wherever those are known."""

import itertools
import math

import numpy as np
import pytest

from dse.codesign.evaluation.pricing import price
from dse.codesign.options import CodesignOptions
from dse.reproduce.phaze import mapper
from dse.reproduce.phaze.mapper import ENERGIES_PJ, cycles
from dse.reproduce.phaze.mapper_prices import mapper_price
from dse.reproduce.phaze.mapper_tiles import (
    TENSORS,
    divisors,
    fits,
    grown,
    largest_reusing_tiles,
    largest_tiles,
    times,
    unrollings,
)
from hardware.operations import Fused, Gemm
from hardware.specs import accelerator
from tests.hardware.reference_cycles import SUNSTONE_CORES, SUNSTONE_CYCLES

BUFFER_BYTES = 128 << 20

SMALL = (12, 8, 30)


@pytest.mark.parametrize("energies_pj", [ENERGIES_PJ, (0.1, 2.0, 30.0, 512.0), (1.0, 6.0, 50.0, 200.0)])
@pytest.mark.parametrize("product", SUNSTONE_CYCLES)
def test_known_cycles_are_given_exactly_whatever_the_energies(product, energies_pj):
    for (cores, side), known in zip(SUNSTONE_CORES, SUNSTONE_CYCLES[product], strict=True):
        assert cycles(product, cores, side, side, BUFFER_BYTES, energies_pj) == known


@pytest.mark.parametrize("product", [(1024, 1600, 6400), (131, 77, 64), (50257, 1024, 3)])
@pytest.mark.parametrize(("cores", "width", "depth"), [(1, 128, 128), (8, 128, 128), (1, 4096, 4), (2, 16, 1024)])
def test_no_element_does_more_than_one_product_a_cycle(product, cores, width, depth):
    assert math.prod(product) / (cores * width * depth) <= cycles(product, cores, width, depth, BUFFER_BYTES) < math.inf


def test_a_long_array_is_used_like_a_square_one():
    # Two dimensions of the product lie along the side of 4,096.
    long, square = (cycles((2048, 4096, 4096), 1, *sides, BUFFER_BYTES) for sides in ((4096, 4), (128, 128)))
    assert long < 1.5 * square


def test_cores_share_the_words_of_one():
    product = (4096, 12288, 12288)
    assert cycles(product, 8, 128, 128, BUFFER_BYTES) == cycles(product, 1, 128, 128, BUFFER_BYTES)


@pytest.mark.parametrize(("cores", "sides"), [(1, (1, 1)), (2, (2, 1)), (4, (2, 2)), (8, (4, 2)), (32, (8, 4))])
def test_cores_lie_in_a_grid_that_is_as_square_as_powers_of_two_can_be(monkeypatch, cores, sides):
    seen = set()

    def watched(whole, across, along):
        seen.add((across, along))
        return unrollings(whole, across, along)

    monkeypatch.setattr(mapper, "unrollings", watched)
    assert cycles.__wrapped__((64, 64, 64), cores, 16, 8, BUFFER_BYTES) < math.inf
    assert seen == {(16, 8), sides}


def tiles_of(whole):
    return list(itertools.product(*map(divisors, whole)))


@pytest.mark.parametrize("capacity", [5, 17, 60, 200, (10, 20, 30)])
def test_the_largest_tiles_are_those_that_no_dimension_of_can_grow(capacity):
    fitting = {tile for tile in tiles_of(SMALL) if fits(tile, capacity)}
    largest = set()
    for tile in fitting:
        larger = [
            (*tile[:place], min(f for f in divisors(SMALL[place]) if f > tile[place]), *tile[place + 1 :])
            for place in range(3)
            if tile[place] < SMALL[place]
        ]
        if not fitting & set(larger):
            largest.add(tile)
    assert set(largest_tiles(SMALL, (1, 1, 1), capacity)) == largest | {(1, 1, 1)}
    if isinstance(capacity, int):
        for fixed in range(3):
            kept = set(largest_reusing_tiles(SMALL, fixed, capacity))
            assert kept
            assert kept <= largest
            # The fixed dimension has grown only where the others could not.
            for tile in kept:
                start = (*tile[:fixed], 1, *tile[fixed + 1 :])
                others = [larger for dimension, larger in grown(start, SMALL) if dimension != fixed]
                assert tile == start or not any(fits(larger, capacity) for larger in others)


@pytest.mark.parametrize("sides", [(4, 2), (12, 6), (7, 5), (64, 64)])
def test_unrollings_fill_both_sides_with_the_dimensions_of_a_tensor_where_they_can(sides):
    across, along = sides
    exact = {
        (times(first, second), tensor)
        for first, second in itertools.product(tiles_of(SMALL), repeat=2)
        if math.prod(first) == across and math.prod(second) == along
        for tensor, dimensions in enumerate(TENSORS)
        if all(size == 1 for place, size in enumerate(times(first, second)) if place not in dimensions)
        if all(whole % size == 0 for whole, size in zip(SMALL, times(first, second), strict=True))
    }
    found = unrollings(SMALL, *sides)
    assert found
    assert len(set(found)) == len(found)
    assert exact <= set(found)
    for elements, _ in found:
        assert math.prod(elements) <= across * along
        assert all(whole % size == 0 for whole, size in zip(SMALL, elements, strict=True))


def test_only_products_are_priced_anew():
    options = CodesignOptions(("bert-large",), cost_model="phaze-2024", granularity="trace", microbatch="1")
    (job,) = options.problem().jobs
    graph = job.workload.graph(1, 1, job.recipe)
    machines = accelerator("tpuv4-phaze", job.cost_model).machines
    (ours,), (mapped,) = price([graph], machines, job.network), mapper_price([graph], machines, job.network)
    operations = [operator.operation for part in ours.parts for operator in part]
    assert any(isinstance(each, Gemm | Fused) for each in operations)
    for row, operation in enumerate(operations):
        product = operation.tensor if isinstance(operation, Fused) else operation
        before, after = (np.array([each.single_s[row, 0], each.all_cores_s[row, 0]]) for each in (ours, mapped))
        if isinstance(product, Gemm):
            sizes = (product.batch * product.m, product.k, product.n)
            expected = [cycles(sizes, cores, 128, 128, BUFFER_BYTES) for cores in (1, 8)]
            assert after * machines.clock_hz == pytest.approx(expected)
        else:
            assert np.array_equal(before, after)
