"""Matrix products the way GPU libraries run them: output tiles, handed out to the cores in waves.

One core (streaming multiprocessor) computes one tile of T_m × T_n outputs over the whole k, or over one of P equal
parts of k whose sums are then added in a second pass over memory. All cores work on a wave of tiles at once; the
last wave is as long as the others, however few tiles it has (wave quantisation). With C cores of D multiply-accumulates
a cycle and a global buffer (the GPU's L2) of W words per cycle, a share W / C each:

    tiles   = ⌈m / T_m⌉ · ⌈n / T_n⌉ · batch · P
    cycles  = ⌈tiles / C⌉ · ⌈k / P⌉ · max(T_m · T_n / D, (T_m + T_n) / (W / C))
    extra   = 4-byte sums written and read once for each part, if P > 1

The library picks the tile and P with the least time. Source of the scheme: NVIDIA, "Matrix multiplication background
user's guide" (deep learning performance documentation), sections 3 and 4; of the tile sizes: the machine's spec.
"""

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hardware.gemm import TensorTimes, TensorTraffic, TensorWork
from hardware.machines import Machines
from hardware.operations import Convolution

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

_PARTS_OF_K = (1, 2, 4, 8)
_SUM_BYTES = 4


def wave_times(work: Sequence[TensorWork], machines: Machines, cores: Integers, bandwidth_share: Floats) -> TensorTimes:
    """Ideal times of each work on ``cores`` [A] cores of each machine; ``machines.block_tiles`` must not be empty.

    ``bandwidth_share`` [A] is the part of the HBM bandwidth that these cores get; each core has its share of the
    global buffer's in any case.
    """
    on_chip_s, hbm_s, _ = _best_tiles(work, machines, cores, bandwidth_share)
    return TensorTimes(on_chip_s, hbm_s)


def wave_traffic(work: Sequence[TensorWork], machines: Machines) -> TensorTraffic:
    """What each work moves on all cores of each machine with the tile that is fastest.

    A core reads the two operands of its tile from the global buffer and writes the result there; from its L2, its array
    of w × d multiply-accumulates reads w + d words per cycle, as a systolic one does.
    """
    _, hbm_s, loaded_words = _best_tiles(work, machines, machines.tensor_cores, np.ones(len(machines)))
    m, n, k, batch = (column[:, None] for column in _sizes(work).T)
    buffer_words = loaded_words + batch * m * n
    array_words = batch * m * n * k * (1.0 / machines.core_width + 1.0 / machines.core_depth)
    hbm_words = hbm_s * machines.hbm_bytes_per_s / machines.element_bytes
    return TensorTraffic(hbm_words, buffer_words, buffer_words + array_words)


def _best_tiles(
    work: Sequence[TensorWork], machines: Machines, cores: Integers, bandwidth_share: Floats
) -> tuple[Floats, Floats, Floats]:
    """Seconds on chip and of HBM, and operand words loaded from the global buffer, with the fastest tile, [O, A]."""
    m, n, k, batch = (column[:, None] for column in _sizes(work).T)
    words = np.array([_hbm_words(item) for item in work], dtype=np.float64)[:, None]
    words_per_s = machines.hbm_bytes_per_s / machines.element_bytes * bandwidth_share
    sustained = machines.kernel("gemm").buffer_efficiency
    core_words_per_cycle = sustained * machines.global_buffer_words_per_cycle / machines.tensor_cores
    # every tile with every number of parts, [tiles · parts, 1, 1]
    choices = [(*tile, parts) for tile, parts in itertools.product(machines.block_tiles, _PARTS_OF_K)]
    tile_m, tile_n, parts = np.array(choices, dtype=np.int64).T[:, :, None, None]
    products = tile_m * tile_n / (machines.core_width * machines.core_depth)
    loads = (tile_m + tile_n) / core_words_per_cycle
    part_k = _ceil_divide(k, parts)
    tiles = _ceil_divide(m, tile_m) * _ceil_divide(n, tile_n) * batch * parts
    waves = _ceil_divide(tiles, cores)
    sums = np.where(parts > 1, 2 * m * n * batch * parts * _SUM_BYTES / machines.element_bytes, 0.0)
    moving_s = (words + sums) / words_per_s
    working_s = waves * part_k * np.maximum(products, loads) / machines.clock_hz + sums / words_per_s
    total_s = np.maximum(working_s, moving_s)
    # where memory binds several tiles alike, the one that leaves the cores most time for fused work
    best = np.where(total_s == total_s.min(axis=0), working_s, np.inf).argmin(axis=0)[None]
    loaded_words = (tiles * part_k * (tile_m + tile_n)).astype(np.float64)
    on_chip_s, hbm_s, loaded_words = (
        np.take_along_axis(np.broadcast_to(each, total_s.shape), best, axis=0)[0]
        for each in (working_s, moving_s, loaded_words)
    )
    return on_chip_s, hbm_s, loaded_words


def _sizes(work: Sequence[TensorWork]) -> Integers:
    """m, n, k and batch of each work, [O, 4]."""
    gemms = [item.operation.gemm if isinstance(item.operation, Convolution) else item.operation for item in work]
    return np.array([(gemm.m, gemm.n, gemm.k, gemm.batch) for gemm in gemms], dtype=np.int64).reshape(-1, 4)


def _hbm_words(item: TensorWork) -> float:
    """Words moved from and to HBM if each operand is moved once."""
    operation = item.operation
    return operation.input_elements + operation.output_elements + item.extra_read_words + item.extra_write_words


def _ceil_divide(numerator: Integers, denominator: Integers | int) -> Integers:
    return -(-numerator // denominator)
