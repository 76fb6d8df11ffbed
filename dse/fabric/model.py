"""Pipelines of units and nets, and their placements on a fabric: what placers, routers and evaluators share.

A *pipeline* is a dataflow graph after its operators are spread over units. Samples flow through it one after another.
Every net carries the same number of flits (tiles, :attr:`hardware.fabrics.Fabric.flit_bytes`) for each sample from one
unit to one or more others. A *placement* gives every unit a site of the fabric's grid, and every net a tree of links.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np
import numpy.typing as npt
import rustworkx

from hardware.fabric_grid import SiteKind
from hardware.fabrics import Fabric

Integers = npt.NDArray[np.int64]

MAX_WORK_SLOTS = 2**16
"""Slots of work, and flits, of a sample at most."""

MAX_SAMPLES = 1024
"""Samples that a memory unit holds at most."""


class UnitKind(IntEnum):
    """What a unit of a pipeline is: ``INPUT`` and ``OUTPUT`` read and write the memory off chip."""

    COMPUTE = 0
    MEMORY = 1
    INPUT = 2
    OUTPUT = 3

    @property
    def site(self) -> SiteKind:
        """The kind of site that it takes."""
        sites: tuple[SiteKind, ...] = ("compute", "memory", "io", "io")
        return sites[self]


@dataclass(frozen=True)
class Unit:
    """A unit of a pipeline.

    Attributes:
        name: what messages call it.
        kind: its kind.
        work_slots: of a compute unit, for a sample (:mod:`hardware.operator_slots`); 0 for other kinds.
        samples: that a memory unit can hold; 0 for other kinds. A memory unit that no net writes holds weights.
        shares_banks: of a memory unit: no flit is read in a slot in which one is written.
    """

    name: str
    kind: UnitKind
    work_slots: int = 0
    samples: int = 0
    shares_banks: bool = False


@dataclass(frozen=True)
class Sink:
    """A reader of a net.

    Attributes:
        unit: its number.
        early: a compute unit takes all flits of a sample in the first half of its steps (weights), and not evenly.
    """

    unit: int
    early: bool = False


@dataclass(frozen=True)
class Net:
    """What one unit sends to others.

    Attributes:
        source: number of the unit that sends.
        sinks: who reads, at least one.
        flits: for a sample.
        late: a compute unit emits all flits of a sample in the second half of its steps (reductions), and not evenly.
        transposed: a memory unit reads the flits transposed.
    """

    source: int
    sinks: tuple[Sink, ...]
    flits: int
    late: bool = False
    transposed: bool = False


@dataclass(frozen=True)
class Pipeline:
    """Units and nets; the graph of the nets has no cycle.

    Raises:
        ValueError: it breaks a rule; the message names the unit or net.
    """

    units: tuple[Unit, ...]
    nets: tuple[Net, ...]

    def __post_init__(self) -> None:
        for fault in self._faults():
            raise ValueError(fault)
        if not rustworkx.is_directed_acyclic_graph(self._graph):
            raise ValueError("nets must not form a cycle")

    def _faults(self) -> Iterator[str]:
        sent, received = np.zeros(len(self.units), dtype=bool), np.zeros(len(self.units), dtype=bool)
        for number, net in enumerate(self.nets):
            ends = [net.source, *(sink.unit for sink in net.sinks)]
            if not all(0 <= unit < len(self.units) for unit in ends):
                yield f"net {number}: units must be numbers from 0 to {len(self.units) - 1}, but got {ends}"
                return
            yield from (f"net {number}: {fault}" for fault in self._net_faults(net))
            sent[net.source] = received[ends[1:]] = True
        for unit, sends, receives in zip(self.units, sent, received, strict=True):
            yield from (f"unit {unit.name}: {fault}" for fault in _unit_faults(unit, bool(sends), bool(receives)))

    def _net_faults(self, net: Net) -> Iterator[str]:
        if not 1 <= net.flits <= MAX_WORK_SLOTS:
            yield f"`1 <= flits <= {MAX_WORK_SLOTS}` must hold, but got {net.flits}"
        ends = [net.source, *(sink.unit for sink in net.sinks)]
        if len(ends) < 2 or len(set(ends)) < len(ends):
            yield f"source and sinks must be at least two different units, but are {ends}"
        source = self.units[net.source].kind
        if net.late and source != UnitKind.COMPUTE:
            yield f"only a compute unit can emit late, but {self.units[net.source].name} is not one"
        if net.transposed and source != UnitKind.MEMORY:
            yield f"only a memory unit can read transposed, but {self.units[net.source].name} is not one"
        for sink in net.sinks:
            if sink.early and self.units[sink.unit].kind != UnitKind.COMPUTE:
                yield f"only a compute unit can accept flits early, but {self.units[sink.unit].name} is not one"

    @cached_property
    def _graph(self) -> "rustworkx.PyDiGraph[int, None]":
        graph: rustworkx.PyDiGraph[int, None] = rustworkx.PyDiGraph()
        graph.add_nodes_from(range(len(self.units)))
        graph.add_edges_from_no_data([(net.source, sink.unit) for net in self.nets for sink in net.sinks])
        return graph

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Units, each behind those that send to it."""
        return tuple(rustworkx.topological_sort(self._graph))

    @cached_property
    def stages(self) -> int:
        """Units on the longest path of nets."""
        return rustworkx.dag_longest_path_length(self._graph) + 1 if self.units else 0

    @cached_property
    def steps(self) -> Integers:
        """Steps of every unit for a sample, [U]; 0 for all but compute units.

        A compute unit takes and emits at most one flit of a net in a step, which lasts a slot or longer. So it has as
        many steps as slots of work, and no fewer than flits of any of its nets in the part of the steps that the net
        is confined to.
        """
        steps = np.array([unit.work_slots for unit in self.units], dtype=np.int64)
        for net in self.nets:
            steps[net.source] = max(steps[net.source], net.flits * (2 if net.late else 1))
            for sink in net.sinks:
                steps[sink.unit] = max(steps[sink.unit], net.flits * (2 if sink.early else 1))
        return np.where([unit.kind == UnitKind.COMPUTE for unit in self.units], steps, 0)

    @cached_property
    def ideal_slots(self) -> int:
        """Slots of work of the slowest unit: the simple theoretical limit of a sample (paper, section IV-A)."""
        return max((unit.work_slots for unit in self.units), default=0)


