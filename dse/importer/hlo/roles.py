"""What each argument of a step is: a parameter, state of the optimizer, or data.

The framework's names decide where they say it; a step whose names say nothing is judged by what happens to its
arguments: floating arrays that the step returns in the same shape are parameters where they take part in a product, a
convolution or a lookup, and state where they do not.
"""

import re
from collections import Counter
from collections.abc import Sequence

from dse.graph.step import Role, StepArgument, StepOperation, StepValue

_PARAMETERS = re.compile(r"^(params?|parameters?|weights?|variables|model|primals)(?![a-z])")
_STATE = re.compile(
    r"^(moments?|momentum|opt(imizer)?(_?state)?|state|adam|mu|nu|m|v|mean|square|ema|count|step)(?![a-z])"
)
_SMALL = 2
"""Dimensions from which an array is a matrix, which products take as they are."""

_USES = ("dot", "convolution", "gather")


def arguments_of(
    named: Sequence[tuple[str, int]],
    values: Sequence[StepValue],
    operations: Sequence[StepOperation],
    results: Sequence[int],
) -> tuple[StepArgument, ...]:
    """The arguments with their roles.

    Args:
        named: name and position among ``values`` of each argument.
        values: all values of the step.
        operations: all operations of the step.
        results: positions of what the step returns.
    """
    by_name = [_role_by_name(name) for name, _ in named]
    if "parameter" in by_name:
        return tuple(
            StepArgument(value, name, role or "input") for (name, value), role in zip(named, by_name, strict=True)
        )
    returned = Counter((values[value].dtype, values[value].dims) for value in results)
    used = {operand for each in operations if each.opcode in _USES for operand in each.operands}
    used |= _through_views(operations, used)
    return tuple(StepArgument(value, name, _role_by_use(value, values, returned, used)) for name, value in named)


def _role_by_name(name: str) -> Role | None:
    lowered = name.lower()
    if _PARAMETERS.match(lowered):
        return "parameter"
    return "state" if _STATE.match(lowered) else None


def _role_by_use(
    value: int, values: Sequence[StepValue], returned: Counter[tuple[str, tuple[int, ...]]], used: set[int]
) -> Role:
    _, dims, dtype, *_ = values[value]
    if not dtype.startswith(("f", "bf")) or not returned[dtype, dims]:
        return "input"
    return "parameter" if value in used or len(dims) < _SMALL else "state"


def _through_views(operations: Sequence[StepOperation], used: set[int]) -> set[int]:
    """What reaches ``used`` through operations that move or convert elements alone."""
    views = ("transpose", "reshape", "convert", "copy", "bitcast", "broadcast")
    reaching = set(used)
    for each in reversed(operations):
        if each.opcode in views and reaching.intersection(each.results):
            reaching.update(each.operands)
    return reaching
