"""Contest files: read exactly, written so that they read back equal, and refused with file, key and rule."""

import copy
import json

import pytest

from dse.algorithms.pairwise.evaluate import evaluate
from dse.algorithms.pairwise.iopddl import choices_of, document_of, problem_of, read_problem, write_problem
from dse.algorithms.pairwise.problem import FORBIDDEN
from hardware.inputs import InputError
from tests.algorithms.pairwise.random_problems import random_problem
from tests.shared_data import shared_data

EXAMPLE = shared_data("pairwise", "example.json")


def test_the_example_costs_what_it_costs_by_hand():
    """By the contest's definition: costs of an edge are row-major in its first node, and intervals are half-open, so
    that nodes 1 and 2, which end at 60, are not live together with node 3, which begins there.
    """
    problem = read_problem(EXAMPLE)
    result = evaluate(problem, [0, 1, 2, 1, 0])
    assert result.is_feasible
    assert result.cost == (12 + 48 + 35 + 58 + 80) + (5 + 33 + 6 + 38 + 19)
    assert result.peak_usage == 8 + 14 + 9
    tight = evaluate(problem, [0, 0, 2, 1, 0])
    assert (tight.is_feasible, tight.peak_usage) == (True, 8 + 20 + 16)
    over = evaluate(problem, [0, 0, 1, 0, 0])
    assert (over.is_feasible, over.peak_usage) == (False, 8 + 20 + 30)


@pytest.mark.parametrize("memory", [None, 0.5])
@pytest.mark.parametrize("name", ["p.json", "p.json.gz"])
def test_written_problems_read_back_equal(tmp_path, memory, name):
    for seed in range(5):
        problem = random_problem(seed, memory=memory)
        write_problem(problem, tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(b"\x1f\x8b" if name.endswith(".gz") else b"{")
        assert read_problem(tmp_path / name) == problem
        assert problem != random_problem(seed + 1, memory=memory)


@pytest.mark.parametrize(
    ("content", "key", "rule"),
    [
        ([0, 0, 2, 1], "choices", "list of 5 choice numbers"),
        ({"a": 1}, "choices", "list of 5 choice numbers"),
        ([0, 0, 3, 1, 0], "choices.2", "from 0 to 2"),
        ([0, True, 2, 1, 0], "choices.1", "from 0 to 1"),
        ([0, 0, 2.0, 1, 0], "choices.2", "from 0 to 2"),
        ([0, 0, 2, -1, 0], "choices.3", "from 0 to 1"),
    ],
)
def test_broken_solutions_are_refused(content, key, rule):
    with pytest.raises(InputError) as error:
        choices_of(content, read_problem(EXAMPLE), "s.json", "choices")
    (fault,) = error.value.faults
    assert (fault.file, fault.key) == ("s.json", key)
    assert rule in fault.rule


def test_large_numbers_stay_exact_beside_floats_that_forbid():
    document = json.loads(EXAMPLE.read_text())
    document["problem"]["nodes"]["costs"][1] = [2**53 + 1, 1e18]
    assert problem_of(document, "p.json").costs[1].tolist() == [2**53 + 1, FORBIDDEN]


def test_numbers_beyond_64_bits_forbid():
    document = json.loads(EXAMPLE.read_text())
    document["problem"]["nodes"]["costs"][1] = [10**40, 7]
    assert problem_of(document, "p.json").costs[1].tolist() == [FORBIDDEN, 7]


def test_the_limit_may_be_left_out():
    document = json.loads(EXAMPLE.read_text())
    del document["problem"]["usage_limit"]
    problem = problem_of(document, "p.json")
    assert problem.usage_limit is None
    assert problem_of(document_of(problem), "p.json") == problem


DROPPED = object()

BROKEN = [
    ("problem", DROPPED, "problem", "missing"),
    ("problem.nodes", DROPPED, "problem.nodes", "missing"),
    ("problem.nodes.usages", DROPPED, "problem.nodes.usages", "missing"),
    ("problem.edge", {}, "problem.edge", "unknown key"),
    ("problem.usage_limit", -1, "problem.usage_limit", "at least 0"),
    ("problem.usage_limit", "50", "problem.usage_limit", "must be a whole number"),
    ("problem.nodes.costs", [], "problem.nodes.costs", "must not be empty"),
    ("problem.nodes.costs.2", [], "problem.nodes.costs.2", "must not be empty"),
    ("problem.nodes.costs.2.1", -4, "problem.nodes.costs.2.1", "at least 0"),
    ("problem.nodes.costs.2.1", "4", "problem.nodes.costs.2.1", "whole number"),
    ("problem.nodes.costs.2.1", 4.5, "problem.nodes.costs.2.1", "whole number"),
    ("problem.nodes.costs.2.1", None, "problem.nodes.costs.2.1", "whole number"),
    ("problem.nodes.costs.2.1", 10**17 - 1, "problem", "less than 1e17"),
    ("problem.nodes.usages.1.0", -1, "problem.nodes.usages.1.0", "at least 0"),
    ("problem.nodes.usages.1.0", 2**60, "problem.nodes.usages.1.0", "less than"),
    ("problem.nodes.usages.1", [25], "problem.nodes.usages.1", "must have 2 entries"),
    ("problem.nodes.usages.4", DROPPED, "problem.nodes.usages", "must have 5 entries"),
    ("problem.nodes.intervals.4", DROPPED, "problem.nodes.intervals", "must have 5 entries"),
    ("problem.nodes.intervals.1", [70, 40], "problem.nodes.intervals.1", "start <= end"),
    ("problem.nodes.intervals.1", [70], "problem.nodes.intervals.1", "at least 2"),
    ("problem.nodes.intervals.1.0", 0.5, "problem.nodes.intervals.1.0", "must be a whole number"),
    ("problem.edges.nodes.1", [0, 5], "problem.edges.nodes.1", "from 0 to 4"),
    ("problem.edges.nodes.1", [-1, 2], "problem.edges.nodes.1", "from 0 to 4"),
    ("problem.edges.nodes.1", [2, 2], "problem.edges.nodes.1", "two different nodes"),
    ("problem.edges.costs.1", [1, 2], "problem.edges.costs.1", "1 x 3"),
    ("problem.edges.costs.4", DROPPED, "problem.edges.costs", "must have 5 entries"),
    ("problem.edges.costs.1.2", 0.25, "problem.edges.costs.1.2", "whole number"),
    ("problem.edges.costs.1.2", -7, "problem.edges.costs.1.2", "at least 0"),
    ("problem.name", 7, "problem.name", "must be text"),
]


@pytest.mark.parametrize(("place", "value", "key", "rule"), BROKEN)
def test_broken_problems_are_refused(tmp_path, place, value, key, rule):
    document = copy.deepcopy(json.loads(EXAMPLE.read_text()))
    *path, last = [int(part) if part.isdigit() else part for part in place.split(".")]
    inner = document
    for part in path:
        inner = inner[part]
    if value is DROPPED:
        del inner[last]
    else:
        inner[last] = value
    file = tmp_path / "broken.json"
    file.write_text(json.dumps(document))
    with pytest.raises(InputError) as error:
        read_problem(file)
    assert all(fault.file == str(file) for fault in error.value.faults)
    faults = {fault.key: fault.rule for fault in error.value.faults}
    assert key in faults
    assert rule in faults[key]
    assert len(faults) == 1
