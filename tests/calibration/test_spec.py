import csv
from importlib.resources import files

import pytest
import yaml
from click.testing import CliRunner

from dse.calibration.calibrate import calibrate
from dse.calibration.fit import fitting_rows, mean_absolute_error, predict_s, reporting_rows
from dse.calibration.rows import read_rows
from dse.cli.calibrate import command
from hardware.inputs import InputError
from hardware.specs import accelerator
from tests.shared_data import shared_data

A100 = files("hardware") / "specs" / "chips" / "a100-sxm.yaml"
HEADER = "op,m,n,k,measured_s\n"


def table(tmp_path, text):
    path = tmp_path / "measured.csv"
    path.write_text(text)
    return path


def published_gemms(tmp_path):
    with (shared_data("measured") / "a100_fp16_kernels.csv").open() as file:
        header, *lines = file
    return table(tmp_path, header + "".join(line for line in lines if line.startswith("gemm")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("calibration")


@pytest.fixture(scope="module")
def uncalibrated(folder):
    """The A100 by its data sheet alone, as a user's own file."""
    path = folder / "own.yaml"
    document = yaml.safe_load(A100.read_text())
    del document["kernels"]
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.fixture(scope="module")
def measured(folder):
    """The published products, but for their table a file of this module."""
    return published_gemms(folder)


@pytest.fixture(scope="module")
def calibrated(uncalibrated, measured):
    return calibrate(str(uncalibrated), measured)


def test_fit_lowers_the_error_of_rows_that_it_has_not_seen(calibrated):
    (gemm,) = calibrated.errors
    assert gemm.held_out_before > 0.15
    assert gemm.held_out_after < 0.05


def test_written_spec_gives_the_errors_that_were_printed(tmp_path, uncalibrated, measured, calibrated):
    out = tmp_path / "calibrated.yaml"
    outcome = CliRunner().invoke(command, [str(uncalibrated), str(measured), "--out", str(out)])
    assert outcome.exit_code == 0, outcome.output
    rows = read_rows(measured)
    machines = accelerator(str(out)).machines
    (gemm,) = calibrated.errors
    for part, printed in ((fitting_rows(rows), gemm.fitted_after), (reporting_rows(rows), gemm.held_out_after)):
        error = mean_absolute_error(predict_s(machines, part), [row.measured_s for row in part])
        assert error == pytest.approx(printed, abs=1e-3)
    assert "measured.csv" in yaml.safe_load(out.read_text())["kernels"]["gemm"]["source"]


def test_held_out_rows_change_no_constant(tmp_path, uncalibrated, measured, calibrated):
    with measured.open() as file:
        header, *rows = (row[:5] for row in csv.reader(file))  # without sources
    for row in rows[1::2]:
        row[-1] = str(3 * float(row[-1]))
    slower = table(tmp_path, "".join(",".join(row) + "\n" for row in (header, *rows)))
    assert calibrate(str(uncalibrated), slower).document["kernels"] == calibrated.document["kernels"]


def test_other_kinds_keep_their_constants(tmp_path):
    header, *rows = published_gemms(tmp_path).read_text().splitlines(keepends=True)
    few = table(tmp_path, "".join((header, *rows[::5])))
    kernels, before = calibrate("a100-sxm", few).document["kernels"], yaml.safe_load(A100.read_text())["kernels"]
    assert kernels["softmax"]["efficiency"] == 0.278
    assert kernels.pop("gemm") != before.pop("gemm")
    assert kernels == before


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("op,m,n,k,measured\ngemm,1,1,1,1\n", "measured_s"),
        (HEADER + "gemm,8,8,8,fast\n", "line 2.measured_s"),
        (HEADER + "gemm,8,8,8,1 ms\n", "line 2.measured_s"),
        (HEADER + "gemm,8,8,8,1e-5\ngemm,8,8,8,-1\n", "line 3.measured_s"),
        (HEADER + "gemm,8,8,8,nan\n", "line 2.measured_s"),
        (HEADER + "gemm,8,8.5,8,1\n", "line 2.n"),
        (HEADER + "gem,8,8,8,1\n", "gemm"),
        (HEADER + "gemm,8,8\n", "line 2"),
        (HEADER, "at least one row"),
        (HEADER + "gemm,8,8,8,1e-5\n", "at least 4 rows"),
    ],
)
def test_bad_tables_are_refused_with_file_and_row(tmp_path, text, stated):
    path = table(tmp_path, text)
    with pytest.raises(InputError) as error:
        calibrate("a100-sxm", path)
    (fault,) = error.value.faults
    assert str(path) in str(fault)
    assert stated in str(fault)


