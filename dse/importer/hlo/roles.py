"""What each argument of a step is: a parameter, state of the optimizer, or data.

What the step does with its arguments decides (:mod:`dse.graph.step_updates`): parameters are updated by the gradient of
the loss, all else that is replaced or returned is state, and the rest is data, but for what names say to be kept. Only
where nothing is updated (a step that returns gradients) names decide that say it; where none does, floating arrays that
the step returns in the same shape are parameters if they take part in a product, a convolution or a lookup, and state
if they do not. A user's own list of what is trained (:func:`with_trained`) comes before all of this.
"""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from dse.graph.step import Role, StepArgument, StepGraph, StepOperation, StepValue
from dse.graph.step_updates import updates_of

_PARAMETERS = re.compile(r"^(params?|parameters?|weights?|variables|model|primals)(?![a-z])")
_STATE = re.compile(
    r"^(moments?|momentum|opt(imizer)?(_?state)?|state|adam|mu|nu|m|v|mean|square|ema|count|step)(?![a-z])"
)
_CONTAINER = re.compile(r"^(train_?)?state\W+(?=[a-z])")
"""An object that holds parameters and the optimizer's state: ``state.params['w']``, ``state.opt_state[0].mu['w']``."""

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
    updates = updates_of(values, operations, [value for _, value in named], results)
    if updates.trained:
        kept = updates.kept | {number for number, role in enumerate(by_name) if role is not None}
        return tuple(
            StepArgument(value, name, "parameter" if n in updates.trained else "state" if n in kept else "input")
            for n, (name, value) in enumerate(named)
        )
    if "parameter" in by_name:
        return tuple(
            StepArgument(value, name, role or "input") for (name, value), role in zip(named, by_name, strict=True)
        )
    returned = _kinds_of(values, results)
    used = {operand for each in operations if each.opcode in _USES for operand in each.operands}
    used |= _through_views(operations, used)
    return tuple(StepArgument(value, name, _role_by_use(value, values, returned, used)) for name, value in named)


def with_trained(graph: StepGraph, trained: Collection[str]) -> StepGraph:
    """``graph`` with the arguments of these names trained, and no others.

    One that was taken to be trained and is not is state where the step returns a floating array of its shape.
    """
    returned = _kinds_of(graph.values, graph.results)

    def role(argument: StepArgument) -> Role:
        if argument.name in trained:
            return "parameter"
        if argument.role != "parameter":
            return argument.role
        value = graph.values[argument.value]
        return "state" if _is_float(value.dtype) and returned[value.dtype, value.dims] else "input"

    return replace(graph, arguments=tuple(each._replace(role=role(each)) for each in graph.arguments))


def _kinds_of(values: Sequence[StepValue], positions: Sequence[int]) -> Counter[tuple[str, tuple[int, ...]]]:
    return Counter((values[each].dtype, values[each].dims) for each in positions)


def _role_by_name(name: str) -> Role | None:
    lowered = _CONTAINER.sub("", name.lower())
    if _PARAMETERS.match(lowered):
        return "parameter"
    return "state" if _STATE.match(lowered) or lowered != name.lower() else None


def _role_by_use(
    value: int, values: Sequence[StepValue], returned: Counter[tuple[str, tuple[int, ...]]], used: set[int]
) -> Role:
    _, dims, dtype, *_ = values[value]
    if not _is_float(dtype) or not returned[dtype, dims]:
        return "input"
    return "parameter" if value in used or len(dims) < _SMALL else "state"


def _is_float(dtype: str) -> bool:
    return dtype.startswith(("f", "bf"))


def _through_views(operations: Sequence[StepOperation], used: set[int]) -> set[int]:
    """What reaches ``used`` through operations that move or convert elements alone."""
    views = ("transpose", "reshape", "convert", "copy", "bitcast", "broadcast")
    reaching = set(used)
    for each in reversed(operations):
        if each.opcode in views and reaching.intersection(each.results):
            reaching.update(each.operands)
    return reaching
