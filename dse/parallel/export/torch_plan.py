"""``plan_torch.py``: the plan as a module that a PyTorch program imports.

It holds the mesh, the DTensor placements of every parameter, buffer and input by its name, and for each module that
has parameters of its own the placements in which it takes its input and hands on its output. Everything else is
``templates/plan_torch.py`` as it is.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources

from dse.parallel.mesh import WHOLE, Layout
from dse.parallel.plan import Plan
from dse.parallel.prices import Prices
from dse.parallel.problem import ParallelProblem

_DOCSTRING = '''"""A parallel plan for {name} on {devices} devices ({mesh}), by dse parallel.

    from plan_torch import apply, distributed, mesh
    on = mesh("cuda")
    model = apply(model, on)
    optimizer = torch.optim.Adam(model.parameters())
    outputs = model(**distributed({{…}}, on))  # inputs by their names: {inputs}
    outputs.full_tensor()  # the loss, or what a loss outside of the model is computed from
"""'''

Placements = dict[str, Layout]
Pins = dict[str, dict[int, Layout]]


def torch_plan(problem: ParallelProblem, prices: Prices, plan: Plan) -> str:
    """The text of ``plan_torch.py``."""
    graph, mesh = problem.graph, problem.mesh
    template = resources.files("dse.parallel.export").joinpath("templates", "plan_torch.py").read_text()
    docstring, imports, rest = re.split(r"\n\n(?=from contextlib|AXES = )", template)
    del docstring
    laid = dict(zip((each.name for each in graph.arguments), plan.arguments, strict=True))
    inputs = [each.name for each in graph.arguments if each.role == "input"]
    taken, left = _pins(problem, prices, plan)
    styles = _styles(problem, laid, taken, left) if len(mesh.axes) == 1 else {}
    for path in styles:
        taken.pop(path, None)
        left.pop(path, None)
    constants = {
        "AXES = ()": f"AXES = {tuple(axis.name for axis in mesh.axes)}",
        "SIZES = ()": f"SIZES = {tuple(axis.size for axis in mesh.axes)}",
        "PARAMETERS = {}": _table("PARAMETERS", {name: laid[name] for name in _held(problem)}),
        "USED = {}": _table("USED", _used(problem, prices, plan)),
        "TAKEN = {}": _by_module("TAKEN", taken),
        "LEFT = {}": _by_module("LEFT", left),
        "STYLES = {}": "\n".join(["STYLES = {", *(f"    {path!r}: {each}," for path, each in styles.items()), "}"]),
        "INPUTS = {}": _table("INPUTS", {name: laid[name] for name in inputs}),
    }
    own = sorted({each.partition("(")[0] for each in styles.values()})
    if own:
        imports = imports.replace("import ParallelStyle", f"import {', '.join(own)}, ParallelStyle")
    for line, filled in constants.items():
        rest = rest.replace(f"{line}\n", f"{filled}\n", 1)
    about = _DOCSTRING.format(name=graph.name, devices=mesh.devices, mesh=mesh.text, inputs=", ".join(inputs))
    return "\n\n".join([about, imports, rest])


def _held(problem: ParallelProblem) -> list[str]:
    """The names of trained parameters; buffers are whole, and moments have the layout of their parameter."""
    return [each.name for each in problem.graph.trainable]


def _used(problem: ParallelProblem, prices: Prices, plan: Plan) -> Placements:
    """Parameters that a module's forward pass takes in another layout than their own."""
    graph = problem.graph
    parameters = {
        each.value: (each.name, layout)
        for each, layout in zip(graph.arguments, plan.arguments, strict=True)
        if each.role == "parameter"
    }
    tables = {each.operands[0] for each in graph.operations if each.opcode == "gather"}
    found: Placements = {}
    for label, value, layout in _taken(problem, prices, plan):
        name = parameters[value][0] if value in parameters else ""
        if name and name not in found and name.rpartition(".")[0] == label:
            found[name] = layout if value not in tables else _on_one_axis(layout)
    return {name: layout for value, (name, own) in parameters.items() if (layout := found.get(name, own)) != own}


def _on_one_axis(layout: Layout) -> Layout:
    """A table split by its rows along one axis at most: DTensor masks lookups no further."""
    rows = [axis for axis, dim in enumerate(layout) if dim == 0]
    return tuple(WHOLE if axis in rows[:-1] else dim for axis, dim in enumerate(layout))


