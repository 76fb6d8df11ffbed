"""Waiting time: every wait has its cause, and units that are far away or wait for a link are named."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from dse.fabric.evaluators import reference
from dse.fabric.evaluators.critical_kernels import CAUSES, trace_back
from dse.fabric.evaluators.measure import throughput
from dse.fabric.evaluators.simulator import Simulator
from dse.fabric.figures import PlacedPiece
from dse.fabric.model import Net, Pipeline, Sink, Unit
from tests.fabric.cases import (
    COMPUTE,
    INPUT,
    MEMORY,
    OUTPUT,
    PLASTICINE,
    SMALL,
    SMALL_FABRICS,
    placed,
    random_pipeline,
    routed,
)

RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=100)

FIRST, SAMPLES = 3, 8


@RELAXED
@example(498, SMALL)
@given(st.integers(0, 10_000), SMALL_FABRICS)
def test_every_flit_on_the_critical_path_has_waited_for_the_one_before(seed, fabric):
    random = np.random.default_rng(seed)
    pipeline = random_pipeline(random, fabric)
    placement = placed(pipeline, fabric, random)
    machine = Simulator(pipeline, fabric)
    # No flow is as far ahead of the departures as that: all slots are recorded.
    state = machine._run(placement, SAMPLES, None, recorded_samples=500)
    assume(state.departed[0] == SAMPLES)
    units, causes = np.zeros(len(pipeline.units), dtype=np.int64), np.zeros(len(CAUSES), dtype=np.int64)
    sources = np.array([net.source for net in pipeline.nets])
    kinds = np.array([int(unit.kind) for unit in pipeline.units])
    assert trace_back(state, sources, kinds, state.departs[FIRST - 1], units, causes) == 0
    slots = state.departs[-1] - state.departs[FIRST - 1]
    assert (units >= 0).all()
    assert units.sum() <= 2 * slots
    assert (causes >= 0).all()
    assert causes.sum() == slots
    waits = machine.waits(placement, SAMPLES, FIRST)
    # Of flits that are equally late it may take another one, where the slot of the first is no longer recorded.
    assert (waits.causes >= 0).all()
    assert waits.causes.sum() == slots
    assert waits.units.sum() <= 2 * slots


@RELAXED
@example(14, replace(SMALL, switch_slots=2))
@given(st.integers(0, 10_000), SMALL_FABRICS)
def test_slots_of_switching_are_those_in_which_the_plain_simulator_turns_to_another_flow(seed, fabric):
    random = np.random.default_rng(seed)
    pipeline = random_pipeline(random, fabric)
    placement = placed(pipeline, fabric, random)
    waits = Simulator(pipeline, fabric).waits(placement, SAMPLES, FIRST)
    departures, idle = waits.outcome.departures, set()

    class Watched(reference.Server):
        def serve(self, chosen, slot):
            super().serve(chosen, slot)
            if self.turn == 0:  # it has passed no flit of the flow that it has turned to
                idle.update(range(slot, self.free_at))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(reference, "Server", Watched)
        assert reference.simulate(pipeline, placement, fabric, SAMPLES) == waits.outcome
    if not waits.outcome.is_deadlock:
        between = range(departures[FIRST - 1] + 1, departures[-1] + 1)
        assert waits.causes[CAUSES.index("switching")] <= len(idle.intersection(between))
    assert fabric.switch_slots or not idle


@RELAXED
@given(st.integers(0, 10_000), SMALL_FABRICS)
def test_records_change_nothing(seed, fabric):
    random = np.random.default_rng(seed)
    pipeline = random_pipeline(random, fabric)
    placement = placed(pipeline, fabric, random)
    machine = Simulator(pipeline, fabric)
    waits = machine.waits(placement, SAMPLES, FIRST)
    assert waits.outcome == machine.simulate(placement, SAMPLES)
    if waits.outcome.is_deadlock:
        assert not waits.units.any()
        assert not waits.causes.any()


@RELAXED
@given(st.integers(0, 10_000), SMALL_FABRICS)
def test_the_waits_of_a_placement_sum_to_the_time_between_its_samples(seed, fabric):
    random = np.random.default_rng(seed)
    pipeline = random_pipeline(random, fabric)
    placement = placed(pipeline, fabric, random)
    case, plain = PlacedPiece(pipeline, placement, fabric), throughput(Simulator(pipeline, fabric), placement)
    assert case.throughput == plain
    if plain.interval_slots is None:
        assert case.waits is None
        return
    assert list(case.waits) == list(CAUSES)
    assert sum(case.waits.values()) == pytest.approx(plain.interval_slots)
    assert case.interval_slots == max(plain.interval_slots, case.bound.slots)


def side_by_side(work):
    """Two compute units that read one input and write an output each, four flits a sample."""
    units = [Unit("input", INPUT)]
    units += [Unit(f"part{number}", COMPUTE, work_slots=work) for number in range(2)]
    units += [Unit(f"output{number}", OUTPUT) for number in range(2)]
    nets = [Net(0, (Sink(1), Sink(2)), 4), Net(1, (Sink(3),), 4), Net(2, (Sink(4),), 4)]
    return Pipeline(tuple(units), tuple(nets))


def waits_of(work, columns, machine=PLASTICINE):
    """Of the two with their compute units in these columns of the first row, and all else at the western edge."""
    grid = machine.grid
    compute = {int(grid.site_cell[site]): site for site in grid.sites("compute")}
    outer = [site for site in grid.sites("io") if grid.site_cell[site] % grid.columns == 0]
    pipeline = side_by_side(work)
    placement = routed(pipeline, machine, [outer[0], *(compute[column] for column in columns), outer[1], outer[2]])
    waits = Simulator(pipeline, machine).waits(placement, 40, 20)
    slots = waits.outcome.departures[-1] - waits.outcome.departures[19]
    return waits.units, slots, shares_of(waits)


def shares_of(waits):
    """Of the slots, by cause, where they have any."""
    total = waits.causes.sum()
    return {cause: slots / total for cause, slots in zip(CAUSES, waits.causes.tolist(), strict=True) if slots}


def test_nothing_waits_for_the_network_where_a_unit_works_all_the_time():
    waits, slots, shares = waits_of(64, (0, 2))
    assert slots == 20 * 64
    assert shares["compute"] > 0.9
    assert waits.max() < 0.1 * slots  # the way of the last sample to its output


@pytest.mark.parametrize(("columns", "far", "near"), [((0, 14), 2, 1), ((14, 0), 1, 2)])
def test_the_far_unit_is_waited_for(columns, far, near):
    slow = replace(PLASTICINE, hop_slots=8, buffer_flits=2, min_flow_flits=1, max_flow_flits=1)
    waits, slots, shares = waits_of(4, columns, slow)
    assert slots > 20 * 4
    assert shares["delay"] + shares["queue"] > 0.9  # a queue of few places, and hops of many slots
    assert waits[far] == slots
    assert waits[near] < 0.1 * slots


def through_memory(samples, fabric, fed_flits=4, transposed=False, work=4):
    """One memory unit between two compute units in neighbouring cells; the causes of what its stream waits for."""
    units = (
        Unit("input", INPUT),
        Unit("first", COMPUTE, work_slots=work),
        Unit("store", MEMORY, samples=samples),
        Unit("second", COMPUTE, work_slots=work),
        Unit("output", OUTPUT),
    )
    nets = (
        Net(0, (Sink(1),), fed_flits),
        Net(1, (Sink(2),), 4),
        Net(2, (Sink(3),), 4, transposed=transposed),
        Net(3, (Sink(4),), 4),
    )
    pipeline = Pipeline(units, nets)
    grid = fabric.grid
    compute, memory, outer = grid.sites("compute"), grid.sites("memory"), grid.sites("io")
    placement = routed(pipeline, fabric, [outer[0], compute[0], memory[0], compute[1], outer[1]])
    return shares_of(Simulator(pipeline, fabric).waits(placement, 40, 20))


def test_causes_are_those_that_a_pipeline_was_made_for():
    binding = {
        "port": through_memory(8, replace(PLASTICINE, transposed_read_slots=9), transposed=True),
        "off_chip": through_memory(8, replace(PLASTICINE, channels=1, channel_bytes_per_s=4e9), fed_flits=30),
        "compute": through_memory(8, PLASTICINE, work=90),
    }
    for cause, shares in binding.items():
        assert max(shares, key=shares.get) == cause, (cause, shares)
    assert binding["port"]["port"] > 0.8
    assert binding["off_chip"]["off_chip"] > 0.8


def test_a_place_for_a_sample_is_waited_for_where_there_is_one():
    slow = replace(PLASTICINE, hop_slots=6)
    assert through_memory(1, slow)["depth"] > 0.2  # a way of the tokens back, between a way of the data and the next
    assert "depth" not in through_memory(8, slow)


def test_flows_that_share_a_track_wait_for_it_and_for_its_changes():
    """Two inputs at the western edge whose flits all pass one link."""
    units = (Unit("a", INPUT), Unit("b", INPUT), Unit("x", COMPUTE, work_slots=2), Unit("y", COMPUTE, work_slots=2))
    units += (Unit("out x", OUTPUT), Unit("out y", OUTPUT))
    nets = (Net(0, (Sink(2),), 16), Net(1, (Sink(3),), 16), Net(2, (Sink(4),), 1), Net(3, (Sink(5),), 1))
    pipeline, machine = Pipeline(units, nets), replace(PLASTICINE, tracks=1, switch_slots=3, burst_flits=2)
    grid = machine.grid
    compute = {int(grid.site_cell[site]): site for site in grid.sites("compute")}
    outer = [site for site in grid.sites("io") if grid.site_cell[site] == 0]
    other = [site for site in grid.sites("io") if grid.site_cell[site] % grid.columns == grid.columns - 1]
    placement = routed(pipeline, machine, [outer[0], outer[1], compute[4], compute[6], other[0], other[1]])
    shares = shares_of(Simulator(pipeline, machine).waits(placement, 40, 20))
    assert shares["track"] > 0.2
    assert shares["switching"] > 0.2
