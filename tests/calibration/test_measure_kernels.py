"""The script that measures kernels writes tables that ``dse calibrate`` takes."""

import sys

import pytest

from benchmarks import measure_kernels
from dse.calibration.fit import fitting_rows, read_kernels, reporting_rows
from dse.calibration.spec import MIN_ROWS, calibrate


@pytest.fixture
def measure(monkeypatch, tmp_path):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["measure_kernels", str(tmp_path / "kernels.csv"), *map(str, arguments)])
        measure_kernels.main()
        return tmp_path / "kernels.csv"

    return run


def test_a_spec_is_calibrated_on_what_was_measured_here(measure, monkeypatch):
    monkeypatch.setattr(measure_kernels, "BATCH_S", 1e-4)
    path = measure("--device", "cpu", "--dtype", "float32", "--largest", 256)
    rows = read_kernels(path)
    assert len(rows) == len(list(measure_kernels.shapes(256)))
    assert {row.kind for row in rows} == {"gemm", "softmax", "layer_norm", "gelu"}
    errors = calibrate("a100-80gb", path).errors
    assert all(each.rows >= MIN_ROWS and each.fitted_after <= each.fitted_before for each in errors)


def test_both_halves_cover_the_same_range():
    sizes = [m * n * k for kind, m, n, k in measure_kernels.shapes(1024) if kind == "gemm"]
    fitted, held_out = fitting_rows(sizes), reporting_rows(sizes)
    assert max(fitted) <= 2 * max(held_out)
    assert max(held_out) <= 2 * max(fitted)
    assert sorted(sizes) == sizes


@pytest.mark.parametrize("largest", [0, 128, 300])
def test_a_largest_side_that_is_no_power_of_two_is_refused(measure, capsys, largest):
    with pytest.raises(SystemExit) as ended:
        measure("--device", "cpu", "--largest", largest)
    assert ended.value.code == 2
    assert f"--largest must be a power of two from 256, but got {largest}" in capsys.readouterr().err
