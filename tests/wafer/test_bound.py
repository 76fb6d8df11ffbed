"""The bound on the cost: it holds, whatever is asked, and where it is stopped."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from dse.run.executor import InProcessExecutor
from dse.wafer.bound import CostBound, area_bound_ticks
from dse.wafer.problem import Weights
from dse.wafer.search.context import SearchContext
from dse.wafer.search.portfolio import search
from dse.wafer.shapes import shape_table
from tests.wafer.brute_force import min_cost
from tests.wafer.small import blocks, conv_line, graph_text, problem_from


def triangle(distance, adapter=0):
    nodes = [conv_line(number, height=2, width=1, inputs=2, outputs=2) for number in (1, 2, 3)]
    edges = [("conv[1]", "conv[2]"), ("conv[2]", "conv[3]"), ("conv[1]", "conv[3]")]
    return problem_from(graph_text(nodes, edges, width=9, height=4, distance=distance, adapter=adapter))


@pytest.mark.parametrize(("distance", "adapter"), [(1, 0), (50, 0), (3, 2), (50, 20)])
def test_the_bound_of_a_triangle_holds(distance, adapter):
    problem = triangle(distance, adapter)
    best = min_cost(problem)
    table = shape_table(problem)
    bound = CostBound(problem, table).total(area_bound_ticks(problem, table), np.inf)
    assert 0.4 * best < bound <= best
    assert search(SearchContext(problem, InProcessExecutor(), moves=20_000)).total == pytest.approx(best)


@pytest.mark.parametrize("asked", [1, 2, 9])
def test_a_bound_that_is_stopped_early_takes_few_intervals_and_holds(asked, monkeypatch):
    problem = blocks(adapter=5)
    table = shape_table(problem)
    floor, known = (
        area_bound_ticks(problem, table),
        search(SearchContext(problem, InProcessExecutor(), moves=5000)).total,
    )
    whole = CostBound(problem, table).total(floor, known)
    made, answers = [], iter([None] * (asked - 1))
    interval = CostBound._interval
    monkeypatch.setattr(CostBound, "_interval", lambda *given: made.append(given[2:4]) or interval(*given))
    early = CostBound(problem, table).total(floor, known, lambda: next(answers, "time limit"))
    assert 0 < early <= whole <= known
    # One of all times, and two for each that is split.
    assert len(made) == 1 + 2 * (asked - 1)
    assert made[0][0] == floor
    assert made[0][1] * problem.weights.time / table.ticks_per_time > known
    assert all(one[1] == other[0] for one, other in zip(made[1::2], made[2::2], strict=True))


def test_more_time_never_needs_more_communication():
    for problem in (blocks(), blocks(adapter=5)):
        table = shape_table(problem)
        floor = area_bound_ticks(problem, table)
        bound = CostBound(problem, table)
        found = [bound.communication(floor * share // 4) for share in (3, 4, 5, 8, 16, 64)]
        assert found[0] == np.inf or found[0] >= found[1]
        assert all(one >= other - 1e-9 for one, other in pairwise(found))


@pytest.mark.parametrize("weight", ["1e-300", "1e-12", "1e12"])
def test_a_weight_of_any_size_has_a_bound_that_holds(weight):
    nodes = [conv_line(number, height=2, width=1, inputs=2, outputs=2) for number in (1, 2)]
    problem = problem_from(graph_text(nodes, [("conv[1]", "conv[2]")], width=9, height=4, time=weight))
    best, table = min_cost(problem), shape_table(problem)
    for known in (np.inf, best):
        bound = CostBound(problem, table).total(area_bound_ticks(problem, table), known)
        assert 0 < bound <= best * (1 + 1e-9)


def test_a_bound_that_is_left_early_is_no_higher():
    problem = blocks(adapter=5)
    table = shape_table(problem)
    floor, known = (
        area_bound_ticks(problem, table),
        search(SearchContext(problem, InProcessExecutor(), moves=2000)).total,
    )
    bounds = CostBound(problem, table)
    whole, left = bounds.total(floor, known), bounds.total(floor, known, min_share=1.0)
    assert 0 < left < whole == bounds.total(floor, known, min_share=0.1)


TIGHT = [(2, 6, 4, 2), (2, 6, 3, 2), (2, 12, 4, 2), (3, 9, 2, 2), (3, 9, 4, 2), (3, 9, 6, 2), (3, 6, 6, 1)]
"""Kernels, width and height of the wafer, height and width of the images."""


def tight(count, width, height, side):
    """A chain of kernels of which smaller and faster ones leave little of the wafer."""
    nodes = [conv_line(number, height=side, width=side, inputs=2, outputs=2) for number in range(1, count + 1)]
    edges = [(f"conv[{number}]", f"conv[{number + 1}]") for number in range(1, count)]
    return problem_from(graph_text(nodes, edges, width=width, height=height))


@pytest.mark.parametrize("case", TIGHT, ids=str)
def test_where_kernels_fill_the_wafer_the_area_bound_is_the_least_time(case):
    problem = replace(tight(*case), weights=Weights(1.0, 0.0, 0.0))
    table, best = shape_table(problem), min_cost(problem)
    floor = area_bound_ticks(problem, table)
    assert floor == best * table.ticks_per_time
    assert CostBound(problem, table).total(floor, np.inf) == pytest.approx(best)


@pytest.mark.parametrize("weights", [(1.0, 1.0, 0.0), (1.0, 1.0, 2.0), (0.1, 3.0, 0.0), (0.1, 3.0, 1.0)])
def test_where_kernels_fill_the_wafer_no_bound_at_any_price_exceeds_the_least_cost(weights):
    ratios = []
    for case in TIGHT:
        problem = replace(tight(*case), weights=Weights(*weights))
        table, best = shape_table(problem), min_cost(problem)
        bound = CostBound(problem, table).total(area_bound_ticks(problem, table), np.inf)
        assert 0 < bound <= best + 1e-9, case
        ratios.append(bound / best)
    assert max(ratios) > 0.99  # there is a case in which any more would be too much
