"""What is learned of the times of stages, and the search that chooses by it."""

from dataclasses import replace

import numpy as np
import pytest

from dse.partition.check import violations
from dse.partition.evaluators.analytical import AnalyticalEvaluator
from dse.partition.search.refining import refine
from dse.partition.search.screening import Screening, screen
from dse.partition.search.stage_features import FEATURES, StageFeatures
from dse.partition.search.stage_times import StageTimes, reference_prior
from tests.partition.small import LINK_BYTES_PER_S, random_problem, valid_partitions
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


@pytest.mark.parametrize("seed", range(12))
def test_features_are_those_counted_one_by_one(seed):
    problem = random_problem(seed)
    graph, chips = problem.graph, partitions_of(problem)
    reference_s = AnalyticalEvaluator(problem).busy_s(chips)
    features = StageFeatures(problem).of(chips, reference_s)
    assert features.shape == (len(chips), problem.chips, len(FEATURES))
    edges, launch_s = [tuple(edge) for edge in graph.edges.tolist()], graph.latency_s.min()
    out = {v: [edge for edge in edges if edge[0] == v] for v in range(len(graph))}
    into = {v: [edge for edge in edges if edge[1] == v] for v in range(len(graph))}
    for row, chip in enumerate(chips[:40]):
        for here in range(problem.chips):
            own = np.flatnonzero(chip == here)
            if not len(own):
                assert not features[row, here].any()
                continue
            inside = [(s, t) for s, t in edges if chip[s] == chip[t] == here]
            chained = [(s, t) for s, t in inside if len(out[s]) == len(into[t]) == 1]
            latency_s, weight_s = graph.latency_s[own].sum(), graph.weight_bytes[own].sum() / LINK_BYTES_PER_S
            seconds = [
                latency_s,
                reference_s[row, 0, here] - latency_s,
                launch_s * len(own),
                launch_s * len(chained),
                sum(graph.output_bytes[s] for s, _ in chained) / LINK_BYTES_PER_S,
                launch_s * sum(chip[s] != here == chip[t] for s, t in edges),
                launch_s * sum(chip[s] == here != chip[t] for s, t in edges),
                weight_s,
                max(0.0, weight_s - latency_s),
                launch_s,
            ]
            np.testing.assert_allclose(features[row, here] * reference_s[row, 0, here], seconds, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_sets_have_the_same_word_where_they_are_the_same(seed):
    problem = random_problem(seed)
    chips = partitions_of(problem)
    words = StageFeatures(problem).sets(chips)
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
        costs, sets = evaluator.costs(chips), StageFeatures(problem).sets(chips)
        others = np.flatnonzero(np.arange(len(chips)) != int(np.argmin(costs)))
        stages = set(sets[np.argmin(costs)].tolist())
        if not len(others) or not stages <= set(sets[others].ravel().tolist()):
            continue
        times = StageTimes(problem, reference_prior())
        times.measure(chips[others], evaluator.busy_s(chips[others]))
        # All but the best were measured, and each of its stages in one of them.
        assert times.best(chips, float(costs[others].min())) == int(np.argmin(costs))
        checked += 1
    assert checked >= 5


def test_what_is_learned_chooses_better_than_the_reference_evaluator_alone():
    """Of all partitions, by twelve that were measured: how much longer the chosen one takes than the best."""
    longer = {"learning": [], "not learning": []}
    for seed in range(40):
        problem = random_problem(seed, most_operators=8, most_chips=4)
        chips, evaluator = partitions_of(problem), Launching(problem)
        if len(chips) < 40:
            continue
        draw = np.random.default_rng(seed)
        first = draw.choice(len(chips), 12, replace=False)
        rest, costs = np.delete(chips, first, axis=0), evaluator.costs(chips)
        for name, prior in (("learning", reference_prior()), ("not learning", None)):
            times = StageTimes(problem, prior)
            times.measure(chips[first], evaluator.busy_s(chips[first]))
            chosen = times.best(rest, float(costs[first].min()))
            longer[name].append(
                float(np.log(evaluator.costs(rest[chosen : chosen + 1])[0] / np.delete(costs, first).min()))
            )
    assert len(longer["learning"]) >= 10
    assert np.mean(longer["learning"]) < 0.8 * np.mean(longer["not learning"])


@pytest.mark.parametrize("seed", range(6))
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
    result = Screening(None)(context_of(problem, samples=10**6, stop=lambda: next(asked, "enough")))
    assert not violations(problem, result.chip)
    assert result.evaluations < 20
