"""The trainings of Figures 16 and 17."""

import math

import pytest

from dse.parallel.pipeline.methods import PipelineContext, exact
from dse.reproduce.automap.contest import METHODS, ContestTrial
from dse.reproduce.automap.convergence import STEP, CurveTrial
from dse.reproduce.automap.pipelines import PipelineTrial, problem_of
from dse.reproduce.automap.study import Machine, Trial
from policies.parallel.pipeline import contenders
from policies.parallel.pipeline import search as pipeline_search
from policies.parallel.pipeline.online import SHORTEST, Best
from policies.parallel.reproduction import learned

OPERATORS = Trial(STEP, "count", Machine("8", "v100", "v100-ethernet"), 0)
PIPELINES = PipelineTrial(STEP, "A", "length", "near", "v100", "v100-ethernet")


@pytest.mark.parametrize("trial", [CurveTrial(OPERATORS, None, 2, 0), CurveTrial(None, PIPELINES, 2, 0)])
def test_a_training_leaves_a_score_for_every_round_and_its_best_plan(trial):
    found = learned().curve(trial)
    assert len(found["scores"]) == len(found["losses"]) == 2
    assert all(map(math.isfinite, found["scores"]))
    assert found["best"] > 0
    assert found["episodes"] >= 2


def test_no_method_is_better_than_the_proven_pipeline_and_what_they_price_is_booked_alike():
    trial = ContestTrial(None, PIPELINES, "variables", 2, 1)
    found = learned().contest(trial)
    assert set(found) == set(METHODS)
    shortest_s = exact(PipelineContext(problem_of(PIPELINES), PIPELINES.device_cutting)).length_s
    for of in found.values():
        assert of["value"] >= shortest_s * (1 - 1e-9)
    greedy = found["greedy"]
    # Every method but greedy begins with as many plans as the training.
    (begun,) = {found[f"{name}, not improved"]["plans"] for name in ("dqn", "random", "annealing")}
    assert begun > 0
    for name in ("dqn", "random", "annealing"):
        own, before = found[name], found[f"{name}, not improved"]
        assert own["value"] <= min(greedy["value"], before["value"])
        # To improve each of the shortest plans of both searches takes no more than the greedy one: there is one cut.
        assert begun + greedy["plans"] < own["plans"] <= begun + greedy["plans"] + 2 * SHORTEST * greedy["plans"]
        assert own["cpu_s"] >= before["cpu_s"] + greedy["cpu_s"]
    again = learned().contest(trial)
    assert found == {name: of | {"cpu_s": found[name]["cpu_s"]} for name, of in again.items()}


@pytest.mark.parametrize("name", ["drawn_plans", "annealed_as_it_is"])
def test_the_two_searches_that_stand_beside_two_trainings_make_different_plans(monkeypatch, name):
    search, shortest = getattr(contenders, name), []

    def watched(*arguments):
        best = search(*arguments)
        shortest.append(list(best.shortest))
        return best

    monkeypatch.setattr(contenders, name, watched)
    # As many plans in both, so that only their seeds can tell them apart.
    monkeypatch.setattr(pipeline_search, "trainings", lambda *_, **__: [Best(evaluations=50), Best(evaluations=50)])
    learned().contest(ContestTrial(None, PIPELINES, "variables", 2, 1))
    first, second = shortest
    assert first != second


@pytest.mark.parametrize("decided", ["variables", "inputs"])
def test_no_method_splits_more_dimensions_than_is_proven(decided):
    found = learned().contest(ContestTrial(OPERATORS, None, decided, 2, 0))
    most = found.pop("exact")["value"]
    assert set(found) == set(METHODS)
    assert all((of["value"] or 0) <= most for of in found.values())
    greedy = found["greedy"]
    assert greedy["plans"] == 1
    (made,) = {found[f"{name}, not improved"]["plans"] for name in ("dqn", "random", "annealing")}
    assert made > 0
    for name in ("dqn", "random", "annealing"):
        own, before = found[name], found[f"{name}, not improved"]
        assert own["value"] == max(before["value"] or 0, greedy["value"])
        assert own["plans"] == made + 1
        assert own["cpu_s"] == before["cpu_s"] + greedy["cpu_s"]
    assert most == {"variables": 176, "inputs": 3}[decided]
