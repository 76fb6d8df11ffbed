"""The template of ``plan_jax.py``: a plan without arguments on no devices."""

import inspect
import math
import re
from collections import Counter

import jax
import numpy as np
from jax.extend.core import Literal
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

AXES = ()
SIZES = ()

ARGUMENTS = {}
"""The layout of each argument; those that are not here are whole."""

PINS = {}
"""By label and shape the layouts of results and operands, in the order in which the step computes them."""


def mesh(devices=None):
    """The mesh of the plan over ``devices`` (default: the first ones of JAX, in their order)."""
    count = math.prod(SIZES)
    chosen = np.array((jax.devices() if devices is None else devices)[:count])
    if chosen.size < count:
        raise ValueError(f"the plan needs {count} devices, but there are {chosen.size}")
    return Mesh(chosen.reshape(SIZES), AXES, axis_types=(AxisType.Auto,) * len(AXES))


def specs(step, *arguments):
    """The PartitionSpec of every leaf of the arguments of ``step``, in trees as these are."""
    names = list(inspect.signature(step).parameters)

    def of(root, tree):
        return jax.tree_util.tree_map_with_path(
            lambda path, _: ARGUMENTS.get(root + jax.tree_util.keystr(path), P()), tree
        )

    return tuple(of(name, tree) for name, tree in zip(names, arguments, strict=True))


def shardings(step, *arguments, on=None):
    """As :func:`specs`, as shardings on the mesh ``on``."""
    chosen = mesh() if on is None else on
    return jax.tree_util.tree_map(
        lambda spec: NamedSharding(chosen, spec), specs(step, *arguments), is_leaf=lambda leaf: isinstance(leaf, P)
    )


def apply(step, *arguments, on=None):
    """``step`` jitted by the plan.

    Arguments come in their layouts, what replaces an argument leaves in the layout of that argument, and the results of
    products, lookups and reductions are pinned where the plan has them, so that propagation decides nothing else.

    Args:
        step: the training step that the plan was made for.
        arguments: its arguments, or their shapes.
        on: the mesh; that of :func:`mesh` by default.
    """
    chosen = mesh() if on is None else on
    given = shardings(step, *arguments, on=chosen)
    leaves = jax.tree_util.tree_leaves(given)
    results, tree = jax.tree_util.tree_flatten(jax.eval_shape(step, *arguments))
    taken = jax.tree_util.tree_leaves(arguments)
    left, start = [], 0
    for result in results:
        kind = result.shape, result.dtype
        place = next((at for at in range(start, len(taken)) if (taken[at].shape, taken[at].dtype) == kind), None)
        left.append(NamedSharding(chosen, P()) if place is None else leaves[place])
        start = start if place is None else place + 1
    pinned = _pinned(step, chosen)
    return jax.jit(pinned, in_shardings=given, out_shardings=jax.tree_util.tree_unflatten(tree, left))


def _pinned(step, chosen):
    """``step`` with the results of the operations in :data:`PINS` constrained."""

    def run(*arguments):
        traced, shape = jax.make_jaxpr(step, return_shape=True)(*arguments)
        total = Counter((label, _shape(equation)) for label, equation in _labelled(traced.jaxpr, ""))
        pins = {key: _pins_of(*key, count) for key, count in total.items()}
        values = _run(traced.jaxpr, traced.consts, jax.tree_util.tree_leaves(arguments), "", pins, chosen)
        return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(shape), values)

    return run


def _inner(equation, scope):
    """What a call of a function calls, and its scope; an equation's own scope where it is none."""
    stack = "/".join(part for part in (scope, str(equation.source_info.name_stack)) if part)
    if equation.primitive.name in ("custom_jvp_call", "custom_vjp_call") and "call_jaxpr" in equation.params:
        return equation.params["call_jaxpr"], stack  # gradients have been taken by now
    if equation.primitive.name not in ("pjit", "jit"):
        return None, stack
    return equation.params["jaxpr"], "/".join(part for part in (stack, f"jit({equation.params['name']})") if part)


def _labelled(jaxpr, scope):
    """Every equation with its label, calls of jitted functions opened."""
    for equation in jaxpr.eqns:
        inner, stack = _inner(equation, scope)
        if inner is None:
            yield _label(equation, stack), equation
        else:
            yield from _labelled(inner.jaxpr, stack)


def _label(equation, stack):
    """The words of the name stack and the primitive: XLA writes jvp(jit(silu)) for what is jvp()/jit(silu) here."""
    return "/".join(re.findall(r"[^/()]+", f"{stack}/{equation.primitive.name}"))


def _shape(equation):
    return equation.outvars[0].aval.shape if equation.outvars else ()


def _pins_of(label, shape, count):
    """The layouts of the operations of this label and shape; those of all where XLA has merged some of ``count``."""
    layouts = PINS.get(label, {}).get(shape, ())
    if len(layouts) == count:
        return iter(layouts)
    return iter(layouts[:1] * count if len(set(layouts)) == 1 else ())


def _run(jaxpr, consts, arguments, scope, pins, chosen):
    """One equation after the other; calls of jitted functions are opened."""
    known = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *arguments), strict=True))
    for equation in jaxpr.eqns:
        operands = [each.val if isinstance(each, Literal) else known[each] for each in equation.invars]
        inner, stack = _inner(equation, scope)
        if inner is not None:
            results = _run(inner.jaxpr, inner.consts, operands, stack, pins, chosen)
        else:
            layout, taken = next(pins[_label(equation, stack), _shape(equation)], (None, ()))
            if [len(each) for each in taken] == [np.ndim(each) for each in operands]:
                operands = [_constrained(*pair, chosen) for pair in zip(operands, taken, strict=True)]
            bound = equation.primitive.get_bind_params(equation.params)
            results = _bound(equation.primitive, bound, operands)
            results = [each if layout is None else _constrained(each, layout, chosen) for each in results]
        known.update(zip(equation.outvars, results, strict=True))
    return [each.val if isinstance(each, Literal) else known[each] for each in jaxpr.outvars]


def _bound(primitive, bound, operands):
    """The results of a primitive; its parameters came as (functions, parameters), and since JAX 0.11 as parameters."""
    functions, params = bound if isinstance(bound, tuple) else ((), bound)
    results = primitive.bind(*functions, *operands, **params)
    return results if primitive.multiple_results else [results]


def _constrained(value, layout, chosen):
    """A value in a layout; numbers have none."""
    if np.ndim(value) == 0 or np.ndim(value) != len(layout):
        return value
    return jax.lax.with_sharding_constraint(value, NamedSharding(chosen, layout))
