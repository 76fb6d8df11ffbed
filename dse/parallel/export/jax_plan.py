"""``plan_jax.py``: the plan as a module that a JAX program imports.

It holds the mesh, a PartitionSpec for each argument by its name, and those of results by the label that JAX gave an
operation (its name stack) and the shape of its result: of products, convolutions, lookups, updates and reductions, from
which propagation finds the rest; of a plan that reshards, of every operation that is one primitive, and of what it
takes. All else is ``templates/plan_jax.py`` as it is: an interpreter over the step's jaxpr that constrains these,
without touching the user's code.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from importlib import resources
from operator import itemgetter

from dse.parallel.mesh import Layout, Mesh
from dse.parallel.plan import Plan
from dse.parallel.prices import Prices
from dse.parallel.problem import ParallelProblem
from dse.parallel.storage import FUSED

_PRIMITIVES: Mapping[str, tuple[str, ...]] = {
    "add": ("add", "add_any"), "subtract": ("sub",), "multiply": ("mul",), "divide": ("div",), "maximum": ("max",),
    "minimum": ("min",), "negate": ("neg",), "exponential": ("exp",), "exponential-minus-one": ("expm1",),
    "log": ("log",), "log-plus-one": ("log1p",), "tanh": ("tanh",), "logistic": ("logistic",), "rsqrt": ("rsqrt",),
    "sqrt": ("sqrt",), "power": ("pow",), "cosine": ("cos",), "sine": ("sin",), "abs": ("abs",), "sign": ("sign",),
    "erf": ("erf",), "compare": ("eq", "ne", "lt", "le", "gt", "ge"), "select": ("select_n",), "clamp": ("clamp",),
    "convert": ("convert_element_type",), "and": ("and",), "or": ("or",), "not": ("not",),
    "dot": ("dot_general",), "convolution": ("conv_general_dilated",), "broadcast": ("broadcast_in_dim",),
    "reduce": ("reduce_sum", "reduce_max", "reduce_min", "reduce_and", "reduce_or"), "transpose": ("transpose",),
    "reshape": ("reshape", "squeeze", "expand_dims", "broadcast_in_dim"), "slice": ("slice",), "pad": ("pad",),
    "concatenate": ("concatenate",), "dynamic-slice": ("dynamic_slice",), "gather": ("gather",),
    "dynamic-update-slice": ("dynamic_update_slice",), "scatter": ("scatter", "scatter-add"), "reverse": ("rev",),
    "reduce-window": ("reduce_window_max", "reduce_window_sum"), "select-and-scatter": ("select_and_scatter_add",),
}  # fmt: skip
"""By opcode the primitives of JAX that are one such operation; others become several, of which none is pinned."""

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
    graph, mesh = problem.graph, problem.mesh
    layouts: dict[str, dict[tuple[int, ...], list[tuple[tuple[int, int], str]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    resharding = _reshards(problem, prices, plan)
    for operation, priced, choice in zip(graph.operations, prices.priced, plan.choices, strict=True):
        scope, _, rest = operation.label.partition("/")
        primitives = _PRIMITIVES.get(operation.opcode, ())
        if not priced or rest.rpartition("/")[2] not in primitives or not scope.startswith("jit("):
            continue
        if operation.opcode in FUSED and not resharding:
            continue
        of, result = priced[choice].layouts, graph.values[operation.results[0]]
        # A primitive takes no initial values.
        count = len(operation.results) if operation.opcode.startswith("reduce") else len(operation.operands)
        count *= resharding
        ranks = [len(graph.values[value].dims) for value in operation.operands[:count]]
        operands = [_spec(mesh, layout, rank) for layout, rank in zip(of.operands[:count], ranks, strict=True)]
        text = f"({_spec(mesh, of.results[0], len(result.dims))}, ({''.join(f'{each}, ' for each in operands)}))"
        layouts["/".join(re.findall(r"[^/()]+", rest))][result.dims].append((_traced(result.name), text))
    lines = []
    for label, by_shape in layouts.items():
        entries = [
            f"{dims}: [{', '.join(text for _, text in sorted(pins, key=itemgetter(0)))}]"
            for dims, pins in by_shape.items()
        ]
        lines.append(f"    {label!r}: {{{', '.join(entries)}}},")
    return lines


def _reshards(problem: ParallelProblem, prices: Prices, plan: Plan) -> bool:
    """Whether an operation takes a value in another layout than it is made in; propagation finds all else by itself."""
    graph = problem.graph
    made = {each.value: layout for each, layout in zip(graph.arguments, plan.arguments, strict=True)}
    for operation, priced, choice in zip(graph.operations, prices.priced, plan.choices, strict=True):
        if priced:
            of = priced[choice].layouts
            taken = zip(operation.operands, of.operands, strict=True)
            if any(made.get(value, layout) != layout for value, layout in taken):
                return True
            made.update(zip(operation.results, of.results, strict=True))
    return False


def _traced(name: str) -> tuple[int, int]:
    """The place of an instruction in the order of tracing: XLA numbers names in it, and writes them in another.

    Of several calls of one function the place of the call follows.
    """
    number, _, call = name.rpartition(".")[2].partition("~")
    return int(number) if number.isdecimal() else 0, int(call or 1)


def _spec(mesh: Mesh, layout: Layout, rank: int) -> str:
    entries = [
        "None" if not axes else repr(axes[0]) if len(axes) == 1 else repr(axes) for axes in mesh.spec(layout, rank)
    ]
    return f"P({', '.join(entries)})"
