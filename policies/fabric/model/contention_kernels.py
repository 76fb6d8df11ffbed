"""How long flits wait where nets share links, estimated without simulation, compiled."""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hardware.compiled import compiled, kernel
from policies.fabric.model.cycle_kernels import max_cycle_ratio

(
    SWITCHED,
    SECOND,
    FOURTH,
    EIGHTH,
    PLACES_PERIOD,
    WAIT_PERIOD,
    NEXT_WAIT_PERIOD,
    SETTLED,
    FLIT_WAIT,
    UNIT_WAIT,
    SLOW_UNIT,
    MEAN_UNIT_WAIT,
    CRITICAL_WAIT,
    NET_WAIT,
    TREE_PEAK,
    SUM_OF_NETS,
) = range(16)
"""Numbers of what :func:`contention` finds."""

MEASURES = 16

_RANKS = (0, 1, 3, 7)
"""Of the links, the busiest one first, whose slots are measures: their numbers are the first four."""

_MAX_BUSY = 0.95
"""Share of the time that a link is busy with other nets counts as no more: a wait is finite."""


class Waits(NamedTuple):
    """What a placement makes of links, nets and routes.

    Attributes:
        slots: of every link for a sample, with dead slots after every flit where nets share it, [L].
        flows: nets on every link, [L].
        places: of each net in the queue at the end of every link, [L].
        net: slots that a flit waits on the way to the sink where it waits longest, [N].
        busiest: slots of the busiest link of each net, [N].
        hops, wait, room: links, slots that a flit waits, and places, from each net's source to each sink, [K].
        depth, waited, passed: room for the same of cells, [C].
    """

    slots: npt.NDArray[np.float64]
    flows: npt.NDArray[np.float64]
    places: npt.NDArray[np.float64]
    net: npt.NDArray[np.float64]
    busiest: npt.NDArray[np.float64]
    hops: npt.NDArray[np.float64]
    wait: npt.NDArray[np.float64]
    room: npt.NDArray[np.float64]
    depth: npt.NDArray[np.float64]
    waited: npt.NDArray[np.float64]
    passed: npt.NDArray[np.float64]


@kernel
def _fill_links(case, route_first, route_link, waits):
    """Slots, flows and places of every link."""
    waits.slots[:] = 0.0
    waits.flows[:] = 0.0
    for net in range(len(case.source)):
        for place in range(route_first[net], route_first[net + 1]):
            waits.slots[route_link[place]] += case.flits[net] / case.tracks
            waits.flows[route_link[place]] += 1.0
    for link in range(len(waits.slots)):
        flows = max(1.0, np.ceil(waits.flows[link] / case.tracks))
        waits.places[link] = min(max(np.floor(case.buffer_flits / flows), case.min_flow_flits), case.max_flow_flits)
        if waits.flows[link] > case.tracks:
            waits.slots[link] *= 1.0 + case.switch_slots


@kernel
def _link_wait(case, waits, net, link, period):
    """Slots that a flit waits for others at a link: those of a queue whose server is busy with them so often."""
    if waits.flows[link] <= case.tracks:
        return 0.0
    busy = min(_MAX_BUSY, (waits.slots[link] - case.flits[net] / case.tracks) / period)
    return busy * (1.0 + case.switch_slots) / (1.0 - busy) if busy > 0.0 else 0.0


@kernel
def _fill_routes(case, site, route_first, route_link, waits, period):
    """Waits where a sample takes ``period`` slots."""
    for net in range(len(case.source)):
        start = case.site_cell[site[case.source[net]]]
        waits.depth[start], waits.waited[start], waits.passed[start] = 0.0, 0.0, 0.0
        waits.net[net], waits.busiest[net] = 0.0, 0.0
        for place in range(route_first[net], route_first[net + 1]):
            link = route_link[place]
            before, after = case.link_from[link], case.link_to[link]
            waits.depth[after] = waits.depth[before] + 1.0
            waits.waited[after] = waits.waited[before] + _link_wait(case, waits, net, link, period)
            waits.passed[after] = waits.passed[before] + waits.places[link]
            waits.net[net] = max(waits.net[net], waits.waited[after])
            waits.busiest[net] = max(waits.busiest[net], waits.slots[link])
        for place in range(case.sink_first[net], case.sink_first[net + 1]):
            cell = case.site_cell[site[case.sink[place]]]
            waits.hops[place] = waits.depth[cell]
            waits.wait[place] = waits.waited[cell]
            waits.room[place] = waits.passed[cell]


