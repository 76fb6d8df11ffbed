"""Searches that learn nothing, against the exact search."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.parallel_dqn import every_plan
from dse.parallel.pipeline.methods import PipelineContext, exact
from dse.parallel.pipeline.problem import PipelinePlan
from policies.parallel.pipeline.contenders import annealed_as_it_is, drawn_plans, even, even_as_it_is
from policies.parallel.pipeline.inference import coarse
from policies.parallel.pipeline.online import Best
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
    assert drawn_plans(seen, 50, 0).length_s >= every.length_s * (1 - 1e-9)


def test_too_many_plans_are_not_enumerated():
    assert every_plan(coarse(problem_of(40, 4, devices=16, stages=2), "near"), most=10) is None


def test_annealing_begins_with_the_plan_that_it_is_given():
    seen = coarse(problem_of(400, 5, devices=24, stages=3), "near")
    start = even_as_it_is(seen)
    best = annealed_as_it_is(seen, 1, 0, start)
    assert best.shortest == start.shortest
    assert annealed_as_it_is(seen, 1, 0).shortest != best.shortest
    assert start.evaluations == 1


def test_the_other_of_two_plans_counts_where_it_is_shorter():
    long, short = Best.of(PipelinePlan((3,), (1,)), 2.0, 5), Best.of(PipelinePlan((4,), (1,)), 1.0, 7)
    for one, other in ((long, short), (short, long)):
        both = one.with_other(other)
        assert (both.plan, both.length_s, both.evaluations) == (short.plan, 1.0, 12)
    assert long.with_other(Best(evaluations=1)).plan == long.plan


def test_equal_computing_has_no_plan_where_a_stage_would_have_no_trained_tensor():
    problem = problem_of(40, 4, devices=16, stages=2)
    variables = np.zeros_like(problem.profile.variables)
    variables[:2] = 1
    lopsided = replace(problem, profile=replace(problem.profile, variables=variables))
    assert even(coarse(problem, "near")).plan is not None
    assert even(coarse(lopsided, "near")).plan is None