def _unit_faults(unit: Unit, sends: bool, receives: bool) -> Iterator[str]:
    if (unit.work_slots != 0) != (unit.kind == UnitKind.COMPUTE) or not 0 <= unit.work_slots <= MAX_WORK_SLOTS:
        rule = f"work_slots must be from 1 to {MAX_WORK_SLOTS} for a compute unit and 0 for other units"
        yield f"{rule}, but got {unit.work_slots}"
    if (unit.samples != 0) != (unit.kind == UnitKind.MEMORY) or not 0 <= unit.samples <= MAX_SAMPLES:
        yield f"samples must be from 1 to {MAX_SAMPLES} for a memory unit and 0 for other units, but got {unit.samples}"
    if unit.shares_banks and unit.kind != UnitKind.MEMORY:
        yield "only a memory unit can share banks"
    if receives and unit.kind == UnitKind.INPUT:
        yield "an input unit must not be a sink"
    if not receives and unit.kind in (UnitKind.COMPUTE, UnitKind.OUTPUT):
        yield "must be a sink of a net"
    if sends and unit.kind == UnitKind.OUTPUT:
        yield "an output unit must not be a source"
    if not sends and unit.kind in (UnitKind.COMPUTE, UnitKind.INPUT):
        yield "must be the source of a net"
    if not (sends or receives) and unit.kind == UnitKind.MEMORY:
        yield "must be the source or a sink of a net"


@dataclass(frozen=True, eq=False)
class Placement:
    """Where the units and nets of a pipeline are.

    Attributes:
        site: of every unit (:class:`hardware.fabric_grid.Grid`), [U].
        route_first: where the route of each net begins in ``route_link``, [N + 1].
        route_link: links of the routes, net by net. A route is a tree: a link begins at the cell of the net's source,
            or where an earlier link of the net ends, and no cell is entered twice.
    """

    site: Integers
    route_first: Integers
    route_link: Integers

    @classmethod
    def of(cls, site: Sequence[int], routes: Sequence[Sequence[int]]) -> "Placement":
        """The placement with these sites and these links of each net."""
        first = np.concatenate(([0], np.cumsum([len(route) for route in routes], dtype=np.int64)))
        link = np.array([link for route in routes for link in route], dtype=np.int64)
        return cls(np.array(site, dtype=np.int64), first, link)

    @property
    def parts(self) -> tuple[Integers, Integers, Integers]:
        """All that it consists of."""
        return self.site, self.route_first, self.route_link

    def route(self, net: int) -> list[int]:
        """The links of a net."""
        links: list[int] = self.route_link[self.route_first[net] : self.route_first[net + 1]].tolist()
        return links


def placement_faults(pipeline: Pipeline, placement: Placement, fabric: Fabric) -> list[str]:
    """What is illegal about a placement, one sentence each; empty where nothing is."""
    grid = fabric.grid
    units, nets, routes = len(pipeline.units), len(pipeline.nets), len(placement.route_first) - 1
    if placement.site.shape != (units,):
        return [f"there must be a site for each of {units} units, but there are {len(placement.site)}"]
    if routes != nets:
        return [f"there must be a route for each of {nets} nets, but there are {routes}"]
    faults = []
    holder: dict[int, str] = {}
    for unit, site in zip(pipeline.units, placement.site.tolist(), strict=True):
        if not 0 <= site < len(grid.site_kind):
            faults.append(f"unit {unit.name}: the site must be from 0 to {len(grid.site_kind) - 1}, but is {site}")
        elif grid.site_kind[site] != unit.kind.site:
            rule = f"the site must be of kind {unit.kind.site}, but {site} is of kind {grid.site_kind[site]}"
            faults.append(f"unit {unit.name}: {rule}")
        elif site in holder:
            faults.append(f"unit {unit.name}: site {site} is already used by {holder[site]}")
        holder.setdefault(site, unit.name)
    if faults:
        return faults
    for number in range(len(pipeline.nets)):
        faults += [f"net {number}: {fault}" for fault in _route_faults(pipeline, placement, fabric, number)]
    return faults


def _route_faults(pipeline: Pipeline, placement: Placement, fabric: Fabric, number: int) -> Iterator[str]:
    grid, net = fabric.grid, pipeline.nets[number]
    entered = {int(grid.site_cell[placement.site[net.source]])}
    for link in placement.route(number):
        if not 0 <= link < len(grid.link_from):
            yield f"links must be numbers from 0 to {len(grid.link_from) - 1}, but got {link}"
            return
        start, end = int(grid.link_from[link]), int(grid.link_to[link])
        if start not in entered:
            yield f"link {link} starts at cell {start}, which must be entered by an earlier link of the route"
        if end in entered:
            yield f"link {link} enters cell {end}, which must be entered only once"
        entered.add(end)
    for sink in net.sinks:
        cell = int(grid.site_cell[placement.site[sink.unit]])
        if cell not in entered:
            yield f"the route must reach {pipeline.units[sink.unit].name} at cell {cell}"
