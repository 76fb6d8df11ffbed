import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dse.parallel.pipeline import exact
from dse.parallel.pipeline.exact import every, near, server_cuts, solve
from dse.parallel.pipeline.length import faults, length
from dse.parallel.pipeline.problem import PipelinePlan, PipelineProblem
from hardware.network_specs import network
from tests.parallel.pipeline.cases import plans, problems, profile_of, shortest_length_s, whole_steps

MAX_SPLITS = 12
"""Ways to cut the devices that are enumerated."""


@settings(max_examples=60, deadline=None)
@given(problems() | whole_steps())
def test_the_shortest_plan_is_that_of_enumeration(problem):
    splits = list(itertools.islice(every(problem.devices, problem.stages), MAX_SPLITS))
    expected_s = shortest_length_s(problem, splits)
    answer = solve(problem, splits)
    assert answer.length_s == pytest.approx(expected_s, rel=1e-8)
    assert answer.bound_s == pytest.approx(expected_s, rel=1e-8)
    if answer.plan is None:
        assert math.isinf(expected_s)
    else:
        assert faults(problem, answer.plan) == []
        assert length(problem, answer.plan).length_s == answer.length_s
        assert answer.plan.device_cuts in splits


@settings(max_examples=60, deadline=None)
@given(problems() | whole_steps(), st.integers(1, 4))
def test_cells_of_cuts_may_have_several_trained_tensors(problem, cells):
    splits = list(itertools.islice(every(problem.devices, problem.stages), MAX_SPLITS))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "MAX_CELLS", cells)
        answer = solve(problem, splits)
    expected_s = shortest_length_s(problem, splits)
    assert answer.length_s == pytest.approx(expected_s, rel=1e-8)
    assert answer.bound_s == pytest.approx(expected_s, rel=1e-8)


def test_few_nodes_prove_a_plan_whose_all_reduces_are_exposed():
    """What each stage exposes depends on all cuts in front of it, and every way to cut the devices trades it anew."""
    profile = profile_of(120, 1, 10**10)
    fast = replace(profile, forward_s=profile.forward_s / 10, backward_s=profile.backward_s / 10)
    problem = PipelineProblem(fast, network("v100-ethernet"), devices=12, stages=4, microbatches=4)
    splits = list(every(problem.devices, problem.stages))
    answer = solve(problem, splits)
    assert answer.bound_s == pytest.approx(answer.length_s, rel=1e-8)
    assert length(problem, answer.plan).exposed_s > 0.2 * answer.length_s
    assert answer.nodes < 3 * len(splits)


@settings(max_examples=30, deadline=None)
@given(problems() | whole_steps(), st.integers(0, 24))
def test_a_search_that_is_stopped_has_a_plan_without_faults_and_a_bound(problem, nodes):
    splits = list(itertools.islice(every(problem.devices, problem.stages), MAX_SPLITS))
    """Stopped while ways to cut the devices are listed, between nodes, or in the search of one."""
    asked = itertools.count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "_ASKED_EVERY", 1)
        patch.setattr(exact, "watched", lambda stop, work: work(np.array([stop() is not None])))
        answer = solve(problem, splits, lambda: "time limit" if next(asked) >= nodes else None)
    assert 0 < answer.bound_s <= answer.length_s
    assert answer.bound_s <= shortest_length_s(problem, splits) * (1 + 1e-8)
    assert answer.plan is None or faults(problem, answer.plan) == []


def test_a_stop_ends_a_bound_amid_its_kernel_and_leaves_the_node_open(monkeypatch):
    problem = PipelineProblem(profile_of(8, 1, 10**9), network("v100-ethernet"), devices=4, stages=2, microbatches=4)
    splits = list(every(problem.devices, problem.stages))
    flags = []

    def stopping(*arguments):
        flags.append(arguments[-1])
        while not flags[-1][0]:
            pass
        return [np.inf] * 5

    monkeypatch.setattr(exact, "together", stopping)
    answer = solve(problem, splits, stop=lambda: "interrupted" if flags else None)
    assert len(flags) == 1
    assert 0 < answer.bound_s <= shortest_length_s(problem, splits) * (1 + 1e-8)


@settings(max_examples=30, deadline=None)
@given(problems() | whole_steps(), st.floats(0.1, 1.0))
def test_a_search_that_need_not_prove_more_ends_with_that_bound_or_a_better_one(problem, share):
    splits = list(itertools.islice(every(problem.devices, problem.stages), MAX_SPLITS))
    whole = solve(problem, splits)
    assume(whole.plan is not None)
    answer = solve(problem, splits, start=whole.plan, enough_s=share * whole.bound_s)
    assert share * whole.bound_s <= answer.bound_s <= whole.bound_s * (1 + 1e-8)
    assert answer.nodes <= solve(problem, splits, start=whole.plan).nodes


