"""Kernels of plans on accelerators of the template: products mapped to their cores, vector work on their lanes.

All operators run on all cores, in sequence. A product takes what its best mapping does (:mod:`hardware.gemm`), a pass
of vector work the longer of its lanes' work and its memory traffic. Unfused attention passes scores through memory,
as batched products and one pass of vector work each way. Fused attention keeps them on chip: it takes the longest of
its products without memory, its softmax on the lanes, both for the scores that a mask leaves, and the traffic of
queries, keys, values and results; its backward pass makes the scores again. Products of operands narrower than a word
are those of words that hold several (:mod:`hardware.packed_words`). These ideal times are divided by the
shares of the problem's stack: ``matrix``, ``grouped`` of experts, ``attention_rate`` of fused attention, ``memory``
of vector work.

Two sets of kernels share these shapes: :class:`TemplateKernels` with exact times, and :class:`RooflineKernels` with
lower bounds on them that need two figures of a machine alone.
"""

from abc import ABC, abstractmethod
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dse.plan.kernels import AttentionShape, Lanes, ScanShape, softmax_bytes
from dse.plan.plan_arrays import Floats, Integers
from dse.plan.problem import PlanProblem
from hardware.cost_model import vector_cycles
from hardware.gemm import TensorWork, tensor_times
from hardware.machines import Machines
from hardware.operations import Gemm, VectorKind
from hardware.packed_words import PackedWords, packed_words
from hardware.vector import ROW_WISE

_UNBOUND_BYTES_PER_S = 1e24
"""Of a memory that never binds."""

_ROUNDING = 1e-9
"""Relative weakening of lower bounds, far above the rounding of sums."""


class Products(NamedTuple):
    """Matrix products [m, k] · [k, n], ``batch`` of them, and words that they accumulate into; each of shape [P]."""

    m: Floats
    n: Floats
    k: Floats
    batch: Floats
    accumulated_words: Floats


