"""The latency estimator: arrays of operations on arrays of machines, in one call.

Equal operations are priced once, and each operation only on the machines that differ in what it can see (tensor core
configurations for GEMMs, vector core configurations for vector work). Times of real machines add a launch and divide
by a sustained efficiency per kind of work (``Machines.kernels``); those of template machines are ideal.

A fused operation passes its product tile by tile to the vector cores. With T seconds of tensor work (HBM traffic
included, the product itself neither written to nor read from HBM), V seconds of vector work and N output tiles, all but
one tile overlap:

    fused = max(T, V) + min(T, V) / N
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hardware.block_waves import wave_times
from hardware.gemm import TensorTimes, TensorWork, tensor_times
from hardware.kernels import kernel_batch
from hardware.machines import Machines
from hardware.network import Network
from hardware.operations import REDUCING, Collective, Convolution, Fused, Gemm, Operation, Transfer, Vector
from hardware.vector import lanes_s, memory_s, vector_batch

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

Pair = tuple[Floats, Floats]
"""Seconds on a single core (or pair) and on all cores, each [O, A]."""


@dataclass(frozen=True)
class OperatorLatency:
    """Seconds of O operations on A machines, both arrays of shape [O, A].

    ``single_s``: on one core of the operation's kind (a fused one on a tensor and a vector core); ``all_cores_s``: on
    all of them, with nothing else running. Paper section 4: ℓ and ℓ̂.
    """

    single_s: Floats
    all_cores_s: Floats


def estimate(operations: Sequence[Operation], machines: Machines, network: Network | None) -> OperatorLatency:
    """Prices every operation on every machine.

    Returns:
        Latencies of shape [len(operations), len(machines)].

    Raises:
        ValueError: a collective or transfer between accelerators, but ``network`` is None.
    """
    distinct = list(dict.fromkeys(operations))
    position = {operation: index for index, operation in enumerate(distinct)}
    rows = np.array([position[operation] for operation in operations], dtype=np.int64)
    single_s = np.empty((len(distinct), len(machines)))
    all_cores_s = np.empty_like(single_s)
    for kinds, price in _PRICES:
        chosen = [index for index, operation in enumerate(distinct) if isinstance(operation, kinds)]
        if chosen:
            single_s[chosen], all_cores_s[chosen] = price([distinct[index] for index in chosen], machines, network)
    return OperatorLatency(single_s[rows], all_cores_s[rows])


def _tensor(operations: Sequence[Gemm | Convolution], machines: Machines, _network: Network | None) -> Pair:
    constants = kernel_batch([_tensor_kind(operation) for operation in operations], machines)
    work = [TensorWork(operation) for operation in operations]
    results = []
    for mode in _modes(machines, 0.5 / machines.tensor_cores):
        times = _tensor_times(work, machines, mode)
        results.append(constants.call_s(times.on_chip_s, times.hbm_s))
    return results[0], results[1]


def _vector(operations: Sequence[Vector], every: Machines, _network: Network | None) -> Pair:
    machines, kind = every.distinct("vector_cores", "vector_lanes", "vector_l2_bytes", "global_buffer_bytes")
    constants = kernel_batch([operation.kind for operation in operations], machines)
    batch = vector_batch(operations, machines)
    moving_s = memory_s(batch, constants, machines)
    results = []
    for mode in _modes(machines, 0.5 / machines.vector_cores):
        working_s = lanes_s(batch, machines.vector_lanes, mode.vector_cores, machines)
        results.append(constants.call_s(working_s, moving_s / mode.bandwidth_share)[:, kind])
    return results[0], results[1]


def _fused(operations: Sequence[Fused], machines: Machines, network: Network | None) -> Pair:
    tensor = [operation.tensor for operation in operations]
    if machines.rules.fused_vector_work_is_free.value:
        return _tensor(tensor, machines, network)
    constants = kernel_batch([_tensor_kind(operation) for operation in tensor], machines)
    work = [fused_work(operation) for operation in operations]
    results = []
    for mode in _modes(machines, 0.5 / machines.pairs):
        times = _tensor_times(work, machines, mode)
        tensor_s = constants.working_s(times.on_chip_s, times.hbm_s)
        vector_s = constants.working_s(_epilogues_s(operations, machines, mode.vector_cores), np.zeros((1, 1)))
        tiles = _output_tiles(operations, machines, mode.tensor_cores)
        pipelined_s = np.maximum(tensor_s, vector_s) + np.minimum(tensor_s, vector_s) / tiles
        results.append(constants.started_s(pipelined_s))
    return results[0], results[1]


def fused_work(operation: Fused) -> TensorWork:
    """The product with its output kept on chip, plus what the epilogue reads in addition to the chain and writes at
    its end.
    """
    chain = operation.epilogue
    if not chain:
        return TensorWork(operation.tensor)
    beside_read = sum(max(0, part.read_elements - part.elements) for part in chain)
    beside_written = sum(max(0, part.write_elements - part.elements) for part in chain[:-1])
    return TensorWork(
        operation.tensor,
        extra_read_words=beside_read,
        extra_write_words=beside_written + chain[-1].write_elements - operation.tensor.output_elements,
    )


def _epilogues_s(operations: Sequence[Fused], every: Machines, cores: Integers) -> Floats:
    """Seconds the lanes of ``cores`` [A] vector cores work on each operation's epilogue, [O, A]."""
    machines, kind = replace(every, vector_cores=cores).distinct("vector_cores", "vector_lanes")
    parts = [part for operation in operations for part in operation.epilogue]
    owner = [index for index, operation in enumerate(operations) for _ in operation.epilogue]
    working_s = np.zeros((len(operations), len(machines)))
    if parts:
        lanes, busy = machines.vector_lanes, machines.vector_cores
        np.add.at(working_s, owner, lanes_s(vector_batch(parts, machines), lanes, busy, machines))
    return working_s[:, kind]


