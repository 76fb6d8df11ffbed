"""``plan_torch.py``: the plan as a module that a PyTorch program imports.

It holds the mesh, the DTensor placements of every parameter and input by its name, which of them ``fully_shard`` holds,
and for each module that has parameters of its own the placements in which it takes its input and hands on its output.
Everything else is ``templates/plan_torch.py`` as it is.
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
    outputs = model(**distributed({{…}}, on))  # keyword inputs: {inputs}
    outputs.full_tensor()  # the loss, or the input of a loss outside the model

Moments have the layouts of their parameters; buffers are replicated.
"""'''

MOMENTS = ("exp_avg", "exp_avg_sq", "momentum_buffer")
"""What optimizers keep of a parameter, by the first part of the argument's name."""

Placements = dict[str, Layout]
Pins = dict[str, dict[int, Layout]]


def torch_plan(problem: ParallelProblem, prices: Prices, plan: Plan) -> str:
    """The text of ``plan_torch.py``."""
    graph, mesh = problem.graph, problem.mesh
    template = resources.files("dse.parallel.export").joinpath("templates", "plan_torch.py").read_text()
    docstring, imports, rest = re.split(r"\n\n(?=import copy|AXES = )", template)
    del docstring
    laid = dict(zip((each.name for each in graph.arguments), plan.arguments, strict=True))
    held = {each.name: _held(each.name, laid) for each in graph.trainable}
    inputs = [each.name for each in graph.arguments if each.role == "input"]
    taken, left = _pins(problem, prices, plan)
    used = _used(problem, prices, plan, held)
    sharded = _fully_sharded(problem, laid, held, used, taken)
    styles = _styles(problem, held, taken, left) if len(mesh.axes) == 1 else {}
    for path in styles:
        taken.pop(path, None)
        left.pop(path, None)
    constants = {
        "AXES = ()": f"AXES = {tuple(axis.name for axis in mesh.axes)}",
        "SIZES = ()": f"SIZES = {tuple(axis.size for axis in mesh.axes)}",
        "PARAMETERS = {}": _table("PARAMETERS", held),
        "USED = {}": _table("USED", used),
        "SHARDED = {}": "\n".join(
            ["SHARDED = {", *(f"    {name!r}: {axis!r}," for name, axis in sharded.items()), "}"]
        ),
        "TAKEN = {}": _by_module("TAKEN", taken),
        "LEFT = {}": _by_module("LEFT", left),
        "STYLES = {}": "\n".join(["STYLES = {", *(f"    {path!r}: {each}," for path, each in styles.items()), "}"]),
        "INPUTS = {}": _table("INPUTS", {name: laid[name] for name in inputs}),
    }
    own = sorted({each.partition("(")[0] for each in styles.values()})
    if own:
        imports = imports.replace("import parallelize_module", f"import {', '.join(own)}, parallelize_module")
    for line, filled in constants.items():
        rest = rest.replace(f"{line}\n", f"{filled}\n", 1)
    about = _DOCSTRING.format(name=graph.name, devices=mesh.devices, mesh=mesh.text, inputs=", ".join(inputs))
    return "\n\n".join([about, imports, rest])


def _held(name: str, laid: Placements) -> Layout:
    """The layout in which a parameter is held between steps, which its moments take too.

    It is that of its moments where these are split further, as ZeRO-1 has it: then the parameter is gathered for the
    forward pass, in place of its new value after the step. Otherwise it is its own.
    """
    own = laid[name]
    moments = {laid[f"{moment}.{name}"] for moment in MOMENTS if f"{moment}.{name}" in laid}
    layout = min(moments, default=own)
    is_further = all(mine in (WHOLE, split) for mine, split in zip(own, layout, strict=True))
    return layout if len(moments) == 1 and is_further else own


def _used(problem: ParallelProblem, prices: Prices, plan: Plan, held: Placements) -> Placements:
    """Parameters that a module's forward pass takes in another layout than the one in which they are held."""
    graph = problem.graph
    parameters = {
        each.value: (each.name, layout)
        for each, layout in zip(graph.arguments, plan.arguments, strict=True)
        if each.role == "parameter"
    }
    tables = {each.operands[0] for each in graph.operations if each.opcode == "gather"}
    first_layout: Placements = {}
    for label, value, layout in _taken(problem, prices, plan):
        name = parameters[value][0] if value in parameters else ""
        if name and name not in first_layout and name.rpartition(".")[0] == label:
            first_layout[name] = layout if value not in tables else _on_one_axis(layout)
    return {
        name: layout
        for name, own in parameters.values()
        if name in held and (layout := first_layout.get(name, own)) != held[name]
    }


def _fully_sharded(
    problem: ParallelProblem, laid: Placements, held: Placements, used: Placements, taken: Pins
) -> dict[str, tuple[str, bool]]:
    """Parameters that differ from what the forward pass takes in being split along one axis, that of their module.

    The module's input is split along this axis too, so that gradients are terms. Where there are several such axes, it
    is the one along which most bytes of the module are gathered. Its name is followed by whether the plan gathers one
    of the module's parameters for every use (ZeRO-3), and not once per step (ZeRO-1).
    """
    axes = problem.mesh.axes
    gathered: dict[str, dict[int, dict[str, int]]] = {}
    for each in problem.graph.trainable:
        own, needed = held[each.name], used.get(each.name, held[each.name])
        module = each.name.rpartition(".")[0]
        differing = [axis for axis in range(len(axes)) if own[axis] != needed[axis]]
        if not module or len(differing) != 1 or needed[differing[0]] != WHOLE:
            continue
        axis = differing[0]
        if any(layout[axis] != WHOLE for layout in taken.get(module, {}).values()):
            sizes = gathered.setdefault(module, {}).setdefault(axis, {})
            sizes[each.name] = problem.graph.values[each.value].size_bytes
    sharded: dict[str, tuple[str, bool]] = {}
    for by_axis in gathered.values():
        axis = max(by_axis, key=lambda each: sum(by_axis[each].values()))
        is_gathered_again = any(laid[name][axis] != WHOLE for name in by_axis[axis])
        sharded |= dict.fromkeys(by_axis[axis], (axes[axis].name, is_gathered_again))
    return sharded


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
    styles: dict[str, str] = {}
    for path, kind in kinds.items():
        rank = max(left.get(path, {0: ()}))
        split, bias = laid[f"{path}.weight"][0], laid.get(f"{path}.bias")
        before, after = taken.get(path, {}).get(rank - (kind == "gather")), left.get(path, {}).get(rank)
        if before is None or after is None:
            continue
        name = _style(kind, rank, split, bias, before[0])
        if name == "SequenceParallel" and after == before:
            styles[path] = f"{name}(sequence_dim={before[0]})"
        elif name and name != "SequenceParallel":
            layouts = f"input_layouts={_placement(before[0])}, output_layouts={_placement(after[0])}"
            styles[path] = f"{name}({layouts}, use_local_output=False)"
    return styles


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
