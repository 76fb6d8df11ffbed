"""Linkage groups next to what Shardy's propagation splits together: an oracle for the rules of operations.

``python -m benchmarks.hlo.classes NAME …`` lowers each step once. For every linkage group that holds a dimension of an
argument and can be split, Shardy is given that one dimension as split, propagates it through the step (the passes are
inside the wheel of jaxlib; no device is needed), and must have split the same dimensions of arguments as the group has.
Each group has a run of its own, so that no other one can come between.
"""

import re
import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

from jax.extend.mlir import ir, passmanager

from benchmarks.hlo.steps import lowered
from dse.graph.step import StepGraph
from dse.importer.hlo.flatten import step_graph
from dse.importer.hlo.text import parse_hlo
from dse.sharding.linkage import linkage

PASSES = "builtin.module(inline,sdy-propagation-pipeline)"
AXIS = "x"

_DIM = re.compile(r"\{([^}]*)\}")


class Dim(NamedTuple):
    """A dimension of an argument, by its number."""

    argument: int
    dim: int


@dataclass(frozen=True)
class Difference:
    """Dimensions of arguments on which a group and Shardy differ, as ``name[dim]``."""

    seed: str
    ours_alone: tuple[str, ...]
    shardys_alone: tuple[str, ...]


@dataclass(frozen=True)
class Agreement:
    """The groups of a step.

    Attributes:
        compared: how many were.
        differences: of those that are not the same.
        unsplit: how many cannot be split: a dimension that has to be whole, no multiple, or the same value twice.
    """

    compared: int
    differences: tuple[Difference, ...]
    unsplit: int


def agreement(name: str, parts: int = 2) -> Agreement:
    """The groups of the step NAME of :mod:`benchmarks.hlo.steps`, each split into so many parts."""
    step = lowered(name)
    graph = step_graph(parse_hlo(step.compiler_ir("hlo").get_hlo_module().to_string(), name), name)
    module = step.compiler_ir("stablehlo")
    text, numbers = str(module), {each.value: number for number, each in enumerate(graph.arguments)}
    compared, unsplit, differences = 0, 0, []
    for group in linkage(graph, name).groups:
        ours = {Dim(numbers[value], dim) for value, dim in group.places if value in numbers}
        if not ours:
            continue
        if not group.allows(parts):
            unsplit += 1
            continue
        with module.context:
            shardys = propagated(ir.Module.parse(text), min(ours), parts)
        compared += 1
        if shardys != ours:
            names = [_names(graph, dims) for dims in ({min(ours)}, ours - shardys, shardys - ours)]
            differences.append(Difference(names[0][0], *names[1:]))
    return Agreement(compared, tuple(differences), unsplit)


def propagated(module: Any, seed: Dim, parts: int) -> set[Dim]:
    """The dimensions of arguments of ``module`` that are split once ``seed`` is; the module is changed."""
    main = _main(module)
    ranks = [len(ir.RankedTensorType(each).shape) for each in ir.FunctionType(_type(main)).inputs]
    given = [{entry.name: entry.attr for entry in each} for each in _attributes(main, len(ranks))]
    spec = ", ".join(f'{{"{AXIS}"}}' if dim == seed.dim else "{?}" for dim in range(ranks[seed.argument]))
    given[seed.argument]["sdy.sharding"] = ir.Attribute.parse(f"#sdy.sharding<@mesh, [{spec}]>")
    main.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(each) for each in given])
    mesh = ir.Operation.parse(f'sdy.mesh @mesh = <["{AXIS}"={parts}]>')
    ir.InsertionPoint.at_block_begin(module.body).insert(mesh)
    passmanager.PassManager.parse(PASSES).run(module.operation)
    return {
        Dim(number, dim)
        for number, attributes in enumerate(_attributes(_main(module), len(ranks)))
        for entry in attributes
        if entry.name == "sdy.sharding"
        for dim, axes in enumerate(_DIM.findall(str(entry.attr).partition("[")[2]))
        if f'"{AXIS}"' in axes
    }


def _main(module: Any) -> Any:
    functions = (each.operation for each in module.body.operations if each.operation.name == "func.func")
    return next(each for each in functions if ir.StringAttr(each.attributes["sym_name"]).value == "main")


def _type(function: Any) -> Any:
    return ir.TypeAttr(function.attributes["function_type"]).value


def _attributes(function: Any, arguments: int) -> list[Any]:
    if "arg_attrs" not in function.attributes:
        return [ir.DictAttr.get({})] * arguments
    return [ir.DictAttr(each) for each in ir.ArrayAttr(function.attributes["arg_attrs"])]


def _names(graph: StepGraph, dims: set[Dim]) -> tuple[str, ...]:
    return tuple(f"{graph.arguments[each.argument].name}[{each.dim}]" for each in sorted(dims))


def main(names: list[str]) -> int:
    """Print a line for each step, and every difference."""
    different = 0
    for name in names:
        found = agreement(name)
        same = found.compared - len(found.differences)
        print(f"{name:12} {same} of {found.compared} groups alike; {found.unsplit} cannot be split", flush=True)
        for each in found.differences:
            ours, shardys = (", ".join(names) or "nothing" for names in (each.ours_alone, each.shardys_alone))
            print(f"  from {each.seed}: linked here alone: {ours}; by Shardy alone: {shardys}")
        different += len(found.differences)
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