def _output_tiles(operations: Sequence[Fused], machines: Machines, cores: Integers) -> Floats:
    """Output tiles that pass from tensor to vector cores in sequence, at least 1, [O, A].

    A tile is one array's worth of outputs, or a width of whole rows where the epilogue reduces along rows.
    """
    outputs = np.array([operation.tensor.output_elements for operation in operations], dtype=np.float64)[:, None]
    row = np.array([max((part.row for part in op.epilogue), default=1) for op in operations], dtype=np.int64)[:, None]
    tile = machines.core_width * np.maximum(machines.core_depth, row)
    return np.asarray(np.maximum(1.0, np.floor(outputs / (tile * cores))), dtype=np.float64)


def _collective(operations: Sequence[Collective], machines: Machines, network: Network | None) -> Pair:
    link = _required(network)
    width = machines.element_bytes
    factor = machines.rules.network_time_factor.value
    network_s = [link.collective_s(op.kind, op.elements * width, op.participants) * factor for op in operations]
    moving_s = np.repeat(np.array(network_s)[:, None], len(machines), axis=1)
    shares = [op.elements * (op.participants - 1) // op.participants for op in operations]
    reduces = [op.kind in REDUCING and not link.additions_included for op in operations]
    adds = np.array(reduces) & (np.array(shares) > 0)
    additions = [Vector("add", share, 2 * share, share) for share in shares]
    single_s, all_cores_s = (np.where(adds[:, None], adding_s, 0.0) for adding_s in _vector(additions, machines, None))
    return moving_s + single_s, moving_s + all_cores_s


def _transfer(operations: Sequence[Transfer], machines: Machines, network: Network | None) -> Pair:
    link = _required(network)
    factor = machines.rules.network_time_factor.value
    moving_s = [link.transfer_s(op.elements * machines.element_bytes) * factor for op in operations]
    filled = np.repeat(np.array(moving_s)[:, None], len(machines), axis=1)
    return filled, filled.copy()


def _required(network: Network | None) -> Network:
    if network is None:
        raise ValueError("a network must be given to price collectives and transfers, but it is None")
    return network


@dataclass(frozen=True)
class _Mode:
    """Cores an operation runs on, and its share of the shared bandwidths, each [A]."""

    tensor_cores: Integers
    vector_cores: Integers
    bandwidth_share: Floats


def _modes(machines: Machines, part: Floats) -> tuple[_Mode, _Mode]:
    """On a single core, which has ``part`` [A] of the bandwidth where that is shared equally, and on all cores."""
    ones = np.ones_like(machines.tensor_cores)
    whole = np.ones(len(machines))
    equal = machines.rules.single_core_share_of_bandwidth.rule == "equal"
    return (
        _Mode(ones, ones, part if equal else whole),
        _Mode(machines.tensor_cores, machines.vector_cores, whole),
    )


def _tensor_times(work: Sequence[TensorWork], machines: Machines, mode: _Mode) -> TensorTimes:
    price = wave_times if machines.block_tiles else tensor_times
    return price(work, machines, mode.tensor_cores, mode.bandwidth_share)


def _tensor_kind(operation: Gemm | Convolution) -> str:
    return "convolution" if isinstance(operation, Convolution) else "gemm"


_Price = Callable[..., Pair]

_PRICES: tuple[tuple[type | tuple[type, ...], _Price], ...] = (
    ((Gemm, Convolution), _tensor),
    (Vector, _vector),
    (Fused, _fused),
    (Collective, _collective),
    (Transfer, _transfer),
)
