"""``dse calibrate`` on tables of all-reduces: the spec of a network."""

import csv
from dataclasses import replace

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


@pytest.mark.parametrize("alone", [25e9, 80e9])
def test_a_small_group_that_uses_some_of_the_links_gives_their_own_rate(uncalibrated, tmp_path, alone):
    """Each member brings two of twelve links: four members use eight. One transfer is never faster than all links."""
    shares = {"links_per_member": 2.0, "transfer_bytes_per_s": alone}
    document = yaml.safe_load(uncalibrated.read_text()) | {
        key: {"value": value, "source": "data sheet"} for key, value in shares.items()
    }
    uncalibrated.write_text(yaml.safe_dump(document))
    true = replace(network(str(uncalibrated)), bytes_per_s=60e9, latency_s=2e-7, launch_s=1e-5)
    sizes = [2**power for power in range(12, 30)]
    rows = [f"all_reduce,{size},4,,{true.collective_s('all_reduce', size, 4)}\n" for size in sizes]
    table, out = tmp_path / "own.csv", tmp_path / "calibrated.yaml"
    table.write_text(HEADER + "".join(rows))
    outcome = CliRunner().invoke(command, [str(uncalibrated), str(table), "--out", str(out)])
    assert outcome.exit_code == 0, outcome.output
    fitted = network(str(out))
    for name in ("launch_s", "latency_s", "bytes_per_s"):
        assert getattr(fitted, name) == pytest.approx(getattr(true, name), rel=0.01), name
    assert fitted.transfer_share * fitted.bytes_per_s == pytest.approx(min(alone, fitted.bytes_per_s))


def test_a_held_out_error_that_grows_is_said(tmp_path):
    sizes = [2**power for power in range(20, 28)]
    times = [network("nvlink3").collective_s("all_reduce", size, 4) for size in sizes]
    rows = [f"all_reduce,{size},4,,{times[n] * (1.0 if n % 2 else 3.0)}\n" for n, size in enumerate(sizes)]
    table = tmp_path / "own.csv"
    table.write_text(HEADER + "".join(rows))
    outcome = CliRunner().invoke(command, ["nvlink3", str(table)])
    assert outcome.exit_code == 0, outcome.output
    assert "all_reduce: the error on the held-out half has increased" in outcome.output


@pytest.mark.parametrize(
    ("spec", "rows", "rule"),
    [
        ("dgx-a100", "all_reduce,8,4,,1e-5\n" * 8, "must be a flat network; calibrate each of its levels: nvlink3, "),
        ("nvlink3", "all_reduce,8,4,,1e-5\n" * 5, "all_reduce: 5 rows: each kind needs at least 6 rows"),
        ("nvlink3", "all_reduce,8,1,,1e-5\n" * 8, "line 2.n: 1: must be at least 2"),
        (
            "nvlink3",
            "".join(f"all_reduce,{n}e9,4,,{n}e-5\n" for n in range(1, 9)),
            "but the links of nvlink3 provide only 3e+11",
        ),
        ("nvlink3", "all_reduce,8e6,4,,1e-3\nall_reduce,8e7,4,,1e-2\n" * 4, "all_reduce: 1 size: the fitted half"),
        ("nvlink3", "gemm,8,8,8,1e-5\n" * 4, "gemm: nvlink3 is a network, which accepts only rows of all_reduce"),
        ("dgx-a100", "gelu,8,8,,1e-5\n" * 4, "gelu: dgx-a100 is a network, which accepts only rows of all_reduce"),
        ("a100-sxm", "all_reduce,8,4,,1e-5\ngemm,8,8,8,1e-5\n" * 4, "all-reduces calibrate a network, nvlink3 for"),
        ("nvlnk3", "all_reduce,8,4,,1e-5\n" * 8, "did you mean nvlink3"),
    ],
)
def test_what_cannot_be_calibrated_is_refused(tmp_path, spec, rows, rule):
    path = tmp_path / "measured.csv"
    path.write_text(HEADER + rows)
    with pytest.raises(InputError) as refused:
        calibrate(spec, path)
    (fault,) = refused.value.faults
    assert rule in str(fault)


def test_measured_all_reduces_stand_for_those_that_a_spec_has_timed(tmp_path):
    path = tmp_path / "links.csv"
    rows = [
        f"all_reduce,{size},{ranks},,{1e-5 * ranks + 2 * (ranks - 1) / ranks * size / 6e11}"
        for size in (1_000_000, 30_000_000, 1_000_000_000)
        for ranks in (2, 4, 6, 8)
    ]
    path.write_text(HEADER + "\n".join(rows))
    out = tmp_path / "ours.yaml"
    outcome = CliRunner().invoke(command, ["nvlink5", str(path), "--out", str(out)])
    assert outcome.exit_code == 0, outcome.output
    fitted, stated = network(str(out)), network("nvlink5")
    assert [each.kind for each in fitted.timed] == ["all_gather", "reduce_scatter", "all_to_all"]
    assert fitted.collective_s("all_reduce", 1e9, 8) == pytest.approx(8e-5 + 1.75e9 / 6e11, rel=0.02)
    assert fitted.collective_s("all_gather", 1e9, 8) == pytest.approx(stated.collective_s("all_gather", 1e9, 8))
