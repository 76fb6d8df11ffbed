from dataclasses import replace

import pytest

from dse.placement.check import batch_s, gradient_sync_s, violations
from dse.placement.problem import LayerGraph, Placement, PlacementLayer, PlacementProblem, Stage
from dse.placement.solve import solve
from tests.placement.strategies import chain_of


@pytest.fixture
def problem():
    return chain_of([(1.0, 2.0)] * 4, accelerators=8, hbm_bytes=9.0)


@pytest.fixture
def placement(problem):
    placement = solve(problem).placement
    assert violations(problem, placement) == []
    assert len(placement.stages) >= 2
    return placement


def restaged(problem, placement, stages, **changes):
    """The placement with other stages and the batch_s that follows, so that only their own fault is left."""
    data = changes.get("data", placement.data)
    return replace(placement, stages=stages, batch_s=batch_s(problem, placement.tensor, data, stages), **changes)


def test_moved_layer_is_rejected(problem):
    moved = (Stage((0, 3), 1), Stage((1, 2), 1))
    placement = Placement(1, 1, moved, batch_s(problem, 1, 1, moved))
    assert any("must not go backwards" in line for line in violations(problem, placement))


def test_dropped_stage_is_rejected(problem, placement):
    assert any(
        "every layer must be placed, but these are not" in line
        for line in violations(problem, replace(placement, stages=placement.stages[1:]))
    )
    assert violations(problem, replace(placement, stages=()))[0] == "there must be at least one stage"


def test_doubled_layer_and_unknown_layer_are_rejected(problem):
    doubled = Placement(1, 1, (Stage((0, 1), 1), Stage((1, 2, 3), 1)), 1.0)
    assert any("must be in one stage, but is in 1 and 2" in line for line in violations(problem, doubled))
    unknown = Placement(1, 1, (Stage((0, 1, 2, 3, 4), 1),), 1.0)
    assert any("from 0 to 3" in line for line in violations(problem, unknown))


def test_empty_stage_and_wrong_layer_order_are_rejected(problem):
    empty = Placement(1, 1, (Stage((), 1), Stage((0, 1, 2, 3), 1)), 1.0)
    assert any("is empty" in line for line in violations(problem, empty))
    swapped = Placement(1, 1, (Stage((1, 0), 1), Stage((2, 3), 1)), 1.0)
    assert any("topological order" in line for line in violations(problem, swapped))


def test_overfilled_memory_names_stage_and_bytes(problem, placement):
    whole = restaged(problem, placement, (Stage((0, 1, 2, 3), 1),))
    (line,) = violations(problem, whole)
    assert line == "stage 1 (layer0 … layer3) must fit in 9 bytes of memory, but needs 12, 3 too many"


def test_memory_counts_the_stash_of_the_stages_behind():
    roomy = chain_of([(1.0, 1.0)] * 3, accelerators=8, hbm_bytes=4.0, state_factor=1.0)
    stages = tuple(Stage((layer,), 1) for layer in range(3))
    placement = Placement(1, 1, stages, batch_s(roomy, 1, 1, stages))
    assert violations(roomy, placement) == []  # the first stage needs 1 + 1 + 2 · 1
    assert len(violations(replace(roomy, hbm_bytes=3.5), placement)) == 1


def test_wrong_accelerators_are_rejected(problem, placement):
    first, *rest = placement.stages
    more = replace(placement, stages=(replace(first, accelerators=2), *rest))
    assert any("must use 1 accelerators, but uses 2" in line for line in violations(problem, more))


def test_too_many_pipelines_are_rejected(problem, placement):
    above = restaged(problem, placement, placement.stages, data=8)
    assert any("must not exceed the 8 available" in line for line in violations(problem, above))
    for data in (0, 9):
        line = violations(problem, replace(placement, data=data))[0]
        assert line == f"the number of pipelines must be from 1 to 8, but is {data}"


def test_wrong_batch_time_is_rejected(problem, placement):
    right = placement.batch_s
    assert violations(problem, replace(placement, batch_s=right * (1 + 1e-8)))
    assert violations(problem, replace(placement, batch_s=float("nan")))
    assert violations(problem, replace(placement, batch_s=right * (1 + 1e-12))) == []


def test_unknown_width_is_rejected(problem, placement):
    assert violations(problem, replace(placement, tensor=3)) == ["tensor-parallel width 3 must be one of 1"]


def two_branches():
    """Two layers side by side."""
    layers = (PlacementLayer("left", 1.0, 2.0, 1.0, 0.0, True), PlacementLayer("right", 2.0, 1.0, 1.0, 0.0, True))
    return PlacementProblem("branches", 8, 4, 4.0, 1.0, False, 2.0, 0.0, {2: LayerGraph(layers, ())})


