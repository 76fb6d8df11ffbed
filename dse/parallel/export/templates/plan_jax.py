"""The template of ``plan_jax.py``: a plan without arguments on no devices."""

import inspect
import math
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
"""By label and shape the layouts of results, in the order in which the step computes them."""


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
        met = Counter()
        values = _run(traced.jaxpr, traced.consts, jax.tree_util.tree_leaves(arguments), "", met, chosen)
        return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(shape), values)

    return run


def _run(jaxpr, consts, arguments, scope, met, chosen):
    """One equation after the other; calls of jitted functions are opened."""
    known = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *arguments), strict=True))
    for equation in jaxpr.eqns:
        operands = [each.val if isinstance(each, Literal) else known[each] for each in equation.invars]
        stack = "/".join(part for part in (scope, str(equation.source_info.name_stack)) if part)
        inner = equation.params.get("jaxpr") if equation.primitive.name in ("pjit", "jit") else None
        if inner is not None:
            name = "/".join(part for part in (stack, f"jit({equation.params['name']})") if part)
            results = _run(inner.jaxpr, inner.consts, operands, name, met, chosen)
        else:
            bound = equation.primitive.get_bind_params(equation.params)
            results = _bound(equation.primitive, bound, operands)
            label = "/".join(part for part in (stack, equation.primitive.name) if part)
            results = [_constrained(label, met, each, chosen) for each in results] if label in PINS else results
        known.update(zip(equation.outvars, results, strict=True))
    return [each.val if isinstance(each, Literal) else known[each] for each in jaxpr.outvars]


def _bound(primitive, bound, operands):
    """The results of a primitive; its parameters came as (functions, parameters), and since JAX 0.11 as parameters."""
    functions, params = bound if isinstance(bound, tuple) else ((), bound)
    results = primitive.bind(*functions, *operands, **params)
    return results if primitive.multiple_results else [results]


def _constrained(label, met, value, chosen):
    """A result in the layout that the plan has for the next operation of this label and shape."""
    layouts = PINS[label].get(value.shape, ())
    place = met[label, value.shape]
    met[label, value.shape] += 1
    if place >= len(layouts):
        return value
    return jax.lax.with_sharding_constraint(value, NamedSharding(chosen, layouts[place]))
