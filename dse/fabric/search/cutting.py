"""Dataflow graphs that do not fit on a fabric, cut into pieces that run in turn.

For an order of the operators, the best cut into consecutive pieces is found by dynamic programming: the best time up to
an operator is the least, over all pieces that end with it, of the best time up to the piece and the time of the piece.
It is exact for the order and the estimate of :mod:`dse.fabric.search.pieces`.

Operators that do not fit alone are divided first (:mod:`dse.fabric.search.dividing`), in the way in which their parts
take the least time one by one. If there are any, finer divisions of all operators are tried as well, so that a part of
a large tensor can stay on chip between its writer and its readers. Weights are never streamed for every sample: each
piece holds those of its parts while the batch passes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

from dse.fabric.search.demand import DOUBLE_BUFFER, Demand
from dse.fabric.search.dividing import WHOLE, Divided, Ways, can_divide, divided
from dse.fabric.search.expansion import available_units
from dse.fabric.search.pieces import Estimate, Machine, estimate, piece_graph, signature
from dse.fabric.search.sites import SitesMissingError
from dse.fabric.search.splitting import flits_of
from dse.graph.dataflow.graph import DataflowEdge, DataflowGraph
from hardware.fabrics import Fabric
from hardware.operations import Gemm
from hardware.operator_slots import OperatorSlots

_FINENESS = (2, 4, 8)
"""Parts of every operator, at least, that are tried."""

_MAX_PARTS = 300
"""Parts of all operators that are tried: the time of a search grows with their square."""


@dataclass(frozen=True)
class Piece:
    """A subgraph that runs on the whole fabric.

    Attributes:
        graph: with inputs and outputs for all that comes from and goes to other pieces.
        operators: positions, in the graph that was cut, of those that its own are parts of.
        estimate: of its time.
    """

    graph: DataflowGraph
    operators: tuple[int, ...]
    estimate: Estimate


@dataclass(frozen=True)
class Cut:
    """A graph cut into pieces.

    Attributes:
        graph: what was cut.
        pieces: in the order in which they run.
        batch: samples that each runs before the next one is configured.
        time_s: of the batch.
        apart_s: of the batch with a piece for each operator, or for each of its parts if it does not fit.
    """

    graph: DataflowGraph
    pieces: tuple[Piece, ...]
    batch: int
    time_s: float
    apart_s: float


def cut(graph: DataflowGraph, fabric: Fabric, slots: OperatorSlots, batch: int, fill: float = 1.0) -> Cut:
    """The cut that takes the least estimated time for ``batch`` samples; one piece where that is best.

    Raises:
        SitesMissingError: an operator of which not even the smallest part fits alone.
        InputError: an operator without an entry in ``slots``.
        ValueError: a batch below 1, or a fill outside (0, 1].
    """
    if batch < 1:
        raise ValueError(f"`batch >= 1` must hold, but got {batch}")
    machine = Machine(fabric, slots, available_units(fabric, fill))
    cutter = _Cutter(graph, machine, batch, {}, {})
    cuts = [cutter.cut(ways) for ways in cutter.divisions()]
    return replace(min(cuts, key=lambda each: each.time_s), apart_s=cuts[0].apart_s)


_Signature = tuple[object, ...]


@dataclass(frozen=True)
class _Cutter:
    """Cuts one graph; ``known`` holds the estimates of pieces that are alike, ``least`` the divisions of operators."""

    graph: DataflowGraph
    machine: Machine
    batch: int
    known: dict[_Signature, Estimate | None]
    least: dict[_Signature, Ways]

    def divisions(self) -> Iterator[dict[int, Ways]]:
        """The ways to divide all operators: as coarse as they fit, and finer if some do not fit whole."""
        base = {position: self._least(position) for position in _workers(self.graph)}
        yield base
        if all(ways == WHOLE for ways in base.values()):
            return
        for parts in _FINENESS:
            ways = {position: self._finer(position, base[position], parts) for position in base}
            if sum(each.parts for each in ways.values()) > _MAX_PARTS:
                return
            yield ways

    def cut(self, ways: dict[int, Ways]) -> Cut:
        """The best cut with operators divided in these ways."""
        parts = divided(self.graph, ways, self.machine.fabric.tile)
        best = (float("inf"), [(0, 0)])
        best_order: Sequence[int] = ()
        for order in (_depth_first(parts.graph), _workers(parts.graph)):
            tried = best_cut(parts, order, self.machine, self.batch, self.known)
            if tried[0] < best[0]:
                best, best_order = tried, order
        pieces = []
        for number, (first, end) in enumerate(best[1]):
            members = best_order[first:end]
            piece = piece_graph(parts, members, f"{self.graph.name}.piece{number}")
            made = _estimated(piece, self.machine, self.known)
            assert made is not None
            pieces.append(Piece(piece, tuple(parts.operators[each] for each in members), made))
        apart_s = self._apart_s(parts)
        return Cut(self.graph, tuple(pieces), self.batch, best[0], apart_s)

    def _apart_s(self, parts: Divided) -> float:
        alone = (piece_graph(parts, [position], "alone") for position in _workers(parts.graph))
        estimates = (_estimated(piece, self.machine, self.known) for piece in alone)
        fabric = self.machine.fabric
        return sum(float("inf") if each is None else each.time_s(self.batch, fabric) for each in estimates)

    def _ways(self, position: int) -> list[Ways]:
        """All ways to divide an operator evenly, in order of their parts."""
        if not can_divide(self.graph, position):
            return [WHOLE]
        work, fabric = self.graph.operators[position].work, self.machine.fabric
        if isinstance(work, Gemm):
            sides = (_divisors(work.batch), _divisors(fabric.tiles(work.m)), _divisors(fabric.tiles(work.n)))
            ways = [Ways(*each) for each in product(*sides)]
            return sorted(ways, key=lambda each: (each.parts, -each.batches, -each.columns))
        flits = min((flits_of(edge.elements, fabric) for edge in self.graph.outgoing[position]), default=work.elements)
        return [Ways(parts) for parts in _divisors(max(1, min(flits, work.elements // work.row)))]

    @cached_property
    def _undivided(self) -> Divided:
        return divided(self.graph, {}, self.machine.fabric.tile)

    def _least(self, position: int) -> Ways:
        """The division of an operator whose parts, one by one, take the least time."""
        alone = piece_graph(self._undivided, [position], self.graph.operators[position].name)
        key = (signature(alone), can_divide(self.graph, position))
        if key not in self.least:
            self.least[key] = self._cheapest_ways(position, alone)
        return self.least[key]

    def _cheapest_ways(self, position: int, alone: DataflowGraph) -> Ways:
        tile = self.machine.fabric.tile
        min_s = self._min_work_s(alone)
        best, best_s, part = None, float("inf"), alone
        for ways in self._ways(position):
            if ways.parts * self.machine.fabric.configuration_s + min_s >= best_s:
                break
            part = piece_graph(divided(alone, {0: ways}, tile), [0], alone.name)
            made = None if _exceeds(part, self.machine) else _estimated(part, self.machine, self.known)
            if made is not None:
                time_s = ways.parts * made.time_s(self.batch, self.machine.fabric)
                if time_s < best_s:
                    best, best_s = ways, time_s
        if best is None:
            raise self._missing(part)
        return best

    def _min_work_s(self, alone: DataflowGraph) -> float:
        """Seconds in which all compute units do an operator's work for the batch, however it is divided, at least."""
        machine = self.machine
        (splitting, *_) = Demand(alone, machine.fabric, machine.slots, machine.options).splittings
        assert splitting is not None
        return self.batch * splitting.work_slots(1) / machine.available["compute"] * machine.fabric.slot_s

    def _missing(self, part: DataflowGraph) -> SitesMissingError:
        demand = Demand(part, self.machine.fabric, self.machine.slots)
        needed = demand.needed(demand.largest_target, DOUBLE_BUFFER, demand.unit_flits)
        what = f"the smallest part of {part.name} in {self.graph.name}"
        return SitesMissingError(what, self.machine.fabric.name, needed, self.machine.available)

    def _finer(self, position: int, base: Ways, parts: int) -> Ways:
        """The coarsest division, no coarser than ``base`` in any dimension, into so many parts, if there is one."""
        if base.parts >= parts:
            return base
        finer = (
            ways
            for ways in self._ways(position)
            if ways.parts >= parts and all(many >= least for many, least in zip(ways, base, strict=True))
        )
        return next(finer, base)