@settings(max_examples=30, deadline=None)
@given(problems() | whole_steps(), st.data())
def test_cuts_stay_where_they_may_be(problem, data):
    splits = list(itertools.islice(every(problem.devices, problem.stages), 3))
    bounds = st.tuples(st.integers(1, problem.profile.points), st.integers(1, problem.profile.points))
    places = [range(min(each), max(each) + 1) for each in data.draw(st.tuples(*[bounds] * (problem.stages - 1)))]
    allowed = [
        plan
        for plan in plans(problem, splits)
        if all(cut in place for cut, place in zip(plan.cuts, places, strict=True))
    ]
    expected_s = min((length(problem, plan).length_s for plan in allowed), default=math.inf)
    answer = solve(problem, splits, places=places)
    assert answer.length_s == pytest.approx(expected_s, rel=1e-8)
    assert answer.bound_s == pytest.approx(expected_s, rel=1e-8)


@settings(max_examples=30, deadline=None)
@given(problems() | whole_steps())
def test_a_plan_to_start_from_changes_nothing_but_the_work(problem):
    splits = list(itertools.islice(every(problem.devices, problem.stages), MAX_SPLITS))
    answer = solve(problem, splits)
    assume(answer.plan is not None)
    again = solve(problem, splits, start=answer.plan)
    assert (again.plan, again.length_s) == (answer.plan, answer.length_s)
    assert again.bound_s == pytest.approx(answer.bound_s, rel=1e-8)


@settings(max_examples=30, deadline=None)
@given(problems() | whole_steps(), st.floats(1, 10))
def test_more_ways_more_memory_or_a_faster_network_never_lengthen_the_shortest_plan(problem, factor):
    splits = list(itertools.islice(every(problem.devices, problem.stages), MAX_SPLITS))
    length_s = solve(problem, splits).length_s
    inner = problem.network.inner
    faster = replace(
        problem.network,
        bytes_per_s=problem.network.bytes_per_s * factor,
        inner=replace(inner, bytes_per_s=inner.bytes_per_s * factor),
    )
    assert solve(problem, splits[:1]).length_s >= length_s * (1 - 1e-8)
    assert solve(replace(problem, memory_bytes=None), splits).length_s <= length_s * (1 + 1e-8)
    assert solve(replace(problem, network=faster), splits).length_s <= length_s * (1 + 1e-8)


def test_the_search_ends_where_no_gradients_are_exposed():
    """One device a stage reduces nothing, and here what the bound proposes does not fit: neither end can shrink."""
    problem = PipelineProblem(
        profile_of(7, 1403711300, 192156777.76269835),
        replace(network("v100-ethernet"), inner_accelerators=3),
        devices=2,
        stages=2,
        microbatches=3,
        memory_bytes=869729800,
        state_factor=4.0,
        recompute=True,
    )
    assert solve(problem, [(1,)]).length_s == pytest.approx(shortest_length_s(problem, [(1,)]), rel=1e-8)


def test_equal_points_are_cut_in_equal_stages():
    profile = replace(
        profile_of(12, 0, 0),
        forward_s=np.ones(12),
        backward_s=np.full(12, 2.0),
        cut_bytes=np.zeros(13, dtype=np.int64),
        weight_bytes=np.zeros(12, dtype=np.int64),
        variables=np.ones(12, dtype=np.int64),
    )
    problem = PipelineProblem(profile, network("dapple"), devices=8, stages=4, microbatches=5)
    answer = solve(problem, [server_cuts(problem)])
    assert answer.plan == PipelinePlan((3, 6, 9), (2, 4, 6))
    assert answer.length_s == pytest.approx((4 + 5 - 1) * 9 / (5 * 2))


def test_servers_are_the_center_of_what_is_near():
    problem = PipelineProblem(profile_of(12, 0, 0), network("dapple"), devices=24, stages=3, microbatches=5)
    assert server_cuts(problem) == (8, 16)
    ways = list(near((8, 16), 3, 24))
    assert len(ways) == 49
    assert (5, 19) in ways
    assert (4, 16) not in ways
    assert list(near((1, 2), 3, 4)) == [(1, 2), (1, 3), (2, 3)] == list(every(4, 3))
    with pytest.raises(ValueError, match="devices % stages == 0"):
        server_cuts(replace(problem, devices=25))
