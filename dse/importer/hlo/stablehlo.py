"""StableHLO text as an HLO module ("StableHLO specification"): what ``lowered.as_text()`` writes.

Each operation becomes the instruction of HLO that XLA makes of it, with the attributes that say how arrays hang
together. Functions and regions become computations; what a region reads from outside it is handed to it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import NamedTuple

from dse.importer.hlo.attributes import listed, metadata_text
from dse.importer.hlo.mlir import Module, Operation, Region, Value, captured, read_module, symbol_in
from dse.importer.hlo.module import (
    ArrayShape,
    Computation,
    HloModule,
    Instruction,
    Shape,
    limited_nesting,
    notes_of_bounds,
    shape_text,
)
from dse.importer.hlo.stablehlo_attributes import NUMBER, PADDING, attributes_of, integers, triples
from dse.importer.hlo.tiles import require_tiles
from hardware.inputs import fail

_OPCODES = {
    "dot_general": "dot", "broadcast_in_dim": "broadcast", "if": "conditional", "case": "conditional",
    "composite": "call", "optimization_barrier": "opt-barrier",
    "top_k": "topk",
}  # fmt: skip
"""Operations that HLO calls by another word; in all others dashes stand for underscores."""

_ANNOTATIONS = ("sdy.sharding_constraint", "sdy.propagation_barrier", "sdy.reshard", "sdy.data_flow_edge")
"""Operations that say how an array is laid out."""

_COMBINERS = ("reduce", "reduce_window", "select_and_scatter", "scatter", "all_reduce", "reduce_scatter", "map")
_MOVES = ("broadcast_in_dim", "reshape", "slice", "pad", "convert")
_RETURNS = ("stablehlo.return", "func.return", "return", "mhlo.return")
_CALLS = ("call", "func.call", "stablehlo.composite")


def parse_stablehlo(text: str, file: str) -> HloModule:
    """The module that ``text`` describes; ``file`` is what errors call it.

    Raises:
        InputError: a text that is cut off, or a line that breaks a rule; with its number.
    """
    with limited_nesting(file):
        require_tiles(text, file)
        return _Translation(read_module(text, file), file).module()


class _Block(NamedTuple):
    """A computation that grows.

    Attributes:
        name: of the computation.
        instructions: by name.
        values: name and shape of the instruction that gives each value.
        declared: the types that a function says to return; None for a region.
    """

    name: str
    instructions: dict[str, Instruction]
    values: dict[str, tuple[str, Shape]]
    declared: tuple[Shape, ...] | None = None

    def add(self, name: str, opcode: str, shape: Shape, operands: Sequence[str], text: str, place: str) -> str:
        """An instruction, under another name where there is one of this name; the name that it has."""
        unique, count = name, 1
        while unique in self.instructions:
            count += 1
            unique = f"{name}~{count}"
        literal, text = (text, "") if opcode in ("parameter", "constant") else ("", text)
        self.instructions[unique] = Instruction(unique, opcode, shape, tuple(operands), literal, text, place)
        return unique


def _reachable(instructions: Mapping[str, Instruction], root: str) -> dict[str, Instruction]:
    """What ``root`` is made of, the parameters, and what has an effect; XLA too leaves out all else."""
    needed = {root}
    for name, each in reversed(list(instructions.items())):
        if name in needed or each.opcode == "parameter" or "has_side_effect" in each.attribute_text:
            needed.update((name, *each.operands))
    return {name: each for name, each in instructions.items() if name in needed}


class _Translation:
    """The growing computations of a module."""

    def __init__(self, module: Module, file: str) -> None:
        self._module = module
        self._file = file
        self._computations: dict[str, Computation] = {}
        self._functions: dict[str, Operation] = {}
        self._open: list[str] = []
        for each in module.region.operations:
            if each.opcode == "func.func" and each.regions:
                self._functions[symbol_in(each.attributes)] = each

    def module(self) -> HloModule:
        """The whole module; its entry is the function ``main``, or the only public one."""
        public = [name for name, each in self._functions.items() if "private" not in each.attributes.partition("(")[0]]
        entry = "main" if "main" in self._functions else public[0] if len(public) == 1 else ""
        if not entry:
            raise fail(self._file, "", "", "must have a function @main")
        self._function(entry, self._functions[entry].place)
        return HloModule(self._module.name, self._computations, entry, notes_of_bounds(self._module.bounded))

    def _function(self, name: str, place: str) -> str:
        """The computation of a function, made when it is first called: callees come before callers."""
        if name not in self._functions:
            raise fail(self._file, place, f"@{name}", "must be a function in the module")
        if name in self._open:
            raise fail(self._file, place, f"@{name}", "a function must not call itself")
        if name not in self._computations:
            self._open.append(name)
            function = self._functions[name]
            self._computation(name, function.regions[0], function.results)
            self._open.pop()
        return name

    def _computation(self, name: str, region: Region, declared: tuple[Shape, ...] | None = None) -> str:
        """A computation with a parameter for each argument; ``declared`` are the types that a function returns."""
        block = _Block(name, {}, {}, declared)
        for number, each in enumerate(region.arguments):
            text = _metadata(each.label)
            block.values[each.name] = each.name, each.shape
            block.instructions[each.name] = Instruction(
                each.name, "parameter", each.shape, (), str(number), text, self._functions[name].place
                if name in self._functions else "",
            )  # fmt: skip
        return self._closed(block, region, [])

    def _from_tuple(
        self, name: str, region: Region, values: Sequence[Value], returned: Sequence[Value], place: str
    ) -> str:
        """A computation with one parameter, the tuple of ``values``; it returns those of ``returned`` as they are."""
        block = _Block(name, {}, {})
        parameter = block.add("parameter", "parameter", tuple(each.shape for each in values), (), "0", place)
        for number, each in enumerate(values):
            part = block.add(each.name, "get-tuple-element", each.shape, [parameter], f", index={number}", place)
            block.values[each.name] = part, each.shape
        return self._closed(block, region, [each.name for each in returned])

    def _closed(self, block: _Block, region: Region, passed: Sequence[str]) -> str:
        for each in region.operations:
            self._require_stated(block, each)
            if each.opcode in _RETURNS:
                names = [*each.operands, *passed]
                operands = [self._operand(block, name, each.place) for name in names]
                returned = tuple(block.values[name][1] for name in each.operands)
                if block.declared is not None and returned != block.declared:
                    shapes = shape_text(block.declared), shape_text(returned)
                    rule = f"must return what the function declares, {shapes[0]}, but returns {shapes[1]}"
                    raise fail(self._file, each.place, block.name, rule)
                root = operands[0] if operands else ""
                if len(operands) != 1:
                    shape = tuple(block.values[name][1] for name in names)
                    root = block.add("return", "tuple", shape, operands, "", each.place)
                unique = self._unique(block.name)
                self._computations[unique] = Computation(unique, _reachable(block.instructions, root), root)
                return unique
            self._operation(block, each)
        place = region.operations[-1].place if region.operations else ""
        raise fail(self._file, place, block.name, "a function or region must end with a return")

    def _unique(self, name: str) -> str:
        return name if name not in self._computations else f"{name}.{len(self._computations)}"

    def _operand(self, block: _Block, name: str, place: str) -> str:
        if name not in block.values:
            raise fail(self._file, place, f"%{name}", "an operand must be a value defined earlier")
        return block.values[name][0]

    def _require_stated(self, block: _Block, each: Operation) -> None:
        """Raises if an operand is not of the type next to it."""
        dialect, _, kind = each.opcode.rpartition(".")
        stated, count = each.stated, len(each.operands)
        if dialect == "stablehlo" and kind != "complex" and len(stated) == 1:
            stated *= count
        if kind == "select" and len(stated) < count:
            stated = (*stated[:1], *stated[1:] * (count - 1))
        if len(stated) != count:
            return  # another dialect, or a form that states types in another way
        for name, shape in zip(each.operands, stated, strict=True):
            own = block.values[name][1] if name in block.values else shape
            if own != shape:
                rule = f"an operand must be stated with its own type, {shape_text(own)}, not {shape_text(shape)}"
                raise fail(self._file, each.place, f"%{name}", rule)

    def _operation(self, block: _Block, each: Operation) -> None:
        dialect, _, kind = each.opcode.rpartition(".")
        operands = [self._operand(block, name, each.place) for name in each.operands]
        if self._is_nothing(block, each, kind):
            block.values[each.name] = operands[0], each.results[0]
            return
        if kind == "broadcast_in_dim" and len(operands) == len(each.results) == 1:
            self._broadcast(block, each, operands[0])
            return
        if kind == "while":
            self._loop(block, each, operands)
            return
        if kind in ("case", "if"):
            operands, text = self._branches(block, each, operands)
        elif each.opcode in _CALLS:
            callee = symbol_in(each.attributes.rpartition("decomposition")[2])
            text = f", to_apply={self._function(callee, each.place)}"
        else:
            shapes = [block.values[name][1] for name in each.operands]
            text = "".join(f", {key}={value}" for key, value in self._attributes(kind, each, shapes))
        opcode = _OPCODES.get(kind, kind.replace("_", "-"))
        if dialect == "chlo" and {*each.results} >= {block.values[name][1] for name in each.operands}:
            opcode = "map" if kind != "erf" else kind  # XLA takes the others apart, into elementwise operations
        if kind == "constant":
            whole = re.search(rf"dense<({NUMBER})>", each.attributes)
            text = whole.group(1) if whole else ""
        else:
            text += _metadata(each.label)
        self._finish(block, each, opcode, operands, text)

    def _is_nothing(self, block: _Block, each: Operation, kind: str) -> bool:
        """Whether an operation gives what it takes, so that XLA leaves it out."""
        if not each.operands or each.results != (block.values[each.operands[0]][1],):
            return False
        if f"{each.opcode}" in _ANNOTATIONS:
            return True
        if kind not in _MOVES:
            return False
        padded = kind == "pad" and any(any(dim) for dim in triples(each.attributes, PADDING))
        turned = integers(each.attributes, "dims", "broadcast_dimensions") or ()
        return not padded and turned == tuple(sorted(turned))

    def _broadcast(self, block: _Block, each: Operation, operand: str) -> None:
        """As XLA has it: a reshape where nothing is repeated; dimensions of size 1 that are go before."""
        source, target = block.values[each.operands[0]][1], each.results[0]
        dims = integers(each.attributes, "dims", "broadcast_dimensions") or ()
        if not isinstance(source, ArrayShape) or not isinstance(target, ArrayShape):
            raise fail(self._file, each.place, each.opcode, "must have one array as its operand and one as its result")
        if len(dims) != len(source.dims) or not all(0 <= dim < len(target.dims) for dim in dims):
            raise fail(self._file, each.place, each.opcode, "must map every dimension of the operand")
        opcode, text = "broadcast", _metadata(each.label)
        if prod(source.dims) == prod(target.dims) and dims == tuple(sorted(dims)):
            opcode = "reshape"
        else:
            matching = [place for place, dim in enumerate(dims) if source.dims[place] == target.dims[dim]]
            if len(matching) < len(dims):
                squeezed = ArrayShape(source.dtype, tuple(source.dims[place] for place in matching))
                operand = block.add(each.name, "reshape", squeezed, [operand], text, each.place)
            text = f", dimensions={listed([dims[place] for place in matching])}{text}"
        block.values[each.name] = block.add(each.name, opcode, target, [operand], text, each.place), target

    def _finish(self, block: _Block, each: Operation, opcode: str, operands: Sequence[str], text: str) -> None:
        """The instruction, and where it has several results one for each of them."""
        if opcode == "opt-barrier" and len(each.results) > 1:
            operands = [block.add(each.name, "tuple", each.results, operands, "", each.place)]
        if len(each.results) == 1:
            name = block.add(each.name, opcode, each.results[0], operands, text, each.place)
            block.values[each.name] = block.values[f"{each.name}#0"] = name, each.results[0]
            return
        name = block.add(each.name or opcode, opcode, each.results, operands, text, each.place)
        self._parts(block, each, name)

    def _parts(self, block: _Block, each: Operation, name: str) -> None:
        for number, shape in enumerate(each.results):
            text = f", index={number}"
            part = block.add(f"{each.name}.{number}", "get-tuple-element", shape, [name], text, each.place)
            block.values[f"{each.name}#{number}"] = part, shape
            if len(each.names) == len(each.results):
                block.values[each.names[number]] = part, shape

    def _loop(self, block: _Block, each: Operation, operands: list[str]) -> None:
        """A loop carries its values, and what its regions read from outside, in one tuple."""
        if len(each.regions) != 2:
            raise fail(self._file, each.place, each.opcode, "must have a condition and a body")
        condition, body = each.regions
        passed = self._passed(block, each.regions, each.place)
        if not len(condition.arguments) == len(body.arguments) == len(operands) == len(each.results):
            raise fail(self._file, each.place, each.opcode, "must have as many values as its regions have arguments")
        called = (
            self._from_tuple(f"{block.name}:condition", condition, [*condition.arguments, *passed], [], each.place),
            self._from_tuple(f"{block.name}:body", body, [*body.arguments, *passed], passed, each.place),
        )
        taken = [*operands, *(block.values[value.name][0] for value in passed)]
        shape = (*each.results, *(value.shape for value in passed))
        entering = block.add(each.name, "tuple", shape, taken, "", each.place)
        text = f", condition={called[0]}, body={called[1]}{_metadata(each.label)}"
        self._parts(block, each, block.add(each.name, "while", shape, [entering], text, each.place))

    def _branches(self, block: _Block, each: Operation, operands: list[str]) -> tuple[list[str], str]:
        """Each branch takes a tuple of what it reads from outside."""
        taken, names = operands[:1], []
        for region in each.regions:
            passed = self._passed(block, [region], each.place)
            parts = [block.values[value.name][0] for value in passed]
            shape = tuple(value.shape for value in passed)
            taken.append(block.add(each.name or "branch", "tuple", shape, parts, "", each.place))
            names.append(self._from_tuple(f"{block.name}:branch", region, passed, [], each.place))
        return taken, f", branch_computations={{{', '.join(names)}}}"

    def _passed(self, block: _Block, regions: Sequence[Region], place: str) -> list[Value]:
        """The values outside that regions read."""
        names = [name for name in captured(regions) if self._operand(block, name, place)]
        return [Value(name, block.values[name][1], "") for name in names]

    def _combiners(self, kind: str, each: Operation) -> Iterator[tuple[str, str]]:
        """What a reduction combines elements by."""
        keys = ("select", "scatter") if kind == "select_and_scatter" else ("to_apply",)
        applied = re.search(r"applies (\w+)\.(\w+)", each.attributes)
        if applied:
            yield "to_apply", self._binary(applied.group(2).replace("_", "-"), each)
        elif len(each.regions) == len(keys) and not captured(each.regions):
            for key, region in zip(keys, each.regions, strict=True):
                yield key, self._computation(self._unique(f"{kind}:{key}"), region)

    def _binary(self, opcode: str, each: Operation) -> str:
        """The computation of two scalars by one operation."""
        name, shape = f"applies:{opcode}", ArrayShape("f32", ())
        if name not in self._computations:
            block = _Block(name, {}, {})
            operands = [block.add(f"p{number}", "parameter", shape, (), str(number), each.place) for number in (0, 1)]
            root = block.add("root", opcode, shape, operands, "", each.place)
            self._computations[name] = Computation(name, block.instructions, root)
        return name

    def _attributes(self, kind: str, each: Operation, shapes: Sequence[Shape]) -> Iterator[tuple[str, str]]:
        """Attributes by HLO's names."""
        if kind in _COMBINERS:
            yield from self._combiners(kind, each)
        dims = [shape.dims if isinstance(shape, ArrayShape) else () for shape in shapes]
        yield from attributes_of(kind, each.attributes, dims)


def _metadata(label: str) -> str:
    return f", metadata={metadata_text(label)}" if label else ""
