"""Laws of the fabric's simulator: closed forms, monotony, mirrors and deadlocks."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dse.fabric.evaluators.measure import latency_s, throughput
from dse.fabric.evaluators.simulator import Simulator, simulate
from dse.fabric.model import Net, Pipeline, Placement, Sink, Unit
from hardware.fabrics import Fabric
from tests.fabric.cases import COMPUTE, INPUT, MEMORY, OUTPUT, PLASTICINE, compacted, layered_pipeline, routed

RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=40)
ROW = replace(PLASTICINE, name="row", rows=1, columns=16)

IN, OUT = Unit("in", INPUT), Unit("out", OUTPUT)


def chain(*works: int, flits: int = 1) -> Pipeline:
    """Compute units one after another between an input and an output, and nothing confined to half of the steps."""
    units = (IN, *(Unit(f"c{number}", COMPUTE, work) for number, work in enumerate(works)), OUT)
    return Pipeline(units, tuple(Net(unit, (Sink(unit + 1),), flits) for unit in range(len(units) - 1)))


def in_a_row(pipeline: Pipeline, fabric: Fabric = ROW) -> Placement:
    """Units from the west to the east edge, computes on every second cell."""
    io = fabric.grid.sites("io")
    return routed(pipeline, fabric, [io[0], *fabric.grid.sites("compute")[: len(pipeline.units) - 2], io[-1]])


def hops(placement: Placement) -> int:
    return len(placement.route_link)


@RELAXED
@given(st.integers(1, 60))
def test_one_operator_departs_once_for_every_slot_of_its_work(work):
    pipeline = chain(work)
    placement = in_a_row(pipeline)
    # One flit: into the switch, over the links, read in the first of the steps and written in the last one, and on.
    read = ROW.channel_latency_slots + ROW.port_slots
    first = read + (work - 1) + ROW.port_slots + ROW.hop_slots * hops(placement)
    departures = [first + max(1, work) * sample for sample in range(5)]
    assert simulate(pipeline, placement, ROW, 5).departures == tuple(departures)
    assert latency_s(Simulator(pipeline, ROW), placement, 5) == pytest.approx((departures[-1] + 1) * ROW.slot_s)


@RELAXED
@given(st.lists(st.integers(1, 60), min_size=1, max_size=8), st.integers(1, 12))
def test_a_chain_is_as_fast_as_its_slowest_unit(works, flits):
    pipeline = chain(*works, flits=flits)
    measured = throughput(Simulator(pipeline, ROW), in_a_row(pipeline))
    assert measured.interval_slots == max(*works, flits)
    assert measured.normalized == pytest.approx(max(works) / max(*works, flits))
    assert measured.samples_per_s == pytest.approx(1 / (max(*works, flits) * ROW.slot_s))


@RELAXED
@given(st.lists(st.integers(1, 30), min_size=1, max_size=8))
def test_the_latency_of_a_chain_is_the_sum_of_works_and_hops(works):
    pipeline = chain(*works)
    placement = in_a_row(pipeline)
    slots = ROW.channel_latency_slots + ROW.port_slots * (len(works) + 1) + ROW.hop_slots * hops(placement)
    slots += sum(work - 1 for work in works) + 1
    assert latency_s(Simulator(pipeline, ROW), placement) == pytest.approx(slots * ROW.slot_s)


def test_late_flits_come_in_the_second_half_and_early_ones_are_needed_in_the_first():
    def first_departure(late, early):
        nets = (Net(0, (Sink(1),), 1), Net(1, (Sink(2, early),), 4, late=late), Net(2, (Sink(3),), 1))
        pipeline = Pipeline((IN, Unit("a", COMPUTE, 40), Unit("b", COMPUTE, 40), OUT), nets)
        return simulate(pipeline, in_a_row(pipeline), ROW, 1).departures[0]

    even = first_departure(False, False)
    # Evenly, b reads in steps 1, 11, 21, 31 what a writes in 10, 20, 30, 40: never a wait. Late, a writes in 25, 30,
    # 35, 40, and b, which reads the first one then, waits for none of them; early, b reads in 1, 6, 11, 16.
    assert first_departure(True, False) == even + 15
    assert first_departure(False, True) == even + 15


@pytest.mark.parametrize(("bytes_per_s", "slots"), [(12.0e9, 1), (6.4e9, 2), (4.0e9, 3)])
def test_a_slow_channel_sets_the_pace(bytes_per_s, slots):
    fabric = replace(ROW, channels=2, channel_bytes_per_s=bytes_per_s)
    assert fabric.channel_slots == slots
    pipeline = chain(1, flits=6)
    assert throughput(Simulator(pipeline, fabric), in_a_row(pipeline, fabric)).interval_slots == 6 * slots


def through_memory(transposed=False, shares_banks=False, samples=2):
    """An input whose samples are kept in a memory unit for a compute unit."""
    units = (IN, Unit("m", MEMORY, samples=samples, shares_banks=shares_banks), Unit("c", COMPUTE, 1), OUT)
    nets = (Net(0, (Sink(1),), 20), Net(1, (Sink(2),), 20, transposed=transposed), Net(2, (Sink(3),), 20))
    return Pipeline(units, nets)


def interval(pipeline, fabric=ROW):
    grid = fabric.grid
    site = [grid.sites("io")[0], grid.sites("memory")[0], grid.sites("compute")[1], grid.sites("io")[-1]]
    return throughput(Simulator(pipeline, fabric), routed(pipeline, fabric, site)).interval_slots


def test_ports_and_banks_of_a_memory_unit():
    assert interval(through_memory(samples=4)) == 20
    assert interval(through_memory(samples=4, transposed=True)) == 40
    assert interval(through_memory(samples=4, shares_banks=True)) == 40
    assert interval(through_memory(samples=4, transposed=True, shares_banks=True)) == 60


def test_a_memory_unit_of_one_sample_is_written_when_the_token_is_back():
    # The token leaves in the slot of the compute unit's last step; one slot and one hop later the first of 20 flits is
    # written. It is read in the slot after the last one, and takes port and link to the compute unit's step.
    returned = 1 + ROW.hop_slots
    writing, reading = 20, 1 + 19 + ROW.port_slots + ROW.hop_slots
    assert interval(through_memory(samples=1)) == returned + (writing - 1) + reading


def test_flows_that_share_a_track_pay_for_each_change():
    """Two streams side by side over one link: bursts of B flits, each with its dead slots."""
    units = (IN, IN, Unit("a", COMPUTE, 1), Unit("b", COMPUTE, 1), OUT, OUT)
    nets = tuple(Net(source, (Sink(sink),), 80) for source, sink in ((0, 2), (1, 3), (2, 4), (3, 5)))
    pipeline = Pipeline(units, nets)

    def measured(**changes):
        fabric = replace(ROW, **changes)
        io, computes = fabric.grid.sites("io"), fabric.grid.sites("compute")
        site = [io[0], io[1], computes[3], computes[4], io[2], io[3]]
        return throughput(Simulator(pipeline, fabric), routed(pipeline, fabric, site)).interval_slots

    deep = {"max_flow_flits": 64, "min_flow_flits": 64, "port_flits": 64}
    assert measured(**deep) == pytest.approx(160 * 9 / 8, rel=0.01)
    assert measured(**deep, switch_slots=3) == pytest.approx(160 * 11 / 8, rel=0.01)
    assert measured(**deep, burst_flits=4) == pytest.approx(160 * 5 / 4, rel=0.01)
    assert measured(**deep, tracks=2) == 80
    assert measured(max_flow_flits=2) > measured(**deep)


LARGER = [{"port_flits": 8}, {"min_flow_flits": 6}, {"max_flow_flits": 12}, {"buffer_flits": 24}, {"tracks": 2}]
LARGER += [{"read_ports": 2, "write_ports": 2}, {"channels": 8}, {"transposed_read_slots": 1}, {"switch_slots": 0}]


@RELAXED
@given(st.lists(st.integers(1, 20), min_size=1, max_size=6), st.integers(1, 12), st.sampled_from(LARGER), st.data())
def test_without_sharing_no_sample_departs_later_for_more_of_anything(works, flits, larger, data):
    small = replace(ROW, port_flits=data.draw(st.integers(1, 4)), min_flow_flits=1, max_flow_flits=3, buffer_flits=3)
    if "min_flow_flits" in larger:
        larger = {**larger, "max_flow_flits": 6}
    more = replace(small, **larger)
    pipeline = chain(*works, flits=flits)
    before, after = (simulate(pipeline, in_a_row(pipeline), fabric, 10).departures for fabric in (small, more))
    assert all(late >= early for late, early in zip(before, after, strict=True))


@pytest.fixture(scope="module")
def shared_tracks():
    """Pipelines with placements on which nets share tracks, and the time between their samples."""
    cases = []
    for seed in range(6):
        random = np.random.default_rng(seed)
        pipeline = layered_pipeline(random, 2, 3, 4)
        placement = compacted(pipeline, PLASTICINE, random, 100)
        cases.append((pipeline, placement, throughput(Simulator(pipeline, PLASTICINE), placement).interval_slots))
    return cases


@pytest.mark.parametrize("larger", LARGER, ids=str)
def test_with_sharing_more_of_anything_is_not_slower_beyond_the_error_of_the_window(shared_tracks, larger):
    more = replace(PLASTICINE, **larger)
    ratios = [
        throughput(Simulator(pipeline, more), placement).interval_slots / few
        for pipeline, placement, few in shared_tracks
    ]
    # The 95th percentile of a window's error is 5 %; two windows are compared.
    assert max(ratios) <= 1.1
    assert np.mean(ratios) <= 1.01


def mirrored(fabric: Fabric, placement: Placement) -> Placement:
    """The placement seen from the other side: row r as row R - 1 - r and column c as C - 1 - c."""
    grid = fabric.grid
    cell = grid.cells - 1 - np.arange(grid.cells)
    ends = {pair: link for link, pair in enumerate(zip(grid.link_from.tolist(), grid.link_to.tolist(), strict=True))}
    link = [ends[int(cell[grid.link_from[each]]), int(cell[grid.link_to[each]])] for each in placement.route_link]
    at: dict[tuple[int, str], list[int]] = {}
    for site, (kind, place) in enumerate(zip(grid.site_kind, grid.site_cell.tolist(), strict=True)):
        at.setdefault((place, kind), []).append(site)
    sites = []
    for site in placement.site.tolist():
        place, kind = int(grid.site_cell[site]), grid.site_kind[site]
        sites.append(at[int(cell[place]), kind][at[place, kind].index(site)])
    return Placement(np.array(sites), placement.route_first, np.array(link, dtype=np.int64))


@pytest.mark.parametrize("seed", range(4))
def test_a_mirrored_placement_departs_in_the_same_slots(seed):
    random = np.random.default_rng(seed)
    fabric = replace(PLASTICINE, channels=64)  # as many as sites, for which channel serves a site has no mirror image
    pipeline = layered_pipeline(random, 2, 3, 4)
    placement = compacted(pipeline, fabric, random, 30)
    outcome = simulate(pipeline, placement, fabric, 20)
    assert simulate(pipeline, mirrored(fabric, placement), fabric, 20) == outcome
    assert len(outcome.departures) == 20


def test_a_deadlock_is_reported_with_what_each_unit_has_ended():
    """b makes nothing until it has most of its input, but c takes nothing of the same multicast before b's output."""
    units = (IN, Unit("a", COMPUTE, 40), Unit("b", COMPUTE, 40), Unit("c", COMPUTE, 40), OUT)
    nets = (
        Net(0, (Sink(1),), 1),
        Net(1, (Sink(2), Sink(3)), 40),
        Net(2, (Sink(3, early=True),), 1, late=True),
        Net(3, (Sink(4),), 1),
    )
    pipeline = Pipeline(units, nets)
    placement = in_a_row(pipeline)
    outcome = simulate(pipeline, placement, ROW, 3)
    assert outcome.is_deadlock
    assert outcome.departures == ()
    assert outcome.blocked[1:] == (0, 0, 0, 0)
    measured = throughput(Simulator(pipeline, ROW), placement)
    assert (measured.interval_slots, measured.normalized, measured.samples_per_s) == (None, 0.0, 0.0)
    assert latency_s(Simulator(pipeline, ROW), placement) is None
    deep = replace(ROW, max_flow_flits=40, min_flow_flits=40)
    assert len(simulate(pipeline, placement, deep, 3).departures) == 3


