import math
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dse.placement.check import batch_s, gradient_sync_s, stage_load_s, stage_passes
from dse.placement.problem import Placement, Stage
from dse.placement.solve import solve
from dse.placement.timeline import timeline
from tests.placement.strategies import branching_graphs, chain_of, problems
from tests.placement.timeline_oracle import timeline_violations

ANY_PROBLEM = problems() | problems(graphs=branching_graphs, max_layers=4, widths=((1,), (1, 2)))


def placed(problem):
    """A placement of a random problem, in as many stages as possible where there is room."""
    placement = solve(problem).placement
    assume(placement is not None)
    return placement


def one_stage_each(problem, data=1):
    count = len(problem.tensor_parallel[1].layers)
    stages = tuple(Stage((layer,), 1) for layer in range(count))
    return Placement(1, data, stages, batch_s(problem, 1, data, stages))


@st.composite
def pipelines(draw):
    """A chain with a stage for each layer: anything from balanced to wildly unequal."""
    seconds = st.integers(0, 40).map(lambda eighths: eighths / 8)
    values = draw(st.lists(st.tuples(seconds, seconds), min_size=1, max_size=7))
    problem = chain_of(
        values,
        sizes=[(float(draw(st.integers(0, 50))), float(draw(st.integers(0, 4)))) for _ in values],
        accelerators=len(values) * draw(st.integers(1, 4)),
        microbatches=draw(st.integers(1, 20)),
        network_bytes_per_s=draw(st.sampled_from([0.5, 4.0, 64.0])),
        recompute=draw(st.booleans()),
        pipeline_schedule=draw(st.sampled_from(["1f1b", "gpipe"])),
    )
    return problem, one_stage_each(problem, draw(st.integers(1, problem.accelerators // len(values))))


def loads(problem, placement):
    graph, count = problem.tensor_parallel[placement.tensor], len(placement.stages)
    return [stage_load_s(problem, graph, stage, place == count - 1) for place, stage in enumerate(placement.stages)]


def formula_s(problem, placement):
    """The formula's share of the pipeline, without synchronisation and update."""
    rounds = math.ceil(problem.microbatches / placement.data)
    return max(loads(problem, placement)) * (rounds + len(placement.stages) - 1)


@settings(max_examples=75, deadline=None)
@given(ANY_PROBLEM)
def test_timelines_of_optimal_placements_hold(problem):
    placement = placed(problem)
    assert timeline_violations(problem, placement, timeline(problem, placement)) == []


@settings(max_examples=120, deadline=None)
@given(pipelines())
def test_timelines_hold_and_keep_to_their_bounds(pipeline):
    problem, placement = pipeline
    times = timeline(problem, placement)
    assert timeline_violations(problem, placement, times) == []
    rounds = math.ceil(problem.microbatches / placement.data)
    each = loads(problem, placement)
    # a stage waits for one pass of those before it, and those before it wait for its last backward pass
    bound_s = max(sum(each[:place]) + rounds * load_s for place, load_s in enumerate(each))
    assert max(each) * rounds <= times.pipeline_s * (1 + 1e-12)
    assert bound_s <= times.pipeline_s * (1 + 1e-12)
    if problem.pipeline_schedule == "1f1b":
        assert times.pipeline_s <= formula_s(problem, placement) * (1 + 1e-12)


@settings(max_examples=100, deadline=None)
@given(pipelines())
def test_gpipe_ends_when_its_closed_form_says(pipeline):
    problem, placement = pipeline
    problem = replace(problem, pipeline_schedule="gpipe")
    graph, count = problem.tensor_parallel[1], len(placement.stages)
    passes = [stage_passes(problem, graph, stage, place == count - 1) for place, stage in enumerate(placement.stages)]
    longest_s = max(each.forward_s for each in passes) + max(each.recompute_s + each.backward_s for each in passes)
    rounds = math.ceil(problem.microbatches / placement.data)
    expected_s = sum(loads(problem, placement)) + (rounds - 1) * longest_s
    assert timeline(problem, placement).pipeline_s == pytest.approx(expected_s, rel=1e-12)


@settings(max_examples=100, deadline=None)
@given(
    st.integers(1, 8), st.integers(1, 30), st.integers(0, 40), st.integers(1, 40), st.sampled_from(["1f1b", "gpipe"])
)
def test_the_formula_is_exact_for_equal_stages(stages, microbatches, forward, backward, schedule):
    # eighths of a second and no transfers: sums of doubles are exact
    problem = chain_of(
        [(forward / 8, backward / 8)] * stages,
        accelerators=stages,
        microbatches=microbatches,
        pipeline_schedule=schedule,
        gradient_sync_factor=0.0,
    )
    graph = problem.tensor_parallel[1]
    still = replace(
        problem, tensor_parallel={1: replace(graph, edges=tuple((low, high, 0.0) for low, high, _ in graph.edges))}
    )
    placement = one_stage_each(still)
    assert timeline(still, placement).batch_s == placement.batch_s


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 16), min_size=1, max_size=7), st.integers(1, 30))
def test_under_1f1b_equal_loads_are_enough(forward, microbatches):
    values = [(eighths / 8, (16 - eighths) / 8) for eighths in forward]
    problem = chain_of(values, accelerators=8, microbatches=microbatches, network_bytes_per_s=1e300)
    placement = one_stage_each(problem)
    assert timeline(problem, placement).pipeline_s == pytest.approx(formula_s(problem, placement), rel=1e-12)


