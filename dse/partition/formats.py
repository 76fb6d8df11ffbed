"""Reading ``dse.graph/1`` documents, and writing and reading partitions in the user's operator names."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field

from dse.graph.named_edges import FaultFields, graph_faults
from dse.partition.problem import Copy, Floats, PartitionGraph, PartitionProblem
from hardware.documents import read_document
from hardware.inputs import Document, Fault, InputError, nearest, shown, validate

GRAPH_SCHEMA = "dse.graph/1"

_LARGEST = 1e30


def _edge(value: Any) -> Any:
    if isinstance(value, list) and len(value) in (2, 3):
        return tuple(value[:2])
    raise ValueError("an edge must be [from, to] or [from, to, bytes]")


_Amount = Annotated[float, Field(ge=0, le=_LARGEST, allow_inf_nan=False)]
_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Finite = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""A figure of an answer: a sum of amounts, which may be beyond the limit of one."""

_Name = Annotated[str, Field(min_length=1)]
_Edge = Annotated[tuple[_Name, _Name], BeforeValidator(_edge)]


class NodeDocument(Document):
    """An operator: ``latency_s``, or ``flops`` and ``bytes`` for a package to price.

    Attributes:
        name: unique.
        latency_s: on one chip.
        output_bytes: of its one output tensor, however many operators read it.
        weight_bytes: of its weights.
        flops: of one input.
        bytes: read and written.
    """

    name: _Name
    latency_s: _Amount | None = None
    output_bytes: _Amount
    weight_bytes: _Amount = 0.0
    flops: _Amount | None = None
    bytes: _Amount | None = None


class GraphDocument(Document):
    """A ``dse.graph/1`` document.

    Attributes:
        name: for people; the name of the file where it is left out.
        nodes: operators in any order.
        edges: ``[from, to]``; bytes behind them are accepted and ignored.
    """

    version: Annotated[Literal["dse.graph/1"], Field(alias="schema")]
    name: str = ""
    nodes: Annotated[list[NodeDocument], Field(min_length=1)]
    edges: list[_Edge]


def _chips(value: Any) -> Any:
    numbers = list(value.values()) if isinstance(value, dict) else [value]
    if not numbers or any(type(number) is not int or number < 0 for number in numbers):
        raise ValueError("must be a chip (a whole number from 0), or the chip of each copy by consumer")
    return value


class SolutionDocument(Document):
    """``solution`` of a result: a partition.

    Attributes:
        chip: of each operator; of one that was copied, the chip of each copy by the consumer that it is for. What
            follows from weights and constants alone has no chip: every reader holds it.
    """

    chip: dict[str, Annotated[int | dict[str, int], BeforeValidator(_chips)]]


class MethodDocument(Document):
    """What one of several methods found.

    Attributes:
        method: its name.
        value, bound: in the unit of the objective; null where there is none.
        gap: as in a result.
        evaluations: of partitions.
        seconds: of the run.
    """

    method: str
    value: _Positive | None
    bound: _Positive | None
    gap: _Finite | None
    evaluations: Annotated[int, Field(ge=0)]
    seconds: _Finite


class SolverDocument(Document):
    """What the constraint solver produced for ``random`` and ``anneal``.

    Attributes:
        partitions: their number.
        fall_backs: those that are linear because no general partition was found.
    """

    partitions: Annotated[int, Field(ge=1)]
    fall_backs: Annotated[int, Field(ge=0)]


class MisfitDocument(Document):
    """What the fullest chip of a partition that does not fit lacks.

    Attributes:
        chip: its number.
        needed_bytes: what its operators need.
        limit_bytes: its memory.
        operators: [name, bytes] of those that need most, of weights alone or with outputs.
        explanation: one sentence.
    """

    chip: int
    needed_bytes: _Finite
    limit_bytes: _Finite
    operators: list[Annotated[tuple[str, _Finite], Field(strict=False)]]
    explanation: str


class MetricsDocument(Document):
    """``metrics`` of a result: figures of its partition, if it has one, and of the run.

    Attributes:
        operators, edges: of the graph.
        chips, chips_used: of the package, and of the partition.
        chip_s: seconds of every chip under the reference evaluator.
        link_s: seconds of every link.
        bottleneck: the chip or link that takes longest.
        chip_weight_bytes: weights of every chip; where they are streamed, of a lookup table only the rows that an
            input reads.
        chips_usable: no partition uses more chips.
        chips_usable_linear: the same for partitions whose data go from each chip to the next.
        methods: where several ran, the answer of each.
        unfinished: methods that were interrupted or not begun.
        misfit: where no partition that fits memory was found, what the nearest one lacks.
        solver: counts of the constraint solver.
    """

    operators: int | None = None
    edges: int | None = None
    chips: int | None = None
    chips_used: int | None = None
    chip_s: list[float] | None = None
    link_s: list[float] | None = None
    bottleneck: str | None = None
    chip_weight_bytes: list[float] | None = None
    chips_usable: int | None = None
    chips_usable_linear: int | None = None
    methods: list[MethodDocument] | None = None
    unfinished: list[str] = Field(default_factory=list)
    misfit: MisfitDocument | None = None
    solver: SolverDocument | None = None


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
    parsed = validate(GraphDocument, document, path)
    names = [node.name for node in parsed.nodes]
    faults = (*graph_faults("node", names, parsed.edges), *_unpriced(parsed))
    if faults:
        raise InputError([Fault(str(path), *fault) for fault in faults])
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


def _unpriced(parsed: GraphDocument) -> Iterator[FaultFields]:
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
    chips = validate(SolutionDocument, document, path).chip
    copies = _copies(problem.graph)
    consumers: dict[str, list[str]] = {}  # of the copies of each operator; empty for one that was not copied
    for name, copy in zip(problem.graph.names, copies, strict=True):
        if copy is None:
            consumers[name] = []
        else:
            consumers.setdefault(copy.operator, []).append(copy.consumer)
    faults = [
        ("chip", shown(name), "must be a node of the graph", nearest(name, consumers))
        for name in chips
        if name not in consumers
    ]
    for name, expected in consumers.items():
        faults += _chip_faults(name, chips.get(name), expected)
    if faults:
        raise InputError(Fault(str(path), *fault) for fault in faults)
    flat = {
        (name, consumer): chip
        for name, each in chips.items()
        for consumer, chip in (each.items() if isinstance(each, dict) else [(None, each)])
    }
    return tuple(
        flat[(name, None) if copy is None else (copy.operator, copy.consumer)]
        for name, copy in zip(problem.graph.names, copies, strict=True)
    )


def _copies(graph: PartitionGraph) -> Sequence[Copy | None]:
    return graph.copy_of or (None,) * len(graph)


def _chip_faults(name: str, chips: int | dict[str, int] | None, consumers: Sequence[str]) -> Iterator[FaultFields]:
    """What is wrong with the chips of one operator whose copies are for ``consumers``."""
    key = f"chip.{name}"
    if chips is None:
        yield "chip", shown(name), "must have a chip", None
    elif not consumers and isinstance(chips, dict):
        yield key, shown(chips), "must be one chip, because the operator has no copies", None
    elif consumers and not isinstance(chips, dict):
        rule = f"must give the chip of each copy by consumer: {', '.join(consumers)}"
        yield key, shown(chips), rule, None
    elif isinstance(chips, dict):
        for consumer in chips:
            if consumer not in consumers:
                yield key, shown(consumer), "must be the consumer of a copy", nearest(consumer, consumers)
        for consumer in consumers:
            if consumer not in chips:
                yield key, shown(consumer), "must have a chip", None
