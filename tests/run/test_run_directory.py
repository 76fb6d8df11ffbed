import os
from pathlib import Path

import pytest
import yaml

from dse.run.directory import RunDirectory, inside, write_text
from hardware.documents import yaml_of
from hardware.inputs import InputError

DIGEST = "sha256:1"


def test_other_arguments_are_refused_with_the_key(tmp_path):
    RunDirectory(tmp_path / "r", "place", {"layers": "a.json", "seed": 0}, DIGEST, resume=False)
    with pytest.raises(InputError, match=r"arguments\.seed"):
        RunDirectory(tmp_path / "r", "place", {"layers": "a.json", "seed": 1}, DIGEST, resume=True)
    with pytest.raises(InputError, match="command"):
        RunDirectory(tmp_path / "r", "wafer", {"layers": "a.json", "seed": 0}, DIGEST, resume=True)


def test_a_begun_run_needs_resume(tmp_path):
    RunDirectory(tmp_path / "r", "place", {}, DIGEST, resume=False)
    with pytest.raises(InputError, match="--resume"):
        RunDirectory(tmp_path / "r", "place", {}, DIGEST, resume=False)


def test_foreign_files_are_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="not empty"):
        RunDirectory(tmp_path, "place", {}, DIGEST, resume=False)
    with pytest.raises(InputError, match="must be a directory"):
        RunDirectory(tmp_path / "notes.txt", "place", {}, DIGEST, resume=False)
    assert [entry.name for entry in tmp_path.iterdir()] == ["notes.txt"]


def test_a_changed_input_or_another_version_is_refused(tmp_path, monkeypatch):
    RunDirectory(tmp_path / "r", "place", {}, DIGEST, resume=False)
    with pytest.raises(InputError, match="an input has changed"):
        RunDirectory(tmp_path / "r", "place", {}, "sha256:2", resume=True)
    monkeypatch.setattr("dse.run.directory.VERSION", "99")
    with pytest.raises(InputError, match=r"version: .*this is 99"):
        RunDirectory(tmp_path / "r", "place", {}, DIGEST, resume=True)


def test_the_input_that_has_changed_is_named_and_decides_nothing(tmp_path):
    inputs = {"samples": "sha256:a", "checkpoint": None}
    RunDirectory(tmp_path, "evaluate", {}, DIGEST, resume=False, inputs=inputs)
    RunDirectory(tmp_path, "evaluate", {}, DIGEST, resume=True, inputs={"samples": "sha256:b"})
    with pytest.raises(InputError, match=r"inputs\.checkpoint: this input has changed since this run began"):
        RunDirectory(tmp_path, "evaluate", {}, "sha256:2", resume=True, inputs=inputs | {"checkpoint": "sha256:c"})


@pytest.mark.parametrize("key", ["version", "git_revision"])
def test_a_run_of_another_version_is_not_said_to_have_other_inputs(tmp_path, monkeypatch, key):
    monkeypatch.setattr("dse.run.directory.git_revision", lambda: "abcdef0123456789")
    RunDirectory(tmp_path, "place", {"moves": 1}, DIGEST, resume=False)
    document = yaml.safe_load((tmp_path / "run.yaml").read_text())
    (tmp_path / "run.yaml").write_text(yaml_of(document | {key: "0.0.1-of-long-ago"}))
    arguments = {"moves": 1} if key == "git_revision" else {"moves": 1, "rounds": 2}  # an option that is new
    words = {
        "version": "version: the directory contains a run of dse 0.0.1-of-long-ago, but this is",
        "git_revision": "problem: this run was started by commit 0.0.1-of- of dse, and this is abcdef012: an input has",
    }
    with pytest.raises(InputError, match=words[key]):
        RunDirectory(tmp_path, "place", arguments, "sha256:2", resume=True)


