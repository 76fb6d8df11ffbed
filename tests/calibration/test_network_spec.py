"""``dse calibrate`` on tables of all-reduces: the spec of a network."""

import csv

import pytest
import yaml
from click.testing import CliRunner

from dse.calibration.calibrate import calibrate
from dse.cli.calibrate import command
from hardware.inputs import InputError
from hardware.network_specs import network
from tests.shared_data import shared_data

HEADER = "op,m,n,k,measured_s\n"


@pytest.fixture
def published(tmp_path):
    """All-reduces on four A100, as a table of the command."""
    with (shared_data("measured") / "a100x4_nvlink3_allreduce.csv").open() as file:
        rows = [f"all_reduce,{row['bytes']},4,,{row['measured_s']}\n" for row in csv.DictReader(file)]
    path = tmp_path / "measured.csv"
    path.write_text(HEADER + "".join(rows))
    return path


@pytest.fixture
def uncalibrated(tmp_path):
    """NVLink of the A100 by its data sheet alone."""
    path = tmp_path / "own.yaml"
    value = {"value": 0, "source": "data sheet"}
    path.write_text(
        yaml.safe_dump(
            {
                "name": "own",
                "links": value | {"value": 12},
                "link_bytes_per_s": value | {"value": 25e9},
                "efficiency": value | {"value": 1.0},
                "latency_s": value,
                "launch_s": value,
                "channels": value | {"value": 24},
                "additions_included": value | {"value": False},
            }
        )
    )
    return path


def test_the_fit_lowers_the_error_of_rows_that_it_has_not_seen(published, uncalibrated):
    (errors,) = calibrate(str(uncalibrated), published).errors
    assert errors.held_out_before > 0.4
    assert errors.held_out_after < 0.12


def test_the_built_in_spec_is_what_the_command_fits(published, uncalibrated, tmp_path):
    out = tmp_path / "calibrated.yaml"
    outcome = CliRunner().invoke(command, [str(uncalibrated), str(published), "--out", str(out)])
    assert outcome.exit_code == 0, outcome.output
    fitted, built_in = network(str(out)), network("nvlink3")
    for name in ("launch_s", "latency_s", "bytes_per_s"):
        assert getattr(fitted, name) == pytest.approx(getattr(built_in, name), rel=0.01), name
    assert fitted.additions_included
    assert "half of the" in yaml.safe_load(out.read_text())["efficiency"]["source"]


@pytest.mark.parametrize(
    ("spec", "rows", "rule"),
    [
        ("dgx-a100", "all_reduce,8,4,,1e-5\n" * 8, "must be a flat network; calibrate each of its levels: nvlink3, "),
        ("nvlink3", "all_reduce,8,4,,1e-5\n" * 5, "all_reduce: 5 rows: at least 6 rows are needed"),
        ("nvlink3", "all_reduce,8,1,,1e-5\n" * 8, "line 2.n: 1: must be at least 2"),
        ("nvlink3", "all_reduce,1e9,4,,1e-5\nall_reduce,1e10,4,,1e-4\n" * 4, "but the links of nvlink3 have 3e+11"),
        ("a100-80gb", "all_reduce,8,4,,1e-5\ngemm,8,8,8,1e-5\n" * 4, "all-reduces calibrate a network, nvlink3 for"),
        ("nvlink33", "all_reduce,8,4,,1e-5\n" * 8, "did you mean nvlink3"),
    ],
)
def test_what_cannot_be_calibrated_is_refused(tmp_path, spec, rows, rule):
    path = tmp_path / "measured.csv"
    path.write_text(HEADER + rows)
    with pytest.raises(InputError) as refused:
        calibrate(spec, path)
    (fault,) = refused.value.faults
    assert rule in str(fault)
