"""Pins: layouts that a user demands of arguments, ``NAME=AXIS,-`` with an entry for each dimension."""

import re
from collections.abc import Mapping, Sequence

from dse.parallel.mesh import WHOLE, Layout, Mesh
from dse.sharding.factors import Dims
from hardware.inputs import choose, fail, nearest


def pins_of(texts: Sequence[str], names: list[str], dims: Mapping[str, Dims], mesh: Mesh) -> dict[int, Layout]:
    """The layouts of all pins, by the numbers of their arguments; an axis of one device splits nothing.

    Args:
        texts: as they are given.
        names: of the arguments of the step.
        dims: of each of them.
        mesh: whose axes they name.

    Raises:
        InputError: no such form, no such argument or axis, a dimension that does not divide, an argument pinned twice.
    """
    pins: dict[int, Layout] = {}
    for text in texts:
        number, layout = _pin(text, names, dims, mesh)
        if number in pins:
            raise fail("dse parallel", "--pin", text, f"{names[number]} must be pinned only once")
        pins[number] = layout
    return pins


def _pin(text: str, names: list[str], dims: Mapping[str, Dims], mesh: Mesh) -> tuple[int, Layout]:
    """The number of an argument and its layout."""
    name, _, spec = text.rpartition("=")
    if not name:
        rule = "must be NAME=SPEC: an argument and, for each dimension, an axis, axes joined by +, or -"
        raise fail("dse parallel", "--pin", text, rule)
    choose("dse parallel", "--pin", name, names, "argument")
    entries = spec.split(",") if spec else []
    if len(entries) != len(dims[name]):
        raise fail("dse parallel", "--pin", text, f"must have an entry for each of {len(dims[name])} dimensions")
    layout = [WHOLE] * len(mesh.axes)
    axes = [axis.name for axis in mesh.axes]
    for dim, entry in enumerate(entries):
        for axis in [] if entry.strip() == "-" else re.split(r"\+", entry.strip()):
            if axis not in axes:
                raise fail("dse parallel", "--pin", text, f"{axis} must be an axis of {mesh.text}", nearest(axis, axes))
            if layout[axes.index(axis)] != WHOLE:
                raise fail("dse parallel", "--pin", text, f"{axis} must split at most one dimension")
            if dim in layout[axes.index(axis) + 1 :]:
                rule = f"{entry.strip()} must name axes from the outermost inwards, as in {mesh.text}"
                raise fail("dse parallel", "--pin", text, rule)
            layout[axes.index(axis)] = dim
    for dim in set(layout) - {WHOLE}:
        parts, size = mesh.parts(tuple(layout), dim), dims[name][dim]
        if size % parts:
            padded = -(-size // parts) * parts
            rule = f"dimension {dim} of size {size:,} must be a multiple of {parts} (pad it to {padded:,})"
            raise fail("dse parallel", "--pin", text, rule)
    split = (dim if axis.size > 1 else WHOLE for axis, dim in zip(mesh.axes, layout, strict=True))
    return names.index(name), tuple(split)
