"""``dse codesign`` as a user runs it: answers, tampered answers, interrupts, changed inputs."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dse.cli import main
from dse.results.result import seal_of
from tests.codesign.test_exhaustive import TINY_MODEL
from tests.run.journals import alter

ROOT = Path(__file__).parents[2]
SMALL = ("--accelerators", "16", "--global-batch", "32", "--microbatch", "1,2", "--area-budget", "1.7159")


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny.yaml"
    path.write_text(TINY_MODEL)
    return path


@pytest.fixture(scope="module")
def finished_run(model_file, tmp_path_factory):
    """A finished run directory; the tests get copies."""
    out = tmp_path_factory.mktemp("finished") / "run"
    asked = ("codesign", model_file, *SMALL, "--out", out, "--quiet", "--workers", "0")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["dse", *map(str, asked)])
        with pytest.raises(SystemExit) as ended:
            main()
    assert not ended.value.code
    return out


@pytest.fixture
def answer(finished_run, tmp_path):
    """A finished run directory and its result."""
    out = shutil.copytree(finished_run, tmp_path / "run")
    return out, json.loads((out / "result.json").read_text())


def test_a_run_leaves_everything_and_checks(dse, answer):
    out, document = answer
    assert document["status"] == "optimal"
    files = {"result.json", "run.yaml", "journal.jsonl", "report.html", "architectures.svg", "tables", "traces"}
    assert {entry.name for entry in out.iterdir()} == files
    assert "proven optimal" in (out / "report.html").read_text()
    assert dse("check", out / "result.json").out == "ok\n"
    (out / "report.html").unlink()
    assert dse("report", out).code == 0
    assert (out / "report.html").exists()


def test_a_report_says_which_tables_it_lacks(dse, answer):
    out, _ = answer
    assert dse("report", out).err == ""
    shutil.rmtree(out / "tables")
    shown = dse("report", out)
    assert shown.code == 0
    path = out / "tables" / "architectures.parquet"
    assert shown.err == f"warning: {path} is missing; the page omits what is drawn from this table\n"


def _changed(document, path, value):
    copy = json.loads(json.dumps(document))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return copy


def _write(path, document):
    """What a forger writes, who seals it again."""
    path.write_text(json.dumps({**document, "seal": seal_of(document)}))


_FREE_SETTINGS = (
    "search",
    "hysteresis",
    "hysteresis_rule",
    "samples",
    "hbm_gb",
    "network",
    "sequence",
    "fixed",
    "weights",
)
"""Settings that name no part of the problem, or for which None stands."""


@pytest.mark.parametrize("other", [None, -1, "x", [], {}, "1,,2"], ids=repr)
def test_altered_settings_are_bad_input_or_another_problem(dse, answer, tmp_path, other):
    _, document = answer
    path = tmp_path / "altered.json"
    for key, value in document["settings"].items():
        if value != other and key not in _FREE_SETTINGS:
            _write(path, _changed(document, ("settings", key), other))
            refused = dse("check", path)
            assert refused.code in (1, 2), (key, other)
            assert len(refused.err.splitlines()) <= 1


def test_a_false_claim_of_infeasibility_is_found(dse, answer, tmp_path):
    _, document = answer
    path = tmp_path / "claim.json"
    nothing = {"objective": {**document["objective"], "value": None}, "bound": None, "gap": None}
    _write(path, {**document, **nothing, "status": "infeasible", "solution": {}})
    refused = dse("check", path)
    assert refused.code == 1
    assert "a placement fits" in refused.out


def test_a_finished_run_is_returned_but_not_for_a_changed_model(dse, answer, model_file):
    out, document = answer
    again = dse("codesign", model_file, *SMALL, "--out", out, "--json", "--resume")
    assert json.loads(again.out) == document
    try:
        model_file.write_text(TINY_MODEL.replace("layers: 3", "layers: 2"))
        refused = dse("codesign", model_file, *SMALL, "--out", out, "--json", "--resume")
    finally:
        model_file.write_text(TINY_MODEL)
    assert refused.code == 2
    assert "an input has changed" in refused.err


def test_an_altered_journal_is_refused_with_its_line(dse, answer, model_file):
    out, _ = answer
    (out / "result.json").unlink()
    alter(out / "journal.jsonl", lambda value: {key: item for key, item in value.items() if key != "plans"})
    refused = dse("codesign", model_file, *SMALL, "--out", out, "--resume", "--workers", "0")
    assert refused.code == 2
    assert "journal.jsonl: line " in refused.err


def test_a_model_that_fits_nowhere_exits_with_1_and_says_what_would(dse, model_file):
    refused = dse("codesign", model_file, *SMALL, "--hbm-gb", "0.0001")
    assert refused.code == 1
    assert "--hbm-gb" in refused.out
    assert "bytes too few" in refused.out


def test_a_cluster_that_does_not_answer_is_bad_usage(dse, model_file):
    refused = dse("codesign", model_file, *SMALL, "--address", "127.0.0.1:1")
    assert refused.code == 2
    assert "--address" in refused.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("begun", "number"),
    [("run.yaml", signal.SIGINT), ("journal.jsonl", signal.SIGINT), ("journal.jsonl", signal.SIGTERM)],
)
def test_an_interrupt_stops_cleanly_and_the_run_says_how_it_goes_on(tmp_path, model_file, begun, number):
    """Interrupted once the run directory is there, or an evaluation is in the journal."""
    out = tmp_path / "run"
    # Every one of 59,748 architectures, in the order of their areas, would take minutes.
    few = ("--accelerators", "16", "--global-batch", "32", "--microbatch", "1", "--tensor-parallel", "1")
    whole = (*few, "--search", "hysteresis", "--hysteresis", "59748")
    command = [sys.executable, "-m", "dse", "codesign", model_file, *whole, "--workers", "0", "--out", out]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    while not ((out / begun).exists() and (out / begun).stat().st_size) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(number)
    _, err = process.communicate()
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "--resume" in err
    if begun == "journal.jsonl" or (out / "result.json").exists():
        assert json.loads((out / "result.json").read_text())["status"] == "interrupted"
