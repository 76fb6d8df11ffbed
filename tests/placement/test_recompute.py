"""Who recomputes, from what, and what that keeps in memory: the same rules in all programs."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.placement.check import batch_s, group_memory_bytes, violations
from dse.placement.problem import LayerGraph, Placement, PlacementLayer, PlacementProblem, Stage
from dse.placement.search.downset_dp import downset_placement
from dse.placement.solve import solve
from dse.placement.timeline import timeline
from tests.placement.brute_force import placements
from tests.placement.recompute_oracle import oracle_batch_s, oracle_memory_bytes
from tests.placement.strategies import branching_graphs, chain_of, lower_bounds, problems
from tests.placement.timeline_oracle import timeline_violations

BRANCHING = problems(graphs=branching_graphs, max_layers=4, widths=((1,), (2,), (1, 2)))
SCHEDULES = st.sampled_from(["gpipe", "1f1b"])
SYNCHRONISATION = st.sampled_from([0.0, 1e303])
"""Factors at which, on a network of 1e300 bytes/s, more pipelines cost nothing, or so much that stages are the way."""


def recomputing(problem, schedule="gpipe"):
    return replace(problem, recompute=True, pipeline_schedule=schedule)


def one_stage_each(problem, data=1):
    stages = tuple(Stage((layer,), 1) for layer in range(len(problem.tensor_parallel[1].layers)))
    return Placement(1, data, stages, batch_s(problem, 1, data, stages))


def oracle_optimum_s(problem, groups):
    """The least time by the oracle over all placements, and a check that the checker agrees on each."""
    best_s = math.inf
    for placement in placements(problem, groups):
        oracle_s = oracle_batch_s(problem, placement)
        assert placement.batch_s == pytest.approx(oracle_s, rel=1e-12, abs=1e-12)
        graph, count = problem.tensor_parallel[placement.tensor], len(placement.stages)
        for place, stage in enumerate(placement.stages):
            for group in stage.groups or (stage.layers,):
                needed = group_memory_bytes(problem, graph, stage, group, count - place, placement.data)
                assert needed == oracle_memory_bytes(problem, placement, place, group)
                assert needed <= problem.hbm_bytes
        best_s = min(best_s, oracle_s)
    return best_s


def optimum_s(problem):
    placement = solve(problem).placement
    return placement.batch_s if placement else math.inf


@settings(max_examples=150, deadline=None)
@given(problems(), SCHEDULES)
def test_chains_equal_the_oracle(drawn, schedule):
    problem = recomputing(drawn, schedule)
    assert optimum_s(problem) == pytest.approx(oracle_optimum_s(problem, groups=False), rel=1e-9, abs=1e-12)


@settings(max_examples=120, deadline=None)
@given(BRANCHING, SCHEDULES)
def test_branching_graphs_equal_the_oracle(drawn, schedule):
    problem = recomputing(drawn, schedule)
    assert optimum_s(problem) == pytest.approx(oracle_optimum_s(problem, groups=True), rel=1e-9, abs=1e-12)


def chain_values():
    seconds = st.integers(1, 12).map(lambda eighths: eighths / 8)
    values = st.lists(st.tuples(seconds, seconds), min_size=1, max_size=9)
    equal = st.builds(lambda pair, count: [pair] * count, st.tuples(seconds, seconds), st.integers(1, 9))
    return values | equal


@settings(max_examples=120, deadline=None)
@given(chain_values(), st.integers(1, 12), st.integers(1, 20), SYNCHRONISATION)
def test_under_gpipe_recomputing_is_a_longer_backward_pass(values, accelerators, microbatches, factor):
    # without transfers and with memory for everything, nothing else tells the two problems apart, in no stage
    plain, repeated = (
        chain_of(
            [(forward, backward + more * forward) for forward, backward in values],
            accelerators=accelerators,
            microbatches=microbatches,
            network_bytes_per_s=1e300,
            gradient_sync_factor=factor,
            recompute=not more,
            pipeline_schedule="gpipe",
        )
        for more in (1, 0)
    )
    assert optimum_s(repeated) == pytest.approx(optimum_s(plain), rel=1e-12)
    times_s = [downset_placement(problem, 1).placement.batch_s for problem in (repeated, plain)]
    assert times_s[0] == pytest.approx(times_s[1], rel=1e-12)
    kinds = sorted(set(values))
    index = [kinds.index(pair) for pair in values]
    bounds = []
    for problem, more in ((repeated, 0), (plain, 1)):
        forward = np.array([[pair[0]] for pair in kinds])
        backward = np.array([[pair[1] + more * pair[0]] for pair in kinds])
        bounds.append(lower_bounds(problem, 1, index, forward, backward, 0 * forward)[0])
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(2, 9), st.integers(2, 12), st.integers(1, 20), SYNCHRONISATION)
def test_bounds_of_several_architectures_do_not_tell_a_longer_backward_pass_apart(
    data, layers, accelerators, microbatches, factor
):
    # the backward pass as long as the forward pass: repeated work is 3/2 of the plain one on every architecture, and
    # no part of the bound is left that may be weaker for it
    seconds = st.lists(st.integers(1, 12).map(lambda eighths: eighths / 8), min_size=3, max_size=3)
    forward = np.array(data.draw(st.lists(seconds, min_size=layers, max_size=layers)))
    bounds = []
    for recompute, backward in ((True, forward), (False, 2 * forward)):
        problem = chain_of(
            [(0.0, 0.0)] * layers,
            accelerators=accelerators,
            microbatches=microbatches,
            network_bytes_per_s=1e300,
            gradient_sync_factor=factor,
            recompute=recompute,
            pipeline_schedule="gpipe",
        )
        bounds.append(lower_bounds(problem, 1, range(layers), forward, backward, 0 * forward))
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-12)


def test_the_last_stage_of_gpipe_recomputes():
    # 1 + (1 + 2) in each of three stages; by far the longest is the last: 5 + (5 + 6)
    problem = recomputing(chain_of([(1.0, 2.0), (1.0, 2.0), (5.0, 6.0)], network_bytes_per_s=1e300))
    placement = one_stage_each(problem)
    assert placement.batch_s == (5 + 5 + 6) * (8 + 2)
    assert one_stage_each(replace(problem, pipeline_schedule="1f1b")).batch_s == (5 + 6) * (8 + 2)
    stale = replace(placement, batch_s=(5.0 + 6.0) * (8 + 2))
    assert any("batch_s must be" in line for line in violations(problem, stale))


def test_a_late_gradient_hides_behind_the_repeated_pass_in_all_stages_but_the_last():
    # transfers of 3 s: 3 + 1, then max(1, 3) + 1; the last stage waits for no gradient: 3 + 1, then 1 + 1
    problem = recomputing(chain_of([(1.0, 1.0)] * 3, network_bytes_per_s=1 / 3))
    assert one_stage_each(problem).batch_s == (3 + 1 + max(1, 3) + 1) * (8 + 2)
    two = (Stage((0,), 1), Stage((1, 2), 1))
    assert batch_s(problem, 1, 1, two) == (3 + 2 + 2 + 2) * (8 + 1)


@pytest.mark.parametrize("microbatches", [1, 8])
def test_a_pipeline_of_one_stage_recomputes_under_gpipe(microbatches):
    # all forward passes come first here, too: memory holds the activations of one microbatch, which costs a repetition
    problem = recomputing(chain_of([(1.0, 2.0)] * 2, accelerators=1, microbatches=microbatches, hbm_bytes=6.0))
    whole = Stage((0, 1), 1)
    placement = solve(problem).placement
    assert placement.stages == (whole,)
    assert placement.batch_s == (2 + 2 + 4) * microbatches
    graph = problem.tensor_parallel[1]
    assert group_memory_bytes(problem, graph, whole, (0, 1), 1) == 2.0 * 2 + 2.0
    stashing = replace(problem, recompute=False)
    assert group_memory_bytes(stashing, graph, whole, (0, 1), 1) == 2.0 * 2 + 2.0 * (1 + microbatches)
    assert solve(stashing).placement is None
    assert solve(replace(problem, pipeline_schedule="1f1b")).placement.batch_s == (2 + 4) * microbatches


def test_groups_of_the_last_stage_recompute():
    # two layers side by side on a group each: 2 forward, 2 repeated, then max(2 + 2, 2 + 1) − 2 backward
    layers = (PlacementLayer("left", 1.0, 2.0, 1.0, 0.0, True), PlacementLayer("right", 2.0, 1.0, 1.0, 0.0, True))
    problem = PlacementProblem(
        "branches", 4, 4, 1e9, 1.0, True, 2.0, 1e9, {2: LayerGraph(layers, ())}, pipeline_schedule="gpipe"
    )
    placement = solve(problem).placement
    assert placement.stages == (Stage((0, 1), 4, ((0,), (1,))),)
    assert placement.batch_s == (2 + 2 + 2) * 4
    assert solve(replace(problem, pipeline_schedule="1f1b")).placement.batch_s == (2 + 2) * 4


def test_the_last_stage_of_1f1b_is_not_taken_to_be_as_short_as_it_can_get():
    # 4 on one group and 2 on two; with a repeated pass even two would need 4
    layers = tuple(PlacementLayer(name, 2.0, 0.0, 1.0, 0.0, True) for name in ("left", "right"))
    problem = PlacementProblem("branches", 4, 4, 1e9, 1.0, True, 2.0, 1e9, {2: LayerGraph(layers, ())})
    assert solve(problem).placement.batch_s == 2 * 4
    assert solve(replace(problem, pipeline_schedule="gpipe")).placement.batch_s == (2 + 2) * 4


def test_gpipe_draws_the_repeated_passes_of_the_last_stage():
    # two microbatches over two stages: F0 F1 – R1 B1 R0 B0 behind, and in front after each of these
    problem = recomputing(chain_of([(1.0, 2.0)] * 2, microbatches=2, network_bytes_per_s=1e300, accelerators=2))
    placement = one_stage_each(problem)
    times = timeline(problem, placement)
    assert times.forward_start_s.tolist() == [[0, 1], [1, 2]]
    assert times.recompute_start_s.tolist() == [[9, 6], [6, 3]]
    assert times.backward_start_s.tolist() == [[10, 7], [7, 4]]
    assert times.pipeline_s == 12.0 == 4.0 * (2 + 2 - 1)
    assert timeline_violations(problem, placement, times) == []


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
def test_a_timeline_of_the_other_rule_is_refused(schedule):
    problem = recomputing(chain_of([(1.0, 2.0)] * 3, accelerators=3), schedule)
    other = replace(problem, pipeline_schedule={"1f1b": "gpipe", "gpipe": "1f1b"}[schedule])
    placement = one_stage_each(problem)
    lines = timeline_violations(problem, placement, timeline(other, placement))
    seconds = {"1f1b": 0.0, "gpipe": 1.0}[schedule]
    assert f"every recompute pass of stage 3 must take {seconds} s" in lines


def test_layer_by_layer_a_stage_holds_the_inputs_of_its_layers_and_the_activations_of_one():
    # two stages of two layers of 2 · 1 + 10 bytes that pass on 1 byte; two microbatches are in flight in the first
    problem = recomputing(chain_of([(1.0, 2.0)] * 4, sizes=[(1.0, 10.0)] * 4, accelerators=2), "1f1b")
    by_layer = replace(problem, recompute_granularity="layer")
    graph, first, last = problem.tensor_parallel[1], Stage((0, 1), 1), Stage((2, 3), 1)
    assert group_memory_bytes(problem, graph, first, (0, 1), 2) == 2 * 2 + 20 + 0
    assert group_memory_bytes(by_layer, graph, first, (0, 1), 2) == 2 * 2 + 10 + 2 * 1
    assert group_memory_bytes(problem, graph, last, (2, 3), 1) == 2 * 2 + 20
    assert group_memory_bytes(by_layer, graph, last, (2, 3), 1) == 2 * 2 + 10 + 1 * 2


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
def test_layer_by_layer_a_pipeline_of_one_stage_fits_and_recomputes(schedule):
    # the published 22B run in small: one stage, whose activations would fill the memory five times
    problem = recomputing(chain_of([(1.0, 2.0)] * 8, sizes=[(1.0, 10.0)] * 8, accelerators=1, hbm_bytes=90.0), schedule)
    assert solve(problem).placement is None
    by_layer = replace(problem, recompute_granularity="layer")
    placement = solve(by_layer).placement
    assert violations(by_layer, placement) == []
    assert placement.batch_s == (8 + 8 + 16) * 8


def test_layer_by_layer_the_last_stage_of_1f1b_recomputes():
    problem = recomputing(chain_of([(1.0, 2.0)] * 3, network_bytes_per_s=1e300), "1f1b")
    by_layer = replace(problem, recompute_granularity="layer")
    assert one_stage_each(replace(problem, tensor_parallel=problem.tensor_parallel)).batch_s == (1 + 1 + 2) * (8 + 2)
    two = (Stage((0,), 1), Stage((1, 2), 1))
    assert batch_s(problem, 1, 1, two) == (2 + 4) * (8 + 1)
    assert batch_s(by_layer, 1, 1, two) == (2 + 2 + 4) * (8 + 1)


def test_without_recomputation_the_granularity_means_nothing():
    problem = chain_of([(1.0, 2.0)] * 3, sizes=[(1.0, 3.0)] * 3, hbm_bytes=16.0)
    by_layer = replace(problem, recompute_granularity="layer")
    assert solve(problem) == solve(by_layer)


def test_layer_by_layer_the_groups_of_a_stage_hold_their_largest_activations():
    # two layers side by side: 2 · 1 + 5 on one group and 2 · 1 + 1 on the other, or 2 · 2 + 5 together
    layers = (PlacementLayer("left", 2.0, 0.0, 1.0, 5.0, True), PlacementLayer("right", 2.0, 0.0, 1.0, 1.0, True))
    problem = PlacementProblem(
        "branches", 4, 4, 7.0, 1.0, True, 2.0, 1e9, {2: LayerGraph(layers, ())}, recompute_granularity="layer"
    )
    placement = solve(problem).placement
    assert placement.stages == (Stage((0, 1), 4, ((0,), (1,))),)
    assert solve(replace(problem, accelerators=2)).placement is None
    assert solve(replace(problem, accelerators=2, hbm_bytes=9.0)).placement.stages == (Stage((0, 1), 2),)
