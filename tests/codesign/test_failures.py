"""An architecture on which the program fails is recorded, counts for nothing, and stops neither search nor proof."""

from dataclasses import replace

import pytest

from dse.codesign.check import violations
from dse.codesign.check_metrics.faults import metric_faults
from dse.codesign.evaluation.evaluator import Bound, Confine
from dse.codesign.evaluation.job_evaluators import JobEvaluators
from dse.codesign.formats import architecture_solution
from dse.codesign.search import sweep
from dse.codesign.search.hysteresis import AreaWalk, NoNewBestRule
from tests.codesign.test_exhaustive import TINY_MODEL, small
from tests.solving import solve


@pytest.fixture
def options(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY_MODEL)
    return small(path, tensor_parallel="1", microbatch="1")


@pytest.fixture
def poison(monkeypatch):
    """Makes evaluations of one architecture fail."""

    def at(architecture):
        sound = JobEvaluators.__call__

        def call(self, asked):
            task = asked.task
            if not isinstance(task, Bound | Confine):
                indices = task.indices if hasattr(task, "indices") else (task.index,)
                if architecture in indices:
                    raise ZeroDivisionError("poisoned")
            return sound(self, asked)

        monkeypatch.setattr(JobEvaluators, "__call__", call)

    return at


def test_a_failed_optimum_leaves_a_bound_and_another_answer(options, poison):
    sound, outcome = solve(options)
    poison(outcome.best)
    result, second = solve(options)
    assert second.best not in (None, outcome.best)
    assert result.status == "feasible"
    assert result.bound >= sound.objective.value > result.objective.value
    (failed,) = result.metrics["failed"]
    assert failed["architecture"] == sound.solution["architecture"]
    assert failed["reason"] == "ZeroDivisionError: poisoned"
    problem = options.problem()
    assert violations(problem, result.solution) == []
    assert metric_faults(options, problem, result) == []


def test_an_architecture_that_fails_elsewhere_changes_nothing(options, poison):
    sound, outcome = solve(options)
    machines = options.problem().machines()
    poison(next(index for index in range(len(machines)) if index not in outcome.evaluated))
    result, _ = solve(options)
    assert result.status == sound.status == "optimal"
    assert result.solution == sound.solution


def test_a_failed_point_of_the_front_is_undecided(options, poison):
    asked = replace(options, pareto=True)
    sound, _ = solve(asked)
    places = [point["architecture"] for point in sound.metrics["pareto"]["points"]]
    machines = asked.problem().machines()
    poison(next(index for index in range(len(machines)) if architecture_solution(machines, index) == places[-1]))
    result, _ = solve(asked)
    front = result.metrics["pareto"]
    assert not front["proven"]
    assert front["undecided"]
    assert len(front["points"]) < len(places) + 1


def test_a_walk_goes_on_past_a_failure(options, poison):
    def search(context):
        return sweep.search(context, proposer=AreaWalk(context.machines.area_mm2, NoNewBestRule(3)))

    _, outcome = solve(options, search=search)
    poison(next(index for index in outcome.evaluated if index != outcome.best))
    result, second = solve(options, search=search)
    assert second.best == outcome.best
    assert len(result.metrics["failed"]) == 1
