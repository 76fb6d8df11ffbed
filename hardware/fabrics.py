"""Reconfigurable dataflow fabrics: grids of compute and memory units with a switched network between them.

Their specs are in :mod:`hardware.fabric_specs`. The time unit is the *slot*: what a compute unit needs, at its peak,
for the product of two tiles. The unit of traffic is the *flit*: the stream of one tile, which a link carries in one
slot. How long operators work is not part of a fabric (:mod:`hardware.operator_slots`).
"""

import math
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
import numpy.typing as npt

from hardware.fabric_grid import Cell, Edge, Grid, grid

MAX_SIDE = 64
"""Rows, and columns, of a grid at most."""

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
