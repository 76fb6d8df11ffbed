"""Reading ``dse.graph/1`` documents, and writing and reading partitions in the user's operator names."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from dse.graph.named_edges import FaultFields, graph_faults
from dse.partition.problem import Copy, Floats, PartitionGraph, PartitionProblem
from hardware.documents import read_document
from hardware.inputs import Fault, InputError, nearest, shown, validate

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


def _chips(value: Any) -> Any:
    numbers = list(value.values()) if isinstance(value, dict) else [value]
    if not numbers or any(type(number) is not int or number < 0 for number in numbers):
        raise ValueError("must be a chip (a whole number from 0), or the chip of each copy by what it is for")
    return value


_Chips = Annotated[Any, BeforeValidator(_chips)]
"""The chip of an operator, or the chips of its copies by consumer: ``int | dict[str, int]``."""


class _SolutionDocument(_Document):
    chip: dict[str, _Chips]


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


def partition_document(problem: PartitionProblem, chip: Sequence[int]) -> dict[str, Any]:
    """A partition as the ``solution`` of a result file, in the user's names.

    An operator that was copied has one chip for each copy, under the name of the consumer that the copy is for.
    """
    graph = problem.graph
    chips: dict[str, int | dict[str, int]] = {}
    for name, copy, where in zip(graph.names, _copies(graph), chip, strict=True):
        if copy is None:
            chips[name] = where
        else:
            copies = chips.setdefault(copy.operator, {})
            assert isinstance(copies, dict)  # the user's names differ
            copies[copy.consumer] = where
    return {"chip": chips}


def partition_from_document(problem: PartitionProblem, document: Any, path: str | Path) -> tuple[int, ...]:
    """The partition that :func:`partition_document` wrote; whether it is valid is for the checker to say.

    Raises:
        InputError: the document is malformed, names an unknown operator or consumer, or leaves one out.
    """
    chips = validate(_SolutionDocument, document, path).chip
    graph = problem.graph
    consumers: dict[str, list[str]] = {}  # of the copies of each operator; empty for one that was not copied
    for name, copy in zip(graph.names, _copies(graph), strict=True):
        if copy is None:
            consumers[name] = []
        else:
            consumers.setdefault(copy.operator, []).append(copy.consumer)
    faults = [
        Fault(str(path), "chip", shown(name), "must be a node of the graph", nearest(name, consumers))
        for name in chips
        if name not in consumers
    ]
    for name, expected in consumers.items():
        if name not in chips:
            faults.append(Fault(str(path), "chip", shown(name), "must have a chip", None))
        else:
            faults += _copy_faults(f"chip.{name}", chips[name], expected, path)
    if faults:
        raise InputError(faults)
    return tuple(
        chips[name] if copy is None else chips[copy.operator][copy.consumer]
        for name, copy in zip(graph.names, _copies(graph), strict=True)
    )


def _copies(graph: PartitionGraph) -> Sequence[Copy | None]:
    return graph.copy_of or (None,) * len(graph)


def _copy_faults(key: str, chips: Any, expected: Sequence[str], path: str | Path) -> Iterator[Fault]:
    """What is wrong with the chips of one operator whose copies are for the ``expected`` consumers."""
    if not expected:
        if isinstance(chips, dict):
            yield Fault(str(path), key, shown(chips), "must be one chip: the operator was not copied")
        return
    if not isinstance(chips, dict):
        rule = f"must be the chips of its copies by what each is for: {', '.join(expected)}"
        yield Fault(str(path), key, shown(chips), rule)
        return
    for name in chips:
        if name not in expected:
            yield Fault(str(path), key, shown(name), "must be what a copy is for", nearest(name, expected))
    for name in expected:
        if name not in chips:
            yield Fault(str(path), key, shown(name), "must have a chip")
