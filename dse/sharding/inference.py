"""Which products of a trace a tensor-parallel group can share: Megatron's pairs of column and row splits, inferred.

A group is grown from one product with a parameter: its output is split along its columns, and the splits of all other
values follow by the rules of :mod:`dse.sharding.rules`, forward and backward through the trace, until every
branch ends in a product that is split by rows, or in a loss over split classes. Attention is recognised from its query
product: the scores need the key split along the heads, the context the value. Where a rule does not fit, nothing of the
group is split. No names are read. Each group touches the steps of its own branch only.
"""

import heapq
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from dse.graph.trace import FIXED, Step, Trace
from dse.sharding.rules import (
    ConflictError,
    Divides,
    Scope,
    Split,
    implied_splits,
    reshaped,
)
from dse.sharding.segments import segments_of

SMALLEST_GROUP = 0.05
"""A group with less than this part of the FLOPs of the largest one stays whole: a pooler or classifier over one token a
sample takes two all-reduces and saves almost nothing. (Attention has half a feed-forward network's.)"""


@dataclass(frozen=True)
class Group:
    """Products that are split together. ``splits`` are of all values involved, ``steps`` those they pass through."""

    splits: Mapping[int, Split]
    steps: frozenset[int]
    flops: int
    vocabulary: bool


def product_flops(trace: Trace, step: Step) -> int:
    """FLOPs of a product: two a multiply-add."""
    return 2 * math.prod(trace.values[step.outputs[0]].shape) * trace.values[step.inputs[0]].shape[-1]


def find_groups(trace: Trace, divides: Divides) -> tuple[Group, ...]:
    """All groups: first the vocabularies of tables, then from the largest product on, in order where they are equal.

    A table that inputs index is split over its rows when it is a vocabulary: more rows than its vectors are wide. The
    largest product comes first so that a small branch (an adapter) follows the large one that it is added to.
    """
    search = _Search(trace, divides)
    sizes = [product_flops(trace, step) if step.kind == "matmul" else math.inf for step in trace.steps]
    groups: list[Group] = []
    for position in sorted(range(len(sizes)), key=lambda position: -sizes[position]):
        for value, axis in _seeds(trace, trace.steps[position], search.from_inputs):
            group = search.grow(value, axis)
            if group is not None:
                groups.append(group)
    largest = max((group.flops for group in groups if not group.vocabulary), default=0)
    return tuple(group for group in groups if group.vocabulary or group.flops >= SMALLEST_GROUP * largest)


def _seeds(trace: Trace, step: Step, from_inputs: frozenset[int]) -> list[tuple[int, int]]:
    """The value and axis that a split may start from at ``step``."""
    if step.kind == "embedding":
        table, indices = step.inputs
        rows, width = trace.values[table].shape
        vocabulary = rows > width and indices in from_inputs and trace.values[table].role in FIXED
        return [(table, 0)] if vocabulary else []
    if step.kind != "matmul":
        return []
    result = step.outputs[0]
    rank = len(trace.values[result].shape)
    left, right = (trace.values[value].role in FIXED for value in step.inputs[:2])
    return [(result, rank - 1)] * right + [(result, rank - 2)] * left


class _Search:
    """Grows groups in sequence; what one has settled the next ones keep to."""

    def __init__(self, trace: Trace, divides: Divides) -> None:
        self.trace = trace
        self.divides = divides
        self.splits: dict[int, Split] = {}
        self.whole: set[int] = {value for value in trace.outputs if trace.values[value].role == "activation"}

    @cached_property
    def from_inputs(self) -> frozenset[int]:
        """Values that depend on an input of the module."""
        dependent = {index for index, value in enumerate(self.trace.values) if value.role == "input"}
        for step in self.trace.steps:
            if dependent.intersection(step.inputs):
                dependent.update(step.outputs)
        return frozenset(dependent)

    @cached_property
    def views(self) -> Mapping[int, tuple[int, ...]]:
        """For each parameter, the values that are it or a view of it."""
        views: dict[int, list[int]] = {}
        for index, value in enumerate(self.trace.values):
            if value.role == "parameter":
                views.setdefault(index if value.base is None else value.base, []).append(index)
        return {base: tuple(indices) for base, indices in views.items()}

    def grow(self, value: int, axis: int) -> Group | None:
        """The group that splits ``value`` along ``axis``; None when it stays whole."""
        if value in self.splits or value in self.whole:
            return None
        attempt = _Attempt(self)
        try:
            attempt.split(value, Split(axis, segments_of(self.trace, value, axis)))
            group = attempt.finish()
        except ConflictError:
            self.whole.add(value)
            return None
        self.splits.update(group.splits)
        for step in group.steps:
            values = self.trace.steps[step]
            self.whole.update(value for value in values.inputs + values.outputs if value not in group.splits)
        return group


