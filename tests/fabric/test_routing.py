"""Routes are legal trees along shortest ways; the rules of small placements by hand; bad weights."""

from dataclasses import replace

import numpy as np
import pytest
import rustworkx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dse.fabric.model import Net, Pipeline, Placement, Sink, Unit, placement_faults
from dse.fabric.rules import RuleTerms, RuleWeights, rule_terms
from dse.fabric.search.routing import routed
from dse.fabric.search.sites import random_sites
from tests.fabric.cases import COMPUTE, INPUT, MEMORY, OUTPUT, PLASTICINE, SMALL, random_pipeline
from tests.fabric.cases import routed as routed_plainly

RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=100)
ROUTINGS = ("xy", "yx", "congestion")


def case(seed, fabric):
    random = np.random.default_rng(seed)
    pipeline = random_pipeline(random, replace(fabric, absent=(), rows=fabric.rows - 1))
    return pipeline, random_sites(pipeline, fabric, random)


@RELAXED
@given(st.integers(0, 2**32 - 1), st.sampled_from(ROUTINGS), st.sampled_from([(), ((1, 1),), ((0, 1), (2, 3))]))
def test_routes_are_legal_and_no_longer_than_they_must_be(seed, routing, absent):
    fabric = replace(SMALL, rows=4, columns=5, absent=absent)
    pipeline, site = case(seed, fabric)
    placement = routed(pipeline, site, fabric, routing)
    assert placement_faults(pipeline, placement, fabric) == []
    grid = fabric.grid
    graph = rustworkx.PyDiGraph()
    graph.add_nodes_from(range(grid.cells))
    graph.add_edges_from_no_data(list(zip(grid.link_from.tolist(), grid.link_to.tolist(), strict=True)))
    for number, net in enumerate(pipeline.nets):
        start = int(grid.site_cell[site[net.source]])
        distance = {start: 0, **rustworkx.dijkstra_shortest_path_lengths(graph, start, lambda _: 1.0)}
        ends = {int(grid.site_cell[site[sink.unit]]) for sink in net.sinks}
        route = placement.route(number)
        left = {int(grid.link_from[link]) for link in route}
        assert all(distance[int(grid.link_to[link])] == distance[int(grid.link_from[link])] + 1 for link in route)
        assert {int(grid.link_to[link]) for link in route} - left <= ends  # no loose ends


@RELAXED
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_routes_along_rows_or_columns_are_the_plain_ones(seed, columns_first):
    pipeline, site = case(seed, SMALL)
    placement = routed(pipeline, site, SMALL, "yx" if columns_first else "xy")
    plain = routed_plainly(pipeline, SMALL, site)
    if not columns_first:
        assert [set(placement.route(net)) for net in range(len(pipeline.nets))] == [
            set(plain.route(net)) for net in range(len(pipeline.nets))
        ]
    columns = SMALL.grid.columns
    for number, net in enumerate(pipeline.nets):
        row, column = divmod(int(SMALL.grid.site_cell[site[net.source]]), columns)
        for link in placement.route(number):
            start, end = int(SMALL.grid.link_from[link]), int(SMALL.grid.link_to[link])
            is_along_row = abs(start - end) == 1
            # What turns never turns back: the first leg lies in the source's row or column.
            if columns_first and not is_along_row:
                assert start % columns == column
            if not columns_first and is_along_row:
                assert start // columns == row


def crossing():
    """Two nets of 6 and 2 flits from corner to corner of a 2 x 2 grid of compute units, and its input and output."""
    fabric = replace(PLASTICINE, name="square", rows=2, columns=2, pattern=("CM", "MC"), io_edges=("west", "east"))
    units = (Unit("in", INPUT), Unit("a", COMPUTE, work_slots=8), Unit("b", COMPUTE, work_slots=4), Unit("out", OUTPUT))
    nets = (Net(0, (Sink(1),), 2), Net(1, (Sink(2),), 6), Net(1, (Sink(2),), 2), Net(2, (Sink(3),), 2))
    return Pipeline(units, nets), fabric


def test_congestion_takes_the_way_that_is_free():
    pipeline, fabric = crossing()
    compute, io = fabric.grid.sites("compute"), fabric.grid.sites("io")
    cells = {int(fabric.grid.site_cell[site]): site for site in io}
    site = [cells[0], compute[0], compute[1], cells[3]]
    by_row, free = (routed(pipeline, site, fabric, routing) for routing in ("xy", "congestion"))
    assert by_row.route(1) == by_row.route(2)
    assert free.route(1) == by_row.route(1)
    assert not set(free.route(1)) & set(free.route(2))
    # Both nets at once: 8 flits on a link of one track. By speed of the source (8 steps) these just fit.
    assert rule_terms(pipeline, by_row, fabric) == RuleTerms(4, 16, 8, 2 * 64, 8, 6 * 2 + 2 * 2, 2)
    assert rule_terms(pipeline, free, fabric) == RuleTerms(4, 16, 6, 2 * 36 + 2 * 4, 8, 6 + 2 * 2, 2)


def test_a_congested_link_slows_the_nets_on_it_down():
    pipeline, fabric = crossing()
    units = (pipeline.units[0], replace(pipeline.units[1], work_slots=6), *pipeline.units[2:])
    pipeline = Pipeline(units, pipeline.nets)
    compute, io = fabric.grid.sites("compute"), fabric.grid.sites("io")
    cells = {int(fabric.grid.site_cell[site]): site for site in io}
    placement = routed(pipeline, [cells[0], compute[0], compute[1], cells[3]], fabric, "xy")
    assert rule_terms(pipeline, placement, fabric).expert == pytest.approx(8)
    assert rule_terms(pipeline, placement, replace(fabric, tracks=2)).expert == 6


def test_units_on_one_channel_add_up():
    fabric = replace(PLASTICINE, channels=2, channel_bytes_per_s=12.4e9)
    units = (Unit("in", INPUT), Unit("held", MEMORY, samples=2), Unit("a", COMPUTE, work_slots=8), Unit("out", OUTPUT))
    nets = (Net(0, (Sink(1),), 8), Net(1, (Sink(2),), 8), Net(2, (Sink(3),), 5))
    pipeline, io = Pipeline(units, nets), fabric.grid.sites("io")
    seats = [fabric.grid.sites("memory")[0], fabric.grid.sites("compute")[0]]
    for output, slots in ((1, 8), (2, 13)):
        placement = routed(pipeline, [io[0], *seats, io[output]], fabric, "xy")
        assert rule_terms(pipeline, placement, fabric).off_chip == slots * fabric.channel_slots


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_bad_weights_are_refused(weight):
    with pytest.raises(ValueError, match="`max_load` must be finite and not negative"):
        RuleWeights(max_load=weight)


def test_no_weight_at_all_is_refused():
    with pytest.raises(ValueError, match="at least one rule must have a weight above 0"):
        RuleWeights()


def test_an_empty_route_is_a_net_that_stays_at_its_switch():
    pipeline, fabric = crossing()
    cells = {int(fabric.grid.site_cell[site]): site for site in fabric.grid.sites("io")}
    compute = fabric.grid.sites("compute")
    placement = routed(pipeline, [cells[0], compute[0], compute[1], cells[3]], fabric, "xy")
    assert isinstance(placement, Placement)
    assert placement.route(0) == [] == placement.route(3)
