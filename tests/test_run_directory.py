import pytest
import yaml

from dse.result import Objective, ProblemReference, Result
from dse.run_directory import RunDirectory
from hardware.inputs import InputError

DIGEST = "sha256:1"


def result(status="optimal"):
    return Result(
        command="place",
        problem=ProblemReference(name="p", digest="sha256:0"),
        status=status,
        objective=Objective(name="batch_s", value=1.0, unit="s", sense="min"),
        bound=1.0,
        gap=0.0,
        method="m",
    )


def test_a_finished_run_is_returned(tmp_path):
    path = tmp_path / "deep" / "run"
    RunDirectory(path, "place", {"layers": "a.json"}, DIGEST, resume=False).write_result(result())
    again = RunDirectory(path, "place", {"layers": "a.json"}, DIGEST, resume=True)
    assert again.finished() == result()
    assert yaml.safe_load((path / "run.yaml").read_text())["arguments"] == {"layers": "a.json"}


@pytest.mark.parametrize("status", ["feasible", "interrupted", "unknown"])
def test_an_unfinished_run_goes_on(tmp_path, status):
    RunDirectory(tmp_path / "r", "place", {}, DIGEST, resume=False).write_result(result(status))
    assert RunDirectory(tmp_path / "r", "place", {}, DIGEST, resume=True).finished() is None


@pytest.mark.parametrize(("missing", "goes_on"), [(["pareto"], True), ([], False)])
def test_a_run_with_an_unfinished_part_goes_on(tmp_path, missing, goes_on):
    cut = result().model_copy(update={"metrics": {"unfinished": missing}})
    RunDirectory(tmp_path / "r", "codesign", {}, DIGEST, resume=False).write_result(cut)
    assert (RunDirectory(tmp_path / "r", "codesign", {}, DIGEST, resume=True).finished() is None) == goes_on


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
    monkeypatch.setattr("dse.__version__", "99")
    with pytest.raises(InputError, match=r"version: .*this is 99"):
        RunDirectory(tmp_path / "r", "place", {}, DIGEST, resume=True)


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
        directory.write_text("report.html", "x")
    assert [path.name for path in tmp_path.iterdir()] == ["run.yaml"]
