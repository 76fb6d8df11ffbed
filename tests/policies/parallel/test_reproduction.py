"""The trainings of Figures 16 and 17."""

import math

import pytest

from dse.reproduce.automap.convergence import STEP, CurveTrial
from dse.reproduce.automap.pipelines import PipelineTrial
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
