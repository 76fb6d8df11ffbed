"""The reduction keeps the optimum and finds the way back; certificates never claim more than the optimum."""

import numpy as np
import pytest

from dse.algorithms.pairwise.certificate import Duals, certified
from dse.algorithms.pairwise.core import Core, core_of
from dse.algorithms.pairwise.evaluate import evaluate
from dse.algorithms.pairwise.problem import FORBIDDEN, PairwiseProblem
from dse.algorithms.pairwise.reduction import reduce
from tests.algorithms.pairwise.random_problems import best_cost, random_problem

CASES = [(seed, memory, share) for seed in range(10) for memory in (None, 0.45, 0.7) for share in (0.3, 0.8)]


def enumerated(core: Core):
    """(the least cost in a core, its choices), or None."""
    best = None
    for choices in np.ndindex(*map(len, core.costs)):
        cost = sum(int(costs[choice]) for costs, choice in zip(core.costs, choices, strict=True))
        cost += sum(int(m[choices[u], choices[v]]) for (u, v), m in zip(core.edges, core.edge_costs, strict=True))
        fits = all(
            sum(int(core.usages[node][choices[node]]) for node in members) <= limit
            for members, limit in zip(core.members, core.limits, strict=True)
        )
        if fits and cost < FORBIDDEN and (best is None or cost < best[0]):
            best = cost, np.array(choices, dtype=np.int64)
    return best


@pytest.mark.parametrize(("seed", "memory", "share"), CASES)
def test_reduced_problems_have_the_same_optimum(seed, memory, share):
    problem = random_problem(seed, edge_share=share, memory=memory)
    optimum = best_cost(problem)
    reduction = reduce(core_of(problem))
    best = reduction and enumerated(reduction.core)
    if optimum is None:
        assert best is None
        return
    assert best[0] + reduction.constant == optimum
    result = evaluate(problem, reduction.expand(best[1]))
    assert result.is_feasible
    assert result.cost == optimum


@pytest.mark.parametrize("asked", [0, 1, 4, 9])
@pytest.mark.parametrize(("seed", "memory", "share"), CASES)
def test_a_stopped_reduction_has_the_same_optimum(seed, memory, share, asked):
    core = core_of(random_problem(seed, nodes=5, edge_share=share, memory=memory))
    best = enumerated(core)
    reasons = iter([None] * asked)
    reduction = reduce(core, lambda: next(reasons, "time limit"))
    if reduction is None:
        assert best is None
        return
    rest = enumerated(reduction.core)
    assert (rest is None) == (best is None)
    if best is not None:
        assert core.cost(reduction.expand(rest[1])) == rest[0] + reduction.constant == best[0]
        assert reduction.core.min_cost <= rest[0]


def test_reduction_is_much_smaller_somewhere():
    cores = [core_of(random_problem(seed, edge_share=0.8, memory=0.5)) for seed in range(25)]
    reductions = [reduce(core) for core in cores]
    assert sum(core.size for core in cores) > 2 * sum(r.core.size for r in reductions if r)
    assert any(r.core.members for r in reductions if r)  # or memory would never be tested


def test_long_chains_are_solved_by_reduction_alone():
    rng = np.random.default_rng(0)
    costs = rng.integers(0, 100, (300, 5))
    links = rng.integers(0, 100, (299, 5, 5))
    problem = PairwiseProblem.build(costs, [(n, n + 1) for n in range(299)], links)
    reach = costs[0]
    for cost, link in zip(costs[1:], links, strict=True):
        reach = (reach[:, None] + link).min(axis=0) + cost
    reduction = reduce(core_of(problem))
    assert reduction.core.costs == ()
    assert reduction.constant == reach.min() == evaluate(problem, reduction.expand(np.zeros(0, np.int64))).cost


def test_each_maximal_live_set_is_one_row():
    problem = PairwiseProblem.build(
        [[0]] * 5,
        usages=[[1]] * 4 + [[0]],
        intervals=[(0, 10), (1, 3), (2, 5), (4, 6), (0, 10)],
        usage_limit=1,
    )
    assert [members.tolist() for members in core_of(problem).members] == [[0, 1, 2], [0, 2, 3]]


@pytest.mark.parametrize(("seed", "memory", "share"), CASES)
def test_any_duals_give_a_bound_and_exclude_no_better_plan(seed, memory, share):
    core = core_of(random_problem(seed, nodes=5, edge_share=share, memory=memory))
    best = enumerated(core)
    rng = np.random.default_rng(seed)
    for spread in (0.0, 3.0, 1000.0):
        zero = Duals.zero(core)
        first = tuple(rng.normal(0, spread, len(each)) for each in zero.first)
        second = tuple(rng.normal(0, spread, len(each)) for each in zero.second)
        certificate = certified(core, Duals(first, second, rng.normal(0.1, 0.2, len(core.members))))
        if best is None:
            continue
        assert certificate.bound <= best[0]
        assert enumerated(certificate.excluding(best[0] + 1))[0] == best[0]
