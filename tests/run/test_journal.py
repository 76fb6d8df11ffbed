import json
import multiprocessing

import pytest

from dse.run.journal import Journal
from hardware.inputs import InputError


def written(path, values):
    """The lines of a journal that holds ``values``."""
    path.unlink(missing_ok=True)
    with Journal(path) as journal:
        journal.append_all(values)
    return path.read_bytes().splitlines(keepends=True)


def test_entries_survive_reopening(tmp_path):
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        journal.append("a", {"x": 1.5})
        journal.append("b", [1, None])
        journal.append("a", {"x": 2.0})
    with Journal(path) as journal:
        assert dict(journal) == {"a": {"x": 1.5}, "b": [1, None]}
    assert path.read_text().count("\n") == 2


@pytest.mark.parametrize("kept", range(1, 36))
def test_a_torn_last_line_is_cut_off(tmp_path, kept):
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        journal.append("a", 1)
    whole = path.read_bytes()
    (other,) = written(tmp_path / "other", {"b": 2})
    path.write_bytes(whole + other[:kept])
    with Journal(path) as journal:
        assert dict(journal) == {"a": 1}
        journal.append("c", 3)
    with Journal(path) as journal:
        assert dict(journal) == {"a": 1, "c": 3}


DAMAGED_LINES = (
    b"not json\n",
    b'{"key": "b"}\n',
    b"[1]\n",
    b"\n",
    b'{"key":"b","value":2}\n',
    b'{"crc":"00000000","key":"b","value":2}\n',
)


@pytest.mark.parametrize("damage", DAMAGED_LINES)
@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_damaged_line_is_refused_with_its_number_wherever_it_stands(tmp_path, damage, position):
    path = tmp_path / "journal.jsonl"
    lines = written(path, {"a": 1, "c": 3})
    lines.insert(position, damage)
    path.write_bytes(b"".join(lines))
    with pytest.raises(InputError, match=f"line {position + 1}:"):
        Journal(path)
    assert path.read_bytes() == b"".join(lines)


def test_an_entry_that_stands_twice_is_refused(tmp_path):
    path = tmp_path / "journal.jsonl"
    lines = written(path, {"a": 1, "b": 2})
    path.write_bytes(b"".join([*lines, lines[0]]))
    with pytest.raises(InputError, match=r"line 3: .*earlier line"):
        Journal(path)


@pytest.mark.parametrize("bit", [0, 1, 5, 7])
def test_a_flipped_bit_is_refused_with_its_line_or_heals_as_a_torn_tail(tmp_path, bit):
    path = tmp_path / "journal.jsonl"
    values = {"a": {"x": 1.5}, "b": [1, None, "text"], "c": -2e-9}
    content = b"".join(written(path, values))
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1 << bit
        path.write_bytes(damaged)
        if position == len(content) - 1:  # the newline at the end: what a crash leaves
            with Journal(path) as journal:
                assert dict(journal) == {"a": values["a"], "b": values["b"]}
            continue
        number = content.count(b"\n", 0, position) + 1
        with pytest.raises(InputError, match=f"line {number}:"):
            Journal(path)


def test_a_line_is_an_object_of_json(tmp_path):
    (line,) = written(tmp_path / "journal.jsonl", {"a": {"x": 1.5}})
    assert list(json.loads(line)) == ["crc", "key", "value"]


def test_an_unusable_value_is_reported_with_its_line(tmp_path):
    with Journal(tmp_path / "journal.jsonl") as journal:
        journal.append_all({"a": 1, "b": 2})
        assert "line 2:" in str(journal.damaged("b", ValueError("no")))


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
        assert "another process" in answers.get()
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
