"""Dataflow graphs to pipelines: operators spread over units under their capacity.

Every operator is split into parts (:mod:`dse.fabric.search.splitting`), each on a compute unit. Its weights are dealt
out to memory units from which the parts read them for every sample; where the operator adds to a sum that stays, others
take the new one. A tensor between operators goes through memory units, which hold whole samples, as many as its readers
are stages behind its writer; but it streams straight to a reader that is alone and reads nothing else from other
operators. Inputs and outputs have units that read and write the memory off chip.

The number of each is the least under which no unit and no port is busy for longer than a target. The target is the
least with which the units fit (:mod:`dse.fabric.search.demand`). Operators share memory units for their weights where
there are too few. Memory units that are left over deepen the buffers that are too shallow. Where some remain so,
compute units that are left over shorten the time that samples stay in them (:mod:`dse.fabric.search.residence`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from dse.fabric.model import Net, Pipeline, Sink, Unit, UnitKind
from dse.fabric.search.demand import DOUBLE_BUFFER, Demand, Sizing, Store, Tensor
from dse.fabric.search.residence import Residence
from dse.fabric.search.sites import SITE_KINDS, SitesMissingError
from dse.fabric.search.splitting import OptionsCache, Range, held, read
from dse.graph.dataflow.graph import DataflowEdge, DataflowGraph
from hardware.fabric_grid import SiteKind
from hardware.fabrics import Fabric
from hardware.operations import Gemm
from hardware.operator_slots import OperatorSlots

Role = Literal["compute", "weights", "sum", "buffer", "input", "output"]
"""What a unit does for its operator: a part of it, hold its weights, take the new sum, or hold what it writes."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a unit comes from.

    Attributes:
        operator: by position in the graph.
        role: what the unit does for it.
        others: operators for which it does the same: those whose weights or sums a memory unit holds as well.
    """

    operator: int
    role: Role
    others: tuple[int, ...] = ()


@dataclass(frozen=True)
class Expansion:
    """A graph spread over units.

    Attributes:
        graph: what was expanded.
        pipeline: units and nets.
        origins: of every unit, [U].
        target_slots: slots of a sample that compute units do not exceed, and ports hardly (by what does not divide).
        period_slots: slots of a sample, estimated, if all parts worked as long as the target; more than that where
            buffers are not as deep as they should be (:meth:`dse.fabric.search.demand.Demand.period_slots`).
        is_channel_bound: whether the channels off chip take longer for a sample than any part works, undivided.
    """

    graph: DataflowGraph
    pipeline: Pipeline
    origins: tuple[Origin, ...]
    target_slots: int
    period_slots: int
    is_channel_bound: bool


def expand(
    graph: DataflowGraph,
    fabric: Fabric,
    slots: OperatorSlots,
    fill: float = 1.0,
    known: OptionsCache | None = None,
) -> Expansion:
    """``graph`` spread over the units of ``fabric``.

    Args:
        graph: of one sample.
        fabric: what it is to fit on.
        slots: of operators.
        fill: share of the compute units, and of the memory units, that may be used.
        known: what graphs on the same fabric with the same slots have in common, where there are several.

    Raises:
        SitesMissingError: units are missing even with every operator on as few as it can be.
        InputError: an operator without an entry in ``slots``.
        ValueError: a fill outside (0, 1]; not even one flit fits in a memory unit.
    """
    fabric.samples_that_fit(fabric.flit_bytes)
    demand = Demand(graph, fabric, slots, {} if known is None else known)
    available = available_units(fabric, fill)
    sizing = demand.sizing(available)
    if sizing is None:
        needed = demand.needed(demand.largest_target, DOUBLE_BUFFER, demand.unit_flits)
        raise SitesMissingError(f"{graph.name} in one piece", fabric.name, needed, available)
    target, depth, shared_flits = sizing.target_slots, sizing.depth, sizing.shared_flits
    spare = available["memory"] - demand.needed(target, depth, shared_flits)["memory"]
    shards = demand.deepened(target, depth, spare)
    parts = {position: splitting.parts_for(target) for position, splitting in enumerate(demand.splittings) if splitting}
    if sizing.period_slots > target:
        places = {tensor: demand.samples(tensor, many) for tensor, many in shards.items()}
        parts = Residence(demand, places).hastened(parts, target, available["compute"])
    return _Assembly(demand, sizing, shards, parts, demand.stores(target, shared_flits)).expansion()


def available_units(fabric: Fabric, fill: float) -> dict[SiteKind, int]:
    """Units by kind of site of which a share ``fill`` may be used; all that are for input and output.

    Raises:
        ValueError: a fill outside (0, 1].
    """
    if not 0 < fill <= 1:
        raise ValueError(f"`0 < fill <= 1` must hold, but got {fill}")
    available = {kind: fabric.grid.site_kind.count(kind) for kind in SITE_KINDS}
    return available | {kind: int(fill * available[kind]) for kind in ("compute", "memory")}


@dataclass(frozen=True)
class _Stream:
    """What goes from ``holders``, each with an equal part, to others: a tensor, or what stays with an operator."""

    label: tuple[int, str]
    flits: int
    holders: Sequence[int]


class _NetKey(NamedTuple):
    """What readers must have in common to share a net."""

    holder: int
    label: tuple[int, str]
    part: Range
    stage: int
    is_late: bool
    is_transposed: bool


@dataclass
class _Assembly:
    """Units and nets as they are made."""

    demand: Demand
    sizing: Sizing
    shards: dict[Tensor, int]
    parts: dict[int, int]
    stores: tuple[Store, ...]
    units: list[Unit] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    sinks: dict[_NetKey, dict[int, bool]] = field(default_factory=dict)

    def expansion(self) -> Expansion:
        """The whole."""
        graph = self.demand.graph
        workers = {position: self._workers(position) for position in graph.topological_order}
        for store in self.stores:
            self._join_store(store, workers)
        for tensor in self.demand.tensors:
            self._join_tensor(tensor, workers)
        nets = [
            Net(key.holder, tuple(Sink(*sink) for sink in sinks.items()), key.part.size, key.is_late, key.is_transposed)
            for key, sinks in self.sinks.items()
        ]
        target, period = self.sizing.target_slots, self.sizing.period_slots
        pipeline, is_channel_bound = Pipeline(tuple(self.units), tuple(nets)), target > self.demand.largest_part_slots
        return Expansion(graph, pipeline, tuple(self.origins), target, period, is_channel_bound)

    def _add(self, many: int, origin: Origin, name: str, unit: Unit) -> list[int]:
        first = len(self.units)
        self.units += [replace(unit, name=f"{name}.{number}") for number in range(many)]
        self.origins += [origin] * many
        return list(range(first, len(self.units)))

    def _workers(self, position: int) -> list[int]:
        """The units that do an operator's work."""
        operator, splitting = self.demand.graph.operators[position], self.demand.splittings[position]
        if splitting is None:
            role: Role = "input" if operator.kind == "input" else "output"
            unit = Unit("", UnitKind.INPUT if role == "input" else UnitKind.OUTPUT)
            return self._add(
                self.demand.io_units(position, self.sizing.target_slots), Origin(position, role), operator.name, unit
            )
        parts = self.parts[position]
        unit = Unit("", UnitKind.COMPUTE, work_slots=splitting.work_slots(parts))
        return self._add(parts, Origin(position, "compute"), operator.name, unit)

    def _join_store(self, store: Store, workers: dict[int, list[int]]) -> None:
        """Memory units of weights, and those of new sums, with the nets between them and the operators.

        A sum takes the same place in every sample, so operators of different stages may be as many samples apart.
        """
        first, *others = store.operators
        name, stages = self.demand.graph.operators[first].name, [self.demand.stage[each] for each in store.operators]
        memory = Unit("", UnitKind.MEMORY, samples=1)
        units = self._add(store.units, Origin(first, "weights", tuple(others)), f"{name}.weights", memory)
        for position in store.operators:
            self._send_weights(position, units, workers[position])
        if store.is_sum:
            apart = max(stages) - min(stages) + DOUBLE_BUFFER if others else 1
            memory = replace(memory, samples=apart)
            sums = self._add(store.units, Origin(first, "sum", tuple(others)), f"{name}.sum", memory)
            for position in store.operators:
                splitting = self.demand.splittings[position]
                assert splitting is not None
                flits = max(splitting.read_weight_flits, store.units)
                self._deal(_Stream((position, "sum"), flits, workers[position]), sums, position)

    def _send_weights(self, position: int, units: Sequence[int], workers: Sequence[int]) -> None:
        """Nets from the memory units of an operator's weights to its parts."""
        splitting = self.demand.splittings[position]
        assert splitting is not None
        weights = _Stream((position, "weights"), max(splitting.read_weight_flits, len(units)), units)
        is_early = splitting.is_gemm or weights.flits < splitting.out_flits
        for number, worker in enumerate(workers):
            own = splitting.reads(number, len(workers), weights.flits, is_right=True)
            self._send(weights, worker, own, position, is_early=is_early)

    def _join_tensor(self, tensor: Tensor, workers: dict[int, list[int]]) -> None:
        """The nets of a tensor, with its buffer."""
        label, fabric = (tensor.source, tensor.name), self.demand.fabric
        stream = _Stream(label, tensor.flits, workers[tensor.source])
        if not tensor.is_streamed:
            many = self.shards[tensor]
            samples = self.demand.samples(tensor, many)
            shares = fabric.shares_banks(-(-tensor.flits // many) * fabric.flit_bytes, samples)
            unit = Unit("", UnitKind.MEMORY, samples=samples, shares_banks=shares)
            name = ".".join(filter(None, (self.demand.graph.operators[tensor.source].name, tensor.name, "buffer")))
            shards = self._add(many, Origin(tensor.source, "buffer"), name, unit)
            self._deal(stream, shards, tensor.source)
            stream = replace(stream, holders=shards)
        for edge in tensor.edges:
            readers = workers[edge.target]
            is_transposed = not tensor.is_streamed and self.demand.is_transposed(edge)
            for reader, part, is_early in self._reads(edge, tensor.flits, readers):
                self._send(stream, reader, part, edge.target, is_early, is_transposed)

    def _reads(self, edge: DataflowEdge, flits: int, readers: Sequence[int]) -> Iterator[tuple[int, Range, bool]]:
        """(reader, what it reads, whether early) of an edge."""
        splitting = self.demand.splittings[edge.target]
        incoming = self.demand.graph.incoming[edge.target]
        for number, reader in enumerate(readers):
            if splitting is None:
                yield reader, read(number, len(readers), flits), False
            else:
                is_right = splitting.left_operands <= incoming.index(edge) and splitting.is_gemm
                yield reader, splitting.reads(number, len(readers), flits, is_right), is_right

    def _deal(self, stream: _Stream, targets: Sequence[int], position: int) -> None:
        for number, target in enumerate(targets):
            self._send(stream, target, held(number, len(targets), stream.flits), position)

    def _send(
        self,
        stream: _Stream,
        reader: int,
        part: Range,
        position: int,
        is_early: bool = False,
        is_transposed: bool = False,
    ) -> None:
        """Nets that bring ``part`` of a stream to ``reader``; readers of the same part in one stage share one."""
        stage = self.demand.stage[position]
        for number, holder in enumerate(stream.holders):
            own = held(number, len(stream.holders), stream.flits)
            if own.overlap(part):
                common = Range(max(own.first, part.first), min(own.end, part.end))
                key = _NetKey(holder, stream.label, common, stage, self._is_late(holder), is_transposed)
                self.sinks.setdefault(key, {}).setdefault(reader, is_early)

    def _is_late(self, unit: int) -> bool:
        """Whether a unit emits in the second half: its operator goes over its rows before it writes any."""
        operator = self.demand.graph.operators[self.origins[unit].operator]
        is_compute = self.origins[unit].role == "compute"
        return is_compute and not isinstance(operator.work, Gemm) and operator.work.row > 1
