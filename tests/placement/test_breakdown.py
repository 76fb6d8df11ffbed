"""Time by cause and memory by part: they add up to what the checker computes, and each cause answers to its lever."""

import math
from dataclasses import astuple, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.placement.breakdown import batch_time, fullest_memory, memory_breakdown, plan, time_breakdown
from dse.placement.check import batch_s, stage_memory_bytes
from dse.placement.problem import Placement, Stage
from tests.placement.strategies import chain_of


def placed(stages, **changes):
    problem = chain_of([(0.1, 0.2)] * stages, accelerators=4 * stages, **changes)
    held = tuple(Stage((layer,), 1) for layer in range(stages))
    return problem, Placement(1, 2, held, batch_s(problem, 1, 2, held))


@settings(max_examples=40)
@given(
    st.integers(1, 6),
    st.integers(2, 40),
    st.booleans(),
    st.sampled_from(["1f1b", "gpipe"]),
    st.sampled_from(["layer", "stage"]),
    st.floats(1.0, 1e12),
)
def test_the_parts_of_time_and_memory_add_up_to_the_whole(
    stages, microbatches, recompute, schedule, granularity, bytes_per_s
):
    problem, placement = placed(
        stages,
        microbatches=microbatches,
        recompute=recompute,
        pipeline_schedule=schedule,
        recompute_granularity=granularity,
        network_bytes_per_s=bytes_per_s,
    )
    time = batch_time(problem, placement)
    assert all(value >= 0 for value in astuple(time))
    assert math.fsum(astuple(time)[1:]) == pytest.approx(placement.batch_s, rel=1e-9)
    assert time_breakdown(problem, placement).total == pytest.approx(placement.batch_s, rel=1e-9)
    graph = problem.tensor_parallel[1]
    fullest = max(
        stage_memory_bytes(problem, graph, stage, stages - at, 2) for at, stage in enumerate(placement.stages)
    )
    assert fullest_memory(problem, placement)[1].total_bytes == fullest
    assert memory_breakdown(problem, placement).total == pytest.approx(fullest)


def test_each_cause_answers_to_its_lever():
    problem, placement = placed(3, microbatches=8, recompute=True)
    time = batch_time(problem, placement)
    assert time.recompute_s > 0
    assert time.bubble_s > 0
    assert batch_time(replace(problem, network_bytes_per_s=math.inf), placement).transfer_s == 0
    assert batch_time(replace(problem, recompute=False), placement).recompute_s == 0
    alone = replace(placement, data=1)
    assert batch_time(problem, alone).synchronisation_s == 0
    one, single = placed(1, microbatches=8)
    assert batch_time(one, single).bubble_s == 0


def test_the_diagram_counts_what_the_placement_uses():
    problem, placement = placed(3, microbatches=8)
    diagram = plan(problem, placement)
    assert diagram.accelerators == 2 * 3
    assert [box.names for box in diagram.stages] == ["layer0", "layer1", "layer2"]
