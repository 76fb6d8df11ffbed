import csv
from dataclasses import replace

import numpy as np
import pytest

from dse.calibration.fit import (
    FITTED_CONSTANTS,
    coordinate_search,
    fit_kernels,
    fit_network,
    fitting_rows,
    mean_absolute_error,
    predict_s,
    reporting_rows,
    with_constants,
)
from dse.calibration.rows import MeasuredAllReduce, MeasuredKernel, read_rows
from hardware.inputs import InputError
from hardware.machines import KernelConstants
from hardware.network import Network
from hardware.network_specs import network
from hardware.operations import Gemm, Vector
from hardware.specs import accelerator
from tests.shared_data import shared_data

LARGE_BYTES = 65536


@pytest.fixture(scope="module")
def a100():
    return accelerator("a100-sxm").machines


@pytest.fixture(scope="module")
def kernels():
    return read_rows(shared_data("measured") / "a100_fp16_kernels.csv")


@pytest.fixture(scope="module")
def all_reduces():
    with open(shared_data("measured") / "a100x4_nvlink3_allreduce.csv", newline="", encoding="utf-8") as file:
        return [MeasuredAllReduce(int(row["bytes"]), float(row["measured_s"]), 4) for row in csv.DictReader(file)]


def error(machines, rows):
    return mean_absolute_error(predict_s(machines, rows), [row.measured_s for row in rows])


def test_rows_are_split_by_parity_without_overlap():
    rows = list(range(7))
    assert fitting_rows(rows) == [0, 2, 4, 6]
    assert reporting_rows(rows) == [1, 3, 5]


def test_unseen_gemms_are_within_five_percent(a100, kernels):
    assert error(a100, [row for row in reporting_rows(kernels) if row.kind == "gemm"]) <= 0.05


def test_unseen_kernels_are_within_ten_percent(a100, kernels):
    unseen = reporting_rows(kernels)
    assert error(a100, unseen) <= 0.10
    for kind in FITTED_CONSTANTS:
        assert error(a100, [row for row in unseen if row.kind == kind]) <= 0.10, kind


def test_unseen_all_reduces_are_within_eight_percent(all_reduces):
    link = network("nvlink3")
    unseen = [row for row in reporting_rows(all_reduces) if row.size_bytes > LARGE_BYTES]
    predicted = [link.collective_s("all_reduce", row.size_bytes, 4) for row in unseen]
    assert mean_absolute_error(predicted, [row.measured_s for row in unseen]) <= 0.08


def test_the_spec_holds_what_the_fit_finds(a100, kernels):
    # layer norm and GELU only: the GEMM fit takes seconds; benchmarks/measured.py prints all
    rows = [row for row in fitting_rows(kernels) if row.kind in ("layer_norm", "gelu")]
    refit = fit_kernels(a100, rows)
    for kind in ("layer_norm", "gelu"):
        for name in FITTED_CONSTANTS[kind]:
            written, fitted = getattr(a100.kernel(kind), name), getattr(refit.kernel(kind), name)
            assert fitted == pytest.approx(written, rel=0.01), (kind, name)


def test_the_network_spec_holds_what_the_fit_finds(all_reduces):
    link = network("nvlink3")
    refit = fit_network(link, fitting_rows(all_reduces))
    for name in ("launch_s", "latency_s", "bytes_per_s"):
        assert getattr(refit, name) == pytest.approx(getattr(link, name), rel=0.01), name


@pytest.mark.parametrize(
    "truth",
    [
        Network("steep", 2e11, 5e-7, 1e-5, 24),
        Network("line", 5e10, 2e-6, 3e-6, 1),
        Network("few", 1e11, 1e-6, 2e-5, 6),
    ],
)
def test_a_network_is_recovered_from_its_own_times(truth):
    sizes = [2**exponent for exponent in range(3, 34, 2)]
    rows = [MeasuredAllReduce(size, truth.collective_s("all_reduce", size, 4), 4) for size in sizes]
    fitted = fit_network(Network("start", 1e11, 1e-6, 1e-5, truth.channels), rows)
    predicted = [fitted.collective_s("all_reduce", row.size_bytes, 4) for row in rows]
    assert mean_absolute_error(predicted, [row.measured_s for row in rows]) < 2e-3
    assert fitted.bytes_per_s == pytest.approx(truth.bytes_per_s, rel=5e-3)


