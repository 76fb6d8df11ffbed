"""Handlers of ATen operators that move elements or only change how they are read."""

from typing import Any

from dse.graph.trace import StepKind
from dse.importer.torch.recorder import Call, TorchRecorder


def axis_of(tensor: Any, axis: int) -> int:
    """``axis`` counted from the front."""
    return int(axis % max(1, tensor.dim()))


def reshape(recorder: TorchRecorder, call: Call) -> None:
    """Another shape."""
    _shape_change(recorder, "reshape", call)


def _shape_change(recorder: TorchRecorder, kind: StepKind, call: Call) -> None:
    """A step that only changes the shape; an alias where it does not."""
    source = call["self"]
    if source.shape == call.outputs[0].shape:
        recorder.alias(source, call.outputs[0])
    else:
        recorder.emit(kind, [source], call.outputs)


def permute(recorder: TorchRecorder, call: Call) -> None:
    """Axes in another order."""
    source = call["self"]
    axes = list(range(source.dim()))
    if call.name in ("permute", "prims_transpose"):
        axes = [axis_of(source, axis) for axis in call["dims"]]
    elif call.name in ("t", "numpy_T", "mT", "adjoint"):
        axes[-2:] = reversed(axes[-2:])
    else:
        first = call["dim0"] if "dim0" in call.arguments else call["axis0"]
        second = call["dim1"] if "dim1" in call.arguments else call["axis1"]
        first, second = axis_of(source, first), axis_of(source, second)
        axes[first], axes[second] = second, first
    recorder.emit("permute", [source], call.outputs, axes=tuple(axes))


def expand(recorder: TorchRecorder, call: Call) -> None:
    """A broadcast view."""
    _shape_change(recorder, "expand", call)


def slice_(recorder: TorchRecorder, call: Call) -> None:
    """A range along an axis."""
    source, axis = call["self"], axis_of(call["self"], call["dim"] or 0)
    if source.shape == call.outputs[0].shape and (call["step"] or 1) == 1:
        recorder.alias(source, call.outputs[0])
        return
    size, start = source.shape[axis], call["start"] or 0
    start = min(size, start + size if start < 0 else start)
    recorder.emit("slice", [source], call.outputs, axis=axis, start=int(start), step=int(call["step"] or 1))


def select(recorder: TorchRecorder, call: Call) -> None:
    """One position along an axis, which disappears."""
    source, axis = call["self"], axis_of(call["self"], call["dim"])
    start = int(call["index"]) % max(1, source.shape[axis])
    part(recorder, source, axis, start, call.outputs[0])


def part(recorder: TorchRecorder, source: Any, axis: int, start: int, output: Any) -> None:
    """Position ``start`` of an axis, without the axis."""
    if source.shape[axis] == 1:
        recorder.emit("reshape", [source], [output])
        return
    row = recorder.torch.empty_like(output).unsqueeze(axis)
    recorder.emit("slice", [source], [row], axis=axis, start=start, step=1)
    recorder.emit("reshape", [row], [output])


def parts(recorder: TorchRecorder, call: Call) -> None:
    """split, chunk: slices one behind the other."""
    source, axis, start = call["self"], axis_of(call["self"], call["dim"] or 0), 0
    for output in call.outputs:
        if len(call.outputs) == 1:
            recorder.alias(source, output)
        else:
            recorder.emit("slice", [source], [output], axis=axis, start=start, step=1)
        start += output.shape[axis]


def unbind(recorder: TorchRecorder, call: Call) -> None:
    """Every position of an axis."""
    axis = axis_of(call["self"], call["dim"] or 0)
    for start, output in enumerate(call.outputs):
        part(recorder, call["self"], axis, start, output)


def concatenate(recorder: TorchRecorder, call: Call) -> None:
    """Tensors side by side."""
    tensors = [item for item in call["tensors"] if item.dim() == call.outputs[0].dim()]
    recorder.emit("concatenate", tensors, call.outputs, axis=axis_of(call.outputs[0], call["dim"] or 0))


def gather(recorder: TorchRecorder, call: Call) -> None:
    """Elements picked by indices."""
    source = call["self"]
    if call.name == "index":
        listed = [(axis, item) for axis, item in enumerate(call["indices"]) if item is not None]
        recorder.emit("gather", [source, *(item for _, item in listed)], call.outputs, axis=listed[0][0])
        return
    recorder.emit("gather", [source, call["index"]], call.outputs, axis=axis_of(source, call["dim"]))


def cast(recorder: TorchRecorder, call: Call) -> None:
    """Another dtype."""
    source = call["self"] if "self" in call.arguments else call["a"]
    if source is call.outputs[0]:
        return
    if source.dtype == call.outputs[0].dtype:
        recorder.alias(source, call.outputs[0])
    else:
        recorder.emit("cast", [source], call.outputs)


def copy(recorder: TorchRecorder, call: Call) -> None:
    """Elements moved: padded, repeated, rolled."""
    recorder.emit("copy", [call["self"]], call.outputs)


def layout(recorder: TorchRecorder, call: Call) -> None:
    """contiguous() and clone(): a layout is the compiler's choice, so they only guard against writes in place."""
    recorder.same(call["self"], call.outputs[0])


def alias(recorder: TorchRecorder, call: Call) -> None:
    """The same tensor under another name."""
    recorder.alias(call["self"], call.outputs[0])


def assigned(recorder: TorchRecorder, call: Call) -> None:
    """copy_: the source, broadcast and cast."""
    source, output = call["src"], call.outputs[0]
    if source.shape != output.shape:
        recorder.emit("expand", [source], [output])
    elif source.dtype != output.dtype:
        recorder.emit("cast", [source], [output])
    else:
        recorder.same(source, output)


def scattered(recorder: TorchRecorder, call: Call) -> None:
    """Writing a tensor into parts of another one: a copy of both."""
    tensors = [item for item in call.arguments.values() if isinstance(item, recorder.torch.Tensor)]
    recorder.emit("copy", [item for item in tensors if item.dtype.is_floating_point] or tensors[:1], call.outputs)
