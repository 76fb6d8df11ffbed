"""What a step does with its arguments: which result replaces which argument, and which of them are trained.

A result *replaces* an argument of its type and dimensions if it is made from it element by element, as w - rate ·
gradient and 0.9 · m + 0.1 · gradient are. Of several arguments that a result is made from in this way (Adam's w, m and
v) it replaces the one that no other result replaces. An argument is *trained* if it is replaced and the loss depends on
it. The loss does not depend on moments. It depends on what a network hands to the next step, but on its new value too,
and it may depend on averages of what is trained: neither is trained itself.
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

from dse.graph.step import StepOperation, StepValue

_BY_ELEMENT = frozenset((
    "abs", "add", "and", "atan2", "cbrt", "ceil", "clamp", "convert", "copy", "cosine", "divide", "erf", "exponential",
    "exponential-minus-one", "floor", "log", "log-plus-one", "logistic", "maximum", "minimum", "multiply", "negate",
    "or", "power", "reduce-precision", "remainder", "round-nearest-afz", "round-nearest-even", "rsqrt", "select",
    "sign", "sine", "sqrt", "stochastic-convert", "subtract", "tan", "tanh", "xor", "map", "all-reduce",
    "while-begin", "while-end", "branch-begin", "branch-end", "optimization-barrier", "bitcast", "local-view",
    "reshape", "transpose",
))  # fmt: skip
_IN_PLACE = ("dynamic-update-slice", "scatter")
"""Operations that change some elements of their first operand."""

_USES = ("dot", "convolution", "gather", "ragged-dot", "custom-call")
_MAX_CHAIN = 64
"""Arguments that a value is made from element by element; those of more are none's replacement."""

_MAX_NUMBERS = 32
"""Numbers among the results that may be the loss."""

_SHARE = 4
"""The loss depends on at least one in so many of the replaced arguments that any number does: an optimizer keeps up to
three arrays for each that is trained, and the size of an update depends on these too.
"""


class Updates(NamedTuple):
    """What becomes of the arguments of a step, by their positions.

    Attributes:
        replaced: of each result that replaces an argument its position, and that of the argument.
        trained: the arguments that are updated by what the loss says of them.
        kept: those that are replaced, or returned as they are, and not trained.
    """

    replaced: Mapping[int, int]
    trained: frozenset[int]
    kept: frozenset[int]


def updates_of(
    values: Sequence[StepValue], operations: Sequence[StepOperation], arguments: Sequence[int], results: Sequence[int]
) -> Updates:
    """The updates of a step; ``arguments`` and ``results`` are positions among ``values``.

    O(operations), once more for each number among the results that may be the loss.
    """
    number_of = {value: number for number, value in enumerate(arguments)}
    made_from = _made_from(values, operations, number_of, results)
    kinds = [(values[each].dtype, values[each].dims) for each in arguments]
    candidates = {
        place: {number for number in sources if number >= 0 and kinds[number] == _kind(values[results[place]])}
        for place, sources in made_from.items()
    }
    loss = _loss(values, operations, arguments, results, candidates)
    needed = loss.arguments
    candidates.pop(loss.place, None)
    replaced = _matched(candidates, needed)
    owner = {_source_of(place): number for place, number in replaced.items()}
    left: dict[tuple[str, tuple[int, ...]], list[int]] = {}
    for number in sorted(needed - {*replaced.values()}, reverse=True):
        left.setdefault(kinds[number], []).append(number)
    for place, sources in made_from.items():  # copies, in another type, of what replaces an argument
        if place not in replaced and sources & owner.keys() and left.get(_kind(values[results[place]])):
            replaced[place] = left[_kind(values[results[place]])].pop()
    handed = {
        number
        for place, number in replaced.items()
        if results[place] in loss.values
        or any(
            owner.get(source, number) != number and owner[source] in needed for source in made_from[place] if source < 0
        )
    }
    unchanged = {number_of[value] for value in results if value in number_of}
    trained = frozenset(
        number
        for number in replaced.values()
        if number in needed - handed - unchanged and values[arguments[number]].dtype.startswith(("f", "bf"))
    )
    return Updates(replaced, trained, frozenset({*replaced.values(), *unchanged} - trained))