def vector_rows(machines, kind, sizes):
    operations = [Vector(kind, size * 512, size * 512, size * 512, row=512) for size in sizes]
    times = predict_s(machines, [MeasuredKernel(kind, operation, 1.0) for operation in operations])
    return [MeasuredKernel(kind, *pair) for pair in zip(operations, times, strict=True)]


@pytest.mark.parametrize(
    ("kind", "truth"),
    [
        ("gelu", KernelConstants(launch_s=1e-5, floor_s=2e-5, memory_efficiency=0.6)),
        ("softmax", KernelConstants(launch_s=2e-5, efficiency=0.15)),
    ],
)
def test_kernel_constants_are_recovered_from_their_own_times(a100, kind, truth):
    rows = vector_rows(with_constants(a100, kind, truth), kind, [2**exponent for exponent in range(4, 20)])
    fitted = fit_kernels(with_constants(a100, kind, KernelConstants()), rows).kernel(kind)
    for name in FITTED_CONSTANTS[kind]:
        assert getattr(fitted, name) == pytest.approx(getattr(truth, name), rel=0.01), name


def test_fitting_one_kind_leaves_the_others(a100):
    rows = vector_rows(a100, "gelu", [64, 4096, 65536])
    fitted = fit_kernels(a100, rows)
    assert fitted.kernel("gemm") == a100.kernel("gemm")
    assert fitted.kernel("softmax") == a100.kernel("softmax")


def test_impossible_fits_are_refused(a100):
    row = MeasuredKernel("dropout", Vector("dropout", 8, 8, 8), 1e-5)
    with pytest.raises(ValueError, match="dropout"):
        fit_kernels(a100, [row])
    with pytest.raises(ValueError, match="no rows"):
        fit_kernels(a100, [])
    with pytest.raises(ValueError, match="at least 3 rows are needed, but got 2"):
        fit_network(network("nvlink3"), [MeasuredAllReduce(8, 1e-5, 4)] * 2)
    with pytest.raises(ValueError, match="0 predicted and 0 measured"):
        mean_absolute_error([], [])


def test_the_coordinate_search_finds_a_minimum_and_keeps_to_its_limits():
    def loss(values):
        return float(np.log(values[0] / 3) ** 2 + np.log(values[1] / 0.7) ** 2)

    assert coordinate_search(loss, [1.0, 0.2], [np.inf, 1.0]) == pytest.approx([3, 0.7], rel=1e-3)
    assert coordinate_search(loss, [1.0, 0.2], [2.0, 0.5]) == pytest.approx([2.0, 0.5], rel=1e-3)


def long_rows(row: int) -> Vector:
    elements = 2**27
    return Vector("layer_norm", elements, elements, elements, row=row)


def test_rows_that_outgrow_a_core_and_then_the_chip_are_read_again(a100):
    def seconds(machines, row):
        return predict_s(machines, [MeasuredKernel("layer_norm", long_rows(row), 1.0)])[0]

    constants = a100.kernel("layer_norm")
    once = with_constants(a100, "layer_norm", replace(constants, rows_per_core=0))
    short, long = 2048, 65536
    assert seconds(a100, short) == seconds(once, short)
    assert seconds(a100, long) > 1.8 * seconds(once, long)
    # a larger core memory takes the second and third reading back on chip
    roomy = replace(a100, vector_l2_bytes=np.array([2**24]))
    assert seconds(roomy, long) == seconds(once, long)
    # so does a larger global buffer, as far as its own rate allows
    buffered = replace(a100, global_buffer_bytes=np.array([2**30]))
    assert seconds(once, long) <= seconds(buffered, long) < seconds(a100, long)


