"""The search over chips against brute force on random small spaces, for each objective."""

import pytest

from dse.codesign.chips.search import ChipSearch
from tests.codesign.chip_spaces import OBJECTIVES, best_of_all, random_problem


@pytest.mark.parametrize("per", OBJECTIVES)
@pytest.mark.parametrize("seed", range(5))
def test_no_chip_of_a_random_space_is_better_than_the_answer(seed, per):
    problem = random_problem(100 * OBJECTIVES.index(per) + seed, per)
    best, count = best_of_all(problem)
    outcome = ChipSearch(problem).run()
    assert outcome.score == pytest.approx(best, rel=1e-9), (count, outcome.counts)
    assert bool(outcome.best) == (best > 0)
