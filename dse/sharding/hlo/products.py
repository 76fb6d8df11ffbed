"""Matrix products and convolutions."""

import re
from collections.abc import Iterator

from dse.sharding.factors import Dims, Factor, Shapes
from dse.sharding.hlo.windows import require_positions, window_of


def dot(shapes: Shapes) -> Iterator[Factor]:
    """Batch and free dimensions pass, contracted ones are summed."""
    (left, right), (result,) = shapes.operands[:2], shapes.results
    batch = shapes.integers("lhs_batch_dims"), shapes.integers("rhs_batch_dims")
    inner = shapes.integers("lhs_contracting_dims"), shapes.integers("rhs_contracting_dims")
    shapes.require(
        max((*batch[0], *inner[0], -1)) < len(left) and max((*batch[1], *inner[1], -1)) < len(right),
        "batch and contracting dimensions must be dimensions of the operands",
    )  # fmt: skip
    pairs = [*zip(*batch, strict=True), *zip(*inner, strict=True)]
    shapes.require(all(left[dim] == right[to] for dim, to in pairs), "paired dimensions must have the same size")
    free = [
        [dim for dim in range(len(dims)) if dim not in batch[side] and dim not in inner[side]]
        for side, dims in enumerate((left, right))
    ]
    expected = [left[dim] for dim in (*batch[0], *free[0])] + [right[dim] for dim in free[1]]
    shapes.require(expected == list(result), "the result must have batch, left and right dimensions")
    for position, (dim, to) in enumerate(zip(*batch, strict=True)):
        yield Factor(left[dim], ((0, dim), (1, to)), ((0, position),))
    for position, dim in enumerate(free[0], len(batch[0])):
        yield Factor(left[dim], ((0, dim),), ((0, position),))
    for position, dim in enumerate(free[1], len(batch[0]) + len(free[0])):
        yield Factor(right[dim], ((1, dim),), ((0, position),))
    for dim, to in zip(*inner, strict=True):
        yield Factor(left[dim], ((0, dim), (1, to)), (), "add")


_LABELS = re.compile(r"([\dbf?]+)_([\dio?]+)->([\dbf?]+)")


def convolution(shapes: Shapes) -> Iterator[Factor]:
    """Batch and output features pass, input features are summed; of grouped forms the groups pass."""
    (image, kernel), (result,) = shapes.operands[:2], shapes.results
    match = _LABELS.fullmatch(shapes.text("dim_labels"))
    shapes.require(match is not None, "dim_labels must name the dimensions")
    assert match is not None
    labels = match.groups()
    shapes.require(
        [len(each) for each in labels] == [len(image), len(kernel), len(result)], "dim_labels must name every dimension"
    )
    batch, features = labels[0].index("b"), labels[0].index("f")
    inputs, outputs = labels[1].index("i"), labels[1].index("o")
    out_batch, out_features = labels[2].index("b"), labels[2].index("f")
    groups, batch_groups = shapes.number("feature_group_count", 1), shapes.number("batch_group_count", 1)
    shapes.require(
        image[features] == kernel[inputs] * groups,
        "input features must be the kernel's input features times the number of groups",
    )
    shapes.require(kernel[outputs] == result[out_features], "the result must have the kernel's output features")
    shapes.require(
        image[batch] == result[out_batch] * batch_groups,
        "the batch must be the result's batch times the number of groups",
    )
    _require_window(shapes, labels)
    if batch_groups == 1:
        yield Factor(image[batch], ((0, batch),), ((0, out_batch),))
    if groups == batch_groups == 1:
        yield Factor(kernel[outputs], ((1, outputs),), ((0, out_features),))
    if groups > 1:
        yield Factor(groups, ((0, features), (1, outputs)), ((0, out_features),))
    else:
        yield Factor(image[features], ((0, features), (1, inputs)), (), "add")
    if batch_groups > 1:
        yield Factor(batch_groups, ((0, batch), (1, outputs)), ((0, out_features),))


def _require_window(shapes: Shapes, labels: tuple[str, ...]) -> None:
    """Raises where the spatial dimensions of the operands and of the result do not agree with the window."""
    image, kernel, result = (
        _spatial(dims, label) for dims, label in zip((*shapes.operands[:2], *shapes.results), labels, strict=True)
    )
    shapes.require(
        len(image) == len(kernel) == len(result), "operands and result must have the same spatial dimensions"
    )
    window = window_of(shapes, len(image))
    sizes = tuple(each.size for each in window)
    shapes.require(sizes == kernel, f"the window must have the kernel's sizes {list(kernel)}, but has {list(sizes)}")
    require_positions(shapes, window, image, result)


def _spatial(dims: Dims, label: str) -> Dims:
    """The sizes of the spatial dimensions, in the order of their numbers."""
    return tuple(dims[label.index(each)] for each in sorted(filter(str.isdecimal, label)))
