"""What every dataflow graph obeys, whether a document states it or code makes it.

- Operator names are unique; edges join operators, form no cycle, and no edge of one tensor is listed twice.
- Edges of one source and one tensor carry the same elements: those of the whole result of a GEMM or an input, or, of a
  tensor with a name, no more. The ``image`` into which a convolution's products are summed may have any size.
- ``input`` has no edge to it and ``output`` none from it, and the elements of an ``output`` are those of its edges.
- Every other operator reads something, or has weights to begin from (a lookup), and something reads it, or it adds the
  gradient of weights to them in the backward pass.
- Nothing of the backward pass is read by the forward pass.
"""

from collections.abc import Iterator, Sequence

from dse.graph.dataflow.operators import DataflowOperator, Pass
from dse.graph.named_edges import FaultFields, graph_faults
from hardware.inputs import shown
from hardware.operations import Gemm

IMAGE = "image"
"""The tensor that the products of a convolution are summed into."""

NamedEdge = tuple[str, str, int, str]
"""Source, target, elements, tensor."""


def graph_rule_faults(operators: Sequence[DataflowOperator], edges: Sequence[NamedEdge]) -> Iterator[FaultFields]:
    """Every rule that is broken, with its key; where names or edges are unsound, those faults only."""
    names = [operator.name for operator in operators]
    tensors_of_pairs: dict[tuple[str, str], set[str]] = {}
    joined = []
    for index, (source, target, _, tensor) in enumerate(edges):
        seen = tensors_of_pairs.setdefault((source, target), set())
        joined.append((source, target))
        if tensor in seen:
            yield f"edges.{index}", f"{source} → {target}", "every edge of a tensor must be listed once", None
        seen.add(tensor)
    unsound = False
    for fault in graph_faults("operator", names, list(dict.fromkeys(joined))):
        unsound = True
        yield _with_place(fault, joined)
    if not unsound:
        yield from _edge_faults({operator.name: operator for operator in operators}, edges)
        yield from _operator_faults(operators, edges)


def _with_place(fault: FaultFields, joined: Sequence[tuple[str, str]]) -> FaultFields:
    """``fault`` of the distinct pairs of ``joined`` with the position of its edge among all of them."""
    key, value, rule, suggestion = fault
    kind, _, number = key.partition(".")
    if kind == "edges" and number:
        pair = list(dict.fromkeys(joined))[int(number)]
        key = f"edges.{joined.index(pair)}"
    return key, value, rule, suggestion


def _edge_faults(operators: dict[str, DataflowOperator], edges: Sequence[NamedEdge]) -> Iterator[FaultFields]:
    first: dict[tuple[str, str], tuple[int, int]] = {}
    for index, (source, target, elements, tensor) in enumerate(edges):
        earlier, carried = first.setdefault((source, tensor), (index, elements))
        if carried != elements:
            rule = f"edges of one tensor must carry the same elements, but edge {earlier} carries {carried:,}"
            yield f"edges.{index}", f"{elements:,}", rule, None
        written = _written(operators[source])
        if written is not None and not tensor and elements < written:
            rule = f"must be all {written:,} elements that {source} writes, unless the edge names a part"
            yield f"edges.{index}", f"{elements:,}", rule, None
        if written is not None and tensor != IMAGE and elements > written:
            rule = f"must be at most the {written:,} elements that {source} writes"
            yield f"edges.{index}", f"{elements:,}", rule, None
        if operators[source].is_backward and not operators[target].is_backward:
            yield f"edges.{index}", f"{source} → {target}", "the forward pass must not read the backward pass", None


def _written(operator: DataflowOperator) -> int | None:
    """Elements that an operator writes, where its shape says so."""
    if isinstance(operator.work, Gemm):
        return operator.work.output_elements
    return operator.work.elements if operator.work.kind == "input" else None


def _operator_faults(operators: Sequence[DataflowOperator], edges: Sequence[NamedEdge]) -> Iterator[FaultFields]:
    read: dict[str, int] = {}
    for _, target, elements, _ in edges:
        read[target] = read.get(target, 0) + elements
    sources = {source for source, *_ in edges}
    for index, operator in enumerate(operators):
        for rule in _broken_rules(operator, operator.name in read, operator.name in sources):
            yield f"operators.{index}", shown(operator.name), rule, None
        carried = read.get(operator.name)
        if carried is not None and isinstance(operator.work, Pass) and operator.kind == "output":
            elements = operator.work.elements
            if elements != carried:
                rule = f"must be {carried:,}, the elements of its edges"
                yield f"operators.{index}.elements", f"{elements:,}", rule, None


def _broken_rules(operator: DataflowOperator, reads: bool, is_read: bool) -> Iterator[str]:
    """The rules that an operator breaks by having edges to it, or from it, or none."""
    kind = operator.kind
    if kind == "input" and reads:
        yield "an input must have no incoming edge"
    if kind == "output" and is_read:
        yield "an output must have no outgoing edge"
    if kind != "input" and not reads and not operator.weight_elements:
        yield "must have an incoming edge or weight_elements"
    if kind != "output" and not is_read and not (operator.is_backward and operator.weight_elements):
        yield "must have an outgoing edge, unless it is an output or a weight gradient sum"
