"""Reading an ONNX file: the graph of its forward pass at one microbatch size. Weights are never read."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dse.graph.trace import Step, Trace, Value
from dse.importer.libraries import library
from hardware.documents import bytes_of
from hardware.inputs import Fault, InputError, fail

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, ValueInfoProto

_MAX_FILE_BYTES = 2**31
"""Size of a protobuf message; larger models keep their weights in files beside it."""

_MAX_OPSET = 10_000


def read_onnx(path: str | Path, microbatch: int | None = None) -> Trace:
    """The forward pass of an ONNX model as a trace.

    Shapes are inferred node by node, with what the graph computes of shapes folded. An operator that has no rule here
    becomes a step ``other``; one that ONNX does not define needs its shapes in the file (``value_info``).
    Control flow is such a step too, with what the graphs inside it read, and the FLOPs of its larger branch or of one
    pass through its body. Float initialisers of more than one element are the parameters. A model with a loss
    (SoftmaxCrossEntropyLoss) is trained on it, an inference model on all its floating outputs; only dropout that the
    file sets to training mode drops.

    Args:
        path: the file; external weight files need not be there.
        microbatch: takes the place of the leading dimension of the inputs, which may be symbolic. None keeps a number
            and takes 1 for a symbol.

    Raises:
        InputError: the library onnx is missing, no ONNX file, inputs without shapes or with symbolic dimensions behind
            the leading one, a fixed leading dimension that the graph depends on, shapes that cannot be inferred,
            unsupported dtypes.
    """
    path = Path(path)
    model = _load(path)
    batch, symbols = _fix_inputs(path, model.graph, microbatch)
    return _record(path, model, batch, symbols)


def _load(path: Path) -> "ModelProto":
    """The model in the file, functions inlined, values of its weights left out."""
    onnx = library("onnx", path)
    from google.protobuf.message import DecodeError  # comes with onnx

    content = bytes_of(path, _MAX_FILE_BYTES)
    try:
        model: ModelProto = onnx.load_model_from_string(content)
    except (DecodeError, ValueError) as error:
        raise fail(path, "", "", "is not an ONNX file, or is cut off") from error
    if not model.graph.node:
        raise fail(path, "", "", "is not an ONNX file, or has no operators")
    for entry in model.opset_import:
        if not 1 <= entry.version <= _MAX_OPSET:
            raise fail(path, f"opset_import.{entry.domain}", entry.version, f"must be from 1 to {_MAX_OPSET}")
    if model.functions:
        from onnx.inliner import inline_local_functions

        from dse.importer.onnx.node import refused_by_onnx

        with refused_by_onnx(path, "functions", ""):
            model = inline_local_functions(model)
    return model


def graph_inputs(graph: "GraphProto") -> Iterator["ValueInfoProto"]:
    """What the user hands over: the graph's inputs without the initialisers (old files list them as inputs)."""
    initialised = {tensor.name for tensor in graph.initializer}
    return (entry for entry in graph.input if entry.name not in initialised)


def _fix_inputs(path: Path, graph: "GraphProto", microbatch: int | None) -> tuple[int, Mapping[str, int]]:
    """Gives every input a shape of numbers; the samples in a microbatch, and the numbers that symbols stand for.

    ``graph`` is changed in place.
    """
    if microbatch is not None and microbatch < 1:
        raise fail(path, "microbatch", microbatch, "must be at least 1")
    inputs = list(graph_inputs(graph))
    faults = [
        Fault(str(path), f"inputs.{entry.name}", "", "has no shape; export the model with its input shapes")
        for entry in inputs
        if not entry.type.HasField("tensor_type") or not entry.type.tensor_type.HasField("shape")
    ]
    if faults:
        raise InputError(faults)
    leading = [entry.type.tensor_type.shape.dim[0] for entry in inputs if entry.type.tensor_type.shape.dim]
    free = [dim for dim in leading if not dim.HasField("dim_value")]
    fixed = leading[0].dim_value if leading and not free else 0
    batch = microbatch or fixed or 1
    symbols = {dim.dim_param: batch for dim in free if dim.dim_param}
    for dim in free or [dim for dim in leading if dim.dim_value == fixed]:
        dim.dim_value = batch
    faults = []
    for entry in inputs:
        for axis, dim in enumerate(entry.type.tensor_type.shape.dim):
            if dim.dim_param in symbols:
                dim.dim_value = symbols[dim.dim_param]
            if not dim.HasField("dim_value") or dim.dim_value < 1:
                shown = dim.dim_param or "?"
                faults.append(Fault(str(path), f"inputs.{entry.name}.{axis}", shown, _SYMBOLIC))
    if faults:
        raise InputError(faults)
    if fixed and batch != fixed:
        _forget_shapes(graph)
    return batch, symbols


def _forget_shapes(graph: "GraphProto") -> None:
    """Takes away what ``graph`` and the graphs inside it state of shapes, which hold for another batch."""
    from dse.importer.onnx.functions import inner_graphs

    del graph.value_info[:]
    for entry in graph.output:
        entry.type.tensor_type.ClearField("shape")
    for node in graph.node:
        for inner in inner_graphs(node):
            _forget_shapes(inner)


_SYMBOLIC = (
    "is not a number; only the leading dimension (the microbatch) may be open: export without this dynamic axis, or set"
    " it with onnx.tools.update_model_dims.update_inputs_outputs_dims"
)


def _record(path: Path, model: "ModelProto", batch: int, symbols: Mapping[str, int]) -> Trace:
    from dse.importer.onnx.graphs import record_nodes
    from dse.importer.onnx.recorder import OnnxRecorder

    recorder = OnnxRecorder(path, model, symbols)
    losses = record_nodes(recorder, model.graph.node)
    outputs = losses or [entry.name for entry in model.graph.output if recorder.is_float(entry.name)]
    if not outputs:
        raise fail(path, "outputs", "", "the model must have a floating-point output (or a loss)")
    recorded = tuple(dict.fromkeys(recorder.value(name) for name in outputs))
    return Trace(path.stem, batch, tuple(_roles(recorder.values, recorder.steps)), tuple(recorder.steps), recorded)


def _roles(values: Sequence[Value], steps: Sequence[Step]) -> Iterator[Value]:
    """Float initialisers that no step reads (running statistics) are not trained."""
    read = {value for step in steps for value in step.inputs}
    read.update(values[index].base or 0 for index in tuple(read) if values[index].base is not None)
    for index, value in enumerate(values):
        unread = value.role == "parameter" and index not in read and value.base not in read
        yield replace(value, role="buffer") if unread else value
