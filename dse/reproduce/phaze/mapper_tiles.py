"""What Sunstone, the mapper of the published PHAZE tool, tries: tiles and unrollings of a matrix product.

Olyaiy et al., ISPASS 2023, as read in the source that comes with the PHAZE tool; this is an implementation of our own,
for products alone. A product has three dimensions, rows, inputs and outputs in this order; every tile divides them. A
tile grows from one by the next larger divisor of one dimension at a time, and is kept where none can grow further.
"""

import math
from collections import deque
from collections.abc import Iterable, Iterator
from functools import cache

Sizes = tuple[int, int, int]
"""Of a product or tile: rows, inputs, outputs."""

DIMENSIONS = range(3)

TENSORS = ((0, 1), (1, 2), (0, 2))
"""The dimensions of inputs, weights and outputs."""

REUSING = (2, 0, 1)
"""The dimension that a tensor does not have: a loop over it uses the tensor again."""

ONE: Sizes = (1, 1, 1)

Capacity = int | tuple[int, int, int]
"""Words of a memory that tensors share, or of one for each."""


def times(*sizes: Sizes) -> Sizes:
    """Products by dimension."""
    rows, inputs, outputs = (math.prod(column) for column in zip(*sizes, strict=True))
    return rows, inputs, outputs


def over(whole: Sizes, part: Sizes) -> Sizes:
    """``whole`` by ``part``, which divides it, by dimension."""
    rows, inputs, outputs = (size // factor for size, factor in zip(whole, part, strict=True))
    return rows, inputs, outputs


def words(tile: Sizes) -> list[int]:
    """Words of each tensor of a tile."""
    return [tile[first] * tile[second] for first, second in TENSORS]


def fits(tile: Sizes, capacity: Capacity) -> bool:
    """Whether a memory holds the tensors of a tile."""
    if isinstance(capacity, int):
        return sum(words(tile)) <= capacity
    return all(size <= room for size, room in zip(words(tile), capacity, strict=True))


@cache
def divisors(size: int) -> tuple[int, ...]:
    """In rising order."""
    small = [factor for factor in range(1, math.isqrt(size) + 1) if size % factor == 0]
    return tuple(sorted({*small, *(size // factor for factor in small)}))


def grown(tile: Sizes, whole: Sizes) -> Iterator[tuple[int, Sizes]]:
    """(dimension, tile with its next larger divisor of ``whole``), wherever there is one."""
    for dimension in DIMENSIONS:
        factors = divisors(whole[dimension])
        place = factors.index(tile[dimension]) + 1
        if place < len(factors):
            larger = list(tile)
            larger[dimension] = factors[place]
            yield dimension, (larger[0], larger[1], larger[2])


def largest_tiles(whole: Sizes, inside: Sizes, capacity: Capacity) -> list[Sizes]:
    """The tile of one, and those which, of tiles ``inside``, ``capacity`` just holds; equal ones may come twice."""
    waiting, seen, largest = deque([ONE]), set[Sizes](), [ONE]
    while waiting:
        tile = waiting.popleft()
        fitting = [larger for _, larger in grown(tile, whole) if fits(times(larger, inside), capacity)]
        for larger in fitting:
            if larger not in seen:
                seen.add(larger)
                waiting.append(larger)
        if not fitting:
            largest.append(tile)
    return [tile for tile in largest if fits(times(tile, inside), capacity)]


def largest_reusing_tiles(whole: Sizes, fixed: int, capacity: int) -> list[Sizes]:
    """As :func:`largest_tiles`, but the dimension ``fixed`` grows only where no other one can.

    A tile that was seen once, though it was not to be followed then, is never followed: so it is in the published tool.
    """
    waiting, seen, largest = deque([ONE]), set[Sizes](), list[Sizes]()
    while waiting:
        tile = waiting.popleft()
        candidates = list(grown(tile, whole))
        fitting = {dimension for dimension, larger in candidates if fits(larger, capacity)}
        followed = fitting - {fixed} or fitting
        if not fitting:
            largest.append(tile)
        for dimension, larger in candidates:
            if larger not in seen:
                seen.add(larger)
                if dimension in followed:
                    waiting.append(larger)
    return largest


def unrollings(whole: Sizes, across: int, along: int) -> list[tuple[Sizes, int]]:
    """How ``whole`` may be laid on ``across`` × ``along`` elements: (elements by dimension, tensor that is not reused).

    For each tensor, both sides take factors of the two dimensions that it has. Only where no side can be filled exactly
    with those of any tensor does the rest count: what fills a side best, and the third dimension.
    """
    for may_be_inexact in (False, True):
        laid: dict[tuple[int, Sizes], None] = {}
        for tensor, dimensions in enumerate(TENSORS):
            first = _exact(whole, across, dimensions)
            if not first and may_be_inexact:
                first = _inexact(whole, across, dimensions)
            for side in first:
                rest = over(whole, side)
                second = _exact(rest, along, dimensions) or _inexact(rest, along, dimensions)
                laid |= {(tensor, times(side, other)): None for other in second}
        if laid:
            return [(elements, tensor) for tensor, elements in laid]
    return []


def _exact(whole: Sizes, elements: int, dimensions: Iterable[int]) -> list[Sizes]:
    """Tiles of exactly ``elements``, of factors of ``dimensions``."""
    return [tile for tile in _spread(whole, elements, dimensions) if math.prod(tile) == elements]


def _inexact(whole: Sizes, elements: int, dimensions: tuple[int, int]) -> list[Sizes]:
    """Where no tile of ``dimensions`` has ``elements``: those that cannot grow, and tiles of all three dimensions."""
    full = _full(whole, elements, dimensions)
    mixed = [tile for tile in _mixed(whole, elements, dimensions) if math.prod(tile) == elements]
    fewest = min(map(math.prod, full), default=0)
    return full + (mixed or [tile for tile in _full(whole, elements, DIMENSIONS) if math.prod(tile) > fewest])


def _spread(whole: Sizes, elements: int, dimensions: Iterable[int]) -> list[Sizes]:
    """All tiles of up to ``elements``, of factors of ``dimensions``, in the order of growth."""
    allowed = set(dimensions)
    waiting, tiles = deque([ONE]), {ONE: None}
    while waiting:
        for dimension, larger in grown(waiting.popleft(), whole):
            if dimension in allowed and math.prod(larger) <= elements and larger not in tiles:
                tiles[larger] = None
                waiting.append(larger)
    return list(tiles)


def _full(whole: Sizes, elements: int, dimensions: Iterable[int]) -> list[Sizes]:
    """Those of :func:`_spread` that have ``elements`` or cannot grow."""
    allowed = set(dimensions)

    def is_full(tile: Sizes) -> bool:
        return not any(
            dimension in allowed and math.prod(larger) <= elements for dimension, larger in grown(tile, whole)
        )

    return [tile for tile in _spread(whole, elements, allowed) if math.prod(tile) == elements or is_full(tile)]


def _mixed(whole: Sizes, elements: int, dimensions: tuple[int, int]) -> list[Sizes]:
    """Tiles of all dimensions of up to ``elements``, grown so that ``dimensions`` have most of them or are used up."""
    waiting, seen, tiles = deque([ONE]), set[Sizes](), [ONE]
    while waiting:
        tile = waiting.popleft()
        if math.prod(tile) == elements:
            continue
        for _, larger in grown(tile, whole):
            if math.prod(larger) <= elements and larger not in seen:
                seen.add(larger)
                inner = math.prod(larger[dimension] for dimension in dimensions)
                if inner**2 >= math.prod(larger) or all(larger[d] == whole[d] for d in dimensions):
                    waiting.append(larger)
                    tiles.append(larger)
    return tiles
