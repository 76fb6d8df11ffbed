"""Rates of products that are fitted to profiles: to half of the shapes, judged on the others."""

import numpy as np
import pytest

from dse.calibration.calibrate import calibrate_on_profiles, write_calibration
from dse.calibration.profiled import profiled_products
from hardware.chips import chip
from hardware.documents import yaml_of
from hardware.inputs import InputError
from hardware.kernel_model import kernel_model
from hardware.kernel_times.form import Rates
from hardware.kernel_times.products import DENSE
from tests.shared_data import case_of_others
from tests.trace.profiles import ELEMENTWISE, GEMM, document, event, kernel, training_step, write

CONSTANTS = {
    "floor_s": 3e-6, "compute_share": 0.7, "memory_share": 0.8, "tile_half": 12.0, "split_s": 1e-6, "cast_passes": 0.5
}  # fmt: skip
SHAPES = [(8192, n, k) for n in (1024, 2816, 5120) for k in (1024, 4096)] + [(64, 4096, 4096), (512, 1024, 1024)]


def seconds(shapes, name="h100-sxm"):
    own = chip(name)
    rates = Rates(own.peak_flops["bf16"], own.hbm_bytes_per_s, float(own.processors), 1.0)
    sides = {key: np.array([float(shape[place]) for shape in shapes]) for place, key in enumerate("mnk")}
    return DENSE.seconds(sides | {"element_bytes": np.full(len(shapes), 2.0)}, rates, CONSTANTS)


def profiled(path, shapes=SHAPES, element="c10::BFloat16", kernels=GEMM, name="h100-sxm"):
    """Three calls of each shape, the second as the form says, the others 1 % off."""
    events, at = [], 0.0
    for number, (shape, exact_s) in enumerate(zip(shapes, seconds(shapes, name), strict=True)):
        m, n, k = shape
        for call, factor in enumerate((0.99, 1.0, 1.01)):
            correlation = 3 * number + call
            dims = {"Input Dims": [[m, k], [k, n]], "Input type": [element, element]}
            events += [
                event("cpu_op", "aten::mm", at, 8.0, **dims),
                event("cuda_runtime", "cudaLaunchKernel", at + 2, 3.0, correlation=correlation),
                kernel(kernels, at + 10, round(1e6 * exact_s * factor, 3), correlation=correlation),
            ]
            at += 10_000.0
    return write(path, document(events))


def test_rows_are_the_median_of_each_shape(tmp_path):
    precision, rows = profiled_products([str(profiled(tmp_path / "one.json"))])
    assert precision == "bf16"
    measured = {(row.operation.m, row.operation.n, row.operation.k): row.measured_s for row in rows}
    assert measured == pytest.approx(dict(zip(SHAPES, seconds(SHAPES), strict=True)), rel=1e-3)


def test_the_halves_depend_on_shapes_alone(tmp_path):
    first = profiled_products([str(profiled(tmp_path / "one.json"))])[1]
    second = profiled_products([str(profiled(tmp_path / "two.json", SHAPES[::-1]))])[1]
    assert [row.operation for row in first] == [row.operation for row in second]
    assert [row.operation for row in first] != [row.operation for row in sorted(first, key=lambda row: row.operation.m)]


def test_constants_of_one_profile_hold_for_the_shapes_of_another_model(tmp_path):
    path = str(profiled(tmp_path / "one.json"))
    calibration = calibrate_on_profiles("h100-sxm", [path])
    (errors,) = calibration.errors
    assert errors.rows == len(SHAPES)
    assert errors.held_out_after < 0.1 < errors.held_out_before
    write_calibration(calibration, tmp_path / "own.yaml")
    model = kernel_model(str(tmp_path / "own.yaml"))
    others = [(4096, 14336, 4096), (4096, 4096, 14336), (2048, 6144, 2048)]
    sides = {key: [shape[place] for shape in others] for place, key in enumerate("mnk")}
    answer = model.seconds("dense", "bf16", sides)
    assert answer.basis == "fitted"
    assert "one.json" in answer.rests_on
    assert answer.seconds == pytest.approx(seconds(others), rel=0.1)


def test_other_kernel_times_of_the_chip_stay(tmp_path):
    write_calibration(calibrate_on_profiles("h100-sxm", [str(profiled(tmp_path / "one.json"))]), tmp_path / "own.yaml")
    before, after = (kernel_model(name).times for name in ("h100-sxm", str(tmp_path / "own.yaml")))
    for kind in ("experts", "decode", "nccl"):
        assert after.kernels(kind) == before.kernels(kind)
    assert [each for each in after.variants("dense") if "fp8" in each] == [
        each for each in before.variants("dense") if "fp8" in each
    ]


def test_a_chip_without_kernel_times_gets_them(tmp_path):
    write_calibration(
        calibrate_on_profiles("a100-sxm", [str(profiled(tmp_path / "one.json", name="a100-sxm"))]),
        tmp_path / "own.yaml",
    )
    assert [each.precision for each in kernel_model(str(tmp_path / "own.yaml")).times.kernels("dense")] == ["bf16"]


def test_the_share_of_a_stack(tmp_path):
    calibration = calibrate_on_profiles("h100-sxm", [str(profiled(tmp_path / "one.json"))], "generic")
    (errors,) = calibration.errors
    assert errors.fitted_after == pytest.approx(0.0, abs=1e-4)
    assert 0.4 < calibration.document["matrix"]["value"] < 0.7
    write_calibration(calibration, tmp_path / "stack.yaml")
    assert (tmp_path / "stack.yaml").read_text() == yaml_of(
        dict(calibration.document), sort_keys=False, allow_unicode=True, width=120
    )


@pytest.mark.parametrize(
    ("content", "spec", "expected"),
    [
        (document([kernel(GEMM, 0, 5)]), "h100-sxm", "has no matrix products in 16 or 8 bits whose shapes are known"),
        (training_step(layers=1), "h100-sxm", "must have at least 2 shapes of products in bf16"),
        (training_step(), "tpuv4-phaze", "only a real chip can be calibrated"),
        (training_step(), "v100", "must be one of fp16, which v100 supports"),
    ],
)
def test_profiles_that_cannot_calibrate(tmp_path, content, spec, expected):
    path = write(tmp_path / "one.json", content)
    with pytest.raises(InputError, match=expected):
        calibrate_on_profiles(spec, [str(path)])


def test_products_of_float32_are_not_those_of_tensor_cores(tmp_path):
    path = profiled(tmp_path / "one.json", element="float", kernels=ELEMENTWISE)
    with pytest.raises(InputError, match="in 16 or 8 bits"):
        calibrate_on_profiles("h100-sxm", [str(path)])


def test_a_profile_of_an_h100():
    path = str(case_of_others("traces", "kineto-h100-qwen-prefill.json.gz"))
    (errors,) = calibrate_on_profiles("h100-sxm", [path]).errors
    assert errors.rows == 3
    assert errors.held_out_after < 0.1 < errors.held_out_before


@pytest.mark.parametrize("stack", [None, "generic"])
def test_a_profile_of_a_faster_chip_is_refused(tmp_path, stack):
    path = str(profiled(tmp_path / "one.json"))
    with pytest.raises(InputError, match=r"must be at most the peak of .* \(312 TFLOP/s\): another chip ran it"):
        calibrate_on_profiles("a100-sxm", [path], stack)
