"""Energy of operations, static power and peak power of machines, from traffic and an energy model.

One execution of an operation costs, with the traffic of its fastest mapping on all cores (of equally fast ones, the one
with the least HBM traffic; what that one happens to move on chip is not minimised further)::

    compute = multiply-accumulates · (multiplication + 32-bit addition + register accesses)
    vector  = elements · cycles per element · lane cycle
    core    = words into and out of the L2 of the cores · access to an SRAM of that size
    buffer  = words between global buffer and cores, and between it and HBM · access to an SRAM of that size
    hbm     = bytes read and written · HBM access
    network = bytes sent · link

Idle units cost static power only. The same energy stands for an operation that runs on a single core. What vector work
reads and writes passes the global buffer and the L2 of a vector core on its way between HBM and the lanes. The product
of a fused operation goes to the lanes instead, and the epilogue's result takes its place on the way to HBM.

In a ring every step is one link, so of its bytes a collective sends 2 (p − 1) / p (all-reduce) or half of that from
each of p accelerators; rings on several levels of a network send as much together, and all links cost the same. A byte
that is sent is read from HBM on one side and written to HBM on the other. Additions are vector work.

Energy is physical under every cost model: work and traffic that a model takes as free in time cost energy all the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from hardware.block_waves import wave_traffic
from hardware.energy_model import EnergyModel
from hardware.estimator import fused_work
from hardware.gemm import TensorWork, tensor_traffic
from hardware.kernels import kernel_batch
from hardware.machines import Machines
from hardware.operations import REDUCING, Collective, Convolution, Fused, Gemm, Operation, Transfer, Vector
from hardware.units import gib_from_bytes
from hardware.vector import element_reads, vector_batch

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

_J_PER_PJ = 1e-12
TENSOR_FIELDS = ("tensor_cores", "core_width", "core_depth", "tensor_l2_bytes", "global_buffer_bytes")
_VECTOR_FIELDS = ("vector_cores", "vector_l2_bytes", "global_buffer_bytes")


@dataclass(frozen=True)
class EnergyByLevel:
    """Joules by where they are spent, all arrays of one shape; operations on machines are [O, A]."""

    compute_j: Floats
    vector_j: Floats
    core_j: Floats
    buffer_j: Floats
    hbm_j: Floats
    network_j: Floats

    @property
    def total_j(self) -> Floats:
        """Joules of all levels together."""
        return self.compute_j + self.vector_j + self.core_j + self.buffer_j + self.hbm_j + self.network_j


LEVELS = tuple(field.name for field in fields(EnergyByLevel))
"""Names of the levels, in order."""

_COMPUTE, _VECTOR, _CORE, _BUFFER, _HBM, _NETWORK = range(len(LEVELS))


def operation_energy(operations: Sequence[Operation], machines: Machines, model: EnergyModel) -> Floats:
    """Joules of one execution of each operation on each machine, [O, A]; of collectives and transfers, those of one
    accelerator (a transfer's include the receiver's).
    """
    total_j: Floats = _priced(operations, machines, model, lambda levels: levels.sum(axis=0, keepdims=True))[0]
    return total_j


def energy_by_level(operations: Sequence[Operation], machines: Machines, model: EnergyModel) -> EnergyByLevel:
    """As :func:`operation_energy`, split by level."""
    return EnergyByLevel(*_priced(operations, machines, model, lambda levels: levels))


def tensor_energy(work: Sequence[TensorWork], machines: Machines, model: EnergyModel, with_hbm: bool = True) -> Floats:
    """Joules of one execution of tensor work on each machine, [O, A].

    ``with_hbm``: whether what passes between HBM and the global buffer counts.
    """
    few, kind_of = machines.distinct(*TENSOR_FIELDS)
    levels = _tensor_levels(work, few, model)
    if not with_hbm:
        moved = levels[_HBM] / model.hbm_pj_per_byte
        levels[_BUFFER] -= moved * model.sram_pj_per_byte(few.global_buffer_bytes)
        levels[_HBM] = 0.0
    joules: Floats = _J_PER_PJ * levels.sum(axis=0)[:, kind_of]
    return joules


def memory_energy(machines: Machines, model: EnergyModel) -> Floats:
    """Joules of a byte between HBM and the global buffer of each machine, [A]."""
    joules: Floats = _J_PER_PJ * (model.hbm_pj_per_byte + model.sram_pj_per_byte(machines.global_buffer_bytes))
    return joules


def pass_energy(machines: Machines, model: EnergyModel) -> Floats:
    """Joules of a byte between HBM and the lanes of each machine, through global buffer and L2, [A]."""
    buffer_pj = model.sram_pj_per_byte(machines.global_buffer_bytes)
    core_pj = 2 * model.sram_pj_per_byte(machines.vector_l2_bytes)
    return memory_energy(machines, model) + _J_PER_PJ * (buffer_pj + core_pj)


def sent_energy(model: EnergyModel) -> float:
    """Joules of a byte over one link, read from HBM on one side and written on the other."""
    return _J_PER_PJ * (model.network_pj_per_byte + 2 * model.hbm_pj_per_byte)


def static_w(machines: Machines, hbm_bytes: float, model: EnergyModel) -> Floats:
    """Watts that an accelerator always draws, with ``hbm_bytes`` of HBM, [A]."""
    hbm_w = model.idle_w_per_hbm_gib * gib_from_bytes(hbm_bytes)
    return np.asarray(model.idle_w_per_mm2 * machines.area_mm2 + hbm_w, dtype=np.float64)


def sent_elements(collective: Collective) -> float:
    """Elements that one participant of a ring collective sends."""
    others, participants = collective.participants - 1, collective.participants
    match collective.kind:
        case "permute":
            return float(collective.elements if others else 0)
        case "all_to_all":
            return collective.elements * others / participants**2
        case "all_reduce":
            return 2 * collective.elements * others / participants
        case _:
            return collective.elements * others / participants


def _priced(
    operations: Sequence[Operation], machines: Machines, model: EnergyModel, reduce: Callable[[Floats], Floats]
) -> Floats:
    """What ``reduce`` makes of the levels [levels, O, C] of distinct machines, in joules on all machines, […, O, A]."""
    distinct = list(dict.fromkeys(operations))
    position = {operation: index for index, operation in enumerate(distinct)}
    rows = np.array([position[operation] for operation in operations], dtype=np.int64)
    depth = len(reduce(np.zeros((len(LEVELS), 1, 1))))
    table = np.empty((depth, len(distinct), len(machines)))
    for kinds, names, price in _PRICES:
        chosen = [index for index, operation in enumerate(distinct) if isinstance(operation, kinds)]
        if chosen:
            few, kind_of = machines.distinct(*names)
            levels_pj = price([distinct[index] for index in chosen], few, model)
            table[:, chosen] = (_J_PER_PJ * reduce(levels_pj))[:, :, kind_of]
    return table[:, rows]


def _tensor(operations: Sequence[Gemm | Convolution], machines: Machines, model: EnergyModel) -> Floats:
    return _tensor_levels([TensorWork(operation) for operation in operations], machines, model)


def _tensor_levels(work: Sequence[TensorWork], machines: Machines, model: EnergyModel) -> Floats:
    """Picojoules of tensor work, [levels, O, C]."""
    moved = (wave_traffic if machines.block_tiles else tensor_traffic)(work, machines)
    word_bytes = machines.element_bytes
    multiplies = np.array([item.operation.flops / 2 for item in work])[:, None]
    levels = np.zeros((len(LEVELS), len(work), len(machines)))
    levels[_COMPUTE] = multiplies * model.multiply_accumulate_pj
    levels[_CORE] = moved.core_words * word_bytes * model.sram_pj_per_byte(machines.tensor_l2_bytes)
    buffer_words = moved.buffer_words + moved.hbm_words
    levels[_BUFFER] = buffer_words * word_bytes * model.sram_pj_per_byte(machines.global_buffer_bytes)
    levels[_HBM] = moved.hbm_words * word_bytes * model.hbm_pj_per_byte
    return levels


def _vector(operations: Sequence[Vector], machines: Machines, model: EnergyModel) -> Floats:
    batch = vector_batch(operations, machines)
    constants = kernel_batch([operation.kind for operation in operations], machines)
    buffer_reads, hbm_reads = element_reads(batch, constants, machines)
    writes, word_bytes = batch.write_elements[:, None], machines.element_bytes
    levels = np.zeros((len(LEVELS), len(operations), len(machines)))
    levels[_VECTOR] = (batch.elements * batch.cycles)[:, None] * model.lane_cycle_pj
    core_words = 2 * (batch.read_elements[:, None] + writes)
    levels[_CORE] = core_words * word_bytes * model.sram_pj_per_byte(machines.vector_l2_bytes)
    hbm_words = hbm_reads + writes
    buffer_words = buffer_reads + writes + hbm_words
    levels[_BUFFER] = buffer_words * word_bytes * model.sram_pj_per_byte(machines.global_buffer_bytes)
    levels[_HBM] = hbm_words * word_bytes * model.hbm_pj_per_byte
    return levels


def _fused(operations: Sequence[Fused], machines: Machines, model: EnergyModel) -> Floats:
    work = [fused_work(operation) for operation in operations]
    levels = _tensor_levels(work, machines, model)
    parts = [part for operation in operations for part in operation.epilogue]
    if not parts:
        return levels
    owner = [index for index, operation in enumerate(operations) for _ in operation.epilogue]
    batch, word_bytes = vector_batch(parts, machines), machines.element_bytes
    lane_pj, passed_words = np.zeros(len(work)), np.zeros(len(work))
    np.add.at(lane_pj, owner, batch.elements * batch.cycles * model.lane_cycle_pj)
    np.add.at(passed_words, owner, batch.read_elements + batch.write_elements)
    extra_words = np.array([item.extra_read_words + item.extra_write_words for item in work])
    levels[_VECTOR] += lane_pj[:, None]
    levels[_CORE] += 2 * passed_words[:, None] * word_bytes * model.sram_pj_per_byte(machines.vector_l2_bytes)
    levels[_BUFFER] += extra_words[:, None] * word_bytes * model.sram_pj_per_byte(machines.global_buffer_bytes)
    return levels


def _collective(operations: Sequence[Collective], machines: Machines, model: EnergyModel) -> Floats:
    shares = [op.elements * (op.participants - 1) // op.participants for op in operations]
    added = [share if op.kind in REDUCING else 0 for op, share in zip(operations, shares, strict=True)]
    levels = _vector([Vector("add", share, 2 * share, share) for share in added], machines, model)
    return levels + _sent([sent_elements(op) for op in operations], machines, model)


def _transfer(operations: Sequence[Transfer], machines: Machines, model: EnergyModel) -> Floats:
    return _sent([op.elements for op in operations], machines, model)


def _sent(elements: Sequence[float], machines: Machines, model: EnergyModel) -> Floats:
    """Picojoules of elements over one link, [levels, O, C]."""
    sent_bytes = np.array(elements, dtype=np.float64)[:, None] * machines.element_bytes
    levels = np.zeros((len(LEVELS), len(elements), len(machines)))
    levels[_NETWORK] = sent_bytes * model.network_pj_per_byte
    levels[_HBM] = 2 * sent_bytes * model.hbm_pj_per_byte
    return levels


_Price = Callable[..., Floats]

_PRICES: tuple[tuple[type | tuple[type, ...], tuple[str, ...], _Price], ...] = (
    ((Gemm, Convolution), TENSOR_FIELDS, _tensor),
    (Vector, _VECTOR_FIELDS, _vector),
    (Fused, (*TENSOR_FIELDS, "vector_l2_bytes"), _fused),
    (Collective, _VECTOR_FIELDS, _collective),
    (Transfer, ("tensor_cores",), _transfer),
)
