"""``ray job submit`` to a head node of the tests' own: what is uploaded, run, printed, stopped and resumed.

The head is that of :mod:`tests.actors.ray_head`.
"""

import json
import os
import re
import shutil
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from dse.cli import main
from tests.actors import held
from tests.actors.ray_head import Head, wait_for
from tests.codesign.test_exhaustive import TINY_MODEL

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
UPLOADED = ("pyproject.toml", "README.md", ".gitignore", "actors", "dse", "hardware", "policies")
IGNORED = (".git/HEAD", ".venv/lib/library.so", "runs/old/result.json", "dse/__pycache__/planted.pyc")
MARK = "+copy"
"""Added to the version of the uploaded copy: a result says by it which code found it."""

SMALL = ("--accelerators", 16, "--global-batch", 32, "--microbatch", 1, "--hbm-gb", 1, "--tensor-parallel", 1)
WALK = ("--search", "hysteresis", "--hysteresis-rule", "no-new-best", "--hysteresis", 5)
SWEEP = ("codesign", "tiny.yaml", *SMALL, "--area-budget", 1.7959, *WALK)
"""77 architectures of 178, each journalled."""

HELD = 20
"""Evaluations that a job records before it is stopped (:mod:`tests.actors.held`)."""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of the checkout, as it lies on a user's disk: with files that git ignores."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in UPLOADED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    for name in IGNORED:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("not to be uploaded")
    (folder / "tiny.yaml").write_text(TINY_MODEL)
    shutil.copy(held.__file__, folder / "held.py")
    edit(folder / "dse" / "version.py", r'(VERSION = "[^"]+)', rf"\1{MARK}")
    # Every step is shown, however fast the steps follow each other.
    edit(folder / "dse" / "cli" / "progress.py", r"(_PLAIN_LINE_INTERVAL_S =) [\d.]+", r"\1 0.0")
    return folder


def edit(path, pattern, replacement):
    text, count = re.subn(pattern, replacement, path.read_text())
    assert count == 1
    path.write_text(text)


@pytest.fixture(scope="module")
def head(checkout):
    """The one head node of these tests, in a folder with a name short enough for Ray's sockets."""
    folder = Path(tempfile.mkdtemp(prefix="dse-jobs-", dir="/tmp"))
    head = Head(folder, checkout)
    try:
        yield head
    finally:
        head.end()
        shutil.rmtree(folder, ignore_errors=True)


def untimed(document):
    """A result without its seconds, where its input lay, and the seal over both."""
    inputs = {name: {**file, "path": ""} for name, file in document["inputs"].items()}
    return {key: value for key, value in document.items() if key not in ("seconds", "seal")} | {"inputs": inputs}


def journal_keys(run):
    """The keys in the order of the journal; an unfinished last line does not count."""
    journal = run / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True) if journal.exists() else []
    return [json.loads(line)["key"] for line in lines if line.endswith("\n")]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The result of the sweep in this process, of this version."""
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "tiny.yaml").write_text(TINY_MODEL)
    command = ["dse", *map(str, SWEEP), "--workers", "0", "--quiet", "--out", str(folder / "run")]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "argv", command)
        with pytest.raises(SystemExit) as ended:
            main()
    assert not ended.value.code
    return untimed(json.loads((folder / "run" / "result.json").read_text()))


def test_a_stopped_job_is_continued_by_another_one_and_answers_as_this_process_does(
    head, checkout, undisturbed, tmp_path
):
    run = tmp_path / "run"
    entry = ("python", "held.py", HELD, tmp_path / "never", *SWEEP, "--out", run, "--workers", 1, "--address", "auto")
    assert head.submit("stopped", "--no-wait", "--", *entry) == 0
    wait_for(lambda: len(journal_keys(run)) >= HELD, "evaluations in the journal")
    head.stop("stopped")
    assert head.state("stopped") == "STOPPED"
    finished = journal_keys(run)

    job = head.dse("resumed", *SWEEP, "--out", run, "--resume", "--workers", 1)
    assert job.exit_code == 0
    assert head.state("resumed") == "SUCCEEDED"
    assert HELD <= len(finished) < undisturbed["evaluations"]
    answer = untimed(json.loads((run / "result.json").read_text()))
    # By the uploaded code; a worker of another version than its driver is refused.
    # What is uploaded is no checkout, so that its answer states no commit.
    versions = {key: value for key, value in undisturbed["versions"].items() if key != "commit"}
    assert answer == {**undisturbed, "versions": {**versions, "dse": versions["dse"] + MARK}}
    assert journal_keys(run)[: len(finished)] == finished
    assert len(set(journal_keys(run))) == len(journal_keys(run))

    progress = [line for line in job.lines if re.fullmatch(r"architectures evaluated: [\d,]+ of [\d,]+ \(.*\)", line)]
    assert len(progress) >= 2
    assert any(line.startswith("tiny: ") and "samples/s" in line for line in job.lines)
    assert not any("\x1b" in line or "\r" in line for line in job.lines)


@pytest.fixture(scope="module")
def refused(head):
    return head.dse("refused", "codesign", "berd-large", "--workers", 1)


def test_bad_input_fails_the_job_with_one_line(head, refused):
    assert refused.exit_code != 0
    assert head.state("refused") == "FAILED"
    [line] = [line for line in refused.lines if line]
    assert line.startswith("error: ")
    assert "bert-large" in line


@pytest.mark.usefixtures("refused")
def test_what_git_ignores_is_not_uploaded(head):
    uploads = head.folder / "session_latest" / "runtime_resources" / "working_dir_files"
    (uploaded,) = (each for each in uploads.iterdir() if each.is_dir())
    assert {path.name for path in uploaded.iterdir()} == {*UPLOADED, "tiny.yaml", "held.py"}
    assert not any((uploaded / name).exists() for name in IGNORED)


def test_an_upload_may_be_as_large_as_the_documentation_says(head, tmp_path):
    (limit_mib,) = re.findall(r"at most (\d+) MiB", (ROOT / "docs" / "guides" / "run-on-a-cluster.md").read_text())
    for mib, taken in ((int(limit_mib) - 1, True), (int(limit_mib) + 1, False)):
        (tmp_path / "weights.bin").write_bytes(os.urandom(mib << 20))
        command = ("submit", "--no-wait", "--working-dir", tmp_path, "--", "true")
        answer = head.ray_job(*command)
        assert (answer.returncode == 0) is taken, answer.stderr
        assert ("413" in answer.stderr + answer.stdout) is not taken


def test_jobs_need_the_token(head):
    assert head.asked("", head.token) is not None
    for token in ("another", ""):
        with pytest.raises(urllib.error.HTTPError) as refused:
            head.asked("", token)
        assert refused.value.code in (401, 403)
