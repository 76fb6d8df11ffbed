"""Laws that every estimate must keep, on random machines and operations."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware.cost_model import BandwidthShare, cost_model
from hardware.estimator import estimate
from hardware.network import Network
from hardware.operations import Collective, Convolution, Fused, Gemm, Transfer, Vector
from hardware.space import architecture_space
from tests.hardware.small_machines import small_machine

ROUNDING = 1 + 1e-9
NETWORK = Network("test", bytes_per_s=1e10)

sizes = st.one_of(st.integers(1, 64), st.sampled_from([96, 128, 512, 768, 1000, 1024, 4096, 30522]))
gemms = st.builds(Gemm, m=sizes, n=sizes, k=sizes, batch=st.sampled_from([1, 2, 12, 16, 96]))
vectors = st.builds(
    lambda kind, rows, row: Vector(kind, rows * row, 2 * rows * row, rows * row, row),
    kind=st.sampled_from(["add", "gelu", "softmax", "layer_norm", "dropout", "adam"]),
    rows=st.integers(1, 5000),
    row=st.sampled_from([1, 7, 64, 512, 1000, 4096]),
)
fused = st.builds(
    lambda gemm, kind, row: Fused(
        gemm, (Vector(kind, gemm.output_elements, gemm.output_elements, gemm.output_elements, row),)
    ),
    gemm=gemms,
    kind=st.sampled_from(["gelu", "relu", "softmax", "dropout"]),
    row=st.sampled_from([1, 512]),
)
operations = st.one_of(gemms, vectors, fused)
powers = st.integers(0, 8).map(lambda bit: 1 << bit)
machines = st.builds(
    small_machine,
    cores=powers,
    width=powers,
    depth=powers,
    vector_cores=powers,
    lanes=powers,
    l2_bytes=st.sampled_from([4096, 65536, 1 << 20]),
    buffer_bytes=st.sampled_from([2 << 20, 16 << 20, 128 << 20]),
    hbm_bytes_per_s=st.sampled_from([1e11, 1.2e12]),
    buffer_words_per_cycle=st.sampled_from([64.0, 256.0, 4096.0]),
    model=st.sampled_from(["consistent", "phaze-2024"]),
)


def seconds(operation, machine):
    latency = estimate([operation], machine, NETWORK)
    return latency.single_s[0, 0], latency.all_cores_s[0, 0]


def never_slower(operation, machine, **better):
    before = seconds(operation, machine)
    after = seconds(operation, dataclasses.replace(machine, **better))
    assert after[0] <= before[0] * ROUNDING
    assert after[1] <= before[1] * ROUNDING


@settings(max_examples=60, deadline=None)
@given(operation=operations, machine=machines)
def test_more_bandwidth_is_never_slower(operation, machine):
    never_slower(operation, machine, hbm_bytes_per_s=machine.hbm_bytes_per_s * 1.7)
    never_slower(operation, machine, global_buffer_words_per_cycle=machine.global_buffer_words_per_cycle * 1.7)


@settings(max_examples=60, deadline=None)
@given(operation=operations, machine=machines)
def test_a_larger_buffer_is_never_slower(operation, machine):
    never_slower(operation, machine, tensor_l2_bytes=machine.tensor_l2_bytes * 2)
    never_slower(operation, machine, global_buffer_bytes=machine.global_buffer_bytes * 2)


@settings(max_examples=60, deadline=None)
@given(operation=st.one_of(gemms, vectors), machine=machines)
def test_more_cores_are_never_slower(operation, machine):
    more = dataclasses.replace(machine, tensor_cores=machine.tensor_cores * 2, vector_cores=machine.vector_cores * 2)
    assert seconds(operation, more)[1] <= seconds(operation, machine)[1] * ROUNDING


@settings(max_examples=40, deadline=None)
@given(operation=st.one_of(gemms, vectors), machine=machines)
def test_all_cores_are_never_slower_than_one(operation, machine):
    single_s, all_cores_s = seconds(operation, machine)
    assert all_cores_s <= single_s * ROUNDING


@settings(max_examples=60, deadline=None)
@given(gemm=gemms, machine=machines)
def test_a_product_is_never_faster_than_the_roofline(gemm, machine):
    single_s, all_cores_s = seconds(gemm, machine)
    cores = machine.tensor_cores[0]
    moved = (gemm.input_elements, gemm.output_elements)
    shared = machine.rules.hbm_shares_reads_and_writes.value
    words = sum(moved) if shared else max(moved)
    memory_s = words * machine.element_bytes / machine.hbm_bytes_per_s
    assert all_cores_s * ROUNDING >= max(gemm.flops / machine.peak_flops[0], memory_s)
    assert single_s * ROUNDING >= max(gemm.flops * cores / machine.peak_flops[0], memory_s)
    assert np.isfinite(single_s)


@settings(max_examples=40, deadline=None)
@given(operation=operations, machine=machines)
def test_twice_the_clock_and_the_memory_rate_halve_every_time(operation, machine):
    before = seconds(operation, machine)
    after = seconds(
        operation,
        dataclasses.replace(machine, clock_hz=2 * machine.clock_hz, hbm_bytes_per_s=2 * machine.hbm_bytes_per_s),
    )
    assert after == pytest.approx((before[0] / 2, before[1] / 2), rel=1e-9)


def test_twice_the_clock_halves_compute_bound_work():
    machine = small_machine(cores=4, width=16, depth=16, l2_bytes=65536, buffer_bytes=1 << 27, hbm_bytes_per_s=1e15)
    faster = dataclasses.replace(machine, clock_hz=2 * machine.clock_hz)
    for operation in (Gemm(512, 512, 512), Vector("gelu", 1 << 20, 1 << 20, 1 << 20)):
        machine = dataclasses.replace(machine, global_buffer_words_per_cycle=1e6)
        faster = dataclasses.replace(faster, global_buffer_words_per_cycle=1e6)
        assert seconds(operation, faster)[1] == pytest.approx(seconds(operation, machine)[1] / 2, rel=1e-9)


@settings(max_examples=60, deadline=None)
@given(gemm=gemms, machine=machines)
def test_transposing_a_product_changes_nothing(gemm, machine):
    """Cᵀ = Bᵀ·Aᵀ: the two inputs swap, on arrays of any shape (either side takes either dimension)."""
    turned = Gemm(m=gemm.n, n=gemm.m, k=gemm.k, batch=gemm.batch)
    assert seconds(turned, machine) == pytest.approx(seconds(gemm, machine), rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(gemm=gemms, machine=machines, factor=st.sampled_from([2, 3, 8]))
def test_more_products_take_no_less_and_at_most_in_proportion(gemm, machine, factor):
    once = seconds(gemm, machine)
    often = seconds(dataclasses.replace(gemm, batch=gemm.batch * factor), machine)
    assert once[0] <= often[0] * ROUNDING <= factor * once[0] * ROUNDING**2
    assert often[1] * ROUNDING >= once[1]


@settings(max_examples=60, deadline=None)
@given(operation=fused, machine=machines)
def test_fused_work_is_between_its_parts_and_their_sum(operation, machine):
    together = np.array(seconds(operation, machine))
    unmoved = dataclasses.replace(operation.epilogue[0], read_elements=0, write_elements=0)
    apart = np.array(seconds(operation.tensor, machine)) + np.array(seconds(operation.epilogue[0], machine))
    assert (together <= apart * ROUNDING).all()
    if not machine.rules.fused_vector_work_is_free.value:
        elementwise = dataclasses.replace(unmoved, kind="relu", row=1)
        assert (together * ROUNDING >= np.array(seconds(elementwise, machine))).all()


@settings(max_examples=30, deadline=None)
@given(operation=operations, machine=machines)
def test_an_equal_share_of_bandwidth_is_never_faster(operation, machine):
    whole, equal = (
        seconds(operation, dataclasses.replace(machine, rules=machine.rules.model_copy(update=update)))
        for update in (
            {"single_core_share_of_bandwidth": BandwidthShare(rule=rule, source="test")} for rule in ("whole", "equal")
        )
    )
    assert equal[0] * ROUNDING >= whole[0]
    assert equal[1] == whole[1]


def test_cores_side_by_side_need_no_more_than_the_memory_has():
    """Eight memory-bound operations at once, one a core, move their bytes no faster than the HBM can."""
    machine = small_machine(cores=8, vector_cores=8, lanes=128, buffer_words_per_cycle=4096.0, hbm_bytes_per_s=1e11)
    operation = Vector("copy", 1 << 20, 1 << 20, 1 << 20)
    bytes_moved = 8 * 2 * machine.element_bytes << 20
    assert seconds(operation, machine)[0] >= bytes_moved / machine.hbm_bytes_per_s


def test_arrays_are_priced_as_their_entries_alone():
    space = architecture_space()
    chosen = space.take(np.random.default_rng(3).choice(len(space), 40, replace=False))
    mixed = [
        Gemm(512, 1024, 1024),
        Vector("softmax", 1 << 18, 1 << 18, 1 << 18, 512),
        Gemm(512, 1024, 1024),
        Fused(Gemm(512, 4096, 1024), (Vector("gelu", 1 << 21, 1 << 21, 1 << 21),)),
        Collective("all_reduce", 1 << 19, 4),
        Transfer(1 << 19),
        Convolution(4, 64, 64, 28, 28, 3, 3, 1, 1),
        Gemm(128, 64, 128, batch=16),
    ]
    together = estimate(mixed, chosen, NETWORK)
    assert together.single_s.shape == together.all_cores_s.shape == (8, 40)
    for row, operation in enumerate(mixed):
        for column in (0, 17, 39):
            alone = estimate([operation], chosen.one(column), NETWORK)
            assert together.single_s[row, column] == pytest.approx(alone.single_s[0, 0], rel=1e-12)
            assert together.all_cores_s[row, column] == pytest.approx(alone.all_cores_s[0, 0], rel=1e-12)


def test_no_operations_give_no_rows():
    assert estimate([], architecture_space(10.0), None).single_s.shape[0] == 0


def test_the_whole_space_has_finite_times_under_both_cost_models():
    for name in ("consistent", "phaze-2024"):
        latency = estimate([Gemm(512, 1024, 1024), Gemm(3, 5, 7)], architecture_space(model=cost_model(name)), None)
        assert np.isfinite(latency.single_s).all()
        assert np.isfinite(latency.all_cores_s).all()


def test_sizes_below_one_are_refused():
    with pytest.raises(ValueError, match="at least 1"):
        estimate([Gemm(0, 4, 4)], small_machine(), None)


def test_collectives_need_a_network():
    with pytest.raises(ValueError, match="network must be given"):
        estimate([Collective("all_reduce", 8, 2)], small_machine(), None)
