"""Time of vector work: lanes, row-wise limits, and the memory its operands come from.

    lanes_s  = passes · cycles_per_element / clock
    memory_s = (read_elements + write_elements) · element_bytes / hbm_bytes_per_s
    buffer_s = max(read_elements, write_elements) / global_buffer_words_per_cycle / clock

where the reads of long rows on real machines count again (:class:`hardware.machines.KernelConstants`).

Elementwise work has passes = ⌈elements / (lanes · cores)⌉. Row-wise work (softmax, normalisations, cross entropy)
reduces along rows inside one core, which takes ⌊lanes / row⌋ short rows side by side:
passes = ⌈rows / (cores · max(1, ⌊lanes / row⌋))⌉ · ⌈row / lanes⌉. The phaze-2024 cost model has the elementwise rule
for all kinds and neither memory_s nor buffer_s.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hardware.cost_model import vector_cycles
from hardware.kernels import KernelBatch
from hardware.machines import Machines
from hardware.operations import Vector

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

ROW_WISE = frozenset(
    {
        "softmax",
        "layer_norm",
        "rms_norm",
        "batch_norm",
        "cross_entropy",
        "softmax_backward",
        "layer_norm_backward",
        "rms_norm_backward",
        "batch_norm_backward",
        "cross_entropy_backward",
    }
)
"""Kinds that reduce along ``row``."""


@dataclass(frozen=True)
class VectorBatch:
    """Vector operations as arrays of shape [O]."""

    elements: Integers
    row: Integers
    row_wise: NDArray[np.bool_]
    cycles: Floats
    read_elements: Integers
    write_elements: Integers


def vector_batch(operations: Sequence[Vector], machines: Machines) -> VectorBatch:
    """``operations`` as arrays, with the cycle table of ``machines.rules``."""
    table = vector_cycles(machines.rules.vector_cycles).cycles
    return VectorBatch(
        elements=np.array([operation.elements for operation in operations], dtype=np.int64),
        row=np.array([max(1, operation.row) for operation in operations], dtype=np.int64),
        row_wise=np.array([operation.kind in ROW_WISE for operation in operations], dtype=np.bool_),
        cycles=np.array([table[operation.kind].value for operation in operations], dtype=np.float64),
        read_elements=np.array([operation.read_elements for operation in operations], dtype=np.int64),
        write_elements=np.array([operation.write_elements for operation in operations], dtype=np.int64),
    )


def lanes_s(batch: VectorBatch, lanes: Integers, cores: Integers, machines: Machines) -> Floats:
    """Seconds the lanes need, shape [O, A]; ``lanes`` and ``cores`` have shape [A]."""
    elements = batch.elements[:, None]
    passes = _ceil_divide(elements, (lanes * cores)[None, :])
    if machines.rules.vector_is_memory_bound.value and batch.row_wise.any():
        chosen = batch.row_wise
        row = batch.row[chosen][:, None]
        rows = _ceil_divide(elements[chosen], row)
        side_by_side = np.maximum(1, lanes[None, :] // row)
        row_passes = _ceil_divide(rows, cores[None, :] * side_by_side) * _ceil_divide(row, lanes[None, :])
        passes[chosen] = np.maximum(passes[chosen], row_passes)
    return np.asarray(passes * batch.cycles[:, None] / machines.clock_hz, dtype=np.float64)


def memory_s(batch: VectorBatch, constants: KernelBatch, machines: Machines) -> Floats:
    """Seconds that the shared memories (HBM and global buffer) need, all bandwidth given to the op.

    Shape [O, A], or [O, 1] where all machines are alike.
    """
    if not machines.rules.vector_is_memory_bound.value:
        return np.zeros((len(batch.elements), 1))
    writes = batch.write_elements[:, None]
    buffer_reads, hbm_reads = element_reads(batch, constants, machines)
    words_per_s = machines.global_buffer_words_per_cycle * machines.clock_hz
    return np.maximum(np.maximum(buffer_reads, writes) / words_per_s, hbm_s(hbm_reads, writes, machines))


def element_reads(batch: VectorBatch, constants: KernelBatch, machines: Machines) -> tuple[Integers, Integers]:
    """Elements read from the global buffer and from HBM, each [O, A] or [O, 1].

    Rows at work that outgrow a core's memory are read again from the global buffer; those that outgrow this, from HBM.
    """
    first = batch.read_elements[:, None]
    if not (batch.row_wise & (constants.rows_per_core > 0)).any():
        return first, first
    again = np.where(batch.row_wise, (constants.row_reads - 1) * batch.elements, 0)[:, None]
    core_bytes = (constants.rows_per_core * batch.row * machines.element_bytes)[:, None]
    leaves_core = core_bytes > machines.vector_l2_bytes
    leaves_chip = leaves_core & (core_bytes * machines.vector_cores > machines.global_buffer_bytes)
    return first + again * leaves_core, first + again * leaves_chip


def hbm_s(read_elements: Floats | Integers, write_elements: Floats | Integers, machines: Machines) -> Floats:
    """Seconds HBM needs for these elements: their sum where reads and writes share its bus, else the larger."""
    shared = machines.rules.hbm_shares_reads_and_writes.value
    elements = read_elements + write_elements if shared else np.maximum(read_elements, write_elements)
    return np.asarray(elements * machines.element_bytes / machines.hbm_bytes_per_s, dtype=np.float64)


def _ceil_divide(numerator: Integers, denominator: Integers) -> Integers:
    return -(-numerator // denominator)
