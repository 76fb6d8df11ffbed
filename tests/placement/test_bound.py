import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.placement.bound import BatchBound
from dse.placement.problem import LayerGraph, PlacementLayer, PlacementProblem
from dse.placement.solve import solve
from tests.placement.brute_force import placements
from tests.placement.strategies import SECONDS, SETTINGS, SIZES, chain_of, lower_bounds

ARCHITECTURES = 3


@st.composite
def architectures(draw, uniform):
    """(problem, width, layer_index, forward_s, backward_s, update_s) of a chain with few distinct layers."""
    if uniform:
        ends = draw(st.tuples(st.booleans(), st.booleans()))
        index = [0] * ends[0] + [1] * draw(st.integers(1, 10)) + [2] * ends[1]
        distinct = 3
    else:
        distinct = draw(st.integers(1, 4))
        index = draw(st.lists(st.integers(0, distinct - 1), min_size=1, max_size=10))
    width = draw(st.sampled_from([1, 1, 2]))
    inner = draw(SIZES)
    kinds = [
        PlacementLayer("", 0.0, 0.0, draw(SIZES), draw(SIZES), width > 1 and draw(st.booleans()))
        for _ in range(distinct)
    ]
    edges = tuple(
        (position, position + 1, inner if uniform and index[position] == index[position + 1] else draw(SIZES))
        for position in range(len(index) - 1)
    )
    layers = tuple(replace(kinds[kind], name=f"layer{position}") for position, kind in enumerate(index))
    problem = PlacementProblem(
        name="space",
        accelerators=draw(st.sampled_from([2, 3, 4, 8, 16, 40])),
        microbatches=draw(st.sampled_from([1, 2, 7, 16, 64])),
        hbm_bytes=float(draw(st.sampled_from([8, 14, 24, 40, 100]))),
        network_bytes_per_s=draw(st.sampled_from([0.5, 2.0, 20.0])),
        recompute=draw(st.booleans()),
        state_factor=2.0,
        gradient_sync_factor=draw(st.sampled_from([0.0, 2.0, 4.0])),
        tensor_parallel={width: LayerGraph(layers, edges)},
        **draw(SETTINGS),
    )
    table = st.lists(
        st.lists(SECONDS, min_size=ARCHITECTURES, max_size=ARCHITECTURES), min_size=distinct, max_size=distinct
    )
    forward, backward, update = (np.array(draw(table)) for _ in range(3))
    return problem, width, index, forward, backward, update


def each_architecture(problem, width, index, forward, backward, update):
    """The problem with the latencies of each architecture."""
    graph = problem.tensor_parallel[width]
    for column in range(forward.shape[1]):
        layers = tuple(
            replace(
                layer,
                forward_s=float(forward[kind, column]),
                backward_s=float(backward[kind, column]),
                update_s=float(update[kind, column]),
            )
            for layer, kind in zip(graph.layers, index, strict=True)
        )
        yield replace(problem, tensor_parallel={width: replace(graph, layers=layers)})


def optima(*space):
    """The exact optimum on each architecture."""
    for problem in each_architecture(*space):
        placement = solve(problem).placement
        yield placement.batch_s if placement else math.inf


@settings(max_examples=75, deadline=None)
@given(architectures(uniform=True))
def test_bound_of_equal_layers_is_the_optimum(space):
    bounds = lower_bounds(*space)
    for bound, optimum in zip(bounds, optima(*space), strict=True):
        assert bound <= optimum
        assert bound == optimum or bound >= optimum * (1 - 1e-9)


@settings(max_examples=75, deadline=None)
@given(architectures(uniform=False))
def test_bound_of_any_chain_holds(space):
    for bound, optimum in zip(lower_bounds(*space), optima(*space), strict=True):
        assert bound <= optimum


def where_all_stages_recompute(space):
    return replace(space[0], recompute=True, pipeline_schedule="gpipe"), *space[1:]


