"""The timed event graph of a pipeline without contention, whose least period is a feature of placements.

Every net has the fabric to itself: only units, ports, channels, buffers and the latencies of routes limit how often a
sample departs. An arc (a, b, weight, tokens) says that event b of sample n is no earlier than event a of sample
n − tokens, plus weight. The least period is the maximum cycle ratio Σ weight / Σ tokens (Baccelli, Cohen, Olsder and
Quadrat, "Synchronization and Linearity", 1992, chapter 2).

A compute unit has the events of its first and last step, a memory unit one in which a sample is whole. A net has those
in which its first and last flit is read from a memory or input unit, and, for each sink of another kind than compute,
in which its first and last flit is written. Flits arrive after the latency of the route; a memory unit takes another
sample when the token of each reader has come back; and a source is never further ahead of a reader than the places of
the net's queues. Each arc states what the simulator's rules (:mod:`dse.fabric.evaluators`) say of some placement
without contention, and contention only delays, so the period is a lower bound of the slots of a sample as well.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dse.fabric.model import Net, Pipeline, Sink, UnitKind
from dse.fabric.rules import isolated_slots
from hardware.fabrics import Fabric

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class EventGraph(NamedTuple):
    """Arcs whose weights and tokens depend on the links between a net's source and each sink.

    Attributes:
        nodes: events.
        least: isolated slots of the slowest unit: no period is below.
        arc_from, arc_to: [A].
        weight: without hops, [A].
        hop_weight: added for every link to the sink, [A].
        tokens: of the arcs that have a fixed number; of the others, see ``flits``, [A].
        sink: whose links count, by number over all nets; −1: none do, [A].
        flits: of the net, where the arc is one of back-pressure: its tokens are the whole samples that fit in the
            queues; otherwise 0, [A].
        places: in the queue at the source's port, of such an arc, [A].
        hop_places: in the queue at the end of every link, of such an arc.
        step: slots between two flits that the reader takes, of such an arc, [A].
    """

    nodes: int
    least: float
    arc_from: Integers
    arc_to: Integers
    weight: Floats
    hop_weight: Floats
    tokens: Floats
    sink: Integers
    flits: Floats
    places: Floats
    hop_places: float
    step: Floats


class _Arc(NamedTuple):
    source: int
    target: int
    weight: float
    tokens: float = 0.0
    hop_weight: float = 0.0
    sink: int = -1
    flits: int = 0
    places: int = 0
    step: float = 0.0


def event_graph(pipeline: Pipeline, fabric: Fabric) -> EventGraph:
    """The event graph of a pipeline on a fabric."""
    arcs = list(_Arcs(pipeline, fabric).all())
    values = dict(zip(_Arc._fields, zip(*arcs, strict=True), strict=True)) if arcs else {}

    def integers(name: str) -> Integers:
        return np.array(values.get(name, ()), dtype=np.int64)

    def floats(name: str) -> Floats:
        return np.array(values.get(name, ()), dtype=np.float64)

    return EventGraph(
        nodes=2 * (len(pipeline.units) + len(pipeline.nets) + sum(len(net.sinks) for net in pipeline.nets)),
        least=float(isolated_slots(pipeline, fabric).max(initial=1)),
        arc_from=integers("source"),
        arc_to=integers("target"),
        weight=floats("weight"),
        hop_weight=floats("hop_weight"),
        tokens=floats("tokens"),
        sink=integers("sink"),
        flits=floats("flits"),
        places=floats("places"),
        hop_places=float(_flow_places(fabric)),
        step=floats("step"),
    )


def _flow_places(fabric: Fabric) -> int:
    """Places at the end of a link for a flow that is alone on its track."""
    return max(fabric.min_flow_flits, min(fabric.max_flow_flits, fabric.buffer_flits))


@dataclass(frozen=True)
class _Arcs:
    """The arcs of a pipeline on a fabric."""

    pipeline: Pipeline
    fabric: Fabric

    def all(self) -> Iterator[_Arc]:
        """All arcs."""
        for unit, steps in enumerate(self.pipeline.steps.tolist()):
            if steps:
                yield from _busy(2 * unit, steps)
        for net in range(len(self.pipeline.nets)):
            yield from self._source_arcs(net)
            for place in range(len(self.pipeline.nets[net].sinks)):
                yield from self._sink_arcs(net, place)

    def _is(self, unit: int, kind: UnitKind) -> bool:
        return self.pipeline.units[unit].kind == kind

    @cached_property
    def _first_sink(self) -> list[int]:
        """The number of each net's first sink over all nets, [N]."""
        return [0, *accumulate(len(net.sinks) for net in self.pipeline.nets)]

    @cached_property
    def _writers(self) -> dict[int, list[tuple[int, int]]]:
        """(net, place among its sinks) of what writes each memory unit."""
        writers: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for number, net in enumerate(self.pipeline.nets):
            for place, sink in enumerate(net.sinks):
                if self._is(sink.unit, UnitKind.MEMORY):
                    writers[sink.unit].append((number, place))
        return writers

    def _sent(self, number: int) -> int:
        """The event before which no flit of a net is sent, one before that in which its last one is."""
        net, units = self.pipeline.nets[number], len(self.pipeline.units)
        return 2 * (net.source if self._is(net.source, UnitKind.COMPUTE) else units + number)

    def _taken(self, number: int, place: int) -> int:
        """The event in which a sink takes the first flit of a net, one before that in which it has taken the last."""
        unit = self.pipeline.nets[number].sinks[place].unit
        if self._is(unit, UnitKind.COMPUTE):
            return 2 * unit
        return 2 * (len(self.pipeline.units) + len(self.pipeline.nets) + self._first_sink[number] + place)

    def _source_arcs(self, number: int) -> Iterator[_Arc]:
        """Flits are read from a memory or input unit in sequence; of a memory unit when the sample is whole."""
        net, first = self.pipeline.nets[number], self._sent(number)
        if self._is(net.source, UnitKind.COMPUTE):
            return
        slots = self.fabric.transposed_read_slots if net.transposed else 1
        if self._is(net.source, UnitKind.INPUT):
            slots = self.fabric.channel_slots
        yield from _busy(first, 1 + (net.flits - 1) * slots)
        if net.source in self._writers:
            yield _Arc(2 * net.source, first, 1.0)

    def _sink_arcs(self, number: int, place: int) -> Iterator[_Arc]:
        """The net on its way to one sink, and what comes back."""
        net = self.pipeline.nets[number]
        sink, first, taken = net.sinks[place], self._sent(number), self._taken(number, place)
        steps = int(self.pipeline.steps[net.source])
        emitted = _first_emission(steps, net) if steps else 0
        delay = self.fabric.channel_latency_slots if self._is(net.source, UnitKind.INPUT) else 0
        latency = self.fabric.port_slots + delay
        interval, rest = _reading(self.pipeline, net, sink)
        by = self._first_sink[number] + place
        hop = float(self.fabric.hop_slots)
        yield _Arc(first, taken, emitted + latency, hop_weight=hop, sink=by)
        yield _Arc(first + 1, taken + 1, latency + rest, hop_weight=hop, sink=by)
        if not self._is(sink.unit, UnitKind.COMPUTE):
            yield from _busy(taken, net.flits)
        if self._is(sink.unit, UnitKind.MEMORY):
            yield _Arc(taken + 1, 2 * sink.unit, 0.0)
        samples = self.pipeline.units[net.source].samples
        for writer in self._writers.get(net.source, ()):
            # The token of the sink frees the place of the sample.
            yield _Arc(taken + 1, self._taken(*writer), 1.0, tokens=samples, hop_weight=hop, sink=by)
        # A compute unit can begin a sample before there is room for its first flit, but not end it.
        waits, after = (first + 1, steps - emitted) if steps else (first, 1)
        places = self.fabric.port_flits + delay
        yield _Arc(taken, waits, after, sink=by, flits=net.flits, places=places, step=interval)


def _busy(first: int, slots: int) -> Iterator[_Arc]:
    """Two events that are so many slots apart, counting both, and then the next sample's."""
    yield _Arc(first, first + 1, slots - 1.0)
    yield _Arc(first + 1, first, 1.0, tokens=1.0)


def _first_emission(steps: int, net: Net) -> int:
    """Steps before the one in which a compute unit writes its first flit of a net."""
    start = steps // 2 if net.late else 0
    return start - (-(steps - start) // net.flits) - 1


def _reading(pipeline: Pipeline, net: Net, sink: Sink) -> tuple[float, float]:
    """(slots between two flits that a reader takes, at least; slots that it works on after the last one)."""
    if pipeline.units[sink.unit].kind != UnitKind.COMPUTE:
        return 1.0, 0.0
    steps = int(pipeline.steps[sink.unit])
    within = (steps + 1) // 2 if sink.early else steps
    return within / net.flits, float(steps - ((net.flits - 1) * within // net.flits + 1))
