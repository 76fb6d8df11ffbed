"""``dse calibrate --serving``: constants of an inference engine, from serving runs that were measured on chips."""

import pytest
from click.testing import CliRunner

from dse.calibration.engine_spec import calibrate_engine
from dse.calibration.serving_runs import read_runs
from dse.cli.calibrate import command
from dse.serve.engine import Constants, engine
from hardware.inputs import InputError

HEADER = "model,chip,tp,prompt,output,concurrency,tpot_s,ttft_s\n"
KNOWN = Constants(
    kernels=1.25, starts=1.0, collectives=1.9, host_s=2e-3, layer_s=1e-5, launch_s=3e-4, request_s=0.06, source="test"
)
SHAPES = [("llama3-8b", 1), ("llama3-8b", 2), ("llama3-70b", 8), ("llama2-13b", 1)]
CALIBRATE = ("vllm", "--serving")


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A table of what clients of an engine with the known constants would see."""
    path = tmp_path_factory.mktemp("serving") / "My runs.csv"
    cases = [(model, tensor, clients) for model, tensor in SHAPES for clients in (1, 8, 32)]
    lines = [f"{model},h100-sxm,{tensor},800-1000,80-100,{clients}" for model, tensor, clients in cases]
    path.write_text(HEADER + "".join(f"{line},9,9\n" for line in lines))
    own = engine("vllm").model_copy(update={"constants": KNOWN})
    seen = [run.outcome(own) for run in read_runs(path, "vllm")]
    rows = [f"{line},{each.mean_tpot_s},{each.mean_ttft_s}\n" for line, each in zip(lines, seen, strict=True)]
    path.write_text(HEADER + "".join(rows))
    return path


def test_known_constants_are_recovered_from_their_own_runs(measured):
    """Times of a step's host and of its layers can hardly be told apart: their sum for 32 layers counts."""
    calibration = calibrate_engine("vllm", measured)
    found = Constants(**calibration.document["constants"])
    assert found.kernels == pytest.approx(KNOWN.kernels, rel=0.05)
    assert found.host_s + 32 * found.layer_s == pytest.approx(KNOWN.host_s + 32 * KNOWN.layer_s, rel=0.1)
    assert found.request_s == pytest.approx(KNOWN.request_s, rel=0.1)
    tpot, ttft = calibration.errors
    assert (tpot.kind, tpot.rows, ttft.kind, ttft.rows) == ("TPOT", 12, "TTFT", 12)
    assert tpot.held_out_before > 0.1
    assert tpot.held_out_after < 0.03
    assert ttft.held_out_after < 0.05 < ttft.held_out_before


def test_the_written_engine_is_one_that_serve_takes(measured, tmp_path, dse):
    out = tmp_path / "mine.yaml"
    outcome = CliRunner().invoke(command, [*CALIBRATE, str(measured), "--out", str(out)])
    assert outcome.exit_code == 0, outcome.output
    assert "error on the held-out half: TPOT from" in outcome.output
    written = engine(str(out))
    assert written.name == "vllm-my-runs"
    assert "6 runs of 2 configurations in My runs.csv" in written.constants.source
    asked = ("--accelerators", 1, "--prompt", "800-1000", "--output", "80-100", "--concurrency", 8)
    served = dse("serve", "llama3-8b", *asked, "--engine", out, "--notes", "--out", tmp_path / "run")
    assert served.code == 0, served.err
    assert "engine vllm-my-runs: calibrated: on 6 runs" in " ".join(served.out.split())
    assert "no published run here is of vllm-my-runs" in " ".join(served.out.split())
    assert (tmp_path / "run" / "vllm-serve.sh").exists()
    assert dse("check", tmp_path / "run").code == 0