@kernel
def _period(events, waits, has_waits, weight, tokens, distance, head, mark):
    """The least period where queues have the places that sharing leaves, and flits wait or not."""
    for arc in range(len(events.weight)):
        weight[arc] = events.weight[arc]
        tokens[arc] = events.tokens[arc]
        sink = events.sink[arc]
        if sink < 0:
            continue
        weight[arc] += events.hop_weight[arc] * waits.hops[sink]
        if events.flits[arc] > 0.0:
            # As in :func:`policies.fabric.model.feature_kernels.measure`, with these places.
            places = events.places[arc] + waits.room[sink]
            samples = np.ceil(places / events.flits[arc])
            tokens[arc] = samples
            weight[arc] += np.floor((samples * events.flits[arc] - places) * events.step[arc])
        elif has_waits and events.tokens[arc] == 0.0:
            # Flits wait on their way; tokens that come back do not.
            weight[arc] += waits.wait[sink]
    return max_cycle_ratio(events.arc_from, events.arc_to, weight, tokens, events.least, distance, head, mark)


@kernel
def _measure_nets(case, route_first, waits, unit, out):
    """The measures of nets, and what waits at every unit."""
    unit[:] = 0.0
    for net in range(len(case.source)):
        sinks, links = case.sink_first[net + 1] - case.sink_first[net], route_first[net + 1] - route_first[net]
        slots = case.flits[net] * (1.0 + waits.net[net])
        relative = slots / case.slowest
        out[NET_WAIT] = max(out[NET_WAIT], slots)
        out[TREE_PEAK] = max(out[TREE_PEAK], waits.busiest[net] * sinks**0.25)
        out[FLIT_WAIT] += case.flits[net] * waits.net[net] / len(case.source)
        out[SUM_OF_NETS] += relative * relative * relative * relative
        unit[case.source[net]] += case.flits[net] * waits.net[net] / (links + 1.0)
        for place in range(case.sink_first[net], case.sink_first[net + 1]):
            unit[case.sink[place]] += waits.wait[place]


@kernel
def _measure_units(case, isolated, unit, out):
    """The measures of units."""
    for number in range(len(unit)):
        out[UNIT_WAIT] = max(out[UNIT_WAIT], unit[number])
        out[SLOW_UNIT] = max(out[SLOW_UNIT], isolated[number] + unit[number])
        out[MEAN_UNIT_WAIT] += unit[number] / len(unit)
        relative = isolated[number] / case.slowest
        out[CRITICAL_WAIT] += relative * relative * relative * relative * (1.0 + unit[number])


@compiled
def contention(case, isolated, site, route_first, route_link):
    """All measures of a placement, [16].

    ``isolated``: slots of every unit in isolation, [U].
    """
    nets, links, sinks, events = len(case.source), len(case.link_from), len(case.sink), case.events
    waits = Waits(
        np.empty(links),
        np.empty(links),
        np.empty(links),
        np.empty(nets),
        np.empty(nets),
        np.empty(sinks),
        np.empty(sinks),
        np.empty(sinks),
        np.empty(case.cells),
        np.empty(case.cells),
        np.empty(case.cells),
    )
    weight, tokens, distance = np.empty(len(events.weight)), np.empty(len(events.weight)), np.empty(events.nodes)
    head, mark, unit = np.empty(events.nodes, np.int64), np.empty(events.nodes, np.int64), np.empty(len(site))
    out = np.zeros(MEASURES)
    _fill_links(case, route_first, route_link, waits)
    ordered = np.sort(waits.slots)
    for number, rank in enumerate(_RANKS):
        out[number] = ordered[max(0, links - 1 - rank)]
    period = case.slowest
    for number in (PLACES_PERIOD, WAIT_PERIOD, NEXT_WAIT_PERIOD):
        _fill_routes(case, site, route_first, route_link, waits, period)
        out[number] = _period(events, waits, number != PLACES_PERIOD, weight, tokens, distance, head, mark)
        period = max(out[number], out[SWITCHED])
    out[SETTLED] = period
    _measure_nets(case, route_first, waits, unit, out)
    _measure_units(case, isolated, unit, out)
    return out
