"""Contraction of forbidden pairs: the same plans, at the same costs and usages, and none but them."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.algorithms.pairwise import contraction
from dse.algorithms.pairwise.contraction import contracted, rows_of
from dse.algorithms.pairwise.evaluate import evaluate
from dse.algorithms.pairwise.iopddl import read_problem
from dse.algorithms.pairwise.problem import FORBIDDEN, PairwiseProblem
from tests.algorithms.pairwise.random_problems import random_problem
from tests.shared_data import case_of_others


def vectors(costs):
    return itertools.product(*(range(len(each)) for each in costs))


@given(
    seed=st.integers(0, 10**6),
    forbidden=st.sampled_from([0.0, 0.1, 0.4, 0.7]),
    memory=st.sampled_from([None, 0.2, 0.5, 0.9]),
)
def test_plans_are_in_one_to_one_correspondence(seed, forbidden, memory):
    problem = random_problem(seed, nodes=5, forbidden=forbidden, memory=memory)
    plans = {each: of.cost for each in vectors(problem.costs) if (of := evaluate(problem, each)).is_feasible}
    small = contracted(problem)
    if small is None:
        assert plans == {}
        return
    costs = {}
    for each in vectors(small.costs):
        choices = np.array(each)
        cost = small.cost(choices)
        if cost is not None:
            expanded = tuple(small.expand(choices).tolist())
            assert expanded not in costs
            costs[expanded] = cost
    assert costs == plans


@given(seed=st.integers(0, 10**6), forbidden=st.sampled_from([0.2, 0.5]))
def test_usage_over_time_is_kept(seed, forbidden):
    problem = random_problem(seed, nodes=6, forbidden=forbidden, memory=0.1)
    small = contracted(problem)
    if small is None or not small.rows:
        return
    for each in itertools.islice(vectors(small.costs), 50):
        choices = np.array(each)
        of = evaluate(problem, small.expand(choices).tolist())
        assert max(int(small.loads(choices).max()), small.limit) == max(of.peak_usage, small.limit)


def test_a_node_that_follows_from_another_goes_without_a_new_choice():
    allowed = [[0, FORBIDDEN], [FORBIDDEN, 3], [5, FORBIDDEN]]
    problem = PairwiseProblem.build([[1, 2, 3], [10, 20]], [(0, 1)], [allowed])
    small = contracted(problem)
    assert [each.tolist() for each in small.costs] == [[11, 25, 18]]
    assert small.expand(np.array([1])).tolist() == [1, 1]
    assert len(small.edges) == 0


def test_an_edge_that_would_make_too_many_choices_stays(monkeypatch):
    monkeypatch.setattr(contraction, "MAX_CHOICES", 3)
    allowed = [[0, 0, FORBIDDEN], [0, FORBIDDEN, 0], [FORBIDDEN, 0, 0]]
    small = contracted(PairwiseProblem.build([[0] * 3, [0] * 3], [(0, 1)], [allowed]))
    assert [len(each) for each in small.costs] == [3, 3]
    assert small.edge_costs[0].tolist() == allowed


def test_without_a_limit_there_are_no_rows():
    problem = random_problem(3, memory=None)
    first, end = rows_of(problem)
    assert (first == end).all()


@pytest.mark.parametrize("name", "GKMS")
def test_no_forbidden_pair_is_left_in_problems_of_real_models(name):
    problem = read_problem(case_of_others("iopddl", f"asplos-2025-iopddl-{name}.json.gz"))
    small = contracted(problem)
    assert all(each.max() < FORBIDDEN for each in small.edge_costs)
    assert len(small.costs) < 0.6 * problem.node_count
