"""The constants of real machines as arrays, one entry for each operation."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hardware.machines import Machines

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class KernelBatch:
    """:class:`~hardware.machines.KernelConstants` of O operations, each field of shape [O]."""

    launch_s: Floats
    floor_s: Floats
    efficiency: Floats
    memory_efficiency: Floats
    row_reads: Integers
    rows_per_core: Integers

    def call_s(self, on_chip_s: Floats, memory_s: Floats) -> Floats:
        """Seconds of a call, [O, A], from ideal times of shape [O, A] or [O, 1]."""
        return self.started_s(self.working_s(on_chip_s, memory_s))

    def working_s(self, on_chip_s: Floats, memory_s: Floats) -> Floats:
        """Seconds of work at the sustained rates of cores and memory, which overlap."""
        sustained = np.maximum(on_chip_s / self.efficiency[:, None], memory_s / self.memory_efficiency[:, None])
        return np.asarray(sustained, dtype=np.float64)

    def started_s(self, working_s: Floats) -> Floats:
        """Seconds of a call that works for ``working_s``."""
        return np.asarray(np.maximum(self.floor_s[:, None], self.launch_s[:, None] + working_s), dtype=np.float64)


def kernel_batch(kinds: Sequence[str], machines: Machines) -> KernelBatch:
    """The constants of these kinds of work on ``machines``."""
    constants = [machines.kernel(kind) for kind in kinds]
    return KernelBatch(
        launch_s=np.array([constant.launch_s for constant in constants], dtype=np.float64),
        floor_s=np.array([constant.floor_s for constant in constants], dtype=np.float64),
        efficiency=np.array([constant.efficiency for constant in constants], dtype=np.float64),
        memory_efficiency=np.array([constant.memory_efficiency for constant in constants], dtype=np.float64),
        row_reads=np.array([constant.row_reads for constant in constants], dtype=np.int64),
        rows_per_core=np.array([constant.rows_per_core for constant in constants], dtype=np.int64),
    )
