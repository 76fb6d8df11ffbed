"""Seconds of single kernels in plain numbers, for :mod:`dse.serve.check_steps`; no arrays, no code of the search.

Kernels that were timed follow the forms that :mod:`hardware.kernel_times` describes, with the constants in the chip's
file. Of chips without timed kernels a kernel takes what the hardware's own model says, which is part of the problem's
definition.
"""

import math
from collections.abc import Callable, Mapping

from hardware.kernel_model import KernelModel, Kind
from hardware.kernel_times.fitted import FittedKernel

Shape = Mapping[str, float]
Constants = Mapping[str, float]

_LARGEST_ERROR = 0.4
_BLOCK = 128
_LATENT = (576.0, 512.0)
_WIDE = 192.0 + 128.0


class _Peaks:
    """Of a chip: FLOP/s in the format of a kernel, bytes/s of memory and links, processors."""

    def __init__(self, kernels: KernelModel, precision: str) -> None:
        self.flops, self.memory = kernels.chip.peak_flops[precision], kernels.chip.hbm_bytes_per_s
        self.processors, self.link = float(kernels.chip.processors or 1), kernels.link_bytes_per_s


def _norm(power: float, first: float, second: float) -> float:
    """Of two that overlap."""
    longer, shorter = max(first, second), min(first, second)
    return longer * (1.0 + (shorter / longer) ** power) ** (1.0 / power) if longer > 0 else 0.0


def _dense_s(x: Shape, peak: _Peaks, c: Constants) -> float:
    m, n, k, size = x["m"], x["n"], x["k"], x["element_bytes"]
    memory = (size * (m * k + n * k) + 2.0 * m * n) / (peak.memory * c["memory_share"])
    best = math.inf
    for parts in (1, 2, 4, 8, 16):
        for height, width in ((64, 128), (128, 128), (128, 256)):
            side = height * width / (height + width)
            tiles = max(math.ceil(m / height) * math.ceil(n / width), peak.processors / parts)
            flops = 2.0 * tiles * height * width * k * (side + c["tile_half"]) / side
            busy = math.hypot(flops / (peak.flops * c["compute_share"]), memory)
            best = min(best, busy + c["split_s"] * math.log2(parts))
    cast = m * k * (2.0 + size) / peak.memory if size < 2.0 else 0.0
    return c["floor_s"] + best + c["cast_passes"] * cast


def _experts_s(x: Shape, peak: _Peaks, c: Constants) -> float:
    hidden, width = x["hidden"], x["width"]
    read = x["hit"] * 3.0 * hidden * width * x["element_bytes"] / (peak.memory * c["memory_share"])
    products = math.inf
    for height in (16, 64, 128):
        full = height / (height + 48.0) * (128.0 + 48.0) / 128.0
        flops = 6.0 * hidden * width * x[f"padded_{height}"]
        products = min(products, _norm(2.0, flops / (peak.flops * c["compute_share"] * full), read))
    own = 2.0 * x["rows"] * (2.0 * hidden + 3.0 * width)
    other = 2.0 * 2.0 * hidden * max(x["tokens"] * x["chosen"] - x["rows"] + x["tokens"], 0.0)
    passes = (c["row_passes"] * own + c["other_passes"] * other) / peak.memory
    routing = c["expert_s"] * x["hit"] + c["route_s"] * x["tokens"] * x["experts"] / 128.0
    return c["floor_s"] + products + passes + routing


def _prefill_s(x: Shape, peak: _Peaks, c: Constants) -> float:
    tokens, width, window = x["tokens"], x["width"], x["window"]
    rows = math.ceil(tokens / _BLOCK)
    deep = min(math.ceil(min(window, tokens) / _BLOCK) + 1, rows) if window else rows
    blocks = deep * (deep + 1) / 2 + deep * (rows - deep)
    share = min(c["compute_share"] * (c["narrow"] if width < _BLOCK else 1.0), 1.0)
    pair = _norm(4.0, 4.0 * width * peak.processors / (peak.flops * share), 1.0 / c["softmax_per_s"])
    work = max(x["samples"] * x["heads"] * blocks / peak.processors, deep) * _BLOCK**2 * pair
    moved = x["samples"] * tokens * 2.0 * width * (2.0 * x["heads"] + x["key_heads"] * x["cache_bytes"])
    return c["floor_s"] + work * (c["windowed"] if window else 1.0) + moved / (peak.memory * c["memory_share"])


def _decode_s(x: Shape, peak: _Peaks, c: Constants) -> float:
    chains, width, window = x["samples"] * x["key_heads"], x["width"], x["window"]
    context = min(window, x["context"]) if window else x["context"]
    read = 2.0 * chains * context * width * x["cache_bytes"] / (peak.memory * c["memory_share"])
    parts = min(max(peak.processors / chains, 1.0), c["most_parts"])
    queries = x["samples"] * x["heads"] * context * width / _BLOCK / peak.processors
    fixed = c["floor_s"] + c["sample_s"] * chains / peak.processors + (c["window_s"] if window else 0.0)
    return fixed + _norm(2.0, read, context / parts * c["chain_s"]) + c["query_s"] * queries