def test_without_ttft_a_request_costs_what_it_did(measured, tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text("\n".join(line.rpartition(",")[0] for line in measured.read_text().splitlines()))
    calibration = calibrate_engine("vllm", path)
    assert calibration.document["constants"]["request_s"] == engine("vllm").constants.request_s
    assert [each.kind for each in calibration.errors] == ["TPOT"]


@pytest.mark.parametrize(
    ("row", "rule"),
    [
        ("llama3-8x,h100-sxm,1,1000,100,8,0.02,1", r"line 2.model: llama3-8x: .*"),
        ("llama3-8b,h100,1,1000,100,8,0.02,1", r"line 2.chip: h100: .*did you mean h100-sxm"),
        ("llama3-8b,h100-sxm,3,1000,100,8,0.02,1", "line 2.tensor: 3: must divide"),
        ("llama3-8b,h100-sxm,two,1000,100,8,0.02,1", "line 2.tensor: two: must be a whole number"),
        ("llama3-8b,h100-sxm,1,1000-800,100,8,0.02,1", "line 2.prompt: 1000-800: must begin with the smaller"),
        ("llama3-8b,h100-sxm,1,200000,100,8,0.02,1", "line 2.prompt: 200000: with --output 100 must be at most"),
        ("llama3-8b,h100-sxm,1,1000,1,8,0.02,1", "line 2.output: 1: must be at least 2"),
        ("llama3-8b,h100-sxm,1,1000,100,0,0.02,1", "line 2.concurrency: 0: must be a positive number"),
        ("llama3-8b,h100-sxm,1,1000,100,8,,1", "line 2.tpot_s: must be a positive number"),
        ("llama3-8b,h100-sxm,1,1000,100,8,0.02,-1", "line 2.ttft_s: -1: must be a positive number"),
        ("llama3-8b,h100-sxm,1,1000,100,8,0.001,1", "line 2.tpot_s: 0.001: must be at least 0.00"),
    ],
)
def test_rows_that_cannot_have_run_are_refused_by_line(tmp_path, row, rule):
    path = tmp_path / "runs.csv"
    path.write_text(f"{HEADER}{row}\n")
    with pytest.raises(InputError, match=rule):
        calibrate_engine("vllm", path)


def test_rows_of_another_engine_are_refused(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text("engine," + HEADER + "sglang,llama3-8b,h100-sxm,1,1000,100,8,0.02,1\n")
    with pytest.raises(InputError, match=r"line 2.engine: sglang: must be vllm"):
        calibrate_engine("vllm", path)


def test_one_configuration_is_refused(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text(HEADER + "".join(f"llama3-8b,h100-sxm,1,1000,100,{each},0.02,1\n" for each in (1, 2, 4, 8)))
    with pytest.raises(InputError, match="1 configuration: must have runs of at least 2 configurations"):
        calibrate_engine("vllm", path)


def test_a_table_without_a_column_is_refused(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text("model,chip,prompt,output,concurrency,tpot_ms\n")
    with pytest.raises(InputError, match=r"tpot_s: the column is missing .* the file has tpot_ms"):
        calibrate_engine("vllm", path)


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (["rows.csv", "--serving", "rows.csv"], "one of MEASUREMENTS.csv, --trace FILE and --serving ROWS.csv"),
        (["--serving", "rows.csv", "--stack", "generic"], "must not be given with --serving"),
        (["--serving", "rows.csv", "--precision", "fp8"], "must not be given with --serving, which states it"),
        (["--serving", "none.csv"], "none.csv: cannot be read"),
    ],
)
def test_options_that_contradict_each_other_are_refused(dse, options, rule):
    refused = dse("calibrate", "vllm", *options)
    assert refused.code == 2
    assert rule in refused.err


def test_an_engine_of_ones_own_needs_a_name_of_its_own(tmp_path):
    path = tmp_path / "engine.yaml"
    document = engine("vllm").model_dump_json()
    path.write_text(document)
    with pytest.raises(InputError, match=r"name: vllm: must differ .*did you mean vllm-mine"):
        engine(str(path))
    path.write_text(document.replace('"name":"vllm"', '"name":"tgi"', 1))
    with pytest.raises(InputError, match="name: tgi: "):
        engine(str(path))
