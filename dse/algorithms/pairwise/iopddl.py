"""Files of the ASPLOS 2025 / EuroSys 2025 contest on Intra-Operator Parallelism for Distributed Deep Learning (IOPDDL).

A problem is a JSON object (https://github.com/google/iopddl)::

    {"problem": {"name": …, "nodes": {"intervals": [[start, end], …], "costs": [[…], …], "usages": [[…], …]},
                 "edges": {"nodes": [[u, v], …], "costs": [[…], …]}, "usage_limit": …}}

with intervals half-open and the costs of an edge row-major in its first node. A solution is a JSON list of choice
numbers, one for each node.
"""

import gzip
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from dse.algorithms.pairwise.number_lists import Rows, parsed_with_rows
from dse.algorithms.pairwise.problem import FORBIDDEN, MAX_TOTAL_USAGE, PairwiseProblem
from dse.run.directory import write_bytes
from hardware.documents import unpacked
from hardware.inputs import Document, Fault, InputError, fail, shown, validate

_Cost = Any
"""An integer, or a float that is a whole number; checked in :func:`_cost_faults`, as pydantic faults a union twice."""

_Usage = Annotated[int, Field(ge=0, lt=MAX_TOTAL_USAGE)]
_Time = Annotated[int, Field(ge=0, lt=2**62)]
_Choices = Annotated[list[_Cost], Field(min_length=1)]


class _Nodes(Document):
    intervals: list[Annotated[list[_Time], Field(min_length=2, max_length=2)]]
    costs: Annotated[list[_Choices], Field(min_length=1)]
    usages: list[list[_Usage]]


class _Edges(Document):
    nodes: list[Annotated[list[int], Field(min_length=2, max_length=2)]]
    costs: list[list[_Cost]]


class _Problem(Document):
    name: str = ""
    nodes: _Nodes
    edges: _Edges
    usage_limit: _Usage | None = None


class _ProblemDocument(Document):
    problem: _Problem


MAX_BYTES = 2**30
"""Size of a problem's text; its costs take as much again at most."""


def read_problem(path: str | Path) -> PairwiseProblem:
    """The problem in a JSON file.

    Raises:
        InputError: one fault for each thing that is wrong with the file.
    """
    return problem_in(unpacked(path, MAX_BYTES), path)


def problem_in(content: bytes, path: str | Path) -> PairwiseProblem:
    """The problem in the unpacked content of the file ``path``.

    Raises:
        InputError: one fault for each thing that is wrong with the file.
    """
    document, costs = parsed_with_rows(content, ("problem", "edges", "costs"), FORBIDDEN, str(path))
    return problem_of(document, path, costs)


def problem_of(document: Any, path: str | Path, edge_costs: Rows | None = None) -> PairwiseProblem:
    """The problem in a document that was read from ``path``.

    Args:
        document: of the form above.
        path: for messages.
        edge_costs: in place of those in the document.

    Raises:
        InputError: one fault for each thing that is wrong with the document.
    """
    problem = validate(_ProblemDocument, document, path).problem
    if faults := list(_faults(problem, edge_costs, str(path))):
        raise InputError(faults)
    nodes, edges = problem.nodes, problem.edges
    try:
        return PairwiseProblem.build(
            [_whole(costs) for costs in nodes.costs],
            [(u, v) for u, v in edges.nodes],
            [_whole(costs) for costs in edges.costs] if edge_costs is None else edge_costs,
            nodes.usages,
            [(start, end) for start, end in nodes.intervals],
            problem.usage_limit,
            problem.name,
        )
    except ValueError as error:  # sums that are too large
        raise fail(path, "problem", "", str(error)) from error


def document_of(problem: PairwiseProblem) -> dict[str, Any]:
    """``problem`` as a document that :func:`problem_of` reads."""
    body: dict[str, Any] = {
        "name": problem.name,
        "nodes": {
            "intervals": problem.intervals.tolist(),
            "costs": [each.tolist() for each in problem.costs],
            "usages": [each.tolist() for each in problem.usages],
        },
        "edges": {
            "nodes": problem.edges.tolist(),
            "costs": [each.ravel().tolist() for each in problem.edge_costs],
        },
    }
    if problem.usage_limit is not None:
        body["usage_limit"] = problem.usage_limit
    return {"problem": body}


def identity_of(problem: PairwiseProblem) -> dict[str, Any]:
    """What makes ``problem`` the one that it is, in JSON types: its numbers, and a digest of the costs of edges."""
    costs = hashlib.sha256()
    for each in problem.edge_costs:
        costs.update(each.astype("<i8").tobytes())
    document = document_of(replace(problem, edge_costs=()))
    document["problem"]["edges"]["costs"] = f"sha256:{costs.hexdigest()}"
    return document