@dataclass
class _Attempt:
    """One group as it grows: splits so far, and the steps whose values changed."""

    search: _Search
    splits: dict[int, Split] = field(default_factory=dict)
    pending: list[int] = field(default_factory=list)
    steps: set[int] = field(default_factory=set)

    def split(self, value: int, split: Split) -> None:
        """Split ``value`` and what shares its memory; the steps that touch it are looked at (again).

        Raises:
            ConflictError: it is settled otherwise, or its segments cannot be shared.
        """
        if not self._settle(value, split):
            return
        stored = self.search.trace.values[value]
        if stored.role == "parameter":
            for view in self.search.views[value if stored.base is None else stored.base]:
                if view not in self.splits:
                    self._settle(view, self._of_view(value, view))

    def _settle(self, value: int, split: Split) -> bool:
        """Split ``value`` alone; whether that is news."""
        search = self.search
        settled = self.splits.get(value, search.splits.get(value))
        if settled == split:
            return False
        if settled is not None or value in search.whole or not all(map(search.divides, split.segments)):
            raise ConflictError
        self.splits[value] = split
        touching = search.trace.consumers.get(value, ())
        if value in search.trace.producer:
            touching += (search.trace.producer[value],)
        for position in touching:
            heapq.heappush(self.pending, position)
        return True

    def _of_view(self, value: int, view: int) -> Split:
        """How a view of the same memory as ``value`` is split.

        A trace does not say how a view was made; shapes tell: the same, transposed, reshaped, or a part.
        """
        split, values = self.splits[value], self.search.trace.values
        shape, target = values[value].shape, values[view].shape
        flipped = Split(len(shape) - 1 - split.axis, split.segments)
        others = [size for axis, size in enumerate(shape) if axis != split.axis]
        if shape == target:
            return split
        if shape[::-1] == target:
            return flipped
        if math.prod(shape) == math.prod(target):
            return reshaped(split, shape, target, self.search.divides)
        for axis in (split.axis, flipped.axis):
            rest = [size for other, size in enumerate(target) if other != axis]
            if len(shape) == len(target) and rest in (others, others[::-1]) and self.search.divides(target[axis]):
                return Split(axis, (target[axis],))
        raise ConflictError

    def finish(self) -> Group:
        """The group, when every split value has reached its end.

        Raises:
            ConflictError: a step that the splits cannot pass through.
        """
        search, trace = self.search, self.search.trace
        while self.pending:
            position = heapq.heappop(self.pending)
            scope = Scope(trace, trace.steps[position], self._merged(trace.steps[position]), search.divides)
            for value, split in implied_splits(scope).items():
                self.split(value, split)
            self.steps.add(position)
        steps = [trace.steps[position] for position in self.steps]
        flops = sum(product_flops(trace, step) for step in steps if step.kind == "matmul")
        vocabulary = any(step.kind in ("embedding", "cross_entropy") and self._ends(step) for step in steps)
        return Group(self.splits, frozenset(self.steps), flops, vocabulary)

    def _merged(self, step: Step) -> dict[int, Split]:
        known = {value: self.search.splits.get(value, self.splits.get(value)) for value in step.inputs + step.outputs}
        return {value: split for value, split in known.items() if split is not None}

    def _ends(self, step: Step) -> bool:
        """Whether the splits end at ``step``: its input is split, its output whole."""
        return step.outputs[0] not in self.splits
