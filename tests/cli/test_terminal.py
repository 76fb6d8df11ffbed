"""Tables and names on a terminal: nothing is left out, nothing is taken for markup, and lines fit."""

import contextlib
import io
import json
import re
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dse.cli.problem_command import print_view
from dse.cli.terminal import print_table
from dse.report.view import MAX_NOTES, Decisive, Table, View

WIDTHS = (40, 80, 100, 120)


def on_a_terminal(width, *table):
    """What a terminal of that width shows of a table."""
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as stream:
        patch.setenv("FORCE_COLOR", "1")
        patch.setenv("COLUMNS", str(width))
        print_table(*table)
    return re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())


HEADERS = ("constraint", "costs", "plan", "memory", "a step", "what it would take")
ROWS = [
    ("at most 80 GB a device", "+12.5 %", "tensor=8,pipeline=4,interleave=3,data=32,zero=1,microbatch=2", "71.2 GB",
     "3.25 s", "two more devices in every group of eight"),
    ("none", "", "tensor=2,pipeline=16,data=64", "114.0 GB", "2.89 s", ""),
]  # fmt: skip


def letters(text):
    """How often each letter stands in a text: words that are longer than a line are broken."""
    return Counter("".join(text.split()))


def words(text):
    return set(re.sub("[,;:]", " ", text).split())


@pytest.mark.parametrize("width", WIDTHS)
def test_a_table_keeps_every_column_at_any_width(width):
    text = on_a_terminal(width, HEADERS, ROWS)
    assert max(map(len, text.splitlines())) <= width
    assert letters(" ".join(HEADERS)) <= letters(text)
    for row in ROWS:
        assert all(letters(cell) <= letters(text) for cell in row)
        assert width < 80 or words(" ".join(row)) <= words(text)


@given(
    rows=st.lists(st.lists(st.text("abc 0123456789", max_size=40), min_size=4, max_size=4), min_size=1, max_size=4),
    width=st.sampled_from(WIDTHS),
)
@example(rows=[["", "", " 00000", 17 * "0"]], width=40)
def test_a_table_keeps_every_word_of_every_cell(rows, width):
    text = on_a_terminal(width, ("one", "two", "three", "four"), rows)
    assert all(words(cell) <= words(text) for row in rows for cell in row)


QUANTITIES = ["62.65 µs", "71.2 GB", "12.5 %", "600 mm²", "3.25 ± 0.02", "633 × 633", "1,024 samples/s", "3 GB/s"]


@given(
    rows=st.lists(
        st.lists(
            st.lists(st.sampled_from([*QUANTITIES, "a", "longer", "words"]), max_size=6).map(" ".join),
            min_size=4,
            max_size=4,
        ),
        min_size=1,
        max_size=3,
    ),
    width=st.sampled_from(WIDTHS),
)
def test_a_number_is_never_parted_from_its_unit(rows, width):
    text = on_a_terminal(width, ("one", "two", "three", "four"), rows)
    for quantity in QUANTITIES:
        assert text.count(quantity) >= sum(cell.count(quantity) for row in rows for cell in row)
    assert max(map(len, text.splitlines())) <= width


def test_a_table_without_rows_or_columns_is_nothing():
    assert on_a_terminal(80, (), []) == on_a_terminal(80, HEADERS, [], "title") == ""


def test_a_line_break_in_a_cell_does_not_split_its_row():
    assert "a b" in on_a_terminal(80, ("one",), [["a\nb"]])


@pytest.mark.parametrize("arguments", [("models", "bert-large"), ("models",), ("reproduce", "phaze", "table4")])
def test_what_commands_print_holds_no_markup(dse, arguments):
    answer = dse(*arguments)
    assert answer.code == 0, answer.err
    assert "[bold]" not in answer.out
    assert "[/" not in answer.out


@pytest.mark.parametrize("name", ["[/]", "[bold]x[/bold]", ":smile:", "[link=a]", "a[/b]c"])
def test_names_are_no_markup(dse, monkeypatch, tmp_path, name):
    monkeypatch.setenv("FORCE_COLOR", "1")
    problem = {
        "schema": "dse.schedule/1", "name": name, "tensor_cores": 1, "vector_cores": 1,
        "operators": [{"name": name, "kind": "tensor", "single_s": 1e-4, "all_cores_s": 1e-4}], "edges": [],
    }  # fmt: skip
    (tmp_path / "layer.json").write_text(json.dumps(problem))
    answer = dse("schedule", tmp_path / "layer.json")
    assert answer.code == 0, answer.err
    assert name in answer.out


def printed(view, whole=False):
    """What a command prints of an answer, on lines of 80 columns."""
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as stream:
        patch.setenv("COLUMNS", "80")
        print_view(view, "toy", whole)
    return stream.getvalue()


NOTES = ["an assumption", *(Decisive(f"limit {number}") for number in range(MAX_NOTES + 1))]
ANSWER = Table(("what", "amount"), [("answer", "1")])
ASKED = Table(("change", "gain"), [("twice the links", "2 %")], requested=True)
OTHER = Table(("part", "share"), [("bubble", "3 %")])


def test_an_answer_comes_first_then_its_table_then_the_notes_that_change_a_decision():
    text = printed(View("page", "the best is 1", NOTES, [ANSWER, OTHER, ASKED]))
    assert text.startswith("toy: the best is 1\n")
    places = [text.index(words) for words in ("the best", "answer", "twice the links", *NOTES[1 : MAX_NOTES + 1])]
    assert places == sorted(places)
    assert "an assumption" not in text
    assert f"limit {MAX_NOTES}" not in text
    assert "bubble" not in text
    assert text.endswith("--notes also shows 2 notes and 1 table\n")


def test_all_notes_and_tables_are_shown_on_request():
    text = printed(View("page", "the best is 1", NOTES, [ANSWER, OTHER, ASKED]), whole=True)
    assert all(note in text for note in NOTES)
    assert "bubble" in text
    assert "--notes" not in text


@pytest.mark.parametrize("command", ["--help", "specs networks", "models --json"])
def test_a_reader_that_is_gone_is_no_fault(command):
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {sys.executable} -m dse {command} | true"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
