"""The trainings of Figures 16 and 17."""

import math

import pytest

from dse.parallel.pipeline.methods import PipelineContext, exact
from dse.reproduce.automap.contest import METHODS, ContestTrial
from dse.reproduce.automap.convergence import STEP, CurveTrial
from dse.reproduce.automap.pipelines import PipelineTrial, problem_of
from dse.reproduce.automap.study import Machine, Trial
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


def test_no_method_is_better_than_the_proven_pipeline_and_none_has_more_plans():
    found = learned().contest(ContestTrial(None, PIPELINES, "variables", 2, 1))
    assert set(found) == set(METHODS)
    shortest_s = exact(PipelineContext(problem_of(PIPELINES), PIPELINES.device_cutting)).length_s
    for of in found.values():
        assert of["value"] >= shortest_s * (1 - 1e-9)
    made = found["dqn alone"]["plans"]
    assert found["random alone"]["plans"] == made
    # Improving plans counts, and takes as many plans as its rounds need.
    assert all(made < found[name]["plans"] for name in ("dqn", "random", "annealing"))
    for name in ("dqn", "random"):
        assert found[name]["value"] <= min(found["greedy"]["value"], found[f"{name} alone"]["value"])
    assert found == learned().contest(ContestTrial(None, PIPELINES, "variables", 2, 1)) | {
        name: of | {"cpu_s": found[name]["cpu_s"]} for name, of in found.items()
    }


@pytest.mark.parametrize("decided", ["variables", "inputs"])
def test_no_method_splits_more_dimensions_than_is_proven(decided):
    found = learned().contest(ContestTrial(OPERATORS, None, decided, 2, 0))
    most = found.pop("exact")["value"]
    assert set(found) == set(METHODS)
    assert all((of["value"] or 0) <= most for of in found.values())
    made = found["dqn alone"]["plans"]
    assert made == found["random alone"]["plans"] == found["annealing"]["plans"] > 0
    for name in ("dqn", "random"):
        assert found[name]["value"] == max(found[f"{name} alone"]["value"] or 0, found["greedy"]["value"])
    assert most == {"variables": 175, "inputs": 3}[decided]
