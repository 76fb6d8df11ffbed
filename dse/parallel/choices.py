"""The choices of one operation on a mesh, and the layouts that each makes.

A choice cuts on each axis one factor, or none. A factor that is cut on several axes is cut into as many parts as all of
them have devices. Where a reduced factor is cut, the choice also says how the terms are joined: by an all-reduce, after
which every device along the axis has the whole sum, or by a reduce-scatter along a dimension of the result, after which
each has its part of it (only for sums, and only where the operation has one result).

With F factors and D dimensions of the result, there are at most (1 + F + D) choices for an axis, and their product for
a mesh: some 7 for a matrix product on one axis. An axis of one device cuts nothing.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import product
from math import prod
from typing import NamedTuple

from dse.parallel.mesh import WHOLE, Layout, Mesh
from dse.sharding.factors import Dims, Factor, Place

NONE = -1
"""No factor is cut."""

ALL_REDUCE = -1
"""Terms are joined on every device."""


class Cut(NamedTuple):
    """What one axis cuts: the number of a factor, and, where it is reduced, the dimension along which the terms are
    scattered, or :data:`ALL_REDUCE`.
    """

    factor: int = NONE
    scattered: int = ALL_REDUCE


Choice = tuple[Cut, ...]
"""One :class:`Cut` for each axis of the mesh."""


class Layouts(NamedTuple):
    """What a choice makes of an operation's arrays.

    Attributes:
        operands, results: the layouts that it takes and leaves.
        before: those of the results before their terms are joined, WHOLE along the axes of reduced factors.
    """

    operands: tuple[Layout, ...]
    results: tuple[Layout, ...]
    before: tuple[Layout, ...]


def choices_of(factors: Sequence[Factor], results: Sequence[Dims], mesh: Mesh) -> list[Choice]:
    """All choices of an operation with these factors, the one that cuts nothing first."""
    return list(_choices(tuple(factors), tuple(results), mesh))


@lru_cache(maxsize=100_000)
def _choices(factors: tuple[Factor, ...], results: tuple[Dims, ...], mesh: Mesh) -> tuple[Choice, ...]:
    cuts = [Cut()]
    for number, factor in enumerate(factors):
        if _repeats(factor.operands) or _repeats(factor.results):
            continue  # an array cannot be split along two of its dimensions by one axis
        cuts.append(Cut(number))
        if factor.combiner == "add" and len(results) == 1:
            cuts += [Cut(number, dim) for dim, size in enumerate(results[0]) if size > 1]
    every = product(*(cuts if axis.size > 1 else cuts[:1] for axis in mesh.axes))
    return tuple(choice for choice in every if _is_possible(choice, factors, results, mesh))


def _repeats(places: Sequence[Place]) -> bool:
    return len({array for array, _ in places}) < len(places)


def _is_possible(choice: Choice, factors: Sequence[Factor], results: Sequence[Dims], mesh: Mesh) -> bool:
    """Whether sizes divide, terms are joined in one way for each factor, and parts are scattered innermost."""
    for number in {cut.factor for cut in choice} - {NONE}:
        parts = prod(axis.size for axis, cut in zip(mesh.axes, choice, strict=True) if cut.factor == number)
        if factors[number].size % parts:
            return False
    made = layouts_of(choice, factors, 0, len(results))
    if not all(mesh.fits(layout, dims) for layout, dims in zip(made.results, results, strict=True)):
        return False
    for axis, cut in enumerate(choice):
        if cut.scattered != ALL_REDUCE and any(before == cut.scattered for before in made.before[0][axis + 1 :]):
            return False  # the part that this axis makes would lie outside of that of a later axis
    return True


def layouts_of(choice: Choice, factors: Sequence[Factor], operands: int, results: int) -> Layouts:
    """The layouts of so many operands and results under ``choice``."""
    taken = tuple(_layout(choice, [factor.operands for factor in factors], array) for array in range(operands))
    before = tuple(_layout(choice, [factor.results for factor in factors], array) for array in range(results))
    left = tuple(
        tuple(
            cut.scattered if split == WHOLE and cut.scattered != ALL_REDUCE else split
            for cut, split in zip(choice, layout, strict=True)
        )
        for layout in before
    )
    return Layouts(taken, left, before)


def _layout(choice: Choice, places: Sequence[Sequence[Place]], array: int) -> Layout:
    """The dimension of ``array`` that each axis splits."""
    return tuple(
        WHOLE if cut.factor == NONE else next((dim for number, dim in places[cut.factor] if number == array), WHOLE)
        for cut in choice
    )


def parts_of(choice: Choice, mesh: Mesh) -> int:
    """Into how many parts the work of an operation is cut."""
    return prod(axis.size for axis, cut in zip(mesh.axes, choice, strict=True) if cut.factor != NONE)


def joined(choice: Choice, factors: Sequence[Factor]) -> Iterator[tuple[int, Cut]]:
    """(axis, cut) of each cut of a reduced factor."""
    for axis, cut in enumerate(choice):
        if cut.factor != NONE and factors[cut.factor].combiner:
            yield axis, cut
