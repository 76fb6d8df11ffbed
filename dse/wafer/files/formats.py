"""A problem from a ``.kgraph`` file."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from dse.wafer.files.kgraph import GraphNode, KernelGraph, read_kgraph
from dse.wafer.kernels import RESERVED, KernelLibrary, KernelRuleError, contest_library
from dse.wafer.problem import Convolution, Kernel, Wafer, WaferProblem, Weights
from hardware.inputs import Fault, InputError, shown
from hardware.number_text import number_of

MAX_TILES = 4096
"""Across a wafer, and up."""

_MAX_MEMORY_WORDS = 2**26
_MAX_DIGITS = 9
_MAX_WEIGHT = 1e12
_MAX_WORK = 2**62


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
        if kernel is not None and scale * max(map(_work, kernel.convolutions)) >= _MAX_WORK:
            yield Fault(path, f"line {node.line}", node.label, f"H·W·R·S·C·K must be less than {_MAX_WORK // scale}")


def _work(each: Convolution) -> int:
    window = each.window_height * each.window_width
    return each.height * each.width * window * each.inputs * each.outputs


def header_of(
    header: Mapping[str, str], path: str, faults: list[Fault], lines: Mapping[str, int] = MappingProxyType({})
) -> tuple[Wafer, Weights]:
    """The wafer and the weights of a header; what is wrong with it is added to ``faults``.

    ``lines``: the line of the file that has an entry, if any.
    """

    def fault(key: str, rule: str) -> None:
        where = f"line {lines[key]}: header.{key}" if key in lines else f"header.{key}"
        rule = rule if key in header else "the key is missing"
        faults.append(Fault(path, where, shown(header.get(key, "")), rule))

    def whole(key: str, largest: int) -> int:
        text = header.get(key, "")
        if text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS and 1 <= int(text) <= largest:
            return int(text)
        fault(key, f"must be a whole number from 1 to {largest}")
        return 1

    def weight(key: str) -> float:
        with suppress(ValueError):
            value = number_of(header.get(key, ""))
            if 0 <= value <= _MAX_WEIGHT:
                return value
        fault(key, f"must be a number from 0 to {_MAX_WEIGHT:g}")
        return 1.0

    wafer = Wafer(whole("width", MAX_TILES), whole("height", MAX_TILES), whole("memlimit", _MAX_MEMORY_WORDS))
    weights = Weights(weight("wdeltat"), weight("wlength"), weight("wadapter"))
    if weights == Weights(0.0, 0.0, 0.0):
        faults.append(Fault(path, "header", "", "at least one of wdeltat, wlength and wadapter must be above 0"))
    return wafer, weights