def write_problem(problem: PairwiseProblem, path: str | Path) -> None:
    """Write ``problem`` as JSON, packed by gzip where the name ends in ``.gz``.

    Raises:
        InputError: the file cannot be written.
    """
    content = json.dumps(document_of(problem), separators=(",", ":")).encode()
    target = Path(path)
    write_bytes(target, gzip.compress(content, mtime=0) if target.suffix == ".gz" else content)


def choices_of(choices: Any, problem: PairwiseProblem, path: str | Path, key: str) -> tuple[int, ...]:
    """The choice of each node of ``problem``, under ``key`` of ``path``.

    Raises:
        InputError: one fault for each thing that is wrong with them.
    """
    if not isinstance(choices, list) or len(choices) != problem.node_count:
        raise fail(path, key, choices, f"must be a list of {problem.node_count} choice numbers, one per node")
    faults = [
        Fault(str(path), f"{key}.{node}", shown(choice), f"must be a whole number from 0 to {len(costs) - 1}")
        for node, (choice, costs) in enumerate(zip(choices, problem.costs, strict=True))
        if type(choice) is not int or not 0 <= choice < len(costs)
    ]
    if faults:
        raise InputError(faults)
    return tuple(choices)


def _faults(problem: _Problem, rows: Rows | None, file: str) -> Iterator[Fault]:
    """What is wrong with the numbers, each of which is in its own range."""
    nodes, edges = problem.nodes, problem.edges
    count = len(nodes.costs)
    for key, length in (("intervals", len(nodes.intervals)), ("usages", len(nodes.usages))):
        if length != count:
            yield Fault(
                file, f"problem.nodes.{key}", "", f"must have {count} entries, as many as costs, but has {length}"
            )
    for node, (start, end) in enumerate(nodes.intervals):
        if start > end:
            yield Fault(file, f"problem.nodes.intervals.{node}", shown([start, end]), "start <= end must hold")
    for node, (usages, costs) in enumerate(zip(nodes.usages, nodes.costs, strict=False)):
        if len(usages) != len(costs):
            rule = f"must have {len(costs)} entries, as many as costs.{node}, but has {len(usages)}"
            yield Fault(file, f"problem.nodes.usages.{node}", shown(usages), rule)
    for node, costs in enumerate(nodes.costs):
        yield from _cost_faults(costs, f"problem.nodes.costs.{node}", file)
    edge_costs: Sequence[Sequence[Any]] | Rows = edges.costs if rows is None else rows
    if len(edge_costs) != len(edges.nodes):
        rule = f"must have {len(edges.nodes)} entries, as many as nodes, but has {len(edge_costs)}"
        yield Fault(file, "problem.edges.costs", "", rule)
    for edge, (u, v) in enumerate(edges.nodes):
        key = f"problem.edges.nodes.{edge}"
        if not (0 <= u < count and 0 <= v < count):
            yield Fault(file, key, shown([u, v]), f"must be node numbers from 0 to {count - 1}")
        elif u == v:
            yield Fault(file, key, shown([u, v]), "must join two different nodes")
        elif edge < len(edge_costs) and len(edge_costs[edge]) != len(nodes.costs[u]) * len(nodes.costs[v]):
            expected = f"{len(nodes.costs[u])} x {len(nodes.costs[v])}"
            rule = f"must have {expected} entries, but has {len(edge_costs[edge])}"
            yield Fault(file, f"problem.edges.costs.{edge}", "", rule)
    for edge, costs in enumerate(edges.costs):
        yield from _cost_faults(costs, f"problem.edges.costs.{edge}", file)
    for edge, position, cost in () if rows is None else rows.faulty():
        yield _cost_fault(cost, f"problem.edges.costs.{edge}.{position}", file)


def _cost_faults(costs: list[Any], key: str, file: str) -> Iterator[Fault]:
    """Costs that are not whole numbers of at least 0."""
    for position, cost in enumerate(costs):
        if type(cost) is int and cost >= 0:
            continue
        if not (type(cost) is float and cost >= 0 and cost.is_integer()):
            yield _cost_fault(cost, f"{key}.{position}", file)


def _cost_fault(cost: Any, key: str, file: str) -> Fault:
    return Fault(file, key, shown(cost), "must be a whole number of at least 0")


def _whole(costs: list[int | float]) -> list[int]:
    """``costs`` as integers; an array of integers and floats would round the integers."""
    return [int(min(cost, FORBIDDEN)) for cost in costs]
