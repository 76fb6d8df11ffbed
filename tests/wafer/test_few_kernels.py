"""The cheapest placement of a few kernels, against all placements, and what it is for answers and bounds."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from dse.run.executor import InProcessExecutor
from dse.wafer.answer import cost_bound
from dse.wafer.check import cost, violations
from dse.wafer.few_kernels import UNKNOWN, Cheapest, cheapest
from dse.wafer.methods import METHODS
from dse.wafer.options import WaferOptions
from dse.wafer.problem import Weights
from dse.wafer.search.context import NO_RESULT, SearchContext
from dse.wafer.search.portfolio import search
from tests.solving import answer
from tests.wafer.brute_force import min_cost
from tests.wafer.small import chain
from tests.wafer.test_brute_force import MOVES, of_twos, random_tiny_problem


def total_of(problem, found):
    return None if found.placement is None else cost(problem, found.placement).total


@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_least_cost_of_all_placements(seed):
    rng = np.random.default_rng(seed)
    for _ in range(6):
        problem = random_tiny_problem(rng)
        found = cheapest(problem, inf)
        total = total_of(problem, found)
        assert found.proven
        assert found.placement is None or violations(problem, found.placement) == []
        least = min_cost(problem, None if total is None else total + 1)
        assert total == (None if least is None else pytest.approx(least))


@pytest.mark.parametrize(
    "weights", [Weights(0.1, 0.3, 0.7), Weights(0.0, 0.25, 0.0), Weights(0.0, 0.0, 2.0), Weights(1 / 64, 1.0, 0.5)]
)
def test_weights_may_be_fractions_and_none(weights):
    problem = replace(of_twos((1, 2, 1), (1, 2, 1), width=12, height=12, memory=1000), weights=weights)
    found = cheapest(problem, inf)
    assert found.proven
    assert total_of(problem, found) == pytest.approx(min_cost(problem, total_of(problem, found) + 1))


HARD = [(39, 3), (42, 1), (62, 3), (80, 0), (90, 4)]
"""Seed and number of the five of 784 random problems whose least cost the search alone misses with few moves."""


def hard(seed, number):
    rng = np.random.default_rng(seed)
    return [random_tiny_problem(rng) for _ in range(number + 1)][-1]


@pytest.mark.parametrize(("seed", "number"), HARD)
def test_an_answer_that_misses_the_least_cost_is_mended(seed, number):
    problem = hard(seed, number)
    context = SearchContext(problem, InProcessExecutor(), moves=MOVES)
    missed, found = search(context), METHODS["portfolio"](context)
    least = min_cost(problem, found.total + 1)
    assert missed.total > least + 1e-9
    assert found.total == pytest.approx(least)
    assert violations(problem, found.placement) == []
    # The bound is the least cost also where the answer is not.
    for each in (missed, found):
        assert cost_bound(problem, each) == pytest.approx(least)


def test_nothing_is_cheaper_than_the_cheapest():
    for problem in (chain(2, adapter=3), chain(3, adapter=1)):
        total = total_of(problem, cheapest(problem, inf))
        assert cheapest(problem, total) == Cheapest(None, proven=True)
        assert total_of(problem, cheapest(problem, total + 0.5)) == total


def test_a_kernel_that_fits_nowhere_is_a_proof():
    assert cheapest(chain(2, width=5, height=2, window=3), inf).proven
    assert cheapest(chain(2, width=5, height=2, window=3), inf).placement is None


@pytest.mark.parametrize(
    "problem",
    [
        chain(5),
        chain(2, width=633, height=633, inputs=256, outputs=256),
        replace(chain(2), weights=Weights(1e12, 1.0, 1e-6)),
        replace(chain(2), weights=Weights(2**-40, 1.0, 1.0)),
    ],
    ids=("five kernels", "too many shapes", "too many units", "no decimal fraction"),
)
def test_what_is_too_large_is_left_open(problem):
    assert cheapest(problem, inf) == UNKNOWN


def test_a_proof_makes_the_answer_optimal_and_is_made_again_by_the_check():
    problem = hard(*HARD[1])
    options = WaferOptions("tiny.kgraph", moves=MOVES)
    result = answer(options, problem=problem)
    assert (result.status, result.bound) == ("optimal", result.objective.value)
    assert cost_bound(problem, NO_RESULT) == pytest.approx(result.bound)


def test_it_stops_when_asked():
    assert not cheapest(chain(4, adapter=3), inf, lambda: "time limit").proven
