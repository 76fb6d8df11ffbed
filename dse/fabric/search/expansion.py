"""Dataflow graphs to pipelines: operators spread over units under their capacity.

Every operator is split into parts (:mod:`dse.fabric.search.splitting`), each on a compute unit. Its weights are dealt
out to memory units from which the parts read them for every sample; where the operator adds to a sum that stays, others
take the new one. A tensor between operators goes through memory units, which hold whole samples, as many as its readers
are stages behind its writer; but it streams straight to a reader that is alone and reads nothing else from other
operators. Inputs and outputs have units that read and write the memory off chip.

The number of each is the least under which no unit and no port is busy for longer than a target. The target is the
least with which the units fit. Memory units that are left over deepen the buffers that are too shallow.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from dse.fabric.model import Net, Pipeline, Sink, Unit, UnitKind
from dse.fabric.search.sites import SITE_KINDS, SitesMissingError
from dse.fabric.search.splitting import Range, Splitting, flits_of, held, read
from dse.graph.dataflow.graph import DataflowEdge, DataflowGraph
from hardware.fabric_grid import SiteKind
from hardware.fabrics import Fabric
from hardware.operations import Gemm
from hardware.operator_slots import OperatorSlots

Role = Literal["compute", "weights", "sum", "buffer", "input", "output"]
"""What a unit does for its operator: a part of it, hold its weights, take the new sum, or hold what it writes."""

_DOUBLE_BUFFER = 2
"""Samples that a buffer holds at least: one is written while another one is read."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a unit comes from: the operator, by position in the graph, and what the unit does for it."""

    operator: int
    role: Role


@dataclass(frozen=True)
class Expansion:
    """A graph spread over units.

    Attributes:
        graph: what was expanded.
        pipeline: units and nets.
        origins: of every unit, [U].
        target_slots: slots of a sample that compute units do not exceed, and ports hardly (by what does not divide).
    """

    graph: DataflowGraph
    pipeline: Pipeline
    origins: tuple[Origin, ...]
    target_slots: int


def expand(graph: DataflowGraph, fabric: Fabric, slots: OperatorSlots, fill: float = 1.0) -> Expansion:
    """``graph`` spread over the units of ``fabric``.

    Args:
        graph: of one sample.
        fabric: what it is to fit on.
        slots: of operators.
        fill: share of the compute units, and of the memory units, that may be used.

    Raises:
        SitesMissingError: units are missing even with every operator on as few as it can be.
        InputError: an operator without an entry in ``slots``.
        ValueError: a fill outside (0, 1]; not even one flit fits in a memory unit.
    """
    if not 0 < fill <= 1:
        raise ValueError(f"`0 < fill <= 1` must hold, but got {fill}")
    fabric.samples_that_fit(fabric.flit_bytes)
    plan = _Plan(graph, fabric, slots)
    available = {kind: fabric.grid.site_kind.count(kind) for kind in SITE_KINDS}
    available |= {kind: int(fill * available[kind]) for kind in ("compute", "memory")}

    def fits(target: int) -> bool:
        needed = plan.needed(target)
        return all(needed[kind] <= available[kind] for kind in SITE_KINDS)

    low, high = plan.smallest_target, plan.largest_target
    if not fits(high):
        raise SitesMissingError(f"{graph.name} in one piece", fabric.name, plan.needed(high), available)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
    spare = available["memory"] - plan.needed(high)["memory"]
    return _Assembly(plan, high, plan.deepened(high, spare)).expansion()


@dataclass(frozen=True)
class _Tensor:
    """What an operator writes and others read: flits of a sample, and the edges to its readers."""

    source: int
    name: str
    flits: int
    edges: tuple[DataflowEdge, ...]
    is_streamed: bool


