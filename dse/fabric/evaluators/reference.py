"""The simulator in plain form, slot by slot: the rules of :mod:`dse.fabric.evaluators` as they are written there."""

from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, floor

from dse.fabric.evaluators.outcome import Outcome, require_legal, require_samples, samples_to_feed
from dse.fabric.model import Net, Pipeline, Placement, UnitKind
from hardware.fabrics import Fabric

NEVER = 2**62


@dataclass(slots=True)
class Queue:
    """Flits of a net at one switch: ``written`` holds the slots in which they were written, in order."""

    places: int
    latency: int
    written: list[int] = field(default_factory=list)
    readers: "list[Reader]" = field(default_factory=list)

    def is_full(self) -> bool:
        """Whether no place is free at the beginning of the slot."""
        read = len(self.written) - self.places
        for reader in self.readers:  # noqa: SIM110 - this is asked millions of times, and a generator is slower
            if reader.count <= read:
                return True
        return False


@dataclass(slots=True)
class Reader:
    """One of those that read a queue, and how many flits it has read."""

    queue: Queue
    count: int = 0

    def has_flit(self, slot: int) -> bool:
        """Whether the next flit can be read in ``slot``."""
        queue, count = self.queue, self.count
        return count < len(queue.written) and queue.written[count] + queue.latency <= slot


@dataclass(slots=True)
class Memory:
    """A memory unit: flits written and read by flow, and the slots in which tokens arrive, by consumer."""

    samples: int
    writers: "list[Flow]" = field(default_factory=list)
    tokens: list[list[int]] = field(default_factory=list)

    def whole_samples(self) -> int:
        """Samples that are written."""
        return min(flow.sample for flow in self.writers) if self.writers else NEVER

    def free_samples(self, slot: int) -> int:
        """Samples whose places are free again in ``slot``."""
        if not self.tokens:
            return self.whole_samples()
        return min(sum(arrival <= slot for arrival in arrivals) for arrivals in self.tokens)


@dataclass(slots=True)
class Flow:
    """What a server passes for one net: from a queue or a unit, to a queue or a unit."""

    flits: int
    reader: Reader | None = None
    queue: Queue | None = None
    source: Memory | None = None
    sink: Memory | None = None
    limit: int = NEVER
    slots: int = 1
    returns: "list[Token]" = field(default_factory=list)
    count: int = 0

    @property
    def sample(self) -> int:
        """Whole samples passed."""
        return self.count // self.flits

    def is_ready(self, slot: int) -> bool:
        """Whether the next flit can be passed in ``slot``."""
        reader, queue, source, sink = self.reader, self.queue, self.source, self.sink
        if reader is not None and not reader.has_flit(slot):
            return False
        if queue is not None and queue.is_full():
            return False
        sample = self.sample
        return (
            sample < self.limit
            and (source is None or sample < source.whole_samples())
            and (sink is None or sample < sink.free_samples(slot) + sink.samples)
        )

    def passes(self, slot: int) -> None:
        """Pass a flit in ``slot``."""
        self.count += 1
        if self.reader is not None:
            self.reader.count += 1
        if self.queue is not None:
            self.queue.written.append(slot)
        if self.count % self.flits == 0:
            for token in self.returns:
                token.send(slot)


@dataclass(slots=True)
class Token:
    """From a consumer back to a memory unit."""

    arrivals: list[int]
    delay: int

    def send(self, slot: int) -> None:
        """Send a token in ``slot``."""
        self.arrivals.append(slot + self.delay)


@dataclass(slots=True)
class Server:
    """A track, port or channel."""

    burst: int
    dead_slots: int
    flows: list[Flow] = field(default_factory=list)
    owner: int = 0
    turn: int = 0
    free_at: int = 0

    def choose(self, slot: int) -> int | None:
        """The flow to turn to in this slot, in which the server is free, if any."""
        goes_on = self.flows[self.owner].is_ready(slot)
        if goes_on and self.turn < self.burst:
            return self.owner
        for step in range(1, len(self.flows)):
            other = (self.owner + step) % len(self.flows)
            if self.flows[other].is_ready(slot):
                return other
        return self.owner if goes_on else None

    def serve(self, chosen: int, slot: int) -> None:
        """Pass a flit of the chosen flow in ``slot``, or begin to go over to it."""
        if chosen != self.owner:
            self.owner, self.turn = chosen, 0
            if self.dead_slots:
                self.free_at = slot + self.dead_slots
                return
        self.flows[chosen].passes(slot)
        self.turn = min(self.turn + 1, self.burst)
        self.free_at = slot + self.flows[chosen].slots


