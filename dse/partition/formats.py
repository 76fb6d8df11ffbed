"""Reading ``dse.graph/1`` documents, and writing and reading partitions in the user's operator names."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from dse.graph.named_edges import FaultFields, graph_faults
from dse.partition.problem import Floats, PartitionGraph, PartitionProblem
from hardware.inputs import Fault, InputError, nearest, read_document, shown, validate

GRAPH_SCHEMA = "dse.graph/1"

_LARGEST = 1e30


def _edge(value: Any) -> Any:
    if isinstance(value, list) and len(value) in (2, 3):
        return tuple(value[:2])
    raise ValueError("an edge must be [from, to] or [from, to, bytes]")


_Amount = Annotated[float, Field(ge=0, le=_LARGEST, allow_inf_nan=False)]
_Name = Annotated[str, Field(min_length=1)]
_Edge = Annotated[tuple[_Name, _Name], BeforeValidator(_edge)]


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Node(_Document):
    """``latency_s``, or ``flops`` and ``bytes`` for a package to price."""

    name: _Name
    latency_s: _Amount | None = None
    output_bytes: _Amount
    weight_bytes: _Amount = 0.0
    flops: _Amount | None = None
    bytes: _Amount | None = None


class _GraphDocument(_Document):
    version: Annotated[Literal["dse.graph/1"], Field(alias="schema")]
    name: str = ""
    nodes: Annotated[list[_Node], Field(min_length=1)]
    edges: list[_Edge]


class _SolutionDocument(_Document):
    chip: dict[str, Annotated[int, Field(ge=0)]]


def read_graph(path: str | Path) -> PartitionGraph:
    """The graph in a JSON or YAML file, named after the file unless it says otherwise.

    Raises:
        InputError: one fault for each thing that is wrong with the file.
    """
    return graph_from_document(read_document(path), path)


def graph_from_document(document: Any, path: str | Path) -> PartitionGraph:
    """The graph in a parsed document; ``path`` names it in errors. The bytes of an edge are the producer's output.

    Raises:
        InputError: one fault for each thing that is wrong.
    """
    parsed = validate(_GraphDocument, document, path)
    names = [node.name for node in parsed.nodes]
    found = (*graph_faults("node", names, parsed.edges), *_unpriced(parsed))
    if found:
        raise InputError([Fault(str(path), *fault) for fault in found])
    position = {name: index for index, name in enumerate(names)}
    return PartitionGraph(
        name=parsed.name or Path(path).stem,
        names=tuple(names),
        latency_s=_column(node.latency_s for node in parsed.nodes),
        output_bytes=_column(node.output_bytes for node in parsed.nodes),
        weight_bytes=_column(node.weight_bytes for node in parsed.nodes),
        edges=np.array([[position[end] for end in edge] for edge in parsed.edges], dtype=np.int64).reshape(-1, 2),
        flops=_column(node.flops for node in parsed.nodes),
        moved_bytes=_column(node.bytes for node in parsed.nodes),
    )


def _column(values: Iterable[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _unpriced(parsed: _GraphDocument) -> Iterator[FaultFields]:
    for index, node in enumerate(parsed.nodes):
        if node.latency_s is None and (node.flops is None or node.bytes is None):
            yield f"nodes.{index}", shown(node.name), "must have latency_s, or flops and bytes", None


def partition_document(problem: PartitionProblem, chip: tuple[int, ...]) -> dict[str, Any]:
    """A partition as the ``solution`` of a result file."""
    return {"chip": dict(zip(problem.graph.names, chip, strict=True))}


def partition_from_document(problem: PartitionProblem, document: Any, path: str | Path) -> tuple[int, ...]:
    """The partition that :func:`partition_document` wrote; whether it is valid is for the checker to say.

    Raises:
        InputError: the document is malformed, names an unknown operator or leaves one out.
    """
    chip = validate(_SolutionDocument, document, path).chip
    names = problem.graph.names
    known = set(names)
    faults = [
        Fault(str(path), "chip", shown(name), "must be a node of the graph", nearest(name, known))
        for name in chip
        if name not in known
    ]
    faults += [Fault(str(path), "chip", shown(name), "must have a chip", None) for name in names if name not in chip]
    if faults:
        raise InputError(faults)
    return tuple(chip[name] for name in names)
