"""A problem package in a folder is all it takes: help, check, report, compare and Python come from the contract."""

import importlib
import json
import sys
from pathlib import Path

import pytest

import dse as package
from dse.problem import pose, problem_type, registered
from dse.report.view import View
from dse.results import check, session
from dse.results.result import seal_of
from dse.testing import conformance

KNAPSACK = {"capacity": 10, "items": {"lamp": [3, 4], "rope": [4, 5], "tent": [7, 10], "map": [1, 1]}}


@pytest.fixture(autouse=True)
def toy(monkeypatch):
    """The stub beside the packages of ``dse``."""
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(Path(__file__).parent)])
    importlib.invalidate_caches()
    yield
    for name in [name for name in sys.modules if name.startswith("dse.toy")]:
        del sys.modules[name]
    vars(package).pop("toy", None)


@pytest.fixture
def items(tmp_path):
    path = tmp_path / "items.json"
    path.write_text(json.dumps(KNAPSACK))
    return path


def options(path, **asked):
    return problem_type("toy").Options(str(path), **asked)


def test_it_is_a_command_like_any_other(dse, items, tmp_path):
    assert "toy        Pack the most valuable" in dse("--help").out
    assert "--method [all|reversed]" in dse("toy", "--help").out
    shown = dse("toy", items, "--out", tmp_path / "run")
    assert (shown.code, "value 14.0" in shown.out) == (0, True)
    assert json.loads(dse("toy", items, "--json").out)["solution"] == {"taken": ["lamp", "tent"]}
    assert dse("check", tmp_path / "run" / "result.json").out == "ok\n"
    assert dse("report", tmp_path / "run").code == 0
    assert "Same problem." in dse("compare", tmp_path / "run", tmp_path / "run").out
    assert dse("toy", items, "--method", "best").code == 2
    assert dse("toy", tmp_path / "none.json").error_lines == [
        f"error: {tmp_path / 'none.json'}: cannot be read: No such file or directory"
    ]


def test_it_is_a_function_like_any_other(items, tmp_path):
    answer = package.toy(KNAPSACK)
    assert (answer.value, answer.bound, answer.gap, answer.status) == (14, 14, 0, "optimal")
    assert answer.check() == []
    assert answer.solution == package.toy(items).solution
    assert "lamp" in answer._repr_html_()
    assert "toy" in package.problems()
    assert "toy" in dir(package)
    saved = answer.save(tmp_path / "saved")
    assert json.loads(saved.read_text())["status"] == "optimal"


@pytest.mark.parametrize("method", ["all", "reversed"])
def test_it_conforms(items, tmp_path, method):
    kind, asked = problem_type("toy"), options(items, method=method)
    conformance.same_seed_same_answer(kind, asked)
    conformance.stopped_anywhere_is_legal(kind, asked)
    conformance.killed_and_resumed(kind, asked, tmp_path)
    conformance.is_shown(kind, asked, tmp_path)
    posed = pose(kind, asked)
    conformance.no_alteration_passes(kind, conformance.solved(kind, asked), posed, tmp_path)


def test_its_infeasibility_is_explained(tmp_path):
    path = tmp_path / "heavy.json"
    path.write_text(json.dumps(KNAPSACK | {"must_take": 4}))
    conformance.infeasible_is_explained(problem_type("toy"), options(path))


def test_a_problem_that_does_not_conform_is_found_out(items, tmp_path, monkeypatch):
    kind, chosen = problem_type("toy"), options(items)
    posed, result = pose(kind, chosen), conformance.solved(kind, chosen)
    monkeypatch.setattr(type(kind), "faults", lambda *_: [])
    with pytest.raises(AssertionError, match="alterations must be detected"):
        conformance.no_alteration_passes(kind, result, posed, tmp_path)


def test_settings_stand_with_their_defaults_where_no_run_directory_says_so(dse, items, tmp_path):
    document = json.loads(dse("toy", items, "--json").out)
    del document["settings"]["method"]
    path = tmp_path / "alone.json"
    path.write_text(json.dumps(document | {"seal": seal_of(document)}))
    refused = dse("check", path)
    assert refused.code == 1
    assert "settings.method: the key is missing" in refused.out


def test_a_check_that_only_a_run_directory_makes_is_found_out(items, tmp_path, monkeypatch):
    kind, chosen = problem_type("toy"), options(items)
    posed, result = pose(kind, chosen), conformance.solved(kind, chosen)
    monkeypatch.setattr(check, "_settings_faults", lambda *_: [])
    with pytest.raises(AssertionError, match=r"settings\.method is missing \(without run\.yaml\)"):
        conformance.no_alteration_passes(kind, result, posed, tmp_path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"verdict": ""}, "the view must have a verdict"),
        ({"page": list}, "the page must show all 1 tables of the view, but shows 0"),
    ],
)
def test_a_view_that_is_not_shown_is_found_out(items, tmp_path, monkeypatch, changes, words):
    kind, view = problem_type("toy"), type(problem_type("toy")).view
    monkeypatch.setattr(type(kind), "view", lambda *given: View(**{**vars(view(*given)), **changes}))
    with pytest.raises(AssertionError, match=words):
        conformance.is_shown(kind, options(items), tmp_path)


