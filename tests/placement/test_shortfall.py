import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from dse.placement.check import violations
from dse.placement.problem import LayerGraph, PlacementSolution
from dse.placement.solve import solve
from hardware.inputs import InputError
from tests.placement.brute_force import min_memory_bytes
from tests.placement.strategies import branching_graphs, chain_of, problems


@settings(max_examples=60, deadline=None)
@given(problems(max_layers=5))
def test_needed_bytes_are_the_least_that_fit(problem):
    shortfall = solve(replace(problem, hbm_bytes=0.5)).shortfall
    if shortfall is None:  # nothing takes any memory
        return
    enough = replace(problem, hbm_bytes=shortfall.needed_bytes)
    placement = solve(enough).placement
    assert violations(enough, placement) == []
    assert solve(replace(problem, hbm_bytes=float(np.nextafter(shortfall.needed_bytes, 0)))).placement is None
    assert shortfall.excess_bytes == shortfall.needed_bytes - 0.5


@settings(max_examples=25, deadline=None)
@given(problems(graphs=branching_graphs, max_layers=3, widths=((1,), (1, 2))))
def test_needed_bytes_of_branching_graphs_equal_brute_force(problem):
    shortfall = solve(replace(problem, hbm_bytes=0.5)).shortfall
    if shortfall is None:
        return
    if problem.pipeline_schedule == "1f1b":
        assert shortfall.needed_bytes == min_memory_bytes(problem, groups=True)
    else:  # enough, but not always least
        assert solve(replace(problem, hbm_bytes=shortfall.needed_bytes)).placement is not None


def test_the_neediest_stage_is_named():
    # one layer needs 2 · 10 + 5 = 25 bytes; on one accelerator all three need 75
    shortfall = solve(chain_of([(1.0, 1.0)] * 3, sizes=[(10.0, 5.0)] * 3, accelerators=1, hbm_bytes=30.0)).shortfall
    assert shortfall.stage_layers == ("layer0", "layer1", "layer2")
    assert (shortfall.needed_bytes, shortfall.excess_bytes, shortfall.tensor) == (75.0, 45.0, 1)


def test_widest_slice_is_closest_to_fit():
    problem = chain_of([(1.0, 1.0)] * 2, sizes=[(16.0, 0.0), (12.0, 0.0)], accelerators=4, hbm_bytes=15.0)
    graph = problem.tensor_parallel[1]
    halves = LayerGraph(
        tuple(replace(layer, weight_bytes=layer.weight_bytes / 2, sliced=True) for layer in graph.layers), graph.edges
    )
    shortfall = solve(replace(problem, tensor_parallel={1: graph, 2: halves})).shortfall
    assert (shortfall.tensor, shortfall.needed_bytes, shortfall.stage_layers) == (2, 16.0, ("layer0",))


def test_too_few_accelerators_for_any_width_is_bad_input():
    problem = chain_of([(1.0, 1.0)] * 2, accelerators=1)
    graph = problem.tensor_parallel[1]
    sliced = LayerGraph(tuple(replace(layer, sliced=True) for layer in graph.layers), graph.edges)
    with pytest.raises(InputError, match=r"chain: accelerators: 1: the smallest .* needs at least 2"):
        solve(replace(problem, tensor_parallel={2: sliced}))


def test_nothing_faster_than_a_cutoff_is_no_shortfall():
    problem = chain_of([(1.0, 1.0)] * 2)
    assert solve(problem, cutoff_s=1e-9) == PlacementSolution(None, None)
    assert math.isfinite(solve(problem).placement.batch_s)
