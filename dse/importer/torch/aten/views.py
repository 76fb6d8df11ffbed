"""Views that are not written out: dimensions in another order, merged, or taken apart again.

PyTorch folds the leading dimensions of an array into one before a matrix product and unfolds them behind it; HLO's
``dot`` takes any number of batch, free and contracted dimensions in any order. So views are kept as a note on the array
that they are of, and most of them end in the attributes of a product.
"""

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

Dims = tuple[int, ...]
Group = tuple[int, ...]


class View(NamedTuple):
    """A value as an operator sees it.

    Attributes:
        value: its position in the step graph.
        groups: for each dimension of the view the dimensions of the value that it runs over, outermost first. Those of
            size 1 are in no group.
    """

    value: int
    groups: tuple[Group, ...]

    @property
    def order(self) -> Group:
        """The dimensions of the value, as the view runs over them."""
        return tuple(dim for group in self.groups for dim in group)


def plain(value: int, dims: Dims) -> View:
    """The value as it is."""
    return View(value, tuple((dim,) if size != 1 else () for dim, size in enumerate(dims)))


def shape_of(view: View, dims: Dims) -> Dims:
    """The dimensions of a view of a value of ``dims``."""
    return tuple(prod(dims[dim] for dim in group) for group in view.groups)


def reshaped(view: View, dims: Dims, shape: Sequence[int]) -> View | None:
    """The view in another shape; None where that cuts a dimension of the value."""
    if 0 in shape:
        return None
    waiting = list(view.order)
    groups: list[Group] = []
    for size in shape:
        group: list[int] = []
        while prod(dims[dim] for dim in group) < size and waiting:
            group.append(waiting.pop(0))
        if prod(dims[dim] for dim in group) != size:
            return None
        groups.append(tuple(group))
    return None if waiting else View(view.value, tuple(groups))


def permuted(view: View, order: Sequence[int]) -> View:
    """The dimensions of the view in another order."""
    return View(view.value, tuple(view.groups[dim] for dim in order))


def permutation(view: View, dims: Dims) -> Dims:
    """The order of the value's dimensions that comes nearest to the view: those of size 1 where the view has some."""
    ones = [dim for dim, size in enumerate(dims) if size == 1]
    order: list[int] = []
    for group in view.groups:
        order += group or ones[:1]
        ones = ones if group else ones[1:]
    return (*order, *ones)
