"""Problems are checked and brought into one form when they are built."""

import numpy as np
import pytest

from dse.algorithms.pairwise.evaluate import evaluate
from dse.algorithms.pairwise.problem import FORBIDDEN, PairwiseProblem


def test_parallel_edges_in_both_directions_are_added_up():
    problem = PairwiseProblem.build(
        [[0, 0], [0, 0, 0]], [(0, 1), (1, 0), (0, 1)], [[1, 2, 3, 4, 5, 6], [10, 20, 30, 40, 50, 60], [[0] * 3] * 2]
    )
    assert problem.edges.tolist() == [[0, 1]]
    assert problem.edge_costs[0].tolist() == [[11, 32, 53], [24, 45, 66]]


def test_costs_that_forbid_become_one_cost():
    problem = PairwiseProblem.build(
        [[np.inf, 1], [10**30, 2], [2e18, 3]], [(0, 1)], [[FORBIDDEN, 10**18, 10**17 - 1000, 0]]
    )
    assert [costs.tolist() for costs in problem.costs] == [[FORBIDDEN, 1], [FORBIDDEN, 2], [FORBIDDEN, 3]]
    assert problem.edge_costs[0].tolist() == [[FORBIDDEN, FORBIDDEN], [10**17 - 1000, 0]]


def test_whole_numbers_beyond_those_of_floats_stay_exact():
    problem = PairwiseProblem.build([[2**53 + 1, 0], [0]], [(0, 1)], [[2**54 + 3, 0]])
    assert evaluate(problem, [0, 0]).cost == 2**53 + 1 + 2**54 + 3


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"costs": [[1.5]]}, "whole numbers"),
        ({"costs": [[-1]]}, "at least 0"),
        ({"costs": [[np.nan]]}, "NaN"),
        ({"costs": [["1"]]}, "must be numbers"),
        ({"costs": [[]]}, "at least one choice"),
        ({"costs": [[9 * 10**16], [2 * 10**16]]}, "less than 1e17"),
        ({"costs": [[1], [1]], "edges": [(0, 2)], "edge_costs": [[1]]}, "from 0 to 1"),
        ({"costs": [[1], [1]], "edges": [(1, 1)], "edge_costs": [[1]]}, "two different nodes"),
        ({"costs": [[1], [1]], "edges": [(0, 1)], "edge_costs": [[1, 2]]}, "1 x 1"),
        ({"costs": [[1], [1]], "edges": [(0, 1)], "edge_costs": []}, "an entry for each of 1 edges"),
        ({"costs": [[1]], "usages": [[-1]]}, "not be negative"),
        ({"costs": [[1]], "usages": [[1, 2]]}, "each of 1 choices"),
        ({"costs": [[1]], "usages": []}, "each of 1 nodes"),
        ({"costs": [[1]], "usages": [[2**60]]}, r"less than 2\*\*60"),
        ({"costs": [[1]], "intervals": [(2, 1)]}, "start <= end"),
        ({"costs": [[1]], "intervals": [(1, 2), (1, 2)]}, "each of 1 nodes"),
        ({"costs": [[1]], "usage_limit": -1}, "not be negative"),
    ],
)
def test_numbers_that_break_a_rule_are_refused(arguments, rule):
    with pytest.raises(ValueError, match=rule):
        PairwiseProblem.build(**arguments)


def test_evaluation_counts_memory_over_half_open_intervals():
    problem = PairwiseProblem.build(
        [[0]] * 3, usages=[[5], [7], [9]], intervals=[(0, 2), (2, 4), (3, 3)], usage_limit=6
    )
    result = evaluate(problem, [0, 0, 0])
    assert (result.peak_usage, result.peak_time, result.excess_usage) == (7, 2, 1)
    assert not result.is_feasible


def test_evaluation_names_what_is_forbidden():
    problem = PairwiseProblem.build([[np.inf, 3], [4]], [(0, 1)], [[5, np.inf]])
    first, second = evaluate(problem, [0, 0]), evaluate(problem, [1, 0])
    assert (first.cost, first.forbidden_nodes, first.forbidden_edges) == (9, (0,), ())
    assert (second.cost, second.forbidden_nodes, second.forbidden_edges) == (7, (), (0,))
    assert not first.is_feasible
    assert not second.is_feasible


@pytest.mark.parametrize("choices", [[0], [0, 1], [0, -1]])
def test_choices_out_of_range_are_refused(choices):
    with pytest.raises(ValueError, match="choices"):
        evaluate(PairwiseProblem.build([[0], [0]]), choices)
