"""How a tensor that is split over a tensor-parallel group passes through each kind of step.

A value is whole on every accelerator of the group, or :class:`Split` along one axis. Each rule takes the splits known
among the values that a step reads and writes, in either direction, and says which splits of the others follow; what it
leaves out is whole. Sums over a split axis are the two ends of Megatron's scheme (Shoeybi et al. 2019, section 3): a
product that contracts it with a parameter and a table split over its rows give partial sums for an all-reduce, and a
loss over split classes joins three numbers per row.

The propagation is that of GSPMD (Xu et al. 2021, section 3.5), without resharding: where splits do not fit, the rule
raises :class:`ConflictError` and the group of products stays whole.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from math import prod
from types import MappingProxyType

from dse.graph.trace import FIXED, Step, StepKind, Trace
from dse.sharding.segments import axes_of, integer, leading_axis, segments_of

Divides = Callable[[int], bool]
"""Whether a size can be shared by the accelerators of the group."""


@dataclass(frozen=True, slots=True)
class Split:
    """A value cut along ``axis``: each accelerator holds an equal, contiguous part of each of the ``segments``.

    ``segments`` are sizes that add up to the axis'. One segment is the plain cut; a product that writes query, key and
    value side by side has three, so that each accelerator holds its heads of all of them.
    """

    axis: int
    segments: tuple[int, ...]

    @property
    def uniform(self) -> bool:
        """Whether all segments have one size."""
        return len(set(self.segments)) == 1

    def along(self, axis: int) -> "Split":
        """The same cut of another axis."""
        return Split(axis, self.segments)


class ConflictError(Exception):
    """The splits of a step's values do not fit together, or do not fit the step."""


@dataclass(frozen=True)
class Scope:
    """One step with the splits known of its values."""

    trace: Trace
    step: Step
    splits: Mapping[int, Split]
    divides: Divides

    def shape(self, value: int) -> tuple[int, ...]:
        """The shape of ``value`` when it is whole."""
        return self.trace.values[value].shape

    @property
    def values(self) -> tuple[int, ...]:
        """What the step reads and writes, each once."""
        return tuple(dict.fromkeys(self.step.inputs + self.step.outputs))

    def axes(self, name: str) -> tuple[int, ...]:
        """The attribute ``name``, an axis or several of the first input, counted from 0."""
        return axes_of(self.trace, self.step, name)

    def known(self) -> tuple[int, Split]:
        """A value whose split is known, and the split."""
        return next((value, self.splits[value]) for value in self.values if value in self.splits)


def implied_splits(scope: Scope) -> dict[int, Split]:
    """The splits of all values of a step that follow from those known; values left out are whole.

    Raises:
        ConflictError: none fit.
    """
    rule = RULES.get(scope.step.kind)
    if rule is None:
        raise ConflictError
    implied = rule(scope)
    for value, split in implied.items():
        if sum(split.segments) != scope.shape(value)[split.axis]:
            raise ConflictError
    for value in scope.values:
        if value in scope.splits and implied.get(value) != scope.splits[value]:
            raise ConflictError
    return implied


