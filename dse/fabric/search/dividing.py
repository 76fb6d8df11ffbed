"""Operators of a dataflow graph divided into smaller ones, for fabrics on which they do not fit as they are.

A matrix product is divided over its batch, its rows and its columns, in whole tiles; every other operator over its
rows, or in the same way as what it reads if it is elementwise. A part of a product has the weights of its columns,
whatever its rows are; a part of any other operator has all of its weights, or its own part of a sum. A lookup is
divided over the columns of its table, of which each part has its own.

Every tensor is seen as a matrix, with the batch as the outer part of its rows, and every part of an operator writes a
region of it. A part reads of another part what the region that it needs and the region that is written have in common:

- a left operand by its rows, and a right one by the columns of the product;
- a product of heads that reads a matrix of all heads takes those of its batch, which are columns there, and a product
  that reads heads as one matrix takes its rows of every head;
- the gradient of a weight takes its rows and columns, which are columns of both operands.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import NamedTuple

from dse.fabric.search.splitting import Range, held, left_operands
from dse.graph.dataflow.graph import DataflowEdge, DataflowGraph
from dse.graph.dataflow.operators import DataflowOperator, Pass
from dse.graph.dataflow.rules import IMAGE
from hardware.operations import Gemm

TensorKey = tuple[int, str]
"""The operator that writes a tensor, and its name."""


class Ways(NamedTuple):
    """Parts of the batch, the rows and the columns of a matrix product; of other operators, all are of the rows."""

    batches: int = 1
    rows: int = 1
    columns: int = 1

    @property
    def parts(self) -> int:
        """Parts in all."""
        return self.batches * self.rows * self.columns


WHOLE = Ways()


@dataclass(frozen=True)
class Divided:
    """A graph whose operators are parts of those of another one.

    Attributes:
        graph: of the parts.
        operators: the position of the operator that each one is a part of, [operators of the graph].
        tensors: of every (source, tensor) of the graph, the (source, tensor) of which it is a part.
    """

    graph: DataflowGraph
    operators: tuple[int, ...]
    tensors: Mapping[TensorKey, TensorKey]


class _Share(NamedTuple):
    """From where to where something reaches in a whole of 1."""

    first: Fraction
    end: Fraction

    @property
    def size(self) -> Fraction:
        """How much of the whole it is."""
        return self.end - self.first

    def within(self, outer: "_Share") -> "_Share":
        """What both have in common, in parts of ``outer``; of no size if that is nothing."""
        first = (max(self.first, outer.first) - outer.first) / outer.size
        end = (min(self.end, outer.end) - outer.first) / outer.size
        return _Share(first, max(first, end))


_ALL = _Share(Fraction(0), Fraction(1))


class _Region(NamedTuple):
    """Rows and columns of a matrix."""

    rows: _Share = _ALL
    columns: _Share = _ALL

    @property
    def size(self) -> Fraction:
        """How much of the matrix it is."""
        return self.rows.size * self.columns.size

    def within(self, outer: "_Region") -> "_Region":
        """What both have in common, in parts of ``outer``."""
        return _Region(self.rows.within(outer.rows), self.columns.within(outer.columns))

    @property
    def label(self) -> str:
        """As the name of a part of a tensor."""
        (top, bottom), (left, right) = self
        return f"[{top}:{bottom},{left}:{right}]"


_EVERYTHING = _Region()


class _Part(NamedTuple):
    """A part of an operator with the region that it writes, and its batch, rows and columns of a product."""

    operator: DataflowOperator
    region: _Region
    batch: _Share = _ALL
    rows: _Share = _ALL
    columns: _Share = _ALL


@dataclass(frozen=True)
class _Layout:
    """An operator's parts; ``batch`` is that of the product that its result goes back to."""

    parts: tuple[_Part, ...]
    batch: int = 1


def can_divide(graph: DataflowGraph, position: int) -> bool:
    """Whether an operator may be divided: not inputs and outputs, nor what is summed into an image."""
    is_image = any(edge.tensor == IMAGE for edge in graph.outgoing[position])
    return graph.operators[position].kind not in ("input", "output") and not is_image


def divided(graph: DataflowGraph, ways: Mapping[int, Ways], tile: int) -> Divided:
    """``graph`` with some operators, by position, in parts; of the others each is one part."""
    layouts: dict[int, _Layout] = {}
    for position in graph.topological_order:
        sources = [layouts[edge.source] for edge in graph.incoming[position]]
        layouts[position] = _layout(graph, position, ways.get(position, WHOLE), sources, tile)
    starts, operators, origin = [], list[DataflowOperator](), list[int]()
    for position in range(len(graph.operators)):
        starts.append(len(operators))
        operators += [part.operator for part in layouts[position].parts]
        origin += [position] * len(layouts[position].parts)
    edges: list[DataflowEdge] = []
    tensors: dict[TensorKey, TensorKey] = {}
    for edge in graph.edges:
        for number, source in enumerate(layouts[edge.source].parts):
            for other, target in enumerate(layouts[edge.target].parts):
                common = _wanted(graph, edge, target, layouts[edge.source]).within(source.region)
                if common.size > 0:
                    tensor = edge.tensor if common == _EVERYTHING else f"{edge.tensor}{common.label}"
                    elements = ceil(ceil(edge.elements * source.region.size) * common.size)
                    end = starts[edge.source] + number
                    edges.append(DataflowEdge(end, starts[edge.target] + other, elements, tensor))
                    tensors[end, tensor] = (edge.source, edge.tensor)
    for position, operator in enumerate(operators):
        if operator.kind == "output":
            elements = sum(edge.elements for edge in edges if edge.target == position)  # parts may be rounded up
            operators[position] = replace(operator, work=Pass("output", elements))
    return Divided(DataflowGraph(graph.name, tuple(operators), tuple(edges)), tuple(origin), tensors)


