"""Every result file is written by a benchmark that declares the keys which it has; nothing is run for it."""

import importlib
import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from benchmarks import recording
from benchmarks.recording import Record, Results, command, machine

ROOT = Path(__file__).parents[1]
FILES = sorted(recording.FOLDER.glob("*.json"))

UNWRITTEN = {
    "automap_contest": "dse reproduce automap contest: an hour",
    "fabric_accuracy": "dse fabric train, dse fabric evaluate: an hour",
    "fabric_placement": "benchmarks.fabric_placement: hours",
    "fabric_rounds": "benchmarks.fabric_placement: hours",
    "learning_ablation": "dse reproduce mcm ablation: hours",
    "learning_paper": "benchmarks.learning_paper: days",
    "learning_simulated": "dse reproduce mcm simulator: hours",
    "learning_table2": "dse reproduce mcm table2: hours",
    "parallel_dqn": "benchmarks.parallel_dqn: half an hour",
    "partition_screening": "benchmarks.partition_screening: an hour",
    "phaze": "dse reproduce phaze: an hour",
}
"""Files that were copied from what these printed, and CPU time to print it again; nothing writes them yet. None may
come to this list."""


def declared():
    """The records of all benchmarks, with the module of each."""
    for path in sorted((ROOT / "benchmarks").glob("*.py")):
        if path.stem != "recording" and re.search(r"\bRecord\(", path.read_text(encoding="utf-8")):
            module = importlib.import_module(f"benchmarks.{path.stem}")
            for value in vars(module).values():
                for each in value if isinstance(value, tuple) else (value,):
                    if isinstance(each, Record):
                        yield each, path.stem


RECORDS = {record.name: (record, module) for record, module in declared()}


WRITTEN = [path for path in FILES if path.stem not in UNWRITTEN]


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.stem)
def test_a_result_file_has_the_keys_that_its_benchmark_writes_and_names_that_command(path):
    content = json.loads(path.read_text(encoding="utf-8"))
    record, module = RECORDS[path.stem]
    assert record.faults(content) == []
    assert shlex.split(content["command"])[:3] == ["python", "-m", f"benchmarks.{module}"]
    assert [word for word in shlex.split(content["command"]) if Path(word).is_absolute()] == []
    assert content.get("recorded") in (None, "transferred from the documentation")


def test_every_record_has_a_file_and_one_benchmark():
    names = [record.name for record, _ in declared()]
    assert sorted(set(names)) == sorted(names)
    assert set(names) == {path.stem for path in WRITTEN}


@pytest.mark.parametrize("name", sorted(UNWRITTEN))
def test_what_no_benchmark_writes_says_so(name):
    content = json.loads((recording.FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    assert content["recorded"], f"still to be measured again: {UNWRITTEN[name]}"


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "FOLDER", tmp_path)
    monkeypatch.setattr(sys, "argv", ["/somewhere/benchmarks/one.py", "--record", "--moves", "3"])
    return Results(Record("one", figures=("a.b", "c"), tables={"main": ("x", "y")}))


def test_what_is_measured_is_printed_and_written_with_command_machine_and_date(results, capsys):
    results.figure("a.b", "7 %")
    results.figure("c", 1234)
    results.row("main", "first", 1000)
    results.row("main", None, 0.5)
    results.save(False)
    assert not results.record.path.exists()
    assert (results.record.rows("main"), results.record.values()) == ([], {})
    results.save(True)
    written = json.loads(results.record.path.read_text())
    assert written["figures"] == {"a": {"b": "7 %"}, "c": 1234}
    assert written["tables"] == {"main": {"columns": ["x", "y"], "rows": [["first", 1000], [None, 0.5]]}}
    assert written["command"] == "python -m benchmarks.one --moves 3"
    assert re.fullmatch(r"\d+ cores \(.+\), \d+ GB, load \d+( to \d+)?", written["machine"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", written["date"])
    assert results.record.rows("main") == [["first", 1000], [None, 0.5]]
    assert results.record.values() == {"a.b": "7 %", "c": 1234}
    assert "a.b: 7 %\nc: 1234\n\n| x | y |\n| first | 1,000 |\n| – | 0.5 |\n" in capsys.readouterr().out


def test_only_declared_keys_are_taken_and_all_are_needed(results):
    with pytest.raises(KeyError, match="d"):
        results.figure("d", 1)
    with pytest.raises(ValueError, match="table main has 2 columns"):
        results.row("main", "first")
    results.figure("c", 1)
    with pytest.raises(ValueError, match=r"figure a\.b is missing\none: table main is missing"):
        results.save(True)
    assert not results.record.path.exists()


def test_a_file_with_other_keys_is_found():
    record = Record("one", figures=("a",), tables={"main": ("x",)})
    content = {"figures": {"b": {"c": 1}}, "tables": {"main": {"columns": ["y"], "rows": []}, "other": {}}}
    assert record.faults(content) == [
        "one: figure a is missing",
        "one: figure b.c is not declared",
        "one: table other is not declared",
        "one: table main has the columns ['y'], declared are ['x']",
    ]


def test_command_and_machine_are_written_in_words():
    assert command(["x/benchmarks/truth.py", "--calculon", "a b", "--record"]) == (
        "python -m benchmarks.truth --calculon 'a b'"
    )
    assert command(["truth.py", "--rows", "/a/place/rows.csv"]) == "python -m benchmarks.truth --rows rows.csv"
    assert machine(1.2, 0.9).endswith("load 1")
    assert machine(8.1, 2.0).endswith("load 2 to 8")