def _pins(problem: ParallelProblem, prices: Prices, plan: Plan) -> tuple[Pins, Pins]:
    """By module and rank the layouts of its inputs and outputs: what it takes first, what is first taken of it."""
    graph = problem.graph
    own = {each.name.rpartition(".")[0] for each in graph.trainable} - {""}
    arguments = {each.value for each in graph.arguments if each.role != "input"}
    makers = {value: each.label for each in graph.operations for value in each.results}
    taken: Pins = {}
    left: Pins = {}
    for label, value, layout in _taken(problem, prices, plan):
        rank = len(graph.values[value].dims)
        if value in arguments or graph.values[value].constant or not rank:
            continue
        if label in own:
            taken.setdefault(label, {}).setdefault(rank, layout)
        maker = makers.get(value, "")
        if maker in own and maker != label:
            left.setdefault(maker, {}).setdefault(rank, layout)
    return taken, left


def _styles(problem: ParallelProblem, laid: Placements, taken: Pins, left: Pins) -> dict[str, str]:
    """Modules for which PyTorch has a name, on a mesh of one axis: linear layers and tables, split by their columns
    or rows, and modules with whole parameters whose samples or positions are split.
    """
    graph = problem.graph
    weights = {
        each.value: each.name.removesuffix(".weight") for each in graph.trainable if each.name.endswith(".weight")
    }
    kinds: dict[str, str] = {}
    for operation in graph.operations:
        for value in operation.operands:
            if weights.get(value) == operation.label and operation.opcode in ("dot", "gather", "broadcast"):
                kinds.setdefault(operation.label, operation.opcode)
    found: dict[str, str] = {}
    for path, kind in kinds.items():
        rank = max(left.get(path, {0: ()}))
        split, bias = laid[f"{path}.weight"][0], laid.get(f"{path}.bias")
        before, after = taken.get(path, {}).get(rank - (kind == "gather")), left.get(path, {}).get(rank)
        if before is None or after is None:
            continue
        name = _style(kind, rank, split, bias, before[0])
        if name == "SequenceParallel" and after == before:
            found[path] = f"{name}(sequence_dim={before[0]})"
        elif name and name != "SequenceParallel":
            layouts = f"input_layouts={_placement(before[0])}, output_layouts={_placement(after[0])}"
            found[path] = f"{name}({layouts}, use_local_output=False)"
    return found


def _style(kind: str, rank: int, split: int, bias: Layout | None, before: int) -> str:
    """The style of a module of this kind by the dimension of its weight that is split, and that of its input."""
    columns, rows = (0, 1) if kind == "dot" else (1, 0)
    if kind == "broadcast":
        return "SequenceParallel" if (split, bias or (WHOLE,)) == (WHOLE, (WHOLE,)) and 0 <= before < rank - 1 else ""
    if split == columns and before == WHOLE and bias in (None, (0,)):
        return "ColwiseParallel"
    if split == rows and before == (rank - 1 if kind == "dot" else WHOLE) and bias in (None, (WHOLE,)):
        return "RowwiseParallel"
    return ""


def _taken(problem: ParallelProblem, prices: Prices, plan: Plan) -> Iterator[tuple[str, int, Layout]]:
    """(module, value, layout) of every operand in the order of the step."""
    for operation, priced, choice in zip(problem.graph.operations, prices.priced, plan.choices, strict=True):
        if priced:
            for value, layout in zip(operation.operands, priced[choice].layouts.operands, strict=True):
                yield operation.label, value, layout


def _table(name: str, layouts: Mapping[str, Layout]) -> str:
    return "\n".join([f"{name} = {{", *(f"    {key!r}: {_placements(each)}," for key, each in layouts.items()), "}"])


def _by_module(name: str, pins: Pins) -> str:
    lines = [
        f"    {path!r}: {{{', '.join(f'{rank}: {_placements(each)}' for rank, each in by_rank.items())}}},"
        for path, by_rank in pins.items()
    ]
    return "\n".join([f"{name} = {{", *lines, "}"])


def _placements(layout: Sequence[int]) -> str:
    entries = [_placement(dim) for dim in layout]
    return f"({', '.join(entries)}{',' * (len(entries) == 1)})"


def _placement(dim: int) -> str:
    return "R()" if dim == WHOLE else f"S({dim})"
