"""``dse calibrate --stack``: sustained shares of a software stack, from kernels and all-reduces measured on a chip."""

import pytest
from click.testing import CliRunner

from dse.calibration.calibrate import calibrate
from dse.cli.calibrate import command
from dse.plan.stack import Stack, stack
from hardware.chips import system
from hardware.inputs import InputError

HEADER = "op,m,n,k,measured_s\n"
SIZES = [2**power for power in range(9, 14)]


def rows_at(matrix, memory, link, name="h100-sxm"):
    """A table of a machine that sustains these shares of its peaks, with no other times."""
    machine = system(name)
    chip = machine.chip
    lines = [f"gemm,{n},{n},{n},{2 * n**3 / (matrix * chip.peak_flops['bf16'])}\n" for n in SIZES]
    lines += [f"gelu,{n},{n},,{4 * n * n / (memory * chip.hbm_bytes_per_s)}\n" for n in SIZES]
    for size in (1e6, 1e7, 1e8, 1e9):
        seconds = machine.network.spanning(8).collective_s("all_reduce", size / link, 8)
        lines.append(f"all_reduce,{size:.0f},8,,{seconds}\n")
    return HEADER + "".join(lines)


@pytest.fixture
def measured(tmp_path):
    path = tmp_path / "measured.csv"
    path.write_text(rows_at(0.7, 0.6, 0.5))
    return path


def test_shares_are_recovered_from_their_own_times(measured):
    calibration = calibrate("h100-sxm", measured, "generic")
    shares = {key: calibration.document[key]["value"] for key in ("matrix", "memory", "link", "attention_rate")}
    assert shares == pytest.approx({"matrix": 0.7, "memory": 0.6, "link": 0.5, "attention_rate": 0.55}, rel=1e-3)
    for errors in calibration.errors:
        assert errors.held_out_before > 0.05
        assert errors.held_out_after < 1e-9


def test_the_written_stack_is_one_that_plans_take(measured, tmp_path, dse):
    out = tmp_path / "own.yaml"
    outcome = CliRunner().invoke(command, ["h100-sxm", str(measured), "--stack", "generic", "--out", str(out)])
    assert outcome.exit_code == 0, outcome.output
    assert "Error in the total time" in outcome.output
    written = stack(str(out))
    assert written.fitted_on == ("h100-sxm",)
    assert written.description == "As generic; link, matrix, memory calibrated on h100-sxm (measured.csv)."
    assert written.matrix.fitted == ("measured.csv",)
    assert "half of the 5 rows of gemm in measured.csv" in written.matrix.source
    asked = ("--on", "h100-sxm", "--accelerators", 8, "--global-batch", 16, "--plan", "tensor=8", "--quiet")
    assert dse("predict", "llama3-8b", *asked, "--stack", out).code == 0


@pytest.mark.parametrize(("precision", "before"), [("bf16", 0.488), ("fp16", 0.75)])
def test_the_error_before_is_that_of_the_shares_that_plans_have(tmp_path, precision, before):
    """Of a B200, that of its timed kernels in the precision that they were timed in."""
    path = tmp_path / "measured.csv"
    path.write_text(rows_at(0.6, 0.6, 0.5, "b200"))
    products = calibrate("b200", path, "generic", precision).errors[0]
    assert products.held_out_before == pytest.approx(abs(0.6 / before - 1), rel=1e-9)


def test_kinds_without_rows_keep_their_shares(tmp_path):
    path = tmp_path / "gemms.csv"
    kept = [line for line in rows_at(0.7, 0.6, 0.5).splitlines(keepends=True) if line.startswith(("op", "gemm"))]
    path.write_text("".join(kept))
    document = calibrate("h100-sxm", path, "megatron-2022").document
    assert document["memory"] == stack("megatron-2022").model_dump(mode="json", exclude_unset=True)["memory"]
    written = Stack.model_validate(document)
    assert written.measured_elsewhere("h100-sxm") == {"memory": ("a100-sxm",)}
    assert written.measured_elsewhere("a100-sxm") == {"matrix": ("h100-sxm",)}


def test_an_answer_names_the_rates_that_were_measured_on_another_chip(tmp_path, dse):
    path, out = tmp_path / "gemms.csv", tmp_path / "own.yaml"
    lines = [line for line in rows_at(0.7, 0.6, 0.5).splitlines(keepends=True) if line.startswith(("op", "gemm"))]
    path.write_text("".join(lines))
    assert (
        CliRunner().invoke(command, ["h100-sxm", str(path), "--stack", "megatron-2022", "--out", str(out)]).exit_code
        == 0
    )
    asked = ("llama3-8b", "--accelerators", 8, "--global-batch", 16, "--plan", "tensor=8", "--stack", out)
    answered = " ".join(dse("predict", *asked, "--on", "h100-sxm").out.split())
    assert "not calibrated for h100-sxm" in answered
    assert "these sustained shares were measured on other chips: memory on a100-sxm" in answered


def test_the_precision_counts_only_where_there_are_products(tmp_path):
    path = tmp_path / "vectors.csv"
    lines = [line for line in rows_at(0.7, 0.6, 0.5).splitlines(keepends=True) if line.startswith(("op", "gelu"))]
    path.write_text("".join(lines), encoding="utf-8-sig")  # spreadsheets put a mark of the byte order first
    document = calibrate("h100-sxm", path, "megatron-2022", "fp4").document
    assert document["memory"]["value"] == pytest.approx(0.6, rel=1e-3)
    with pytest.raises(InputError, match="--precision: bf16: requires --stack"):
        calibrate("a100-sxm", path, precision="bf16")


@pytest.mark.parametrize(
    ("chip", "text", "asked", "rule"),
    [
        ("h100-sxm", "gemm,8,8,8,1e-5\n" * 3, {}, "gemm: 3 rows: each kind needs at least 4 rows"),
        (
            "h100-sxm",
            "gemm,8192,8192,8192,2e-3\n" * 3 + "gemm,8192,8192,8192,1e-6\n",
            {},
            "line 5.measured_s: 1e-06: 1.1e+06 TFLOP/s must be at most the peak of h100-sxm in bf16",
        ),
        ("h100-sxm", "gemm,8,8,8,1e-5\n" * 4, {"precision": "fp4"}, "--precision: fp4: must be one of fp16, bf16, "),
        ("h100-smx", "gemm,8,8,8,1e-5\n" * 4, {}, "did you mean h100-sxm"),
        ("h100-sxm", "gemm,8,8,8,1e-5\n" * 4, {"stack": "genric"}, "did you mean generic"),
        ("h100-sxm", "gemm,8,8,8,1e-5\n" * 4, {"stack": "template"}, "no stack of this name"),
    ],
)
def test_what_cannot_be_calibrated_is_refused(tmp_path, chip, text, asked, rule):
    path = tmp_path / "measured.csv"
    path.write_text(HEADER + text)
    with pytest.raises(InputError) as refused:
        calibrate(chip, path, **{"stack": "generic", **asked})
    (fault,) = refused.value.faults
    assert rule in str(fault)
