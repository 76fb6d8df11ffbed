"""The script that measures kernels writes tables that ``dse calibrate`` takes."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from benchmarks import measure_kernels
from dse.calibration.calibration import MIN_ROWS
from dse.calibration.fit import FITTED_CONSTANTS, fitting_rows, reporting_rows
from dse.calibration.rows import read_rows


@pytest.fixture
def measure(monkeypatch, tmp_path):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["measure_kernels", str(tmp_path / "kernels.csv"), *map(str, arguments)])
        measure_kernels.main()
        return tmp_path / "kernels.csv"

    return run


def test_what_was_measured_here_is_a_table_for_dse_calibrate(measure, monkeypatch):
    monkeypatch.setattr(measure_kernels, "BATCH_S", 1e-4)
    path = measure("--device", "cpu", "--dtype", "float32", "--largest", 256)
    rows = read_rows(path)
    assert len(rows) == len(list(measure_kernels.shapes(256)))
    assert all(row.measured_s > 0 for row in rows)
    kinds = Counter(row.kind for row in rows)
    assert set(kinds) == set(FITTED_CONSTANTS)
    assert min(kinds.values()) >= MIN_ROWS


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


def test_all_reduces_between_processes_are_a_table_for_dse_calibrate(tmp_path):
    pytest.importorskip("torch")
    path = tmp_path / "links.csv"
    job = [sys.executable, "-m", "tests.calibration.two_ranks", str(path)]
    asked = ["--all-reduce", "--device", "cpu", "--largest-bytes", "8192"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run([*job, *asked], check=True, cwd=Path(__file__).parents[2], env=environment, capture_output=True)
    rows = read_rows(path)
    assert [(row.kind, row.size_bytes, row.participants) for row in rows] == [
        ("all_reduce", size, 2) for size in (1024, 2048, 4096, 8192)
    ]


def test_a_single_process_has_no_all_reduces(measure, capsys):
    with pytest.raises(SystemExit) as ended:
        measure("--device", "cpu", "--all-reduce")
    assert ended.value.code == 2
    assert "--all-reduce: start it with python -m torch.distributed.run" in capsys.readouterr().err
