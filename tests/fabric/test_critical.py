"""What the stream waits for: every wait has its cause, and units that are far away or wait for a link are named."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from dse.fabric.evaluators.critical_kernels import trace_back
from dse.fabric.evaluators.simulator import Simulator
from dse.fabric.model import Net, Pipeline, Sink, Unit
from tests.fabric.cases import COMPUTE, INPUT, OUTPUT, PLASTICINE, SMALL_FABRICS, placed, random_pipeline, routed

RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=100)

FIRST, SAMPLES = 3, 8


@RELAXED
@given(st.integers(0, 10_000), SMALL_FABRICS)
def test_every_flit_on_the_critical_path_has_waited_for_the_one_before(seed, fabric):
    random = np.random.default_rng(seed)
    pipeline = random_pipeline(random, fabric)
    placement = placed(pipeline, fabric, random)
    machine = Simulator(pipeline, fabric)
    # No flow is as far ahead of the departures as that: all slots are recorded.
    state = machine._run(placement, SAMPLES, None, recorded_samples=500)
    assume(state.departed[0] == SAMPLES)
    waits = np.zeros(len(pipeline.units), dtype=np.int64)
    sources = np.array([net.source for net in pipeline.nets])
    assert trace_back(state, sources, state.departs[FIRST - 1], waits) == 0
    slots = state.departs[-1] - state.departs[FIRST - 1]
    assert (waits >= 0).all()
    assert waits.sum() <= 2 * slots
    assert machine.waits(placement, SAMPLES, FIRST)[1].tolist() == waits.tolist()


@RELAXED
@given(st.integers(0, 10_000), SMALL_FABRICS)
def test_records_change_nothing(seed, fabric):
    random = np.random.default_rng(seed)
    pipeline = random_pipeline(random, fabric)
    placement = placed(pipeline, fabric, random)
    machine = Simulator(pipeline, fabric)
    outcome, waits = machine.waits(placement, SAMPLES, FIRST)
    assert outcome == machine.simulate(placement, SAMPLES)
    if outcome.is_deadlock:
        assert not waits.any()


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
    outcome, waits = Simulator(pipeline, machine).waits(placement, 40, 20)
    return waits, outcome.departures[-1] - outcome.departures[19]


def test_nothing_waits_for_the_network_where_a_unit_works_all_the_time():
    waits, slots = waits_of(64, (0, 2))
    assert slots == 20 * 64
    assert waits.max() < 0.1 * slots  # the way of the last sample to its output


@pytest.mark.parametrize(("columns", "far", "near"), [((0, 14), 2, 1), ((14, 0), 1, 2)])
def test_the_far_unit_is_waited_for(columns, far, near):
    slow = replace(PLASTICINE, hop_slots=8, buffer_flits=2, min_flow_flits=1, max_flow_flits=1)
    waits, slots = waits_of(4, columns, slow)
    assert slots > 20 * 4
    assert waits[far] == slots
    assert waits[near] < 0.1 * slots
