"""Ideal times of kernels on one machine, by the best mapping to its cores: no launch, no sustained share below 1.

Kinds and shapes are those of :mod:`hardware.kernel_model`. A product takes what :func:`hardware.gemm.tensor_times`
says, experts their products in sequence on all cores and the activation between them, vector work the longest of lanes,
buffer and memory. Products of packed words (:mod:`hardware.packed_words`) have two more shapes: ``operands`` of a word
along the inner dimension, and ``cycles`` that an element takes for two words. Attention is fused: scores and softmax
stay on chip,

    time = max(seen · (products on chip), seen · (softmax on the lanes), bytes of queries, keys, values, result / rate)

with ``seen``, the share of the scores that a causal mask or a window leaves. Collectives take what the network says.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardware.estimator import estimate
from hardware.gemm import TensorWork, tensor_times
from hardware.machines import Integers, Machines
from hardware.network import Network
from hardware.operations import CollectiveKind, Gemm, Operation, Vector
from hardware.packed_words import PackedWords
from hardware.vector import lanes_s, vector_batch

Floats = NDArray[np.float64]
Shapes = Mapping[str, Floats]

_UNBOUND_BYTES_PER_S = 1e24
"""Of a memory that never binds."""

_WIDE_KEY, _WIDE_VALUE, _LATENT_KEY, _LATENT_VALUE = 192, 128, 576, 512


def mapped_s(kind: str, machine: Machines | None, link: Network, shapes: Shapes) -> Floats:
    """Ideal seconds of [N] kernels of one kind on one machine.

    Args:
        kind: a key of :data:`MAPPED`.
        machine: of length 1; constants of its kernels and its output tiles do not count. None for collectives.
        link: what joins the chips of collectives.
        shapes: arrays of [N], by the names of the kind; of :data:`PACKED` also ``operands`` and ``cycles`` of packed
            words, 1 where they are left out.
    """
    ideal = None if machine is None else replace(machine, kernels=MappingProxyType({}), block_tiles=())
    names = sorted(shapes)
    rows, place = np.unique(np.stack([shapes[name] for name in names], axis=1), axis=0, return_inverse=True)
    distinct = [dict(zip(names, row, strict=True)) for row in rows.tolist()]
    return np.array([MAPPED[kind](shape, ideal, link) for shape in distinct], dtype=np.float64)[place.ravel()]


def attention_tile_bytes(
    core_width: Integers, core_depth: Integers, key_width: int, value_width: int, element_bytes: int
) -> Integers:
    """What a core keeps of fused attention while its array makes scores, those of one query along its longer side and
    of one key along its shorter one: queries, results and scores, and keys and values twice, so that the next arrive.
    """
    queries, keys = np.maximum(core_width, core_depth), np.minimum(core_width, core_depth)
    tile: Integers = element_bytes * ((queries + 2 * keys) * (key_width + value_width) + queries * keys)
    return tile


def _whole(size: float) -> int:
    return max(1, int(np.ceil(size)))


def _gemm(m: float, n: float, k: float, batch: float = 1.0) -> Gemm:
    return Gemm(_whole(m), _whole(n), _whole(k), _whole(batch))


def _together_s(work: Sequence[Operation], machine: Machines) -> float:
    """Seconds of operations in sequence on all cores."""
    return float(estimate(work, machine, None).all_cores_s.sum())


def _dense(shape: Any, machine: Machines, _: Network) -> float:
    operands, own = _packed(shape, machine)
    return _together_s([_gemm(shape["m"], shape["n"], shape["k"] / operands)], own)


def _packed(shape: Any, machine: Machines) -> tuple[float, Machines]:
    """(operands of a word, the machine at the pace of its products)."""
    operands = shape.get("operands", 1.0)
    return operands, PackedWords(int(operands), shape.get("cycles", 1.0)).slowed(machine)


def _experts(shape: Any, machine: Machines, _: Network) -> float:
    hit, hidden, width = max(shape["hit"], 1.0), shape["hidden"], shape["width"]
    rows, (operands, own) = shape["rows"] / hit, _packed(shape, machine)
    elements = _whole(shape["rows"] * width)
    products = [_gemm(rows, 2 * width, hidden / operands), _gemm(rows, hidden, width / operands)]
    return float(hit) * _together_s(products, own) + _together_s(
        [Vector("silu", elements, 2 * elements, elements)], machine
    )


def _vector(shape: Any, machine: Machines, _: Network) -> float:
    elements = _whole(shape["elements"])
    return _together_s([Vector("gelu", elements, elements, elements)], machine)


def _fused_s(machine: Machines, products: tuple[Gemm, Gemm], seen: float, moved_bytes: float) -> float:
    """Fused attention of two products, of whose scores the share ``seen`` is computed."""
    unbound = replace(machine, hbm_bytes_per_s=_UNBOUND_BYTES_PER_S)
    times = tensor_times([TensorWork(each) for each in products], unbound, machine.tensor_cores, np.ones(1))
    scores = products[0].output_elements
    batch = vector_batch([Vector("softmax", scores, scores, scores, products[0].n)], machine)
    lanes = float(lanes_s(batch, machine.vector_lanes, machine.vector_cores, machine)[0, 0])
    return max(seen * float(times.on_chip_s.sum()), seen * lanes, moved_bytes / machine.hbm_bytes_per_s)


def _prompt_s(shape: Any, machine: Machines, key_heads: float, wide: float, deep: float, window: float) -> float:
    tokens, samples, heads = shape["tokens"], shape["samples"], shape["heads"]
    width = min(window, tokens) if window else tokens
    seen = (width * tokens - width * (width - 1) / 2) / tokens**2
    batch, rows = samples * key_heads, tokens * heads / key_heads
    moved = samples * tokens * (heads + key_heads) * (wide + deep) * machine.element_bytes
    return _fused_s(machine, (_gemm(rows, tokens, wide, batch), _gemm(rows, deep, tokens, batch)), seen, moved)


def _prefill(shape: Any, machine: Machines, _: Network) -> float:
    return _prompt_s(shape, machine, shape["key_heads"], shape["width"], shape["width"], shape["window"])


def _latent_prefill(shape: Any, machine: Machines, _: Network) -> float:
    return _prompt_s(shape, machine, shape["heads"], _WIDE_KEY, _WIDE_VALUE, 0.0)


def _decode(shape: Any, machine: Machines, _: Network) -> float:
    context, width, batch = shape["context"], shape["width"], shape["samples"] * shape["key_heads"]
    if shape["window"]:
        context = min(context, shape["window"])
    rows = shape["heads"] / shape["key_heads"]
    moved = 2.0 * batch * context * width * shape["cache_bytes"]
    return _fused_s(machine, (_gemm(rows, context, width, batch), _gemm(rows, width, context, batch)), 1.0, moved)


def _latent_decode(shape: Any, machine: Machines, _: Network) -> float:
    context, samples, heads = shape["context"], shape["samples"], shape["heads"]
    products = _gemm(heads, context, _LATENT_KEY, samples), _gemm(heads, _LATENT_VALUE, context, samples)
    return _fused_s(machine, products, 1.0, samples * context * _LATENT_KEY * shape["cache_bytes"])


def _all_reduce(shape: Any, _: Any, link: Network) -> float:
    return link.collective_s("all_reduce", shape["bytes"], _whole(shape["chips"]))


def _nccl(shape: Any, _: Any, link: Network) -> float:
    kind: CollectiveKind = "all_reduce" if shape["rounds"] > 1 else "all_gather"
    return link.collective_s(kind, shape["bytes"], _whole(shape["chips"]))


MAPPED: Mapping[str, Callable[[Any, Any, Network], float]] = MappingProxyType(
    {
        "dense": _dense,
        "experts": _experts,
        "prefill": _prefill,
        "decode": _decode,
        "latent prefill": _latent_prefill,
        "latent decode": _latent_decode,
        "vector": _vector,
        "all-reduce": _all_reduce,
        "nccl": _nccl,
    }
)
"""Seconds of one kernel, by kind."""

PACKED = ("dense", "experts")
"""Kinds whose operands may be narrower than a word."""
