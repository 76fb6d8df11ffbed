import multiprocessing

import pytest

from dse.run.journal import Journal
from hardware.inputs import InputError


def test_entries_survive_reopening(tmp_path):
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        journal.append("a", {"x": 1.5})
        journal.append("b", [1, None])
        journal.append("a", {"x": 2.0})
    with Journal(path) as journal:
        assert dict(journal) == {"a": {"x": 1.5}, "b": [1, None]}
    assert path.read_text().count("\n") == 2


@pytest.mark.parametrize("kept", range(1, 12))
def test_a_torn_last_line_is_cut_off(tmp_path, kept):
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        journal.append("a", 1)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"key":"b","value":2}\n'[:kept])
    with Journal(path) as journal:
        assert dict(journal) == {"a": 1}
        journal.append("c", 3)
    with Journal(path) as journal:
        assert dict(journal) == {"a": 1, "c": 3}


@pytest.mark.parametrize("damage", [b"not json\n", b'{"key": "b"}\n', b"[1]\n", b"\n"])
def test_a_damaged_middle_line_is_refused_with_its_number(tmp_path, damage):
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b'{"key":"a","value":1}\n' + damage + b'{"key":"c","value":3}\n')
    with pytest.raises(InputError, match="line 2"):
        Journal(path)
    assert path.read_bytes().startswith(b'{"key":"a","value":1}\n' + damage)


def _open(path, answers):
    try:
        Journal(path)
        answers.put("opened")
    except InputError as error:
        answers.put(str(error))


def test_a_second_process_is_refused(tmp_path):
    path = tmp_path / "journal.jsonl"
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    with Journal(path):
        other = context.Process(target=_open, args=(path, answers))
        other.start()
        assert "another process" in answers.get(timeout=30)
        other.join()


def test_not_a_number_is_no_journal_value(tmp_path):
    with Journal(tmp_path / "journal.jsonl") as journal, pytest.raises(ValueError, match="not JSON compliant"):
        journal.append("a", float("nan"))


def test_an_entry_that_could_not_be_written_leaves_no_half_line(tmp_path, monkeypatch):
    """As on a disk that is full for a while."""
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        journal.append("a", 1)
        with monkeypatch.context() as patch:
            patch.setattr("os.fsync", lambda _file: (_ for _ in ()).throw(OSError(28, "No space left on device")))
            with pytest.raises(InputError, match="No space left"):
                journal.append("b", 2)
        journal.append("c", 3)
    with Journal(path) as journal:
        assert dict(journal) == {"a": 1, "c": 3}
