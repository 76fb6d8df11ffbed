"""What measured stages say of others, and the search that chooses by it."""

from dataclasses import replace

import numpy as np
import pytest

from dse.partition.check import violations
from dse.partition.evaluators.analytical import AnalyticalEvaluator
from dse.partition.evaluators.simulator import SimulatorEvaluator
from dse.partition.evaluators.simulator_kernels import simulate
from dse.partition.search.refining import refine
from dse.partition.search.screening import screen, screen_from
from dse.partition.search.stage_times import StageTimes
from hardware.packages import package
from tests.partition.small import random_problem, valid_partitions
from tests.partition.test_methods import context_of

PER_OPERATOR_S = 2e-3


class Launching:
    """An evaluator whose chips take time for each operator, of which the reference evaluator knows nothing."""

    is_reference = False

    def __init__(self, problem):
        self._reference = AnalyticalEvaluator(problem)
        self.chips = problem.chips

    def busy_s(self, chips):
        """Those of the reference evaluator, and the time for each operator."""
        busy_s = self._reference.busy_s(chips)
        busy_s[:, 0] += PER_OPERATOR_S * np.stack([(chips == chip).sum(axis=1) for chip in range(self.chips)], axis=1)
        return busy_s

    def costs(self, chips):
        """The slowest of them."""
        return self.busy_s(chips).max(axis=(1, 2))


def partitions_of(problem):
    return np.array(sorted(valid_partitions(problem)), dtype=np.int8)


@pytest.mark.parametrize("seed", range(6))
def test_sets_have_the_same_word_where_they_are_the_same(seed):
    problem = random_problem(seed)
    chips = partitions_of(problem)
    words = StageTimes(problem).sets(chips)
    sets = {}
    for row, chip in enumerate(chips):
        for here in range(problem.chips):
            sets.setdefault(tuple(np.flatnonzero(chip == here)), set()).add(int(words[row, here]))
    assert all(len(each) == 1 for each in sets.values())
    assert len({word for each in sets.values() for word in each}) == len(sets)


def test_what_was_evaluated_promises_nothing_and_measured_stages_are_believed():
    checked = 0
    for seed in range(60):
        problem = random_problem(seed, most_operators=7, most_chips=4)
        chips, evaluator = partitions_of(problem), Launching(problem)
        costs, sets = evaluator.costs(chips), StageTimes(problem).sets(chips)
        others = np.flatnonzero(np.arange(len(chips)) != int(np.argmin(costs)))
        stages = set(sets[np.argmin(costs)].tolist())
        if not len(others) or not stages <= set(sets[others].ravel().tolist()):
            continue
        times = StageTimes(problem)
        times.measure(chips[others], evaluator.busy_s(chips[others]))
        # All but the best were measured, and each of its stages in one of them.
        assert times.best(chips, float(costs[others].min())) == int(np.argmin(costs))
        checked += 1
    assert checked >= 5


@pytest.mark.parametrize("factor", [0.25, 16.0])
def test_an_evaluator_that_is_as_many_times_as_slow_everywhere_changes_no_choice(factor):
    checked = 0
    for seed in range(40):
        problem = random_problem(seed, most_operators=8, most_chips=4)
        chips = partitions_of(problem)
        if len(chips) < 40:
            continue
        first, rest = chips[::4], np.delete(chips, np.s_[::4], axis=0)
        busy_s, chosen = AnalyticalEvaluator(problem).busy_s(first), []
        for slower in (1.0, factor):
            times = StageTimes(problem)
            times.measure(first, slower * busy_s)
            chosen.append(times.best(rest, slower * float(busy_s.max(axis=(1, 2)).min())))
        assert chosen[0] == chosen[1]
        checked += 1
    assert checked >= 10


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("evaluator", [AnalyticalEvaluator, Launching])
def test_the_search_is_valid_repeatable_and_evaluates_what_it_is_given(seed, evaluator):
    problem = random_problem(seed)
    context = context_of(problem, evaluator=evaluator(problem), samples=30, seed=seed)
    result = screen(context)
    assert result == screen(context)
    assert result.evaluations == 30
    assert not violations(problem, result.chip)
    assert result.cost_s == context.evaluator.costs(np.array([result.chip], dtype=np.int8))[0]
    assert screen(replace(context, samples=60)).cost_s <= result.cost_s


def test_where_memory_is_short_it_finds_what_fits():
    problem = random_problem(5, most_operators=7, most_chips=4)
    least = problem.graph.weight_bytes.sum() / 2 + problem.graph.weight_bytes.max()
    tight = replace(problem, memory_bytes=float(least))
    result = screen(context_of(tight, evaluator=AnalyticalEvaluator(tight), samples=200))
    assert result.chip is None or not violations(tight, result.chip)
    assert any(np.isfinite(AnalyticalEvaluator(tight).costs(partitions_of(tight)))) == (result.chip is not None)


def test_for_latency_it_is_refinement():
    problem = random_problem(2, objective="latency")
    context = context_of(problem, evaluator=AnalyticalEvaluator(problem))
    assert screen(context) == refine(context)


def test_it_stops_with_a_valid_answer():
    problem = random_problem(4)
    asked = iter([None] * 5)
    result = screen(context_of(problem, samples=10**6, stop=lambda: next(asked, "enough")))
    assert not violations(problem, result.chip)
    assert result.evaluations < 20


def test_screening_simulates_each_partition_once(monkeypatch):
    problem = next(each for seed in range(99) if len(partitions_of(each := random_problem(seed))) > 20)
    simulated = []

    def counted(chips, *rest):
        simulated.append(len(chips))
        return simulate(chips, *rest)

    monkeypatch.setattr("dse.partition.evaluators.simulator.simulate", counted)
    context = context_of(problem, evaluator=SimulatorEvaluator(problem, package("mcm-4")), samples=20)
    screen_from(context, partitions_of(problem)[:3])
    assert sum(simulated) == 20