@dataclass(frozen=True)
class _Plan:
    """What the number of units depends on."""

    graph: DataflowGraph
    fabric: Fabric
    slots: OperatorSlots

    @cached_property
    def splittings(self) -> tuple[Splitting | None, ...]:
        """Of every operator but inputs and outputs."""
        return tuple(
            None if operator.kind in ("input", "output") else Splitting(position, self.graph, self.fabric, self.slots)
            for position, operator in enumerate(self.graph.operators)
        )

    @cached_property
    def tensors(self) -> tuple[_Tensor, ...]:
        """All tensors, by operator."""
        edges: dict[tuple[int, str], list[DataflowEdge]] = defaultdict(list)
        for edge in self.graph.edges:
            edges[edge.source, edge.tensor].append(edge)
        return tuple(
            _Tensor(source, name, flits_of(readers[0].elements, self.fabric), tuple(readers), self._streams(readers))
            for (source, name), readers in sorted(edges.items())
        )

    def _streams(self, readers: Sequence[DataflowEdge]) -> bool:
        reader = self.graph.operators[readers[0].target]
        if len(readers) > 1 or isinstance(reader.work, Gemm):
            return False
        return reader.kind == "output" or len(self.graph.incoming[readers[0].target]) == 1

    @cached_property
    def stage(self) -> tuple[int, ...]:
        """Buffers on the longest path to each operator."""
        streamed = {(tensor.source, tensor.name) for tensor in self.tensors if tensor.is_streamed}
        stage = [0] * len(self.graph.operators)
        for position in self.graph.topological_order:
            for edge in self.graph.incoming[position]:
                behind = (edge.source, edge.tensor) not in streamed
                stage[position] = max(stage[position], stage[edge.source] + behind)
        return tuple(stage)

    def samples_wanted(self, tensor: _Tensor) -> int:
        """Samples between the writer of a tensor and its last reader."""
        behind = max(self.stage[edge.target] for edge in tensor.edges) - self.stage[tensor.source]
        return max(_DOUBLE_BUFFER, behind + 1)

    @cached_property
    def smallest_target(self) -> int:
        """Slots of the operator that works longest when all are split as far as they can be."""
        return max((splitting.options[-1][1] for splitting in self.splittings if splitting), default=1)

    @cached_property
    def largest_target(self) -> int:
        """A target that asks for no more than one part, shard or unit of anything."""
        work = [splitting.options[0][1] for splitting in self.splittings if splitting]
        ports = [self._read_slots(tensor) + tensor.flits for tensor in self.tensors]
        weights = [splitting.weight_flits for splitting in self.splittings if splitting]
        off_chip = [self.io_slots(position) for position in self.io]
        return max([1, *work, *ports, *weights, *off_chip])

    @cached_property
    def io(self) -> tuple[int, ...]:
        """Positions of inputs and outputs."""
        return tuple(position for position, splitting in enumerate(self.splittings) if splitting is None)

    def io_slots(self, position: int) -> int:
        """Slots of a channel for what an input or output carries."""
        edges = self.graph.incoming[position] or [
            tensor.edges[0] for tensor in self.tensors if tensor.source == position
        ]
        return sum(flits_of(edge.elements, self.fabric) for edge in edges) * self.fabric.channel_slots

    def _read_slots(self, tensor: _Tensor) -> int:
        """Slots of a read port for all readers of a tensor."""
        slots = (self.fabric.transposed_read_slots if self.is_transposed(edge) else 1 for edge in tensor.edges)
        return sum(slots) * tensor.flits

    def is_transposed(self, edge: DataflowEdge) -> bool:
        """Whether the operand of a matrix product is stored with its columns as rows, as far as shapes tell."""
        work, splitting = self.graph.operators[edge.target].work, self.splittings[edge.target]
        if not isinstance(work, Gemm) or splitting is None:
            return False
        is_left = self.graph.incoming[edge.target].index(edge) < splitting.left_operands
        rows, columns = (work.m, work.k) if is_left else (work.k, work.n)
        stored = self._rows(edge.source)
        return stored == columns and stored != rows

    def _rows(self, position: int) -> int:
        """Rows in which an operator writes: of the matrix product that it goes back to; 0 where unknown."""
        while True:
            operator, incoming = self.graph.operators[position], self.graph.incoming[position]
            if isinstance(operator.work, Gemm):
                return operator.work.m
            if not incoming or incoming[0].elements != operator.work.elements:
                return 0
            position = incoming[0].source

    def shards(self, tensor: _Tensor, target: int) -> int:
        """Memory units of a tensor: none if it is streamed."""
        if tensor.is_streamed:
            return 0
        flits_a_unit = max(1, self.fabric.memory_bytes // self.fabric.flit_bytes // _DOUBLE_BUFFER)
        by_ports = max(
            -(-self._read_slots(tensor) // (target * self.fabric.read_ports)),
            -(-tensor.flits // (target * self.fabric.write_ports)),
        )
        return min(tensor.flits, max(by_ports, -(-tensor.flits // flits_a_unit)))

    def weight_units(self, splitting: Splitting, target: int) -> int:
        """Memory units of an operator's weights."""
        flits_a_unit = self.fabric.memory_bytes // self.fabric.flit_bytes
        by_ports = -(-splitting.read_weight_flits // (target * self.fabric.read_ports))
        return max(by_ports, -(-splitting.weight_flits // flits_a_unit))

    def adds_to_sum(self, position: int) -> bool:
        """Whether an operator's result stays with it."""
        return self.splittings[position] is not None and not self.graph.outgoing[position]

    def io_units(self, position: int, target: int) -> int:
        """Units of an input or output."""
        flits = min(flits_of(edge.elements, self.fabric) for edge in self._io_edges(position))
        return max(1, min(flits, -(-self.io_slots(position) // target)))

    def _io_edges(self, position: int) -> Sequence[DataflowEdge]:
        return self.graph.incoming[position] or self.graph.outgoing[position]

    def needed(self, target: int) -> dict[SiteKind, int]:
        """Units by kind of site."""
        compute, memory = 0, sum(self.shards(tensor, target) for tensor in self.tensors)
        for position, splitting in enumerate(self.splittings):
            if splitting is not None:
                compute += splitting.parts_for(target)
                memory += self.weight_units(splitting, target) * (2 if self.adds_to_sum(position) else 1)
        return {
            "compute": compute,
            "memory": memory,
            "io": sum(self.io_units(position, target) for position in self.io),
        }

    def samples(self, tensor: _Tensor, shards: int) -> int:
        """Samples that a buffer of so many memory units holds, as far as they are wanted."""
        sample_bytes = -(-tensor.flits // shards) * self.fabric.flit_bytes
        return min(self.samples_wanted(tensor), self.fabric.samples_that_fit(sample_bytes))

    def deepened(self, target: int, spare: int) -> dict[_Tensor, int]:
        """Memory units of every buffer, with ``spare`` more of them for the shallowest ones."""
        shards = {tensor: self.shards(tensor, target) for tensor in self.tensors if not tensor.is_streamed}
        waiting = set(shards)
        while spare and waiting:
            tensor = max(waiting, key=lambda each: (self._lack(each, shards[each]), -each.source, each.name))
            more = self._shards_for_another_sample(tensor, shards[tensor])
            if more is None or more - shards[tensor] > spare:
                waiting.remove(tensor)
            else:
                spare -= more - shards[tensor]
                shards[tensor] = more
        return shards

    def _lack(self, tensor: _Tensor, shards: int) -> float:
        return self.samples_wanted(tensor) / self.samples(tensor, shards)

    def _shards_for_another_sample(self, tensor: _Tensor, shards: int) -> int | None:
        now = self.samples(tensor, shards)
        more = range(shards + 1, tensor.flits + 1)
        return next((number for number in more if self.samples(tensor, number) > now), None)


@dataclass
class _Assembly:
    """Units and nets as they are made."""

    plan: _Plan
    target: int
    shards: dict[_Tensor, int]
    units: list[Unit] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    sinks: dict[tuple[int, Range, int, bool, bool], dict[int, bool]] = field(default_factory=dict)

    def expansion(self) -> Expansion:
        """The whole."""
        graph = self.plan.graph
        workers = {position: self._operator_units(position) for position in graph.topological_order}
        for tensor in self.plan.tensors:
            self._join(tensor, workers)
        nets = [
            Net(source, tuple(Sink(unit, early) for unit, early in sinks.items()), part.end - part.first, late, turned)
            for (source, part, _, late, turned), sinks in self.sinks.items()
        ]
        return Expansion(graph, Pipeline(tuple(self.units), tuple(nets)), tuple(self.origins), self.target)

    def _add(self, many: int, position: int, role: Role, name: str, unit: Unit) -> list[int]:
        first = len(self.units)
        for number in range(many):
            fields = (unit.kind, unit.work_slots, unit.samples, unit.shares_banks)
            self.units.append(Unit(f"{name}.{number}", *fields))
            self.origins.append(Origin(position, role))
        return list(range(first, len(self.units)))

    def _operator_units(self, position: int) -> list[int]:
        """The units that do an operator's work, with those of its weights and its sum."""
        plan, operator = self.plan, self.plan.graph.operators[position]
        splitting = plan.splittings[position]
        if splitting is None:
            role: Role = "input" if operator.kind == "input" else "output"
            kind = UnitKind.INPUT if role == "input" else UnitKind.OUTPUT
            return self._add(plan.io_units(position, self.target), position, role, operator.name, Unit("", kind))
        parts = splitting.parts_for(self.target)
        compute = Unit("", UnitKind.COMPUTE, work_slots=splitting.work_slots(parts))
        workers = self._add(parts, position, "compute", operator.name, compute)
        memories = plan.weight_units(splitting, self.target)
        if not memories:
            return workers
        adds = plan.adds_to_sum(position)
        memory = Unit("", UnitKind.MEMORY, samples=1)
        weights = self._add(memories, position, "weights", f"{operator.name}.weights", memory)
        flits = max(splitting.read_weight_flits, memories)
        is_early = isinstance(operator.work, Gemm) or flits < splitting.out_flits
        for number, worker in enumerate(workers):
            own = splitting.reads(number, parts, flits, is_right=True)
            self._send(weights, worker, flits, own, position, is_early=is_early)
        if adds:
            sums = self._add(memories, position, "sum", f"{operator.name}.sum", memory)
            self._deal(workers, sums, flits, position)
        return workers

    def _join(self, tensor: _Tensor, workers: dict[int, list[int]]) -> None:
        """The nets of a tensor, with its buffer."""
        holders = workers[tensor.source]
        if not tensor.is_streamed:
            many = self.shards[tensor]
            samples = self.plan.samples(tensor, many)
            shares = self.plan.fabric.shares_banks(-(-tensor.flits // many) * self.plan.fabric.flit_bytes, samples)
            unit = Unit("", UnitKind.MEMORY, samples=samples, shares_banks=shares)
            name = ".".join(filter(None, (self.plan.graph.operators[tensor.source].name, tensor.name, "buffer")))
            shards = self._add(many, tensor.source, "buffer", name, unit)
            self._deal(holders, shards, tensor.flits, tensor.source)
            holders = shards
        for edge in tensor.edges:
            readers = workers[edge.target]
            for reader, part, is_early in self._reads(edge, tensor.flits, readers):
                is_transposed = not tensor.is_streamed and self.plan.is_transposed(edge)
                self._send(holders, reader, tensor.flits, part, edge.target, is_early, is_transposed)

    def _reads(self, edge: DataflowEdge, flits: int, readers: Sequence[int]) -> Iterator[tuple[int, Range, bool]]:
        """(reader, what it reads, whether early) of an edge."""
        splitting = self.plan.splittings[edge.target]
        incoming = self.plan.graph.incoming[edge.target]
        for number, reader in enumerate(readers):
            if splitting is None:
                yield reader, read(number, len(readers), flits), False
            else:
                is_right = splitting.left_operands <= incoming.index(edge) and splitting.is_gemm
                yield reader, splitting.reads(number, len(readers), flits, is_right), is_right

    def _deal(self, sources: Sequence[int], targets: Sequence[int], flits: int, position: int) -> None:
        for number, target in enumerate(targets):
            self._send(sources, target, flits, held(number, len(targets), flits), position)

    def _send(
        self,
        holders: Sequence[int],
        reader: int,
        flits: int,
        part: Range,
        position: int,
        is_early: bool = False,
        is_transposed: bool = False,
    ) -> None:
        """Nets that bring ``part`` of a tensor to ``reader``; readers of the same part in one stage share one."""
        stage = self.plan.stage[position]
        for number, holder in enumerate(holders):
            own = held(number, len(holders), flits)
            if own.overlap(part):
                common = Range(max(own.first, part.first), min(own.end, part.end))
                key = (holder, common, stage, self._is_late(holder), is_transposed)
                self.sinks.setdefault(key, {}).setdefault(reader, is_early)

    def _is_late(self, unit: int) -> bool:
        """Whether a unit emits in the second half: its operator goes over its rows before it writes any."""
        operator = self.plan.graph.operators[self.origins[unit].operator]
        is_compute = self.origins[unit].role == "compute"
        return is_compute and not isinstance(operator.work, Gemm) and operator.work.row > 1
