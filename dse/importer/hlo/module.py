"""An HLO module as it was read: computations of instructions, with names in place of references.

The terms are XLA's (``xla/hlo/ir`` and "HLO semantics"): a module has computations, one of them the entry; a
computation has instructions, one of them its root; an instruction has an opcode, operands, a shape and attributes.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import NamedTuple

from hardware.inputs import fail

ELEMENT_BITS = {
    "pred": 8, "token": 0, "opaque": 0,
    "s1": 1, "u1": 1, "s2": 2, "u2": 2, "s4": 4, "u4": 4, "s8": 8, "u8": 8, "s16": 16, "u16": 16, "s32": 32,
    "u32": 32, "s64": 64, "u64": 64,
    "f16": 16, "bf16": 16, "f32": 32, "f64": 64, "c64": 64, "c128": 128,
    "f4e2m1fn": 4, "f8e3m4": 8, "f8e4m3": 8, "f8e4m3fn": 8, "f8e4m3fnuz": 8, "f8e4m3b11fnuz": 8, "f8e5m2": 8,
    "f8e5m2fnuz": 8, "f8e8m0fnu": 8,
}  # fmt: skip
"""Bits of an element of each type; of tokens and opaque values nothing is stored."""


class ArrayShape(NamedTuple):
    """Type and dimensions of an array; of a dimension of dynamic size its bound."""

    dtype: str
    dims: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole array without padding."""
        return (prod(self.dims) * ELEMENT_BITS[self.dtype] + 7) // 8


Shape = ArrayShape | tuple["Shape", ...]
"""An array, or a tuple of shapes."""


class Instruction(NamedTuple):
    """One instruction.

    Attributes:
        name: unique in the computation.
        opcode: as HLO text has it (``dot``, ``get-tuple-element``).
        shape: of its result.
        operands: names of instructions before it.
        literal: the content of its parentheses if that is not a list of operands: a parameter's number, a constant.
        attribute_text: what follows the parentheses.
        place: its place in the file: ``line 7``, ``computations.1.instructions.3``.
    """

    name: str
    opcode: str
    shape: Shape
    operands: tuple[str, ...]
    literal: str
    attribute_text: str
    place: str

    @property
    def attributes(self) -> Mapping[str, str]:
        """The attributes by name, as text; read by each call."""
        return attributes_of(self.attribute_text)

    @property
    def op_name(self) -> str:
        """What the framework calls it (``metadata``), or nothing."""
        match = _OP_NAME.search(self.attribute_text)
        return match.group(1).replace('\\"', '"').replace("\\'", "'") if match else ""


@dataclass(frozen=True)
class Computation:
    """Instructions in an order in which each follows its operands, by name."""

    name: str
    instructions: Mapping[str, Instruction]
    root: str

    @cached_property
    def parameters(self) -> Sequence[Instruction]:
        """Its parameters by their numbers."""
        parameters = [each for each in self.instructions.values() if each.opcode == "parameter"]
        return sorted(parameters, key=lambda each: int(each.literal))


@dataclass(frozen=True)
class HloModule:
    """A module: its computations by name, callees before callers; ``notes`` are what its reader assumed."""

    name: str
    computations: Mapping[str, Computation]
    entry: str
    notes: tuple[str, ...] = ()


_MAX_ELEMENTS = 2**48

MAX_DIGITS = 18
"""Of whole numbers in a text: Python refuses to read those of thousands."""

SHAPE_RULE = "the element type must be an XLA type, and sizes must be whole numbers with a product of at most 2^48"
"""Of arrays: their sizes stay far below what integers of 64 bits hold."""


def is_storable(shape: ArrayShape) -> bool:
    """Whether :data:`SHAPE_RULE` holds."""
    sizes = [max(size, 1) for size in shape.dims]
    return shape.dtype in ELEMENT_BITS and min(shape.dims, default=0) >= 0 and prod(sizes) <= _MAX_ELEMENTS


def notes_of_bounds(places: Sequence[str]) -> tuple[str, ...]:
    """What users are told where dimensions of dynamic size, at ``places``, are taken at their bounds."""
    if not places:
        return ()
    of = f"{len(places):,} arrays have" if len(places) > 1 else "An array has"
    return (f"{of} dimensions of dynamic size ({places[0]}); they are counted at their upper bounds.",)


def shape_text(shape: Shape) -> str:
    """As HLO text has it: ``f32[4,2]``, ``(f32[4], s32[])``."""
    if isinstance(shape, ArrayShape):
        return f"{shape.dtype}[{','.join(map(str, shape.dims))}]"
    return f"({', '.join(map(shape_text, shape))})"


@contextmanager
def limited_nesting(file: str) -> Iterator[None]:
    """Types inside types, or calls inside calls, deeper than Python can follow, are refused.

    Raises:
        InputError: about ``file``.
    """
    try:
        yield
    except RecursionError as error:
        raise fail(file, "", "", "types, calls or loops are nested too deeply") from error


def require_parameters(computation: Computation, file: str, place: str) -> None:
    """Raises where the parameters of ``computation`` are not numbered from 0.

    Raises:
        InputError: at ``place`` of ``file``.
    """
    numbers = [each.literal for each in computation.instructions.values() if each.opcode == "parameter"]
    if sorted(numbers) != sorted(map(str, range(len(numbers)))):
        rule = f"parameters must be numbered from 0, but the numbers are {', '.join(numbers)}"
        raise fail(file, place, computation.name, rule)


_OP_NAME = re.compile(r'op_name="((?:[^"\\]|\\.)*)"')
_KEY = re.compile(r",?\s*([\w.]+)=")
_PLAIN = re.compile(r"[^,{\"(]*")
_BRACKETS = {"{": "}", "(": ")", "[": "]"}


def attributes_of(text: str) -> dict[str, str]:
    """``, dimensions={1}, to_apply=%add`` as a dict of texts; values may hold brackets and strings."""
    attributes, position = {}, 0
    while match := _KEY.match(text, position):
        start = match.end()
        position = end_of_value(text, start)
        attributes[match.group(1)] = text[start:position].strip()
    return attributes


def end_of_value(text: str, start: int, stops: str = ",") -> int:
    """Where the value that begins at ``start`` ends: at one of ``stops`` outside brackets and strings, or at the end.

    A bracket that is never closed, or closed by none that was opened, ends it as well.
    """
    open_brackets: list[str] = []
    position = start
    while position < len(text):
        character = text[position]
        if character == '"':
            position = _end_of_string(text, position)
            continue
        if not open_brackets and character in stops:
            return position
        if character in _BRACKETS:
            open_brackets.append(_BRACKETS[character])
        elif open_brackets and character == open_brackets[-1]:
            open_brackets.pop()
        elif character in ")}]":
            return position
        position += 1
    return position


def _end_of_string(text: str, start: int) -> int:
    """The position after the string that begins with the quote at ``start``; the end where it is never closed."""
    position = start + 1
    while position < len(text) and text[position] != '"':
        position += 2 if text[position] == "\\" else 1
    return min(position + 1, len(text))
