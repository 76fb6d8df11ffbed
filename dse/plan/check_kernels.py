"""Seconds of single kernels as docs/method/plan.md defines them, in plain numbers, for :mod:`dse.plan.check_layers`.

Chips are priced by their data sheets. On an accelerator of the template, a product takes what the hardware's mapping
says, which is part of the problem's definition; how kernels make up a layer is counted here again.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dse.plan.model_parts import LayerKind
from dse.plan.problem import PlanProblem
from hardware.estimator import estimate
from hardware.gemm import TensorWork, tensor_times
from hardware.machines import Machines
from hardware.operations import Gemm, Vector, VectorKind


class VectorPass(NamedTuple):
    """Vector work over ``elements`` in rows: bytes of memory for each, and what lanes do with it, in both passes."""

    elements: float
    row: float
    forward_bytes: float
    backward_bytes: float
    forward: tuple[VectorKind, ...]
    backward: tuple[VectorKind, ...]


class Scan(NamedTuple):
    """A scan by chunks: (m, n, k, how many) of its products, bytes through memory, multiply-adds on lanes, states."""

    products: Sequence[tuple[float, float, float, float]]
    moved_bytes: float
    on_lanes: float
    states_bytes: float


class CoreShape(NamedTuple):
    """Widths of a head's keys and values, heads of keys, keys that a token sees; None for what its layers say.

    ``is_absorbed``: all heads share what keys and values would be made from.
    """

    wide: float
    deep: float
    keys: float
    seen: float | None = None
    is_absorbed: bool = False


@dataclass(frozen=True)
class Rates:
    """What the kernels of a problem run at; gradients of weights are kept in so many bytes."""

    problem: PlanProblem
    precision: str
    gradient_bytes: float

    @property
    def half(self) -> str:
        """The precision of what is not a linear layer."""
        return "bf16" if self.precision != "fp16" and "bf16" in self.problem.system.chip.peak_flops else "fp16"

    @property
    def memory_rate(self) -> float:
        """Bytes per second."""
        return self.problem.system.chip.hbm_bytes_per_s * self.problem.stack.memory.value

    def product_s(
        self, m: float, n: float, k: float, size: float, is_expert: bool = False
    ) -> tuple[float, float, float]:
        """Seconds of a linear layer whose operands have ``size`` bytes an element: forward, and by gradient."""
        stack, machine = self.problem.stack, self.problem.machine
        if machine is not None and size < 2.0:
            return self._narrow_product_s(machine, m, n, k, size, is_expert)
        if machine is not None:
            wide = self.gradient_bytes / machine.element_bytes * math.ceil(k) * math.ceil(n)
            own = math.ceil(k) * math.ceil(n)
            weight = _mapped_s(machine, Gemm(math.ceil(k), math.ceil(n), math.ceil(m)), wide, wide - own)
            gemms = Gemm(math.ceil(m), math.ceil(n), math.ceil(k)), Gemm(math.ceil(m), math.ceil(k), math.ceil(n))
            share = stack.matrix.value if not is_expert or stack.grouped is None else stack.grouped.value
            return _mapped_s(machine, gemms[0]) / share, _mapped_s(machine, gemms[1]) / share, weight / share
        rate = self.problem.system.chip.peak_flops[self.precision if size < 2.0 else self.half]
        busy = 2.0 * m * n * k / (rate * stack.matrix.value)
        state = 2.0 * self.gradient_bytes
        traffic = (
            size * (m * k + k * n) + 2.0 * m * n,
            size * (m * n + k * n) + 2.0 * m * k,
            size * (m * k + m * n) + state * k * n,
        )
        moving = [each / self.memory_rate for each in traffic]
        first, second, third = (2e-6 + busy + each if is_expert else max(busy, each) for each in moving)
        return first, second, third

    def _narrow_product_s(
        self, machine: Machines, m: float, n: float, k: float, size: float, is_expert: bool
    ) -> tuple[float, float, float]:
        """On a machine: operands of fewer bytes than a word lie side by side in words, along the inner dimension."""
        peaks, stack = self.problem.system.chip.peak_flops, self.problem.stack
        slower = (2.0 / size) * peaks[self.half] / peaks[self.precision]
        slow = machine if abs(slower - 1) < 5e-3 else replace(machine, clock_hz=machine.clock_hz / slower)
        m, n, k = math.ceil(m), math.ceil(n), math.ceil(k)
        wide = self.gradient_bytes / machine.element_bytes * k * n
        seconds = []
        for rows, columns, inner, more in (
            (m, n, k, (0.0, 0.0)),
            (m, k, n, (0.0, 0.0)),
            (k, n, m, (wide, wide - k * n)),
        ):
            narrow = _mapped_s(slow, Gemm(rows, columns, math.ceil(inner * size / 2)), *more)
            seconds.append(min(narrow, _mapped_s(machine, Gemm(rows, columns, inner), *more)))
        share = stack.matrix.value if not is_expert or stack.grouped is None else stack.grouped.value
        return seconds[0] / share, seconds[1] / share, seconds[2] / share

    def pass_s(self, size_bytes: float, elements: float, row: float, kinds: tuple[VectorKind, ...]) -> float:
        """Seconds of a pass over memory."""
        moving_s, machine = size_bytes / self.memory_rate, self.problem.machine
        if machine is None:
            return moving_s
        work: list[Vector] = [Vector(kind, math.ceil(elements), 0, 0, math.ceil(row)) for kind in kinds]
        lanes_s = float(estimate(work, machine, None).all_cores_s.sum())
        return max(moving_s, lanes_s / self.problem.stack.memory.value)

    def scan_s(self, scan: Scan) -> float:
        """Seconds of a forward pass over a recurrence: its products, its lanes or its traffic, whichever is longest."""
        share, machine = self.problem.stack.attention_rate.value, self.problem.machine
        if machine is None:
            chip = self.problem.system.chip
            flops = sum(2.0 * m * n * k * count for m, n, k, count in scan.products)
            lanes_s = scan.on_lanes / (chip.peak_flops["fp32"] * share) if "fp32" in chip.peak_flops else 0.0
            return max(flops / (chip.peak_flops[self.half] * share), lanes_s, scan.moved_bytes / self.memory_rate)
        endless = replace(machine, hbm_bytes_per_s=1e24)
        busy_s = sum(
            _mapped_s(endless, Gemm(math.ceil(m), math.ceil(n), math.ceil(k), math.ceil(count)))
            for m, n, k, count in scan.products
        )
        work: list[Vector] = [Vector("multiply", math.ceil(scan.on_lanes), 0, 0, 1)]
        lanes_s = float(estimate(work, machine, None).all_cores_s.sum())
        return max(busy_s, lanes_s, scan.moved_bytes / machine.hbm_bytes_per_s) / share

    def attention_s(
        self, samples: float, queries: float, heads: float, shape: CoreShape, seen: float
    ) -> tuple[float, float]:
        """Seconds of attention's core by pass, of so many heads of queries and of keys, of which a token sees some."""
        model, stack, sequence = self.problem.model, self.problem.stack, self.problem.sequence
        k, v, keys, tokens = shape.wide, shape.deep, shape.keys, samples * queries
        peak = self.problem.system.chip.peak_flops[self.half]
        if stack.attention.value == "fused" and self.problem.machine is not None:
            return self._mapped_fused_s(samples, queries, heads, shape, seen)
        if stack.attention.value == "fused":
            pairs = tokens * seen * heads
            rate = peak * stack.attention_rate.value
            chip = self.problem.system.chip
            timed = chip.sustained.attention(stack.attention.kernel)
            if timed is not None and stack.attention_rate.timed_on == chip.timed_on:
                width = model.key_width
                rate *= timed.value(width, queries) / timed.value(width, sequence)
            return (2 * k + 2 * v) * pairs / rate, (6 * k + 4 * v) * pairs / rate
        if self.problem.machine is not None:
            return self._mapped_attention_s(math.ceil(heads / keys * queries), int(samples * keys), int(k), int(v))
        pairs = tokens * sequence * heads
        rate, bytes_s = peak * stack.matrix.value, self.memory_rate
        softmax = (9, 11) if model.dropout else (4, 6)
        forward = max(2 * (k + v) * pairs / rate, 4 * pairs / bytes_s) + softmax[0] * pairs / bytes_s
        backward = max(4 * (k + v) * pairs / rate, 8 * pairs / bytes_s) + softmax[1] * pairs / bytes_s
        return forward, backward

    def _mapped_fused_s(
        self, samples: float, queries: float, heads: float, shape: CoreShape, seen_keys: float
    ) -> tuple[float, float]:
        """Of fused attention on a machine: scores stay on chip, and are recomputed in the backward pass."""
        model, sequence, machine = self.problem.model, self.problem.sequence, self.problem.machine
        assert machine is not None, "only called with one"
        k, v, keys = int(shape.wide), int(shape.deep), shape.keys
        rows, batch = math.ceil(heads / keys * queries), int(samples * keys)
        endless = replace(machine, hbm_bytes_per_s=1e24)
        scores, contexts = Gemm(rows, sequence, k, batch), Gemm(rows, v, sequence, batch)
        gradients = [
            Gemm(sequence, v, rows, batch),
            Gemm(rows, sequence, v, batch),
            Gemm(rows, k, sequence, batch),
            Gemm(sequence, k, rows, batch),
        ]
        there: list[VectorKind] = ["scale", "add", "softmax"]
        back: list[VectorKind] = ["softmax_backward", "scale"]
        if model.dropout:
            there.append("dropout")
            back.append("dropout_backward")
        moved = machine.element_bytes * samples * (queries * heads + sequence * keys) * (k + v)
        seen, seconds = seen_keys / sequence, []
        for gemms, kinds, size in (
            ([scores, contexts], there, moved),
            ([scores, *gradients], [*there, *back], 2 * moved),
        ):
            work: list[Vector] = [Vector(kind, rows * batch * sequence, 0, 0, sequence) for kind in kinds]
            busy = max(
                sum(_mapped_s(endless, gemm) for gemm in gemms), float(estimate(work, machine, None).all_cores_s.sum())
            )
            ideal = max(seen * busy, size / machine.hbm_bytes_per_s)
            seconds.append(ideal / self.problem.stack.attention_rate.value)
        return seconds[0], seconds[1]

    def _mapped_attention_s(self, rows: int, batch: int, k: int, v: int) -> tuple[float, float]:
        """Query heads that share keys are rows of one product; ``batch`` of them, of such widths."""
        model, sequence, machine = self.problem.model, self.problem.sequence, self.problem.machine
        assert machine is not None, "only called with one"
        pairs = float(rows * batch * sequence)
        there: tuple[VectorKind, ...] = ("scale", "add", "softmax", *(("dropout",) if model.dropout else ()))
        back: tuple[VectorKind, ...] = ("softmax_backward", "scale", *(("dropout_backward",) if model.dropout else ()))
        sizes = (9, 11) if model.dropout else (4, 6)
        forward = [Gemm(rows, sequence, k, batch), Gemm(rows, v, sequence, batch)]
        backward = [
            Gemm(sequence, v, rows, batch),
            Gemm(rows, sequence, v, batch),
            Gemm(rows, k, sequence, batch),
            Gemm(sequence, k, rows, batch),
        ]
        share = self.problem.stack.matrix.value
        return (
            sum(_mapped_s(machine, gemm) for gemm in forward) / share
            + self.pass_s(sizes[0] * pairs, pairs, sequence, there),
            sum(_mapped_s(machine, gemm) for gemm in backward) / share
            + self.pass_s(sizes[1] * pairs, pairs, sequence, back),
        )


def seen_keys(problem: PlanProblem, kind: LayerKind) -> float:
    """Keys that a token attends to on average, in a kind of layers where the model says which have a window."""
    model, sequence = problem.model, problem.sequence
    if model.head == "masked_lm":
        return float(sequence)
    seen = (sequence + 1) / 2
    if model.window is not None and model.window.tokens < sequence:
        w, share = model.window.tokens, model.window.share
        if model.layer_kinds:
            share = 1.0 if kind.is_windowed else 0.0
        near = sum((w, -w * (w - 1) / (2 * sequence)))
        if model.window.chunked:
            whole = sequence // w
            near = (whole * w * (w + 1) / 2 + (sequence % w) * (sequence % w + 1) / 2) / sequence
        seen = (1 - share) * seen + share * near
    return seen


def _mapped_s(machine: Machines, gemm: Gemm, more_read: float = 0.0, more_written: float = 0.0) -> float:
    """Seconds of a product on all cores of a machine of the template."""
    times = tensor_times([TensorWork(gemm, more_read, more_written)], machine, machine.tensor_cores, np.ones(1))
    return float(max(times.on_chip_s[0, 0], times.hbm_s[0, 0]))
