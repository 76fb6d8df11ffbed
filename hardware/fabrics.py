"""Reconfigurable dataflow fabrics: grids of compute and memory units with a switched network between them.

A fabric is described by ``specs/fabrics/*.yaml``. Its time unit is the *slot*: what a compute unit needs, at its peak,
for the product of two tiles. Its unit of traffic is the *flit*: the stream of one tile, which a link carries in one
slot. How long operators work is no part of a fabric (:mod:`hardware.operator_slots`).
"""

import math
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from hardware.fabric_grid import COMPUTE, MEMORY, Cell, Edge, Grid, SiteKind, grid
from hardware.inputs import fail
from hardware.spec_fields import NonNegative, Quantity, Source, StrictModel, read_spec, spec_names

_FOLDER = "fabrics"

MAX_SIDE = 64
"""Rows, and columns, of a grid at most."""

_MAX_SLOTS = 1000
"""Of any delay that a spec states, and flits of any buffer."""

_MAY_BE_ZERO = frozenset({"switch_slots", "channel_latency_s", "configuration_s"})


@dataclass(frozen=True)
class Fabric:
    """A dataflow fabric.

    Attributes:
        name: what it is called.
        rows, columns: of the grid, at most :data:`MAX_SIDE` each.
        pattern: rows of letters that repeat over the grid (:mod:`hardware.fabric_grid`).
        io_edges: edges whose switches have input and output sites.
        io_per_switch: such sites at each switch of those edges.
        absent: (row, column) of cells that are not there, with their switches and links.
        element_bytes: of a number.
        tile: rows and columns of a tile.
        compute_flops: of one compute unit, a second.
        memory_bytes: of one memory unit.
        memory_banks: of equal size in a memory unit; a bank is read or written in a slot, not both.
        read_ports, write_ports: flits that a memory unit reads and writes in a slot.
        transposed_read_slots: of a read port for a flit that is read transposed.
        tracks: of a link in one direction, one flit a slot each; a flow has one of them, always the same.
        hop_slots: from one switch to the next; also of a consumer's token on its way back, for each hop.
        buffer_flits: at the end of a track, divided among the flows of the track.
        min_flow_flits, max_flow_flits: limits of a flow's part of it.
        burst_flits: flits of a flow on a track in turn while others wait.
        switch_slots: in which a track is idle when it goes over to another flow.
        port_slots: from a unit into its switch.
        port_flits: buffer there, for each net.
        channels: to the memory off chip.
        channel_bytes_per_s: of one of them.
        channel_latency_s: of a read.
        configuration_s: from the end of one subgraph to the start of the next.
    """

    name: str
    rows: int
    columns: int
    pattern: tuple[str, ...]
    io_edges: tuple[Edge, ...]
    io_per_switch: int
    element_bytes: int
    tile: int
    compute_flops: float
    memory_bytes: int
    memory_banks: int
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
    channel_bytes_per_s: float
    channel_latency_s: float
    configuration_s: float
    absent: tuple[Cell, ...] = ()

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if each.type not in (int, float):
                continue
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"`{each.name}` must be finite and not negative, but got {value}")
            if value == 0 and each.name not in _MAY_BE_ZERO:
                raise ValueError(f"`{each.name}` must be positive, but got 0")
        if max(self.rows, self.columns) > MAX_SIDE:
            raise ValueError(f"`rows, columns <= {MAX_SIDE}` must hold, but got {self.rows} and {self.columns}")
        if self.min_flow_flits > self.max_flow_flits:
            raise ValueError(
                f"`min_flow_flits <= max_flow_flits` must hold, but got {self.min_flow_flits} and {self.max_flow_flits}"
            )
        _ = self.grid  # refuses grids that are none

    @cached_property
    def grid(self) -> Grid:
        """Sites and links."""
        return grid(self.rows, self.columns, self.pattern, self.io_edges, self.io_per_switch, self.absent)

    @property
    def slot_s(self) -> float:
        """Seconds of a slot: a tile product at the peak of a compute unit, 2 tile³ / compute_flops."""
        return 2 * self.tile**3 / self.compute_flops

    @property
    def flit_bytes(self) -> int:
        """Bytes of a tile."""
        return self.tile**2 * self.element_bytes

    @property
    def channel_flits(self) -> int:
        """Whole flits that a channel carries in a slot, and at least 1 (see :attr:`channel_slots`)."""
        return max(1, math.floor(self._flits_a_slot))

    @property
    def channel_slots(self) -> int:
        """Slots that a channel needs for a flit, where it carries less than one in a slot; otherwise 1."""
        return max(1, math.ceil(1 / self._flits_a_slot))

    @property
    def channel_count(self) -> int:
        """Channels as evaluators see them, each of which carries at most one flit in a slot."""
        return self.channels * self.channel_flits

    @cached_property
    def channel_of_site(self) -> npt.NDArray[np.int64]:
        """The channel of every site for input and output, −1 for other sites, [S]; these sites are dealt out in order.

        A channel that carries several flits in a slot counts as that many (:attr:`channel_count`).
        """
        sites = self.grid.sites("io")
        channel = np.full(len(self.grid.site_kind), -1, dtype=np.int64)
        channel[sites] = np.arange(len(sites)) % self.channel_count
        return channel

    @property
    def channel_latency_slots(self) -> int:
        """Whole slots until a read off chip answers."""
        return math.ceil(self.channel_latency_s / self.slot_s)

    @property
    def _flits_a_slot(self) -> float:
        return self.channel_bytes_per_s * self.slot_s / self.flit_bytes

    def tiles(self, *sides: int) -> int:
        """Tiles of an array, or tile products of a matrix product, with these sides in elements."""
        return math.prod(-(-side // self.tile) for side in sides)

    def samples_that_fit(self, sample_bytes: int) -> int:
        """Samples of ``sample_bytes`` that one memory unit holds.

        Raises:
            ValueError: not even one: no unit has this capacity.
        """
        if sample_bytes > self.memory_bytes:
            raise ValueError(
                f"a memory unit of {self.name} holds {self.memory_bytes:,} bytes, but needs to hold {sample_bytes:,}"
            )
        return self.memory_bytes // max(1, sample_bytes)

    def shares_banks(self, sample_bytes: int, samples: int) -> bool:
        """Whether some samples have a bank in common, so that one cannot be read while another one is written."""
        return samples * -(-sample_bytes * self.memory_banks // self.memory_bytes) > self.memory_banks


Side = Annotated[int, Field(ge=1, le=MAX_SIDE)]
Slots = Annotated[int, Field(ge=0, le=_MAX_SLOTS)]
PositiveSlots = Annotated[int, Field(ge=1, le=_MAX_SLOTS)]


class _Side(StrictModel):
    value: Side
    source: Source


class _Slots(StrictModel):
    value: Slots
    source: Source


class _PositiveSlots(StrictModel):
    value: PositiveSlots
    source: Source


class _Bytes(StrictModel):
    value: Annotated[int, Field(ge=1, le=2**40)]
    source: Source


class _Seconds(StrictModel):
    value: NonNegative
    source: Source


class _Pattern(StrictModel):
    value: Annotated[tuple[str, ...], Field(min_length=1)]
    source: Source


class _Edges(StrictModel):
    value: tuple[Edge, ...]
    source: Source


class _Cells(StrictModel):
    value: tuple[Cell, ...]
    source: Source


class GridSpec(StrictModel):
    """The grid.

    Attributes:
        rows, columns: of cells with a switch each.
        pattern: rows of letters that repeat over the grid: ``C`` compute unit, ``M`` memory unit, ``.`` switch alone.
        io_edges: edges whose switches have input and output sites.
        io_per_switch: such sites at each switch of those edges.
        absent: (row, column) of cells that are not there; the rest must be connected.
    """

    rows: _Side
    columns: _Side
    pattern: _Pattern
    io_edges: _Edges
    io_per_switch: _PositiveSlots
    absent: _Cells | None = None

    @property
    def absent_cells(self) -> tuple[Cell, ...]:
        """The cells that are not there."""
        return () if self.absent is None else self.absent.value

    @model_validator(mode="after")
    def _is_a_grid(self) -> "GridSpec":
        made = grid(
            self.rows.value,
            self.columns.value,
            self.pattern.value,
            self.io_edges.value,
            self.io_per_switch.value,
            self.absent_cells,
        )
        needed: dict[SiteKind, str] = {"compute": COMPUTE, "memory": MEMORY, "io": "io_edges"}
        for kind, key in needed.items():
            if not made.sites(kind):
                raise ValueError(f"a fabric must have a site for {kind}, but {key} defines none")
        return self


class NumbersSpec(StrictModel):
    """Numbers and tiles.

    Attributes:
        element_bytes: of a number.
        tile: rows and columns of a tile.
    """

    element_bytes: _PositiveSlots
    tile: _PositiveSlots


class ComputeSpec(StrictModel):
    """A compute unit.

    Attributes:
        flops: per second. A *slot*, the unit of time, is the product of two tiles.
    """

    flops: Quantity


class MemorySpec(StrictModel):
    """A memory unit.

    Attributes:
        bytes: it holds.
        banks: of equal size; a bank is read or written in a slot, not both.
        read_ports, write_ports: flits per slot.
        transposed_read_slots: of a read port for a flit that is read transposed.
    """

    bytes: _Bytes
    banks: _PositiveSlots
    read_ports: _PositiveSlots
    write_ports: _PositiveSlots
    transposed_read_slots: _PositiveSlots


class LinksSpec(StrictModel):
    """Links between neighbouring switches.

    Attributes:
        tracks: in one direction, each one *flit* (the stream of a tile) per slot; a flow always has the same.
        hop_slots: from one switch to the next; also of a consumer's token on its way back.
        buffer_flits: at the end of a track, divided among its flows.
        min_flow_flits, max_flow_flits: limits of a flow's part of it.
        burst_flits: of a flow in turn while others wait.
        switch_slots: in which a track is idle when it changes to another flow.
    """

    tracks: _PositiveSlots
    hop_slots: _PositiveSlots
    buffer_flits: _PositiveSlots
    min_flow_flits: _PositiveSlots
    max_flow_flits: _PositiveSlots
    burst_flits: _PositiveSlots
    switch_slots: _Slots

    @model_validator(mode="after")
    def _limits_are_ordered(self) -> "LinksSpec":
        if self.min_flow_flits.value > self.max_flow_flits.value:
            raise ValueError(
                f"min_flow_flits <= max_flow_flits must hold, but got {self.min_flow_flits.value} and "
                f"{self.max_flow_flits.value}"
            )
        return self


class PortsSpec(StrictModel):
    """From a unit into its switch.

    Attributes:
        slots: of the way.
        buffer_flits: for each net.
    """

    slots: _PositiveSlots
    buffer_flits: _PositiveSlots


class OffChipSpec(StrictModel):
    """Channels to the memory off chip.

    Attributes:
        channels: how many.
        bytes_per_s: of one.
        latency_s: of a read.
    """

    channels: _PositiveSlots
    bytes_per_s: Quantity
    latency_s: _Seconds


class FabricSpec(StrictModel):
    """A dataflow fabric (``specs/fabrics``).

    Attributes:
        name: of the spec.
        description: for people.
        grid: cells and sites.
        numbers: elements and tiles.
        compute: units.
        memory: units.
        links: between switches.
        ports: of units.
        off_chip: channels.
        configuration_s: from the end of one subgraph to the start of the next.
    """

    name: Annotated[str, Field(min_length=1)]
    description: str = ""
    grid: GridSpec
    numbers: NumbersSpec
    compute: ComputeSpec
    memory: MemorySpec
    links: LinksSpec
    ports: PortsSpec
    off_chip: OffChipSpec
    configuration_s: _Seconds

    def fabric(self) -> Fabric:
        """The fabric that the spec describes."""
        links = {f"{name}": getattr(self.links, name).value for name in LinksSpec.model_fields}
        return Fabric(
            name=self.name,
            rows=self.grid.rows.value,
            columns=self.grid.columns.value,
            pattern=self.grid.pattern.value,
            io_edges=self.grid.io_edges.value,
            io_per_switch=self.grid.io_per_switch.value,
            absent=self.grid.absent_cells,
            element_bytes=self.numbers.element_bytes.value,
            tile=self.numbers.tile.value,
            compute_flops=self.compute.flops.value,
            memory_bytes=self.memory.bytes.value,
            memory_banks=self.memory.banks.value,
            read_ports=self.memory.read_ports.value,
            write_ports=self.memory.write_ports.value,
            transposed_read_slots=self.memory.transposed_read_slots.value,
            **links,
            port_slots=self.ports.slots.value,
            port_flits=self.ports.buffer_flits.value,
            channels=self.off_chip.channels.value,
            channel_bytes_per_s=self.off_chip.bytes_per_s.value,
            channel_latency_s=self.off_chip.latency_s.value,
            configuration_s=self.configuration_s.value,
        )


def list_fabrics() -> list[str]:
    """Names of the fabrics that come with the program, sorted."""
    return spec_names(_FOLDER)


def fabric(name_or_path: str | Path) -> Fabric:
    """The fabric of this name, or the one that a YAML or JSON file describes.

    Raises:
        InputError: no fabric of this name (with the nearest one), or a file that breaks a rule.
    """
    described = fabric_spec(name_or_path).fabric()
    if described.flit_bytes > described.memory_bytes:
        rule = f"a memory unit must hold at least one flit, a tile of {described.flit_bytes:,} bytes"
        raise fail(name_or_path, "memory.bytes", described.memory_bytes, rule)
    if described.channel_latency_slots > _MAX_SLOTS or described.channel_slots > _MAX_SLOTS:
        seconds = _MAX_SLOTS * described.slot_s
        rule = f"latency and time of a flit must not exceed {_MAX_SLOTS} slots, {seconds:g} s"
        raise fail(name_or_path, "off_chip", "", rule)
    if described.channel_flits > _MAX_SLOTS:
        rule = (
            f"must be large enough that a channel off chip carries at most {_MAX_SLOTS} tiles while a compute unit "
            f"multiplies one, but it carries {described.channel_flits:,}"
        )
        raise fail(name_or_path, "compute.flops", described.compute_flops, rule)
    return described


def fabric_spec(name_or_path: str | Path) -> FabricSpec:
    """The spec behind :func:`fabric`, with the source of each constant; raises as that does."""
    return read_spec(_FOLDER, name_or_path, FabricSpec, "fabric")
