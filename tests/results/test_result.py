import json
import math

import pytest

from dse.problem import Posed, result_of
from dse.results.result import (
    Objective,
    ProblemReference,
    Result,
    digest,
    proven_status,
    read_result,
    relative_gap,
)
from dse.schedule.contract import ScheduleOptions
from hardware.inputs import InputError


def document(**changes):
    result = Result(
        command="place",
        problem=ProblemReference(name="p", digest="sha256:0"),
        status="optimal",
        objective=Objective(name="batch_s", value=1.0, unit="s", sense="min"),
        method="m",
    )
    return {**json.loads(result.to_json()), **changes}


def test_a_result_is_the_same_after_reading_and_writing(tmp_path):
    path = tmp_path / "result.json"
    path.write_text(json.dumps(document()))
    assert json.loads(read_result(path).to_json()) == document()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema": "dse.result/2"}, "must be dse.result/1"),
        ({"schema": None}, "must be dse.result/1"),
        ({"extra": 1}, "extra: unknown key"),
        ({"status": "optimum"}, "did you mean optimal"),
        ({"objective": {"name": "x", "value": 1, "unit": "s"}}, "objective.sense: the key is missing"),
        ({"evaluations": "many"}, "evaluations: many"),
        ({"gap": "wide"}, "gap: wide"),
    ],
)
def test_a_broken_result_is_refused_in_one_line(tmp_path, changes, message):
    path = tmp_path / "result.json"
    path.write_text(json.dumps(document(**changes)))
    with pytest.raises(InputError, match=message) as caught:
        read_result(path)
    assert all("\n" not in str(fault) for fault in caught.value.faults)


def test_status_follows_from_the_gap():
    assert relative_gap(10.0, 8.0) == pytest.approx(0.2)
    assert relative_gap(8.0, 10.0) == pytest.approx(0.2)
    assert relative_gap(0.0, 0.0) == 0.0
    assert relative_gap(1.0, None) is None
    assert proven_status(1.0, 1.0 + 1e-12) == "optimal"
    assert proven_status(1.0, 0.9) == "feasible"
    assert proven_status(1.0, None) == "feasible"
    assert proven_status(None, 1.0) == "unknown"


@pytest.mark.parametrize("sense", ["min", "max"])
@pytest.mark.parametrize("value", [0.1 + 0.2, 27.29e-3])
def test_a_proven_value_is_its_bound_to_the_last_digit(value, sense):
    posed = Posed(ScheduleOptions("graph.json"), None, "p", {}, Objective(name="x", value=None, unit="s", sense=sense))

    def given(bound, **more):
        return result_of("schedule", posed, method="exact", seed=0, value=value, bound=bound, **more)

    for bound in (math.nextafter(value, 0), value, math.nextafter(value, 1), value * (1 - 5e-10)):
        proven = given(bound)
        assert (proven.status, proven.bound, proven.gap) == ("optimal", value, 0.0)
    # What is not stated to be proven keeps its own bound.
    assert given(value * 0.9).bound == value * 0.9
    assert given(math.nextafter(value, 0), status="interrupted").bound == math.nextafter(value, 0)
    # A false proof is not hidden.
    assert given(value * 0.9, status="optimal").bound == value * 0.9


def test_digest_ignores_the_order_of_keys():
    assert digest({"a": 1, "b": [2]}) == digest({"b": [2], "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})
