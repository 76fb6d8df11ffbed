"""The front of chips against brute force on random small spaces."""

from dataclasses import replace

import numpy as np
import pytest

from dse.codesign.chips.front_search import FrontSearch
from tests.codesign.chip_spaces import random_problem, stops_at, values_of_all

FRONTS = (
    ("throughput", "power", "cost"),
    ("throughput", "area", "hourly-price"),
    ("per-watt", "per-dollar"),
    ("throughput", "per-kg", "carbon"),
    ("throughput", "hourly-cost"),
)


def excess(values, points):
    """By which factor each of the values [N, F] exceeds the point that is the closest to it."""
    return (values[:, None, :] / points[None, :, :]).max(axis=2).min(axis=1)


def asked(seed, figures, gap=0.0, **changes):
    return replace(random_problem(seed, "throughput", **changes), pareto=figures, pareto_gap=gap)


@pytest.mark.parametrize("figures", FRONTS)
@pytest.mark.parametrize("seed", range(2))
def test_the_points_are_exactly_the_chips_that_no_other_beats(seed, figures):
    problem = asked(4000 + 10 * FRONTS.index(figures) + seed, figures)
    every, outcome = values_of_all(problem), FrontSearch(problem).run()
    assert (outcome.stopped, outcome.gap) == (None, 0.0)
    points = np.array([each.values for each in outcome.points]).reshape(-1, len(figures))
    if not len(every):
        assert not len(points)
        return
    assert excess(every, points).max() <= 1 + 2e-9
    nearest = np.abs(points[:, None, :] / every[None, :, :] - 1).max(axis=2)
    assert nearest.min(axis=1).max() < 1e-9, "every point is a chip of the space"
    at_least = (every[None, :, :] >= points[:, None, :] * (1 + 1e-8)).any(axis=2)
    no_worse = (every[None, :, :] >= points[:, None, :] * (1 - 1e-9)).all(axis=2)
    assert not (at_least & no_worse).any(), "no chip beats a point"


def test_no_chip_exceeds_the_points_by_more_than_the_gap_that_was_asked():
    problem = asked(4101, FRONTS[0], gap=0.05, models=("llama3-8b", "llama2-7b"))
    every, outcome = values_of_all(problem), FrontSearch(problem).run()
    points = np.array([each.values for each in outcome.points])
    assert len(every)
    assert excess(every, points).max() <= 1.05 * (1 + 2e-9)


def test_no_chip_exceeds_the_points_of_a_search_that_is_stopped_anywhere_by_more_than_its_gap():
    problem = asked(4200, FRONTS[0])
    every = values_of_all(problem)
    for most in (2, 5, 10, 20, 40):
        outcome = FrontSearch(problem, stops_at(most)).run()
        if outcome.points:
            points = np.array([each.values for each in outcome.points])
            assert excess(every, points).max() <= (1 + outcome.gap) * (1 + 2e-9), most
        else:
            assert np.isinf(outcome.gap)
        if outcome.stopped is None:
            break
