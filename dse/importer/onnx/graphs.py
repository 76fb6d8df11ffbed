"""Records ONNX graphs node by node, and what the graphs inside control flow (If, Loop, Scan) read and compute."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from dse.graph.trace import Trace
from dse.importer.onnx.functions import inner_graphs
from dse.importer.onnx.node import Node
from dse.importer.onnx.operators import HANDLERS, other
from dse.importer.onnx.recorder import OnnxRecorder
from dse.importer.work import tensor_flops
from hardware.inputs import InputError

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto, TensorProto, TypeProto

_LOSSES = ("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss")


def record_nodes(recorder: OnnxRecorder, nodes: "Iterable[NodeProto]", first: int = 0) -> list[str]:
    """Writes ``nodes`` down in order; the names of the losses among what they compute.

    Those without a name are numbered from ``first`` on.

    Raises:
        InputError: as :meth:`~dse.importer.onnx.recorder.OnnxRecorder.enter`.
    """
    losses = []
    waiting = deque(nodes)
    count = first
    while waiting:
        proto = waiting.popleft()
        losses += _record_node(recorder, count, proto, waiting)
        count += 1
    return losses


def _record_node(recorder: OnnxRecorder, position: int, proto: "NodeProto", waiting: "deque[NodeProto]") -> list[str]:
    """Writes one node down, or puts those that define it in front of ``waiting``; its output where that is a loss."""
    inner = _record_inner(recorder, proto)
    node = recorder.enter(position, proto)
    if node is None:
        return []
    if inner:
        _control_flow(recorder, node, proto, inner)
        return []
    standard = node.domain in ("", "ai.onnx")
    defined = recorder.definition(node, proto) if standard and node.kind not in HANDLERS else None
    if defined:
        waiting.extendleft(reversed(defined))
        return []
    (HANDLERS.get(node.kind, other) if standard else other)(recorder, node)
    return [node.outputs[0]] if standard and node.kind in _LOSSES else []


def _control_flow(recorder: OnnxRecorder, node: Node, proto: "NodeProto", inner: list[OnnxRecorder]) -> None:
    """A step ``other`` that reads what the graphs inside capture, and their own weights.

    Its FLOPs are those of the larger branch of an If, and of one pass through the body of a Loop or Scan: how often a
    body runs is data. Operators inside whose shapes are not known count nothing.
    """
    flops = [
        sum(tensor_flops(trace, step) for step in trace.steps)
        for trace in (Trace(node.name, 1, tuple(made.values), tuple(made.steps), ()) for made in inner)
    ]
    names = [name for name in node.inputs if name]
    names += [name for name in node.captured if name not in names and recorder.constant(name) is None]
    weights = [recorder.weight(f"{node.name}/{tensor.name}", tensor) for tensor in _weights(proto)]
    read = [*(recorder.value(name) for name in names), *(weight for weight in weights if weight is not None)]
    total = max(flops) if node.kind == "If" else sum(flops)
    name = f"{node.domain}.{node.kind}" if node.domain else node.kind
    recorder.write_all("other", read, node.outputs, name=name, **({"flops": total} if total else {}))


def _weights(proto: "NodeProto") -> "Iterator[TensorProto]":
    for graph in inner_graphs(proto):
        yield from graph.initializer
        for node in graph.node:
            yield from _weights(node)


def _record_inner(recorder: OnnxRecorder, proto: "NodeProto") -> list[OnnxRecorder]:
    """The graphs inside a node as far as their shapes are known, from which its outputs get theirs."""
    recorders = []
    for graph in inner_graphs(proto):
        made = recorder.inside(graph, _formal_types(recorder, proto, graph))
        for position, node in enumerate(graph.node):
            try:
                record_nodes(made, [node], position)
            except InputError:  # a shape that is not known: the node and what reads it are left out
                continue
        recorders.append(made)
    _state_outputs(recorder, proto, recorders)
    return recorders


def _state_outputs(recorder: OnnxRecorder, proto: "NodeProto", inner: list[OnnxRecorder]) -> None:
    """The outputs of an If have the type on which its branches agree, what a Loop carries has that of its body's."""
    spans = {"If": (0, len(proto.output)), "Loop": (1, max(0, len(proto.input) - 2))}
    skipped, count = spans.get(proto.op_type, (0, 0))
    results = [[entry.name for entry in graph.output][skipped:] for graph in inner_graphs(proto)]
    for output, *names in zip(proto.output[:count], *results, strict=False):
        types = [made.complete_type(name) for made, name in zip(inner, names, strict=True)]
        if types and all(item == types[0] for item in types):
            recorder.state(output, types[0])


def _formal_types(recorder: OnnxRecorder, proto: "NodeProto", graph: "GraphProto") -> "Mapping[str, TypeProto]":
    """The types of the inputs of a graph inside ``proto``: of what a Loop carries its own; else as stated there."""
    given = {entry.name: entry.type for entry in graph.input}
    if proto.op_type == "Loop":
        carried = zip(graph.input[2:], proto.input[2:], strict=False)
        known = {entry.name: recorder.complete_type(name) for entry, name in carried}
        given |= {name: stated for name, stated in known.items() if stated is not None}
    return given
