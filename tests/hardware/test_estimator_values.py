"""Estimates against numbers worked out by hand, and against the reference mapper of the published tool."""

import dataclasses
from typing import get_args

import numpy as np
import pytest

from hardware.cost_model import cost_model, vector_cycles
from hardware.estimator import estimate
from hardware.network import Network
from hardware.operations import Collective, Convolution, Fused, Gemm, Transfer, Vector, VectorKind
from hardware.space import template_machines
from tests.hardware.reference_cycles import SUNSTONE_CORES, SUNSTONE_CYCLES
from tests.hardware.small_machines import small_machine

NETWORK = Network("test", bytes_per_s=1e10)


def template(cores, side, model, buffer_mib=128, vector_cores=1):
    sizes = (cores, vector_cores, side, side, buffer_mib)
    return template_machines(*(np.array([size]) for size in sizes), model=cost_model(model))


def seconds(operation, machine):
    latency = estimate([operation], machine, NETWORK)
    return latency.single_s[0, 0], latency.all_cores_s[0, 0]


@pytest.mark.parametrize(("shape", "reference"), SUNSTONE_CYCLES.items(), ids=str)
def test_published_bandwidths_give_the_reference_mappers_cycles(shape, reference):
    """Within 10 % of Sunstone on large products; on the small one within 20 %, and faster where its search failed."""
    rows, inputs, outputs = shape
    for (cores, side), cycles in zip(SUNSTONE_CORES, reference, strict=True):
        machine = template(cores, side, "phaze-2024")
        ours = seconds(Gemm(rows, outputs, inputs), machine)[1] * machine.clock_hz
        assert ours >= rows * inputs * outputs / (cores * side * side)
        if rows > 512:
            assert ours == pytest.approx(cycles, rel=0.10)
        else:
            assert ours <= cycles * 1.2001


def test_published_bandwidths_make_eight_cores_no_faster_than_one():
    product = Gemm(4096, 4096, 4096)
    one, eight = (seconds(product, template(cores, 128, "phaze-2024"))[1] for cores in (1, 8))
    assert eight > 0.65 * one
    one, eight = (seconds(product, template(cores, 128, "consistent"))[1] for cores in (1, 8))
    assert eight == pytest.approx(one / 8, rel=0.02)


def test_a_compute_bound_product_takes_the_time_computed_by_hand():
    """4096³ on 8 cores of 128 × 128: 2²² cycles, all processing elements busy."""
    machine = template(8, 128, "consistent")
    assert seconds(Gemm(4096, 4096, 4096), machine)[1] == pytest.approx(2**36 / (8 * 128 * 128) / 1.05e9)


def test_a_memory_bound_product_takes_the_time_computed_by_hand():
    """A matrix times a vector: its words once through 1.2 TB/s."""
    words = 8192 * 8192 + 8192 + 8192
    assert seconds(Gemm(1, 8192, 8192), template(8, 128, "consistent"))[1] == pytest.approx(words * 2 / 1.2e12)


def test_edges_of_the_array_are_counted():
    """129 rows and columns need two passes each way on a 128 × 128 array, whatever is stationary."""
    machine = template(1, 128, "consistent")
    full, over = (seconds(Gemm(side, side, side), machine)[1] * machine.clock_hz for side in (128, 129))
    assert full == pytest.approx(128)
    assert over == pytest.approx(4 * 129, rel=0.2)


def test_the_batch_is_spread_over_cores():
    heads = Gemm(128, 128, 128, batch=64)
    machine = template(8, 128, "consistent")
    assert seconds(heads, machine)[1] * machine.clock_hz <= 1.2 * max(
        128 * 8, 64 * 3 * 128 * 128 / (1.2e12 / 2 / 1.05e9)
    )


def test_a_convolution_reads_its_input_once():
    """A memory-bound 3 × 3 convolution moves its input once, its implicit product nine times as much."""
    convolution = Convolution(8, 16, 16, 64, 64, 3, 3, 1, 1)
    machine = dataclasses.replace(template(8, 128, "consistent"), hbm_bytes_per_s=1e9)
    words = convolution.input_elements + convolution.output_elements
    assert seconds(convolution, machine)[1] == pytest.approx(words * 2 / 1e9)
    assert seconds(convolution.gemm, machine)[1] > 4 * seconds(convolution, machine)[1]


def test_elementwise_work_takes_the_time_computed_by_hand():
    machine = small_machine(cores=4, vector_cores=4, lanes=8, hbm_bytes_per_s=1e12, buffer_words_per_cycle=1e6)
    work = Vector("tanh", 1000, 1000, 1000)
    assert seconds(work, machine)[1] == pytest.approx(32 * 27 / 1e9)
    bound = dataclasses.replace(machine, hbm_bytes_per_s=1e9)
    assert seconds(work, bound)[1] == pytest.approx(2000 * 2 / 1e9)


def test_published_vector_work_has_no_memory_and_no_rows():
    work = Vector("softmax", 10 * 1000, 10 * 1000, 10 * 1000, 1000)
    published = small_machine(vector_cores=64, lanes=4, hbm_bytes_per_s=1.0, model="phaze-2024")
    assert seconds(work, published)[1] == pytest.approx(40 * 11 / 1e9)


