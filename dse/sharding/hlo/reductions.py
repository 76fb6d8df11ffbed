"""Reductions, windows, and operations along some dimensions alone (sorts, transforms, factorisations)."""

import re
from collections.abc import Iterator

from dse.sharding.factors import COMBINERS, Factor, Rule, Shapes
from dse.sharding.hlo.elements import everywhere, whole
from dse.sharding.hlo.moves import untouched


def reduce(shapes: Shapes) -> Iterator[Factor]:
    """Several arrays may be reduced together, each with its initial value."""
    count = len(shapes.results)
    shapes.require(len(shapes.operands) == 2 * count, "each array must have an initial value")
    along, source = shapes.integers("dimensions"), shapes.operands[0]
    shapes.require(all(each == source for each in shapes.operands[:count]), "arrays must have the same shape")
    remaining = [dim for dim in range(len(source)) if dim not in along]
    shapes.require(
        all(each == tuple(source[dim] for dim in remaining) for each in shapes.results),
        "must keep the other dimensions",
    )
    for to, dim in enumerate(remaining):
        yield Factor(source[dim], tuple((number, dim) for number in range(count)), everywhere(shapes.results, to))
    combiner = shapes.text("combiner")
    if count == 1 and combiner in COMBINERS:
        for dim in along:
            yield Factor(source[dim], ((0, dim),), (), combiner, once=(1,))


_WINDOW = re.compile(r"(\w+)=([\w\-x]+)")


def _plain_window(shapes: Shapes) -> list[bool]:
    """Whether the window moves over each dimension one by one, without looking beside."""
    rank = len(shapes.operands[0])
    window = dict(_WINDOW.findall(shapes.text("window")))
    parts = {key: value.split("x") for key, value in window.items()}
    plain = []
    for dim in range(rank):
        of = {key: part[dim] for key, part in parts.items() if dim < len(part)}
        sizes = [of.get(key, "1") == "1" for key in ("size", "stride", "lhs_dilate", "rhs_dilate")]
        plain.append(all(sizes) and set(of.get("pad", "0_0").split("_")) <= {"0"})
    return plain


def reduce_window(shapes: Shapes) -> Iterator[Factor]:
    """Dimensions over which the window moves one by one pass."""
    return untouched(shapes, _plain_window(shapes)) if len(shapes.results) == 1 else whole(shapes)


def select_and_scatter(shapes: Shapes) -> Iterator[Factor]:
    """Dimensions over which the window moves one by one pass."""
    return untouched(shapes, _plain_window(shapes), operands=(0, 1))


def across(shapes: Shapes) -> Iterator[Factor]:
    """All dimensions but the one that ``dimensions`` names (``sort``), of all arrays."""
    (along,) = shapes.integers("dimensions")
    shapes.require(len({*shapes.operands, *shapes.results}) == 1, "operands and results must have the same shape")
    for dim, size in enumerate(shapes.results[0]):
        if dim != along:
            yield Factor(size, everywhere(shapes.operands, dim), everywhere(shapes.results, dim))


def outer(inner: int) -> Rule:
    """All but the last ``inner`` dimensions, of all arrays of that rank."""

    def rule(shapes: Shapes) -> Iterator[Factor]:
        for dim, size in enumerate(shapes.results[0][: len(shapes.results[0]) - inner]):
            operands = [number for number, each in enumerate(shapes.operands) if len(each) == len(shapes.results[0])]
            yield Factor(size, tuple((number, dim) for number in operands), everywhere(shapes.results, dim))

    return rule


def fft(shapes: Shapes) -> Iterator[Factor]:
    """All but the transformed dimensions pass."""
    return iter(outer(len(shapes.integers("fft_length")))(shapes))
