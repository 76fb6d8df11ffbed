"""A mesh of devices and the layouts of arrays on it.

Devices are numbered row by row: the last axis is the innermost, whose neighbours are one rank apart. A *layout* gives
for each mesh axis the dimension of the array that it splits, or :data:`WHOLE`. Where several axes split one dimension,
the first of them splits it outermost: device (i, j) of axes of sizes (m, n) holds part i · n + j.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from hardware.inputs import fail

WHOLE = -1
"""In a layout: the axis splits no dimension; every device along it holds the same."""

Layout = tuple[int, ...]

MAX_AXES = 3
MAX_DEVICES = 65_536

_AXIS = re.compile(r"([a-z_][a-z0-9_]*)=([0-9]{0,18})", re.IGNORECASE)


class Axis(NamedTuple):
    """One axis: its name, the devices along it, and how many ranks apart neighbours are."""

    name: str
    size: int
    stride: int


class Mesh(NamedTuple):
    """A mesh, from the outermost axis to the innermost."""

    axes: tuple[Axis, ...]

    @property
    def devices(self) -> int:
        """All devices."""
        return prod(axis.size for axis in self.axes)

    @property
    def whole(self) -> Layout:
        """The layout that splits nothing."""
        return (WHOLE,) * len(self.axes)

    @property
    def text(self) -> str:
        """As :func:`mesh_of` reads it."""
        return ",".join(f"{axis.name}={axis.size}" for axis in self.axes)

    def parts(self, layout: Layout, dim: int) -> int:
        """The number of parts into which ``layout`` splits ``dim``."""
        return prod(axis.size for axis, split in zip(self.axes, layout, strict=True) if split == dim)

    def shards(self, layout: Layout) -> int:
        """The number of different parts of an array."""
        return prod(axis.size for axis, split in zip(self.axes, layout, strict=True) if split != WHOLE)

    def fits(self, layout: Layout, dims: Sequence[int]) -> bool:
        """Whether every dimension is a multiple of its number of parts."""
        return all(dims[dim] % self.parts(layout, dim) == 0 for dim in set(layout) if dim != WHOLE)

    def layouts(self, dims: Sequence[int]) -> Iterator[Layout]:
        """All layouts of an array of these dimensions, the whole one first; an axis of one device splits none."""
        splits = (WHOLE, *(dim for dim, size in enumerate(dims) if size > 1))
        for layout in product(*(splits if axis.size > 1 else (WHOLE,) for axis in self.axes)):
            if self.fits(layout, dims):
                yield layout

    def spec(self, layout: Layout, rank: int) -> tuple[tuple[str, ...], ...]:
        """For each dimension the axes that split it, outermost first: a ``PartitionSpec``."""
        return tuple(
            tuple(axis.name for axis, split in zip(self.axes, layout, strict=True) if split == dim)
            for dim in range(rank)
        )


def mesh_of(text: str, file: str = "dse parallel", key: str = "--mesh") -> Mesh:
    """The mesh that ``text`` describes: ``8`` devices in a row (axis ``model``), or ``data=4,model=8``.

    Raises:
        InputError: no such form, an axis twice, more than :data:`MAX_AXES` axes or :data:`MAX_DEVICES` devices.
    """
    is_number = text.isascii() and text.isdigit()
    pairs = []
    for part in (f"model={text}" if is_number else text).split(","):
        match = _AXIS.fullmatch(part.strip())
        if match is None:
            raise fail(
                file,
                key,
                text,
                "must be a number of devices, or axes from the outermost inwards, such as data=4,model=8",
            )
        name, devices = match.groups()
        if not devices:
            raise fail(file, key, text, f"must give the number of devices along {name}, such as {name}=4")
        if int(devices) < 1:
            raise fail(file, key, text, f"must have at least one device{'' if is_number else f' along {name}'}")
        pairs.append((name, int(devices)))
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise fail(file, key, text, "must name each axis once")
    if len(pairs) > MAX_AXES or prod(size for _, size in pairs) > MAX_DEVICES:
        raise fail(file, key, text, f"must have at most {MAX_AXES} axes and {MAX_DEVICES:,} devices")
    sizes = [size for _, size in pairs]
    return Mesh(tuple(Axis(name, size, prod(sizes[place + 1 :])) for place, (name, size) in enumerate(pairs)))
