"""From a placed pipeline to the rows of :mod:`dse.fabric.evaluators.event_state`.

Pins are listed net by net: the source, the links of the route, the sinks. A stable sort by actor then makes the pins of
each actor neighbours, and keeps flows in the order of their nets. Queues are numbered net by net too: the one at the
source, then one for each link.
"""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dse.fabric.evaluators.event_state import ACTOR, FAR, MEMORY, PIN, PLACE, QUEUE, SAMPLE, WHEEL, State
from hardware.compiled import compiled, kernel

Integers = npt.NDArray[np.int64]

_COMPUTE, _MEMORY, _INPUT, _OUTPUT = 0, 1, 2, 3  # as dse.fabric.model.UnitKind

_PIN_ACTOR, _PIN_IN, _PIN_OUT, _PIN_NET, _PIN_UNIT, _PIN_SCHEDULE, _PIN_HOPS = range(7)
_LISTED = 7


class PipelineArrays(NamedTuple):
    """A pipeline, [U] units, [N] nets, [P] sinks.

    Attributes:
        kind, samples, shares_banks, steps: of units.
        writers: nets into each unit, where it is a memory unit.
        consumers: sinks of the nets from each unit.
        source, flits, transposed: of nets.
        sink_first: where the sinks of each net begin in ``sink``, [N + 1].
        sink: the units.
        schedule: steps of all flits of all nets at compute units.
        source_schedule, sink_schedule: where those of each source and of each sink begin.
    """

    kind: Integers
    samples: Integers
    shares_banks: Integers
    steps: Integers
    writers: Integers
    consumers: Integers
    source: Integers
    flits: Integers
    transposed: Integers
    sink_first: Integers
    sink: Integers
    schedule: Integers
    source_schedule: Integers
    sink_schedule: Integers


class FabricArrays(NamedTuple):
    """A fabric: cells, links and first input or output site of its grid, and the constants that the layout needs."""

    site_cell: Integers
    link_from: Integers
    link_to: Integers
    first_io: int
    cells: int
    read_ports: int
    write_ports: int
    transposed_read_slots: int
    tracks: int
    hop_slots: int
    buffer_flits: int
    min_flow_flits: int
    max_flow_flits: int
    burst_flits: int
    switch_slots: int
    port_slots: int
    port_flits: int
    channels: int
    channel_slots: int
    channel_latency_slots: int


@kernel
def _actors(p, f):
    """Number of the first actor of each group: tracks are from 0, then ports, channels and compute units; their end."""
    ports = len(f.link_from) * f.tracks
    channels = ports + len(p.kind) * (f.read_ports + f.write_ports)
    computes = channels + f.channels
    return ports, channels, computes, computes + len(p.kind)


@kernel
def _unit_actor(p, f, site, unit, writes, dealt):
    """The actor of a net at a unit; ``dealt`` counts reads and writes of memory units, [U, 2]."""
    ports, channels, computes, _ = _actors(p, f)
    if p.kind[unit] == _COMPUTE:
        return computes + unit
    if p.kind[unit] != _MEMORY:
        return channels + (site[unit] - f.first_io) % f.channels
    first = ports + unit * (f.read_ports + f.write_ports)
    if p.shares_banks[unit]:
        return first
    number = dealt[unit, writes]
    dealt[unit, writes] += 1
    return first + f.read_ports + number % f.write_ports if writes else first + number % f.read_ports


@kernel
def _list(listed, row, actor, queue_in, queue_out, net, unit, schedule, hops):
    listed[row, _PIN_ACTOR] = actor
    listed[row, _PIN_IN] = queue_in
    listed[row, _PIN_OUT] = queue_out
    listed[row, _PIN_NET] = net
    listed[row, _PIN_UNIT] = unit
    listed[row, _PIN_SCHEDULE] = schedule
    listed[row, _PIN_HOPS] = hops


