"""Large files of choice problems: read into arrays exactly as small ones are read, and refused with the same words."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.algorithms.pairwise import number_lists
from dse.algorithms.pairwise.iopddl import document_of, identity_of, problem_of, read_problem, write_problem
from dse.algorithms.pairwise.number_lists import parsed_with_rows, rows_of
from dse.algorithms.pairwise.problem import FORBIDDEN
from hardware import documents
from hardware.inputs import InputError
from tests.algorithms.pairwise.random_problems import random_problem

SPACE = st.text(" \t\r\n", max_size=2)


@pytest.fixture
def every_list_is_large(monkeypatch):
    monkeypatch.setattr(number_lists, "LEAST_BYTES", 1)


def lists(rows):
    return None if rows is None else [each.tolist() for each in rows]


@given(st.lists(st.lists(st.integers(0, 10**25), max_size=4), max_size=5), st.data())
@settings(max_examples=200, deadline=None)
def test_rows_are_those_of_json(given_rows, data):
    spaced = []
    for character in json.dumps(given_rows, separators=(",", ":")):
        spaced += [character] if character.isdigit() else [data.draw(SPACE), character, data.draw(SPACE)]
    text = "".join(spaced).strip()
    assert lists(rows_of(text.encode(), FORBIDDEN, "p.json")) == [
        [min(each, FORBIDDEN) for each in row] for row in given_rows
    ]


def rows_in(text):
    """The rows, None where the text has none."""
    try:
        return rows_of(text.encode(), FORBIDDEN, "p.json")
    except InputError:
        return None


@given(st.text("[],0123 .e+-", max_size=12))
@settings(max_examples=500, deadline=None)
def test_text_is_rows_where_json_says_so(text):
    try:
        document = json.loads(f"[{text}]")
    except ValueError:
        document = None
    is_rows = document is not None and all(
        isinstance(row, list) and all(isinstance(each, int | float) and abs(each) < np.inf for each in row)
        for row in document
    )
    assert (rows_in(f"[{text}]") is not None) == is_rows


WRITTEN = ["7", "7.0", "7.00", "70e-1", "0.7E1", "0", "0.0", "-0", "-0.0", "0e5", "9007199254740993"]
WRITTEN += ["9007199254740993.0", "90071992547409930e-1", "99999999999999999.0", "1e17", "1e18", "123456789.5e1"]
WRITTEN += ["1.00000000000000000000001", "1e22", "100000000000000000000000.0", "7.5", "-7", "-7.0", "1e-3", "-1e18"]


@given(st.lists(st.lists(st.sampled_from(WRITTEN), max_size=4), max_size=4))
@settings(max_examples=200, deadline=None)
def test_numbers_are_read_however_they_are_written(tokens):
    text = ",".join(f"[{','.join(row)}]" for row in tokens)
    rows = rows_of(f"[{text}]".encode(), FORBIDDEN, "p.json")
    faulty, whole = [], []
    for number, row in enumerate(tokens):
        values = [json.loads(each) for each in row]
        is_whole = [each >= 0 and each == int(each) for each in values]
        faulty += [(number, place, value) for place, value in enumerate(values) if not is_whole[place]]
        whole.append([int(min(each, FORBIDDEN)) if good else 0 for each, good in zip(values, is_whole, strict=True)])
    assert (lists(rows), list(rows.faulty())) == (whole, faulty)


@pytest.mark.parametrize("token", ["1.", ".5", "+1", "1e", "01", "00.0", "1.0.0", "1-", "--1", "e", "1e400"])
def test_text_that_is_no_number_is_refused(token):
    with pytest.raises(InputError):
        rows_of(f"[[1],[2,{token}]]".encode(), FORBIDDEN, "p.json")


def test_rows_are_a_sequence():
    rows = rows_of(b"[[1,2],[],[3]]", FORBIDDEN, "p.json")
    assert (len(rows), lists(rows[1:]), rows[-1].tolist()) == (3, [[], [3]], [3])
    with pytest.raises(IndexError):
        rows[3]


@pytest.mark.usefixtures("every_list_is_large")
@pytest.mark.parametrize("name", ["p.json", "p.json.gz"])
def test_a_large_file_reads_as_a_small_one(tmp_path, name):
    for seed in range(10):
        problem = random_problem(seed, memory=0.5 if seed % 2 else None)
        write_problem(problem, tmp_path / name)
        assert read_problem(tmp_path / name) == problem


@pytest.mark.usefixtures("every_list_is_large")
def test_a_list_within_text_is_text():
    content = json.dumps({"a": '[[1]]\\"[[2]]', "b": [[3]], "c": {"d": [[4], [5, 6]]}}).encode()
    document, rows = parsed_with_rows(content, ("c", "d"), FORBIDDEN, "p.json")
    assert document == {"a": '[[1]]\\"[[2]]', "b": [[3]], "c": {"d": []}}
    assert lists(rows) == [[4], [5, 6]]


FAULTS = {
    "a cost is missing": lambda text: text.replace("[7,", "[", 1),
    "a cost has a leading zero": lambda text: text.replace("[7,", "[07,", 1),
    "a cost is negative": lambda text: text.replace("[7,", "[-7,", 1),
    "a cost is no whole number": lambda text: text.replace("[7,", "[7.5,", 1),
    "a list is not closed": lambda text: text.replace("[7,", "[[7,", 1),
    "an edge has no costs": lambda text: text.replace("[7,8],", "", 1),
    "a key is given twice": lambda text: text.replace('"name"', '"nodes"', 1),
    "the end is missing": lambda text: text[:-20],
    "a key is unknown": lambda text: text.replace('"name"', '"title"', 1),
}


@pytest.mark.parametrize("alter", FAULTS.values(), ids=FAULTS.keys())
def test_a_large_file_is_refused_as_a_small_one(tmp_path, monkeypatch, alter):
    document = {
        "problem": {
            "name": "p",
            "nodes": {"intervals": [[0, 1]] * 3, "costs": [[1], [2, 3], [4]], "usages": [[0], [0, 0], [0]]},
            "edges": {"nodes": [[0, 1], [1, 2]], "costs": [[7, 8], [9, 10]]},
        }
    }
    path = tmp_path / "p.json"
    path.write_text(alter(json.dumps(document, separators=(",", ":"))))
    said = []
    for least in (2**20, 1):
        monkeypatch.setattr(number_lists, "LEAST_BYTES", least)
        with pytest.raises(InputError) as error:
            read_problem(path)
        said.append(error.value.faults)
    assert said[0] == said[1]


@pytest.mark.parametrize("written", [float, int])
def test_a_file_beyond_the_limit_of_numbers_may_have_costs_written_as_floats(tmp_path, monkeypatch, written):
    document = document_of(random_problem(1))
    costs = document["problem"]["edges"]["costs"]
    costs[0][0], costs[1] = 1e18, [written(each) for each in costs[1]]
    path = tmp_path / "p.json"
    path.write_text(json.dumps(document))
    expected = read_problem(path)
    assert int(expected.edge_costs[0].max()) == FORBIDDEN
    monkeypatch.setattr(number_lists, "LEAST_BYTES", 1)
    monkeypatch.setattr(documents, "MAX_VALUES", 5 + sum(map(len, document["problem"]["nodes"]["costs"])) * 4)
    assert read_problem(path) == expected


def test_problems_that_differ_in_one_number_have_different_identities():
    problem = random_problem(3, memory=0.5)
    same = problem_of(document_of(problem), "p.json")
    assert identity_of(problem) == identity_of(same)
    for array in (problem.costs[0], problem.edge_costs[0], problem.usages[0]):
        before = identity_of(problem)
        array.flat[0] += np.int64(1)
        assert identity_of(problem) != before
