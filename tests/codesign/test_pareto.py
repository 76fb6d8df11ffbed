"""The Pareto front against enumeration; its filters against definitions."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.algorithms.dominance import non_dominated
from dse.codesign.context import SearchContext
from dse.codesign.evaluation.energy import plan_energy
from dse.codesign.evaluation.evaluator import Evaluator
from dse.codesign.objective import Objective
from dse.codesign.pareto.document import front_document
from dse.codesign.pareto.dominance import surely_dominated
from dse.codesign.pareto.front import pareto_front
from dse.codesign.pareto.table import front_rows
from dse.results.result import PROOF_TOLERANCE
from dse.run.executor import InProcessExecutor
from hardware.energy_model import energy_model
from tests.codesign.tiny import tiny_problem

LEVELS = st.integers(0, 5).map(float)
POINTS = st.lists(st.tuples(LEVELS, LEVELS, LEVELS), max_size=40)


def dominates(b, a):
    """By definition, for (score, area, power)."""
    no_worse = b[0] >= a[0] and b[1] <= a[1] and b[2] <= a[2]
    return no_worse and b != a


@settings(deadline=None)
@given(POINTS)
def test_the_filter_keeps_exactly_what_nothing_dominates(points):
    score, area, power = (np.array([point[k] for point in points]) for k in range(3))
    expected = [not any(dominates(b, a) for b in points) for a in points]
    assert non_dominated(-score, area, power).tolist() == expected


def test_the_filter_on_doubles():
    points = np.random.default_rng(0).normal(size=(3, 400))
    expected = [not any(dominates(tuple(b), tuple(a)) for b in points.T) for a in points.T]
    assert non_dominated(-points[0], *points[1:]).tolist() == expected


POSITIVE = st.integers(1, 6).map(float)
REGIONS = st.tuples(POSITIVE, LEVELS, LEVELS, POSITIVE, st.integers(0, 3).map(float))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(LEVELS, LEVELS, POSITIVE), max_size=12), REGIONS)
def test_what_is_surely_dominated_is_dominated_wherever_it_may_be(points, region):
    area, first, second, base, rise = region
    low, high = sorted((first, second))
    known = tuple(np.array([point[k] for point in points]) for k in range(3))
    answer = surely_dominated(known, *(np.array([value]) for value in (area, low, high, base, rise)))[0]
    # All that matters happens at the scores of the points, just above them, and at the ends.
    steps = {low, high, *(score for score, _, _ in points)}
    scores = sorted(s for t in steps for s in (t, t + 1e-9) if low <= s <= high)
    covered = [any(dominates(b, (s, area, base + rise * s)) for b in points) for s in scores]
    assert not answer or all(covered)
    strictly_smaller = [point for point in points if point[1] < area]
    if all(any(s <= b[0] and b[2] < base + rise * s for b in strictly_smaller) for s in scores):
        assert answer


ONE, TWO = (("tiny", 3, 64),), (("tiny", 3, 64), ("wide", 2, 128))
NODES = 1_000


@pytest.fixture(autouse=True)
def one_effort(monkeypatch):
    """With one effort the points that are reached are the same for the front and for enumeration, proven or not."""
    monkeypatch.setattr("dse.codesign.pareto.front.NODES", (NODES,))


def posed(folder, models=ONE, count=60, **changes):
    """A problem and some architectures from all over the whole space."""
    problem = tiny_problem(folder, models, tensor_parallel="1", area_budget="tpuv4-phaze", **changes)
    machines = problem.machines()
    return problem, machines.take(np.random.default_rng(0).choice(len(machines), count, replace=False))


def brute_force(problem, machines, row):
    """(score, area, power) of every architecture at HBM size ``row``, and whether each is proven."""
    evaluators = [Evaluator(job, machines) for job in problem.jobs]
    everything = [evaluator.evaluate_many(range(len(machines)), NODES) for evaluator in evaluators]
    weights = np.array(problem.objective.weights or [1.0] * len(evaluators))
    points, exact = [], []
    for index in range(len(machines)):
        found = [evaluations[index] for evaluations in everything]
        plans = [evaluation.plans[row] for evaluation in found]
        rates = [plan.throughput_per_s(job.global_batch) for plan, job in zip(plans, problem.jobs, strict=True)]
        powers = [
            plan_energy(evaluator, index, plan, energy_model()).power_w
            for evaluator, plan in zip(evaluators, plans, strict=True)
        ]
        score = float(problem.objective.score(np.array(rates)[:, None])[0])
        points.append((score, float(machines.area_mm2[index]), float(weights @ powers / weights.sum())))
        exact.append(all(e.bound_s[row] >= e.plans[row].placement.batch_s * (1 - PROOF_TOLERANCE) for e in found))
    return points, exact


@pytest.mark.parametrize(
    ("models", "objective", "row"),
    [
        (ONE, Objective(), 2),
        (ONE, Objective(), 1),
        (TWO, Objective(), 2),
        (TWO, Objective(mean="arithmetic", weights=(3.0, 1.0)), 2),
    ],
)
def test_the_front_is_that_of_enumeration(tmp_path, models, objective, row):
    problem, machines = posed(tmp_path, models)
    problem = dataclasses.replace(problem, objective=objective)
    points, exact = brute_force(problem, machines, row)
    found = pareto_front(SearchContext(problem, machines, InProcessExecutor(), {}), hbm_bytes=problem.hbm_bytes[row])
    assert len(found.evaluated) < len(machines)
    listed = {point.architecture: (point.score, point.area_mm2, point.power_w) for point in found.points}
    assert set(listed) == {a for a, point in enumerate(points) if not any(dominates(b, point) for b in points)}
    for point in found.points:
        assert listed[point.architecture] == pytest.approx(points[point.architecture], rel=1e-12)
        assert point.proven == exact[point.architecture]
    assert not any(exact[index] for index in found.undecided)
    scores = [point.score for point in found.points]
    assert scores == sorted(scores, reverse=True)


def test_a_front_of_proven_schedules_is_proven(tmp_path, monkeypatch):
    problem, machines = posed(tmp_path, count=12)
    monkeypatch.setattr("dse.codesign.pareto.front.NODES", (NODES, 20_000))
    found = pareto_front(SearchContext(problem, machines, InProcessExecutor(), {}))
    everything = Evaluator(problem.jobs[0], machines).evaluate_many(range(len(machines)), 20_000)
    unproven = {
        e.architecture for e in everything if e.bound_s[-1] < e.plans[-1].placement.batch_s * (1 - PROOF_TOLERANCE)
    }
    points = {point.architecture for point in found.points}
    assert {point.architecture for point in found.points if not point.proven} == points & unproven
    assert set(found.undecided) <= unproven
    assert found.proven == (not points & unproven and not found.undecided)


def test_the_front_is_the_same_for_any_number_of_workers(tmp_path, ray_executor):
    problem, machines = posed(tmp_path, count=60)
    alone = pareto_front(SearchContext(problem, machines, InProcessExecutor(), {}))
    assert pareto_front(SearchContext(problem, machines, ray_executor, {})) == alone


def test_finished_evaluations_are_not_repeated(tmp_path):
    problem, machines = posed(tmp_path, count=60)
    store = {}
    first = pareto_front(SearchContext(problem, machines, InProcessExecutor(), store))
    assert {task.task.index for task in store} == set(first.evaluated)

    class Refuse(dict):
        def update(self, found):
            assert not found, f"{list(found)} was evaluated again"

    assert pareto_front(SearchContext(problem, machines, InProcessExecutor(), Refuse(store))) == first


def test_every_evaluation_is_progress(tmp_path):
    problem, machines = posed(tmp_path, count=60)
    store, reports = {}, []

    def report(phase, done, total):
        if "effort" in phase:
            reports.append((phase, done, total))

    pareto_front(SearchContext(problem, machines, InProcessExecutor(), store, report))
    by_phase = {phase: [done for name, done, _ in reports if name == phase] for phase, _, _ in reports}
    assert all(counts == sorted(set(counts)) for counts in by_phase.values())
    assert sum(counts[-1] for counts in by_phase.values()) == len(store)
    assert all(0 < done <= total for _, done, total in reports)


def test_a_stopped_search_claims_no_proof(tmp_path):
    problem, machines = posed(tmp_path, count=60)
    asked = []

    def stop():
        asked.append(None)
        return "time limit" if len(asked) > 2 else None

    found = pareto_front(SearchContext(problem, machines, InProcessExecutor(), {}, stop=stop))
    assert found.stopped == "time limit"
    assert not found.proven


def test_nothing_fits_nowhere(tmp_path):
    problem, machines = posed(tmp_path, count=12, hbm_gb="0.0001")
    found = pareto_front(SearchContext(problem, machines, InProcessExecutor(), {}))
    assert (found.points, found.undecided, found.evaluated) == ((), (), {})
    assert found.proven


def test_the_documents_tell_what_the_front_does(tmp_path):
    problem, machines = posed(tmp_path, TWO, count=40)
    found = pareto_front(SearchContext(problem, machines, InProcessExecutor(), {}))
    document = front_document(problem, machines, found)
    assert len(document["points"]) == len(found.points)
    assert json.loads(json.dumps(document)) == document
    for point, stated in zip(found.points, document["points"], strict=True):
        rates = [[plan["throughput_per_s"]] for plan in stated["models"].values()]
        assert problem.objective.score(np.array(rates))[0] == pytest.approx(point.score)
        assert stated["architecture"]["area_mm2"] == machines.area_mm2[point.architecture]
    headings, rows = front_rows(document)
    assert 2 <= len(rows) <= len(found.points)
    assert {len(row) for row in rows} == {len(headings)}
