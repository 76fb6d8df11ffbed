"""What is priced: dies by their sizes, and the package that they come in."""

from dataclasses import dataclass, field

import numpy as np

from hardware.silicon.interval import Floats, Numbers
from hardware.silicon.tables import NO_MEMORY, MemoryKind, Style, memories
from hardware.units import GIGA


@dataclass(frozen=True)
class Die:
    """Equal dies. Sizes are those of silicon, spare units included, each a number or an array.

    Attributes:
        node: nm, a key of :func:`hardware.silicon.tables.nodes`.
        style: what surrounds the arrays.
        cores: how many.
        spare_cores: of these, how many may be switched off.
        macs_per_core: multiply-accumulates of 16 bits a cycle.
        lanes_per_core: of 32 bits.
        fp64_lanes_per_core: beside them.
        local_mib_per_core: registers, caches and scratchpads of a core.
        shared_mib: of the die.
        memory: kind of memory (:func:`hardware.silicon.tables.memories`), or ``none``.
        memory_sites: stacks, devices or channels that the die has interfaces for.
        link_bytes_per_s: to other packages, in one direction.
        d2d_bytes_per_s: to other dies of the package, in one direction.
        host: interfaces of 16 lanes to a host.
        is_stacked: whether it lies on another die, so that it takes no room in the package.
        has_8bit, has_4bit: whether arrays compute in 8 bits at twice the rate, in 4 bits at four times.
    """

    node: int
    style: Style
    cores: Numbers = 0
    spare_cores: Numbers = 0
    macs_per_core: Numbers = 0
    lanes_per_core: Numbers = 0
    fp64_lanes_per_core: Numbers = 0
    local_mib_per_core: Numbers = 0.0
    shared_mib: Numbers = 0.0
    memory: str = NO_MEMORY
    memory_sites: Numbers = 0
    link_bytes_per_s: Numbers = 0.0
    d2d_bytes_per_s: Numbers = 0.0
    host: Numbers = 1
    is_stacked: bool = False
    has_8bit: bool = False
    has_4bit: bool = False

    @property
    def memory_kind(self) -> MemoryKind | None:
        """The kind of memory that it has interfaces for."""
        return None if self.memory == NO_MEMORY else memories()[self.memory]

    @property
    def working_cores(self) -> Floats:
        """Cores that are not spare."""
        return np.asarray(np.asarray(self.cores) - self.spare_cores, dtype=np.float64)


@dataclass(frozen=True)
class Package:
    """Dies and memory that are sold as one chip.

    Attributes:
        dies: each with how many there are.
        clock_hz: the highest, of all dies.
        memory: kind of memory, or ``none``.
        stacks: that hold data.
        memory_gb: of all stacks together, in GB of data sheets.
        memory_bytes_per_s: their rate; that of the kind where left out.
        cap_w: power limit; None where there is none.
    """

    dies: tuple[tuple[Die, int], ...]
    clock_hz: Numbers
    memory: str = NO_MEMORY
    stacks: Numbers = 0
    memory_gb: Numbers = 0.0
    memory_bytes_per_s: Numbers | None = field(default=None)
    cap_w: Numbers | None = None

    @property
    def memory_kind(self) -> MemoryKind | None:
        """The kind of memory."""
        return None if self.memory == NO_MEMORY else memories()[self.memory]

    @property
    def clock_ghz(self) -> Floats:
        """The highest clock."""
        return np.asarray(self.clock_hz, dtype=np.float64) / GIGA

    @property
    def peak_flops(self) -> Floats:
        """16-bit FLOP/s of all arrays at the highest clock."""
        elements = sum(count * die.working_cores * np.asarray(die.macs_per_core) for die, count in self.dies)
        return np.asarray(2.0 * np.asarray(self.clock_hz) * elements, dtype=np.float64)

    @property
    def memory_rate(self) -> Floats:
        """Bytes a second of all stacks."""
        if self.memory_bytes_per_s is not None:
            return np.asarray(self.memory_bytes_per_s, dtype=np.float64)
        kind = self.memory_kind
        return np.asarray(0.0 if kind is None else kind.bytes_per_s * np.asarray(self.stacks), dtype=np.float64)