@kernel
def _list_pins(p, f, site, route_first, route_link, listed, entered, dealt, link_flows):
    """Fill ``listed``; ``entered`` [cells, 3]: net that entered each cell last, its queue there, and the hops to it."""
    row = 0
    for net in range(len(p.source)):
        queue = route_first[net] + net
        unit = p.source[net]
        actor = _unit_actor(p, f, site, unit, 0, dealt)
        _list(listed, row, actor, -1, queue, net, unit, p.source_schedule[net], 0)
        row += 1
        cell = f.site_cell[site[unit]]
        entered[cell, 0], entered[cell, 1], entered[cell, 2] = net, queue, 0
        for index in range(route_first[net], route_first[net + 1]):
            queue += 1
            link = route_link[index]
            start, end = f.link_from[link], f.link_to[link]
            actor = link * f.tracks + link_flows[link] % f.tracks
            link_flows[link] += 1
            hops = entered[start, 2] + 1
            _list(listed, row, actor, entered[start, 1], queue, net, -1, 0, hops)
            row += 1
            entered[end, 0], entered[end, 1], entered[end, 2] = net, queue, hops
        for index in range(p.sink_first[net], p.sink_first[net + 1]):
            unit = p.sink[index]
            cell = f.site_cell[site[unit]]
            actor = _unit_actor(p, f, site, unit, 1, dealt)
            _list(listed, row, actor, entered[cell, 1], -1, net, unit, p.sink_schedule[index], entered[cell, 2])
            row += 1


@kernel
def _sort(listed, actor):
    """Where the pins of each actor begin: FIRST, also the first owner, and LAST, which is to be counted up."""
    for row in range(len(listed)):
        actor[listed[row, _PIN_ACTOR]].last += 1
    first = 0
    for number in range(len(actor)):
        many = actor[number].last
        actor[number].first = actor[number].last = actor[number].owner = first
        first += many


@kernel
def _fill_actors(p, f, actor):
    _, _, computes, _ = _actors(p, f)
    for number in range(len(f.link_from) * f.tracks):
        actor[number].dead = f.switch_slots
    for unit in range(len(p.kind)):
        actor[computes + unit].steps = p.steps[unit]
        actor[computes + unit].at = -1


@kernel
def _fill_pin(p, f, entry, pin, number, fed_samples):
    """The row of one pin of ``entry``, a row of the list, but for its queues' places."""
    net, unit = entry[_PIN_NET], entry[_PIN_UNIT]
    pin[number].actor = entry[_PIN_ACTOR]
    pin[number].reads = entry[_PIN_IN]
    pin[number].writes = entry[_PIN_OUT]
    pin[number].flits = p.flits[net]
    pin[number].slots = 1
    pin[number].source = pin[number].sink = pin[number].token_to = -1
    pin[number].limit = FAR
    pin[number].schedule = entry[_PIN_SCHEDULE]
    if unit < 0:
        return
    kind, reads_queue = p.kind[unit], entry[_PIN_IN] >= 0
    if kind in (_INPUT, _OUTPUT):
        pin[number].slots = f.channel_slots
    if not reads_queue:
        if kind == _MEMORY and p.transposed[net]:
            pin[number].slots = f.transposed_read_slots
        if kind == _MEMORY and p.writers[unit] > 0:
            pin[number].source = unit
        elif kind != _COMPUTE:
            pin[number].limit = fed_samples
        pin[number].gated = kind != _COMPUTE
        return
    if kind == _MEMORY:
        pin[number].sink = unit
        pin[number].gated = True
    pin[number].departs = kind != _COMPUTE and p.consumers[unit] == 0
    source = p.source[net]
    if p.kind[source] == _MEMORY and p.writers[source] > 0:
        pin[number].token_to = source
        pin[number].token_delay = 1 + f.hop_slots * entry[_PIN_HOPS]


@kernel
def _fill_queues(p, f, listed, actor, queue):
    """Latency and places of every queue; returns the places of all."""
    ring = 0
    for row in range(len(listed)):
        number = listed[row, _PIN_OUT]
        if number < 0:
            continue
        unit, producer = listed[row, _PIN_UNIT], listed[row, _PIN_ACTOR]
        if unit >= 0:
            delay = f.channel_latency_slots if p.kind[unit] == _INPUT else 0
            latency, places = f.port_slots + delay, f.port_flits + delay
        else:
            part = f.buffer_flits // (actor[producer].last - actor[producer].first)
            latency, places = f.hop_slots, max(f.min_flow_flits, min(f.max_flow_flits, part))
        queue[number].latency = latency
        queue[number].places = places
        queue[number].ring = queue[number].next_place = ring
        queue[number].first_reader = -1
        ring += places
    return ring


@kernel
def _join(pin, queue):
    """Tell queues who writes and reads them, and readers where the first flit is."""
    for number in range(len(pin)):
        if pin[number].writes >= 0:
            queue[pin[number].writes].producer = number
        source = pin[number].reads
        if source >= 0:
            pin[number].in_place = queue[source].ring
            pin[number].next_reader = queue[source].first_reader
            queue[source].first_reader = number
            queue[source].readers += 1


