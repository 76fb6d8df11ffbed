"""Writes down an ONNX graph node by node: shapes are inferred, what depends on no input and no weight is computed."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dse.graph.trace import VIEWS, Attribute, Role, Step, StepKind, Value
from dse.importer.onnx.external import external_file, folder_of
from dse.importer.onnx.functions import captured_names, definition
from dse.importer.onnx.node import Node, complete, numbered, refused_by_onnx, shape_of
from hardware.inputs import InputError, fail

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TypeProto

_CONSTANT_ELEMENTS = 2**18
"""Constants up to this size are computed."""

_MAX_ELEMENTS = 2**48
"""Elements of one tensor: a shape with more is damaged, and sums of such would overflow."""

_DTYPES: Mapping[str, str] = {"FLOAT": "float32"}
_UNSUPPORTED = ("double", "complex", "float8", "float4")
_FLOATS = frozenset({"float16", "bfloat16", "float32"})
FIXED_BATCH = "if the batch was fixed at export, export with a dynamic leading axis"
_NO_SHAPE = (
    "its output shape cannot be inferred; shapes must not depend on input values, and operators that ONNX does not "
    "define need their shapes in the file (value_info)"
)


class OnnxRecorder:
    """The values and steps of a graph, written in its (topological) order.

    Args:
        path: the file, for messages.
        model: the model; its inputs have shapes of numbers.
        symbols: the numbers of symbolic dimensions, for shapes that the file states.

    Raises:
        InputError: a dtype that is not supported.
    """

    def __init__(self, path: Path, model: "ModelProto", symbols: Mapping[str, int]) -> None:
        import onnx
        import onnx.reference
        import onnx.shape_inference

        self.path = path
        self.values: list[Value] = []
        self.steps: list[Step] = []
        self.opset = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 1)
        self._onnx = onnx
        self._opsets = list(model.opset_import)
        self._symbols = symbols
        self._index: dict[str, int] = {}
        self._types: dict[str, TypeProto] = {}
        self._constants: dict[str, np.ndarray[Any, Any]] = {}
        self._stored: set[str] = set()  # by nodes of kind Constant
        self._where = ""
        self._absent: dict[str, str] = {}
        self.files: set[Path] = set()
        stated = (*model.graph.value_info, *model.graph.output)
        self._stated = {entry.name: numbered(entry.type, symbols) for entry in stated}
        for tensor in model.graph.initializer:
            self._initialise(tensor)
        for entry in model.graph.input:
            if entry.name not in self._types:
                self._types[entry.name] = entry.type
                self._bind(entry.name, "input")

    def _initialise(self, tensor: Any) -> None:
        onnx = self._onnx
        self._types[tensor.name] = onnx.helper.make_tensor_type_proto(tensor.data_type, tuple(tensor.dims))
        self._check_size(tensor.name)
        trained = self.is_float(tensor.name) and self.elements(tensor.name) > 1
        if not trained and self.elements(tensor.name) <= _CONSTANT_ELEMENTS:
            self._read(tensor)
        self._bind(tensor.name, "parameter" if trained else "buffer")

    def _read(self, tensor: Any) -> None:
        """What a small tensor holds; from its file, where that is next to the model."""
        if tensor.data_location == self._onnx.TensorProto.EXTERNAL:
            file = external_file(self.path, tensor)
            if not file.is_file():
                self._absent[tensor.name] = f"the values of {tensor.name} are in {file}, which does not exist"
                return
            self.files.add(file)
        with refused_by_onnx(self.path, f"values.{tensor.name}", ""):
            self._constants[tensor.name] = self._onnx.numpy_helper.to_array(tensor, str(folder_of(self.path)))

    def _require_values(self, *names: str) -> None:
        """Raises where what one of them holds lies in a file that is not there."""
        for name in names:
            if name in self._absent:
                raise fail(self.path, f"values.{name}", "", f"must be known here, but {self._absent[name]}")

    # What handlers use ------------------------------------------------------------------------------------------------

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of the value called ``name``."""
        return tuple(dim.dim_value for dim in self._types[name].tensor_type.shape.dim)

    def elements(self, name: str) -> int:
        """The number of its elements."""
        return int(np.prod(self.shape(name), dtype=np.int64))

    def dtype(self, name: str) -> str:
        """Its dtype as numpy calls it."""
        with refused_by_onnx(self.path, f"values.{name}", ""):
            stated = self._onnx.TensorProto.DataType.Name(self._types[name].tensor_type.elem_type)
        return _DTYPES.get(stated, stated.lower())

    def is_float(self, name: str) -> bool:
        """Whether it is there and holds floating-point numbers."""
        return name in self._types and self.dtype(name) in _FLOATS

    def constant(self, name: str) -> "np.ndarray[Any, Any] | None":
        """What it holds, where that is known; None otherwise, and for an input left out."""
        return self._constants.get(name)

    def number(self, name: str) -> float | None:
        """The one number it holds, where that is known."""
        self._require_values(name)
        held = self._constants.get(name)
        return float(held.reshape(-1)[0]) if held is not None and held.size == 1 else None

    def integers(self, name: str) -> list[int] | None:
        """The whole numbers it holds, where they are known."""
        self._require_values(name)
        held = self._constants.get(name)
        return None if held is None else [int(item) for item in held.reshape(-1)]

    def value(self, name: str) -> int:
        """Its position among the values of the trace."""
        if name in self._stored and name not in self._index:
            self._index[name] = self._new(name, self.shape(name), self.dtype(name), "buffer")
        if name not in self._index:
            self._index[name] = self._new(name, self.shape(name), self.dtype(name), "activation")
            self.steps.append(Step("constant", (), (self._index[name],), {}, self._where))
        return self._index[name]

    def write(self, kind: StepKind, inputs: Sequence[int], output: str, **attributes: Attribute) -> None:
        """A step that writes the value called ``output``."""
        made = self.make(kind, inputs, self.shape(output), name=output, dtype=self.dtype(output), **attributes)
        self._index[output] = made

    def make(
        self,
        kind: StepKind,
        inputs: Sequence[int],
        shape: tuple[int, ...],
        name: str = "",
        dtype: str = "",
        **attributes: Attribute,
    ) -> int:
        """A step that writes a new value; a view of a parameter or buffer becomes a value without a step."""
        source = self.values[inputs[0]]
        dtype = dtype or source.dtype
        if kind in VIEWS and source.role in ("parameter", "buffer"):
            return self._new(source.name, shape, dtype, source.role, inputs[0] if source.base is None else source.base)
        result = self._new(name, shape, dtype, "activation")
        self.steps.append(Step(kind, tuple(inputs), (result,), attributes, self._where))
        return result

    def write_all(self, kind: StepKind, inputs: Sequence[int], outputs: Sequence[str], **attributes: Attribute) -> None:
        """One step that writes several values."""
        written = [self._new(name, self.shape(name), self.dtype(name), "activation") for name in outputs]
        self._index.update(zip(outputs, written, strict=True))
        self.steps.append(Step(kind, tuple(inputs), tuple(written), attributes, self._where))

    def alias(self, name: str, output: str) -> None:
        """``output`` is the value called ``name``."""
        self._index[output] = self.value(name)

    def refusal(self, node: Node, value: object, rule: str) -> InputError:
        """The error for a node that does not fit."""
        return fail(self.path, f"nodes.{node.name}", value, rule)

    # Graphs inside nodes ----------------------------------------------------------------------------------------------

    def inside(self, graph: "GraphProto", given: "Mapping[str, TypeProto]") -> "OnnxRecorder":
        """A recorder of its own for a graph inside a node: it knows the values here, and inputs of ``given`` types.

        Values from here are constants there: what it records tells shapes and work, not what depends on what.
        """
        helper = self._onnx.helper
        body = helper.make_graph(graph.node, "inside", [], graph.output, graph.initializer, value_info=graph.value_info)
        made = OnnxRecorder(self.path, helper.make_model(body, opset_imports=self._opsets), self._symbols)
        whole = {name: stated for name, stated in given.items() if complete(numbered(stated, self._symbols))}
        made._types = {**self._types, **made._types, **whole}
        made._constants = {**self._constants, **made._constants}
        made._stored = self._stored | made._stored
        made._absent = {**self._absent, **made._absent}
        made.files = self.files
        return made

    def weight(self, name: str, tensor: Any) -> int | None:
        """The position of an initialiser of a graph inside a node, here called ``name``; None where it is not a
        weight.
        """
        proto = self._onnx.TensorProto
        alone = proto(name=name, data_type=tensor.data_type, dims=tensor.dims, data_location=proto.EXTERNAL)
        self._initialise(alone)
        return self._index[name] if self.values[self._index[name]].role == "parameter" else None

    def complete_type(self, name: str) -> "TypeProto | None":
        """The type of a value whose shape is known; None otherwise."""
        stated = self._types.get(name)
        return stated if complete(stated) else None

    def state(self, name: str, known: "TypeProto | None") -> None:
        """Sets the type of a value for which the file states none, and none can be inferred."""
        if known is not None and not complete(self._stated.get(name)):
            self._stated[name] = known

    # Nodes ------------------------------------------------------------------------------------------------------------

    def enter(self, position: int, proto: "NodeProto") -> Node | None:
        """The node, its outputs' shapes known; None where it was computed.

        Raises:
            InputError: shapes that cannot be inferred, or do not fit; an unsupported dtype.
        """
        name = proto.name or f"{proto.op_type}.{position}"
        # What is not UTF-8 comes as bytes.
        if not all(isinstance(each, str) for each in (proto.op_type, proto.domain, name, *proto.input, *proto.output)):
            raise fail(self.path, f"nodes.{position}", "", "names, domains and operator types must be UTF-8 text")
        with refused_by_onnx(self.path, f"nodes.{name}", proto.op_type):
            attributes = {item.name: self._onnx.helper.get_attribute_value(item) for item in proto.attribute}
            attributes = {key: item.decode() if isinstance(item, bytes) else item for key, item in attributes.items()}
        outputs = tuple(output for output in proto.output if output)
        node = Node(proto.op_type, proto.domain, name, tuple(proto.input), outputs, attributes, captured_names(proto))
        self._where = f"{self.path}:{name}"
        unknown = [name for name in (*node.inputs, *node.captured) if name and name not in self._types]
        if unknown:
            raise fail(self.path, f"nodes.{node.name}", unknown[0], "reads a value that no node in the graph writes")
        if node.kind == "Constant":
            self._stored.update(outputs)
        if self._computed(node, proto):
            return None
        inferred = self._inferred(node, proto)
        for output in outputs:
            known = inferred.get(output)
            if not complete(known):
                known = self._stated.get(output)
            if known is None or not complete(known):
                self._require_values(*node.inputs)
                raise fail(self.path, f"nodes.{name}", proto.op_type, _NO_SHAPE)
            self._types[output] = known
            self._check_size(output)
            self._check_dtype(output)
        return node

    def definition(self, node: Node, proto: "NodeProto") -> "list[NodeProto] | None":
        """The nodes that ONNX defines an operator of its own by, if it does."""
        try:
            return definition(proto, node.name, self.opset, self._types)
        except self._onnx.defs.SchemaError:
            return None

    def _computed(self, node: Node, proto: "NodeProto") -> bool:
        """Computes a node that reads only constants, or the shape of a value."""
        read = [name for name in node.inputs if name]
        absent = [name for name in read if name in self._absent]
        if absent and self._constants.keys() | self._absent.keys() >= {*read, *node.captured}:
            self._absent.update(dict.fromkeys(node.outputs, self._absent[absent[0]]))
        if node.kind in ("Shape", "Size") and read and node.outputs:
            made = [shape_of(node, self.shape(read[0]))]
        elif node.kind.startswith("Random") or not self._constants.keys() >= {*read, *node.captured}:
            return False
        else:
            try:
                evaluator = self._onnx.reference.ReferenceEvaluator(self._alone(proto))
                answer: Any = evaluator.run(None, {name: self._constants[name] for name in read})
                made = list(answer)
            except Exception:  # whatever the reference implementation lacks is left to the trace
                return False
        if any(not isinstance(item, np.ndarray | np.generic) or item.size > _CONSTANT_ELEMENTS for item in made):
            return False
        for name, item in zip(node.outputs, made, strict=False):
            self._constants[name] = np.asarray(item)
            element = self._onnx.helper.np_dtype_to_tensor_dtype(self._constants[name].dtype)
            self._types[name] = self._onnx.helper.make_tensor_type_proto(element, self._constants[name].shape)
        return True

    def _alone(self, proto: "NodeProto") -> "ModelProto":
        """A model of one node."""
        helper = self._onnx.helper
        inputs = [helper.make_value_info(name, self._types[name]) for name in dict.fromkeys(proto.input) if name]
        outputs = [helper.make_value_info(name, self._onnx.TypeProto()) for name in proto.output if name]
        graph = helper.make_graph([proto], "node", inputs, outputs)
        model: ModelProto = helper.make_model(graph, opset_imports=self._opsets)
        return model

    def _inferred(self, node: Node, proto: "NodeProto") -> Mapping[str, "TypeProto"]:
        onnx = self._onnx
        try:
            schema = onnx.defs.get_schema(node.kind, self.opset, "" if node.domain == "ai.onnx" else node.domain)
        except onnx.defs.SchemaError:
            return {}
        read = [name for name in node.inputs if name]
        types = {name: self._types[name] for name in read}
        with refused_by_onnx(self.path, f"nodes.{node.name}", node.kind):
            constants = {name: self._constants[name] for name in read if name in self._constants}
            known = {name: onnx.numpy_helper.from_array(held) for name, held in constants.items()}
            try:
                inferred: Mapping[str, TypeProto] = onnx.shape_inference.infer_node_outputs(
                    schema, proto, types, known, opset_imports=self._opsets
                )
            except onnx.shape_inference.InferenceError as error:
                words = " ".join(str(error).split())[:160]
                raise self.refusal(node, node.kind, f"shapes do not match ({words}); {FIXED_BATCH}") from error
        return inferred

    def _check_size(self, name: str) -> None:
        shape = self.shape(name)
        if any(size < 0 for size in shape) or math.prod(shape) > _MAX_ELEMENTS:
            rule = f"sizes must not be negative, and a tensor must not have more than {_MAX_ELEMENTS:,} elements"
            raise fail(self.path, f"values.{name}", shape, rule)

    def _check_dtype(self, name: str) -> None:
        dtype = self.dtype(name)
        if dtype.startswith(_UNSUPPORTED):
            rule = "this dtype is not supported; use float32, float16 or bfloat16 (or whole numbers and bool)"
            raise fail(self.path, f"values.{name}", dtype, rule)

    # Values -----------------------------------------------------------------------------------------------------------

    def _bind(self, name: str, role: Role) -> None:
        self._check_size(name)
        self._check_dtype(name)
        self._index[name] = self._new(name, self.shape(name), self.dtype(name), role)

    def _new(self, name: str, shape: tuple[int, ...], dtype: str, role: Role, base: int | None = None) -> int:
        self.values.append(Value(name or f"value{len(self.values)}", shape, dtype, role, base))
        return len(self.values) - 1
