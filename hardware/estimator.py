"""The latency estimator: arrays of operations on arrays of machines, in one call.

Equal operations are priced once, and each operation only on the machines that differ in what it can see (tensor core
configurations for GEMMs, vector core configurations for vector work). Times of real machines add a launch and divide
by a sustained efficiency per kind of work (``Machines.kernels``); those of template machines are ideal.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hardware.gemm import TensorTimes, tensor_times
from hardware.kernels import kernel_batch
from hardware.machines import Machines
from hardware.network import Network
from hardware.operations import Collective, Convolution, Fused, Gemm, Operation, Transfer, Vector
from hardware.vector import hbm_s, lanes_s, memory_s, vector_batch

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
    results = []
    for all_cores, share in _modes(machines, machines.tensor_cores):
        times = tensor_times(operations, machines, all_cores)
        moving_s = hbm_s(times.read_words, times.write_words, machines) / share
        results.append(constants.call_s(times.on_chip_s, moving_s))
    return results[0], results[1]


def _vector(operations: Sequence[Vector], machines: Machines, _network: Network | None) -> Pair:
    constants = kernel_batch([operation.kind for operation in operations], machines)
    batch = vector_batch(operations, machines)
    moving_s = memory_s(batch, constants, machines)
    results = []
    for all_cores, share in _modes(machines, machines.vector_cores):
        cores = machines.vector_cores if all_cores else np.ones_like(machines.vector_cores)
        working_s = lanes_s(batch, machines.vector_lanes, cores, machines)
        results.append(constants.call_s(working_s, moving_s / share))
    return results[0], results[1]


def _fused(operations: Sequence[Fused], machines: Machines, network: Network | None) -> Pair:
    tensor = [operation.tensor for operation in operations]
    if machines.rules.fused_vector_work_is_free.value:
        return _tensor(tensor, machines, network)
    constants = kernel_batch([_tensor_kind(operation) for operation in tensor], machines)
    results = []
    for all_cores, share in _modes(machines, machines.pairs):
        times = tensor_times(tensor, machines, all_cores)
        working_s = _epilogues_s(operations, machines, all_cores)
        tiles = _output_tiles(operations, machines, all_cores)
        longer_s = np.maximum(times.on_chip_s, working_s)
        pipelined_s = longer_s + np.minimum(times.on_chip_s, working_s) / tiles
        reads, writes = _fused_traffic(operations, times)
        results.append(constants.call_s(pipelined_s, hbm_s(reads, writes, machines) / share))
    return results[0], results[1]


def _epilogues_s(operations: Sequence[Fused], machines: Machines, all_cores: bool) -> Floats:
    """Seconds the vector lanes work on each operation's epilogue, [O, A]."""
    cores = machines.vector_cores if all_cores else np.ones_like(machines.vector_cores)
    parts = [part for operation in operations for part in operation.epilogue]
    owner = [index for index, operation in enumerate(operations) for _ in operation.epilogue]
    working_s = np.zeros((len(operations), len(machines)))
    if parts:
        np.add.at(working_s, owner, lanes_s(vector_batch(parts, machines), machines.vector_lanes, cores, machines))
    return working_s


def _output_tiles(operations: Sequence[Fused], machines: Machines, all_cores: bool) -> Floats:
    """Output tiles that pass from tensor to vector cores one after the other, at least 1, [O, A].

    A tile is one array's worth of outputs, or a width of whole rows where the epilogue reduces along rows.
    """
    cores = machines.tensor_cores if all_cores else np.ones_like(machines.tensor_cores)
    outputs = np.array([operation.tensor.output_elements for operation in operations], dtype=np.float64)[:, None]
    row = np.array([max((part.row for part in op.epilogue), default=1) for op in operations], dtype=np.int64)[:, None]
    tile = machines.core_width * np.maximum(machines.core_depth, row)
    return np.maximum(1.0, np.floor(outputs / (tile * cores)))


def _fused_traffic(operations: Sequence[Fused], times: TensorTimes) -> tuple[Floats, Floats]:
    """HBM words read and written: the product's, less its output, plus what the epilogue moves beside the chain."""
    extra_reads = np.zeros((len(operations), 1))
    extra_writes = np.zeros((len(operations), 1))
    for index, operation in enumerate(operations):
        chain = operation.epilogue
        if chain:
            extra_reads[index] = sum(max(0, part.read_elements - part.elements) for part in chain)
            beside = sum(max(0, part.write_elements - part.elements) for part in chain[:-1])
            extra_writes[index] = beside + chain[-1].write_elements - operation.tensor.output_elements
    return times.read_words + extra_reads, np.maximum(0.0, times.write_words + extra_writes)


def _collective(operations: Sequence[Collective], machines: Machines, network: Network | None) -> Pair:
    link = _required(network)
    width = machines.element_bytes
    factor = machines.rules.network_time_factor.value
    network_s = [link.collective_s(op.kind, op.elements * width, op.participants) * factor for op in operations]
    shares = [
        0 if op.kind == "all_gather" else op.elements * (op.participants - 1) // op.participants for op in operations
    ]
    additions = [Vector("add", share, 2 * share, share) for share in shares]
    single_s, all_cores_s = _vector(additions, machines, network)
    moving_s = np.array(network_s)[:, None]
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


def _modes(machines: Machines, cores: Integers) -> tuple[tuple[bool, Floats], tuple[bool, Floats]]:
    """(all cores?, share of the shared bandwidths [A]) of the two ways to run an operation."""
    whole = np.ones(len(machines))
    equal = machines.rules.single_core_share_of_bandwidth.rule == "equal"
    return (False, 1.0 / cores if equal else whole), (True, whole)


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
