"""What a placement does to links and nets, compiled."""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hardware.compiled import compiled, kernel
from policies.fabric.model.cycle_kernels import max_cycle_ratio
from policies.fabric.model.event_graph import EventGraph

(
    OFF_CHIP,
    MAX_LOAD,
    BUSY,
    SOFT_LOAD,
    MEAN_LOAD,
    SQUARED_LOAD,
    EXPERT,
    ROUTE,
    QUEUE,
    HOPS,
    WIRELENGTH,
    DEPTH,
    MAX_SHARING,
    MEAN_SHARING,
    PERIOD,
) = range(15)
"""Numbers of what :func:`measure` finds."""

MEASURES = 15


class Case(NamedTuple):
    """What the measures read of a pipeline and a fabric.

    Attributes:
        source: of every net, [N].
        sink_first, sink: its readers, [N + 1] and flat, [K].
        flits: [N].
        bursts: of every net, runs of at most ``burst_flits`` flits, [N].
        isolated: slots of its source in isolation, [N].
        channel_slots: of each unit, [U].
        site_cell: [S].
        site_channel: of input and output sites, −1 for others, [S].
        link_from, link_to: [L].
        cells, channels: how many there are.
        tracks, hop_slots, switch_slots, buffer_flits, min_flow_flits, max_flow_flits: of the fabric.
        slowest: isolated slots of the slowest unit.
        events: the event graph.
    """

    source: npt.NDArray[np.int64]
    sink_first: npt.NDArray[np.int64]
    sink: npt.NDArray[np.int64]
    flits: npt.NDArray[np.float64]
    bursts: npt.NDArray[np.float64]
    isolated: npt.NDArray[np.float64]
    channel_slots: npt.NDArray[np.float64]
    site_cell: npt.NDArray[np.int64]
    site_channel: npt.NDArray[np.int64]
    link_from: npt.NDArray[np.int64]
    link_to: npt.NDArray[np.int64]
    cells: int
    channels: int
    tracks: float
    hop_slots: float
    switch_slots: float
    buffer_flits: float
    min_flow_flits: float
    max_flow_flits: float
    slowest: float
    events: EventGraph


@kernel
def _spread(case, site, route_first, route_link, links, depth, hops):
    """Fill ``links`` (load, flows, rate and bursts of every link, [4, L]) and ``hops`` to every sink, [K]."""
    links[:] = 0.0
    for net in range(len(case.source)):
        depth[case.site_cell[site[case.source[net]]]] = 0.0
        for place in range(route_first[net], route_first[net + 1]):
            link = route_link[place]
            links[0, link] += case.flits[net]
            links[1, link] += 1.0
            links[2, link] += case.flits[net] / case.isolated[net]
            links[3, link] += case.bursts[net]
            depth[case.link_to[link]] = depth[case.link_from[link]] + 1.0
        for place in range(case.sink_first[net], case.sink_first[net + 1]):
            hops[place] = depth[case.site_cell[site[case.sink[place]]]]


@kernel
def _measure_links(case, links, out):
    """The measures of the links alone."""
    used, total, squared, eighth = 0.0, 0.0, 0.0, 0.0
    for link in range(links.shape[1]):
        load, flows = links[0, link] / case.tracks, links[1, link]
        if flows == 0.0:
            continue
        switching = case.switch_slots * links[3, link] / case.tracks if flows > case.tracks else 0.0
        out[MAX_LOAD] = max(out[MAX_LOAD], load)
        out[BUSY] = max(out[BUSY], load + switching)
        out[MAX_SHARING] = max(out[MAX_SHARING], flows)
        used += 1.0
        total += load
        squared += load * load
        fourth = load * load * load * load
        eighth += fourth * fourth
    if used > 0.0:
        out[MEAN_LOAD] = total / used
        out[SQUARED_LOAD] = np.sqrt(squared / used)
        out[SOFT_LOAD] = eighth**0.125


