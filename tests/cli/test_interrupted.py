"""What an interrupted command says of how it is continued."""

from contextlib import contextmanager

import pytest

from dse.run.directory import JOURNAL_FILE
from dse.run.journal import Journal
from tests.shared_data import shared_data


@pytest.fixture
def interrupted(dse, monkeypatch):
    """The command line, interrupted before it begins."""

    @contextmanager
    def stop_signal(time_limit_s):
        del time_limit_s
        yield lambda: "interrupted"

    monkeypatch.setattr("dse.cli.problem_command.stop_signal", stop_signal)
    return dse


def test_only_what_has_finished_work_is_said_to_continue(interrupted, tmp_path):
    command, out = ("parallel", shared_data("pairwise", "example.json")), tmp_path / "run"
    assert "interrupted; use --out DIR to keep progress" in interrupted(*command).err
    anew = interrupted(*command, "--out", out)
    assert anew.code == 130
    assert f"interrupted; no finished work to continue from; --out {out} --resume starts again" in anew.err
    with Journal(out / JOURNAL_FILE) as journal:
        journal.append("finished", 1)
    continued = interrupted(*command, "--out", out, "--resume")
    assert f"interrupted; continue with --out {out} --resume" in continued.err
