"""Where a tensor must be cut so that each accelerator gets its part of everything that is packed into one axis."""

from collections.abc import Mapping
from itertools import pairwise
from math import prod
from types import MappingProxyType

from dse.graph.trace import Step, StepKind, Trace

_ELEMENTWISE: frozenset[StepKind] = frozenset({"elementwise", "cast", "dropout", "copy"})
_WHOLE_AXES: Mapping[StepKind, str] = MappingProxyType(
    {
        "slice": "axis",
        "gather": "axis",
        "reduction": "axes",
        "softmax": "axis",
        "layer_norm": "axes",
        "rms_norm": "axes",
        "concatenate": "axis",
    }
)
"""The attribute with the axes of its first input that a step cannot treat one position at a time."""
_ALIGNED = _ELEMENTWISE | {"expand", "slice", "softmax", "layer_norm", "rms_norm", "rotary", "reduction", "concatenate"}
"""Steps whose other axes keep their place, counted from the last."""


def segments_of(trace: Trace, value: int, axis: int) -> tuple[int, ...]:
    """The segments along ``axis`` that the consumers of ``value`` read: where they slice it, or take it as several.

    A view as [2, heads, width] is two segments when a consumer slices or reduces the axis of two, so needs it whole:
    key and value packed in one product. Shapes and steps decide, not the size of the group, so that a group finds the
    segments of a larger one that it divides.
    """
    size = trace.values[value].shape[axis]
    points = {0, size}
    frontier, seen = [(value, axis)], {value}
    while frontier:
        source, axis = frontier.pop()
        count = trace.values[source].shape[axis]
        unit = size // count
        for position in trace.consumers.get(source, ()):
            step = trace.steps[position]
            if source != step.inputs[0] and step.kind not in _ELEMENTWISE:
                continue
            if _needs_whole(trace, step, axis):
                if step.kind == "slice":
                    start = integer(step, "start")
                    points |= {start * unit, (start + trace.values[step.outputs[0]].shape[axis]) * unit}
                elif count < size:
                    points.update(range(0, size, unit))
                continue
            following = _following_axis(trace, step, source, axis)
            result = step.outputs[0]
            if following is not None and result not in seen:
                seen.add(result)
                frontier.append((result, following))
    return tuple(end - start for start, end in pairwise(sorted(points)))


def _needs_whole(trace: Trace, step: Step, axis: int) -> bool:
    """Whether ``step`` slices, picks from, reduces or normalises its first input along ``axis``."""
    name = _WHOLE_AXES.get(step.kind)
    return name is not None and axis in axes_of(trace, step, name)


def _following_axis(trace: Trace, step: Step, source: int, axis: int) -> int | None:
    """The axis of the output of ``step`` that is ``axis`` of ``source``, or the leading factor of it; None if none."""
    shape, target = trace.values[source].shape, trace.values[step.outputs[0]].shape
    if step.kind == "reshape":
        leading = leading_axis(shape, axis, target)
        return leading if leading is not None and shape[axis] % target[leading] == 0 else None
    if step.kind == "permute":
        return axes_of(trace, step, "axes").index(axis)
    if step.kind == "reduction" and not step.attributes["keep"]:
        return axis - sum(gone < axis for gone in axes_of(trace, step, "axes"))
    if step.kind in _ALIGNED:
        following = axis - len(shape) + len(target)
        return following if target[following] == shape[axis] else None
    return None


def axes_of(trace: Trace, step: Step, name: str) -> tuple[int, ...]:
    """The attribute ``name``, an axis or several of the first input, counted from 0."""
    stated = step.attributes[name]
    rank = len(trace.values[step.inputs[0]].shape)
    return tuple(axis % rank for axis in (stated if isinstance(stated, tuple) else (integer(step, name),)))


def integer(step: Step, name: str) -> int:
    """The attribute ``name`` of ``step``, a whole number."""
    stated = step.attributes[name]
    if not isinstance(stated, int):
        raise TypeError(f"{name} of a {step.kind} must be a whole number, but is {stated!r}")
    return stated


def leading_axis(shape: tuple[int, ...], axis: int, target: tuple[int, ...]) -> int | None:
    """The axis of ``target`` that begins where ``axis`` of ``shape`` does, or None."""
    outer, before = prod(shape[:axis]), 1
    for candidate, size in enumerate(target):
        if before == outer and size > 1:
            return candidate
        before *= size
    return None
