"""The copy of a run directory at another place."""

import json
import os
import shutil
import time

import pytest

from dse.run.journal import Journal
from dse.run.mirror import Mirror, fetch
from hardware.inputs import InputError
from tests.cli.test_command_line import CHAIN
from tests.codesign.tiny import MODEL


def complaints():
    heard = []
    return heard, heard.append


def test_the_copy_follows_the_run_and_holds_it_at_its_end(tmp_path):
    run, copy = tmp_path / "run", tmp_path / "there" / "copy"
    run.mkdir()
    (run / "run.yaml").write_text("command: x")
    heard, notice = complaints()
    with Mirror(run, copy.as_uri(), notice, interval_s=0.05), Journal(run / "journal.jsonl") as journal:
        assert (copy / "run.yaml").read_text() == "command: x"
        journal.append("a", 1)
        while not ((copy / "journal.jsonl").exists() and (copy / "journal.jsonl").read_text()):
            time.sleep(0.02)
        (run / "tables").mkdir()
        (run / "tables" / "t.parquet").write_text("late")
    assert (copy / "tables" / "t.parquet").read_text() == "late"
    assert (copy / "journal.jsonl").read_bytes() == (run / "journal.jsonl").read_bytes()
    assert heard == []


def test_a_lost_run_comes_back_and_a_present_one_stays(tmp_path):
    run, copy = tmp_path / "run", tmp_path / "copy"
    run.mkdir()
    with Mirror(run, copy.as_uri(), print), Journal(run / "journal.jsonl") as journal:
        journal.append("a", 1)
    shutil.rmtree(run)
    fetch(run, copy.as_uri())
    with Journal(run / "journal.jsonl") as journal:
        assert dict(journal) == {"a": 1}
        journal.append("b", 2)
    fetch(run, copy.as_uri())
    with Journal(run / "journal.jsonl") as journal:
        assert dict(journal) == {"a": 1, "b": 2}


def test_without_a_copy_nothing_is_fetched(tmp_path):
    fetch(tmp_path / "run", (tmp_path / "nothing").as_uri())
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("uri", ["nowhere", "ftp://host/path", "file:///proc/none/run"])
def test_a_place_that_cannot_be_written_is_refused_at_once(tmp_path, uri):
    with pytest.raises(InputError, match=f"--mirror: {uri}: must be writable"), Mirror(tmp_path, uri, print):
        pytest.fail("the run began")


def test_a_place_that_is_lost_later_is_reported_and_does_not_end_the_run(tmp_path):
    run, copy = tmp_path / "run", tmp_path / "copy"
    run.mkdir()
    heard, notice = complaints()
    with Mirror(run, copy.as_uri(), notice):
        shutil.rmtree(copy)
        copy.write_text("a file now")
    assert "could not copy the run there" in heard[0]


def test_a_lost_directory_is_resumed_from_its_mirror(dse, tmp_path):
    model = tmp_path / "tiny.yaml"
    model.write_text(MODEL.format(name="tiny", layers=3, hidden=64))
    out, copy = tmp_path / "run", tmp_path / "copy"
    asked = [
        "codesign",
        str(model),
        *["--accelerators", "16", "--global-batch", "64", "--area-budget", "1.6959", "--workers", "0"],
    ]
    asked += ["--out", str(out), "--mirror", copy.as_uri()]
    assert dse(*asked).code == 0
    before = (out / "result.json").read_text()
    shutil.rmtree(out)
    assert dse(*asked, "--resume").code == 0
    assert (out / "result.json").read_text() == before


def test_a_mirror_needs_a_run_directory(dse):
    answer = dse("codesign", "bert-large", "--mirror", "file:///tmp/x")
    assert answer.code == 2
    assert "--mirror: requires a run directory" in answer.err


def run_with(folder, text, *keys):
    """A run directory of ``text`` with such journal entries."""
    folder.mkdir()
    (folder / "run.yaml").write_text(text)
    with Journal(folder / "journal.jsonl") as journal:
        journal.append_all(dict.fromkeys(keys, 1))
    return folder


def mirror_once(folder, uri):
    """A run that ends where it begins."""
    with Mirror(folder, uri, print):
        return


@pytest.mark.parametrize(
    ("text", "keys", "rule"),
    [
        ("command: other", "abc", "contains another run"),
        ("command: x", "a", "contains more of this run"),
    ],
)
def test_a_copy_that_would_be_lost_is_refused(tmp_path, text, keys, rule):
    copy = tmp_path / "copy"
    mirror_once(run_with(tmp_path / "first", "command: x", "a", "b"), copy.as_uri())
    before = (copy / "journal.jsonl").read_bytes()
    second = run_with(tmp_path / "second", text, *keys)
    with pytest.raises(InputError, match=rule):
        mirror_once(second, copy.as_uri())
    assert (copy / "journal.jsonl").read_bytes() == before


def test_files_of_others_are_not_written_over(tmp_path):
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "notes.txt").write_text("mine")
    run = run_with(tmp_path / "run", "command: x")
    with pytest.raises(InputError, match="contains no run"):
        mirror_once(run, (tmp_path / "copy").as_uri())


def too_long_elsewhere(folder):
    """A file in ``folder`` whose path is as long as one may be, so that no folder of a longer name can hold it."""
    longest, part = 4095, "d" * 200
    while longest - len(str(folder)) - 1 > 255:  # which is as long as a name may be
        folder /= part
    folder.mkdir(parents=True)
    (folder / ("f" * (longest - len(str(folder)) - 1))).touch()