def best_cut(
    whole: Divided, order: Sequence[int], machine: Machine, batch: int, known: dict[_Signature, Estimate | None]
) -> tuple[float, list[tuple[int, int]]]:
    """The least time and the pieces; infinite and none where an operator fits nowhere.

    Of the pieces that end with an operator only those are estimated that could be best by what they take at least.
    """
    best = [0.0] + [float("inf")] * len(order)
    begin = [0] * (len(order) + 1)
    least = Demand(whole.graph, machine.fabric, machine.slots, machine.options)
    for end in range(1, len(order) + 1):
        possible = _possible_pieces(least, order, end, machine, batch)
        for min_s, first in sorted((best[first] + min_s, first) for first, min_s in possible):
            if min_s >= best[end]:
                break
            made = _estimated(piece_graph(whole, order[first:end], whole.graph.name), machine, known)
            if made is not None and best[first] + made.time_s(batch, machine.fabric) < best[end]:
                best[end], begin[end] = best[first] + made.time_s(batch, machine.fabric), first
    pieces, end = [], len(order)
    while end and best[-1] < float("inf"):
        pieces.append((begin[end], end))
        end = begin[end]
    return best[-1], pieces[::-1]


def _possible_pieces(
    demand: Demand, order: Sequence[int], end: int, machine: Machine, batch: int
) -> Iterator[tuple[int, float]]:
    """(where it begins, least seconds) of the pieces that end before ``end``, as far as units are enough for ever more.

    A piece loads its weights; and each of the batch, and of the stages that :class:`Estimate` counts, takes as long as
    its work over all compute units, at least.
    """
    graph, fabric, needed = demand.graph, machine.fabric, _Needed(machine)
    stages: dict[int, int] = {}
    work_slots = load_flits = 0
    for first in range(end - 1, -1, -1):
        position = order[first]
        needed.add(graph, position)
        if needed.is_too_much(end - first):
            return
        splitting = demand.splittings[position]
        assert splitting is not None
        work_slots += splitting.work_slots(1)
        load_flits += splitting.weight_flits * (2 if demand.adds_to_sum(position) else 1)
        stages[position] = max(
            (
                stages[edge.target] + _is_buffered(graph, edge)
                for edge in graph.outgoing[position]
                if edge.target in stages
            ),
            default=0,
        )
        period = max(1, -(-work_slots // machine.available["compute"]))
        slots = load_flits * fabric.channel_slots / fabric.channel_count + (batch + max(stages.values())) * period
        yield first, fabric.configuration_s + slots * fabric.slot_s


def _is_buffered(graph: DataflowGraph, edge: DataflowEdge) -> bool:
    """Whether what an edge carries goes through a buffer in every piece that has both of its ends."""
    return isinstance(graph.operators[edge.target].work, Gemm) or len(graph.incoming[edge.target]) > 1


class _Needed:
    """Flits that any piece with some operators holds: all weights, and two samples of what matrix products read."""

    def __init__(self, machine: Machine) -> None:
        self.fabric, self.available = machine.fabric, machine.available
        self.weight_flits = self.elements = 0
        self.tensors: set[tuple[int, str]] = set()

    def add(self, graph: DataflowGraph, position: int) -> None:
        """Count another operator."""
        operator = graph.operators[position]
        copies = 1 if graph.outgoing[position] else 2
        self.weight_flits += copies * flits_of(operator.weight_elements, self.fabric)
        if isinstance(operator.work, Gemm):
            for edge in graph.incoming[position]:
                if (edge.source, edge.tensor) not in self.tensors:
                    self.tensors.add((edge.source, edge.tensor))
                    self.elements += edge.elements

    def is_too_much(self, operators: int) -> bool:
        """Whether no more operators fit together with these, or these do not fit themselves."""
        room = self.available["memory"] * (self.fabric.memory_bytes // self.fabric.flit_bytes)
        flits = self.weight_flits + DOUBLE_BUFFER * (self.elements // self.fabric.tile**2)
        return flits > room or operators > self.available["compute"]


def _exceeds(piece: DataflowGraph, machine: Machine) -> bool:
    needed = _Needed(machine)
    workers = _workers(piece)
    for position in workers:
        needed.add(piece, position)
    return needed.is_too_much(len(workers))


def _estimated(piece: DataflowGraph, machine: Machine, known: dict[_Signature, Estimate | None]) -> Estimate | None:
    """The estimate of a piece, or of one that differs in names alone."""
    key = signature(piece)
    if key not in known:
        known[key] = estimate(piece, machine)
    return known[key]


def _workers(graph: DataflowGraph) -> list[int]:
    """Operators but inputs and outputs, in topological order."""
    return [each for each in graph.topological_order if graph.operators[each].kind not in ("input", "output")]


def _depth_first(graph: DataflowGraph) -> list[int]:
    """Operators but inputs and outputs, each as soon behind those that it reads as a depth-first search puts it."""
    order: list[int] = []
    seen: set[int] = set()
    workers = set(_workers(graph))
    sinks = [each for each in _workers(graph) if not any(edge.target in workers for edge in graph.outgoing[each])]
    for sink in sinks:
        stack = [(sink, False)]
        while stack:
            position, is_done = stack.pop()
            if is_done:
                order.append(position)
            elif position not in seen:
                seen.add(position)
                stack.append((position, True))
                stack += [(edge.source, False) for edge in reversed(graph.incoming[position]) if edge.source in workers]
    return order


def _divisors(number: int) -> list[int]:
    return [each for each in range(1, number + 1) if number % each == 0]
