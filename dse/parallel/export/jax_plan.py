"""``plan_jax.py``: the plan as a module that a JAX program imports.

It holds the mesh, a PartitionSpec for each argument by its name, and for each product, convolution, lookup, update and
reduction the PartitionSpec of its result, by the label that JAX gave the operation (its name stack) and its shape.
Everything else is ``templates/plan_jax.py`` as it is: an interpreter over the step's jaxpr that constrains those
results, without touching the user's code.
"""

import re
from collections import defaultdict
from importlib import resources

from dse.parallel.mesh import Layout, Mesh
from dse.parallel.plan import Plan
from dse.parallel.prices import Prices
from dse.parallel.problem import ParallelProblem
from dse.parallel.storage import FUSED

PRIMITIVES = {
    "dot_general", "conv_general_dilated", "gather", "scatter-add", "scatter", "reduce_sum", "reduce_max", "reduce_min",
}  # fmt: skip
"""Primitives of JAX whose results are pinned; whatever is fused with them follows."""

_DOCSTRING = '''"""A parallel plan for {name} on {devices} devices ({mesh}), by dse parallel.

    from plan_jax import apply
    step = apply(step, parameters, …)  # jitted by the plan; its arguments, or their shapes
"""'''


def jax_plan(problem: ParallelProblem, prices: Prices, plan: Plan) -> str:
    """The text of ``plan_jax.py``."""
    graph, mesh = problem.graph, problem.mesh
    arguments = [
        f"    {argument.name!r}: {_spec(mesh, layout, len(graph.values[argument.value].dims))},"
        for argument, layout in zip(graph.arguments, plan.arguments, strict=True)
    ]
    template = resources.files("dse.parallel.export").joinpath("templates", "plan_jax.py").read_text()
    docstring, imports, rest = re.split(r"\n\n(?=import inspect|AXES = )", template)
    del docstring
    constants = {
        "AXES = ()": f"AXES = {tuple(axis.name for axis in mesh.axes)}",
        "SIZES = ()": f"SIZES = {tuple(axis.size for axis in mesh.axes)}",
        "ARGUMENTS = {}": "\n".join(["ARGUMENTS = {", *arguments, "}"]),
        "PINS = {}": "\n".join(["PINS = {", *_pins(problem, prices, plan), "}"]),
    }
    for line, filled in constants.items():
        rest = rest.replace(f"{line}\n", f"{filled}\n", 1)
    about = _DOCSTRING.format(name=graph.name, devices=mesh.devices, mesh=mesh.text)
    return "\n\n".join([about, imports, rest])


def _pins(problem: ParallelProblem, prices: Prices, plan: Plan) -> list[str]:
    graph = problem.graph
    layouts: dict[str, dict[tuple[int, ...], list[str]]] = defaultdict(lambda: defaultdict(list))
    for operation, priced, choice in zip(graph.operations, prices.priced, plan.choices, strict=True):
        scope, _, rest = operation.label.partition("/")
        primitive = rest.rpartition("/")[2]
        if not priced or operation.opcode in FUSED or primitive not in PRIMITIVES or not scope.startswith("jit("):
            continue
        dims = graph.values[operation.results[0]].dims
        layout = priced[choice].layouts.results[0]
        layouts[rest][dims].append(_spec(problem.mesh, layout, len(dims)))
    lines = []
    for label, by_shape in layouts.items():
        entries = [f"{dims}: [{', '.join(specs)}]" for dims, specs in by_shape.items()]
        lines.append(f"    {label!r}: {{{', '.join(entries)}}},")
    return lines


def _spec(mesh: Mesh, layout: Layout, rank: int) -> str:
    entries = [
        "None" if not axes else repr(axes[0]) if len(axes) == 1 else repr(axes) for axes in mesh.spec(layout, rank)
    ]
    return f"P({', '.join(entries)})"