def _layout(graph: DataflowGraph, position: int, ways: Ways, sources: Sequence[_Layout], tile: int) -> _Layout:
    operator = graph.operators[position]
    if isinstance(operator.work, Gemm):
        parts = _gemm_parts(operator, operator.work, ways, tile) if ways.parts > 1 else [_Part(operator, _EVERYTHING)]
        return _Layout(tuple(parts), operator.work.batch)
    batch = max((source.batch for source in sources), default=1)
    if ways.parts == 1:
        return _Layout((_Part(operator, _EVERYTHING),), batch)
    rows = operator.work.elements // operator.work.row
    regions = [_Region(rows=_share(held(number, ways.parts, rows), rows)) for number in range(ways.parts)]
    if operator.work.row == 1:
        like = (source for source in sources if len(source.parts) == ways.parts and source.batch == batch)
        regions = next(([part.region for part in source.parts] for source in like), regions)
    is_table = operator.kind in ("embedding", "embedding_backward")
    if is_table:
        regions = [
            _Region(columns=_Share(*(Fraction(each, ways.parts) for each in (n, n + 1)))) for n in range(ways.parts)
        ]
    is_own = is_table or not graph.outgoing[position]
    return _Layout(tuple(_pass_parts(operator, operator.work, regions, is_own=is_own)), batch)


def _gemm_parts(operator: DataflowOperator, gemm: Gemm, ways: Ways, tile: int) -> Iterator[_Part]:
    for number in range(ways.parts):
        batch = held(number // (ways.rows * ways.columns), ways.batches, gemm.batch)
        rows = _tiles(number // ways.columns % ways.rows, ways.rows, gemm.m, tile)
        columns = _tiles(number % ways.columns, ways.columns, gemm.n, tile)
        work = Gemm(m=rows.size, n=columns.size, k=gemm.k, batch=batch.size)
        weights = -(-operator.weight_elements * batch.size * columns.size // (gemm.batch * gemm.n))
        part = replace(operator, name=f"{operator.name}.part{number}", work=work, weight_elements=weights)
        shares = _share(batch, gemm.batch), _share(rows, gemm.m), _share(columns, gemm.n)
        yield _Part(part, _Region(_inner(shares[0], shares[1]), shares[2]), *shares)


def _pass_parts(operator: DataflowOperator, work: Pass, regions: Sequence[_Region], is_own: bool) -> Iterator[_Part]:
    """Parts that write some regions; ``is_own``: each has the weights of its region alone."""
    for number, region in enumerate(regions):
        weights = ceil(operator.weight_elements * (region.size if is_own else 1))
        part = replace(work, elements=ceil(work.elements * region.size))
        name = f"{operator.name}.part{number}"
        yield _Part(replace(operator, name=name, work=part, weight_elements=weights), region)


def _tiles(number: int, parts: int, side: int, tile: int) -> Range:
    """Rows or columns of a part: whole tiles, of which the last one may not be full."""
    own = held(number, parts, -(-side // tile))
    return Range(own.first * tile, min(side, own.end * tile))


def _share(part: Range, whole: int) -> _Share:
    return _Share(Fraction(part.first, whole), Fraction(part.end, whole))


def _inner(batch: _Share, side: _Share) -> _Share:
    """Rows or columns of some of the batch, as if they were next to each other."""
    first = batch.first + batch.size * side.first
    return _Share(first, first + batch.size * side.size)


def _wanted(graph: DataflowGraph, edge: DataflowEdge, part: _Part, source: _Layout) -> _Region:
    """The region that a part reads of an edge's tensor."""
    operator = graph.operators[edge.target]
    if not isinstance(operator.work, Gemm):
        return part.region
    is_left = graph.incoming[edge.target].index(edge) < left_operands(graph, edge.target)
    side = part.rows if is_left else part.columns
    is_whole_batch = operator.work.batch == 1
    if is_whole_batch and operator.is_backward and not operator.weight_elements:
        return _Region(columns=side)
    if operator.work.batch == source.batch:
        return _Region(rows=_inner(part.batch, side))
    return _Region(columns=side) if is_whole_batch else _Region(rows=side, columns=part.batch)