@kernel
def _fill_memories(p, memory, sample):
    ring = 0
    for unit in range(len(p.kind)):
        memory[unit].samples = p.samples[unit]
        memory[unit].sample_ring = ring
        memory[unit].writers = p.writers[unit]
        memory[unit].consumers = p.consumers[unit]
        for row in range(ring, ring + p.samples[unit]):
            sample[row].unwritten = p.writers[unit]
            sample[row].unreturned = p.consumers[unit]
        ring += p.samples[unit]


@kernel
def _departures(pin):
    """Flows by which a sample departs."""
    departures = 0
    for number in range(len(pin)):
        departures += pin[number].departs
    return departures


@kernel
def _list_flows(pin, flows, flow_first, cursor):
    """Fill in ``flows`` and ``flow_first``, which is 0; ``cursor``: room, [U]."""
    for number in range(len(pin)):
        unit = max(pin[number].source, pin[number].sink)
        if unit >= 0:
            flow_first[unit + 1] += 1
    for unit in range(len(cursor)):
        cursor[unit] = flow_first[unit]
        flow_first[unit + 1] += flow_first[unit]
    for number in range(len(pin)):
        unit = max(pin[number].source, pin[number].sink)
        if unit >= 0:
            flows[cursor[unit]] = number
            cursor[unit] += 1


@kernel
def _list_records(pin, samples, first):
    """Where the slots begin that are recorded of each pin, for so many samples."""
    for number in range(len(pin)):
        first[number + 1] = first[number] + samples * pin[number].flits


@compiled
def lay_out(p, f, site, route_first, route_link, samples, fed_samples, recorded_samples):
    """The state in which the simulation of a legal placement begins.

    ``recorded_samples``: of each pin whose slots are recorded, the last ones; 0 for none.
    """
    nets, units, links = len(p.source), len(p.kind), len(f.link_from)
    pins = nets + len(route_link) + len(p.sink)
    _, _, _, actors = _actors(p, f)
    listed = np.empty((pins, _LISTED), np.int64)
    entered = np.zeros((f.cells, 3), np.int64)
    dealt = np.zeros((units, 2), np.int64)
    _list_pins(p, f, site, route_first, route_link, listed, entered, dealt, np.zeros(links, np.int64))
    actor = np.zeros(actors, ACTOR)
    _sort(listed, actor)
    _fill_actors(p, f, actor)
    pin = np.zeros(pins, PIN)
    unit, net = np.empty(pins, np.int32), np.empty(pins, np.int32)
    wheel = np.zeros((WHEEL, (actors + 63) // 64), np.uint64)
    for row in range(pins):
        number = listed[row, _PIN_ACTOR]
        _fill_pin(p, f, listed[row], pin, actor[number].last, fed_samples)
        unit[actor[number].last] = listed[row, _PIN_UNIT]
        net[actor[number].last] = listed[row, _PIN_NET]
        actor[number].last += 1
    queue = np.zeros(nets + len(route_link), QUEUE)
    places = _fill_queues(p, f, listed, actor, queue)
    _join(pin, queue)
    memory = np.zeros(units, MEMORY)
    sample = np.zeros(p.samples.sum(), SAMPLE)
    _fill_memories(p, memory, sample)
    flows = np.empty(pins, np.int32)
    flow_first = np.zeros(units + 1, np.int32)
    _list_flows(pin, flows, flow_first, np.empty(units, np.int64))
    place = np.zeros(places, PLACE)
    ready = np.zeros(pins, np.int32)
    passed_first = np.zeros(pins + 1, np.int64)
    _list_records(pin, recorded_samples, passed_first)
    departs = np.zeros(samples, np.int32)
    remaining = np.full(samples, _departures(pin), np.int32)
    departed = np.zeros(1, np.int32)
    return State(
        queue=queue,
        place=place,
        pin=pin,
        actor=actor,
        memory=memory,
        sample=sample,
        schedule=p.schedule,
        ready=ready,
        wheel=wheel,
        departs=departs,
        remaining=remaining,
        departed=departed,
        unit=unit,
        flows=flows,
        flow_first=flow_first,
        burst=f.burst_flits,
        net=net,
        passed=np.empty(passed_first[pins], np.int32),
        passed_first=passed_first,
    )