@pytest.mark.parametrize("kind", ["softmax", "layer_norm", "gelu", "dropout"])
def test_larger_kernels_are_never_faster_and_never_below_their_fixed_times(a100, kind):
    rows = vector_rows(a100, kind, [2**exponent for exponent in range(16)])
    times = [row.measured_s for row in rows]
    assert times == sorted(times)
    constants = a100.kernel(kind)
    assert times[0] >= max(constants.floor_s, constants.launch_s) > 0


KERNEL_HEADER = "op,m,n,k,measured_s\n"
BROKEN_KERNELS = [
    ("", "op", "the column is missing"),
    ("op,m,n,measured_s\ngelu,8,1,1e-5\n", "k", "the column is missing"),
    (
        KERNEL_HEADER.replace("_s", "_ms") + "gelu,8,1,,1e-5\n",
        "measured_s",
        "units are part of the name; the file has me",
    ),
    (
        KERNEL_HEADER + "gelu,8,8,,1e-5\ngemm,1,024,8,8,1e-5\n",
        "line 3: 1e-5",
        "exactly one field for each of the 5 columns",
    ),
    (KERNEL_HEADER, "", "at least one row"),
    (KERNEL_HEADER + "gem,8,8,8,1e-5\n", "line 2.op", "did you mean gemm"),
    (KERNEL_HEADER + ",8,8,8,1e-5\n", "line 2.op", "known:"),
    (KERNEL_HEADER + "gemm,8,8,,1e-5\n", "line 2.k", "positive number"),
    (KERNEL_HEADER + "gemm,8,8,8,1e-5\ngemm,0,8,8,1e-5\n", "line 3.m", "positive number"),
    (KERNEL_HEADER + "gemm,8,-8,8,1e-5\n", "line 2.n", "positive number"),
    (KERNEL_HEADER + "gemm,8.5,8,8,1e-5\n", "line 2.m", "whole number"),
    (KERNEL_HEADER + f"gemm,{10**20},8,8,1e-5\n", "line 2.m", "whole number of at most"),
    (KERNEL_HEADER + f"softmax,{10**10},{10**10},0,1e-5\n", "line 2", "m · n · k must be at most 1e+18"),
    (KERNEL_HEADER + "softmax,eight,8,,1e-5\n", "line 2.m", "positive number"),
    (KERNEL_HEADER + "softmax,8,8,,nan\n", "line 2.measured_s", "positive number"),
    (KERNEL_HEADER + "softmax,8,8,,inf\n", "line 2.measured_s", "positive number"),
    (KERNEL_HEADER + "softmax,8,8\n", "line 2.measured_s", "positive number"),
]


@pytest.mark.parametrize(("text", "key", "rule"), BROKEN_KERNELS)
def test_a_broken_kernel_table_is_one_line_with_file_place_and_rule(tmp_path, text, key, rule):
    path = tmp_path / "kernels.csv"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_rows(path)
    line = str(caught.value)
    assert "\n" not in line
    assert line.startswith(str(path))
    assert key in line
    assert rule in line


def test_a_table_that_is_no_text_is_named(tmp_path):
    path = tmp_path / "kernels.csv"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not valid CSV"):
        read_rows(path)


def test_a_missing_table_is_named(tmp_path):
    with pytest.raises(InputError, match=r"gone\.csv.*cannot be read"):
        read_rows(tmp_path / "gone.csv")


def test_tables_are_read_as_operations(tmp_path):
    path = tmp_path / "kernels.csv"
    path.write_text(KERNEL_HEADER + "gemm,2,3,4,1e-5\nlayernorm,5,6,,2e-5\ngelu,7,1,,3e-5\n")
    assert read_rows(path) == [
        MeasuredKernel("gemm", Gemm(2, 3, 4), 1e-5),
        MeasuredKernel("layer_norm", Vector("layer_norm", 30, 30, 30, row=6), 2e-5),
        MeasuredKernel("gelu", Vector("gelu", 7, 7, 7), 3e-5),
    ]
