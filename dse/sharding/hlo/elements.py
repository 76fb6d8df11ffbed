"""Operations that treat every element alone, or make elements out of nothing."""

from collections.abc import Iterator, Sequence

from dse.sharding.factors import Dims, Factor, Place, Shapes


def elementwise(shapes: Shapes) -> Iterator[Factor]:
    """Every dimension passes, through all arrays of the result's shape."""
    (dims,) = set(shapes.results) if len(set(shapes.results)) == 1 else (None,)
    shapes.require(dims is not None, "results must have the same dimensions")
    assert dims is not None
    arrays = [number for number, each in enumerate(shapes.operands) if each or not dims]
    shapes.require(all(shapes.operands[number] == dims for number in arrays), "operands must have the result's shape")
    for dim, size in enumerate(dims):
        yield Factor(size, tuple((number, dim) for number in arrays), everywhere(shapes.results, dim))


def free(shapes: Shapes) -> Iterator[Factor]:
    """Constants and the like: any device makes any part."""
    for number, dims in enumerate(shapes.results):
        for dim, size in enumerate(dims):
            yield Factor(size, (), ((number, dim),))


def whole(shapes: Shapes) -> Iterator[Factor]:
    """No dimension can be cut."""
    del shapes
    return iter(())


def everywhere(arrays: Sequence[Dims], dim: int) -> tuple[Place, ...]:
    """``dim`` of each array."""
    return tuple((number, dim) for number in range(len(arrays)))
