"""A problem from a ``.kgraph`` file, and placements as the ``solution`` of a result file, by the user's names."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from dse.wafer.files.kgraph import GraphNode, KernelGraph, read_kgraph
from dse.wafer.kernels import RESERVED, KernelLibrary, KernelRuleError, contest_library
from dse.wafer.problem import Convolution, Kernel, PlacedKernel, Rotation, Wafer, WaferPlacement, WaferProblem, Weights
from hardware.inputs import Fault, InputError, nearest, shown, validate

MOST_TILES = 4096
"""Across a wafer, and up."""

_MOST_MEMORY_WORDS = 2**26
_MOST_DIGITS = 9
_MOST_WEIGHT = 1e12
_MOST_WORK = 2**62

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def read_problem(path: str | Path, library: KernelLibrary | None = None) -> WaferProblem:
    """The problem in a ``.kgraph`` file, named after the file.

    Raises:
        InputError: one fault for each thing that is wrong with the file.
    """
    known = library or contest_library()
    return problem_of(read_kgraph(path, known), path, known)


def problem_of(graph: KernelGraph, path: str | Path, library: KernelLibrary, name: str | None = None) -> WaferProblem:
    """The problem that a graph poses: kernels and what joins them, without inputs and outputs.

    Args:
        graph: what was read.
        path: where from, for errors.
        library: has its kernel types.
        name: of the problem; that of the file when None.

    Raises:
        InputError: a header entry is missing or out of range, weights contradict each other, or parameters that a
            kernel type cannot have.
    """
    faults: list[Fault] = []
    wafer, weights = header_of(graph.header, str(path), faults, graph.header_lines)
    nodes = [node for node in graph.nodes if node.kind not in RESERVED]
    kernels = [_kernel(node, library, str(path), faults) for node in nodes]
    faults += _excess(nodes, kernels, str(path))
    if faults:
        raise InputError(faults)
    position = {node.label: number for number, node in enumerate(nodes)}
    ends = [edge.labels for edge in graph.edges]
    edges = tuple((position[source], position[target]) for source, target in ends if {source, target} <= {*position})
    return WaferProblem(name or Path(path).stem, wafer, weights, tuple(each for each in kernels if each), edges)


def _kernel(node: GraphNode, library: KernelLibrary, path: str, faults: list[Fault]) -> Kernel | None:
    try:
        written, convolutions = library[node.kind].build(dict(node.values))
    except KernelRuleError as error:
        faults.append(Fault(path, f"line {node.line}" if node.line else "", node.label, str(error)))
        return None
    return Kernel(node.name, node.kind, node.values, written, convolutions)


def _excess(nodes: Sequence[GraphNode], kernels: Sequence[Kernel | None], path: str) -> Iterator[Fault]:
    """Kernels of more work than is counted in 64 bits."""
    scale = math.lcm(*(each.stride**2 for kernel in kernels if kernel for each in kernel.convolutions))
    for node, kernel in zip(nodes, kernels, strict=True):
        if kernel is not None and scale * max(map(_work, kernel.convolutions)) >= _MOST_WORK:
            yield Fault(path, f"line {node.line}", node.label, f"H·W·R·S·C·K must be less than {_MOST_WORK // scale}")


def _work(each: Convolution) -> int:
    window = each.window_height * each.window_width
    return each.height * each.width * window * each.inputs * each.outputs


def number_of(text: str) -> float:
    """A number in decimal, as the contest's files have them: Python's other ways of writing one (``1_0``) are none.

    Raises:
        ValueError: it is none.
    """
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    return float(text)


def header_of(
    header: Mapping[str, str], path: str, faults: list[Fault], lines: Mapping[str, int] = MappingProxyType({})
) -> tuple[Wafer, Weights]:
    """The wafer and the weights of a header; what is wrong with it is added to ``faults``.

    ``lines``: in which line of the file an entry stands, where it stands there.
    """

    def fault(key: str, rule: str) -> None:
        where = f"line {lines[key]}: header.{key}" if key in lines else f"header.{key}"
        rule = rule if key in header else "the key is missing"
        faults.append(Fault(path, where, shown(header.get(key, "")), rule))

    def whole(key: str, most: int) -> int:
        text = header.get(key, "")
        if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS and 1 <= int(text) <= most:
            return int(text)
        fault(key, f"must be a whole number from 1 to {most}")
        return 1

    def weight(key: str) -> float:
        with suppress(ValueError):
            value = number_of(header.get(key, ""))
            if 0 <= value <= _MOST_WEIGHT:
                return value
        fault(key, f"must be a number from 0 to {_MOST_WEIGHT:g}, not negative")
        return 1.0

    wafer = Wafer(whole("width", MOST_TILES), whole("height", MOST_TILES), whole("memlimit", _MOST_MEMORY_WORDS))
    weights = Weights(weight("wdeltat"), weight("wlength"), weight("wadapter"))
    if weights == Weights(0.0, 0.0, 0.0):
        faults.append(Fault(path, "header", "", "wdeltat, wlength and wadapter must not all be 0: nothing would count"))
    return wafer, weights


_Count = Annotated[int, Field(ge=1)]


class _PlacedDocument(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    h: _Count
    w: _Count
    c: list[_Count]
    k: list[_Count]
    x: Annotated[int, Field(ge=0)]
    y: Annotated[int, Field(ge=0)]
    rotation: Rotation


class _PlacementDocument(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    kernels: dict[str, _PlacedDocument]


def placement_document(problem: WaferProblem, placement: WaferPlacement) -> dict[str, Any]:
    """A placement as the ``solution`` of a result file."""
    return {
        "kernels": {
            kernel.name: {
                "h": each.h,
                "w": each.w,
                "c": list(each.c),
                "k": list(each.k),
                "x": each.x,
                "y": each.y,
                "rotation": each.rotation,
            }
            for kernel, each in zip(problem.kernels, placement.placed, strict=True)
        }
    }


def placement_from_document(problem: WaferProblem, document: Any, path: str | Path) -> WaferPlacement:
    """The placement that :func:`placement_document` wrote; whether it is legal is for the checker to say.

    Raises:
        InputError: the document is malformed, names an unknown kernel or leaves one out.
    """
    given = validate(_PlacementDocument, document, path).kernels
    names = [kernel.name for kernel in problem.kernels]
    faults = [
        Fault(str(path), f"kernels.{name}", "", "must be a kernel of the graph", nearest(name, names))
        for name in given
        if name not in names
    ]
    faults += [Fault(str(path), f"kernels.{name}", "", "must be placed") for name in names if name not in given]
    if faults:
        raise InputError(faults)
    return WaferPlacement(
        tuple(
            PlacedKernel(each.h, each.w, tuple(each.c), tuple(each.k), each.x, each.y, each.rotation)
            for each in map(given.__getitem__, names)
        )
    )
