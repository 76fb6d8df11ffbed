"""Operations that move elements: broadcasts, transposes, reshapes, slices and what puts arrays together."""

import re
from collections.abc import Iterator, Sequence
from math import gcd, prod

from dse.sharding.factors import Dims, Factor, Shapes
from dse.sharding.hlo.elements import elementwise, everywhere, whole


def broadcast(shapes: Shapes) -> Iterator[Factor]:
    """Mapped dimensions pass; new ones are free."""
    (source,), (result,) = shapes.operands, shapes.results
    mapped = shapes.integers("dimensions")
    shapes.require(
        len(mapped) == len(source) and all(dim < len(result) for dim in mapped), "must map every operand dimension"
    )
    shapes.require(all(source[dim] in (1, result[to]) for dim, to in enumerate(mapped)), "mapped sizes must agree")
    for dim, size in enumerate(result):
        equal = dim in mapped and source[mapped.index(dim)] == size
        yield Factor(size, ((0, mapped.index(dim)),) if equal else (), ((0, dim),))


def transpose(shapes: Shapes) -> Iterator[Factor]:
    """Every dimension passes, to its new place."""
    (source,), (result,) = shapes.operands, shapes.results
    order = shapes.integers("dimensions")
    shapes.require(sorted(order) == list(range(len(source))), "dimensions must be a permutation")
    shapes.require(tuple(source[dim] for dim in order) == result, "the result must have the permuted sizes")
    for dim, size in enumerate(result):
        yield Factor(size, ((0, order[dim]),), ((0, dim),))


def reshape(shapes: Shapes) -> Iterator[Factor]:
    """The outermost dimensions of each pair of groups with the same product are tied."""
    (source,), (result,) = shapes.operands[:1], shapes.results
    shapes.require(prod(source) == prod(result), "a reshape must keep the number of elements")
    if not prod(source):
        return
    for dim, to, size in reshaped(source, result):
        yield Factor(size, ((0, dim),), ((0, to),))


def reshaped(source: Dims, result: Dims) -> Iterator[tuple[int, int, int]]:
    """(dimension before, dimension after, common parts) of the outermost dimensions of matching groups.

    Groups are the shortest runs of dimensions with the same product; sizes of 1 belong to none.
    """
    before = [(dim, size) for dim, size in enumerate(source) if size > 1]
    after = [(dim, size) for dim, size in enumerate(result) if size > 1]
    while before and after:
        (dim, left), (to, right) = before.pop(0), after.pop(0)
        yield dim, to, gcd(left, right)
        while left != right:
            if left < right:
                left *= before.pop(0)[1]
            else:
                right *= after.pop(0)[1]


def bitcast(shapes: Shapes) -> Iterator[Factor]:
    """What layouts say is not read: only a bitcast that keeps the dimensions is known."""
    return elementwise(shapes) if shapes.operands[0] == shapes.results[0] else whole(shapes)


def concatenate(shapes: Shapes) -> Iterator[Factor]:
    """All dimensions pass but the one along which arrays are put together."""
    (along,) = shapes.integers("dimensions")
    (result,) = shapes.results
    shapes.require(sum(each[along] for each in shapes.operands) == result[along], f"sizes along {along} must add up")
    for dim, size in enumerate(result):
        if dim == along:
            continue
        shapes.require(all(each[dim] == size for each in shapes.operands), f"sizes along {dim} must agree")
        yield Factor(size, everywhere(shapes.operands, dim), ((0, dim),))


def untouched(shapes: Shapes, untouched: Sequence[bool], operands: Sequence[int] = (0,)) -> Iterator[Factor]:
    """Dimensions that the operation leaves alone, of some operands and the result."""
    (result,) = shapes.results
    shapes.require(len(untouched) == len(result), "operand and result must have the same number of dimensions")
    for dim, size in enumerate(result):
        if untouched[dim] and all(shapes.operands[number][dim] == size for number in operands):
            yield Factor(size, tuple((number, dim) for number in operands), ((0, dim),))


def pad(shapes: Shapes) -> Iterator[Factor]:
    """Dimensions without padding pass."""
    texts = shapes.text("padding").split("x") if shapes.results[0] else []
    paddings = [[*map(int, each.split("_")), 0][:3] for each in texts]
    shapes.require(len(paddings) == len(shapes.operands[0]), "must have padding for each dimension")
    padded = tuple(
        size + low + high + between * max(0, size - 1)
        for size, (low, high, between) in zip(shapes.operands[0], paddings, strict=True)
    )
    shapes.require(padded == shapes.results[0], "the result must have the padded sizes")
    return untouched(shapes, [not any(each) for each in paddings])


_RANGE = re.compile(r"\[(-?\d+):(-?\d+)(?::(-?\d+))?\]")


def slice_(shapes: Shapes) -> Iterator[Factor]:
    """Dimensions that are taken whole pass."""
    texts = _RANGE.findall(shapes.text("slice"))
    ranges = [(int(start), int(end), int(step or 1)) for start, end, step in texts]
    sizes = shapes.operands[0]
    shapes.require(len(ranges) == len(sizes), "must have a range for each dimension")
    for (start, end, step), size in zip(ranges, sizes, strict=True):
        shapes.require(0 <= start <= end <= size and step > 0, f"{start}:{end}:{step} must be a range of {size:,}")
    taken = tuple(-(-(end - start) // step) for start, end, step in ranges)
    shapes.require(taken == shapes.results[0], "the result must have the sizes of the ranges")
    return untouched(shapes, [each == (0, size, 1) for each, size in zip(ranges, sizes, strict=True)])


def dynamic_slice(shapes: Shapes) -> Iterator[Factor]:
    """Dimensions that keep their size pass."""
    taken = shapes.integers("dynamic_slice_sizes")
    shapes.require(taken == shapes.results[0], "the result must have the sizes of the slice")
    return untouched(shapes, [True] * len(shapes.results[0]))  # sizes that stay leave nothing to move


def dynamic_update_slice(shapes: Shapes) -> Iterator[Factor]:
    """Dimensions that are updated whole pass."""
    shapes.require(shapes.operands[0] == shapes.results[0], "the result must have the shape of the updated operand")
    return untouched(shapes, [True] * len(shapes.results[0]), operands=(0, 1))


def reverse(shapes: Shapes) -> Iterator[Factor]:
    """Dimensions that are not reversed pass."""
    reversed_dims = shapes.integers("dimensions")
    shapes.require(shapes.operands[0] == shapes.results[0], "the result must have the shape of the operand")
    return untouched(shapes, [dim not in reversed_dims for dim in range(len(shapes.results[0]))])
