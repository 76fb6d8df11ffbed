"""Time of matrix products on tensor cores."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hardware.machines import Machines
from hardware.operations import Convolution, Gemm

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TensorTimes:
    """Ideal times of tensor work on one core or all, shape [O, A].

    ``on_chip_s``: the larger of computing and on-chip traffic. ``read_words`` and ``write_words``: HBM traffic.
    """

    on_chip_s: Floats
    read_words: Floats
    write_words: Floats


def tensor_times(operations: Sequence[Gemm | Convolution], machines: Machines, all_cores: bool) -> TensorTimes:
    """Prices ``operations`` on one core of each machine, or on all of them."""
    shape = (len(operations), len(machines))
    cores = machines.tensor_cores if all_cores else np.ones_like(machines.tensor_cores)
    gemms = [op.gemm if isinstance(op, Convolution) else op for op in operations]
    m, n, k, b = (
        np.array([getattr(g, key) for g in gemms], dtype=np.int64)[:, None] for key in ("m", "n", "k", "batch")
    )
    w, d = machines.core_width[None, :], machines.core_depth[None, :]

    def up(x: Integers, y: Integers) -> Integers:
        return -(-x // y)

    passes = np.minimum(up(k, d) * up(n, w) * m, np.minimum(up(k, d) * up(m, w) * n, up(m, d) * up(n, w) * k))
    cycles = np.maximum(
        up(b * passes, cores[None, :]), b * m * n * k / (cores * machines.core_width * machines.core_depth)
    )
    reads = np.array([op.input_elements for op in operations], dtype=np.float64)[:, None]
    writes = np.array([op.output_elements for op in operations], dtype=np.float64)[:, None]
    return TensorTimes(cycles / machines.clock_hz, np.broadcast_to(reads, shape), np.broadcast_to(writes, shape))
