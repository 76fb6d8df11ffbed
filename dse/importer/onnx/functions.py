"""ONNX operators that ONNX itself defines by other ones (Attention, RotaryEmbedding, …), and graphs inside nodes."""

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnx import FunctionProto, GraphProto, NodeProto, TypeProto


def definition(proto: "NodeProto", name: str, opset: int, types: Mapping[str, "TypeProto"]) -> "list[NodeProto] | None":
    """The nodes that ONNX defines ``proto`` by, with its own names of inputs and outputs; None where it has none.

    Args:
        proto: a node of ONNX's own domain.
        name: what the names of inner values begin with.
        opset: the version of the operators that the model uses.
        types: of the values that the node reads.
    """
    from onnx import defs

    schema: Any = defs.get_schema(proto.op_type, opset, "")
    function = _function(schema, proto, opset, types)
    if function is None:
        return None
    names = dict(zip_longest(function.input, proto.input, fillvalue=""))
    names |= {formal: actual for formal, actual in zip(function.output, proto.output, strict=False) if actual}
    names[""] = ""
    return [_renamed(node, proto, schema, names, f"{name}/{position}") for position, node in enumerate(function.node)]


def _function(schema: Any, proto: "NodeProto", opset: int, types: Mapping[str, "TypeProto"]) -> "FunctionProto | None":
    from onnx import FunctionProto

    if schema.has_context_dependent_function:
        versions = schema.context_dependent_function_opset_versions
        read = [types[name].SerializeToString() if name else b"" for name in proto.input]
        version = max((item for item in versions if item <= opset), default=min(versions))
        body: bytes = schema.get_context_dependent_function_with_opset_version(version, proto.SerializeToString(), read)
        function: FunctionProto = FunctionProto.FromString(body)
        return function
    if not schema.has_function:
        return None
    plain: FunctionProto = schema.function_body
    return plain


def _renamed(node: "NodeProto", caller: "NodeProto", schema: Any, names: dict[str, str], prefix: str) -> "NodeProto":
    """``node`` of a definition with the caller's names and attributes."""
    from onnx import NodeProto

    made = NodeProto()
    made.CopyFrom(node)
    made.name = f"{prefix}.{node.op_type}"
    for field in (made.input, made.output):
        for position, inner in enumerate(field):
            field[position] = names.setdefault(inner, f"{prefix.rpartition('/')[0]}/{inner}")
    _rename_captured(made, names)
    stated = {item.name: item for item in caller.attribute}
    attributes = list(made.attribute)
    del made.attribute[:]
    for item in attributes:
        if not item.ref_attr_name:
            made.attribute.append(item)
            continue
        default = (
            schema.attributes[item.ref_attr_name].default_value if item.ref_attr_name in schema.attributes else None
        )
        given = stated.get(item.ref_attr_name, default)
        if given is not None and given.type:
            copy = made.attribute.add()
            copy.CopyFrom(given)
            copy.name = item.name
    return made


def _rename_captured(proto: "NodeProto", names: Mapping[str, str]) -> None:
    """Gives what the graphs inside ``proto`` read of the values around it their new ``names``."""
    for graph in inner_graphs(proto):
        own = {entry.name for entry in graph.input} | {tensor.name for tensor in graph.initializer}
        own.update(name for node in graph.node for name in node.output)
        outer = {name: new for name, new in names.items() if name not in own}
        for node in graph.node:
            node.input[:] = [outer.get(name, name) for name in node.input]
            _rename_captured(node, outer)


def inner_graphs(proto: "NodeProto") -> "Iterator[GraphProto]":
    """The graphs that a node holds: branches of an If, the body of a Loop."""
    for attribute in proto.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def captured_names(proto: "NodeProto") -> tuple[str, ...]:
    """The values around a node that the graphs inside it read, each once."""
    names: dict[str, None] = {}
    for graph in inner_graphs(proto):
        own = {entry.name for entry in graph.input} | {tensor.name for tensor in graph.initializer} | {""}
        for node in graph.node:
            names |= dict.fromkeys(name for name in (*node.input, *captured_names(node)) if name not in own)
            own.update(node.output)
        names |= dict.fromkeys(entry.name for entry in graph.output if entry.name not in own)
    return tuple(names)
