"""Search in large problems: on small ones, whose optima are known, plans are legal and bounds hold."""

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.planted_cases import planted_case
from dse.algorithms.pairwise import contraction
from dse.algorithms.pairwise.anytime import MAX_PASSES, Rounds, anytime, bound_after, first_plan
from dse.algorithms.pairwise.contracted_arrays import ROWS_OF_BUCKET, contracted_arrays
from dse.algorithms.pairwise.contraction import contracted
from dse.algorithms.pairwise.evaluate import evaluate
from dse.algorithms.pairwise.kick_kernels import Position, descend, place_at
from dse.algorithms.pairwise.legal_start import least_loads, legal_start
from dse.algorithms.pairwise.load_kernels import tree_width
from dse.algorithms.pairwise.priced_bound import proven_bound
from dse.algorithms.pairwise.problem import FORBIDDEN, PairwiseProblem
from tests.algorithms.pairwise.random_problems import best_cost, random_problem

FEW = Rounds(decoding=3, kicking=3)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    forbidden=st.sampled_from([0.0, 0.2, 0.5]),
    memory=st.sampled_from([None, 0.3, 0.5, 0.8]),
    max_choices=st.sampled_from([1, 4096]),
)
def test_the_optimum_lies_between_bound_and_plan(seed, forbidden, memory, max_choices):
    problem = random_problem(seed, nodes=5, forbidden=forbidden, memory=memory)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contraction, "MAX_CHOICES", max_choices)
        small = contracted(problem)
    best = best_cost(problem)
    if small is None:
        assert best is None
        return
    answer = anytime(small, seed, rounds=FEW)
    if best is None:
        assert answer.choices is None
        return
    assert answer.bound <= best
    assert bound_after(small, answer.passes) == answer.bound
    if answer.choices is not None:
        of = evaluate(problem, small.expand(answer.choices).tolist())
        assert of.is_feasible
        assert of.cost >= best


@given(seed=st.integers(0, 10**6), memory=st.sampled_from([None, 0.3, 0.6]))
def test_any_shares_and_prices_prove_a_bound(seed, memory):
    problem = random_problem(seed, nodes=5, forbidden=0.2, memory=memory)
    small = contracted(problem)
    best = best_cost(problem)
    if small is None or best is None:
        return
    arrays = contracted_arrays(small)
    rng = np.random.default_rng(seed)
    shares = rng.normal(0, 3, int(arrays.message_starts[-1]))
    assert proven_bound(small, arrays, shares, rng.exponential(0.1, small.rows)) <= best


@pytest.mark.parametrize("share", [1e18, -5e18, 1e30, -np.inf, np.nan])
def test_shares_beyond_integers_prove_no_more_than_the_optimum(share):
    ends = range(1, 41)
    problem = PairwiseProblem.build(
        [[10**15, 2], *([0, 0] for _ in ends)], [(0, end) for end in ends], [[1, 2, 3, 4] for _ in ends]
    )
    small = contracted(problem)
    arrays = contracted_arrays(small)
    shares = np.full(int(arrays.message_starts[-1]), share)
    assert proven_bound(small, arrays, shares, np.zeros(small.rows)) <= 2 + 3 * len(ends)


@pytest.mark.parametrize("seed", range(5))
def test_messages_along_a_chain_prove_the_optimum(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 5, 7)
    costs = [rng.integers(0, 50, size) for size in sizes]
    edges = [(node, node + 1) for node in range(6)]
    pairs = [rng.integers(0, 50, (sizes[u], sizes[v])) for u, v in edges]
    problem = PairwiseProblem.build(costs, edges, pairs)
    assert bound_after(contracted(problem), 5) == best_cost(problem)


@given(seed=st.integers(0, 10**6))
def test_least_loads_are_the_least_in_each_row(seed):
    small = contracted(random_problem(seed, nodes=5, forbidden=0.3, memory=0.1))
    if small is None or not small.rows:
        return
    expected = np.zeros(small.rows, np.int64)
    for usages, costs in zip(small.usages, small.costs, strict=True):
        used = np.zeros((small.rows, len(costs)), np.int64)
        for each in usages:
            used[each.first : each.end] += each.by_choice
        expected += used.min(axis=1)
    assert least_loads(small).tolist() == expected.tolist()


def test_too_little_memory_is_proven():
    problem = PairwiseProblem.build(
        [[1, 2], [3, 4]], usages=[[5, 6], [7, 9]], intervals=[(0, 2), (1, 3)], usage_limit=11
    )
    assert anytime(contracted(problem), rounds=FEW).bound == FORBIDDEN
    first = first_plan(contracted(problem))
    assert (first.choices, first.needed) == (None, 12)