def _latent_prefill_s(x: Shape, peak: _Peaks, c: Constants) -> float:
    rows = math.ceil(x["tokens"] / _BLOCK)
    block = 2.0 * _WIDE * _BLOCK**2
    blocks = x["samples"] * x["heads"] * rows * (rows + 1) / 2.0
    flops = block * max(blocks, rows * peak.processors * c["longest"])
    moved = x["samples"] * x["tokens"] * x["heads"] * 2.0 * _WIDE * 2.0
    return c["floor_s"] + flops / (peak.flops * c["compute_share"]) + moved / (peak.memory * c["memory_share"])


def _latent_decode_s(x: Shape, peak: _Peaks, c: Constants) -> float:
    samples, context, heads, together = x["samples"], x["context"], x["heads"], 16.0
    key, value = _LATENT
    moved = samples * (context * key * x["cache_bytes"] + heads * (key + value) * 2.0)
    flops = 2.0 * samples * context * math.ceil(heads / together) * together * (key + value)
    busy = _norm(1.5, moved / (peak.memory * c["memory_share"]), flops / (peak.flops * c["compute_share"]))
    chain = context / min(max(peak.processors / samples, 1.0), 32.0)
    return c["floor_s"] + busy + c["sample_s"] * samples * heads / 16.0 / peak.processors + c["chain_s"] * chain


def _growth(chips: float, c: Constants) -> float:
    return float(c["eight"] ** (1.0 if chips >= 8 else 0.5 if chips >= 4 else 0.0))


def _all_reduce_s(x: Shape, peak: _Peaks, c: Constants) -> float:
    chips, size = x["chips"], x["bytes"]
    shot = c["one_s"] + (chips - 1.0) * size / (peak.link * c["one_share"])
    sent = 2.0 * (chips - 1.0) / chips * size / (peak.link * _growth(chips, c))
    return min(shot, c["two_s"] + sent / c["two_share"], c["large_s"] + sent / c["large_share"])


def _nccl_s(x: Shape, peak: _Peaks, c: Constants) -> float:
    sent = (x["chips"] - 1.0) / x["chips"] * x["bytes"] / (peak.link * _growth(x["chips"], c))
    moved = min(sent / c["small_share"], c["large_s"] + sent / c["large_share"])
    return c["start_s"] + c["chip_s"] * x["chips"] + moved


_FORMS: Mapping[str, Callable[[Shape, _Peaks, Constants], float]] = {
    "dense": _dense_s, "experts": _experts_s, "prefill": _prefill_s, "decode": _decode_s,
    "latent prefill": _latent_prefill_s, "latent decode": _latent_decode_s, "all-reduce": _all_reduce_s,
    "nccl": _nccl_s,
}  # fmt: skip


class Kernels:
    """Of a chip, by kind and by the words that the names of timed kernels end in."""

    def __init__(self, kernels: KernelModel) -> None:
        self._kernels = kernels
        self._known: dict[tuple[Kind, tuple[str, ...]], list[tuple[FittedKernel, _Peaks]]] = {}

    def _timed(self, kind: Kind, words: tuple[str, ...]) -> list[tuple[FittedKernel, _Peaks]]:
        """Those of any engine whose fit describes what was timed."""
        if (kind, words) not in self._known:
            times = self._kernels.times
            listed = () if times is None else times.spec.kernels
            self._known[kind, words] = [
                (each, _Peaks(self._kernels, each.precision))
                for each in listed
                if each.kind == kind and (each.error or 1.0) < _LARGEST_ERROR
                and any(f" {each.variant}".endswith(word) for word in words)
            ]  # fmt: skip
        return self._known[kind, words]

    def start_s(self, kind: Kind, words: tuple[str, ...]) -> float:
        """The shortest fixed time; 0 of kernels that were not timed."""
        return min((each.constants.get("floor_s", 0.0) for each, _ in self._timed(kind, words)), default=0.0)

    def seconds(self, kind: Kind, words: tuple[str, ...], product_format: str, shape: Shape) -> float:
        """The fastest without its fixed time."""
        if timed := self._timed(kind, words):
            of = _FORMS[kind]
            return min(of(shape, peak, each.constants) - each.constants.get("floor_s", 0.0) for each, peak in timed)
        return float(self._kernels.seconds(kind, product_format, shape).seconds[0])

    def passes_s(self, elements: float, element_bytes: float) -> float:
        """Of reading and writing so many elements."""
        shape = {"elements": max(elements, 1.0), "element_bytes": element_bytes}
        return float(self._kernels.seconds("vector", "bf16", shape).seconds[0])

    def peak_flops(self, product_format: str) -> float:
        """By the data sheet."""
        return self._kernels.chip.peak_flops[product_format]
