"""Rectangles inside each other with areas by size: the squarified layout of Bruls, Huizing and van Wijk (2000)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dse.report.chart import Tile

_TITLE, _PAD = 15.0, 1.0
"""Pixels for the name of a box, if there is room, and between boxes."""


@dataclass(frozen=True)
class Box:
    """A rectangle: of a tile, or of a box around some, whose ``tile`` is None; no label where its room is taken."""

    left: float
    top: float
    width: float
    height: float
    label: str
    text: str
    tile: Tile | None


@dataclass
class _Node:
    label: str
    size: float = 0.0
    tile: Tile | None = None
    inner: "dict[str, _Node]" = field(default_factory=dict)


def boxes_of(tiles: Sequence[Tile], left: float, top: float, width: float, height: float) -> Iterator[Box]:
    """Every box of the tiles, outer ones first."""
    root = _Node("")
    for number, tile in enumerate(tiles):
        node = root
        node.size += tile.size
        for part in tile.path[:-1]:
            node = node.inner.setdefault(part, _Node(part))
            node.size += tile.size
        # By number, as a tile may share its name with a box next to it.
        node.inner[f"{number}/{tile.path[-1]}"] = _Node(tile.path[-1], tile.size, tile)
    yield from _inside(root, left, top, width, height)


def _inside(node: _Node, left: float, top: float, width: float, height: float) -> Iterator[Box]:
    children = sorted((each for each in node.inner.values() if each.size > 0), key=lambda each: -each.size)
    for child, (x, y, wide, high) in zip(
        children, _rows([each.size for each in children], left, top, width, height), strict=True
    ):
        wide, high = max(wide - _PAD, 0.0), max(high - _PAD, 0.0)
        if child.tile is not None:
            yield Box(x, y, wide, high, child.label, child.tile.text, child.tile)
            continue
        room = high > 2 * _TITLE and wide > 2 * _TITLE
        yield Box(x, y, wide, high, child.label if room else "", child.label, None)
        title = _TITLE if room else 2.0
        yield from _inside(child, x + 2, y + title, max(wide - 4, 0.0), max(high - title - 2, 0.0))


def _rows(sizes: Sequence[float], left: float, top: float, width: float, height: float) -> Iterator[tuple[float, ...]]:
    """(left, top, width, height) of each of the sizes, which fall: rows along the shorter side, as square as can be."""
    begin, rest = 0, sum(sizes)
    while begin < len(sizes):
        if width <= 0 or height <= 0:
            yield from ((left, top, 0.0, 0.0) for _ in sizes[begin:])
            return
        side, per_size = min(width, height), width * height / rest
        end, row, worst = begin, 0.0, float("inf")
        while end < len(sizes):
            grown = row + sizes[end]
            ratios = (side**2 * each / (grown**2 * per_size) for each in (sizes[begin], sizes[end]))
            flattest = max(max(ratio, 1 / ratio) for ratio in ratios)
            if flattest > worst:
                break
            end, row, worst = end + 1, grown, flattest
        thick, along = row * per_size / side, 0.0
        for size in sizes[begin:end]:
            long = side * size / row
            yield (left, top + along, thick, long) if width >= height else (left + along, top, long, thick)
            along += long
        if width >= height:
            left, width = left + thick, width - thick
        else:
            top, height = top + thick, height - thick
        begin, rest = end, sum(sizes[end:])