def test_too_little_memory_over_time_is_proven_by_prices():
    """Each of three pairs of nodes uses 10 at one of two times: no time needs any, but both together need 30."""
    tied = [[0, FORBIDDEN], [FORBIDDEN, 0]]
    for limit in (14, 15, 20):
        problem = PairwiseProblem.build(
            [[0, 0]] * 6,
            [(0, 3), (1, 4), (2, 5)],
            [tied] * 3,
            usages=[[10, 0]] * 3 + [[0, 10]] * 3,
            intervals=[(0, 1)] * 3 + [(1, 2)] * 3,
            usage_limit=limit,
        )
        small = contracted(problem)
        assert least_loads(small).tolist() == [0, 0]
        first = first_plan(small)
        if limit == 14:
            assert (first.choices, first.needed) == (None, 15)
        else:  # 15 is infeasible too, but not because of what all use on the whole
            assert first.needed <= limit
            assert (first.choices is None) == (limit == 15)
        if limit == 15:
            answer = anytime(small)
            assert (answer.choices, answer.passes) == (None, MAX_PASSES)


@given(seed=st.integers(0, 10**6), memory=st.sampled_from([0.1, 0.3, 0.5]))
def test_a_needed_limit_is_needed(seed, memory):
    problem = random_problem(seed, nodes=5, forbidden=0.3, memory=memory)
    small = contracted(problem)
    if small is not None and first_plan(small).needed > small.limit:
        assert best_cost(problem) is None


@pytest.mark.parametrize("seed", range(3))
def test_a_planted_plan_is_nearly_found_and_the_same_each_time(seed):
    problem, choices, cost = planted_case(seed, nodes=400)
    planted = evaluate(problem, choices)
    assert (planted.is_feasible, planted.cost) == (True, cost)
    small = contracted(problem)
    assert legal_start(small, contracted_arrays(small)).choices is not None
    rounds = Rounds(decoding=15, kicking=10)
    answer = anytime(small, seed, rounds=rounds)
    assert answer.bound <= cost
    assert small.cost(answer.choices) <= 1.02 * cost
    again = anytime(small, seed, rounds=rounds)
    assert (again.bound, again.choices.tolist()) == (answer.bound, answer.choices.tolist())


def test_an_answer_is_the_same_with_any_number_of_cores(monkeypatch):
    small = contracted(planted_case(1, nodes=400)[0])
    rounds = Rounds(decoding=5, kicking=10)
    answers = []
    for cores in (1, 2, 8):
        monkeypatch.setattr(os, "cpu_count", lambda cores=cores: cores)
        answers.append(anytime(small, 3, rounds=rounds))
    assert len({(each.bound, each.passes, *each.choices.tolist()) for each in answers}) == 1


def test_a_search_with_a_limit_goes_on_until_it_is_stopped():
    """Rounds say when to end only where there is no limit; the answer is not proven here, which would end it too."""
    small = contracted(planted_case(1, nodes=400)[0])
    asked = []

    def stop():
        asked.append(None)
        return "time limit" if len(asked) > 60 else None

    few = Rounds(decoding=2, kicking=2)
    assert anytime(small, rounds=few).passes <= 80
    assert anytime(small, stop=stop, spent=lambda: len(asked) / 60, rounds=few).passes > 200


@given(seed=st.integers(0, 10**6), forbidden=st.sampled_from([0.2, 0.6]))
def test_segments_say_what_a_node_uses_in_a_row(seed, forbidden):
    small = contracted(random_problem(seed, nodes=6, forbidden=forbidden, memory=0.3))
    if small is None:
        return
    arrays = contracted_arrays(small)
    for row in range(small.rows):
        within = {}
        bucket = slice(*arrays.bucket_starts[row // ROWS_OF_BUCKET :][:2])
        for segment in arrays.bucket_segments[bucket].tolist():
            if arrays.segment_first[segment] <= row < arrays.segment_end[segment]:
                node = int(arrays.segment_owners[segment])
                assert node not in within
                within[node] = arrays.segment_usages[slice(*arrays.segment_starts[segment:][:2])].tolist()
        for node, usages in enumerate(small.usages):
            used = sum((each.by_choice for each in usages if each.first <= row < each.end), np.zeros(1, np.int64))
            assert within.get(node) == (used.tolist() if np.ptp(used) else None)


@pytest.mark.parametrize("room", [1, 20, 220])
def test_repairs_end_where_there_is_no_room_for_more(room):
    """Uncompiled, as compiled code would write beyond the end of an array."""
    small = contracted(random_problem(15, nodes=5, forbidden=0.2, memory=0.5))
    arrays = contracted_arrays(small)
    nodes, choices, width = len(small.costs), int(arrays.starts[-1]), tree_width(small.rows)
    at = Position(
        choices=np.zeros(nodes, np.int64),
        local=np.zeros(choices),
        peaks=np.zeros(2 * width, np.int64),
        shifts=np.zeros(2 * width, np.int64),
        changed=np.zeros(room, np.int64),
        before=np.zeros(room, np.int64),
        queue=np.zeros(nodes, np.int64),
        is_queued=np.zeros(nodes, np.bool_),
        work=np.zeros(1, np.int64),
    )
    place_at.py_func(arrays, at, np.zeros(nodes, np.int64))
    _, is_plan = descend.py_func(arrays, at, small.limit, np.zeros(choices), ROWS_OF_BUCKET, 1000, 1000)
    assert not is_plan


def test_a_stop_leaves_the_first_plan():
    problem, _, _ = planted_case(0, nodes=200)
    answer = anytime(contracted(problem), stop=lambda: "interrupted")
    assert answer.choices is not None
    assert (answer.bound, answer.passes) == (0, 0)
