"""Laws that optimal placements obey, and constraints that matter."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.placement.problem import LayerGraph
from dse.placement.solve import solve
from tests.placement.strategies import branching_graphs, chain_of, problems

ANY_PROBLEM = problems() | problems(graphs=branching_graphs, max_layers=4, widths=((1,), (1, 2)))


def optimum_s(problem):
    placement = solve(problem).placement
    return placement.batch_s if placement else math.inf


def no_slower(faster, slower):
    return faster <= slower * (1 + 1e-12)


@settings(max_examples=40, deadline=None)
@given(ANY_PROBLEM, st.sampled_from([1.5, 4.0, 1e6]))
def test_more_bandwidth_is_never_slower(problem, factor):
    faster = replace(problem, network_bytes_per_s=problem.network_bytes_per_s * factor)
    assert no_slower(optimum_s(faster), optimum_s(problem))


@settings(max_examples=40, deadline=None)
@given(ANY_PROBLEM, st.sampled_from([1.5, 4.0, 1e6]))
def test_more_bandwidth_in_a_node_is_never_slower(problem, factor):
    faster = replace(problem, node_bytes_per_s=problem.node_bytes_per_s * factor)
    assert no_slower(optimum_s(faster), optimum_s(problem))


@settings(max_examples=40, deadline=None)
@given(ANY_PROBLEM)
def test_a_node_as_fast_as_the_network_is_never_faster_than_a_flat_one(problem):
    flat = replace(problem, node_accelerators=0, node_bytes_per_s=0.0)
    assert no_slower(optimum_s(flat), optimum_s(replace(problem, node_bytes_per_s=problem.network_bytes_per_s)))
    single = replace(problem, node_accelerators=1, node_bytes_per_s=1e3)
    assert solve(single).placement == solve(flat).placement


@settings(max_examples=40, deadline=None)
@given(ANY_PROBLEM)
def test_gpipe_with_nothing_to_stash_is_1f1b(problem):
    graphs = {
        width: replace(graph, layers=tuple(replace(layer, activation_bytes=0.0) for layer in graph.layers))
        for width, graph in problem.tensor_parallel.items()
    }
    empty = replace(problem, tensor_parallel=graphs, recompute=False)
    optima_s = [optimum_s(replace(empty, pipeline_schedule=schedule)) for schedule in ("1f1b", "gpipe")]
    assert optima_s[0] == pytest.approx(optima_s[1], rel=1e-12)


@settings(max_examples=40, deadline=None)
@given(ANY_PROBLEM, st.sampled_from([1.1, 2.0, 1e6]))
def test_more_memory_is_never_slower(problem, factor):
    assert no_slower(optimum_s(replace(problem, hbm_bytes=problem.hbm_bytes * factor)), optimum_s(problem))


@settings(max_examples=40, deadline=None)
@given(ANY_PROBLEM, st.integers(1, 8))
def test_more_accelerators_are_never_slower(problem, more):
    assert no_slower(optimum_s(replace(problem, accelerators=problem.accelerators + more)), optimum_s(problem))


@settings(max_examples=40, deadline=None)
@given(ANY_PROBLEM, st.sampled_from([0.5, 2.0, 8.0]))
def test_scaling_all_latencies_and_transfers_scales_the_batch_time(problem, factor):
    graphs = {
        width: replace(
            graph,
            layers=tuple(
                replace(
                    layer,
                    forward_s=layer.forward_s * factor,
                    backward_s=layer.backward_s * factor,
                    update_s=layer.update_s * factor,
                )
                for layer in graph.layers
            ),
        )
        for width, graph in problem.tensor_parallel.items()
    }
    scaled = replace(
        problem,
        tensor_parallel=graphs,
        network_bytes_per_s=problem.network_bytes_per_s / factor,
        node_bytes_per_s=problem.node_bytes_per_s / factor,
    )
    assert optimum_s(scaled) == pytest.approx(factor * optimum_s(problem), rel=1e-12)


@settings(max_examples=40, deadline=None)
@given(ANY_PROBLEM)
def test_renaming_layers_changes_nothing(problem):
    graphs = {
        width: replace(
            graph,
            layers=tuple(replace(layer, name=f"other{9 - place}") for place, layer in enumerate(graph.layers)),
        )
        for width, graph in problem.tensor_parallel.items()
    }
    assert solve(replace(problem, tensor_parallel=graphs)).placement == solve(problem).placement


CHAIN = chain_of(
    [(1.0, 2.0), (1.5, 2.5), (0.5, 1.0), (2.0, 4.0)],
    sizes=[(4.0, 3.0), (2.0, 6.0), (3.0, 2.0), (5.0, 4.0)],
    accelerators=6,
    microbatches=12,
    hbm_bytes=32.0,
    network_bytes_per_s=2.0,
)


@pytest.mark.parametrize(
    "freedom",
    [
        {"hbm_bytes": 1e9},
        {"accelerators": 64},
        {"microbatches": 6},
        {"network_bytes_per_s": 1e9},
        {"gradient_sync_factor": 0.0},
        {"state_factor": 1.0},
        {"node_accelerators": 2, "node_bytes_per_s": 1e9},
    ],
)
def test_without_any_one_constraint_some_optimum_changes(freedom):
    assert optimum_s(replace(CHAIN, **freedom)) < optimum_s(CHAIN) * (1 - 1e-6)


def test_gpipe_needs_more_memory():
    gpipe = replace(CHAIN, pipeline_schedule="gpipe")
    assert optimum_s(gpipe) > optimum_s(CHAIN) * (1 + 1e-6)
    assert optimum_s(replace(gpipe, hbm_bytes=1e9)) == optimum_s(replace(CHAIN, hbm_bytes=1e9))


def test_recomputation_costs_time_and_saves_memory():
    roomy = replace(CHAIN, hbm_bytes=1e9, accelerators=3, gradient_sync_factor=50.0)
    assert optimum_s(replace(roomy, recompute=True)) > optimum_s(roomy)
    tight = chain_of([(1.0, 1.0)] * 4, sizes=[(1.0, 9.0)] * 4, hbm_bytes=19.0)
    assert optimum_s(tight) == math.inf
    assert optimum_s(replace(tight, recompute=True)) < math.inf


def test_slicing_and_updates_matter():
    graph = CHAIN.tensor_parallel[1]
    sliced = LayerGraph(tuple(replace(layer, sliced=True) for layer in graph.layers), graph.edges)
    updating = LayerGraph(tuple(replace(layer, update_s=1.0) for layer in graph.layers), graph.edges)
    assert optimum_s(replace(CHAIN, tensor_parallel={2: sliced})) > optimum_s(
        replace(CHAIN, tensor_parallel={2: graph})
    )
    assert optimum_s(replace(CHAIN, tensor_parallel={1: updating})) > optimum_s(CHAIN)