def reshaped(split: Split, shape: tuple[int, ...], target: tuple[int, ...], divides: Divides) -> Split:
    """The split of a reshaped tensor that leaves each accelerator the elements it has.

    In row-major order the tensor is a number of blocks, each shared by the group in contiguous parts; the target has
    an axis that cuts the same blocks, or there is a conflict.
    """
    outer = prod(shape[: split.axis])
    if not split.uniform:
        axis = leading_axis(shape, split.axis, target)
        if axis is None or target[axis] != shape[split.axis]:
            raise ConflictError
        return split.along(axis)
    blocks = outer * len(split.segments)
    before = 1
    for axis, size in enumerate(target):
        repeats = blocks // before
        if blocks % before == 0 and size % repeats == 0 and divides(size // repeats):
            return Split(axis, (size // repeats,) * repeats)
        before *= size
    raise ConflictError


def _aligned(scope: Scope) -> dict[int, Split]:
    """Broadcasting, aligned at the last axis: operands of size 1 along the split axis are whole."""
    value, split = scope.known()
    from_end = len(scope.shape(value)) - split.axis
    size = sum(split.segments)
    return {
        value: split.along(len(shape) - from_end)
        for value in scope.values
        if len(shape := scope.shape(value)) >= from_end and shape[-from_end] == size
    }


def _aligned_but(attribute: str) -> Callable[[Scope], dict[int, Split]]:
    """As :func:`_aligned`, for steps that need the axes named by ``attribute`` whole."""

    def rule(scope: Scope) -> dict[int, Split]:
        implied = _aligned(scope)
        split = implied.get(scope.step.inputs[0])
        if split is None or split.axis in scope.axes(attribute):
            raise ConflictError
        return implied

    return rule


def _rotary(scope: Scope) -> dict[int, Split]:
    implied = _aligned(scope)
    result = scope.step.outputs[0]
    if result not in implied or implied[result].axis == len(scope.shape(result)) - 1:
        raise ConflictError
    return implied


def _reshape(scope: Scope) -> dict[int, Split]:
    value, split = scope.known()
    (source,), (result,) = scope.step.inputs, scope.step.outputs
    other = result if value == source else source
    return {value: split, other: reshaped(split, scope.shape(value), scope.shape(other), scope.divides)}


def _permute(scope: Scope) -> dict[int, Split]:
    value, split = scope.known()
    (source,), (result,) = scope.step.inputs, scope.step.outputs
    axes = scope.axes("axes")
    axis = split.axis if value == source else axes[split.axis]
    return {source: split.along(axis), result: split.along(axes.index(axis))}


def _slice(scope: Scope) -> dict[int, Split]:
    """Along another axis anything; along the split one, whole segments."""
    (source,), (result,) = scope.step.inputs, scope.step.outputs
    (axis,) = scope.axes("axis")
    split = scope.known()[1]
    if split.axis != axis:
        return {source: split, result: split}
    if scope.step.attributes["step"] != 1:
        raise ConflictError
    segments = split.segments
    if source not in scope.splits:
        segments = segments_of(scope.trace, source, axis)
    start = integer(scope.step, "start")
    bounds = (0, *accumulate(segments))
    if start not in bounds or start + scope.shape(result)[axis] not in bounds:
        raise ConflictError
    part = segments[bounds.index(start) : bounds.index(start + scope.shape(result)[axis])]
    return {source: Split(axis, segments), result: Split(axis, part)}


def _concatenate(scope: Scope) -> dict[int, Split]:
    """Along another axis all parts alike; along the split one, each part has segments of its own."""
    (axis,) = scope.axes("axis")
    split = scope.known()[1]
    if split.axis != axis:
        return dict.fromkeys(scope.values, split)
    (result,) = scope.step.outputs
    rest = list(scope.splits[result].segments) if result in scope.splits else []
    implied: dict[int, Split] = {}
    joined: tuple[int, ...] = ()
    for part in scope.step.inputs:
        size = scope.shape(part)[axis]
        own: tuple[int, ...] = (size,)
        if part in scope.splits:
            own = scope.splits[part].segments
        elif rest:
            count = next((n for n in range(1, len(rest) + 1) if sum(rest[:n]) == size), len(rest))
            own = tuple(rest[:count])
        rest = rest[len(own) :]
        implied[part] = Split(axis, own)
        joined += own
    return implied | {result: Split(axis, joined)}


def _gather(scope: Scope) -> dict[int, Split]:
    """Rows picked along another axis."""
    (axis,) = scope.axes("axis")
    source, result = scope.step.inputs[0], scope.step.outputs[0]
    added = len(scope.shape(result)) - len(scope.shape(source))
    value, split = scope.known()
    if value == result:
        split = split.along(split.axis if split.axis < axis else split.axis - added)
    if split.axis == axis or value not in (source, result):
        raise ConflictError
    return {source: split, result: split.along(split.axis if split.axis < axis else split.axis + added)}


def _reduction(scope: Scope) -> dict[int, Split]:
    (source,), (result,) = scope.step.inputs, scope.step.outputs
    value, split = scope.known()
    gone = () if scope.step.attributes["keep"] else scope.axes("axes")
    remaining = [axis for axis in range(len(scope.shape(source))) if axis not in gone]
    axis = split.axis if value == source else remaining[split.axis]
    if axis in scope.axes("axes"):
        raise ConflictError
    return {source: split.along(axis), result: split.along(remaining.index(axis))}


def _embedding(scope: Scope) -> dict[int, Split]:
    """Split over the rows of the table, partial sums; or over the width of its vectors."""
    table, indices = scope.step.inputs
    (result,) = scope.step.outputs
    value, split = scope.known()
    if value == table and split.axis == 0:
        return {table: split}
    if value == indices or split.axis != len(scope.shape(value)) - 1:
        raise ConflictError
    return {table: split.along(1), result: split.along(len(scope.shape(result)) - 1)}


def _cross_entropy(scope: Scope) -> dict[int, Split]:
    """Split over the classes, when they are a vocabulary: more classes than features that predict them."""
    logits = scope.step.inputs[0]
    split = scope.splits.get(logits)
    if split is None or split.axis not in scope.axes("axis"):
        raise ConflictError
    width = projected_width(scope.trace, logits)
    if width is not None and sum(split.segments) <= width:
        raise ConflictError
    return {logits: split}


def projected_width(trace: Trace, value: int) -> int | None:
    """The number of features that the product behind ``value`` contracts, or None where there is no product."""
    while value in trace.producer:
        step = trace.steps[trace.producer[value]]
        if step.kind == "matmul":
            return trace.values[step.inputs[0]].shape[-1]
        if not step.inputs:
            return None
        value = step.inputs[0]
    return None


def _matmul(scope: Scope) -> dict[int, Split]:
    """Along rows or products of a batch; with a weight, along columns or what is summed over (partial sums) too.

    A parameter must be split itself: a whole one in split rows would leave each accelerator a part of its gradient.
    Attention is not split inside a head: its weights, a number for each pair of tokens, would be copied to the group.
    """
    left, right, *bias = scope.step.inputs
    (result,) = scope.step.outputs
    if left == right:
        raise ConflictError
    roles = {value: scope.trace.values[value].role for value in (left, right)}
    ends = {left: ("m", "k"), right: ("k", "n"), result: ("m", "n")} | dict.fromkeys(bias, ("n",))
    value, split = scope.known()
    from_end = len(scope.shape(value)) - split.axis
    names = ends[value]
    implied: dict[int, Split] = {}
    if from_end <= len(names):
        side = names[len(names) - from_end]
        for other, others in ends.items():
            if side in others:
                axis = len(scope.shape(other)) - len(others) + others.index(side)
                implied[other] = split.along(axis)
        if side in ("k", "n") and FIXED.isdisjoint(roles.values()):
            raise ConflictError
    else:
        implied = {other: aligned for other, aligned in _aligned(scope).items() if other not in bias}
    if any(role == "parameter" and value not in implied for value, role in roles.items()):
        raise ConflictError
    return implied


RULES: Mapping[StepKind, Callable[[Scope], dict[int, Split]]] = MappingProxyType(
    {
        "matmul": _matmul,
        "elementwise": _aligned,
        "cast": _aligned,
        "dropout": _aligned,
        "copy": _aligned,
        "expand": _aligned,
        "constant": _aligned,
        "softmax": _aligned_but("axis"),
        "layer_norm": _aligned_but("axes"),
        "rms_norm": _aligned_but("axes"),
        "rotary": _rotary,
        "reshape": _reshape,
        "permute": _permute,
        "slice": _slice,
        "concatenate": _concatenate,
        "gather": _gather,
        "reduction": _reduction,
        "embedding": _embedding,
        "cross_entropy": _cross_entropy,
    }
)
"""The rule of each kind of step that a split can pass through; for the others the group stays whole."""
