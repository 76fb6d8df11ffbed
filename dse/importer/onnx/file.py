"""Reading an ONNX file: the graph of its forward pass at one microbatch size. Values of weights are never read."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dse.graph.trace import Step, Trace, Value
from dse.importer.libraries import library
from dse.importer.onnx.batch import leading_size, open_dimensions, with_batch
from hardware.documents import bytes_of
from hardware.inputs import Fault, InputError, fail

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

_MAX_FILE_BYTES = 2**31
"""Size of a protobuf message; larger models keep their weights in files next to it."""

_MAX_OPSET = 10_000


def read_onnx(path: str | Path, microbatch: int | None = None) -> Trace:
    """As :func:`read_onnx_files`, the trace alone."""
    return read_onnx_files(path, microbatch)[0]


def read_onnx_files(path: str | Path, microbatch: int | None = None) -> tuple[Trace, tuple[Path, ...]]:
    """The forward pass of an ONNX model as a trace, and the files next to it that values were read from.

    Shapes are inferred node by node, with what the graph computes of shapes folded. An operator that has no rule here
    becomes a step ``other``; one that ONNX does not define needs its shapes in the file (``value_info``).
    Control flow is such a step too, with what the graphs inside it read, and the FLOPs of its larger branch or of one
    pass through its body. Float initialisers of more than one element are the parameters. A model with a loss
    (SoftmaxCrossEntropyLoss) is trained on it, an inference model on all its floating outputs; only dropout that the
    file sets to training mode drops.

    Args:
        path: the file. Files next to it with the values of weights need not be there; those of shapes and indices must.
        microbatch: takes the place of the batch dimension of the inputs: the leading one, or the only symbolic one; of
            inputs of fixed sizes the first one that can be changed and that reaches an output
            (:mod:`dse.importer.onnx.batch`). None keeps a number and takes 1 for a symbol.

    Raises:
        InputError: the library onnx is missing, no ONNX file, inputs without shapes or with symbolic dimensions in
            addition to the batch, fixed sizes of which none can be changed, shapes that cannot be inferred,
            unsupported dtypes, values in a file that is not there or lies outside the model's folder.
    """
    path = Path(path)
    model = _load(path)
    inputs = _inputs(path, model.graph, microbatch)
    opened = open_dimensions(inputs)
    if opened:
        batch = microbatch or 1
        symbols = {dim.dim_param: batch for dim in opened if dim.dim_param}
        for dim in opened:
            dim.dim_value = batch
        _require_numbers(path, inputs, symbols)
        return _record(path, model, batch, symbols)
    _require_numbers(path, inputs, {})
    fixed = leading_size(inputs)
    if microbatch is None or microbatch == fixed:
        return _record(path, model, fixed or 1, {})
    return with_batch(model.graph, inputs, microbatch, lambda: _record(path, model, microbatch, {}))


def _load(path: Path) -> "ModelProto":
    """The model in the file, functions inlined, values of its weights left out."""
    onnx = library("onnx", path)
    from google.protobuf.message import DecodeError  # comes with onnx

    content = bytes_of(path, _MAX_FILE_BYTES)
    try:
        model: ModelProto = onnx.load_model_from_string(content)
    except (DecodeError, ValueError) as error:
        raise fail(path, "", "", "is not an ONNX file, or is truncated") from error
    if not model.graph.node:
        raise fail(path, "", "", "is not an ONNX file, or has no operators")
    _drop_unread(model)
    if not model.graph.node:
        raise fail(path, "outputs", "", "the model must have an output that operators compute")
    for entry in model.opset_import:
        if not 1 <= entry.version <= _MAX_OPSET:
            raise fail(path, f"opset_import.{entry.domain}", entry.version, f"must be from 1 to {_MAX_OPSET}")
    if model.functions:
        from onnx.inliner import inline_local_functions

        from dse.importer.onnx.node import refused_by_onnx

        with refused_by_onnx(path, "functions", ""):
            model = inline_local_functions(model)
    return model


def _drop_unread(model: "ModelProto") -> None:
    """Remove nodes that no output depends on, as runtimes do, and versions of operator sets that no node is of.

    Exports leave both behind; whether they could be read decides nothing.
    """
    from dse.importer.onnx.functions import captured_names

    graph, needed = model.graph, {entry.name for entry in model.graph.output}
    if not needed:
        return
    for position in reversed(range(len(graph.node))):
        node = graph.node[position]
        if needed.isdisjoint(node.output):
            del graph.node[position]
        else:
            needed.update(filter(None, (*node.input, *captured_names(node))))
    if not any(_has_body(node) for node in graph.node) and not model.functions:
        domains = {node.domain for node in graph.node} | {"", "ai.onnx"}
        for entry in [each for each in model.opset_import if each.domain not in domains]:
            model.opset_import.remove(entry)


def _has_body(node: "NodeProto") -> bool:
    """Whether a node has graphs of its own, whose nodes may be of other operator sets."""
    return any(each.HasField("g") or each.graphs for each in node.attribute)


def graph_inputs(graph: "GraphProto") -> Iterator["ValueInfoProto"]:
    """What the user hands over: the graph's inputs without the initialisers (old files list them as inputs)."""
    initialised = {tensor.name for tensor in graph.initializer}
    return (entry for entry in graph.input if entry.name not in initialised)


def _inputs(path: Path, graph: "GraphProto", microbatch: int | None) -> "list[ValueInfoProto]":
    """What the user hands over, each with a shape."""
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
    return inputs


def _require_numbers(path: Path, inputs: "Sequence[ValueInfoProto]", symbols: Mapping[str, int]) -> None:
    """Gives every input a shape of numbers, by what ``symbols`` stand for; raises where one is left."""
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


_SYMBOLIC = (
    "must be a number: only one dimension, the batch, may be dynamic; export without this dynamic axis, or set it with"
    " onnx.tools.update_model_dims.update_inputs_outputs_dims"
)


def _record(path: Path, model: "ModelProto", batch: int, symbols: Mapping[str, int]) -> tuple[Trace, tuple[Path, ...]]:
    from dse.importer.onnx.graphs import record_nodes
    from dse.importer.onnx.recorder import OnnxRecorder

    recorder = OnnxRecorder(path, model, symbols)
    losses = record_nodes(recorder, model.graph.node)
    outputs = losses or [entry.name for entry in model.graph.output if recorder.is_float(entry.name)]
    if not outputs:
        raise fail(path, "outputs", "", "the model must have a floating-point output (or a loss)")
    recorded = tuple(dict.fromkeys(recorder.value(name) for name in outputs))
    values = tuple(_roles(recorder.values, recorder.steps))
    return Trace(path.stem, batch, values, tuple(recorder.steps), recorded), tuple(sorted(recorder.files))


def _roles(values: Sequence[Value], steps: Sequence[Step]) -> Iterator[Value]:
    """Float initialisers that no step reads (running statistics) are not trained."""
    read = {value for step in steps for value in step.inputs}
    read.update(values[index].base or 0 for index in tuple(read) if values[index].base is not None)
    for index, value in enumerate(values):
        unread = value.role == "parameter" and index not in read and value.base not in read
        yield replace(value, role="buffer") if unread else value
