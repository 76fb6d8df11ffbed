"""Evaluating many architectures at once against one by one, and against enumeration of every plan."""

import dataclasses
import itertools
import math

import numpy as np
import pytest

from dse.codesign.evaluation.evaluator import Evaluator
from dse.codesign.evaluation.job_placements import Choice
from dse.codesign.evaluation.pricing import scheduled_latencies
from dse.codesign.formats import evaluation_document
from dse.placement.solve import solve
from dse.schedule.search.segment_search import SearchLimits
from hardware.space import architecture_space
from tests.codesign.tiny import tiny_problem


@pytest.fixture(scope="module")
def evaluator(tmp_path_factory):
    problem = tiny_problem(tmp_path_factory.mktemp("model"))
    return Evaluator(problem.jobs[0], architecture_space(problem.area_budget_mm2, problem.cost_model))


def sample(evaluator, count, seed=0):
    return np.random.default_rng(seed).choice(len(evaluator.machines), count, replace=False).tolist()


@pytest.mark.parametrize("nodes", [10, 5_000])
def test_many_at_once_give_the_same_documents_as_one_by_one(evaluator, nodes):
    chosen = sample(evaluator, 12)
    together = evaluator.evaluate_many(chosen, nodes)
    assert [found.architecture for found in together] == chosen
    for index, evaluation in zip(chosen, together, strict=True):
        assert evaluation_document(evaluation) == evaluation_document(evaluator.evaluate(index, nodes))


def test_the_order_of_the_architectures_does_not_matter(evaluator):
    chosen = sample(evaluator, 10)
    there = evaluator.evaluate_many(chosen)
    back = evaluator.evaluate_many(chosen[::-1])
    assert there == back[::-1]


def every_plan_s(evaluator, index, nodes):
    """The least batch time over all graphs, memories and recomputation, nothing skipped, for each HBM size."""
    job, machine = evaluator.job, evaluator.machines.one(index)
    best = []
    for hbm_bytes in job.hbm_bytes:
        times = [math.inf]
        for key, graph in evaluator.graphs.items():
            makespan, _ = scheduled_latencies(graph, machine, job.network, SearchLimits(nodes=nodes))
            for recompute in (False, True):
                posed = evaluator.placement_problem(Choice(*key, hbm_bytes, recompute), makespan)
                placement = solve(posed).placement
                times.append(math.inf if placement is None else placement.batch_s)
        best.append(min(times))
    return best


def test_nothing_that_is_skipped_is_better(evaluator):
    for evaluation in evaluator.evaluate_many(sample(evaluator, 8, seed=1), 2_000):
        expected = every_plan_s(evaluator, evaluation.architecture, 2_000)
        for plan, bound_s, best_s in zip(evaluation.plans, evaluation.bound_s, expected, strict=True):
            found_s = math.inf if plan is None else plan.placement.batch_s
            assert found_s == best_s
            assert bound_s <= best_s


def test_bounds_hold_and_deeper_searches_tighten_them(evaluator):
    chosen = sample(evaluator, 12, seed=2)
    rough, deep = evaluator.evaluate_many(chosen, 10), evaluator.evaluate_many(chosen, 20_000)
    optimistic = evaluator.bound(np.array(chosen))
    for column, (before, after) in enumerate(zip(rough, deep, strict=True)):
        for row, plan in enumerate(after.plans):
            found_s = math.inf if plan is None else plan.placement.batch_s
            early = before.plans[row]
            assert optimistic[row, column] <= found_s * (1 + 1e-12)
            assert before.bound_s[row] <= found_s * (1 + 1e-12)
            assert early is None or found_s <= early.placement.batch_s * (1 + 1e-12)


def test_an_evaluation_does_not_depend_on_hbm_sizes_that_are_left_out(evaluator):
    job = evaluator.job
    chosen = sample(evaluator, 8, seed=3)
    whole = evaluator.evaluate_many(chosen)
    for row, hbm_bytes in enumerate(job.hbm_bytes):
        alone = Evaluator(dataclasses.replace(job, hbm_bytes=(hbm_bytes,)), evaluator.machines).evaluate_many(chosen)
        for one, all_sizes in zip(alone, whole, strict=True):
            times = [e.plans[r].placement.batch_s if e.plans[r] else None for e, r in ((one, 0), (all_sizes, row))]
            assert times[0] == times[1]


def test_larger_memories_are_never_slower(evaluator):
    for evaluation in evaluator.evaluate_many(sample(evaluator, 25, seed=4), 1_000):
        times = [math.inf if plan is None else plan.placement.batch_s for plan in evaluation.plans]
        assert all(large <= small for small, large in itertools.pairwise(times))
