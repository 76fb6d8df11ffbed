"""ONNX operators that move, pick or make data: each as steps of a :class:`~dse.graph.trace.Trace`."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from dse.graph.trace import StepKind
from dse.importer.onnx.node import Node
from dse.importer.onnx.recorder import FIXED_BATCH, OnnxRecorder

Handler = Callable[[OnnxRecorder, Node], None]


def _axis(recorder: OnnxRecorder, node: Node, default: int = 0) -> int:
    return int(node.attributes.get("axis", default)) % max(1, len(recorder.shape(node.inputs[0])))


def _alias(recorder: OnnxRecorder, node: Node) -> None:
    recorder.alias(node.inputs[0], node.outputs[0])


def _reshape(recorder: OnnxRecorder, node: Node) -> None:
    """Reshape, Flatten, Squeeze, Unsqueeze: the output's shape says all.

    Raises:
        InputError: another number of elements: a batch was written into the target shape.
    """
    source, output = node.inputs[0], node.outputs[0]
    if recorder.elements(source) != recorder.elements(output):
        raise recorder.refusal(node, recorder.shape(output), f"must have as many elements as its input; {FIXED_BATCH}")
    _shape_change(recorder, "reshape", source, output)


def _shape_change(recorder: OnnxRecorder, kind: StepKind, source: str, output: str) -> None:
    """A step that only changes the shape; an alias where it does not."""
    if recorder.shape(source) == recorder.shape(output):
        recorder.alias(source, output)
    else:
        recorder.write(kind, [recorder.value(source)], output)


def _permute(recorder: OnnxRecorder, node: Node) -> None:
    rank = len(recorder.shape(node.inputs[0]))
    axes = tuple(node.attributes.get("perm", reversed(range(rank))))
    recorder.write("permute", [recorder.value(node.inputs[0])], node.outputs[0], axes=axes)


def _expand(recorder: OnnxRecorder, node: Node) -> None:
    _shape_change(recorder, "expand", node.inputs[0], node.outputs[0])


def _copy(recorder: OnnxRecorder, node: Node) -> None:
    """Data moved: padding, tiles, nearest-neighbour resizing, updates of a part."""
    floats = [name for name in node.inputs if recorder.is_float(name) and recorder.constant(name) is None]
    recorder.write("copy", [recorder.value(name) for name in floats or node.inputs[:1]], node.outputs[0])


def _cast(recorder: OnnxRecorder, node: Node) -> None:
    source, output = node.inputs[0], node.outputs[0]
    if recorder.dtype(source) == recorder.dtype(output):
        recorder.alias(source, output)
    else:
        recorder.write("cast", [recorder.value(source)], output)


def _slice(recorder: OnnxRecorder, node: Node) -> None:
    """One slice for each axis of which something is left out; what is picked at run time is a gather."""
    source, output = node.inputs[0], node.outputs[0]
    starts, axes, steps = (
        node.attributes.get(name, recorder.integers(node.input(position)))
        for name, position in (("starts", 1), ("axes", 3), ("steps", 4))
    )
    value, shape, target = recorder.value(source), list(recorder.shape(source)), recorder.shape(output)
    if starts is None:
        recorder.write("gather", [value, recorder.value(node.inputs[1])], output, axis=0)
        return
    ranges = list(zip(axes or range(len(starts)), starts, steps or [1] * len(starts), strict=True))
    if any(step < 0 for _, _, step in ranges):
        recorder.write("copy", [value], output)
        return
    cuts = [(axis % len(shape), start, step) for axis, start, step in ranges]
    cuts = [cut for cut in cuts if shape[cut[0]] != target[cut[0]]]
    if not cuts:
        recorder.alias(source, output)
        return
    for axis, start, step in cuts[:-1]:
        start = _from_front(start, shape[axis])
        shape[axis] = target[axis]
        value = recorder.make("slice", [value], tuple(shape), axis=axis, start=start, step=step)
    axis, start, step = cuts[-1]
    recorder.write("slice", [value], output, axis=axis, start=_from_front(start, shape[axis]), step=step)


def _from_front(start: int, size: int) -> int:
    return max(0, start + size) if start < 0 else min(start, size)


def _split(recorder: OnnxRecorder, node: Node) -> None:
    """Slices one behind the other."""
    source, start = node.inputs[0], 0
    axis = _axis(recorder, node)
    for output in node.outputs:
        if len(node.outputs) == 1:
            recorder.alias(source, output)
        else:
            recorder.write("slice", [recorder.value(source)], output, axis=axis, start=start, step=1)
        start += recorder.shape(output)[axis]


def _concatenate(recorder: OnnxRecorder, node: Node) -> None:
    if len(node.inputs) == 1:
        _alias(recorder, node)
        return
    axis = _axis(recorder, node)
    recorder.write("concatenate", [recorder.value(name) for name in node.inputs], node.outputs[0], axis=axis)


def _gather(recorder: OnnxRecorder, node: Node) -> None:
    """Rows of a weight are a lookup; one position known beforehand is a slice; the rest is a gather."""
    source, indices = node.inputs[:2]
    output, shape, axis = node.outputs[0], recorder.shape(source), _axis(recorder, node)
    known = recorder.integers(indices)
    value = recorder.value(source)
    table = recorder.values[value].role in ("parameter", "buffer") and len(shape) == 2 and axis == 0
    if known is not None and len(known) == 1:
        start = known[0] % shape[axis]
        sliced = (*shape[:axis], 1, *shape[axis + 1 :])
        if sliced != shape:
            value = recorder.make("slice", [value], sliced, axis=axis, start=start, step=1)
        recorder.write("reshape", [value], output)
    elif table and recorder.is_float(source):
        recorder.write("embedding", [value, recorder.value(indices)], output)
    else:
        recorder.write("gather", [value, recorder.value(indices)], output, axis=axis)


def _gather_elements(recorder: OnnxRecorder, node: Node) -> None:
    operands = [recorder.value(name) for name in node.inputs[:2]]
    recorder.write("gather", operands, node.outputs[0], axis=_axis(recorder, node))


def _constant(recorder: OnnxRecorder, node: Node) -> None:
    """Too large to be computed, or random."""
    for output in node.outputs:
        recorder.value(output)


def _resize(recorder: OnnxRecorder, node: Node) -> None:
    """Nearest-neighbour resizing only moves data; interpolation has no formula here."""
    if node.attributes.get("mode", "nearest") == "nearest":
        recorder.write("copy", [recorder.value(node.inputs[0])], node.outputs[0])
    else:
        recorder.write_all("other", [recorder.value(node.inputs[0])], node.outputs, name=node.kind)


def _table() -> dict[str, Handler]:
    rows: tuple[tuple[Handler, str], ...] = (
        (_alias, "Identity"),
        (_reshape, "Reshape Flatten Squeeze Unsqueeze"),
        (_permute, "Transpose"),
        (_expand, "Expand"),
        (_copy, "Tile Pad ScatterND ScatterElements Scatter DepthToSpace SpaceToDepth ReverseSequence"),
        (_resize, "Resize Upsample"),
        (_cast, "Cast CastLike"),
        (_slice, "Slice"),
        (_split, "Split"),
        (_concatenate, "Concat"),
        (_gather, "Gather"),
        (_gather_elements, "GatherElements GatherND"),
        (
            _constant,
            "Constant ConstantOfShape Range EyeLike RandomNormal RandomNormalLike RandomUniform RandomUniformLike"
            " Bernoulli",
        ),
    )
    return {name: handler for handler, names in rows for name in names.split()}


VIEW_HANDLERS: Mapping[str, Handler] = MappingProxyType(_table())
"""Handlers by operator."""
