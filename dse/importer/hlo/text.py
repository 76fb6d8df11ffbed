"""HLO text: what ``lowered.compiler_ir("hlo")``, ``compiled.as_text()`` and ``--xla_dump_to`` write.

The grammar is that of XLA's own parser (``xla/hlo/parser/hlo_parser.cc``). Both printed forms are read: with ``%`` and
the types of operands, and without. Layouts, tilings and comments are dropped. Reading costs time and memory linear in
the text: about 10 µs an instruction.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from dse.importer.hlo.module import (
    MAX_DIGITS,
    SHAPE_RULE,
    ArrayShape,
    Computation,
    HloModule,
    Instruction,
    Shape,
    end_of_value,
    is_storable,
    limited_nesting,
    notes_of_bounds,
    require_parameters,
    shape_text,
)
from dse.importer.hlo.tiles import require_tiles
from hardware.documents import text_of
from hardware.inputs import InputError, fail

_MODULE = re.compile(r"HloModule\s+%?([^\s,]+)")
_HEADER = re.compile(r"(ENTRY\s+)?%?([^\s(){}=]+)\s*(?:\(.*\)\s*->\s*(.*))?\{\s*$")
_NAME = re.compile(r"\s*(ROOT\s+)?%?([^\s=]+)\s+=\s+")
_ARRAY = re.compile(r"([a-z]\w*)\[([^\]]*)\](\{[^}]*\})?\s*")
_OPCODE = re.compile(r"\s*([a-zA-Z][\w\-]*)\(")
_OPERAND = re.compile(r"%([^\s,()]+)")
_COMMENT = re.compile(r"/\*.*?\*/")
_UNTYPED = re.compile(r"%?([^\s,()\[\]{}]+)\s*(?:,\s*|$)")
_TYPE_BEGINS = re.compile(r"\(|[a-z]\w*\[")
_TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")
_LITERALS = ("constant", "parameter", "iota", "infeed")
"""Opcodes whose parentheses may contain something other than operands."""


def read_hlo(path: str | Path) -> HloModule:
    """The module in a file.

    Raises:
        InputError: no HLO text, a text that is cut off, or a line that breaks a rule; with its number.
    """
    return parse_hlo(text_of(path), path)


def parse_hlo(text: str, file: str | Path) -> HloModule:
    """The module that ``text`` describes; ``file`` is what errors call it."""
    with limited_nesting(str(file)):
        require_tiles(text, str(file))
        return _Reader(text, str(file)).module()


class _Reader:
    """One pass over the lines of a module."""

    def __init__(self, text: str, file: str) -> None:
        self._lines = text.splitlines()
        self._file = file
        self._number = 0
        self._computations: dict[str, Computation] = {}
        self._bounded: list[str] = []

    def module(self) -> HloModule:
        """The whole module."""
        name, entry, table = self._module_name(), None, False
        while (line := self._next()) is not None:
            stripped = line.strip()
            if not stripped or stripped.startswith("//"):
                table = False
            elif stripped in _TABLES:
                table = True
            elif not table:
                header = _HEADER.match(stripped)
                if header is None:
                    raise self._fault(stripped, "must start a computation: NAME { or ENTRY NAME {")
                computation = self._computation(header.group(2), header.group(3) or "")
                if computation.name in self._computations:
                    raise self._fault(computation.name, "a computation with this name already exists")
                self._computations[computation.name] = computation
                entry = computation.name if header.group(1) else entry
        if entry is None:
            raise self._fault("", "the text must contain an ENTRY computation, but ends here")
        return HloModule(name, self._computations, entry, notes_of_bounds(self._bounded))

    def _module_name(self) -> str:
        while (line := self._next()) is not None:
            if match := _MODULE.match(line.strip()):
                return match.group(1)
            if line.strip() and not line.startswith("//"):
                break
        raise fail(self._file, "", "", "must be HLO text, starting with HloModule")

    def _next(self) -> str | None:
        if self._number == len(self._lines):
            return None
        self._number += 1
        return self._lines[self._number - 1]

    def _computation(self, name: str, declared: str) -> Computation:
        """The computation of this name, whose header has been read; ``declared`` is the type that it says to give."""
        instructions: dict[str, Instruction] = {}
        begin, root = self._number, None
        while (line := self._next()) is not None:
            stripped = line.strip()
            if stripped.startswith("}"):
                computation = self._closed(name, instructions, root)
                self._require_declared(computation, declared, begin)
                return computation
            if not stripped or stripped.startswith("//"):
                continue
            instruction, is_root = self._instruction(line, instructions)
            if instruction.name in instructions:
                raise self._fault(instruction.name, "an instruction with this name already exists in this computation")
            for operand in instruction.operands:
                if operand not in instructions:
                    raise self._fault(operand, "an operand must be an earlier instruction of the same computation")
            instructions[instruction.name] = instruction
            root = instruction.name if is_root else root
        raise self._fault(name, "this computation must end with a line }, but the text ends here")

    def _closed(self, name: str, instructions: dict[str, Instruction], root: str | None) -> Computation:
        if not instructions:
            raise self._fault(name, "a computation must have an instruction")
        computation = Computation(name, instructions, root or next(reversed(instructions)))
        require_parameters(computation, self._file, f"line {self._number}")
        return computation

    def _require_declared(self, computation: Computation, declared: str, line: int) -> None:
        """Raises where the header of a computation, in ``line``, says another type than its root has."""
        if not _TYPE_BEGINS.match(declared):
            return
        shape, _ = self._shape(_COMMENT.sub("", declared), 0)
        root = computation.instructions[computation.root]
        if shape != root.shape:
            rule = (
                f"must have the type of its root {root.name}, {shape_text(root.shape)}, but states {shape_text(shape)}"
            )
            raise fail(self._file, f"line {line}", computation.name, rule)

    def _instruction(self, line: str, before: Mapping[str, Instruction]) -> tuple[Instruction, bool]:
        """The instruction in ``line``, and whether it is the root; ``before`` are the earlier ones."""
        place = f"line {self._number}"
        if "/*" in line:
            line = _COMMENT.sub("", line)
        match = _NAME.match(line)
        if match is None:
            raise self._fault(line.strip(), "must be an instruction: NAME = TYPE OPCODE(OPERANDS)")
        shape, position = self._shape(line, match.end())
        if "<=" in line[match.end() : position]:
            self._note_bounds(line[match.end() : position])
        opcode = _OPCODE.match(line, position)
        if opcode is None:
            raise self._fault(line.strip(), "must be an instruction: NAME = TYPE OPCODE(OPERANDS)")
        start = opcode.end()
        end = line.find(")", start)
        if end < 0 or "(" in line[start:end] or '"' in line[start:end]:
            line, end = self._closing(line, start)
        inside = line[start:end].strip()
        literal = inside if opcode.group(1) in _LITERALS else ""
        operands = () if literal else self._operands(inside, before)
        made = Instruction(match.group(2), opcode.group(1), shape, operands, literal, line[end + 1 :], place)
        return made, match.group(1) is not None

    def _closing(self, line: str, start: int) -> tuple[str, int]:
        """The line, with those that follow where a literal runs over them, and where its parenthesis closes."""
        begin = self._number
        while (end := end_of_value(line, start, stops="")) == len(line) or line[end] != ")":
            following = self._next()
            if following is None or end < len(line):
                rule = "the parenthesis after the opcode must be closed"
                raise fail(self._file, f"line {begin}", line.strip(), rule)
            line += "\n" + following
        return line, end

    def _operands(self, inside: str, before: Mapping[str, Instruction]) -> tuple[str, ...]:
        """The names of operands; types before them must be their own."""
        if "[" not in inside:
            return tuple(_OPERAND.findall(inside)) if "%" in inside else tuple(inside.split(", ")) if inside else ()
        names, position = [], 0
        while position < len(inside):
            stated = None
            match = _UNTYPED.match(inside, position)
            if match is None:
                stated, position = self._shape(inside, position)
                match = _UNTYPED.match(inside, _skipped(inside, position))
            if match is None:
                raise self._fault(inside[position:], "must be an operand: NAME, or TYPE NAME")
            name, position = match.group(1), match.end()
            if stated is not None and name in before and stated != before[name].shape:
                shapes = shape_text(before[name].shape), shape_text(stated)
                raise self._fault(name, f"an operand must be stated with its own type, {shapes[0]}, not {shapes[1]}")
            names.append(name)
        return tuple(names)

    def _shape(self, line: str, start: int) -> tuple[Shape, int]:
        if not line.startswith("(", start):
            match = _ARRAY.match(line, start)
            if match is None:
                raise self._fault(line[start:], "must be a type: DTYPE[SIZE,…] or a tuple of types")
            return self._array(match.group(1), match.group(2)), match.end()
        parts, position = [], start + 1
        while not line.startswith(")", position):
            part, position = self._shape(line, position)
            parts.append(part)
            position = _skipped(line, position)
        return tuple(parts), position + 1

    def _array(self, dtype: str, sizes: str) -> ArrayShape:
        shape = _array_shape(dtype, sizes)
        if shape is None:
            raise self._fault(f"{dtype}[{sizes}]", SHAPE_RULE)
        return shape

    def _note_bounds(self, shapes: str) -> None:
        for match in _ARRAY.finditer(shapes):
            if "<=" in match.group(2):
                self._bounded.append(f"line {self._number}: {match.group(1)}[{match.group(2)}]")

    def _fault(self, value: str, rule: str) -> InputError:
        return fail(self._file, f"line {self._number}", value, rule)


def _skipped(line: str, position: int) -> int:
    """The position after a comma and spaces."""
    while position < len(line) and line[position] in ", ":
        position += 1
    return position


@lru_cache(maxsize=65536)
def _array_shape(dtype: str, sizes: str) -> ArrayShape | None:
    dims = [size.strip().removeprefix("<=") for size in sizes.split(",")] if sizes.strip() else []
    if not all(size.isascii() and size.isdigit() and len(size) <= MAX_DIGITS for size in dims):
        return None
    shape = ArrayShape(dtype, tuple(map(int, dims)))
    return shape if is_storable(shape) else None
