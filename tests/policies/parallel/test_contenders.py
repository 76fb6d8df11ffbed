"""Searches that learn nothing, against the exact search."""

import pytest

from dse.parallel.pipeline.methods import PipelineContext, exact
from policies.parallel.pipeline.contenders import every_plan, random_plans
from policies.parallel.pipeline.inference import coarse
from tests.policies.parallel.cases import problem_of


@pytest.mark.parametrize("cutting", ["equal", "near", "free"])
@pytest.mark.parametrize("stages", [2, 3])
def test_where_every_point_is_a_candidate_the_best_of_every_plan_is_the_optimum(cutting, stages):
    problem = problem_of(40, 4, devices=8 * stages, stages=stages)
    best = every_plan(coarse(problem, cutting))
    assert best.length_s == pytest.approx(exact(PipelineContext(problem, cutting)).length_s)


def test_where_points_are_coarse_no_random_plan_is_better_than_every_plan():
    problem = problem_of(400, 5, devices=16, stages=2)
    seen = coarse(problem, "equal")
    every = every_plan(seen)
    assert every.length_s >= exact(PipelineContext(problem, "equal")).length_s * (1 - 1e-9)
    assert min(random_plans(seen, 50, 0).lengths_s[:1]) >= every.length_s * (1 - 1e-9)


def test_too_many_plans_are_not_enumerated():
    assert every_plan(coarse(problem_of(40, 4, devices=16, stages=2), "near"), most=10) is None
