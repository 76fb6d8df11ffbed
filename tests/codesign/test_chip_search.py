"""The search over chips against brute force on random small spaces, for each objective."""

from dataclasses import replace
from itertools import count

import numpy as np
import pytest

from dse.codesign.chips.boxes import BoxFigures
from dse.codesign.chips.problem import Limits
from dse.codesign.chips.search import ChipSearch
from dse.codesign.objective import Objective
from hardware.chip_space import chip_space
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


def test_no_memory_and_no_realisation_of_a_box_takes_less_than_the_box():
    problem, space = random_problem(4000, "per-dollar"), chip_space("chips-2026")
    memories = [each.model_copy(update={"stacks": [4, 6, 8]}) for each in space.memories]
    kept = {"memories": memories, "dies": space.dies.model_copy(update={"values": [1, 4]})}
    problem = replace(problem, space=problem.space.model_copy(update=kept), limits=Limits(power_w=1000.0))
    figures = BoxFigures(problem)
    box = next(figures.roots())
    whole = figures.corner(box)
    least, seen = np.full((2, len(figures.cores)), np.inf)
    least[whole.box.cores] = whole.divisor
    for memory in box.memories:
        for number in box.realisations:
            part = figures.corner(replace(box, memories=(memory,), realisations=(number,)))
            if part is not None:
                seen[part.box.cores] = np.minimum(seen[part.box.cores], part.divisor)
    assert np.isfinite(seen).any()
    assert np.all(least <= seen * (1 + 1e-12))