class MachineKernels(ABC):
    """What exact times and bounds share: the shapes of products and of vector work.

    :mod:`dse.plan.energy` prices joules in place of seconds.
    """

    are_bounds = False

    def __init__(self, problem: PlanProblem, machines: int, element_bytes: int) -> None:
        self.machines = machines
        self._model, self._sequence = problem.model, problem.sequence
        self._gradient_words = problem.software.gradient_bytes / element_bytes
        stack = problem.stack
        self._product_share, self._vector_share = stack.matrix.value, stack.memory.value
        self._grouped_share, self._attention_share = (stack.grouped or stack.matrix).value, stack.attention_rate.value
        self._is_fused, self._element_bytes = stack.attention.value == "fused", element_bytes
        self._packed = packed_words(problem.precision, problem.system.chip.peak_flops)

    @abstractmethod
    def _products_s(self, products: Products) -> Floats:
        """Ideal seconds of each on each machine."""

    @abstractmethod
    def _packed_products_s(self, products: Products, packed: PackedWords) -> Floats:
        """Ideal seconds of each, of words that hold several operands."""

    @abstractmethod
    def _on_chip_s(self, products: Products) -> Floats:
        """Ideal seconds of each, were memory no limit."""

    @abstractmethod
    def _memory_s(self, size_bytes: Floats) -> Floats:
        """Ideal seconds of so many bytes."""

    @abstractmethod
    def _vector_s(self, size_bytes: Floats, *lanes: Lanes) -> Floats:
        """Ideal seconds of a pass over memory."""

    def vector_s(self, size_bytes: Floats, *lanes: Lanes) -> Floats:
        """See :class:`~dse.plan.kernels.Kernels`."""
        return self._vector_s(size_bytes, *lanes) / self._vector_share

    def _product(
        self,
        m: Floats,
        n: Floats | float,
        k: Floats | float,
        batch: Floats | float = 1.0,
        gradient: bool = False,
        low: bool = False,
    ) -> Floats:
        """Seconds of a product; a ``gradient`` is added to one in memory, whose elements may be wider."""
        rows, columns, inner, count = (np.ceil(np.broadcast_to(side, np.shape(m))) for side in (m, n, k, batch))
        words = self._gradient_words * rows * columns if gradient else np.zeros(np.shape(m))
        whole = Products(rows, columns, inner, count, words)
        if not low or self._packed is None:
            return self._products_s(whole)
        return self._narrow_products_s(whole, whole._replace(k=np.ceil(inner / self._packed.operands)), self._packed)

    def _narrow_products_s(self, whole: Products, of_words: Products, packed: PackedWords) -> Floats:
        """Seconds of products of narrow operands: of packed words, or of whole ones where these are faster."""
        packed_s = self._packed_products_s(of_words, packed)
        # Where a pair of words takes one cycle, nothing about them takes longer.
        return packed_s if packed.cycles == 1.0 else np.minimum(packed_s, self._products_s(whole))

    def _together(self, first_s: Floats, second_s: Floats) -> Floats:
        """Of two things that a kernel does at the same time."""
        longer: Floats = np.maximum(first_s, second_s)
        return longer

    def product_s(
        self, m: Floats, n: Floats | float, k: Floats | float, low: bool, grouped: bool = False
    ) -> tuple[Floats, Floats, Floats]:
        """See :class:`~dse.plan.kernels.Kernels`."""
        rows = np.broadcast_to(k, np.shape(m))
        share = self._grouped_share if grouped else self._product_share
        return (
            self._product(m, n, k, low=low) / share,
            self._product(m, k, n, low=low) / share,
            self._product(rows, n, m, gradient=True, low=low) / share,
        )

    def attention_s(self, shape: AttentionShape) -> tuple[Floats, Floats]:
        """See :class:`~dse.plan.kernels.Kernels`; query heads that share keys are rows of one product."""
        model, keys = self._model, np.broadcast_to(float(self._sequence), np.shape(shape.samples))
        there, back = softmax_kinds(model.dropout)
        if self._is_fused:
            return self._fused_s(shape, there), self._fused_s(shape, (*there, *back), is_backward=True)
        batch = shape.samples * shape.keys
        rows = np.ceil(shape.heads / shape.keys * shape.queries)
        wide, deep = shape.wide, shape.deep
        pairs = rows * keys * batch
        forward = self._product(rows, keys, wide, batch) + self._product(rows, deep, keys, batch)
        backward = (
            self._product(keys, deep, rows, batch)
            + self._product(rows, keys, deep, batch)
            + self._product(rows, wide, keys, batch)
            + self._product(keys, wide, rows, batch)
        )
        sizes = softmax_bytes(model.dropout)
        return (
            forward / self._product_share
            + self.vector_s(sizes[0] * pairs, *(Lanes(kind, pairs, keys) for kind in there)),
            backward / self._product_share
            + self.vector_s(sizes[1] * pairs, *(Lanes(kind, pairs, keys) for kind in back)),
        )

    def _fused_s(self, shape: AttentionShape, kinds: tuple[VectorKind, ...], is_backward: bool = False) -> Floats:
        """Seconds of one pass of fused attention whose lanes do ``kinds``."""
        keys = np.broadcast_to(float(self._sequence), np.shape(shape.samples))
        batch, rows = shape.samples * shape.keys, np.ceil(shape.heads / shape.keys * shape.queries)
        wide, deep = (np.broadcast_to(width, keys.shape) for width in (shape.wide, shape.deep))
        sides = [(rows, keys, wide), (rows, deep, keys)]
        if is_backward:
            sides = [(rows, keys, wide), (keys, deep, rows), (rows, keys, deep), (rows, wide, keys), (keys, wide, rows)]
        none = np.zeros(keys.shape)
        products = sum((self._on_chip_s(Products(*each, batch, none)) for each in sides), none)
        pairs = rows * keys * batch
        lanes = self._vector_s(none, *(Lanes(kind, pairs, keys) for kind in kinds))
        heads = shape.queries * shape.heads + keys * shape.keys
        moved = (2.0 if is_backward else 1.0) * self._element_bytes * shape.samples * heads * (wide + deep)
        seen = shape.seen / self._sequence
        return self._together(seen * self._together(products, lanes), self._memory_s(moved)) / self._attention_share

    def scan_s(self, shape: ScanShape) -> Floats:
        """See :class:`~dse.plan.kernels.Kernels`; scores stay on chip, as in fused attention."""
        none = np.zeros(shape.times.shape)
        busy = none
        for *sides, count in shape.products:
            m, n, k = (np.broadcast_to(np.ceil(side), none.shape) for side in sides)
            busy = busy + self._on_chip_s(Products(m, n, k, shape.times * count, none))
        lanes = self._vector_s(none, Lanes("multiply", shape.on_lanes))
        working = self._together(self._together(busy, lanes), self._memory_s(shape.moved_bytes))
        return working / self._attention_share


