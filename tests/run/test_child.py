"""Work in a process that can be ended: what it says, what ends it, and what cannot stand in for its modules."""

import pytest

from dse.run.child import ChildFailedError, heard_from
from dse.run.progress import never_stop

HELD = "tests.run.child_program"


def test_what_it_writes_is_heard():
    heard = heard_from(HELD, b"echo words", never_stop)
    assert (heard.output, heard.stopped) == (b"words", None)


def test_what_it_has_written_is_heard_after_a_stop():
    asked = []

    def stop():
        asked.append(None)
        return "interrupted" if len(asked) > 40 else None

    heard = heard_from(HELD, b"hang words", stop)
    assert (heard.output, heard.stopped) == (b"words", "interrupted")


def test_its_exit_code_is_heeded():
    with pytest.raises(ChildFailedError, match="ended with exit code 1"):
        heard_from(HELD, b"fail", never_stop)


@pytest.mark.parametrize("way", [b"memory", b"kill"])
def test_what_it_has_written_is_heard_where_memory_runs_out(way):
    heard = heard_from(HELD, way + b" words", never_stop)
    assert (heard.output, heard.stopped) == (b"words", None)
    assert heard.killed == "SIGKILL, which the system sends when memory runs out"


def test_no_file_of_the_users_folder_stands_in_for_a_module(tmp_path, monkeypatch):
    for name in ("json", "dse", "runpy", "threading"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('shadowed')")
    monkeypatch.chdir(tmp_path)
    assert heard_from(HELD, b"echo words", never_stop).output == b"words"