def test_throughput_hardly_depends_on_the_window():
    random = np.random.default_rng(1)
    pipeline = layered_pipeline(random, 2, 3, 4)
    simulator = Simulator(pipeline, PLASTICINE)
    for _ in range(4):
        placement = compacted(pipeline, PLASTICINE, random, 100)
        short, long = (throughput(simulator, placement, window).interval_slots for window in (16, 128))
        assert short == pytest.approx(long, rel=0.1)


def test_a_deadlock_is_found_beside_a_part_that_could_go_on_for_ever():
    units = (IN, Unit("a", COMPUTE, 40), Unit("b", COMPUTE, 40), Unit("c", COMPUTE, 40), OUT, IN, OUT)
    nets = (
        Net(0, (Sink(1),), 1),
        Net(1, (Sink(2), Sink(3)), 40),
        Net(2, (Sink(3, early=True),), 1, late=True),
        Net(3, (Sink(4),), 1),
        Net(5, (Sink(6),), 1),
    )
    pipeline = Pipeline(units, nets)
    io, computes = ROW.grid.sites("io"), ROW.grid.sites("compute")
    outcome = simulate(pipeline, routed(pipeline, ROW, [io[0], *computes[:3], io[-1], io[1], io[-2]]), ROW, 3)
    assert outcome.departures == ()
    assert outcome.blocked[1:5] == (0, 0, 0, 0)
    assert outcome.blocked[6] > 3


def test_a_stream_does_not_drain_while_it_is_measured():
    random = np.random.default_rng(2)
    for _ in range(4):
        pipeline = layered_pipeline(random, 1, 3, 4)
        placement = compacted(pipeline, PLASTICINE, random, 100)
        assert simulate(pipeline, placement, PLASTICINE, 20) == simulate(pipeline, placement, PLASTICINE, 20, 5000)
