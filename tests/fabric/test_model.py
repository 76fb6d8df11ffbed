"""Rules of pipelines and placements."""

from dataclasses import replace

import numpy as np
import pytest

from dse.fabric.evaluators import reference, simulator
from dse.fabric.model import Net, Pipeline, Placement, Sink, Unit, placement_faults
from tests.fabric.cases import COMPUTE, INPUT, MEMORY, OUTPUT, SMALL, placed, tree

UNITS = (Unit("in", INPUT), Unit("m", MEMORY, samples=2), Unit("c", COMPUTE, 5), Unit("out", OUTPUT))
NETS = (Net(0, (Sink(1),), 3), Net(1, (Sink(2),), 3), Net(2, (Sink(3),), 4))
PIPELINE = Pipeline(UNITS, NETS)


def test_stages_steps_and_ideal_slots():
    assert PIPELINE.stages == 4
    assert PIPELINE.ideal_slots == 5
    assert PIPELINE.steps.tolist() == [0, 0, 5, 0]
    late = replace(PIPELINE, nets=(*NETS[:2], replace(NETS[2], late=True)))
    assert late.steps.tolist() == [0, 0, 8, 0]
    early = replace(PIPELINE, nets=(NETS[0], replace(NETS[1], sinks=(Sink(2, early=True),)), NETS[2]))
    assert early.steps.tolist() == [0, 0, 6, 0]


@pytest.mark.parametrize(
    ("units", "nets", "fault"),
    [
        (UNITS, (Net(0, (Sink(4),), 1),), "net 0: units must be numbers from 0 to 3, but got \\[0, 4\\]"),
        (UNITS, (*NETS, Net(2, (Sink(2),), 1)), "net 3: .* two different units, but are \\[2, 2\\]"),
        (UNITS, (*NETS, Net(2, (), 1)), "net 3: .* two different units, but are \\[2\\]"),
        (UNITS, (*NETS[:2], replace(NETS[2], flits=0)), "net 2: `1 <= flits"),
        (
            UNITS,
            (replace(NETS[0], late=True), *NETS[1:]),
            "net 0: only a compute unit can emit late, but in is not one",
        ),
        (
            UNITS,
            (replace(NETS[0], transposed=True), *NETS[1:]),
            "only a memory unit can read transposed, but in is not one",
        ),
        (
            UNITS,
            (replace(NETS[0], sinks=(Sink(1, early=True),)), *NETS[1:]),
            "can accept flits early, but m is not one",
        ),
        (UNITS, (*NETS, Net(2, (Sink(0),), 1)), "unit in: an input unit must not be a sink"),
        (UNITS, (*NETS, Net(3, (Sink(1),), 1)), "unit out: an output unit must not be a source"),
        (UNITS, (*NETS, Net(2, (Sink(1),), 1)), "must not form a cycle"),
        (UNITS, NETS[:2], "unit c: must be the source of a net"),
        (UNITS, NETS[1:], "unit in: must be the source of a net"),
        ((*UNITS, Unit("d", OUTPUT)), NETS, "unit d: must be a sink of a net"),
        ((*UNITS, Unit("d", MEMORY, samples=1)), NETS, "unit d: must be the source or a sink"),
        ((UNITS[0], replace(UNITS[1], samples=0), *UNITS[2:]), NETS, "unit m: samples must be from 1 to"),
        ((*UNITS[:2], replace(UNITS[2], work_slots=0), UNITS[3]), NETS, "unit c: work_slots must be from 1 to"),
        ((replace(UNITS[0], work_slots=1), *UNITS[1:]), NETS, "unit in: work_slots must be from 1 to"),
        ((replace(UNITS[0], shares_banks=True), *UNITS[1:]), NETS, "unit in: only a memory unit can share banks"),
    ],
)
def test_a_faulty_pipeline_is_refused(units, nets, fault):
    with pytest.raises(ValueError, match=fault):
        Pipeline(units, nets)


def altered(placement, site=None, route=None):
    """The placement with another site of the last unit, or another route of the first net."""
    sites = placement.site.tolist()
    routes = [placement.route(net) for net in range(len(NETS))]
    return Placement.of([*sites[:-1], site] if site is not None else sites, [route, *routes[1:]] if route else routes)


def test_a_faulty_placement_is_refused_by_both_simulators():
    grid = SMALL.grid
    io, memory, compute = (grid.sites(kind) for kind in ("io", "memory", "compute"))
    good = Placement.of([io[0], memory[-1], compute[0], io[-1]], [route_of(0, 11), route_of(11, 0), route_of(0, 11)])
    assert placement_faults(PIPELINE, good, SMALL) == []
    route = good.route(0)
    for bad, fault in [
        (altered(good, site=io[0]), f"unit out: site {io[0]} is already used by in"),
        (altered(good, site=memory[0]), f"unit out: the site must be of kind io, but {memory[0]} is of kind memory"),
        (altered(good, site=999), "unit out: the site must be from 0 to"),
        (
            altered(good, route=route[1:]),
            "net 0: link .* starts at cell 1, which must be entered by an earlier link of the route",
        ),
        (altered(good, route=route[:-1]), "net 0: the route must reach m at cell 11"),
        (
            altered(good, route=[*route, route_of(11, 7)[0]]),
            "net 0: link .* enters cell .*, which must be entered only once",
        ),
        (altered(good, route=[999]), "net 0: links must be numbers from 0 to 33, but got 999"),
        (Placement.of(good.site[:-1].tolist(), [[], [], []]), "there must be a site for each of 4 units"),
        (Placement.of(good.site.tolist(), [[], []]), "there must be a route for each of 3 nets, but there are 2"),
    ]:
        for simulate in (simulator.simulate, reference.simulate):
            with pytest.raises(ValueError, match=fault):
                simulate(PIPELINE, bad, SMALL, 1)


def route_of(start: int, end: int) -> list[int]:
    return tree(SMALL, start, [end])


def test_numbers_of_samples_that_make_no_sense_are_refused():
    placement = placed(PIPELINE, SMALL, np.random.default_rng(0))
    for simulate in (simulator.simulate, reference.simulate):
        for samples, fed_samples in ((0, None), (3, 2)):
            with pytest.raises(ValueError, match="`1 <= samples <= fed_samples` must hold"):
                simulate(PIPELINE, placement, SMALL, samples, fed_samples)
