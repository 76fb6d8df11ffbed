"""Reductions, windows, and operations along some dimensions alone (sorts, transforms, factorisations)."""

from collections.abc import Iterator

from dse.sharding.factors import COMBINERS, Factor, Rule, Shapes
from dse.sharding.hlo.elements import everywhere, whole
from dse.sharding.hlo.moves import untouched
from dse.sharding.hlo.windows import require_positions, window_of


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


def reduce_window(shapes: Shapes) -> Iterator[Factor]:
    """Dimensions over which the window moves one by one pass."""
    source = shapes.operands[0]
    window = window_of(shapes, len(source))
    for result in shapes.results:
        shapes.require(len(result) == len(source), "operand and result must have the same number of dimensions")
        require_positions(shapes, window, source, result)
    return untouched(shapes, [each.is_plain for each in window]) if len(shapes.results) == 1 else whole(shapes)


def select_and_scatter(shapes: Shapes) -> Iterator[Factor]:
    """Dimensions over which the window moves one by one pass."""
    source, scattered = shapes.operands[:2]
    shapes.require(source == shapes.results[0], "the result must have the shape of the operand")
    shapes.require(len(scattered) == len(source), "operand and source must have the same number of dimensions")
    window = window_of(shapes, len(source))
    require_positions(shapes, window, source, scattered)
    return untouched(shapes, [each.is_plain for each in window], operands=(0, 1))


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
