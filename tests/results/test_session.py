import pytest
import yaml

from dse.problem import problem_type
from dse.results.result import Objective, ProblemReference, Result
from dse.results.session import finished_result
from dse.run.directory import RESULT_FILE, RunDirectory

DIGEST = "sha256:1"
PLACE = problem_type("place")


def result(status="optimal"):
    return Result(
        command="place",
        problem=ProblemReference(name="p", digest="sha256:0"),
        status=status,
        objective=Objective(name="batch_s", value=1.0, unit="s", sense="min"),
        bound=1.0,
        gap=0.0,
        method="m",
    )


def test_a_finished_run_is_returned(tmp_path):
    path = tmp_path / "deep" / "run"
    RunDirectory(path, "place", {"layers": "a.json"}, DIGEST, resume=False).write(RESULT_FILE, result().to_json())
    again = RunDirectory(path, "place", {"layers": "a.json"}, DIGEST, resume=True)
    assert finished_result(again, PLACE) == result().sealed()
    assert yaml.safe_load((path / "run.yaml").read_text())["arguments"] == {"layers": "a.json"}


@pytest.mark.parametrize("status", ["feasible", "interrupted", "unknown"])
def test_a_run_without_a_proof_is_not_finished(tmp_path, status):
    directory = RunDirectory(tmp_path / "r", "place", {}, DIGEST, resume=False)
    directory.write(RESULT_FILE, result(status).to_json())
    assert finished_result(directory, PLACE) is None


@pytest.mark.parametrize(("missing", "is_finished"), [(["pareto"], False), ([], True)])
def test_a_run_with_an_unfinished_part_is_not_finished(tmp_path, missing, is_finished):
    cut = result().model_copy(update={"metrics": {"unfinished": missing}})
    directory = RunDirectory(tmp_path / "r", "codesign", {}, DIGEST, resume=False)
    directory.write(RESULT_FILE, cut.to_json())
    assert (finished_result(directory, problem_type("codesign")) is not None) == is_finished
