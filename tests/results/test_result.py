import json

import pytest

from dse.results.result import Objective, ProblemReference, Result, digest, proven_status, read_result, relative_gap
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


def test_digest_ignores_the_order_of_keys():
    assert digest({"a": 1, "b": [2]}) == digest({"b": [2], "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})