def _kind(value: StepValue) -> tuple[str, tuple[int, ...]]:
    return value.dtype, value.dims


def _source_of(place: int) -> int:
    """What stands for the result at ``place`` among the sources of a value; arguments are in the order of their
    numbers.
    """
    return -1 - place


def _made_from(
    values: Sequence[StepValue], operations: Sequence[StepOperation], number_of: Mapping[int, int],
    results: Sequence[int],
) -> dict[int, frozenset[int]]:  # fmt: skip
    """Of each result that is not an argument, by its place: the arguments and other results that it is made from
    element by element.
    """
    places = {value: place for place, value in enumerate(results) if value not in number_of}
    made: dict[int, frozenset[int]] = {value: frozenset((number,)) for value, number in number_of.items()}
    found = {place: frozenset[int]() for place in places.values()}
    for operation in operations:
        taken = operation.operands
        if operation.opcode in _IN_PLACE:
            taken = taken[:1]
        elif operation.opcode == "while-end":
            taken = taken[1:]  # what the last pass gave
        elif operation.opcode not in _BY_ELEMENT:
            taken = ()
        for value in operation.results:
            size = prod(values[value].dims)
            sources = frozenset[int]().union(*(made.get(each, ()) for each in taken if prod(values[each].dims) == size))
            if value in places:
                found[places[value]] = sources
                sources |= {_source_of(places[value])}
            if 0 < len(sources) <= _MAX_CHAIN:
                made[value] = sources
    return found


def _loss(
    values: Sequence[StepValue], operations: Sequence[StepOperation], arguments: Sequence[int],
    results: Sequence[int], candidates: Mapping[int, set[int]],
) -> "_Behind":  # fmt: skip
    """What the loss depends on; without a loss, what a product or a lookup depends on."""
    replaceable = set().union(*candidates.values())
    numbers = [
        place
        for place in candidates
        if prod(values[results[place]].dims) == 1 and values[results[place]].dtype.startswith(("f", "bf"))
    ]
    for places in ([place for place in numbers if not candidates[place]], numbers):
        behind = [_behind(operations, arguments, {results[place]}, place) for place in places[:_MAX_NUMBERS]]
        most = max((len(of.arguments & replaceable) for of in behind), default=0)
        if most:
            may_be = [of for of in behind if _SHARE * len(of.arguments & replaceable) >= most]
            return min(may_be, key=lambda of: of.operations)
    used = {value for each in operations if each.opcode in _USES for value in each.operands}
    return _behind(operations, arguments, used)


class _Behind(NamedTuple):
    """What values depend on: arguments by their positions, values, and the number of operations; ``place`` is that of
    the only one among the results, or -1.
    """

    arguments: frozenset[int]
    values: set[int]
    operations: int
    place: int


def _behind(
    operations: Sequence[StepOperation], arguments: Sequence[int], wanted: set[int], place: int = -1
) -> _Behind:
    needed, count = set(wanted), 0
    for operation in reversed(operations):
        if needed.intersection(operation.results):
            needed.update(operation.operands)
            count += 1
    return _Behind(frozenset(number for number, value in enumerate(arguments) if value in needed), needed, count, place)


def _matched(candidates: Mapping[int, set[int]], needed: frozenset[int]) -> dict[int, int]:
    """One argument for each result: first where there is but one, and what is left by need and order."""
    left = {place: set(numbers) for place, numbers in candidates.items() if numbers}
    takers: dict[int, set[int]] = {}
    for place, numbers in left.items():
        for number in numbers:
            takers.setdefault(number, set()).add(place)
    matched: dict[int, int] = {}
    single = [place for place, numbers in left.items() if len(numbers) == 1]
    while left:
        place = single.pop() if single else min(left, key=lambda each: (len(left[each]), each))
        numbers = left.pop(place, set())
        if not numbers:
            continue
        number = min(numbers, key=lambda each: (each not in needed, each))
        matched[place] = number
        for other in takers[number] - {place}:
            if other in left:
                left[other].discard(number)
                if len(left[other]) == 1:
                    single.append(other)
    return matched
