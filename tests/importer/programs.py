"""Traces written by hand: each call appends a step, computes it, and takes its shape from the result."""

from typing import Any

import numpy as np

from dse.graph.trace import Attribute, Step, StepKind, Trace, Value
from tests.importer.interpreter import evaluate, torch


class Program:
    """A trace in the making, with numbers."""

    def __init__(self, microbatch: int = 2, seed: int = 0) -> None:
        self.microbatch = microbatch
        self.random = np.random.default_rng(seed)
        self.values: list[Value] = []
        self.steps: list[Step] = []
        self.leaves: dict[int, Any] = {}
        self.arrays: dict[int, Any] = {}

    def _value(self, array: Any, role: str, base: int | None = None) -> int:
        array, index = torch.as_tensor(array), len(self.values)
        self.values.append(Value(f"v{index}", tuple(array.shape), "float32", role, base))
        self.arrays[index] = array
        if role != "activation":
            self.leaves[index] = array
        return index

    def parameter(self, *shape: int) -> int:
        return self._value(self.random.normal(size=shape) / 2, "parameter")

    def transposed(self, parameter: int) -> int:
        return self._value(self.arrays[parameter].T, "parameter", parameter)

    def view(self, parameter: int, array: Any) -> int:
        return self._value(array, "parameter", parameter)

    def buffer(self, array: Any) -> int:
        return self._value(array, "buffer")

    def input(self, *shape: int) -> int:
        return self._value(self.random.normal(size=shape), "input")

    def tokens(self, high: int, *shape: int) -> int:
        return self._value(self.random.integers(high, size=shape), "input")

    def constant(self, array: Any) -> int:
        index = self._value(array, "activation")
        self.leaves[index] = self.arrays[index]
        self.steps.append(Step("constant", (), (index,)))
        return index

    def step(self, kind: StepKind, *inputs: int, shape: tuple[int, ...] = (), **attributes: Attribute) -> int:
        step = Step(kind, inputs, (), attributes)
        array = evaluate(step, [self.arrays[v] for v in inputs], shape)
        index = self._value(array, "activation")
        self.steps.append(Step(kind, inputs, (index,), attributes))
        return index

    def linear(self, x: int, outputs: int, bias: bool = True) -> int:
        """x · Wᵀ + b, as torch keeps W."""
        weight = self.transposed(self.parameter(outputs, self.arrays[x].shape[-1]))
        return self.step("matmul", x, weight, *((self.parameter(outputs),) if bias else ()))

    def function(self, name: str, *inputs: int) -> int:
        return self.step("elementwise", *inputs, function=name)

    def norm(self, x: int) -> int:
        hidden = self.arrays[x].shape[-1]
        return self.step("layer_norm", x, self.parameter(hidden), self.parameter(hidden), axes=(-1,))

    def reshape(self, x: int, *shape: int) -> int:
        return self.step("reshape", x, shape=shape)

    def permute(self, x: int, *axes: int) -> int:
        return self.step("permute", x, axes=axes)

    def part(self, x: int, axis: int, start: int, length: int) -> int:
        shape = list(self.arrays[x].shape)
        shape[axis] = length
        return self.step("slice", x, shape=tuple(shape), axis=axis, start=start, step=1)

    def heads(self, x: int, count: int) -> int:
        """[batch, sequence, count · width] → [batch, count, sequence, width]."""
        batch, sequence, hidden = self.arrays[x].shape
        return self.permute(self.reshape(x, batch, sequence, count, hidden // count), 0, 2, 1, 3)

    def core(self, query: int, key: int, value: int, mask: int | None = None) -> int:
        """Attention of [batch, heads, sequence, width], back as [batch, sequence, heads · width]."""
        scores = self.function("scale", self.step("matmul", query, self.permute(key, 0, 1, 3, 2)))
        if mask is not None:
            scores = self.function("add", scores, mask)
        weights = self.step("dropout", self.step("softmax", scores, axis=-1), probability=0.1)
        context = self.permute(self.step("matmul", weights, value), 0, 2, 1, 3)
        batch, sequence, heads, width = self.arrays[context].shape
        return self.reshape(context, batch, sequence, heads * width)

    def attention(self, x: int, heads: int, source: int | None = None) -> int:
        """Multi-head attention, cross attention where ``source`` is given."""
        hidden = self.arrays[x].shape[-1]
        source = x if source is None else source
        query, key, value = (self.heads(self.linear(v, hidden), heads) for v in (x, source, source))
        return self.linear(self.core(query, key, value), hidden)

    def feed_forward(self, x: int, inner: int) -> int:
        hidden = self.arrays[x].shape[-1]
        return self.linear(self.function("gelu", self.linear(x, inner)), hidden)

    def trace(self, *outputs: int) -> Trace:
        return Trace("program", self.microbatch, tuple(self.values), tuple(self.steps), outputs)
