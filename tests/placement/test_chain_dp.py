import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.placement.check import violations
from dse.placement.problem import LayerGraph, Placement, Stage
from dse.placement.search.chain_dp import ChainOptimum, optimum, width_optimum
from dse.placement.search.chain_structure import chain_structures, is_totally_ordered
from dse.placement.solve import layer_latencies, solve
from tests.placement.brute_force import min_batch_s
from tests.placement.strategies import chain_of, problems


@settings(max_examples=250, deadline=None)
@given(problems())
def test_the_chain_program_finds_the_optimum_of_brute_force(problem):
    solution = solve(problem)
    if solution.placement is None:
        assert min_batch_s(problem) == math.inf
        assert solution.shortfall is not None
        return
    assert violations(problem, solution.placement) == []
    assert math.isclose(solution.placement.batch_s, min_batch_s(problem), rel_tol=1e-9, abs_tol=1e-12)


@settings(max_examples=60, deadline=None)
@given(problems(), st.floats(0.5, 1.5))
def test_cutoff_gives_the_same_optimum_or_nothing(problem, share):
    best = solve(problem).placement
    if best is None or best.batch_s == 0.0:
        return
    cutoff_s = share * best.batch_s
    solution = solve(problem, cutoff_s)
    assert solution.shortfall is None
    assert solution.placement == (best if best.batch_s < cutoff_s else None)


def test_widths_are_compared_and_the_smaller_one_wins_a_tie():
    problem = chain_of([(1.0, 1.0)] * 2)
    graph = problem.tensor_parallel[1]
    halved = LayerGraph(tuple(replace(layer, forward_s=0.2, backward_s=0.2) for layer in graph.layers), graph.edges)
    widths = [(*chain_structures(problem, 1), layer_latencies(each)) for each in (graph, graph, halved)]
    same, alone = optimum(widths[:2]), width_optimum(*widths[0])
    assert same == alone
    assert optimum(widths).batch_s < same.batch_s


def test_ties_go_to_fewer_stages_and_earlier_cuts():
    # with one pipeline, five layers in two stages have a largest load of 3 either way
    problem = chain_of(
        [(0.5, 0.5)] * 5, accelerators=2, microbatches=8, network_bytes_per_s=1e15, gradient_sync_factor=1e18
    )
    (structure,) = chain_structures(problem, 1)
    optimum = width_optimum(structure, layer_latencies(problem.tensor_parallel[1]))
    assert optimum == ChainOptimum(batch_s=pytest.approx(27.0), tensor=1, data=1, cuts=(2,))


def test_latency_arrays_may_change_between_calls():
    problem = chain_of([(1.0, 1.0)] * 6, hbm_bytes=12.0)
    (structure,) = chain_structures(problem, 1)
    latencies = layer_latencies(problem.tensor_parallel[1])
    base = width_optimum(structure, latencies)
    slower = replace(latencies, forward_s=latencies.forward_s * np.array([1, 1, 5, 1, 1, 1.0]))
    other = width_optimum(structure, slower)
    assert other.batch_s > base.batch_s
    assert width_optimum(structure, latencies) == base


def test_total_order_needs_every_neighbour_joined():
    graph = chain_of([(1.0, 1.0)] * 3).tensor_parallel[1]
    assert is_totally_ordered(graph)
    assert not is_totally_ordered(replace(graph, edges=((0, 1, 1.0), (0, 2, 1.0))))


def test_unsliced_stages_use_one_accelerator():
    # two accelerators at width 2: with the first layer alone on one, three are needed
    problem = chain_of([(1.0, 1.0)] * 2, sizes=[(4.0, 1.0), (4.0, 1.0)], hbm_bytes=12.0)
    graph = problem.tensor_parallel[1]
    mixed = LayerGraph((graph.layers[0], replace(graph.layers[1], sliced=True)), graph.edges)
    three = solve(replace(problem, accelerators=3, tensor_parallel={2: mixed})).placement
    assert [stage.accelerators for stage in three.stages] == [1, 2]
    assert solve(replace(problem, accelerators=2, tensor_parallel={2: mixed})).placement is None
    assert isinstance(three, Placement)
    assert three.stages == (Stage((0,), 1), Stage((1,), 2))
