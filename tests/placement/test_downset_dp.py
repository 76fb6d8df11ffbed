import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from dse.placement.check import violations
from dse.placement.problem import LayerGraph, PlacementLayer, PlacementProblem
from dse.placement.search.downset_dp import downset_placement, downsets
from dse.placement.solve import ChainSolver, solve
from hardware.inputs import InputError
from tests.placement.brute_force import min_batch_s
from tests.placement.strategies import branching_graphs, problems


def towers(count, length, hbm_bytes=100.0, **changes):
    """``count`` chains of ``length`` layers that meet in a last layer."""
    layers, edges = [], []
    for tower in range(count):
        for depth in range(length):
            layers.append(PlacementLayer(f"tower{tower}_{depth}", 1.0, 2.0, 1.0, 1.0, False))
            if depth:
                edges.append((len(layers) - 2, len(layers) - 1, 1.0))
    layers.append(PlacementLayer("join", 0.5, 1.0, 1.0, 1.0, False))
    edges += [(tower * length + length - 1, count * length, 1.0) for tower in range(count)]
    graph = LayerGraph(tuple(layers), tuple(edges))
    settings_ = {"accelerators": 8, "microbatches": 8, "recompute": False}
    return PlacementProblem(
        name="towers",
        hbm_bytes=hbm_bytes,
        network_bytes_per_s=1e3,
        state_factor=2.0,
        gradient_sync_factor=2.0,
        tensor_parallel={1: graph},
        **(settings_ | changes),
    )


@settings(max_examples=150, deadline=None)
@given(problems(graphs=branching_graphs, max_layers=4, widths=((1,), (2,), (1, 2))))
def test_the_downset_program_finds_the_optimum_of_brute_force(problem):
    solution = solve(problem)
    assert solution.bound_s is None
    if solution.placement is None:
        assert min_batch_s(problem, groups=True) == math.inf
        return
    assert violations(problem, solution.placement) == []
    assert math.isclose(solution.placement.batch_s, min_batch_s(problem, groups=True), rel_tol=1e-9, abs_tol=1e-12)


@settings(max_examples=100, deadline=None)
@given(problems())
def test_on_a_chain_equals_the_chain_program(problem):
    chain = solve(problem).placement
    answers = [downset_placement(problem, tensor) for tensor in problem.tensor_parallel]
    best_s = min((answer.placement.batch_s for answer in answers if answer.placement), default=math.inf)
    assert math.isclose(best_s, chain.batch_s if chain else math.inf, rel_tol=1e-9, abs_tol=1e-12)
    assert all(answer.bound_s == pytest.approx(answer.placement.batch_s) for answer in answers if answer.placement)


def test_branches_run_side_by_side_where_pipelines_cannot_help():
    # one microbatch: nothing but two groups shortens the towers
    problem = towers(2, 4, microbatches=1)
    placement = solve(problem).placement
    assert violations(problem, placement) == []
    assert [len(stage.groups) for stage in placement.stages] == [2]
    assert placement.batch_s == pytest.approx((4 + 0.5) + (8 + 1))


def test_groups_split_the_memory_of_a_stage():
    problem = towers(2, 4, hbm_bytes=15.0, microbatches=1)
    placement = solve(problem).placement
    assert [len(stage.groups) for stage in placement.stages] == [2]
    assert solve(replace(problem, accelerators=1)).placement is None


def test_wide_branching_is_refused_with_the_limit():
    layers = tuple(PlacementLayer(f"table{position}", 1.0, 1.0, 1.0, 1.0, False) for position in range(13))
    problem = replace(towers(1, 1), tensor_parallel={1: LayerGraph(layers, ())})
    assert downsets(problem.tensor_parallel[1]) is None
    with pytest.raises(InputError) as caught:
        solve(problem)
    assert "tensor_parallel.1.edges: 13 layers: the layer graph must have at most 4096 downsets" in str(caught.value)


def test_downsets_of_two_chains_form_a_grid():
    sets = downsets(towers(2, 5).tensor_parallel[1])
    assert len(sets.member) == 6 * 6 + 1
    assert sets.width == 2
    assert not sets.member[0].any()
    assert sets.member[-1].all()


def test_where_the_search_meets_its_limit_a_bound_is_given(monkeypatch):
    problem = towers(3, 2, hbm_bytes=12.0, microbatches=1, accelerators=2)
    exact = solve(problem)
    assert exact.bound_s is None
    monkeypatch.setattr("dse.placement.search.downset_dp.SEARCH_LIMIT", 0)
    solution = solve(problem)
    assert violations(problem, solution.placement) == []
    assert solution.bound_s < exact.placement.batch_s < solution.placement.batch_s


@pytest.fixture
def told(monkeypatch):
    """Compiled work is told to end before it begins."""
    flag = np.ones(1, np.bool_)
    monkeypatch.setattr("dse.placement.search.downset_dp.watched", lambda _stop, work: work(flag))


def test_a_stop_leaves_a_placement_and_a_bound(request):
    """Stages that are contiguous come first, and take no time."""
    problem = towers(2, 4, microbatches=1)
    best = solve(problem).placement
    request.getfixturevalue("told")
    stopped = solve(problem, stop=lambda: "interrupted")
    assert violations(problem, stopped.placement) == []
    assert 0 < stopped.bound_s <= best.batch_s < stopped.placement.batch_s


def test_a_stop_before_any_placement_leaves_a_bound(request, monkeypatch):
    problem = towers(2, 4, microbatches=1)
    best = solve(problem).placement
    request.getfixturevalue("told")
    monkeypatch.setattr(ChainSolver, "__call__", lambda *_: None)
    stopped = solve(problem, stop=lambda: "interrupted")
    assert (stopped.placement, stopped.shortfall) == (None, None)
    assert 0 < stopped.bound_s <= best.batch_s
