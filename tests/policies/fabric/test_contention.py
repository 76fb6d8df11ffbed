"""Features of contention against their definition in plain Python, and what must hold where nets share nothing."""

import math
from dataclasses import replace

import numpy as np
import pytest

from hardware.fabric_specs import fabric
from policies.fabric.model.contention import CONTENTION, contention_features
from policies.fabric.model.contention_kernels import MEASURES
from policies.fabric.model.cycle_kernels import max_cycle_ratio
from policies.fabric.model.features import FEATURES, Featurizer
from tests.fabric.cases import SMALL, placed, random_pipeline

PLASTICINE = fabric("plasticine-8x16")


def cases(machine, count=12):
    random = np.random.default_rng(4)
    pipelines = [random_pipeline(random, machine) for _ in range(count)]
    return [(pipeline, placed(pipeline, machine, random)) for pipeline in pipelines]


class Plain:
    """The definition, net by net, with ways to sinks followed link by link."""

    def __init__(self, pipeline, placement, machine):
        self.pipeline, self.placement, self.machine = pipeline, placement, machine
        self.featurizer = Featurizer(pipeline, machine)
        self.routes = [placement.route(number) for number in range(len(pipeline.nets))]
        load, self.flows = {}, {}
        for net, route in zip(pipeline.nets, self.routes, strict=True):
            for link in route:
                load[link] = load.get(link, 0) + net.flits
                self.flows[link] = self.flows.get(link, 0) + 1
        dead = {link: 1 + machine.switch_slots * (self.flows[link] > machine.tracks) for link in load}
        self.slots = {link: load[link] / machine.tracks * dead[link] for link in load}

    def way(self, net, sink):
        """Links from a net's source to a sink."""
        grid, site = self.machine.grid, self.placement.site
        into = {int(grid.link_to[link]): link for link in self.routes[net]}
        here, links = int(grid.site_cell[site[sink.unit]]), []
        while here != int(grid.site_cell[site[self.pipeline.nets[net].source]]):
            links.append(into[here])
            here = int(grid.link_from[into[here]])
        return links[::-1]

    def wait(self, net, link, period):
        if self.flows[link] <= self.machine.tracks:
            return 0.0
        others = self.slots[link] - self.pipeline.nets[net].flits / self.machine.tracks
        busy = min(0.95, others / period)
        return busy / (1 - busy) * (1 + self.machine.switch_slots)

    def ways(self):
        """(net, sink, way) in the order of sinks."""
        for number, net in enumerate(self.pipeline.nets):
            for sink in net.sinks:
                yield number, sink, self.way(number, sink)

    def period(self, period, has_waits):
        machine, events = self.machine, self.featurizer.case.events
        ways = list(self.ways())
        weight, tokens = events.weight.copy(), events.tokens.copy()
        for arc in np.flatnonzero(events.sink >= 0):
            net, _, way = ways[events.sink[arc]]
            weight[arc] += events.hop_weight[arc] * len(way)
            if events.flits[arc]:
                room = events.places[arc]
                for link in way:
                    part = machine.buffer_flits // math.ceil(self.flows[link] / machine.tracks)
                    room += min(max(part, machine.min_flow_flits), machine.max_flow_flits)
                tokens[arc] = math.ceil(room / events.flits[arc])
                weight[arc] += math.floor((tokens[arc] * events.flits[arc] - room) * events.step[arc])
            elif has_waits and not events.tokens[arc]:
                weight[arc] += sum(self.wait(net, link, period) for link in way)
        room = np.empty(events.nodes), np.empty(events.nodes, np.int64), np.empty(events.nodes, np.int64)
        return max_cycle_ratio(events.arc_from, events.arc_to, weight, tokens, events.least, *room)

    def measures(self):
        slowest = self.featurizer.base_slots
        busiest = max(self.slots.values(), default=0.0)
        places = self.period(slowest, False)
        first = self.period(max(places, busiest), True)
        before_last = max(first, busiest)
        second = self.period(before_last, True)
        waits = [(net, sink, sum(self.wait(net, each, before_last) for each in way)) for net, sink, way in self.ways()]
        nets = self.pipeline.nets
        # A tree has no loose ends, so its slowest cell is a sink's.
        slow = [max(wait for number, _, wait in waits if number == net) for net in range(len(nets))]
        unit = np.zeros(len(self.pipeline.units))
        for number, net in enumerate(nets):
            unit[net.source] += net.flits * slow[number] / (len(self.routes[number]) + 1)
        for _, sink, wait in waits:
            unit[sink.unit] += wait
        isolated = self.featurizer.isolated
        peaks = [max((self.slots[link] for link in route), default=0.0) for route in self.routes]
        return {
            "switched": busiest,
            "second_switched": sorted([*self.slots.values(), 0, 0])[-2],
            "places_period": places,
            "wait_period": first,
            "next_wait_period": second,
            "settled": max(second, busiest),
            "flit_wait": sum(net.flits * wait for net, wait in zip(nets, slow, strict=True)) / len(nets),
            "unit_wait": unit.max(),
            "slow_unit": (isolated + unit).max(),
            "mean_unit_wait": unit.mean(),
            "critical_wait": ((isolated / slowest) ** 4 * (1 + unit)).sum(),
            "net_wait": max(net.flits * (1 + wait) for net, wait in zip(nets, slow, strict=True)),
            "tree_peak": max(peak * len(net.sinks) ** 0.25 for net, peak in zip(nets, peaks, strict=True)),
            "sum_of_nets": slowest
            * sum((net.flits * (1 + wait) / slowest) ** 4 for net, wait in zip(nets, slow, strict=True)),
        }


@pytest.mark.parametrize("machine", [SMALL, replace(SMALL, tracks=2, switch_slots=3)], ids=["one track", "two tracks"])
def test_features_are_those_of_their_definition(machine):
    for pipeline, placement in cases(machine):
        plain = Plain(pipeline, placement, machine)
        features = dict(zip(CONTENTION, contention_features(plain.featurizer, placement), strict=True))
        for name, value in plain.measures().items():
            expected = math.log(max(value / plain.featurizer.base_slots, 1e-3))
            assert features[name] == pytest.approx(expected, abs=1e-6), name


def test_with_a_track_for_every_net_nothing_waits():
    machine = replace(SMALL, tracks=64)
    for pipeline, placement in cases(machine, 6):
        featurizer = Featurizer(pipeline, machine)
        features = dict(zip(CONTENTION, contention_features(featurizer, placement), strict=True))
        hand = dict(zip(FEATURES, featurizer(placement), strict=True))
        assert features["wait_period"] == features["places_period"]
        assert features["switched"] == pytest.approx(hand["max_load"])
        assert {features[name] for name in ("flit_wait", "unit_wait", "mean_unit_wait")} == {math.log(1e-3)}


def test_every_measure_has_a_name():
    assert len(CONTENTION) == MEASURES
