"""Lower bounds on the slots of a sample, for any placement and any routes.

A pipeline that runs on and on cannot have less than this between two departures. Every bound is an argument about one
resource: how often it is busy, or held, for each sample. The simulator's rules are those of
:mod:`dse.fabric.evaluators`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Literal

import numpy as np

from dse.fabric.model import Net, Pipeline, Sink, UnitKind
from dse.fabric.rules import channel_slots, read_port_slots, write_port_slots
from dse.run.remembered import Remembered, Same
from hardware.fabrics import Fabric

Resource = Literal["compute", "memory_port", "off_chip", "links", "buffer", "queue"]

_OFF_CHIP = (UnitKind.INPUT, UnitKind.OUTPUT)


@dataclass(frozen=True, slots=True)
class Bound:
    """What no placement can beat.

    Attributes:
        slots: of a sample, at least.
        resource: that needs them.
        unit: number of the unit that it belongs to; −1 for the channels off chip together.
    """

    slots: float
    resource: Resource
    unit: int


_BOUNDS: Remembered[tuple[Bound, ...]] = Remembered(64)
"""Of the last pipelines: the answer, its batch and its check need the same ones."""


def bound(pipeline: Pipeline, fabric: Fabric) -> Bound:
    """The largest of all bounds; of equal ones the first of :func:`bounds`."""
    return max(bounds(pipeline, fabric), key=lambda each: each.slots)


def own_bound(pipeline: Pipeline, fabric: Fabric) -> Bound:
    """The largest of :func:`own_bounds`: what learned models see and tuned rules are judged by, whatever is added."""
    return max(own_bounds(pipeline, fabric), key=lambda each: each.slots)


def bounds(pipeline: Pipeline, fabric: Fabric) -> list[Bound]:
    """All bounds."""
    key = Same(pipeline), Same(fabric)
    return list(_BOUNDS.get(key, lambda: (*own_bounds(pipeline, fabric), *_stay_bounds(pipeline, fabric))))


def own_bounds(pipeline: Pipeline, fabric: Fabric) -> list[Bound]:
    """Those about a resource and its neighbours alone, resource by resource."""
    return [
        *_compute_bounds(pipeline),
        *_port_bounds(pipeline, fabric),
        *_channel_bounds(pipeline, fabric),
        *_link_bounds(pipeline, fabric),
        *_buffer_bounds(pipeline, fabric),
        *_queue_bounds(pipeline, fabric),
    ]


def _compute_bounds(pipeline: Pipeline) -> Iterator[Bound]:
    """A compute unit goes through all its steps for a sample, one a slot at most."""
    for number, steps in enumerate(pipeline.steps.tolist()):
        if steps:
            yield Bound(steps, "compute", number)


def _port_bounds(pipeline: Pipeline, fabric: Fabric) -> Iterator[Bound]:
    """A port passes one flit at a time, and which nets it serves does not depend on the placement."""
    reads, writes = read_port_slots(pipeline, fabric), write_port_slots(pipeline, fabric)
    for number in reads:
        if pipeline.units[number].shares_banks:
            yield Bound(sum(reads[number]) + sum(writes[number]), "memory_port", number)
        else:
            yield Bound(max(reads[number] + writes[number]), "memory_port", number)


def _channel_bounds(pipeline: Pipeline, fabric: Fabric) -> Iterator[Bound]:
    """A channel passes one flit at a time; wherever the units are, some channel has its share."""
    slots = channel_slots(pipeline, fabric)
    units = np.flatnonzero(slots)
    if len(units):
        yield Bound(min_busiest(slots[units].tolist(), fabric.channel_count), "off_chip", -1)


def min_busiest(loads: Sequence[int], servers: int) -> float:
    """A load that some server has at least, however ``loads`` are dealt out.

    The largest load is on one of them; one of them has the mean or more; and of the s + 1 largest loads two share a
    server of s.
    """
    ordered = sorted(loads, reverse=True)
    shared = ordered[servers - 1] + ordered[servers] if len(ordered) > servers else 0
    return max(ordered[0], sum(ordered) / servers, shared)


def _link_bounds(pipeline: Pipeline, fabric: Fabric) -> Iterator[Bound]:
    """A net goes into a cell by one link at most, and comes out by one at least.

    So what a unit of a cell reads from other cells is dealt out to the tracks of the few links into its cell, and
    likewise what it sends. Only input and output units can be at its own switch; their nets are left out.
    """
    tracks = {kind: _links_at(fabric, kind) * fabric.tracks for kind in (UnitKind.COMPUTE, UnitKind.MEMORY)}
    into: list[list[int]] = [[] for _ in pipeline.units]
    out_of: list[list[int]] = [[] for _ in pipeline.units]
    for net in pipeline.nets:
        if pipeline.units[net.source].kind not in _OFF_CHIP:
            for sink in net.sinks:
                into[sink.unit].append(net.flits)
        if any(pipeline.units[sink.unit].kind not in _OFF_CHIP for sink in net.sinks):
            out_of[net.source].append(net.flits)
    for number, unit in enumerate(pipeline.units):
        if unit.kind in tracks:
            for flits in (into[number], out_of[number]):
                if flits:
                    yield Bound(min_busiest(flits, max(1, tracks[unit.kind])), "links", number)


def _links_at(fabric: Fabric, kind: UnitKind) -> int:
    """Links into a cell that takes units of ``kind``, and out of it, at most."""
    grid = fabric.grid
    degree = np.bincount(grid.link_to, minlength=grid.cells)
    return int(degree[grid.site_cell[grid.sites(kind.site)]].max(initial=0))


def _buffer_bounds(pipeline: Pipeline, fabric: Fabric) -> Iterator[Bound]:
    """The place of a sample in a memory unit is taken from its first flit until the last token comes back.

    A unit with P places begins P samples in that time, at most. The sample is written through the ports; then it is
    read, goes one hop to any cell but its own, is worked on, and the token returns over as many hops.
    """
    writes = write_port_slots(pipeline, fabric)
    for net in pipeline.nets:
        unit = pipeline.units[net.source]
        if unit.kind != UnitKind.MEMORY or not any(writes[net.source]):
            continue
        ports = writes[net.source]
        written = sum(ports) if unit.shares_banks else max(ports)
        held = max(_reading_slots(pipeline, fabric, net, sink) for sink in net.sinks)
        yield Bound((written + held) / unit.samples, "buffer", net.source)


def _stay_bounds(pipeline: Pipeline, fabric: Fabric) -> Iterator[Bound]:
    """As :func:`_buffer_bounds`, with all that a reader waits for in addition to the buffer.

    A kept activation is read by a backward operator that also needs what other units make of the same sample, in
    sequence. From when a sample is whole, each of them ends no sooner than the way to it and its work allow
    (:func:`_end_slots`), a memory unit passes it on when it is whole, and the longest chain of these counts. Only a
    compute unit takes all that it reads together: others return the token of a net whatever comes by the next one.
    """
    writes = write_port_slots(pipeline, fabric)
    held = [
        number
        for number, unit in enumerate(pipeline.units)
        if unit.kind == UnitKind.MEMORY and any(writes.get(number, ()))
    ]
    row_of = {number: row for row, number in enumerate(held)}
    incoming: list[list[tuple[Net, Sink]]] = [[] for _ in pipeline.units]
    for net in pipeline.nets:
        for sink in net.sinks:
            incoming[sink.unit].append((net, sink))
    ends = np.full((len(pipeline.units), len(held)), -np.inf)  # of a unit, after each buffer's sample is whole
    stay = np.full(len(held), -np.inf)
    for number in _in_order(pipeline):
        if number in row_of:
            ends[number, row_of[number]] = 0
        for net, sink in incoming[number]:
            end = ends[net.source] + _end_slots(pipeline, fabric, net, sink)
            ends[number] = np.maximum(ends[number], end)
        for net, _ in incoming[number]:
            if net.source in row_of and pipeline.units[number].kind == UnitKind.COMPUTE:
                row = row_of[net.source]
                stay[row] = max(stay[row], ends[number, row] + 1 + fabric.hop_slots)
    for row, number in enumerate(held):
        if np.isfinite(stay[row]):
            unit, ports = pipeline.units[number], writes[number]
            written = sum(ports) if unit.shares_banks else max(ports)
            yield Bound(float(written + stay[row]) / unit.samples, "buffer", number)


def _in_order(pipeline: Pipeline) -> list[int]:
    """The units, each behind those that send to it."""
    return list(TopologicalSorter(_sources(pipeline)).static_order())


def _sources(pipeline: Pipeline) -> dict[int, set[int]]:
    sources: dict[int, set[int]] = {number: set() for number in range(len(pipeline.units))}
    for net in pipeline.nets:
        for sink in net.sinks:
            sources[sink.unit].add(net.source)
    return sources


def _end_slots(pipeline: Pipeline, fabric: Fabric, net: Net, sink: Sink) -> int:
    """Slots from when a sample is whole, or from a compute unit's last step of it, until a reader has ended it.

    A memory unit that is written to has ended a sample in the slot from which it is whole.
    """
    source, reader = pipeline.units[net.source], pipeline.units[sink.unit]
    if source.kind == UnitKind.MEMORY:
        hop = 0 if reader.kind in _OFF_CHIP else fabric.hop_slots
        slots = _reading_slots(pipeline, fabric, net, sink) - 1 - hop
    else:
        hop = 0 if {source.kind, reader.kind} & set(_OFF_CHIP) else fabric.hop_slots
        slots = fabric.port_slots + hop
        if reader.kind == UnitKind.COMPUTE:
            slots += int(pipeline.steps[sink.unit]) - _last_step(pipeline, net, sink)
    return slots + (reader.kind == UnitKind.MEMORY)


def _last_step(pipeline: Pipeline, net: Net, sink: Sink) -> int:
    """The step in which a compute unit reads the last flit of a net."""
    steps = int(pipeline.steps[sink.unit])
    within = (steps + 1) // 2 if sink.early else steps
    return (net.flits - 1) * within // net.flits + 1


def _reading_slots(pipeline: Pipeline, fabric: Fabric, net: Net, sink: Sink) -> int:
    """Slots from the first in which a sample can be read until the token of one reader has come back, at least."""
    reader = pipeline.units[sink.unit]
    hop = 0 if reader.kind in _OFF_CHIP else fabric.hop_slots
    arrives = fabric.port_slots + hop
    interval = fabric.transposed_read_slots if net.transposed else 1
    if reader.kind == UnitKind.COMPUTE:
        steps = int(pipeline.steps[sink.unit])
        ends = max(steps - 1, (net.flits - 1) * interval + steps - _last_step(pipeline, net, sink))
    else:
        interval = max(interval, fabric.channel_slots if reader.kind == UnitKind.OUTPUT else 1)
        ends = (net.flits - 1) * interval
    return arrives + ends + 1 + hop


def _queue_bounds(pipeline: Pipeline, fabric: Fabric) -> Iterator[Bound]:
    """A place of a queue takes a flit, lets it be read after its latency, and is free in the slot after.

    Every net has a queue at its source's port; one that goes to another cell has one at the end of a link as well, with
    all places that a flow can have.
    """
    part = max(fabric.min_flow_flits, min(fabric.max_flow_flits, fabric.buffer_flits))
    for net in pipeline.nets:
        delay = fabric.channel_latency_slots if pipeline.units[net.source].kind == UnitKind.INPUT else 0
        slots = net.flits * (fabric.port_slots + delay + 1) / (fabric.port_flits + delay)
        kinds = [pipeline.units[unit].kind for unit in (net.source, *(sink.unit for sink in net.sinks))]
        if kinds[0] not in _OFF_CHIP and any(kind not in _OFF_CHIP for kind in kinds[1:]):
            slots = max(slots, net.flits * (fabric.hop_slots + 1) / part)
        yield Bound(slots, "queue", net.source)