def test_gpipe_may_take_longer_than_the_formula():
    # the first stage works forward only, the second backward only: both phases take as long as the longest load
    problem = chain_of([(2.0, 0.0), (0.0, 2.0)], microbatches=10, network_bytes_per_s=1e300, accelerators=2)
    placement = one_stage_each(problem)
    assert formula_s(problem, placement) == 2.0 * 11
    assert timeline(problem, placement).pipeline_s == 2.0 * 11
    assert timeline(replace(problem, pipeline_schedule="gpipe"), placement).pipeline_s == 2.0 * 20


def test_a_heavy_last_stage_synchronises_longer_than_the_formula_says():
    problem = chain_of(
        [(1.0, 1.0)] * 2, sizes=[(1.0, 1.0), (1000.0, 1.0)], accelerators=4, microbatches=4, network_bytes_per_s=10.0
    )
    stages = (Stage((0,), 1), Stage((1,), 1))
    placement = Placement(1, 2, stages, batch_s(problem, 1, 2, stages))
    times = timeline(problem, placement)
    heavy_s, light_s = (gradient_sync_s(problem, 1, 2, size) for size in (1000.0, 1.0))
    drain_s = times.drained_s[0] - times.drained_s[1]
    assert times.batch_s == pytest.approx(times.pipeline_s + heavy_s - drain_s)
    assert times.batch_s > placement.batch_s
    assert placement.batch_s == pytest.approx(formula_s(problem, placement) + light_s)


def test_1f1b_alternates_as_in_the_figure_of_pipedream():
    # two stages, three microbatches: F0 F1 B0 F2 B1 B2 over F0 B0 F1 B1 F2 B2 (PipeDream-Flush, figure 4)
    problem = chain_of([(1.0, 2.0)] * 2, microbatches=3, network_bytes_per_s=1e300, accelerators=2)
    times = timeline(problem, one_stage_each(problem))
    assert times.forward_start_s.tolist() == [[0, 1, 6], [1, 4, 7]]
    assert times.backward_start_s.tolist() == [[4, 7, 10], [2, 5, 8]]
    assert times.pipeline_s == 12.0
    gpipe = timeline(replace(problem, pipeline_schedule="gpipe"), one_stage_each(problem))
    assert gpipe.forward_start_s.tolist() == [[0, 1, 2], [1, 2, 3]]
    assert gpipe.backward_start_s.tolist() == [[10, 8, 6], [8, 6, 4]]
    assert gpipe.pipeline_s == 12.0


CHANGES = {
    "forward_start_s": ("one pass at a time", "forward order", "every forward pass"),
    "forward_end_s": ("every forward pass",),
    "recompute_start_s": ("backward order", "one pass at a time", "every recompute pass"),
    "backward_start_s": ("every backward pass",),
    "backward_end_s": ("every backward pass",),
    "drained_s": ("drained_s of stage",),
    "synchronised_s": ("synchronised_s of stage",),
    "updated_s": ("updated_s of stage",),
}


@pytest.mark.parametrize("field", CHANGES)
def test_the_checker_refuses_a_shifted_time(field):
    problem = chain_of([(1.0, 2.0), (2.0, 1.0), (1.0, 1.0)], recompute=True, accelerators=6)
    placement = one_stage_each(problem, 2)
    times = timeline(problem, placement)
    assert timeline_violations(problem, placement, times) == []
    assert set(CHANGES) == {each.name for each in fields(times)} - {"schedule"}
    shifted = getattr(times, field).copy()
    shifted[(1, 1) if shifted.ndim == 2 else 1] -= 0.5
    lines = timeline_violations(problem, placement, replace(times, **{field: shifted}))
    assert all(any(part in line for line in lines) for part in CHANGES[field][-1:])


def test_the_checker_counts_stashes():
    problem = chain_of([(1.0, 1.0)] * 3, accelerators=3, pipeline_schedule="gpipe")
    placement = one_stage_each(problem)
    times = timeline(problem, placement)
    lines = timeline_violations(replace(problem, pipeline_schedule="1f1b"), placement, times)
    assert "stage 3 must hold at most 1 microbatches, but holds 8" in lines


def test_too_many_passes_are_refused():
    problem = chain_of([(1.0, 1.0)], microbatches=10**9, accelerators=1)
    with pytest.raises(ValueError, match=r"at most 4194304, but is 1 · 1000000000"):
        timeline(problem, one_stage_each(problem))


def test_arrays_are_by_stage_and_microbatch():
    problem = chain_of([(1.0, 1.0)] * 3, accelerators=6, microbatches=9)
    times = timeline(problem, one_stage_each(problem, 2))
    assert times.forward_start_s.shape == times.backward_end_s.shape == (3, 5)
    assert np.all(np.diff(times.forward_start_s, axis=1) > 0)
