"""Fabric specs: ``specs/fabrics/*.yaml`` and files of users, read and checked (:mod:`hardware.fabrics`)."""

from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from hardware.fabric_grid import COMPUTE, MEMORY, Cell, Edge, SiteKind, grid
from hardware.fabrics import MAX_SIDE, Fabric
from hardware.inputs import fail
from hardware.spec_fields import NonNegative, Quantity, Source, StrictModel, read_spec, spec_names

_FOLDER = "fabrics"

_MAX_SLOTS = 1000
"""Of any delay that a spec states, and flits of any buffer."""

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
