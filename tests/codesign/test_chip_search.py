"""The search over chips against brute force on random small spaces, for each objective."""

from dataclasses import replace
from itertools import count

import pytest

from dse.codesign.chips.problem import Limits
from dse.codesign.chips.search import ChipSearch
from dse.codesign.objective import Objective
from tests.codesign.chip_spaces import OBJECTIVES, best_of_all, random_problem


@pytest.mark.parametrize("per", OBJECTIVES)
@pytest.mark.parametrize("seed", range(4))
def test_no_chip_of_a_random_space_is_better_than_the_answer(seed, per):
    problem = random_problem(100 * OBJECTIVES.index(per) + seed, per)
    best, _ = best_of_all(problem)
    outcome = ChipSearch(problem).run()
    assert outcome.score == outcome.bound == pytest.approx(best, rel=1e-9)
    assert bool(outcome.best) == (best > 0)


@pytest.mark.parametrize("seed", range(3))
def test_every_chip_within_a_share_of_the_best_is_listed(seed):
    problem = replace(random_problem(1000 + seed, "per-dollar"), within=0.1)
    best, near = best_of_all(problem, within=0.1)
    outcome = ChipSearch(problem).run()
    assert outcome.score == pytest.approx(best, rel=1e-9)
    assert len(outcome.near(0.1)) == near


@pytest.mark.parametrize("mean", ["geometric", "arithmetic"])
@pytest.mark.parametrize("seed", range(2))
def test_the_best_chip_of_two_models_is_found(seed, mean):
    problem = random_problem(2000 + seed, "per-watt", models=("llama3-8b", "llama2-7b"))
    problem = replace(problem, objective=Objective("per-watt", mean, (1.0, 2.0)))
    best, _ = best_of_all(problem)
    assert ChipSearch(problem).run().score == pytest.approx(best, rel=1e-9)


def _stops_at(asked):
    asks = count(1)
    return lambda: "enough" if next(asks) >= asked else None


@pytest.mark.parametrize("seed", range(3))
def test_no_chip_is_better_than_the_bound_of_a_search_that_is_stopped_anywhere(seed):
    problem = random_problem(3000 + seed, "throughput")
    problem = replace(problem, limits=Limits())
    best = ChipSearch(problem).run().score
    for asked in range(1, 40):
        outcome = ChipSearch(problem, _stops_at(asked)).run()
        assert outcome.bound >= best * (1 - 1e-9), asked
        if outcome.stopped is None:
            break