def test_groups_run_side_by_side_and_hold_their_own_layers():
    problem = two_branches()
    together = (Stage((0, 1), 4, ((0,), (1,))),)
    assert batch_s(problem, 2, 1, together) == (2.0 + 2.0) * 4
    assert violations(problem, Placement(2, 1, together, 16.0)) == []
    assert violations(replace(problem, hbm_bytes=1.5), Placement(2, 1, together, 16.0))
    alone = (Stage((0, 1), 2),)
    assert batch_s(problem, 2, 1, alone) == (3.0 + 3.0) * 4


def test_groups_must_hold_the_layers_of_the_stage():
    problem = two_branches()
    for groups in (((0,),), ((0, 1), (1,)), ((0, 1), ())):
        faults = violations(problem, Placement(2, 1, (Stage((0, 1), 4, groups),), 16.0))
        assert any("the groups of stage 1" in line for line in faults)
    assert any(
        "must use 4" in line for line in violations(problem, Placement(2, 1, (Stage((0, 1), 2, ((0,), (1,))),), 16.0))
    )


def test_a_chain_has_no_use_for_groups(problem):
    stages = (Stage((0, 1), 2, ((0,), (1,))), Stage((2, 3), 1))
    faults = violations(problem, Placement(1, 1, stages, 1.0))
    assert faults == ["a stage must use at most 1 groups, the width of the layer graph, but uses 2"]


def test_recomputation_follows_the_definition():
    # transfers of 3 s: forward 3 + 1; recomputed 1, then backward starts at max(1, 3) and takes 1
    problem = chain_of([(1.0, 1.0)] * 3, network_bytes_per_s=1 / 3, recompute=True)
    stages = tuple(Stage((layer,), 1) for layer in range(3))
    middle_s, last_s = 3 + 1 + max(1, 3) + 1, 3 + 1 + 1
    assert batch_s(problem, 1, 1, stages) == max(middle_s, last_s) * (8 + 2)
    assert batch_s(replace(problem, recompute=False), 1, 1, stages) == (3 + 1 + 3 + 1) * 10


def test_first_stage_synchronises_and_updates():
    problem = chain_of([(1.0, 1.0)], accelerators=2, network_bytes_per_s=4.0, gradient_sync_factor=2.0)
    graph = problem.tensor_parallel[1]
    updating = LayerGraph((replace(graph.layers[0], update_s=0.25),), ())
    time_s = batch_s(replace(problem, tensor_parallel={1: updating}), 1, 2, (Stage((0,), 1),))
    assert time_s == 2.0 * 4 + 2.0 * (1 / 2) * 1.0 / 4.0 + 0.25


def test_gpipe_stashes_every_microbatch_of_a_pipeline():
    # 1 + 1 and 1 more for each microbatch in flight: two stages stash 1 and 0 under 1F1B, 8 / d each under GPipe
    problem = chain_of([(1.0, 1.0)] * 2, accelerators=8, hbm_bytes=6.0, state_factor=1.0, pipeline_schedule="gpipe")
    stages = (Stage((0,), 1), Stage((1,), 1))
    for data, fits in ((1, False), (2, True), (4, True)):
        placement = Placement(1, data, stages, batch_s(problem, 1, data, stages))
        assert (violations(problem, placement) == []) == fits
        assert violations(replace(problem, pipeline_schedule="1f1b"), placement) == []
    assert (
        len(violations(replace(problem, hbm_bytes=5.5), Placement(1, 2, stages, batch_s(problem, 1, 2, stages)))) == 2
    )


def test_gradients_are_added_inside_nodes_first():
    problem = chain_of(
        [(1.0, 1.0)],
        sizes=[(8.0, 1.0)],
        accelerators=64,
        microbatches=64,
        network_bytes_per_s=1.0,
        node_accelerators=8,
        node_bytes_per_s=4.0,
    )
    # width 2: four replicas a node, 12 replicas on three nodes, 13 on four
    assert gradient_sync_s(problem, 2, 4, 8.0) == 2 * (3 / 4) * 8 / 4
    assert gradient_sync_s(problem, 2, 12, 8.0) == pytest.approx(2 * ((3 / 4) * 8 / 4 + (2 / 3) * 2 / 1))
    assert gradient_sync_s(problem, 2, 13, 8.0) == 2 * ((3 / 4) * 8 / 4 + (3 / 4) * 2 / 1)
    assert gradient_sync_s(problem, 8, 12, 8.0) == gradient_sync_s(problem, 16, 12, 8.0) == 2 * 11 * 8 / 12
    flat = replace(problem, node_accelerators=0, node_bytes_per_s=0.0)
    assert gradient_sync_s(flat, 2, 12, 8.0) == 2 * 11 * 8 / 12