def test_an_instance_without_an_answer_is_not_shown(tmp_path):
    path = tmp_path / "heavy.json"
    path.write_text(json.dumps(KNAPSACK | {"must_take": 4}))
    with pytest.raises(AssertionError, match="is_shown needs an instance with an answer, but its status is infeasible"):
        conformance.is_shown(problem_type("toy"), options(path), tmp_path)


def test_problems_are_registered_by_their_folders():
    assert [*registered()][:5] == ["codesign", "place", "schedule", "partition", "wafer"]
    assert registered()["toy"].package == "dse.toy"


def test_a_check_that_ignores_the_seal_is_found_out(items, tmp_path, monkeypatch):
    kind, chosen = problem_type("toy"), options(items)
    posed, result = pose(kind, chosen), conformance.solved(kind, chosen)
    monkeypatch.setattr(check, "seal_faults", lambda _path: [])
    with pytest.raises(AssertionError, match=r"seconds = .* \(not sealed\)"):
        conformance.no_alteration_passes(kind, result, posed, tmp_path)


def one_more(result):
    return result and result.model_copy(update={"evaluations": result.evaluations + 1})


def test_an_answer_that_is_read_back_as_another_is_found_out(items, tmp_path, monkeypatch):
    kind, chosen = problem_type("toy"), options(items)
    read_back = session.finished_result
    monkeypatch.setattr(session, "finished_result", lambda *given: one_more(read_back(*given)))
    with pytest.raises(AssertionError, match="a finished run must return its answer"):
        conformance.is_shown(kind, chosen, tmp_path)
    answered = conformance.killed_and_resumed(kind, chosen, tmp_path)
    with pytest.raises(AssertionError, match="a finished run must return its answer"):
        conformance.is_shown(kind, chosen, tmp_path, answered)


def test_a_check_that_breaks_where_it_has_found_a_fault_is_found_out(items, tmp_path, monkeypatch):
    kind, chosen = problem_type("toy"), options(items)
    posed, result, own = pose(kind, chosen), conformance.solved(kind, chosen), check._own_faults

    def broken(result, posed, shared, where):
        if shared:
            raise RuntimeError("broken beside another fault")
        return own(result, posed, shared, where)

    monkeypatch.setattr(check, "_own_faults", broken)
    with pytest.raises(RuntimeError, match="broken beside another fault"):
        conformance.no_alteration_passes(kind, result, posed, tmp_path)


def test_settings_that_cannot_be_posed_again_are_found_out(items, tmp_path, monkeypatch):
    kind, chosen = problem_type("toy"), options(items)
    posed, result, again = pose(kind, chosen), conformance.solved(kind, chosen), check.posed_again

    def broken(altered, *given):
        if altered.settings != result.settings:
            raise RuntimeError("broken by other settings")
        return again(altered, *given)

    monkeypatch.setattr(check, "posed_again", broken)
    with pytest.raises(RuntimeError, match="broken by other settings"):
        conformance.no_alteration_passes(kind, result, posed, tmp_path)


def test_a_time_limit_that_proves_what_it_cannot_is_found_out(items, monkeypatch):
    kind, chosen, answer = problem_type("toy"), options(items), type(problem_type("toy")).answer

    def impossible(kind, posed, run):
        result = answer(kind, posed, run)
        nothing = run.stop() == "time limit" and not result.solution
        return result.model_copy(update={"status": "infeasible"}) if nothing else result

    monkeypatch.setattr(type(kind), "answer", impossible)
    with pytest.raises(AssertionError, match=r"stopped at stop check 1 \(time limit\)"):
        conformance.stopped_anywhere_is_legal(kind, chosen)


@pytest.fixture
def stops(monkeypatch):
    """The stop signals that runs are given, in turn."""
    given = []

    class Recorded(conformance._StopAt):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            given.append(self)

    monkeypatch.setattr(conformance, "_StopAt", Recorded)
    return given


def test_runs_are_stopped_at_later_moments_until_one_ends_before_its_moment(items, stops):
    conformance.stopped_anywhere_is_legal(problem_type("toy"), options(items), moments=(1, 5, 1000, 2000))
    assert len(stops) == 4  # at the first moment for two reasons, and not at the last
    assert 5 < stops[-1].questions < 1000


def test_an_answer_that_is_illegal_where_a_run_is_stopped_late_is_found_out(items, stops, monkeypatch):
    kind = type(problem_type("toy"))
    answer = kind.answer

    def broken(kind, posed, run):
        result = answer(kind, posed, run)
        late = run.stop() == "time limit" and stops[-1].questions >= 5
        return result.model_copy(update={"status": "infeasible"}) if late else result

    monkeypatch.setattr(kind, "answer", broken)
    with pytest.raises(AssertionError, match="stopped at stop check 5"):
        conformance.stopped_anywhere_is_legal(problem_type("toy"), options(items))