def test_rows_limit_the_cores_that_help():
    """10 rows keep 10 of 64 cores busy: 250 passes of 4 lanes over each row."""
    work = Vector("softmax", 10 * 1000, 0, 0, 1000)
    machine = small_machine(vector_cores=64, lanes=4)
    assert seconds(work, machine)[1] == pytest.approx(250 * 11 / 1e9)
    elementwise = Vector("gelu", 10 * 1000, 0, 0, 1000)
    assert seconds(elementwise, machine)[1] == pytest.approx(40 * 19 / 1e9)


def test_short_rows_share_the_lanes_of_a_core():
    work = Vector("layer_norm", 64 * 16, 0, 0, 16)
    assert seconds(work, small_machine(vector_cores=1, lanes=64))[1] == pytest.approx(16 / 1e9)


def test_every_kind_of_vector_work_has_a_time():
    machine = small_machine()
    operations = [Vector(kind, 1024, 2048, 1024, 32) for kind in get_args(VectorKind)]
    latency = estimate(operations, machine, None)
    assert (latency.all_cores_s > 0).all()
    published = vector_cycles().cycles
    for kind, cycles in {"add": 1, "tanh": 27, "softmax": 11, "dropout": 2, "layer_norm": 1, "relu": 1}.items():
        assert published[kind].value == cycles


def test_fused_work_saves_the_trip_to_memory():
    gemm = Gemm(1024, 1024, 64)
    outputs = gemm.output_elements
    fused = Fused(gemm, (Vector("relu", outputs, outputs, outputs),))
    machine = dataclasses.replace(template(8, 128, "consistent", vector_cores=64), hbm_bytes_per_s=1e10)
    apart_s = seconds(gemm, machine)[1] + seconds(fused.epilogue[0], machine)[1]
    together_s = seconds(fused, machine)[1]
    assert apart_s - together_s == pytest.approx(2 * outputs * 2 / 1e10, rel=0.01)


def test_fused_work_reads_its_second_operand():
    gemm = Gemm(1024, 1024, 64)
    outputs = gemm.output_elements
    machine = dataclasses.replace(template(8, 128, "consistent", vector_cores=64), hbm_bytes_per_s=1e10)
    alone_s, added_s = (
        seconds(Fused(gemm, (Vector("add", outputs, reads, outputs),)), machine)[1] for reads in (outputs, 2 * outputs)
    )
    assert added_s - alone_s == pytest.approx(outputs * 2 / 1e10, rel=0.01)


def test_fused_vector_work_is_paid_or_free():
    gemm = Gemm(512, 512, 64)
    slow = Fused(gemm, (Vector("gelu", gemm.output_elements, gemm.output_elements, gemm.output_elements),))
    ours, published = template(8, 128, "consistent"), template(8, 128, "phaze-2024")
    vector_s = gemm.output_elements / 128 * 19 / 1.05e9
    assert seconds(slow, ours)[1] >= vector_s
    assert seconds(slow, published)[1] == seconds(gemm, published)[1] < vector_s


def test_one_output_tile_cannot_overlap():
    gemm = Gemm(128, 128, 128)
    machine = template(1, 128, "consistent")
    fused = Fused(gemm, (Vector("gelu", 128 * 128, 128 * 128, 128 * 128),))
    product_s, vector_s = seconds(gemm, machine)[1], 128 * 19 / 1.05e9
    assert seconds(fused, machine)[1] == pytest.approx(product_s + vector_s, rel=0.01)


def test_collectives_take_the_time_computed_by_hand():
    machine = small_machine(lanes=16, vector_cores=4, buffer_words_per_cycle=1e6)
    elements, peers = 1 << 20, 4
    moved_s = 2 * 3 / 4 * elements * 2 / 1e10
    added = 3 * elements // 4
    adding_s = max(added / 64 / 1e9, 3 * added * 2 / machine.hbm_bytes_per_s)
    assert seconds(Collective("all_reduce", elements, peers), machine)[1] == pytest.approx(moved_s + adding_s)
    assert seconds(Collective("all_gather", elements, peers), machine)[1] == pytest.approx(moved_s / 2)
    assert seconds(Collective("reduce_scatter", elements, peers), machine)[1] == pytest.approx(moved_s / 2 + adding_s)
    assert seconds(Collective("all_reduce", elements, 1), machine)[1] == 0
    assert seconds(Collective("all_to_all", elements, peers), machine)[1] == pytest.approx(moved_s / 2 / peers)
    assert seconds(Collective("permute", elements, peers), machine)[1] == pytest.approx(elements * 2 / 1e10)
    assert seconds(Transfer(elements), machine)[1] == pytest.approx(elements * 2 / 1e10)


def test_the_published_network_looks_a_thousand_times_faster():
    ours, published = (small_machine(model=model) for model in ("consistent", "phaze-2024"))
    transfer = Transfer(1 << 20)
    assert seconds(transfer, published)[1] == pytest.approx(seconds(transfer, ours)[1] / 1000)
