"""What prices the kernels of a plan: a chip by its data sheet. :mod:`dse.plan.template_kernels` has the template's.

All arrays have shape [P], one entry for each plan; of kernels that price A machines, [P · A], machines running fastest.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from dse.plan.plan_arrays import Floats
from dse.plan.problem import PlanProblem
from hardware.operations import VectorKind
from hardware.precisions import ELEMENT_BYTES, halved

HALF_BYTES = 2.0
"""Of an element of activations and of weights in compute."""

START_S = 2e-6
"""Of the product of one expert: the mean least time of products of 16 bits on H100, H200 and B200 (``floor_s`` of
hardware/specs/kernel_times, 1.5 to 2.6 µs)."""


class Lanes(NamedTuple):
    """What vector lanes do in a pass over memory: so many elements of a kind, reduced along rows of ``row`` elements.

    Chips by data sheets have lanes enough for memory; accelerators of the template may not.
    """

    kind: VectorKind
    elements: Floats
    row: Floats | float = 1.0


class AttentionShape(NamedTuple):
    """Attention of one layer on one rank: ``queries`` tokens of each of ``samples``, heads of queries and of keys.

    ``seen`` are the keys that a token attends to on average; ``wide`` and ``deep`` the widths of a head's queries and
    keys, and of its values.
    """

    samples: Floats
    queries: Floats
    heads: Floats
    keys: Floats
    seen: float
    wide: float
    deep: float


class ScanShape(NamedTuple):
    """A scan of one layer on one rank: (m, n, k, how many) of its products, of ``times`` chunks of all samples.

    ``moved_bytes`` pass through memory; ``on_lanes`` are multiplications and additions that no products are. All are
    of a forward pass.
    """

    products: Sequence[tuple[Floats | float, Floats | float, Floats | float, Floats | float]]
    times: Floats
    moved_bytes: Floats
    on_lanes: Floats


SCANS_BACKWARD = 3.0
"""Forward passes that a backward pass over a scan takes: two gradients of each product, and states recomputed
(state-spaces/mamba, ssd_combined.py, and fla-org/flash-linear-attention, chunk.py of each rule: backward functions)."""


class Kernels(Protocol):
    """Seconds of kernels.

    Attributes:
        machines: how many machines are priced for each plan.
        are_bounds: whether they are lower bounds, from which a step is to be one too.
    """

    machines: int
    are_bounds: bool

    def product_s(
        self, m: Floats, n: Floats | float, k: Floats | float, low: bool, grouped: bool = False
    ) -> tuple[Floats, Floats, Floats]:
        """A linear layer [m, k] · [k, n]: forward, gradient of the input, gradient of the weights.

        ``low``: in the plan's precision, where that has fewer than 16 bits. ``grouped``: one of a group of experts.
        """
        ...

    def attention_s(self, shape: AttentionShape) -> tuple[Floats, Floats]:
        """Scores, softmax and contexts, by pass."""
        ...

    def scan_s(self, shape: ScanShape) -> Floats:
        """A forward pass over a scan by chunks."""
        ...

    def vector_s(self, size_bytes: Floats, *lanes: Lanes) -> Floats:
        """A pass over so many bytes of memory."""
        ...


class ChipKernels:
    """The longer of FLOPs at the sustained peak and traffic at the sustained rate of memory (docs/method/plan.md)."""

    machines = 1
    are_bounds = False

    def __init__(self, problem: PlanProblem, precision: str) -> None:
        chip, stack = problem.system.chip, problem.stack
        self._model, self._sequence, self._stack = problem.model, problem.sequence, stack
        self._gradient_bytes = problem.software.gradient_bytes
        self._element_bytes = ELEMENT_BYTES[precision]
        self._low_flops = chip.peak_flops[precision] * stack.matrix.value
        half_flops = chip.peak_flops[halved(precision, chip.peak_flops)]
        self._half_flops = half_flops * stack.matrix.value
        self._attention_flops = half_flops * stack.attention_rate.value
        is_of_chip = stack.attention_rate.timed_on and stack.attention_rate.timed_on == chip.timed_on
        self._timed_attention = chip.sustained.attention(stack.attention.kernel) if is_of_chip else None
        self._lane_flops = chip.peak_flops.get("fp32", math.inf) * stack.attention_rate.value
        self._bytes_per_s = chip.hbm_bytes_per_s * stack.memory.value

    def product_s(
        self, m: Floats, n: Floats | float, k: Floats | float, low: bool, grouped: bool = False
    ) -> tuple[Floats, Floats, Floats]:
        """See :class:`Kernels`; gradients of weights are accumulated in memory.

        A product hides the shorter of FLOPs and traffic; that of an expert hides neither, and has its own start.
        """
        flops, element = (self._low_flops, self._element_bytes) if low else (self._half_flops, HALF_BYTES)
        busy = 2.0 * m * n * k / flops
        rate, gradient = self._bytes_per_s, self._gradient_bytes
        forward = (element * (m * k + k * n) + HALF_BYTES * m * n) / rate
        data = (element * (m * n + k * n) + HALF_BYTES * m * k) / rate
        weight = (element * (m * k + m * n) + 2.0 * gradient * k * n) / rate
        if grouped:
            started = busy + START_S
            return started + forward, started + data, started + weight
        return np.maximum(busy, forward), np.maximum(busy, data), np.maximum(busy, weight)

    def attention_s(self, shape: AttentionShape) -> tuple[Floats, Floats]:
        """See :class:`Kernels`; fused attention passes no scores through memory and skips what a causal mask hides.

        Where its share was timed by length, that of the tokens of a rank counts, whose keys are attended to at a time.
        """
        model, sequence, wide, deep = self._model, self._sequence, shape.wide, shape.deep
        tokens = shape.samples * shape.queries
        if self._stack.attention.value == "fused":
            pairs = tokens * shape.seen * shape.heads
            forward, backward = 2.0 * (wide + deep) * pairs, 2.0 * (3.0 * wide + 2.0 * deep) * pairs
            reached: Floats | float = self._attention_flops
            if self._timed_attention is not None:
                whole = self._timed_attention.value(model.key_width, sequence)
                reached = reached * self._timed_attention.values(model.key_width, shape.queries) / whole
            return forward / reached, backward / reached
        pairs = tokens * sequence * shape.heads
        rate, flops = self._bytes_per_s, 2.0 * (wide + deep) * pairs
        softmax = softmax_bytes(model.dropout)
        return (
            np.maximum(flops / self._half_flops, 4.0 * pairs / rate) + softmax[0] * pairs / rate,
            np.maximum(2.0 * flops / self._half_flops, 8.0 * pairs / rate) + softmax[1] * pairs / rate,
        )

    def scan_s(self, shape: ScanShape) -> Floats:
        """See :class:`Kernels`: the longest of products, work on lanes and traffic."""
        flops = shape.times * sum(2.0 * m * n * k * count for m, n, k, count in shape.products)
        busy = np.maximum(flops / self._attention_flops, shape.on_lanes / self._lane_flops)
        seconds: Floats = np.maximum(busy, shape.moved_bytes / self._bytes_per_s)
        return seconds

    def vector_s(self, size_bytes: Floats, *lanes: Lanes) -> Floats:
        """See :class:`Kernels`."""
        del lanes
        return size_bytes / self._bytes_per_s


def softmax_bytes(dropout: bool) -> tuple[float, float]:
    """Traffic of unfused softmax and dropout for each score, by pass."""
    return (9.0, 11.0) if dropout else (4.0, 6.0)
