"""How operations can be split: one rule for each HLO opcode, stated as factors.

A *factor* of an operation is an index of its loop nest (the m, n and k of a matrix product). It stands in some
dimensions of operands and results. Cut into equal parts over devices, each device takes its part of those dimensions
and the whole of all other operands, runs the same operation, and holds

- its part of the results, where the factor stands in them (``through``), or
- one term of the results, which the ``combiner`` joins (``reduced``): devices must all-reduce it.

A dimension that stands in no factor must be whole. Shardy states its rules the same way (``OpShardingRuleAttr``).

Where dimensions of different sizes share a factor, as behind a reshape, the factor is the part of them that both have
outermost, and its size is the largest number of equal parts that both can be cut into. Numbers of parts must divide it.

Costs time linear in the dimensions of an operation.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import gcd, prod
from typing import Literal, NamedTuple

from dse.graph.step import Attribute, StepOperation, StepValue

Kind = Literal["through", "reduced"]
Place = tuple[int, int]
"""(number of the operand or result, dimension)."""


class Factor(NamedTuple):
    """One index of an operation's loop nest.

    Attributes:
        size: numbers of equal parts must divide it.
        operands, results: the dimensions in which it stands.
        combiner: of a reduced factor, the opcode that joins the terms of the devices; otherwise nothing.
        masked: operands that hold positions along it, which devices compare with the part they have.
        once: operands that only the first device adds, the others what adds nothing.
    """

    size: int
    operands: tuple[Place, ...]
    results: tuple[Place, ...]
    combiner: str = ""
    masked: bool = False
    once: tuple[int, ...] = ()

    @property
    def kind(self) -> Kind:
        """What a device holds of the results."""
        return "reduced" if self.combiner else "through"


class RuleError(ValueError):
    """Shapes or attributes that the operation does not allow."""


Dims = tuple[int, ...]
_Rule = Callable[["Shapes"], Iterable[Factor]]

COMBINERS = ("add", "maximum", "minimum", "multiply", "and", "or", "xor")
"""Reductions that do not depend on the order of their terms."""


class Shapes(NamedTuple):
    """An operation with the dimensions of its operands and results."""

    operation: StepOperation
    operands: tuple[Dims, ...]
    results: tuple[Dims, ...]

    def integers(self, key: str) -> tuple[int, ...]:
        """An attribute that is a list of whole numbers; empty where it is not given."""
        value = self.operation.attributes.get(key, ())
        if isinstance(value, str):
            raise RuleError(f"{key} must be a list of whole numbers, but is {value}")
        return value

    def number(self, key: str, default: int) -> int:
        """An attribute that is one whole number."""
        value = self.integers(key)
        return value[0] if value else default

    def text(self, key: str) -> str:
        """An attribute as text."""
        value: Attribute = self.operation.attributes.get(key, "")
        return value if isinstance(value, str) else "{" + ",".join(map(str, value)) + "}"

    def require(self, holds: bool, rule: str) -> None:
        """Raises where a rule does not hold."""
        if not holds:
            shapes = ", ".join(map(_text, self.operands)), ", ".join(map(_text, self.results))
            raise RuleError(f"{rule}: ({shapes[0]}) -> ({shapes[1]})")


def shapes_of(operation: StepOperation, values: Sequence[StepValue]) -> Shapes:
    """``operation`` with the dimensions that its values have."""
    return Shapes(
        operation,
        tuple(values[each].dims for each in operation.operands),
        tuple(values[each].dims for each in operation.results),
    )


def factors_of(shapes: Shapes) -> tuple[Factor, ...] | None:
    """The factors of an operation, those of one part left out; None for an operation without a rule.

    Raises:
        RuleError: shapes that the operation does not allow.
    """
    opcode = shapes.operation.opcode
    rule = _elementwise if opcode in ELEMENTWISE else _RULES.get(opcode)
    if rule is None or (opcode == "custom-call" and _unquoted(shapes.text("custom_call_target")) not in _IDENTITIES):
        return None
    return tuple(factor for factor in rule(shapes) if factor.size > 1)


# --------------------------------------------------------------------------------------------- one index everywhere

ELEMENTWISE = frozenset((
    "abs", "add", "and", "cbrt", "ceil", "clamp", "compare", "complex", "convert", "copy", "cosine", "divide",
    "erf", "exponential", "exponential-minus-one", "floor", "imag", "is-finite", "log", "log-plus-one", "logistic",
    "maximum", "minimum", "multiply", "negate", "not", "or", "popcnt", "power", "real", "reduce-precision",
    "remainder", "round-nearest-afz", "round-nearest-even", "rsqrt", "select", "shift-left",
    "shift-right-arithmetic", "shift-right-logical", "sign", "sine", "sqrt", "stochastic-convert", "subtract",
    "tan", "tanh", "xor", "count-leading-zeros", "map", "while-begin", "while-end", "branch-begin", "branch-end",
    "all-reduce", "domain", "copy-start", "copy-done", "optimization-barrier",
))  # fmt: skip
"""Opcodes that treat every element alone; scalars among the operands stand for arrays."""

_IDENTITIES = ("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement")
"""Targets of custom calls that give what they take."""


def _elementwise(shapes: Shapes) -> Iterator[Factor]:
    (dims,) = set(shapes.results) if len(set(shapes.results)) == 1 else (None,)
    shapes.require(dims is not None, "results must have the same dimensions")
    assert dims is not None
    arrays = [number for number, each in enumerate(shapes.operands) if each or not dims]
    shapes.require(all(shapes.operands[number] == dims for number in arrays), "operands must have the result's shape")
    for dim, size in enumerate(dims):
        yield Factor(size, tuple((number, dim) for number in arrays), _all(shapes.results, dim))


def _free(shapes: Shapes) -> Iterator[Factor]:
    """Constants and the like: any device makes any part."""
    for number, dims in enumerate(shapes.results):
        for dim, size in enumerate(dims):
            yield Factor(size, (), ((number, dim),))


def _whole(shapes: Shapes) -> Iterator[Factor]:
    """No dimension can be cut."""
    del shapes
    return iter(())


def _all(arrays: Sequence[Dims], dim: int) -> tuple[Place, ...]:
    return tuple((number, dim) for number in range(len(arrays)))


# ----------------------------------------------------------------------------------------------- moves of dimensions


def _broadcast(shapes: Shapes) -> Iterator[Factor]:
    (source,), (result,) = shapes.operands, shapes.results
    mapped = shapes.integers("dimensions")
    shapes.require(
        len(mapped) == len(source) and all(dim < len(result) for dim in mapped), "must map every operand dimension"
    )
    shapes.require(all(source[dim] in (1, result[to]) for dim, to in enumerate(mapped)), "mapped sizes must agree")
    for dim, size in enumerate(result):
        equal = dim in mapped and source[mapped.index(dim)] == size
        yield Factor(size, ((0, mapped.index(dim)),) if equal else (), ((0, dim),))


def _transpose(shapes: Shapes) -> Iterator[Factor]:
    (source,), (result,) = shapes.operands, shapes.results
    order = shapes.integers("dimensions")
    shapes.require(sorted(order) == list(range(len(source))), "dimensions must be a permutation")
    shapes.require(tuple(source[dim] for dim in order) == result, "the result must have the permuted sizes")
    for dim, size in enumerate(result):
        yield Factor(size, ((0, order[dim]),), ((0, dim),))


def _reshape(shapes: Shapes) -> Iterator[Factor]:
    """The outermost dimensions of each pair of groups with the same product are tied."""
    (source,), (result,) = shapes.operands[:1], shapes.results
    shapes.require(prod(source) == prod(result), "a reshape must keep the number of elements")
    if not prod(source):
        return
    for dim, to, size in reshaped(source, result):
        yield Factor(size, ((0, dim),), ((0, to),))


def reshaped(source: Dims, result: Dims) -> Iterator[tuple[int, int, int]]:
    """(dimension before, dimension after, common parts) of the outermost dimensions of matching groups.

    Groups are the shortest runs of dimensions with the same product; sizes of 1 belong to none.
    """
    before = [(dim, size) for dim, size in enumerate(source) if size > 1]
    after = [(dim, size) for dim, size in enumerate(result) if size > 1]
    while before and after:
        (dim, left), (to, right) = before.pop(0), after.pop(0)
        yield dim, to, gcd(left, right)
        while left != right:
            if left < right:
                left *= before.pop(0)[1]
            else:
                right *= after.pop(0)[1]


def _bitcast(shapes: Shapes) -> Iterator[Factor]:
    """What layouts say is not read: only a bitcast that keeps the dimensions is known."""
    return _elementwise(shapes) if shapes.operands[0] == shapes.results[0] else _whole(shapes)


def _concatenate(shapes: Shapes) -> Iterator[Factor]:
    (along,) = shapes.integers("dimensions")
    (result,) = shapes.results
    for dim, size in enumerate(result):
        if dim == along:
            continue
        shapes.require(all(each[dim] == size for each in shapes.operands), f"sizes along {dim} must agree")
        yield Factor(size, _all(shapes.operands, dim), ((0, dim),))


def _untouched(shapes: Shapes, untouched: Sequence[bool], operands: Sequence[int] = (0,)) -> Iterator[Factor]:
    """Dimensions that the operation leaves alone, of some operands and the result."""
    (result,) = shapes.results
    shapes.require(len(untouched) == len(result), "operand and result must have as many dimensions")
    for dim, size in enumerate(result):
        if untouched[dim] and all(shapes.operands[number][dim] == size for number in operands):
            yield Factor(size, tuple((number, dim) for number in operands), ((0, dim),))


def _pad(shapes: Shapes) -> Iterator[Factor]:
    paddings = shapes.text("padding").split("x") if shapes.results[0] else []
    return _untouched(shapes, [set(each.split("_")) <= {"0"} for each in paddings])


_RANGE = re.compile(r"\[(-?\d+):(-?\d+)(?::(-?\d+))?\]")


def _slice(shapes: Shapes) -> Iterator[Factor]:
    ranges = _RANGE.findall(shapes.text("slice"))
    sizes = shapes.operands[0]
    shapes.require(len(ranges) == len(sizes), "must have a range for each dimension")
    whole = [
        (int(start), int(end), int(step or 1)) == (0, size, 1)
        for (start, end, step), size in zip(ranges, sizes, strict=True)
    ]
    return _untouched(shapes, whole)


def _dynamic_slice(shapes: Shapes) -> Iterator[Factor]:
    return _untouched(shapes, [True] * len(shapes.results[0]))  # sizes that stay leave nothing to move


def _dynamic_update_slice(shapes: Shapes) -> Iterator[Factor]:
    return _untouched(shapes, [True] * len(shapes.results[0]), operands=(0, 1))


def _reverse(shapes: Shapes) -> Iterator[Factor]:
    reversed_dims = shapes.integers("dimensions")
    return _untouched(shapes, [dim not in reversed_dims for dim in range(len(shapes.results[0]))])


# -------------------------------------------------------------------------------------------- products, convolutions


def _dot(shapes: Shapes) -> Iterator[Factor]:
    (left, right), (result,) = shapes.operands[:2], shapes.results
    batch = shapes.integers("lhs_batch_dims"), shapes.integers("rhs_batch_dims")
    inner = shapes.integers("lhs_contracting_dims"), shapes.integers("rhs_contracting_dims")
    shapes.require(
        max((*batch[0], *inner[0], -1)) < len(left) and max((*batch[1], *inner[1], -1)) < len(right),
        "batch and contracting dimensions must be dimensions of the operands",
    )  # fmt: skip
    pairs = [*zip(*batch, strict=True), *zip(*inner, strict=True)]
    shapes.require(all(left[dim] == right[to] for dim, to in pairs), "paired dimensions must have the same size")
    free = [
        [dim for dim in range(len(dims)) if dim not in batch[side] and dim not in inner[side]]
        for side, dims in enumerate((left, right))
    ]
    expected = [left[dim] for dim in (*batch[0], *free[0])] + [right[dim] for dim in free[1]]
    shapes.require(expected == list(result), "the result must have batch, left and right dimensions")
    for position, (dim, to) in enumerate(zip(*batch, strict=True)):
        yield Factor(left[dim], ((0, dim), (1, to)), ((0, position),))
    for position, dim in enumerate(free[0], len(batch[0])):
        yield Factor(left[dim], ((0, dim),), ((0, position),))
    for position, dim in enumerate(free[1], len(batch[0]) + len(free[0])):
        yield Factor(right[dim], ((1, dim),), ((0, position),))
    for dim, to in zip(*inner, strict=True):
        yield Factor(left[dim], ((0, dim), (1, to)), (), "add")


_LABELS = re.compile(r"([\dbf?]+)_([\dio?]+)->([\dbf?]+)")


def _convolution(shapes: Shapes) -> Iterator[Factor]:
    """Batch and output features pass, input features are summed; of grouped forms the groups pass."""
    (image, kernel), (result,) = shapes.operands[:2], shapes.results
    match = _LABELS.fullmatch(shapes.text("dim_labels"))
    shapes.require(match is not None, "dim_labels must name the dimensions")
    assert match is not None
    labels = match.groups()
    shapes.require(
        [len(each) for each in labels] == [len(image), len(kernel), len(result)], "dim_labels must name every dimension"
    )
    batch, features = labels[0].index("b"), labels[0].index("f")
    inputs, outputs = labels[1].index("i"), labels[1].index("o")
    out_batch, out_features = labels[2].index("b"), labels[2].index("f")
    groups, batch_groups = shapes.number("feature_group_count", 1), shapes.number("batch_group_count", 1)
    shapes.require(image[features] == kernel[inputs] * groups, "features must be those of the kernel times the groups")
    if batch_groups == 1:
        yield Factor(image[batch], ((0, batch),), ((0, out_batch),))
    if groups == batch_groups == 1:
        yield Factor(kernel[outputs], ((1, outputs),), ((0, out_features),))
    if groups > 1:
        yield Factor(groups, ((0, features), (1, outputs)), ((0, out_features),))
    else:
        yield Factor(image[features], ((0, features), (1, inputs)), (), "add")
    if batch_groups > 1:
        yield Factor(batch_groups, ((0, batch), (1, outputs)), ((0, out_features),))


# ----------------------------------------------------------------------------------------------- reductions, windows


def _reduce(shapes: Shapes) -> Iterator[Factor]:
    """Several arrays may be reduced together, each with its initial value."""
    count = len(shapes.results)
    shapes.require(len(shapes.operands) == 2 * count, "each array must have an initial value")
    along, source = shapes.integers("dimensions"), shapes.operands[0]
    shapes.require(all(each == source for each in shapes.operands[:count]), "arrays must have the same shape")
    remaining = [dim for dim in range(len(source)) if dim not in along]
    shapes.require(
        all(each == tuple(source[dim] for dim in remaining) for each in shapes.results),
        "must keep the other dimensions",
    )
    for to, dim in enumerate(remaining):
        yield Factor(source[dim], tuple((number, dim) for number in range(count)), _all(shapes.results, to))
    combiner = shapes.text("combiner")
    if count == 1 and combiner in COMBINERS:
        for dim in along:
            yield Factor(source[dim], ((0, dim),), (), combiner, once=(1,))


_WINDOW = re.compile(r"(\w+)=([\w\-x]+)")


def _plain_window(shapes: Shapes) -> list[bool]:
    """Whether the window moves over each dimension one by one, without looking beside."""
    rank = len(shapes.operands[0])
    window = dict(_WINDOW.findall(shapes.text("window")))
    parts = {key: value.split("x") for key, value in window.items()}
    plain = []
    for dim in range(rank):
        of = {key: part[dim] for key, part in parts.items() if dim < len(part)}
        sizes = [of.get(key, "1") == "1" for key in ("size", "stride", "lhs_dilate", "rhs_dilate")]
        plain.append(all(sizes) and set(of.get("pad", "0_0").split("_")) <= {"0"})
    return plain


def _reduce_window(shapes: Shapes) -> Iterator[Factor]:
    return _untouched(shapes, _plain_window(shapes)) if len(shapes.results) == 1 else _whole(shapes)


def _select_and_scatter(shapes: Shapes) -> Iterator[Factor]:
    return _untouched(shapes, _plain_window(shapes), operands=(0, 1))


def _along(shapes: Shapes) -> Iterator[Factor]:
    """All dimensions but the one that ``dimensions`` names (``sort``), of all arrays."""
    (along,) = shapes.integers("dimensions")
    for dim, size in enumerate(shapes.results[0]):
        if dim != along:
            yield Factor(size, _all(shapes.operands, dim), _all(shapes.results, dim))


def _outer(inner: int) -> _Rule:
    """All but the last ``inner`` dimensions, of all arrays of that rank."""

    def rule(shapes: Shapes) -> Iterator[Factor]:
        for dim, size in enumerate(shapes.results[0][: len(shapes.results[0]) - inner]):
            operands = [number for number, each in enumerate(shapes.operands) if len(each) == len(shapes.results[0])]
            yield Factor(size, tuple((number, dim) for number in operands), _all(shapes.results, dim))

    return rule


def _fft(shapes: Shapes) -> Iterator[Factor]:
    return iter(_outer(len(shapes.integers("fft_length")))(shapes))


# ------------------------------------------------------------------------------------------------- lookups, updates


def _gather(shapes: Shapes) -> Iterator[Factor]:
    """Positions pass; dimensions taken whole pass; of one that is looked up each device has a part, and the rest is 0.

    (The last is the embedding split by words, as Megatron-LM has it.)
    """
    table, indices = shapes.operands[:2]
    (result,) = shapes.results
    offsets, sizes = shapes.integers("offset_dims"), shapes.integers("slice_sizes")
    batching = shapes.integers("operand_batching_dims"), shapes.integers("start_indices_batching_dims")
    collapsed = {*shapes.integers("collapsed_slice_dims"), *batching[0]}
    shapes.require(len(sizes) == len(table), "slice_sizes must have an entry for each dimension")
    positions = [dim for dim in range(len(indices)) if dim != shapes.number("index_vector_dim", len(indices))]
    outside = [dim for dim in range(len(result)) if dim not in offsets]
    shapes.require(
        len(positions) == len(outside) and len(result) == len(positions) + len(offsets),
        "the result must have the dimensions of the indices, and the offsets",
    )
    for dim, to in zip(positions, outside, strict=True):
        tied = [(0, batching[0][batching[1].index(dim)])] if dim in batching[1] else []
        yield Factor(indices[dim], (*tied, (1, dim)), ((0, to),))
    taken = [dim for dim in range(len(table)) if dim not in collapsed]
    shapes.require(len(taken) == len(offsets), "offset_dims must be the dimensions that are not collapsed")
    for dim, to in zip(taken, offsets, strict=True):
        if sizes[dim] == table[dim] == result[to]:
            yield Factor(table[dim], ((0, dim),), ((0, to),))
    looked_up = shapes.integers("start_index_map")
    for dim in looked_up:
        if dim in collapsed and len(looked_up) == 1 and sizes[dim] == 1:
            yield Factor(table[dim], ((0, dim),), (), "add", masked=True)


def _scatter(shapes: Shapes) -> Iterator[Factor]:
    """Whole dimensions of updates pass; positions add up; of a dimension that is indexed each device has a part."""
    if len(shapes.results) != 1:
        return
    (table, indices, updates), (result,) = shapes.operands, shapes.results
    shapes.require(table == result, "the result must have the shape of what is updated")
    window, inserted = shapes.integers("update_window_dims"), shapes.integers("inserted_window_dims")
    batching = shapes.integers("input_batching_dims"), shapes.integers("scatter_indices_batching_dims")
    written = [dim for dim in range(len(table)) if dim not in inserted and dim not in batching[0]]
    shapes.require(len(written) == len(window), "update_window_dims must be the dimensions that are not inserted")
    for dim, to in zip(written, window, strict=True):
        if updates[to] == table[dim]:
            yield Factor(table[dim], ((0, dim), (2, to)), ((0, dim),))
    outside = [dim for dim in range(len(updates)) if dim not in window]
    positions = [dim for dim in range(len(indices)) if dim != shapes.number("index_vector_dim", len(indices))]
    shapes.require(len(positions) == len(outside), "updates must have the dimensions of the indices")
    combiner = shapes.text("combiner")
    for dim, to in zip(positions, outside, strict=True):
        if dim in batching[1]:
            along = batching[0][batching[1].index(dim)]
            yield Factor(indices[dim], ((0, along), (1, dim), (2, to)), ((0, along),))
        elif combiner in COMBINERS:
            yield Factor(indices[dim], ((1, dim), (2, to)), (), combiner, once=(0,))
    indexed = shapes.integers("scatter_dims_to_operand_dims")
    for dim in indexed:
        if dim in inserted and len(indexed) == 1:
            yield Factor(table[dim], ((0, dim),), ((0, dim),), masked=True)


def _text(dims: Dims) -> str:
    return "[" + ",".join(map(str, dims)) + "]"


def _unquoted(text: str) -> str:
    return text.strip('"')


_RULES: dict[str, _Rule] = {
    "broadcast": _broadcast,
    "transpose": _transpose,
    "reshape": _reshape,
    "bitcast": _bitcast,
    "bitcast-convert": _bitcast,
    "concatenate": _concatenate,
    "pad": _pad,
    "slice": _slice,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "reverse": _reverse,
    "dot": _dot,
    "convolution": _convolution,
    "reduce": _reduce,
    "reduce-window": _reduce_window,
    "select-and-scatter": _select_and_scatter,
    "sort": _along,
    "fft": _fft,
    "cholesky": _outer(2),
    "triangular-solve": _outer(2),
    "gather": _gather,
    "scatter": _scatter,
    "constant": _free,
    "iota": _free,
    "rng": _free,
    "rng-bit-generator": _whole,
    "get-dimension-size": _whole,
    "custom-call": _elementwise,
}