def test_an_empty_directory_gets_the_copy_and_a_fetch_cut_short_leaves_nothing(tmp_path):
    copy = tmp_path / "copy"
    mirror_once(run_with(tmp_path / "run", "command: x", "a"), copy.as_uri())
    (tmp_path / "empty").mkdir()
    fetch(tmp_path / "empty", copy.as_uri())
    with Journal(tmp_path / "empty" / "journal.jsonl") as journal:
        assert dict(journal) == {"a": 1}
    too_long_elsewhere(copy)
    with pytest.raises(InputError):
        fetch(tmp_path / "other", copy.as_uri())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "empty", "run"]


def test_a_torn_line_in_the_copy_that_was_healed_here_is_no_more_of_the_run(tmp_path):
    run, copy = run_with(tmp_path / "run", "command: x", "a"), tmp_path / "copy"
    with (run / "journal.jsonl").open("a") as journal:
        journal.write('{"key": "torn')
    mirror_once(run, copy.as_uri())
    with Journal(run / "journal.jsonl"):
        assert (run / "journal.jsonl").stat().st_size < (copy / "journal.jsonl").stat().st_size
    mirror_once(run, copy.as_uri())
    assert (run / "journal.jsonl").read_bytes() == (copy / "journal.jsonl").read_bytes()


@pytest.fixture
def place(dse, tmp_path):
    """``dse place`` on a small chain, with further arguments; its run directory is ``tmp_path / "run"``."""
    (tmp_path / "chain.json").write_text(json.dumps(CHAIN))
    return lambda *more: dse("place", tmp_path / "chain.json", "--quiet", "--out", tmp_path / "run", *more)


def test_a_finished_run_is_copied_too(place, tmp_path):
    assert place().code == 0
    run, copy = tmp_path / "run", tmp_path / "copy"
    assert place("--resume", "--mirror", copy.as_uri()).code == 0
    assert {path.name for path in copy.iterdir()} == {path.name for path in run.iterdir()} > {"result.json"}
    assert (copy / "result.json").read_bytes() == (run / "result.json").read_bytes()
    shutil.rmtree(run)
    assert place("--resume", "--mirror", copy.as_uri()).code == 0
    assert (copy / "result.json").read_bytes() == (run / "result.json").read_bytes()


@pytest.mark.parametrize("inside", ["run", "run/deep/copy", "."])
@pytest.mark.parametrize("resume", [[], ["--resume"]])
def test_a_mirror_inside_the_run_directory_or_around_it_is_refused(place, tmp_path, inside, resume):
    uri = (tmp_path / inside).as_uri()
    refused = place("--mirror", uri, *resume)
    assert refused.code == 2
    (line,) = refused.error_lines
    assert "--mirror: " in line
    assert "must neither contain --out" in line
    assert [path.name for path in tmp_path.iterdir()] == ["chain.json"]


def test_a_mirror_is_inside_also_behind_a_link(place, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "run")
    assert "must neither contain --out" in place("--mirror", (tmp_path / "link" / "copy").as_uri()).err
    assert list((tmp_path / "run").iterdir()) == []


def files_of_others(folder):
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")


def another_run(folder):
    run_with(folder, "command: other", "a")


@pytest.mark.parametrize(
    ("there", "rule"), [(files_of_others, "contains no run"), (another_run, "already contains a run")]
)
def test_a_refused_mirror_leaves_nothing_behind(place, tmp_path, there, rule):
    there(tmp_path / "copy")
    before = sorted((tmp_path / "copy").iterdir())
    refused = place("--mirror", (tmp_path / "copy").as_uri())
    assert refused.code == 2
    assert rule in refused.err
    assert not (tmp_path / "run").exists()
    assert sorted((tmp_path / "copy").iterdir()) == before


@pytest.mark.parametrize("uri", ["nowhere", "ftp://host/path", "file:///proc/none/run"])
def test_a_place_that_cannot_be_written_leaves_nothing_behind(place, tmp_path, uri):
    refused = place("--mirror", uri)
    assert refused.code == 2
    assert f"--mirror: {uri}: must be writable" in refused.err
    assert not (tmp_path / "run").exists()


def test_a_place_without_permission_is_refused_at_once(place, tmp_path, monkeypatch):
    (tmp_path / "copy").mkdir()
    access = os.access
    # Root may write everywhere.
    monkeypatch.setattr("os.access", lambda path, mode: path != str(tmp_path / "copy") and access(path, mode))
    refused = place("--mirror", (tmp_path / "copy").as_uri())
    assert refused.code == 2
    assert "Permission denied" in refused.err
    assert not (tmp_path / "run").exists()


def test_a_refused_directory_leaves_no_mirror_behind(place, tmp_path):
    files_of_others(tmp_path / "run")
    assert place("--mirror", (tmp_path / "copy").as_uri()).code == 2
    assert not (tmp_path / "copy").exists()


def test_a_run_file_that_a_power_cut_emptied_comes_back(tmp_path):
    run, copy = run_with(tmp_path / "run", "command: x", "a"), tmp_path / "copy"
    mirror_once(run, copy.as_uri())
    (run / "run.yaml").write_text("")
    fetch(run, copy.as_uri())
    assert (run / "run.yaml").read_text() == ""
    (run / "journal.jsonl").write_text("")
    fetch(run, copy.as_uri())
    assert (run / "run.yaml").read_text() == "command: x"
    with Journal(run / "journal.jsonl") as journal:
        assert dict(journal) == {"a": 1}