@pytest.mark.parametrize("commit", [7, ["a"], {}, None])
def test_a_commit_that_is_no_text_is_not_printed(tmp_path, monkeypatch, commit):
    monkeypatch.setattr("dse.run.directory.git_revision", lambda: "abcdef0123456789")
    RunDirectory(tmp_path, "place", {}, DIGEST, resume=False)
    document = yaml.safe_load((tmp_path / "run.yaml").read_text())
    (tmp_path / "run.yaml").write_text(yaml_of(document | {"git_revision": commit}))
    with pytest.raises(InputError, match="problem: an input has changed since this run began"):
        RunDirectory(tmp_path, "place", {}, "sha256:2", resume=True)


def test_what_a_killed_process_left_before_its_run_began_is_no_obstacle(tmp_path):
    (tmp_path / ".run.yaml.4711").write_text("command: torn")
    directory = RunDirectory(tmp_path, "x", {}, "sha256:0", resume=True)
    assert (directory.path / "run.yaml").exists()


def test_a_file_that_cannot_be_written_is_named_and_leaves_nothing(tmp_path, monkeypatch):
    directory = RunDirectory(tmp_path, "x", {}, "sha256:0", resume=False)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    with pytest.raises(InputError, match=r"report\.html: cannot be written: No space left on device"):
        directory.write("report.html", "x")
    assert [path.name for path in tmp_path.iterdir()] == ["run.yaml"]


@pytest.mark.parametrize("content", [b"", bytes(300)], ids=["empty", "zeros"])
def test_a_run_file_that_a_power_cut_emptied_is_no_run_where_nothing_is_recorded(tmp_path, content):
    (tmp_path / "run.yaml").write_bytes(content)
    (tmp_path / "journal.jsonl").touch()
    RunDirectory(tmp_path, "x", {"seed": 1}, DIGEST, resume=False)
    assert yaml.safe_load((tmp_path / "run.yaml").read_text())["arguments"] == {"seed": 1}


@pytest.mark.parametrize("worth", ["journal.jsonl", "result.json", "tables/t.parquet"])
@pytest.mark.parametrize("resume", [False, True])
def test_an_empty_run_file_beside_something_of_worth_says_what_to_do(tmp_path, worth, resume):
    (tmp_path / "run.yaml").touch()
    (tmp_path / worth).parent.mkdir(exist_ok=True)
    (tmp_path / worth).write_text('{"key": "a", "value": 1}\n')
    with pytest.raises(InputError, match=r"run\.yaml: is empty, .*use a new directory, or restore the file"):
        RunDirectory(tmp_path, "x", {}, DIGEST, resume=resume)
    assert (tmp_path / "run.yaml").read_text() == ""
    assert (tmp_path / worth).exists()


def test_a_file_is_on_the_disk_before_it_gets_its_name(tmp_path, monkeypatch):
    happened = []
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr("os.fsync", lambda number: (happened.append("on the disk"), fsync(number)))
    monkeypatch.setattr("pathlib.Path.replace", lambda old, new: (happened.append("named"), replace(old, new)))
    write_text(tmp_path / "run.yaml", "command: x")
    assert happened == ["on the disk", "named"]
    assert (tmp_path / "run.yaml").read_text() == "command: x"


def test_a_further_condition_is_checked_before_anything_is_written(tmp_path):
    def refuse():
        raise InputError([])

    with pytest.raises(InputError):
        RunDirectory(tmp_path / "new", "x", {}, DIGEST, resume=False, accept=refuse)
    assert list(tmp_path.iterdir()) == []
    RunDirectory(tmp_path / "new", "x", {}, DIGEST, resume=False)
    with pytest.raises(InputError, match="--resume continues it"):
        RunDirectory(tmp_path / "new", "x", {}, DIGEST, resume=False, accept=refuse)


@pytest.mark.parametrize("name", ["../elsewhere.svg", "link/elsewhere.svg", "/tmp/elsewhere.svg"])
def test_no_file_of_a_run_lies_outside_its_directory(tmp_path, name):
    directory, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    directory.mkdir()
    elsewhere.mkdir()
    (directory / "link").symlink_to(elsewhere)
    with pytest.raises(InputError, match="must lie inside the run directory"):
        inside(directory, name)
    assert inside(directory, "traces/a.json") == directory / "traces" / "a.json"