def softmax_kinds(dropout: bool) -> tuple[tuple[VectorKind, ...], tuple[VectorKind, ...]]:
    """What lanes do between scores and contexts, by pass: scaling, mask, softmax, dropout."""
    if dropout:
        return ("scale", "add", "softmax", "dropout"), ("dropout_backward", "softmax_backward", "scale")
    return ("scale", "add", "softmax"), ("softmax_backward", "scale")


class TemplateKernels(MachineKernels):
    """Exact times on A machines of the template."""

    def __init__(self, problem: PlanProblem, machines: Machines) -> None:
        super().__init__(problem, len(machines), machines.element_bytes)
        self._problem, self._machines = problem, machines
        self._cycles = vector_cycles(machines.rules.vector_cycles).cycles
        self._known: dict[tuple[float, ...], int] = {}
        self._seconds: NDArray[np.float64] = np.empty((0, len(machines)))

    def _products_s(self, products: Products) -> Floats:
        columns = [each[:: self.machines] for each in products]
        distinct, inverse = distinct_rows(columns)
        keys = [tuple(row) for row in distinct.tolist()]
        self._price([key for key in keys if key not in self._known])
        rows = np.array([self._known[key] for key in keys])
        return np.ascontiguousarray(self._seconds[rows[inverse]]).ravel()

    def _packed_products_s(self, products: Products, packed: PackedWords) -> Floats:
        return self._products_s(products) if packed.cycles == 1.0 else self._of_packed_words._products_s(products)

    def _on_chip_s(self, products: Products) -> Floats:
        return self._without_memory._products_s(products)

    @cached_property
    def _of_packed_words(self) -> "TemplateKernels":
        assert self._packed is not None, "only called of such words"
        return TemplateKernels(self._problem, self._packed.slowed(self._machines))

    @cached_property
    def _without_memory(self) -> "TemplateKernels":
        return TemplateKernels(self._problem, replace(self._machines, hbm_bytes_per_s=_UNBOUND_BYTES_PER_S))

    def _memory_s(self, size_bytes: Floats) -> Floats:
        return size_bytes / self._machines.hbm_bytes_per_s

    def _price(self, new: list[tuple[float, ...]]) -> None:
        """Seconds of products that were not requested before."""
        if not new:
            return
        work = [product_work(*key) for key in new]
        times = tensor_times(work, self._machines, self._machines.tensor_cores, np.ones(self.machines))
        self._known |= {key: len(self._known) + row for row, key in enumerate(new)}
        self._seconds = np.concatenate([self._seconds, np.maximum(times.on_chip_s, times.hbm_s)])

    def _vector_s(self, size_bytes: Floats, *lanes: Lanes) -> Floats:
        machines = self._machines
        moving_s = (size_bytes[:: self.machines] / machines.hbm_bytes_per_s)[:, None]
        working_s = np.zeros((len(moving_s), self.machines))
        for kind, elements, row in lanes:
            each = np.broadcast_to(elements, size_bytes.shape)[:: self.machines]
            rows = np.broadcast_to(row, size_bytes.shape)[:: self.machines]
            passes = self._lane_passes(kind, np.ceil(each)[:, None], np.ceil(rows)[:, None])
            working_s += passes * (self._cycles[kind].value / machines.clock_hz)
        seconds: Floats = np.maximum(moving_s, working_s).ravel()
        return seconds

    def _lane_passes(self, kind: VectorKind, elements: Floats, row: Floats) -> Floats:
        """Of all lanes, in sequence, as :mod:`hardware.vector` counts them; [P, A]."""
        lanes, cores = self._machines.vector_lanes[None, :], self._machines.vector_cores[None, :]
        passes: Floats = np.ceil(elements / (lanes * cores))
        if kind in ROW_WISE:
            side_by_side = np.maximum(1, lanes // row)
            rows = np.ceil(elements / row)
            passes = np.maximum(passes, np.ceil(rows / (cores * side_by_side)) * np.ceil(row / lanes))
        return passes


class RooflineKernels(MachineKernels):
    """Lower bounds on :class:`TemplateKernels` for machines of which two figures are known; each of shape [A].

    A product does each of its multiply-accumulates on one of ``elements`` processing elements, one per cycle (of packed
    words, a pair in their cycles), and moves every operand and the result over HBM once, and between the global buffer
    and cores, where reads and writes have a port each. Vector work
    does each element on one of ``lanes`` and moves its bytes. So no mapping and
    no order of passes is faster. The bounds are weakened by more than rounding.
    """

    are_bounds = True

    def __init__(
        self, problem: PlanProblem, machines: Machines, elements: Integers | Floats, lanes: Integers | Floats
    ) -> None:
        super().__init__(problem, len(elements), machines.element_bytes)
        self._cycles = vector_cycles(machines.rules.vector_cycles).cycles
        self._bytes_per_s = machines.hbm_bytes_per_s * (1 + _ROUNDING)
        self._products_per_s = elements * machines.clock_hz * (1 + _ROUNDING)
        self._lanes_per_s = lanes * machines.clock_hz * (1 + _ROUNDING)
        self._buffer_words_per_s = machines.global_buffer_words_per_cycle * machines.clock_hz * (1 + _ROUNDING)

    def _products_s(self, products: Products) -> Floats:
        return self._busy_or_moving_s(products, 1.0)

    def _packed_products_s(self, products: Products, packed: PackedWords) -> Floats:
        return self._busy_or_moving_s(products, packed.cycles)

    def _busy_or_moving_s(self, products: Products, cycles: float) -> Floats:
        m, n, k, batch, accumulated = (each[:: self.machines] for each in products)
        extra = np.where(accumulated > 0, 2.0 * accumulated - batch * m * n, 0.0)
        words = batch * (m * k + k * n + m * n) + extra
        moving_s = words * self._element_bytes / self._bytes_per_s
        seconds: Floats = np.maximum(cycles * self._on_chip_s(products), np.repeat(moving_s, self.machines))
        return seconds

    def _on_chip_s(self, products: Products) -> Floats:
        m, n, k, batch, _ = (each[:: self.machines] for each in products)
        busy_s = (batch * m * n * k)[:, None] / self._products_per_s
        buffer_s = batch * np.maximum(m * k + k * n, m * n) / self._buffer_words_per_s
        seconds: Floats = np.maximum(busy_s, buffer_s[:, None]).ravel()
        return seconds

    def _memory_s(self, size_bytes: Floats) -> Floats:
        return size_bytes / self._bytes_per_s

    def _vector_s(self, size_bytes: Floats, *lanes: Lanes) -> Floats:
        step = slice(None, None, self.machines)
        moving_s = size_bytes[step] / self._bytes_per_s
        cycles = sum(
            np.broadcast_to(each, size_bytes.shape)[step] * self._cycles[kind].value for kind, each, _ in lanes
        )
        seconds: Floats = np.maximum(moving_s[:, None], np.reshape(cycles, (-1, 1)) / self._lanes_per_s).ravel()
        return seconds


def product_work(m: float, n: float, k: float, batch: float, accumulated_words: float) -> TensorWork:
    """A product as hardware prices it; what it accumulates into is read and written instead of only written."""
    gemm = Gemm(int(m), int(n), int(k), int(batch))
    if not accumulated_words:
        return TensorWork(gemm)
    return TensorWork(gemm, accumulated_words, accumulated_words - gemm.output_elements)


def distinct_rows(columns: list[Floats]) -> tuple[Floats, Integers]:
    """The distinct rows of columns [P], and the position of each row among them."""
    varying = [column for column in columns if (column != column[0]).any()]
    if not varying:
        return np.stack([column[:1] for column in columns], axis=1), np.zeros(len(columns[0]), dtype=np.int64)
    order = np.lexsort(varying)
    is_first = np.zeros(len(order), dtype=np.bool_)
    is_first[0] = True
    for column in varying:
        ordered = column[order]
        is_first[1:] |= ordered[1:] != ordered[:-1]
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.cumsum(is_first) - 1
    first = order[is_first]
    return np.stack([column[first] for column in columns], axis=1), position
