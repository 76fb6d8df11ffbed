import math

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware.block_waves import wave_times
from hardware.estimator import estimate
from hardware.gemm import TensorWork
from hardware.inputs import InputError
from hardware.network import Network
from hardware.network_specs import network
from hardware.operations import Collective, Convolution, Fused, Gemm, Vector
from hardware.specs import accelerator

A100 = accelerator("a100-sxm").machines
WHOLE = np.ones(1)
SIZES = st.integers(1, 20_000)
GEMMS = st.builds(Gemm, SIZES, SIZES, SIZES, st.integers(1, 64))


def definition_s(gemm: Gemm, cores: int) -> float:
    """The least, over tiles and parts of k, of the larger of on-chip and HBM time; plain loops over the definition."""
    words_per_s = A100.hbm_bytes_per_s / 2
    rate = A100.kernel("gemm").buffer_efficiency * A100.global_buffer_words_per_cycle / 108
    best_s = math.inf
    for tile_m, tile_n in A100.block_tiles:
        for parts in (1, 2, 4, 8):
            tiles = math.ceil(gemm.m / tile_m) * math.ceil(gemm.n / tile_n) * gemm.batch * parts
            tile_cycles = math.ceil(gemm.k / parts) * max(tile_m * tile_n / 1024, (tile_m + tile_n) / rate)
            sums = 0 if parts == 1 else 2 * 2 * gemm.output_elements * parts
            on_chip_s = math.ceil(tiles / cores) * tile_cycles / A100.clock_hz + sums / words_per_s
            hbm_s = (gemm.input_elements + gemm.output_elements + sums) / words_per_s
            best_s = min(best_s, max(on_chip_s, hbm_s))
    return best_s


def waves_s(operation: Gemm | Convolution, cores: int = 108, share: float = 1.0) -> float:
    times = wave_times([TensorWork(operation)], A100, np.array([cores]), share * WHOLE)
    return max(float(times.on_chip_s[0, 0]), float(times.hbm_s[0, 0]))


@settings(max_examples=200)
@given(GEMMS, st.sampled_from([1, 7, 108]))
def test_waves_equal_their_definition(gemm, cores):
    assert waves_s(gemm, cores) == pytest.approx(definition_s(gemm, cores), rel=1e-12)


@given(GEMMS)
def test_no_product_beats_peak_compute_or_peak_memory(gemm):
    words = gemm.input_elements + gemm.output_elements
    ideal_s = max(gemm.flops / float(A100.peak_flops[0]), words * 2 / A100.hbm_bytes_per_s)
    assert waves_s(gemm) >= ideal_s * (1 - 1e-12)


@given(GEMMS, st.integers(1, 107))
def test_more_cores_or_bandwidth_are_never_slower(gemm, fewer):
    assert waves_s(gemm, fewer) >= waves_s(gemm, 108) * (1 - 1e-12)
    assert waves_s(gemm, 108, 0.5) >= waves_s(gemm, 108) * (1 - 1e-12)


def test_one_tile_more_than_a_wave_holds_costs_a_wave():
    # 108 tiles of 256 x 128 fill the cores once; with deep k, no smaller tile pays
    full, spilled = waves_s(Gemm(256 * 108, 128, 8192)), waves_s(Gemm(256 * 108 + 1, 128, 8192))
    assert spilled > 1.2 * full


def test_a_convolution_is_its_product_with_a_smaller_input():
    convolution = Convolution(8, 64, 64, 56, 56, 3, 3, padding=1)
    times = wave_times([TensorWork(convolution), TensorWork(convolution.gemm)], A100, np.array([108]), WHOLE)
    assert times.on_chip_s[0, 0] == times.on_chip_s[1, 0]
    assert times.hbm_s[0, 0] < times.hbm_s[1, 0]


def test_a_result_that_stays_on_chip_is_not_written():
    gemm = Gemm(4096, 4096, 64)
    on_chip = TensorWork(gemm, extra_write_words=-gemm.output_elements)
    times = wave_times([TensorWork(gemm), on_chip], A100, np.array([108]), WHOLE)
    ratio = (gemm.input_elements + gemm.output_elements) / gemm.input_elements
    assert times.hbm_s[0, 0] / times.hbm_s[1, 0] == pytest.approx(ratio, rel=1e-12)


def test_fused_work_saves_a_launch_and_a_trip_to_memory():
    gemm, elements = Gemm(8192, 4096, 1024), 8192 * 4096
    gelu = Vector("gelu", elements, elements, elements)
    times = estimate([gemm, gelu, Fused(gemm, (gelu,))], A100, None).all_cores_s[:, 0]
    assert times[0] <= times[2] < times[0] + times[1]


def test_measured_collectives_hold_their_additions_already():
    link = network("nvlink3")
    bare = Network("bare", link.bytes_per_s, link.latency_s, link.launch_s, link.channels)
    reduce, gather = Collective("all_reduce", 2**24, 4), Collective("all_gather", 2**24, 4)
    measured = estimate([reduce, gather], A100, link).all_cores_s[:, 0]
    added = estimate([reduce, gather], A100, bare).all_cores_s[:, 0]
    assert measured[0] == link.collective_s("all_reduce", 2**25, 4)
    assert added[0] > measured[0]
    assert added[1] == measured[1] == link.collective_s("all_gather", 2**25, 4)
    assert estimate([Collective("all_reduce", 2**24, 1)], A100, bare).all_cores_s[0, 0] == 0.0


@pytest.mark.parametrize(
    ("section", "key", "value", "rule"),
    [
        ("gemm", "efficiency", 1.5, "at most 1"),
        ("gemm", "buffer_efficiency", 0, "greater than 0"),
        ("gemm", "launch_s", -1e-6, "at least 0"),
        ("gemm", "lunch_s", 1e-6, "did you mean launch_s"),
        ("softmax", "rows_per_core", -1, "at least 0"),
        ("layer_norm", "row_reads", 0, "greater than 0"),
        ("gelu", "floor_s", "soon", "must be a number"),
        ("gelu", "source", "", "at least"),
    ],
)
def test_a_broken_kernel_constant_is_one_line(tmp_path, section, key, value, rule):
    document = {"kernels": {section: {"source": "measured", key: value}}}
    with pytest.raises(InputError) as caught:
        accelerator(written(tmp_path, document))
    assert len(caught.value.faults) == 1
    line = str(caught.value)
    assert f"kernels.{section}.{key}" in line
    assert rule in line


@pytest.mark.parametrize("sizes", [[], [[128]], [[128, 0]], [[128, 128, 64]], "128x128"])
def test_broken_block_tiles_are_refused(tmp_path, sizes):
    document = {"cores": {"block_tiles": {"sizes": sizes, "source": "datasheet"}}}
    with pytest.raises(InputError, match=r"cores\.block_tiles\.sizes"):
        accelerator(written(tmp_path, document))


def test_every_measured_kernel_of_the_a100_has_constants_and_templates_have_none():
    assert {"gemm", "softmax", "layer_norm", "gelu", "default"} <= set(A100.kernels)
    assert not accelerator("tpuv4").machines.kernels
    assert not accelerator("tpuv4").machines.block_tiles


def written(folder, changes):
    """A copy of the built-in A100 spec with ``changes`` merged in, as a file."""
    from hardware import specs

    source = specs.__file__.replace("specs.py", "specs/chips/a100-sxm.yaml")
    with open(source, encoding="utf-8") as file:
        document = yaml.safe_load(file)
    for key, part in changes.items():
        for name, value in part.items():
            document[key][name] = value
    path = folder / "broken.yaml"
    path.write_text(yaml.safe_dump(document))
    return path