@dataclass(slots=True)
class Compute:
    """A compute unit: for each net the steps, from 1, in which its flits are read or written."""

    steps: int
    reads: list[tuple[Reader, list[int]]] = field(default_factory=list)
    writes: list[tuple[Queue, list[int]]] = field(default_factory=list)
    returns: list[Token] = field(default_factory=list)
    step: int = 0
    sample: int = 0

    def can_step(self, slot: int) -> bool:
        """Whether the next step can be done in ``slot``."""
        following = self.step + 1
        return all(reader.has_flit(slot) for reader, steps in self.reads if following in steps) and not any(
            queue.is_full() for queue, steps in self.writes if following in steps
        )

    def do_step(self, slot: int) -> None:
        """Do the next step in ``slot``."""
        self.step += 1
        for reader, steps in self.reads:
            reader.count += self.step in steps
        for queue, steps in self.writes:
            if self.step in steps:
                queue.written.append(slot)
        if self.step == self.steps:
            self.step = 0
            self.sample += 1
            for token in self.returns:
                token.send(slot)


class Machine:
    """All parts of a placed pipeline."""

    def __init__(self, pipeline: Pipeline, placement: Placement, fabric: Fabric, fed_samples: int) -> None:
        self.pipeline, self.placement, self.fabric, self.fed_samples = pipeline, placement, fabric, fed_samples
        self.queues: list[Queue] = []
        self.memories = [Memory(unit.samples) for unit in pipeline.units]
        self.computes = [Compute(int(steps)) for steps in pipeline.steps]
        self.servers: dict[tuple[object, ...], Server] = {}
        self.ends: list[list[Flow]] = [[] for _ in pipeline.units]
        self.flows_of: dict[tuple[object, ...], int] = {}
        self.link_queues: list[tuple[Queue, Server]] = []
        for number, net in enumerate(pipeline.nets):
            self._add_net(number, net)
        for queue, track in self.link_queues:
            part = fabric.buffer_flits // len(track.flows)
            queue.places = max(fabric.min_flow_flits, min(fabric.max_flow_flits, part))

    def _server(self, key: tuple[object, ...], dead_slots: int = 0) -> Server:
        if key not in self.servers:
            self.servers[key] = Server(self.fabric.burst_flits, dead_slots)
        return self.servers[key]

    def _dealt(self, key: tuple[object, ...], many: int) -> tuple[object, ...]:
        """One of ``many`` servers of ``key``, in turn."""
        number = self.flows_of[key] = self.flows_of.get(key, -1) + 1
        return (*key, number % many)

    def _add_net(self, number: int, net: Net) -> None:
        fabric, grid = self.fabric, self.fabric.grid
        first = self._add_source(net)
        at = {int(grid.site_cell[self.placement.site[net.source]]): (first, 0)}
        for link in self.placement.route(number):
            queue, hops = at[int(grid.link_from[link])]
            end = Queue(0, fabric.hop_slots)
            self.queues.append(end)
            track = self._server(self._dealt(("link", link), fabric.tracks), fabric.switch_slots)
            track.flows.append(Flow(net.flits, reader=self._reader(queue), queue=end))
            self.link_queues.append((end, track))
            at[int(grid.link_to[link])] = (end, hops + 1)
        for sink in net.sinks:
            queue, hops = at[int(grid.site_cell[self.placement.site[sink.unit]])]
            returns = []
            if self.pipeline.units[net.source].kind == UnitKind.MEMORY:
                returns.append(Token([], 1 + fabric.hop_slots * hops))
                self.memories[net.source].tokens.append(returns[0].arrivals)
            self._add_sink(net, sink.unit, sink.early, self._reader(queue), returns)

    def _reader(self, queue: Queue) -> Reader:
        reader = Reader(queue)
        queue.readers.append(reader)
        return reader

    def _add_source(self, net: Net) -> Queue:
        unit, fabric = self.pipeline.units[net.source], self.fabric
        delay = fabric.channel_latency_slots if unit.kind == UnitKind.INPUT else 0
        queue = Queue(fabric.port_flits + delay, fabric.port_slots + delay)
        self.queues.append(queue)
        if unit.kind == UnitKind.COMPUTE:
            steps = int(self.pipeline.steps[net.source])
            start = steps // 2 if net.late else 0
            made = [start + ceil(Fraction((k + 1) * (steps - start), net.flits)) for k in range(net.flits)]
            self.computes[net.source].writes.append((queue, made))
            return queue
        flow = Flow(net.flits, queue=queue)
        if unit.kind == UnitKind.INPUT:
            flow.limit, flow.slots = self.fed_samples, fabric.channel_slots
            self._channel(net.source).flows.append(flow)
        else:
            flow.slots = fabric.transposed_read_slots if net.transposed else 1
            flow.source = self.memories[net.source]
            if not any(sink.unit == net.source for other in self.pipeline.nets for sink in other.sinks):
                flow.limit = self.fed_samples
            self._port(net.source, "read", fabric.read_ports).flows.append(flow)
        self.ends[net.source].append(flow)
        return queue

    def _add_sink(self, net: Net, number: int, early: bool, reader: Reader, returns: list[Token]) -> None:
        unit = self.pipeline.units[number]
        if unit.kind == UnitKind.COMPUTE:
            steps = int(self.pipeline.steps[number])
            end = (steps + 1) // 2 if early else steps
            needed = [floor(Fraction(k * end, net.flits)) + 1 for k in range(net.flits)]
            self.computes[number].reads.append((reader, needed))
            self.computes[number].returns.extend(returns)
            return
        flow = Flow(net.flits, reader=reader, returns=returns)
        if unit.kind == UnitKind.OUTPUT:
            flow.slots = self.fabric.channel_slots
            self._channel(number).flows.append(flow)
            self.ends[number].append(flow)
        else:
            flow.sink = self.memories[number]
            flow.sink.writers.append(flow)
            self._port(number, "write", self.fabric.write_ports).flows.append(flow)

    def _channel(self, unit: int) -> Server:
        return self._server(("channel", int(self.fabric.channel_of_site[self.placement.site[unit]])))

    def _port(self, unit: int, direction: str, many: int) -> Server:
        if self.pipeline.units[unit].shares_banks:
            return self._server(("port", unit))
        return self._server(self._dealt(("port", unit, direction), many))

    def ended(self, unit: int) -> int:
        """Samples that a unit has ended: those of its writers for a memory unit that has any."""
        if self.pipeline.units[unit].kind == UnitKind.COMPUTE:
            return self.computes[unit].sample
        return min(flow.sample for flow in self.memories[unit].writers or self.ends[unit])

    def do_slot(self, slot: int) -> bool:
        """One slot; whether anything happened, or can still happen by waiting."""
        stepping = [
            compute
            for unit, compute in zip(self.pipeline.units, self.computes, strict=True)
            if unit.kind == UnitKind.COMPUTE and compute.can_step(slot)
        ]
        choices = [(server, server.choose(slot)) for server in self.servers.values() if server.free_at <= slot]
        for compute in stepping:
            compute.do_step(slot)
        for server, chosen in choices:
            if chosen is not None:
                server.serve(chosen, slot)
        return bool(stepping) or self._is_waiting(slot)

    def _is_waiting(self, slot: int) -> bool:
        return (
            any(server.free_at > slot for server in self.servers.values())
            or any(queue.written and queue.written[-1] + queue.latency > slot for queue in self.queues)
            or any(arrivals and arrivals[-1] > slot for each in self.memories for arrivals in each.tokens)
        )


def simulate(
    pipeline: Pipeline, placement: Placement, fabric: Fabric, samples: int, fed_samples: int | None = None
) -> Outcome:
    """As :func:`dse.fabric.evaluators.simulator.simulate`, which is the same and faster."""
    require_samples(samples, fed_samples)
    require_legal(pipeline, placement, fabric)
    if fed_samples is None:
        fed_samples = samples_to_feed(pipeline, placement, fabric, samples)
    machine = Machine(pipeline, placement, fabric, fed_samples)
    senders = {net.source for net in pipeline.nets}
    terminals = [unit for unit in range(len(pipeline.units)) if unit not in senders]
    departures: list[int] = []
    slot, goes_on = 0, True
    while goes_on and len(departures) < samples:
        goes_on = machine.do_slot(slot)
        while len(departures) < min([samples, *map(machine.ended, terminals)]):
            departures.append(slot)
        slot += 1
    blocked = () if len(departures) == samples else tuple(map(machine.ended, range(len(pipeline.units))))
    return Outcome(tuple(departures), blocked)