@settings(max_examples=75, deadline=None)
@given(architectures(uniform=True).map(where_all_stages_recompute))
def test_bound_of_equal_layers_is_the_optimum_where_the_last_stage_recomputes(space):
    for bound, optimum in zip(lower_bounds(*space), optima(*space), strict=True):
        assert bound <= optimum
        assert bound == optimum or bound >= optimum * (1 - 1e-9)


@settings(max_examples=75, deadline=None)
@given(architectures(uniform=False).map(where_all_stages_recompute))
def test_bound_of_any_chain_holds_where_the_last_stage_recomputes(space):
    for bound, optimum in zip(lower_bounds(*space), optima(*space), strict=True):
        assert bound <= optimum


@settings(max_examples=50, deadline=None)
@given(architectures(uniform=True) | architectures(uniform=False), st.integers(1, 20))
def test_bound_of_few_pipelines_holds_for_them_and_falls_with_their_number(space, pipelines):
    problem, width, index, *latencies = space
    limited = BatchBound(problem, width, index, pipelines)(*latencies)
    assert (limited >= BatchBound(problem, width, index, pipelines + 1)(*latencies)).all()
    assert (BatchBound(problem, width, index, problem.accelerators)(*latencies) == lower_bounds(*space)).all()
    if len(index) > 6:
        return  # too many placements to try
    for bound, one in zip(limited, each_architecture(*space), strict=True):
        assert bound <= min(
            (each.batch_s for each in placements(one, False) if each.data <= pipelines), default=math.inf
        )


@settings(max_examples=50, deadline=None)
@given(architectures(uniform=True) | architectures(uniform=False), st.floats(0.3, 2.0))
def test_limit_gives_the_lesser_of_bound_and_limit(space, share):
    problem, width, index, *latencies = space
    bound = BatchBound(problem, width, index)
    free = bound(*latencies)
    limit_s = np.where(np.isfinite(free), free, 1.0) * share
    limited = bound(*latencies, limit_s)
    assert np.allclose(limited, np.minimum(free, limit_s), rtol=1e-11, atol=0.0)
    assert np.all(limited <= limit_s)


def test_only_the_first_stage_may_fit_where_what_enters_is_stashed():
    # seven microbatches of 2 bytes enter any other stage; the first stashes nothing and holds all layers
    problem = chain_of(
        [(0.0, 0.0)] * 4,
        sizes=[(1.0, 1.0)] * 4,
        accelerators=4,
        microbatches=7,
        hbm_bytes=13.0,
        recompute=True,
        pipeline_schedule="gpipe",
        gradient_sync_factor=50000.0,
    )
    graph = problem.tensor_parallel[1]
    heavy = replace(graph, edges=tuple((low, high, 2.0) for low, high, _ in graph.edges))
    ones = np.ones((1, 1))
    space = (replace(problem, tensor_parallel={1: heavy}), 1, [0] * 4, ones, ones, 0 * ones)
    assert lower_bounds(*space)[0] == pytest.approx(next(optima(*space)), rel=1e-9)


def test_bound_of_jittered_layers_is_tight():
    generator = np.random.default_rng(0)
    ratios = []
    for _ in range(20):
        count = 24
        problem = chain_of(
            [(0.0, 0.0)] * count,
            sizes=[(10.0, 50.0)] * count,
            accelerators=64,
            microbatches=128,
            hbm_bytes=600.0,
        )
        forward = generator.uniform(0.9, 1.1, (count, 1))
        space = (problem, 1, range(count), forward, 2 * forward, 0 * forward)
        ratios.append(lower_bounds(*space)[0] / next(optima(*space)))
    assert max(ratios) <= 1.0
    assert np.median(ratios) > 0.9


def test_branching_graphs_and_wrong_indices_are_refused():
    problem = chain_of([(1.0, 1.0)] * 3)
    graph = problem.tensor_parallel[1]
    branching = replace(problem, tensor_parallel={1: replace(graph, edges=((0, 1, 1.0), (0, 2, 1.0)))})
    with pytest.raises(ValueError, match="totally ordered"):
        BatchBound(branching, 1, [0, 0, 0])
    with pytest.raises(ValueError, match="must have 3 entries, but has 2"):
        BatchBound(problem, 1, [0, 0])
