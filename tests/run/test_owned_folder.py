"""Temporary folders of processes that may be killed."""

import os
import subprocess
import sys

from dse.run.owned_folder import OWNER_FILE, OwnedFolder, remove_left_over

HOLD = """
import sys
from pathlib import Path
from dse.run.owned_folder import OwnedFolder
folder = OwnedFolder("dse-", Path(sys.argv[1]))
(folder.path / "session" / "logs").mkdir(parents=True)
(folder.path / "session" / "logs" / "gcs.log").write_text("x")
(folder.path / "latest").symlink_to(folder.path / "session")
print(folder.path, flush=True)
sys.stdin.read()
"""


def holder(parent):
    """(a process that has a folder in ``parent``, the folder)."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(parent)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    return process, process.stdout.readline().strip()


def names(parent):
    return {path.name for path in parent.iterdir()}


def test_a_folder_is_gone_when_its_context_ends(tmp_path):
    with OwnedFolder("dse-", tmp_path) as folder:
        (folder.path / "deep").mkdir()
        assert (folder.path / OWNER_FILE).read_text() == f"{os.getpid()}\n"
        assert names(tmp_path) == {folder.path.name}
    assert names(tmp_path) == set()


def test_the_folder_of_a_living_process_stays_and_that_of_a_killed_one_goes(tmp_path):
    process, path = holder(tmp_path)
    try:
        assert remove_left_over("dse-", tmp_path) == []
        with OwnedFolder("dse-", tmp_path) as ours:
            assert {str(tmp_path / name) for name in names(tmp_path)} == {path, str(ours.path)}
        process.kill()
        process.wait()
        assert [*map(str, tmp_path.iterdir())] == [path]
        with OwnedFolder("dse-", tmp_path) as ours:
            assert names(tmp_path) == {ours.path.name}
    finally:
        process.kill()
        process.wait()


def test_what_may_be_anothers_stays(tmp_path):
    process, path = holder(tmp_path)
    process.kill()
    process.wait()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "dse-unmarked").mkdir()
    (tmp_path / "dse-unmarked" / "notes.txt").write_text("mine")
    (tmp_path / "dse-file").write_text("mine")
    # Folders that look like one that was left, but are reached through a link.
    os.rename(path, elsewhere / "left")
    (tmp_path / "dse-link").symlink_to(elsewhere / "left")
    (tmp_path / "dse-linked-mark").mkdir()
    (tmp_path / "dse-linked-mark" / OWNER_FILE).symlink_to(elsewhere / "left" / OWNER_FILE)
    before = sorted(tmp_path.rglob("*"))
    assert remove_left_over("dse-", tmp_path) == []
    assert sorted(tmp_path.rglob("*")) == before
    assert remove_left_over("le", elsewhere) == [elsewhere / "left"]


def test_the_folder_of_another_user_stays(tmp_path, monkeypatch):
    process, path = holder(tmp_path)
    process.kill()
    process.wait()
    monkeypatch.setattr("os.getuid", lambda: os.stat(path).st_uid + 1)
    assert remove_left_over("dse-", tmp_path) == []
    monkeypatch.undo()
    assert [*map(str, remove_left_over("dse-", tmp_path))] == [path]
