"""Energy: the spec's constants, traffic against a slow recount, laws, and power bounds."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hardware.cost_model import cost_model
from hardware.energy import LEVELS, energy_by_level, operation_energy, static_w
from hardware.energy_model import component_energies, energy_model
from hardware.estimator import estimate
from hardware.gemm import TensorWork, tensor_times, tensor_traffic
from hardware.inputs import InputError
from hardware.network import Network
from hardware.operations import Collective, Convolution, Fused, Gemm, Transfer, Vector
from hardware.silicon.chips import silicon
from hardware.silicon.energy import multiply_accumulate_pj, process_energy
from hardware.silicon.power import power
from hardware.silicon.tables import blocks, energy_scale, nodes
from hardware.space import architecture_space
from hardware.spec_fields import spec_names
from hardware.specs import accelerator
from hardware.units import GIB
from tests.hardware import slow_tiler
from tests.hardware.peak_power import peak_w
from tests.hardware.small_machines import on_random_machines, small_machine
from tests.hardware.test_estimator_laws import NETWORK, gemms, machines, operations, vectors
from tests.hardware.test_specs import numbers_without_source, text_of

MODEL, COMPONENTS = energy_model(), component_energies()
ROUNDING = 1 + 1e-9

COLUMNS = {  # pJ at 45 nm (Horowitz 2014) and at 7 nm (Jouppi et al. 2021)
    "multiply": (1.1, 0.34),
    "accumulate": (0.9, 0.38),
    8192: (10, 7.5),
    32768: (20, 8.5),
    1048576: (100, 14),
}


def joules(operation, machine, model=MODEL):
    return operation_energy([operation], machine, model)[0, 0]


# --- the models


@pytest.mark.parametrize("name", spec_names("energy"))
def test_every_constant_has_a_source(name):
    assert numbers_without_source(yaml.safe_load(text_of("energy", name))) == []
    assert component_energies(name).name == energy_model(name).name == name


def test_22_nm_lies_between_the_published_columns():
    share = math.log(45 / 22) / math.log(45 / 7)
    known = {"multiply": COMPONENTS.multiply_pj.value, "accumulate": COMPONENTS.accumulate_pj.value}
    energies = known | COMPONENTS.sram.access_pj
    for key, (first_pj, last_pj) in COLUMNS.items():
        assert energies[key] == pytest.approx(first_pj ** (1 - share) * last_pj**share, rel=1e-3)


def test_the_template_of_the_paper_is_priced_at_22_nm_and_others_by_their_package():
    assert accelerator("tpuv4-phaze").machines.energy == MODEL
    assert accelerator("tpuv4-phaze").machines.process_nm is None
    assert accelerator("tpuv4").machines.process_nm == 7
    assert accelerator("tpuv4").machines.energy.sram is None


@pytest.mark.parametrize("name", ["h100-sxm", "a100-sxm", "b200", "tpuv4", "v100", "docs/examples/chip-2026.yaml"])
def test_operations_bytes_and_idle_power_add_up_to_what_the_package_draws(name):
    chip, package = accelerator(name), silicon(name)
    machines, energy, drawn = chip.machines, chip.machines.energy, power(package)
    (die, _), *_ = package.dies
    macs, lanes = (
        sum(count * float(each.working_cores * getattr(each, key)) for each, count in package.dies)
        for key in ("macs_per_core", "lanes_per_core")
    )
    links = sum(count * float(each.link_bytes_per_s) for each, count in package.dies)
    joules = macs * package.clock_hz * energy.multiply_accumulate_pj + lanes * package.clock_hz * energy.lane_cycle_pj
    joules += float(package.memory_rate) * energy.hbm_pj_per_byte + links * energy.network_pj_per_byte
    between_dies = sum(count * float(each.d2d_bytes_per_s) for each, count in package.dies)
    d2d_w = 8e-12 * blocks().d2d_pj_per_bit.value * between_dies
    idle_w = static_w(machines, chip.hbm_bytes, energy)[0]
    assert 1e-12 * joules + idle_w + d2d_w == pytest.approx(float(drawn.demand(package.clock_hz).value), rel=1e-6)
    assert idle_w == pytest.approx(float(drawn.idle(package.clock_hz).value), rel=1e-6)
    assert energy.multiply_accumulate_pj == float(multiply_accumulate_pj(die.node).value)


@given(st.floats(2, 45), st.floats(2, 45))
def test_a_newer_process_never_needs_more_energy(first_nm, second_nm):
    newer, older = (process_energy(process_nm, 1e9) for process_nm in sorted((first_nm, second_nm)))
    assert newer.multiply_accumulate_pj <= older.multiply_accumulate_pj * ROUNDING
    assert newer.lane_cycle_pj <= older.lane_cycle_pj * ROUNDING


def test_nodes_have_the_energy_of_their_row():
    for node, row in nodes().items():
        assert energy_scale(node) == row.energy
    assert nodes()[22].energy < energy_scale(25) < nodes()[28].energy < energy_scale(45)


@pytest.mark.parametrize(("name", "tdp_w"), [("a100-sxm", 400), ("h100-sxm", 700), ("v100", 300), ("tpuv4", 192)])
def test_power_above_the_chips_limit_is_noted(name, tdp_w):
    chip = accelerator(name)
    assert chip.tdp_w == tdp_w
    assert chip.power_note(tdp_w) is None
    assert f"{tdp_w + 1} W exceed the chip's {tdp_w} W" in chip.power_note(tdp_w + 1)
    assert accelerator("tpuv4-phaze").power_note(1e6) is None


def test_idle_power_is_that_of_the_published_chip():
    machine = accelerator("tpuv4-phaze").machines
    assert static_w(machine, 32 * GIB, MODEL)[0] == pytest.approx(90, rel=1e-3)


def test_sram_energy_is_a_power_of_the_size_between_and_beyond_the_figures():
    sizes = np.array([2048, 8192, 16384, 32768, 1 << 20, 128 << 20])
    sizes_pj = MODEL.sram_pj_per_byte(sizes) * MODEL.sram.access_bits / 8
    points = MODEL.sram.access_pj
    assert sizes_pj[[1, 3, 4]] == pytest.approx([points[8192], points[32768], points[1 << 20]])
    assert sizes_pj[2] == pytest.approx(math.sqrt(points[8192] * points[32768]))
    assert sizes_pj[0] == pytest.approx(points[8192] ** 2 / points[32768])
    growth = math.log(points[1 << 20] / points[32768]) / math.log(32)
    assert sizes_pj[5] == pytest.approx(points[1 << 20] * 128**growth)


def broken(change):
    document = yaml.safe_load(text_of("energy", "horowitz-22nm"))
    change(document)
    return document


@pytest.mark.parametrize(
    ("change", "key"),
    [
        (lambda d: d.pop("hbm_pj_per_bit"), "hbm_pj_per_bit"),
        (lambda d: d["multiply_pj"].update(value=0), "multiply_pj.value"),
        (lambda d: d["multiply_pj"].pop("source"), "multiply_pj.source"),
        (lambda d: d["idle_w_per_mm2"].update(value=-1), "idle_w_per_mm2.value"),
        (lambda d: d["sram"].update(access_pj={8192: 5}), "sram.access_pj"),
        (lambda d: d["sram"].update(access_pj={8192: 5, 32768: 4}), "sram"),
        (lambda d: d.update(hbm_pj_per_bits=d.pop("hbm_pj_per_bit")), "hbm_pj_per_bits"),
    ],
)
def test_a_broken_model_names_file_and_key(change, key, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(broken(change)))
    with pytest.raises(InputError) as caught:
        energy_model(str(path))
    assert any(fault.file == str(path) and fault.key == key for fault in caught.value.faults)


def test_an_unknown_model_names_the_nearest_one():
    with pytest.raises(InputError, match="did you mean horowitz-22nm"):
        energy_model("horowitz-22")


# --- traffic of tensor work


def best_mappings(gemm, machine):
    """(least HBM words of the fastest mappings, {(buffer words, core words)} of those), by trying every mapping."""
    usable = machine.rules.usable_buffer_fraction.value / machine.element_bytes
    l2_words, buffer_words = (
        math.floor(size[0] * usable) for size in (machine.tensor_l2_bytes, machine.global_buffer_bytes)
    )
    sizes = (gemm.m, gemm.n, gemm.k)
    rate = machine.hbm_bytes_per_s / machine.element_bytes / machine.clock_hz
    tiles = {
        tile: slow_tiler.hbm_words(sizes, gemm.batch, tile, shared=True)
        for tile in itertools.product(*(slow_tiler.tiles(size) for size in sizes))
    }
    mappings = []
    for parts in slow_tiler.splits(int(machine.tensor_cores[0]), gemm.batch, gemm.m, gemm.n):
        shares = 1 << (parts[0] - 1).bit_length()
        for mapping in slow_tiler.core_mappings(gemm, machine, parts, l2_words):
            for tile, words in tiles.items():
                if shares * slow_tiler.footprint(tile) > buffer_words:
                    continue
                if all(side >= smallest for side, smallest in zip(tile, mapping["min_tile"], strict=True)):
                    x_steps = math.ceil(sizes[mapping["x"]] / tile[mapping["x"]])
                    cycles = max(slow_tiler.on_chip(gemm, machine, parts, mapping, x_steps), words / rate)
                    mappings.append((cycles, words, on_chip_words(gemm, parts, mapping, x_steps)))
    fastest_cycles = min(cycles for cycles, _, _ in mappings)
    fastest = [(words, others) for cycles, words, others in mappings if cycles <= fastest_cycles * ROUNDING]
    fewest = min(words for words, _ in fastest)
    return fewest, {others for words, others in fastest if words == fewest}


def on_chip_words(gemm, parts, mapping, x_steps):
    """(buffer words, core words): what buffer and cores exchange, and what all L2 exchange with arrays and buffer."""
    moves = list(mapping["steps"])
    moves[mapping["x"]] = x_steps
    streamed = list(mapping["steps"])
    if mapping["x"] == mapping["s"]:
        streamed[mapping["s"]] = x_steps
    sizes, cores_along = (gemm.m, gemm.n, gemm.k), (parts[1], parts[2], 1)
    once = [gemm.batch * sizes[a] * sizes[b] for a, b in slow_tiler.OPERANDS.values()]
    each = [words * cores_along[lacking] for lacking, words in enumerate(once)]
    between = sum(slow_tiler.traffic(once, moves))
    return between, sum(slow_tiler.traffic(each, streamed)) + sum(slow_tiler.traffic(each, moves))


@on_random_machines(max_size=7, max_examples=20)
def test_traffic_is_that_of_a_fastest_mapping_with_the_least_hbm_traffic(gemm, machine):
    moved = tensor_traffic([TensorWork(gemm)], machine)
    fewest, others = best_mappings(gemm, machine)
    assert moved.hbm_words[0, 0] == fewest
    assert (moved.buffer_words[0, 0], moved.core_words[0, 0]) in others


def test_traffic_is_no_more_than_that_of_the_mapping_that_latency_takes():
    space = architecture_space().take(np.arange(0, 29360, 97))
    work = [TensorWork(gemm) for gemm in (Gemm(4096, 1024, 1024), Gemm(512, 512, 64, batch=64), Gemm(1000, 30522, 768))]
    times = tensor_times(work, space, space.tensor_cores, np.ones(len(space)))
    latency_words = times.hbm_s * space.hbm_bytes_per_s / space.element_bytes
    moved = tensor_traffic(work, space).hbm_words
    compulsory = np.array([[item.operation.input_elements + item.operation.output_elements] for item in work])
    assert (moved <= latency_words * ROUNDING).all()
    assert (moved >= compulsory).all()


def test_a_product_that_fits_moves_each_operand_once():
    machine = small_machine(cores=1, width=4, depth=4, l2_bytes=1 << 16, buffer_bytes=1 << 20)
    gemm = Gemm(16, 8, 32, batch=3)
    level = energy_by_level([gemm], machine, MODEL)
    moved_bytes = 2 * (gemm.input_elements + gemm.output_elements)
    assert level.hbm_j[0, 0] == pytest.approx(moved_bytes * 8 * 3.92e-12)
    unit_pj = COMPONENTS.multiply_pj.value + COMPONENTS.accumulate_pj.value + 4 * COMPONENTS.register_pj.value
    assert level.compute_j[0, 0] == pytest.approx(gemm.flops / 2 * unit_pj * 1e-12)
    assert level.vector_j[0, 0] == level.network_j[0, 0] == 0


def test_a_convolution_reads_its_input_once_from_hbm():
    machine = small_machine(cores=1, width=4, depth=4, l2_bytes=1 << 16, buffer_bytes=1 << 22)
    convolution = Convolution(1, 8, 8, 16, 16, 3, 3, padding=1)
    elements = convolution.input_elements + convolution.output_elements
    assert energy_by_level([convolution], machine, MODEL).hbm_j[0, 0] == pytest.approx(elements * 16 * 3.92e-12)


# --- other operations


def test_vector_work_needs_the_energy_computed_by_hand():
    machine = small_machine(l2_bytes=8192, buffer_bytes=1 << 20)
    level = energy_by_level([Vector("gelu", 100, 100, 100)], machine, MODEL)
    unit_pj = COMPONENTS.multiply_pj.value + COMPONENTS.accumulate_pj.value + 3 * COMPONENTS.register_pj.value
    assert level.vector_j[0, 0] == pytest.approx(100 * 19 * unit_pj * 1e-12)
    assert level.hbm_j[0, 0] == pytest.approx(200 * 16 * 3.92e-12)
    assert level.core_j[0, 0] == pytest.approx(2 * 200 * 2 * MODEL.sram.access_pj[8192] / 8 * 1e-12)
    assert level.buffer_j[0, 0] == pytest.approx(2 * 200 * 2 * MODEL.sram.access_pj[1 << 20] / 8 * 1e-12)


@pytest.mark.parametrize(
    ("kind", "passes"),
    [("all_reduce", 2), ("reduce_scatter", 1), ("all_gather", 1), ("all_to_all", 1 / 4), ("permute", 4 / 3)],
)
def test_a_ring_sends_its_share_and_adds_it(kind, passes):
    machine = small_machine()
    level = energy_by_level([Collective(kind, 4000, 4)], machine, MODEL)
    sent_bytes = passes * 2 * 4000 * 3 / 4
    assert level.network_j[0, 0] == pytest.approx(sent_bytes * 80e-12)
    added = joules(Vector("add", 3000, 6000, 3000), machine) if "reduce" in kind else 0
    assert level.total_j[0, 0] == pytest.approx(
        1e-12 * sent_bytes * (MODEL.network_pj_per_byte + 2 * MODEL.hbm_pj_per_byte) + added
    )
    assert joules(Collective(kind, 4000, 1), machine) == 0


def test_a_transfer_pays_link_and_both_memories():
    assert joules(Transfer(1000), small_machine()) == pytest.approx(2000 * 8 * (10 + 2 * 3.92) * 1e-12)


def test_rows_keep_the_order_and_repeats_of_the_operations():
    space = architecture_space().take([3, 20_000, 3])
    some = [Gemm(64, 64, 64), Vector("add", 10, 20, 10), Gemm(64, 64, 64), Transfer(5), Collective("all_gather", 8, 2)]
    table = operation_energy(some, space, MODEL)
    assert table.shape == (5, 3)
    for row, column in itertools.product(range(5), range(3)):
        assert table[row, column] == pytest.approx(joules(some[row], space.one(column)))
    levels = energy_by_level(some, space, MODEL)
    assert levels.total_j == pytest.approx(table)
    assert sum(getattr(levels, name) for name in LEVELS) == pytest.approx(table)


# --- laws


@settings(max_examples=80, deadline=None)
@given(gemm=gemms, machine=machines)
def test_energy_is_at_least_that_of_the_work_and_of_moving_each_operand_once(gemm, machine):
    once = 2 * (gemm.input_elements + gemm.output_elements) * MODEL.hbm_pj_per_byte
    work = gemm.flops / 2 * MODEL.multiply_accumulate_pj
    assert joules(gemm, machine) * ROUNDING >= (once + work) * 1e-12


@settings(max_examples=80, deadline=None)
@given(gemm=gemms, machine=machines, times=st.integers(2, 5))
def test_a_batch_on_one_core_costs_its_parts(gemm, machine, times):
    one_core = dataclasses.replace(machine, tensor_cores=np.array([1]))
    more = dataclasses.replace(gemm, batch=times * gemm.batch)
    assert joules(more, one_core) == pytest.approx(times * joules(gemm, one_core))


@settings(max_examples=80, deadline=None)
@given(vector=vectors, machine=machines, times=st.integers(2, 5))
def test_vector_energy_is_proportional(vector, machine, times):
    more = Vector(
        vector.kind, *(times * n for n in (vector.elements, vector.read_elements, vector.write_elements)), vector.row
    )
    assert joules(more, machine) == pytest.approx(times * joules(vector, machine))


@settings(max_examples=80, deadline=None)
@given(gemm=gemms, machine=machines, side=st.sampled_from(["m", "n", "k", "batch"]))
def test_twice_the_work_takes_twice_the_multiplications(gemm, machine, side):
    """Its traffic need not double: the fastest mapping of the larger product may be another one."""
    more = dataclasses.replace(gemm, **{side: 2 * getattr(gemm, side)})
    levels = energy_by_level([gemm, more], machine, MODEL)
    assert levels.compute_j[1] == pytest.approx(2 * levels.compute_j[0])
    moved_bytes = 2 * (more.input_elements + more.output_elements)
    assert levels.hbm_j[1, 0] * ROUNDING >= moved_bytes * MODEL.hbm_pj_per_byte * 1e-12


@settings(max_examples=80, deadline=None)
@given(gemm=gemms, machine=machines)
def test_a_larger_buffer_that_is_no_faster_never_raises_hbm_traffic(gemm, machine):
    larger = dataclasses.replace(machine, global_buffer_bytes=machine.global_buffer_bytes * 2)
    before, after = (estimate([gemm], each, None).all_cores_s[0, 0] for each in (machine, larger))
    assume(after >= before / ROUNDING)
    words = [tensor_traffic([TensorWork(gemm)], each).hbm_words[0, 0] for each in (machine, larger)]
    assert words[1] <= words[0] * ROUNDING


@pytest.mark.parametrize("kind", ["relu", "gelu", "dropout"])
@pytest.mark.parametrize("gemm", [Gemm(4096, 1024, 1024), Gemm(512, 512, 64, batch=16), Gemm(1000, 768, 3072)], ids=str)
def test_fusing_saves_energy(gemm, kind):
    """On every architecture: the product goes to the lanes rather than to HBM and back."""
    space = architecture_space().take(np.arange(0, 29360, 41))
    vector = Vector(kind, gemm.output_elements, gemm.output_elements, gemm.output_elements)
    fused_j, product_j, vector_j = operation_energy([Fused(gemm, (vector,)), gemm, vector], space, MODEL)
    assert (fused_j < product_j + vector_j).all()


@settings(max_examples=80, deadline=None)
@given(operation=operations, machine=machines, factor=st.floats(1.01, 5))
def test_dearer_hbm_costs_more(operation, machine, factor):
    dearer = dataclasses.replace(MODEL, hbm_pj_per_byte=factor * MODEL.hbm_pj_per_byte)
    assert joules(operation, machine, dearer) > joules(operation, machine)


collectives = st.builds(
    Collective,
    kind=st.sampled_from(["all_reduce", "reduce_scatter", "all_gather"]),
    elements=st.integers(1, 10**7),
    participants=st.integers(2, 64),
)


@settings(max_examples=150, deadline=None)
@given(operation=st.one_of(operations, collectives, st.builds(Transfer, st.integers(1, 10**7))), machine=machines)
def test_no_operation_draws_more_than_peak_power(operation, machine):
    machine = dataclasses.replace(machine, rules=cost_model("consistent").hardware)
    dynamic_w = peak_w(machine, 0, NETWORK, MODEL)[0] - static_w(machine, 0, MODEL)[0]
    seconds = estimate([operation], machine, NETWORK).all_cores_s[0, 0]
    assert joules(operation, machine) <= dynamic_w * seconds * ROUNDING


def test_peak_power_grows_with_every_part_of_the_machine():
    space = architecture_space()
    whole = peak_w(space, 32 * GIB, NETWORK, MODEL)
    assert whole.shape == (len(space),)
    assert (whole > static_w(space, 32 * GIB, MODEL)).all()
    assert (peak_w(space, 64 * GIB, NETWORK, MODEL) > whole).all()
    assert (peak_w(space, 32 * GIB, Network("fast", 2 * NETWORK.bytes_per_s), MODEL) > whole).all()
    for name in ("tensor_cores", "vector_cores", "vector_lanes", "core_depth", "global_buffer_bytes"):
        more = dataclasses.replace(space, **{name: getattr(space, name) * 2})
        assert (peak_w(more, 32 * GIB, NETWORK, MODEL) > whole).all()


def test_products_in_block_tiles_move_at_least_their_operands():
    machine = accelerator("a100-sxm").machines
    gemm = Gemm(4096, 4096, 4096)
    level = energy_by_level([gemm], machine, MODEL)
    moved_bytes = 2 * (gemm.input_elements + gemm.output_elements)
    assert level.hbm_j[0, 0] == pytest.approx(moved_bytes * MODEL.hbm_pj_per_byte * 1e-12)
    assert level.buffer_j[0, 0] > moved_bytes * MODEL.sram_pj_per_byte(machine.global_buffer_bytes)[0] * 1e-12
    seconds = estimate([gemm], machine, None).all_cores_s[0, 0]
    assert level.total_j[0, 0] / seconds < peak_w(machine, 80 * GIB, None, MODEL)[0]