@kernel
def _measure_nets(case, route_first, route_link, links, hops, out):
    """The measures of nets on their links."""
    weighted, flits = 0.0, 0.0
    out[EXPERT] = case.slowest
    for net in range(len(case.source)):
        rate, sharing = 0.0, 1.0
        for place in range(route_first[net], route_first[net + 1]):
            link = route_link[place]
            rate = max(rate, links[2, link])
            sharing = max(sharing, links[1, link])
            weighted += case.flits[net] * links[1, link]
            flits += case.flits[net]
        depth = 0.0
        for place in range(case.sink_first[net], case.sink_first[net + 1]):
            depth = max(depth, hops[place])
        flows = max(1.0, np.ceil(sharing / case.tracks))
        places = min(max(np.floor(case.buffer_flits / flows), case.min_flow_flits), case.max_flow_flits)
        out[EXPERT] = max(out[EXPERT], case.isolated[net] * max(1.0, rate / case.tracks))
        out[ROUTE] = max(out[ROUTE], case.flits[net] * sharing + case.hop_slots * depth)
        out[QUEUE] = max(out[QUEUE], case.flits[net] * (case.hop_slots + 1.0) / places)
        out[DEPTH] = max(out[DEPTH], depth)
    out[HOPS] = route_first[-1]
    out[WIRELENGTH] = flits
    out[MEAN_SHARING] = weighted / flits if flits > 0.0 else 1.0


@kernel
def _busiest_channel(case, site, channel):
    """Slots of the busiest channel off chip."""
    channel[:] = 0.0
    busiest = 0.0
    for unit in range(len(site)):
        if case.channel_slots[unit] > 0.0:
            channel[case.site_channel[site[unit]]] += case.channel_slots[unit]
            busiest = max(busiest, channel[case.site_channel[site[unit]]])
    return busiest


@kernel
def _period(events, hops, weight, tokens, distance, head, mark):
    """The least period without contention, where sinks are so many links away."""
    for arc in range(len(events.weight)):
        weight[arc] = events.weight[arc]
        tokens[arc] = events.tokens[arc]
        if events.sink[arc] >= 0:
            links = hops[events.sink[arc]]
            weight[arc] += events.hop_weight[arc] * links
            if events.flits[arc] > 0.0:
                # Flit 0 of a sample waits until the flit `places` before it has been taken: of an earlier sample.
                places = events.places[arc] + events.hop_places * links
                samples = np.ceil(places / events.flits[arc])
                tokens[arc] = samples
                weight[arc] += np.floor((samples * events.flits[arc] - places) * events.step[arc])
    return max_cycle_ratio(events.arc_from, events.arc_to, weight, tokens, events.least, distance, head, mark)


@compiled
def measure(case, site, route_first, route_link):
    """All measures of a placement, [15], in slots of a sample where these are loads or periods."""
    events = case.events
    links, depth = np.empty((4, len(case.link_from))), np.empty(case.cells)
    hops, channel = np.empty(len(case.sink)), np.empty(case.channels)
    out = np.zeros(MEASURES)
    _spread(case, site, route_first, route_link, links, depth, hops)
    _measure_links(case, links, out)
    _measure_nets(case, route_first, route_link, links, hops, out)
    out[OFF_CHIP] = _busiest_channel(case, site, channel)
    distance, head, mark = np.empty(events.nodes), np.empty(events.nodes, np.int64), np.empty(events.nodes, np.int64)
    weight, tokens = np.empty(len(events.weight)), np.empty(len(events.weight))
    out[PERIOD] = _period(events, hops, weight, tokens, distance, head, mark)
    return out


@compiled
def spread(case, site, route_first, route_link):
    """Load, flows, rate and bursts of every link, [4, L], and links from each net's source to each sink, [K]."""
    links, depth, hops = np.empty((4, len(case.link_from))), np.empty(case.cells), np.empty(len(case.sink))
    _spread(case, site, route_first, route_link, links, depth, hops)
    return links, hops