def test_template_is_refused(tmp_path):
    with pytest.raises(InputError, match="only a real chip"):
        calibrate("tpuv4-phaze", published_gemms(tmp_path))


SIZES = tuple(f"gemm,{256 * size},256,256,{size}e-5" for size in range(1, 9))


@pytest.mark.parametrize(
    ("rows", "rule"),
    [
        (SIZES[:1], "gemm: 1 row: each kind needs at least 4 rows"),
        (("gemm,8,8,8,2e-5",) * 4, "gemm: 2e-05 s: all 4 rows have the same time, so no rate can be fitted"),
        ([row.rpartition(",")[0] + ",2e-5" for row in SIZES], "gemm: 2e-05 s: all 8 rows have the same time"),
        ((*SIZES, SIZES[0]), "gemm: 1 copy of other rows: must be unique"),
        ([f"gemm,256,256,256,{time}e-5" for time in range(1, 9)], "gemm: 1 size: the fitted half (rows 1, 3, 5, "),
        ((*SIZES[:3], "gemm,8,8,8,0"), "line 5.measured_s: 0: must be a positive number"),
        ((*SIZES[:3], "gemm,8,8,8,nan"), "line 5.measured_s: nan: must be a positive number"),
        ((*SIZES[:3], "gemm,8,8,8,inf"), "line 5.measured_s: inf: must be a positive number"),
        ((*SIZES[:3], "gemm,8,8,8,1_0"), "line 5.measured_s: 1_0: must be a positive number"),
        ((*SIZES[:3], "gemm,8_0,8,8,1"), "line 5.m: 8_0: must be a positive number"),
        ((*SIZES[:3], "gemm,8,8,8,-1e-5"), "line 5.measured_s: -1e-5: must be a positive number"),
        ((*SIZES[:3], "gemm,8,8,8"), "line 5.measured_s: must be a positive number"),
        ((), "must contain at least one row"),
    ],
)
def test_a_table_that_tells_nothing_is_refused_in_one_line(tmp_path, uncalibrated, rows, rule):
    measured = table(tmp_path, HEADER + "".join(f"{row}\n" for row in rows))
    for asked in ([str(uncalibrated), str(measured)], ["h100-sxm", str(measured), "--stack", "generic"]):
        if "size:" in rule and "--stack" in asked:
            continue  # the share of a peak rate is fitted to the total time, of one size too
        with pytest.raises(InputError) as refused:
            calibrate(asked[0], measured, asked[3] if len(asked) > 2 else None)
        (fault,) = refused.value.faults
        assert rule in str(fault)
        assert "\n" not in str(fault)


@pytest.mark.parametrize("stack", [None, "generic"])
def test_rows_above_the_peak_are_refused_by_line(tmp_path, stack):
    rows = "".join(f"gemm,4096,4096,4096,{seconds}\n" for seconds in (5e-4, 5.5e-5, 6e-4, 1e-6, 5e-4))
    with pytest.raises(InputError) as refused:
        calibrate("a100-sxm", table(tmp_path, HEADER + rows), stack)
    lines = str(refused.value).splitlines()
    assert [line.split("csv: ")[1].split(": ")[0] for line in lines] == ["line 3.measured_s", "line 5.measured_s"]
    assert all("must be at most the peak of a100-sxm" in line and "did you mean 0.0004" in line for line in lines)
