"""Accelerators as arrays: one :class:`Machines` holds any number of them, in one row order.

All machines of one object share their clock, memory bandwidths and cost rules; what is searched differs by row.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardware.cost_model import HardwareRules, cost_model
from hardware.energy_model import EnergyModel, energy_model
from hardware.units import GIGA, MIB

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

OTHER_KINDS = "default"
"""The key of :attr:`Machines.kernels` for kinds of work that are not named there."""


@dataclass(frozen=True, slots=True)
class KernelConstants:
    """What a real machine makes of the ideal time of one kind of work.

        time = max(floor_s, launch_s + max(on_chip_s / efficiency, memory_s / memory_efficiency))

    ``launch_s`` passes before the kernel works, ``floor_s`` is the least time of a call: what the host does meanwhile,
    hidden behind longer kernels. The efficiencies (0 to 1] are the sustained parts of the rates of the cores and of
    memory; ``buffer_efficiency``, that of the global buffer, counts inside on_chip_s, and only for matrix products
    that are handed out in block tiles. Row-wise vector work reads each row ``row_reads`` times and has
    ``rows_per_core`` rows at work on each core (0: as many as fit); where these outgrow the memory of the core, later
    reads come from the global buffer, and from HBM where they outgrow that too.
    """

    launch_s: float = 0.0
    floor_s: float = 0.0
    efficiency: float = 1.0
    memory_efficiency: float = 1.0
    buffer_efficiency: float = 1.0
    row_reads: int = 1
    rows_per_core: int = 0


IDEAL_KERNEL = KernelConstants()


@dataclass(frozen=True)
class Machines:
    """Accelerators of the template (paper section 2): cores with their own L2, a shared global buffer, HBM.

    Arrays have shape [A]. A tensor core is a ``core_width`` × ``core_depth`` array of processing elements, each doing
    one multiply-accumulate per cycle; a vector core has ``vector_lanes`` lanes. ``tensor_l2_bytes`` and
    ``vector_l2_bytes`` are those of one core. ``hbm_bytes_per_s`` counts reads and writes together where
    ``rules.hbm_shares_reads_and_writes``, and holds for each otherwise. ``kernels`` maps a kind of work ("gemm",
    "convolution", or a :data:`~hardware.operations.VectorKind`) to its constants; the key "default" stands for the
    rest, and kinds without either are ideal (launch 0, efficiency 1). ``block_tiles`` are the output tiles (m, n) in
    which a GPU's library hands out matrix products (:mod:`hardware.block_waves`); without any, products are mapped by
    search. ``process_nm`` is the process of real dies and of templates of a node; None stands for the template of the
    paper. ``energy`` is what all of them spend, ``energy_range`` the least and the most that its sources allow, where
    that is known. Cores and memory lie on ``dies`` equal dies, each of which sends and
    receives ``d2d_bytes_per_s`` to and from the others (:func:`hardware.gemm.tensor_times`).
    """

    tensor_cores: Integers
    core_width: Integers
    core_depth: Integers
    vector_cores: Integers
    vector_lanes: Integers
    tensor_l2_bytes: Integers
    vector_l2_bytes: Integers
    global_buffer_bytes: Integers
    area_mm2: Floats
    clock_hz: float
    hbm_bytes_per_s: float
    global_buffer_words_per_cycle: float
    element_bytes: int
    rules: HardwareRules = field(default_factory=lambda: cost_model().hardware)
    kernels: Mapping[str, KernelConstants] = field(default_factory=lambda: MappingProxyType({}))
    block_tiles: tuple[tuple[int, int], ...] = ()
    process_nm: float | None = None
    energy: EnergyModel = field(default_factory=energy_model)
    energy_range: tuple[EnergyModel, EnergyModel] | None = None
    dies: int = 1
    d2d_bytes_per_s: float = np.inf

    def __post_init__(self) -> None:
        length = len(self.tensor_cores)
        for name in ARRAY_FIELDS:
            array = getattr(self, name)
            if array.shape != (length,):
                raise ValueError(f"{name} must have shape ({length},), but has {array.shape}")
            array.flags.writeable = False

    def __len__(self) -> int:
        return len(self.tensor_cores)

    def take(self, indices: ArrayLike) -> "Machines":
        """The machines at ``indices`` (positions or a boolean mask), in that order."""
        chosen = np.asarray(indices)
        return replace(self, **{name: getattr(self, name)[chosen] for name in ARRAY_FIELDS})

    def one(self, index: int) -> "Machines":
        """The machine at position ``index`` alone (length 1)."""
        return self.take([index])

    def distinct(self, *names: str) -> tuple["Machines", Integers]:
        """Machines that differ in the array fields ``names``, one of each kind, and the kind of each machine, [A]."""
        columns = np.stack([getattr(self, name) for name in names])
        order = np.lexsort(columns)
        ordered = columns[:, order]
        first = np.ones(len(self), dtype=np.bool_)
        first[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
        kind = np.empty(len(self), dtype=np.int64)
        kind[order] = np.cumsum(first) - 1
        return self.take(order[first]), kind

    @property
    def peak_flops(self) -> Floats:
        """FLOP/s of all tensor cores together, 2 a multiply-accumulate. Shape [A]."""
        elements = self.tensor_cores * self.core_width * self.core_depth
        return np.asarray(2.0 * self.clock_hz * elements, dtype=np.float64)

    @property
    def pairs(self) -> Integers:
        """Tensor core + vector core pairs, which run fused operations side by side. Shape [A]."""
        return np.minimum(self.tensor_cores, self.vector_cores)

    def kernel(self, kind: str) -> KernelConstants:
        """The constants of ``kind`` of work."""
        return self.kernels.get(kind, self.kernels.get(OTHER_KINDS, IDEAL_KERNEL))

    def describe(self, index: int, area: str | None = None) -> str:
        """One readable line on the machine at position ``index``; ``area``: in other words."""
        area = f"{self.area_mm2[index]:.1f} mm²" if area is None else area
        return (
            f"{self.tensor_cores[index]} tensor cores {self.core_width[index]}×{self.core_depth[index]}, "
            f"{self.vector_cores[index]} vector cores of {self.vector_lanes[index]}, "
            f"{self.global_buffer_bytes[index] / MIB:g} MiB global buffer, {area}, "
            f"{self.peak_flops[index] / (1000 * GIGA):.1f} Tflop/s, HBM {self.hbm_bytes_per_s / GIGA:g} GB/s"
        )


ARRAY_FIELDS = tuple(f.name for f in fields(Machines) if f.type in (Integers, Floats))
