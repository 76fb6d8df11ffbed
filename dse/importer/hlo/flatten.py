"""From an HLO module to a step graph: calls and fusions inlined at each site, tuples resolved, loops opened.

Costs time and memory linear in the operations after inlining.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from dse.graph.step import Attribute, StepGraph, StepOperation, StepValue
from dse.importer.hlo.attributes import names_in, value_of
from dse.importer.hlo.custom_calls import is_annotation, product_attributes
from dse.importer.hlo.element_types import types_agree
from dse.importer.hlo.loops import passes_of
from dse.importer.hlo.module import (
    MAX_DIGITS,
    ArrayShape,
    Computation,
    HloModule,
    Instruction,
    Shape,
    limited_nesting,
    shape_text,
)
from dse.importer.hlo.roles import arguments_of
from hardware.inputs import Fault, InputError, fail

Tree = Any
"""A position in the values, or a tuple of trees: what an instruction results in."""

MAX_OPERATIONS = 4_000_000
"""Operations after inlining; calls inside calls could otherwise grow without end."""

_INLINED = {"call": "to_apply", "fusion": "calls", "async": "calls"}
_GIVING = ("opt-barrier", "optimization-barrier", "add-dependency", "domain", "set-dimension-size")
"""Opcodes that give their first operand, or say of it what no plan depends on."""

_STARTED = {"all-reduce": None, "copy": 0}
"""Of an asynchronous operation where in the shape of its start its result stands; None where it is all of that. All
others have it behind their operands.
"""

_TAKING = ("get-tuple-element", *_GIVING, "while", "conditional")
_FREE = ("constant", "iota")
_COMBINED = ("reduce", "reduce-window", "select-and-scatter", "scatter", "all-reduce", "reduce-scatter", "map")
_NO_OPERATION = ("after-all", "partition-id", "replica-id")
_RANDOM = ("rng", "rng-bit-generator", "rng-get-and-update-state")
_ATTRIBUTES = frozenset((
    "dimensions", "lhs_batch_dims", "rhs_batch_dims", "lhs_contracting_dims", "rhs_contracting_dims", "window",
    "dim_labels", "feature_group_count", "batch_group_count", "padding", "slice", "dynamic_slice_sizes", "fft_length",
    "iota_dimension", "custom_call_target", "operand_precision", "algorithm", "lhs_ragged_dims",
    "offset_dims", "collapsed_slice_dims", "start_index_map", "operand_batching_dims", "start_indices_batching_dims",
    "index_vector_dim", "slice_sizes", "update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims",
    "input_batching_dims", "scatter_indices_batching_dims",
))  # fmt: skip
"""Attributes that say how an operation's arrays hang together; all others say what it computes, or how fast."""


def step_graph(module: HloModule, file: str | Path) -> StepGraph:
    """The step that the entry computation of ``module`` is.

    Args:
        module: as it was read.
        file: what errors call it.

    Raises:
        UnfinishedStepError: a call of a computation that is not before its caller, parts of a tuple that it
            does not have, types that disagree, more than :data:`MAX_OPERATIONS`, or calls nested too deeply.
    """
    flattening = _Flattening(module, str(file))
    try:
        with limited_nesting(str(file)):
            return flattening.graph()
    except InputError as error:
        raise UnfinishedStepError(error.faults, flattening.before()) from error


class UnfinishedStepError(InputError):
    """What is wrong with a module, and the step ``before`` it: an operation there may be at fault already."""

    def __init__(self, faults: Iterable[Fault], before: StepGraph) -> None:
        super().__init__(faults)
        self.before = before


