"""MLIR text as a tree: operations with their operands, the text of their attributes, their types and their regions.

Both printed forms are read, the pretty one of StableHLO and the generic one (``"stablehlo.add"(%0, %1) : …``), with and
without locations ("MLIR language reference"). An operation is on one line, except for its regions.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from dse.importer.hlo.module import MAX_DIGITS, SHAPE_RULE, ArrayShape, Shape, is_storable
from hardware.inputs import InputError, fail


class Value(NamedTuple):
    """An argument of a region: its name without ``%``, its type, what its location calls it."""

    name: str
    shape: Shape
    label: str


class Operation(NamedTuple):
    """One operation.

    Attributes:
        names: of its results, without ``%``: one for all of them, or one for each; none where it has no result.
        opcode: with its dialect (``stablehlo.add``).
        operands: names of values, of several results of one operation as ``4#2``.
        attributes: the text between opcode and types; strings are in it unchanged.
        results: types; of a function those that it declares.
        stated: the types next to the operands: one for each of them, or one for all, or fewer.
        regions: in order.
        label: what its location calls it.
        place: its line.
    """

    names: tuple[str, ...]
    opcode: str
    operands: tuple[str, ...]
    attributes: str
    results: tuple[Shape, ...]
    stated: tuple[Shape, ...]
    regions: tuple["Region", ...]
    label: str
    place: str

    @property
    def name(self) -> str:
        """The first of its names; empty where it has none."""
        return self.names[0] if self.names else ""


class Region(NamedTuple):
    """Operations of one block, and its arguments."""

    arguments: tuple[Value, ...]
    operations: tuple[Operation, ...]


_RESULTS = re.compile(r'((?:%[^\s,=]+(?:, )?)+) = (?=[\w"])')
_OPCODE = re.compile(r'"?([a-zA-Z_][\w.$]*)"?')
_ARGUMENT = re.compile(r"%([\w$.\-]+): ")
_VALUE = re.compile(r"%([\w$.\-]+(?:#\d+)?)")
_NAME = re.compile(r"%([\w$.\-]+)")
_ASSIGNED = re.compile(r"%[\w$.\-]+ = %([\w$.\-]+(?:#\d+)?)")
_NAMED = re.compile(r"%([\w$.\-]+) = %")
_REDUCED = re.compile(r"%([\w$.\-]+(?:#\d+)?) init: %([\w$.\-]+(?:#\d+)?)")
_SYMBOL = re.compile(r'@([\w$.\-]+)|@"([^"]*)"|(?:sym_name|call_target_name) = "([^"]*)"')
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_ALIAS = re.compile(r"(#loc\d*) = loc\((.*)\)$")
_TYPE = re.compile(r"tensor<((?:[^<>]|<[^<>]*>)*)>|![\w.]*token")
_TENSOR = re.compile(r"((?:[\d?]+x)*)([a-zA-Z]\w*(?:<\w+>)?)(?:,.*)?$")
_TYPES = {"i1": "pred", "index": "s64", "complex<f32>": "c64", "complex<f64>": "c128"}
_BOUNDS = re.compile(r"bounds(?:<| = \[)([^\]>]*)")
_INTEGER = re.compile(r"(u?)i(\d+)$")
_MAX_NESTING = 200


class Module(NamedTuple):
    """A module: its name, its operations (functions), and where arrays of dynamic size are taken at their bounds."""

    name: str
    region: Region
    bounded: tuple[str, ...]


def read_module(text: str, file: str) -> Module:
    """The module that ``text`` is; ``file`` is what errors call it.

    Raises:
        InputError: a text that is cut off, or a line that is not an operation; with its number.
    """
    reader = _Reader(text, file)
    name, region = reader.module()
    return Module(name, region, tuple(reader.bounded))


class _Reader:
    """One pass over the lines."""

    def __init__(self, text: str, file: str) -> None:
        self._lines = text.splitlines()
        self._file = file
        self._number = 0
        self._nesting = 0
        self.bounded: list[str] = []
        aliases = [match for line in self._lines if line.startswith("#loc") and (match := _ALIAS.match(line))]
        self._aliases: Mapping[str, str] = {match.group(1): match.group(2) for match in aliases}

    def module(self) -> tuple[str, Region]:
        """The whole module."""
        while (line := self._next()) is not None:
            if line.startswith(("module", '"builtin.module"')):
                region, _ = self._region(())
                return symbol_in(line) or "module", region
            if not line.startswith(("#", "!")):
                break
        raise fail(self._file, "", "", "must be an MLIR module, starting with a line module @NAME {")

    def _next(self) -> str | None:
        """The next line that holds anything, without blanks around it."""
        while self._number < len(self._lines):
            self._number += 1
            line = self._lines[self._number - 1].strip()
            if line and not line.startswith("//"):
                return line
        return None

    def _region(self, arguments: tuple[Value, ...]) -> tuple[Region, str]:
        """A region whose opening line has been read, and the line that closes it."""
        self._nesting += 1
        if self._nesting > _MAX_NESTING:
            raise self._fault("", f"regions must be nested at most {_MAX_NESTING} deep")
        operations: list[Operation] = []
        while (line := self._next()) is not None:
            if line.startswith("}"):
                self._nesting -= 1
                return Region(arguments, tuple(operations)), line
            if line.startswith("^"):
                if operations:
                    raise self._fault(line, "a region must have exactly one block")
                arguments = self._arguments(line)
            else:
                operations.append(self._operation(line))
        raise self._fault("", "every brace must be closed, but the text ends here")

    def _operation(self, line: str) -> Operation:
        place = f"line {self._number}"
        results = _RESULTS.match(line)
        start = results.end() if results else 0
        opcode = _OPCODE.match(line, start)
        if opcode is None:
            raise self._fault(line, "must be an operation: %NAME = OPCODE OPERANDS : TYPES")
        head, label = self._located(line)
        regions, closing = self._regions(opcode.group(1), line)
        signature = closing if line.endswith("{") else head
        if closing:
            signature, label = self._located(signature)[0], self._located(closing)[1]
        inside = head[opcode.end() :] if line.endswith("{") else head[opcode.end() :].rpartition(" : ")[0]
        inside = inside or head[opcode.end() :]
        stated, shapes = self._types(opcode.group(1), inside, signature, results is not None)
        if named := _NAMED.findall(inside) if opcode.group(1) == "stablehlo.while" else ():
            arguments = tuple(Value(name, shape, "") for name, shape in zip(named, shapes, strict=False))
            regions = tuple(region._replace(arguments=arguments) for region in regions)
        return Operation(
            tuple(_NAME.findall(results.group(1))) if results else (),
            opcode.group(1),
            _operands(opcode.group(1), inside),
            inside,
            shapes,
            stated,
            regions,
            label,
            place,
        )

    def _regions(self, opcode: str, line: str) -> tuple[tuple[Region, ...], str]:
        """The regions that begin in ``line``, or in the line after it, and the line that closes the last of them."""
        following = self._lines[self._number].strip() if self._number < len(self._lines) else ""
        if not line.endswith("{"):
            if not (following.startswith(("cond {", "reducer(")) and following.endswith("{")):
                return (), ""
            self._number += 1
            line = following
        is_function = opcode == "func.func" and not line.startswith('"')
        arguments = self._arguments(line) if is_function or line.startswith("reducer(") else ()
        regions: list[Region] = []
        closing = line
        while closing.endswith("{"):
            region, closing = self._region(arguments if not regions else ())
            regions.append(region)
        return tuple(regions), closing

    def _arguments(self, line: str) -> tuple[Value, ...]:
        starts = list(_ARGUMENT.finditer(line))
        ends = [*(match.start() for match in starts), len(line)][1:]
        arguments = []
        for match, end in zip(starts, ends, strict=True):
            text = line[match.end() : end]
            located = re.search(r" loc\((.*)\)", text.partition(") ->")[0])
            kind = _TYPE.match(text)
            if kind is None:
                raise self._fault(text, _TYPE_RULE)
            label = self._label(located.group(1)) if located else ""
            arguments.append(Value(match.group(1), self._counted(kind), label))
        return tuple(arguments)

    def _types(
        self, opcode: str, inside: str, line: str, has_results: bool
    ) -> tuple[tuple[Shape, ...], tuple[Shape, ...]]:
        """The types next to the operands, and those of the results: of a function those that it declares.

        They are on both sides of an arrow. Without one they are stated once, those of choices with that of their
        condition before them.
        """
        is_function = opcode == "func.func"
        signature = _STRING.sub("", inside) if is_function else line.rpartition(" : ")[2]
        before, arrow, after = signature.rpartition("->")
        kinds = list(_TYPE.finditer(after))
        stated = tuple(self._shape(kind) for kind in (_TYPE.finditer(before) if arrow else kinds))
        if is_function and not arrow:
            return (), ()
        if not has_results and not is_function:
            return stated, ()
        results = kinds if arrow or opcode in _GIVING_ALL else kinds[-1:]
        if not results:
            raise self._fault(signature, _TYPE_RULE)
        return stated, tuple(self._counted(kind) for kind in results) if has_results else tuple(
            map(self._shape, results)
        )

    def _counted(self, kind: re.Match[str]) -> Shape:
        """The type of an array that the module makes; one of dynamic size is noted."""
        if "?" in kind.group().partition(",")[0]:
            self.bounded.append(f"line {self._number}: {kind.group()}")
        return self._shape(kind)

    def _shape(self, kind: re.Match[str]) -> Shape:
        if kind.group(1) is None:
            return ArrayShape("token", ())
        tensor = _TENSOR.match(kind.group(1))
        if tensor is None:
            raise self._fault(kind.group(), _TYPE_RULE)
        name, sizes = tensor.group(2), tensor.group(1).split("x")[:-1]
        if "?" in sizes:
            sizes = _bounds(kind.group(), sizes)
        integer = _INTEGER.match(name)
        dtype = f"{'u' if integer.group(1) else 's'}{integer.group(2)}" if integer else name.lower()
        if not all(size.isascii() and size.isdigit() and len(size) <= MAX_DIGITS for size in sizes):
            raise self._fault(kind.group(), "sizes must be numbers or have bounds; lower the step with fixed shapes")
        shape = ArrayShape(_TYPES.get(name, dtype), tuple(map(int, sizes)))
        if not is_storable(shape):
            raise self._fault(kind.group(), SHAPE_RULE)
        return shape

    def _located(self, line: str) -> tuple[str, str]:
        """The line without its location, and what that calls the operation."""
        start = line.rfind(" loc(") if line.endswith(")") else -1
        return (line[:start], self._label(line[start + len(" loc(") : -1])) if start >= 0 else (line, "")

    def _label(self, location: str) -> str:
        """The name in a location; a place in a file (``"step.py":3:4``) is none."""
        text = self._aliases.get(location, location)
        match = _STRING.match(text)
        if match is None or text[match.end() : match.end() + 1] == ":":
            return ""
        return match.group()[1:-1].replace('\\"', '"').removesuffix(":")

    def _fault(self, value: str, rule: str) -> InputError:
        return fail(self._file, f"line {self._number}", value, rule)


_GIVING_ALL = ("stablehlo.while", "stablehlo.optimization_barrier")
"""Operations that give what they take, so that the types are stated once."""


def _bounds(text: str, sizes: list[str]) -> list[str]:
    """Sizes with their bounds in place of those that are not known."""
    match = _BOUNDS.search(text)
    bounds = [bound.strip() for bound in match.group(1).split(",")] if match else []
    if len(bounds) != len(sizes):
        return sizes
    return [bound if size == "?" else size for size, bound in zip(sizes, bounds, strict=True)]


_TYPE_RULE = "must have a type: tensor<SIZExSIZEx…xTYPE>"


def _operands(opcode: str, text: str) -> tuple[str, ...]:
    """Names of operands in HLO's order."""
    text = _STRING.sub("", text)
    if opcode == "stablehlo.while" and (assigned := _ASSIGNED.findall(text)):
        return tuple(assigned)
    if opcode == "stablehlo.reduce" and (pairs := _REDUCED.findall(text)):
        return (*(operand for operand, _ in pairs), *(initial for _, initial in pairs))
    return tuple(_VALUE.findall(text))


def symbol_in(text: str) -> str:
    """The first name of a function or a module in ``text``: ``@main``, ``@"<lambda>"``, ``sym_name = "main"``."""
    match = _SYMBOL.search(text)
    return next((name for name in match.groups() if name is not None), "") if match else ""


def captured(regions: Sequence[Region]) -> list[str]:
    """Names of values that regions read and that are defined outside them, each once, in order."""
    return list(dict.fromkeys(name for region in regions for name in _read(region)))


def _read(region: Region) -> Iterator[str]:
    known = {each.name for each in region.arguments}
    for each in region.operations:
        for name in (*each.operands, *captured(each.regions)):
            if name.partition("#")[0] not in known:
                yield name
        known.update(each.names)
