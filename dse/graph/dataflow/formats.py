"""``dse.dataflow/1`` documents: reading and writing dataflow graphs (docs/reference/formats.md)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field

from dse.graph.dataflow.graph import DataflowEdge, DataflowGraph
from dse.graph.dataflow.operators import DataflowOperator, Pass, PassKind
from dse.graph.dataflow.rules import graph_rule_faults
from dse.graph.named_edges import FaultFields
from hardware.inputs import Document, Fault, InputError, nearest, shown, validate
from hardware.operations import Gemm

SCHEMA = "dse.dataflow/1"

_PASS_KINDS: dict[str, PassKind] = {kind: kind for literal in get_args(PassKind) for kind in get_args(literal)}
_GEMM_KEYS = ("m", "k", "n", "batch")
_PASS_KEYS = ("elements", "row")
_DEFAULTS = {"batch": 1, "row": 1}

_Size = Annotated[int, Field(ge=1, le=2**40)]
_Name = Annotated[str, Field(min_length=1)]


def _edge(value: Any) -> Any:
    if isinstance(value, list) and len(value) in (3, 4):
        return (*value, "")[:4]
    raise ValueError("an edge must be [from, to, elements] or [from, to, elements, tensor]")


class OperatorDocument(Document):
    """An operator, per sample.

    Attributes:
        name: unique.
        kind: ``gemm``, ``input``, ``output``, or a kind of vector work (``softmax``, ``gelu``, ``add``, ``layer_norm``,
            ``dropout``, ``copy``, ``reduction``, …).
        m, k, n: of a ``gemm``: products of [m, k] and [k, n]. A convolution is its implicit GEMM.
        batch: of a ``gemm``: number of products, 1 where it is left out.
        elements: of any other kind: elements that it passes over, enter or leave.
        row: of any other kind: length of the dimension that softmax, norms and sums reduce over; 1 where left out.
        weight_elements: elements that stay with it from sample to sample; none of ``input`` and ``output``.
        of: the pass that it belongs to.
    """

    name: _Name
    kind: str
    m: _Size | None = None
    k: _Size | None = None
    n: _Size | None = None
    batch: _Size | None = None
    elements: _Size | None = None
    row: _Size | None = None
    weight_elements: Annotated[int, Field(ge=0, le=2**40)] = 0
    of: Annotated[Literal["forward", "backward"], Field(alias="pass")] = "forward"


class GraphDocument(Document):
    """A ``dse.dataflow/1`` document. Edges close no cycle; each operator reads something or has weights, and is read.

    Attributes:
        name: for people; the name of the file where it is left out.
        operators: in any order.
        edges: ``[from, to, elements]``: the whole result of ``from``; ``[from, to, elements, tensor]``: another tensor
            of it, such as a part (``"[0:64]"``) or the ``"mask"`` of a dropout. Edges from one operator with the same
            tensor carry the same data.
    """

    version: Annotated[Literal["dse.dataflow/1"], Field(alias="schema")]
    name: str = ""
    operators: Annotated[list[OperatorDocument], Field(min_length=1)]
    edges: list[Annotated[tuple[_Name, _Name, _Size, str], BeforeValidator(_edge)]]


def graph_from_document(document: Any, path: str | Path) -> DataflowGraph:
    """The graph in a parsed document, named after the file unless it says otherwise; ``path`` names it in errors.

    Raises:
        InputError: one fault for each thing that is wrong, with the key; of the document's form first, then of its
            operators, then of the graph (:mod:`dse.graph.dataflow.rules`).
    """
    parsed = validate(GraphDocument, document, path)
    _refuse(_shape_faults(parsed), path)
    operators = tuple(_operator(each) for each in parsed.operators)
    _refuse(graph_rule_faults(operators, parsed.edges), path)
    position = {operator.name: index for index, operator in enumerate(parsed.operators)}
    return DataflowGraph(
        name=parsed.name or Path(path).stem,
        operators=operators,
        edges=tuple(
            DataflowEdge(position[source], position[target], elements, tensor)
            for source, target, elements, tensor in parsed.edges
        ),
    )


def graph_document(graph: DataflowGraph) -> dict[str, Any]:
    """``graph`` as a document that :func:`graph_from_document` reads; keys of their default value are left out."""
    return {
        "schema": SCHEMA,
        "name": graph.name,
        "operators": [_operator_document(operator) for operator in graph.operators],
        "edges": [list(edge if edge[3] else edge[:3]) for edge in graph.named_edges],
    }


def _refuse(faults: Iterator[FaultFields], path: str | Path) -> None:
    if listed := [Fault(str(path), *fault) for fault in faults]:
        raise InputError(listed)


def _shape_faults(parsed: GraphDocument) -> Iterator[FaultFields]:
    """Unknown kinds, sizes that are missing, and sizes of another kind of operator."""
    for index, operator in enumerate(parsed.operators):
        key = f"operators.{index}"
        if operator.kind != "gemm" and operator.kind not in _PASS_KINDS:
            known = ["gemm", *_PASS_KINDS]
            rule = f"must be an operator kind: {', '.join(known)}"
            yield f"{key}.kind", shown(operator.kind), rule, nearest(operator.kind, known)
            continue
        own, other = (_GEMM_KEYS, _PASS_KEYS) if operator.kind == "gemm" else (_PASS_KEYS, _GEMM_KEYS)
        for name in own:
            if getattr(operator, name) is None and name not in _DEFAULTS:
                yield f"{key}.{name}", "", f"the key is missing; {operator.kind} has {', '.join(own)}", None
        for name in other:
            if (value := getattr(operator, name)) is not None:
                yield (
                    f"{key}.{name}",
                    shown(value),
                    f"must not be given for {operator.kind}, which has {', '.join(own)}",
                    None,
                )
        if operator.weight_elements and operator.kind in ("input", "output"):
            rule = f"must not be given, because {operator.kind} has no weights"
            yield f"{key}.weight_elements", shown(operator.weight_elements), rule, None


def _operator(parsed: OperatorDocument) -> DataflowOperator:
    """The operator of a document in which every operator has the sizes of its kind."""
    work: Gemm | Pass
    if parsed.kind == "gemm":
        assert parsed.m is not None
        assert parsed.n is not None
        assert parsed.k is not None
        work = Gemm(m=parsed.m, n=parsed.n, k=parsed.k, batch=parsed.batch or 1)
    else:
        assert parsed.elements is not None
        work = Pass(_PASS_KINDS[parsed.kind], parsed.elements, parsed.row or 1)
    return DataflowOperator(parsed.name, work, parsed.weight_elements, parsed.of == "backward")


def _operator_document(operator: DataflowOperator) -> dict[str, Any]:
    keys = _GEMM_KEYS if isinstance(operator.work, Gemm) else _PASS_KEYS
    sizes = {key: getattr(operator.work, key) for key in keys}
    document: dict[str, Any] = {"name": operator.name, "kind": operator.kind}
    document |= {key: size for key, size in sizes.items() if size != _DEFAULTS.get(key)}
    if operator.weight_elements:
        document["weight_elements"] = operator.weight_elements
    return document | ({"pass": "backward"} if operator.is_backward else {})