class _Flattening:
    """The growing lists of a step graph."""

    def __init__(self, module: HloModule, file: str) -> None:
        self._module = module
        self._file = file
        self._place = {name: position for position, name in enumerate(module.computations)}
        self._values: list[StepValue] = []
        self._operations: list[StepOperation] = []
        self._places: list[str] = []
        self._notes = list(module.notes)
        self._names: dict[str, int] = {}
        self._parsed: dict[str, dict[str, Attribute]] = {}
        instructions = (each for one in module.computations.values() for each in one.instructions.values())
        self._is_optimised = any(each.opcode == "fusion" for each in instructions)
        self._kernels = count()
        self._fusion: int | None = None

    def graph(self) -> StepGraph:
        """The whole step."""
        entry = self._module.computations[self._module.entry]
        trees = [self._new(each.shape, each.name) for each in entry.parameters]
        named = [(each.op_name or each.name, tree) for each, tree in zip(entry.parameters, trees, strict=True)]
        root = self._inline(entry, trees, "", 1)
        results = tuple(_leaves(root))
        arguments = arguments_of(
            [(f"{name}[{part}]" if isinstance(tree, tuple) else name, leaf)
             for name, tree in named for part, leaf in enumerate(_leaves(tree))],
            self._values, self._operations, results,
        )  # fmt: skip
        return StepGraph(
            self._module.name, tuple(self._values), tuple(self._operations), arguments, results, tuple(self._notes),
            places=tuple(self._places),
        )  # fmt: skip

    def before(self) -> StepGraph:
        """The operations that have been read, without arguments and results."""
        return StepGraph(
            self._module.name, tuple(self._values), tuple(self._operations), (), (), places=tuple(self._places)
        )

    def _new(self, shape: Shape, name: str, *, constant: bool = False) -> Tree:
        """New values of ``shape``."""
        if not isinstance(shape, ArrayShape):
            return tuple(self._new(part, f"{name}.{number}", constant=constant) for number, part in enumerate(shape))
        count = self._names[name] = self._names.get(name, 0) + 1
        unique = name if count == 1 else f"{name}~{count}"
        self._values.append(StepValue(unique, shape.dims, shape.dtype, shape.size_bytes, constant))
        return len(self._values) - 1

    def _inline(self, computation: Computation, arguments: Sequence[Tree], scope: str, repeats: int) -> Tree:
        """The root of ``computation`` with ``arguments`` in place of its parameters."""
        trees: dict[str, Tree] = {}
        for each in computation.instructions.values():
            if each.opcode == "parameter":
                if int(each.literal) >= len(arguments):
                    raise self._fault(each, "a call must have one operand for every parameter")
                tree = arguments[int(each.literal)]
            else:
                operands = [trees[name] for name in each.operands]
                tree = self._result(each, operands, computation, scope, repeats)
            if not each.opcode.endswith(("-start", "-update")):  # their shapes hold more than what is computed
                self._require_shape(each, tree)
            trees[each.name] = tree
        return trees[computation.root]

    def _result(
        self, each: Instruction, operands: Sequence[Tree], caller: Computation, scope: str, repeats: int
    ) -> Tree:
        if not operands and (each.opcode in _TAKING or is_finish(each.opcode)):
            raise self._fault(each, f"{each.opcode} must have an operand")
        if each.opcode.endswith("-start"):
            return self._started(each, operands, caller, scope, repeats)
        if is_finish(each.opcode):
            return operands[0]
        if is_annotation(each) and operands:
            return self._annotated(each, operands[0], scope, repeats)
        match each.opcode:
            case "tuple":
                return tuple(operands)
            case "get-tuple-element":
                return self._part(each, operands[0])
            case opcode if opcode in _GIVING:
                return operands[0]
            case "call" | "fusion":
                return self._called(each, each.opcode, operands, caller, scope, repeats)
            case "while":
                return self._loop(each, operands[0], caller, scope, repeats)
            case "conditional":
                return self._branches(each, operands, caller, scope, repeats)
        return self._operation(each, operands, scope, repeats)

    def _called(
        self, each: Instruction, opcode: str, operands: Sequence[Tree], caller: Computation, scope: str, repeats: int
    ) -> Tree:
        callee = self._callee(each, _INLINED[opcode], caller)
        outer = self._fusion
        if opcode == "fusion" and outer is None:
            self._fusion = next(self._kernels)
        root = self._inline(callee, operands, _label(scope, each.op_name), repeats)
        self._fusion = outer
        return root

    def _started(
        self, each: Instruction, operands: Sequence[Tree], caller: Computation, scope: str, repeats: int
    ) -> Tree:
        """What an asynchronous operation results in: it is done where it starts (``call-start``, ``copy-start``)."""
        opcode = each.opcode.removesuffix("-start")
        if opcode in _INLINED:
            return self._called(each, opcode, operands, caller, scope, repeats)
        place = _STARTED.get(opcode, 1)
        shape = each.shape
        if place is not None:
            if isinstance(shape, ArrayShape) or len(shape) <= place:
                rule = (
                    f"{each.opcode} must have a tuple of the shapes of its operands and result, but has "
                    f"{shape_text(shape)}"
                )
                raise self._fault(each, rule)
            shape = shape[place]
        return self._operation(each._replace(opcode=opcode, shape=shape), operands, scope, repeats)

    def _annotated(self, each: Instruction, operand: Tree, scope: str, repeats: int) -> Tree:
        """What a custom call gives that says how its operand is laid out: the operand, or a part of it by that name."""
        if _shape_of(operand, self._values) == each.shape:
            return operand
        note = "arrays inside shard_map are per-device shards and are counted as such"
        if note not in self._notes:
            self._notes.append(note)
        tree = self._new(each.shape, each.name)
        self._add("local-view", tuple(_leaves(operand)), tuple(_leaves(tree)), {}, (scope, each), repeats)
        return tree

    def _require_shape(self, each: Instruction, tree: Tree) -> None:
        shape = _shape_of(tree, self._values)
        if shape != each.shape:
            rule = (
                f"must have the shape of the value that it forwards, {shape_text(shape)}, but has "
                f"{shape_text(each.shape)}"
            )
            raise self._fault(each, rule)

    def _operation(self, each: Instruction, operands: Sequence[Tree], scope: str, repeats: int) -> Tree:
        inputs = tuple(leaf for tree in operands for leaf in _leaves(tree))
        constant = each.opcode in _FREE or (
            bool(inputs) and each.opcode not in _RANDOM and all(self._values[leaf].constant for leaf in inputs)
        )
        tree = self._new(each.shape, each.name, constant=constant)
        self._require_types(each, inputs, tuple(_leaves(tree)))
        if each.opcode not in _NO_OPERATION:
            self._add(each.opcode, inputs, tuple(_leaves(tree)), self._attributes(each), (scope, each), repeats)
        return tree

    def _require_types(self, each: Instruction, operands: Sequence[int], results: Sequence[int]) -> None:
        types = [self._values[leaf].dtype for leaf in operands], [self._values[leaf].dtype for leaf in results]
        if not types_agree(each.opcode, *types):
            rule = f"element types must agree: ({', '.join(types[0])}) -> ({', '.join(types[1])})"
            raise self._fault(each, f"{each.opcode}: {rule}")

    def _add(
        self, opcode: str, operands: tuple[int, ...], results: tuple[int, ...], attributes: Mapping[str, Attribute],
        named: tuple[str, Instruction], repeats: int,
    ) -> None:  # fmt: skip
        if len(self._operations) >= MAX_OPERATIONS:
            raise self._fault(named[1], f"a step must have at most {MAX_OPERATIONS:,} operations")
        label = _label(named[0], named[1].op_name)
        made = StepOperation(opcode, operands, results, attributes, label, repeats, self._fusion)
        if self._is_optimised and made.kernel is None and not made.forwards:
            made = made._replace(kernel=next(self._kernels))
        self._operations.append(made)
        self._places.append(named[1].place)

    def _loop(self, each: Instruction, entering: Tree, caller: Computation, scope: str, repeats: int) -> Tree:
        body = self._callee(each, "body", caller)
        passes = self._passes(each, caller)
        self._require_condition(each, caller)
        inside = self._new(each.shape, each.name)
        self._tie("while-begin", entering, inside, each, scope, repeats)
        label = _label(scope, each.op_name)
        given = self._inline(body, [inside], label, repeats * passes)
        leaving = self._new(each.shape, each.name)
        self._require_given(body, given, each.shape, f"the body of {each.name} must return the type of its parameter")
        for before, after, left in zip(_leaves(inside), _leaves(given), _leaves(leaving), strict=True):
            self._add("while-end", (before, after), (left,), {}, (scope, each), repeats)
        return leaving

    def _branches(
        self, each: Instruction, operands: Sequence[Tree], caller: Computation, scope: str, repeats: int
    ) -> Tree:
        named = each.attributes.get("branch_computations")
        keys = ("true_computation", "false_computation")
        names = names_in(named) if named else [name for key in keys for name in names_in(each.attributes.get(key, ""))]
        if len(names) != len(operands) - 1:
            raise self._fault(
                each, f"the first operand must be followed by one operand for each of the {len(names)} branches"
            )
        results = []
        for name, operand in zip(names, operands[1:], strict=True):
            inside = self._new(_shape_of(operand, self._values), each.name)
            self._tie("branch-begin", operand, inside, each, scope, repeats)
            branch = self._computation(each, name, caller)
            given = self._inline(branch, [inside], _label(scope, each.op_name), repeats)
            self._require_given(branch, given, each.shape, f"every branch of {each.name} must return its type")
            results.append(list(_leaves(given)))
        tree = self._new(each.shape, each.name)
        leaves = list(_leaves(tree))
        for position, leaf in enumerate(leaves):
            self._add("branch-end", tuple(given[position] for given in results), (leaf,), {}, (scope, each), repeats)
        return tree

    def _tie(self, opcode: str, outer: Tree, inner: Tree, each: Instruction, scope: str, repeats: int) -> None:
        """An operation for each pair of leaves."""
        shapes = _shape_of(outer, self._values), _shape_of(inner, self._values)
        if shapes[0] != shapes[1]:
            raise self._fault(each, f"must receive {shape_text(shapes[1])}, but receives {shape_text(shapes[0])}")
        for source, target in zip(_leaves(outer), _leaves(inner), strict=True):
            self._add(opcode, (source,), (target,), {}, (scope, each), repeats)

    def _require_given(self, callee: Computation, given: Tree, expected: Shape, rule: str) -> None:
        """Raises, at the root of ``callee``, where it does not give ``expected``."""
        shape = _shape_of(given, self._values)
        if shape != expected:
            root = callee.instructions[callee.root]
            raise self._fault(root, f"{rule}, {shape_text(expected)}, but returns {shape_text(shape)}")

    def _require_condition(self, each: Instruction, caller: Computation) -> None:
        """Raises where the condition of a loop does not take what the loop carries, or gives no ``pred[]``."""
        condition = self._callee(each, "condition", caller)
        taken = [parameter.shape for parameter in condition.parameters]
        if taken != [each.shape]:
            shapes = ", ".join(map(shape_text, taken))
            rule = (
                f"the condition of {each.name} must have the parameter {shape_text(each.shape)}, but has "
                f"{shapes or 'none'}"
            )
            raise self._fault(next(iter(condition.parameters), each), rule)
        root = condition.instructions[condition.root]
        if root.shape != ArrayShape("pred", ()):
            rule = f"the condition of {each.name} must return pred[], but returns {shape_text(root.shape)}"
            raise self._fault(root, rule)

    def _passes(self, each: Instruction, caller: Computation) -> int:
        passes = passes_of(each, self._callee(each, "condition", caller))
        if passes is None:
            self._notes.append(f"{each.name}: the trip count of this loop is unknown; its body is counted once")
        return 1 if passes is None else passes

    def _part(self, each: Instruction, tree: Tree) -> Tree:
        index = each.attributes.get("index", "")
        if not isinstance(tree, tuple) or not index.isdecimal() or len(index) > MAX_DIGITS or int(index) >= len(tree):
            raise self._fault(each, f"must select an element of its tuple, but index is {index}")
        return tree[int(index)]

    def _callee(self, each: Instruction, key: str, caller: Computation) -> Computation:
        names = names_in(each.attributes.get(key, ""))
        if len(names) != 1:
            raise self._fault(each, f"{each.opcode} must name exactly one computation in {key}")
        return self._computation(each, names[0], caller)

    def _computation(self, each: Instruction, name: str, caller: Computation) -> Computation:
        if self._place.get(name, len(self._place)) >= self._place[caller.name]:
            raise self._fault(each, f"calls {name}, which must be a computation defined before {caller.name}")
        return self._module.computations[name]

    def _attributes(self, each: Instruction) -> Mapping[str, Attribute]:
        """The attributes, parsed once for each text; names and places in the source differ without a difference."""
        text = each.attribute_text
        key = f"{each.opcode} {text if each.opcode == 'custom-call' else text.partition(', metadata=')[0]}"
        if key not in self._parsed:
            given = {name: value_of(value) for name, value in each.attributes.items() if name in _ATTRIBUTES}
            parsed: dict[str, Attribute] = {name: value for name, value in given.items() if value != ()}
            if each.opcode in _COMBINED:
                parsed["combiner"] = self._combiner(each)
            if each.opcode == "custom-call":
                parsed |= product_attributes(each.attributes.get("backend_config", ""))
            if each.opcode == "iota":
                parsed.setdefault("iota_dimension", (0,))
            self._parsed[key] = parsed
        return self._parsed[key]

    def _combiner(self, each: Instruction) -> str:
        names = names_in(each.attributes.get("to_apply") or each.attributes.get("scatter", ""))
        if not names:
            return "other"
        if names[0] not in self._module.computations:
            raise self._fault(each, f"calls {names[0]}, which must be a computation in the module")
        computation = self._module.computations[names[0]]
        if len(computation.instructions) != 3:
            return "other"
        return computation.instructions[computation.root].opcode

    def _fault(self, each: Instruction, rule: str) -> InputError:
        return fail(self._file, each.place, each.name, rule)


def is_finish(opcode: str) -> bool:
    """Whether it gives the result of an asynchronous operation, or hands it on."""
    return opcode.endswith(("-done", "-update")) and opcode not in ("send-done", "recv-done")


def _leaves(tree: Tree) -> Iterator[int]:
    if isinstance(tree, tuple):
        for part in tree:
            yield from _leaves(part)
    else:
        yield tree


def _shape_of(tree: Tree, values: Sequence[StepValue]) -> Shape:
    if isinstance(tree, tuple):
        return tuple(_shape_of(part, values) for part in tree)
    return ArrayShape(values[tree].dtype, values[tree].dims)


def _label(scope: str, name: str) -> str:
    """A name inside a call: names of what is called are alone or, after optimisation, whole."""
    if not scope or not name or name.startswith((scope, "jit(")):
        return name or scope
    return f"{scope}/{name}"
