"""Shardy's explicit collectives of a plan, next to ours: an oracle for what plans are priced by.

``python -m benchmarks.hlo.shardy NAME RESULT.json`` lowers the step NAME of :mod:`benchmarks.hlo.steps` with the
layouts of its arguments that RESULT has, lets Shardy propagate them and make every collective explicit (the passes are
inside the wheel of jaxlib; no device is needed), and prints runs and bytes by kind and axes, Shardy's and RESULT's.
:func:`collectives` tells them apart by their bytes too.
"""

import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import jax
from jax.extend.mlir import passmanager
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec

from benchmarks.hlo.steps import STEPS

PASSES = (
    "builtin.module(inline,sdy-propagation-pipeline,"
    "func.func(sdy-insert-explicit-reshards{enable-full-version=true},sdy-reshard-to-collectives))"
)
ARGUMENTS = ("parameters", "moments", "batch")
BYTES = {"f32": 4, "i32": 4, "ui32": 4, "i1": 1, "bf16": 2, "f16": 2}


class Sent(NamedTuple):
    """A collective: its kind, the axes along which it runs, and the bytes that a group of devices holds together."""

    kind: str
    axes: tuple[str, ...]
    size_bytes: int


_FUNCTION = re.compile(r"func\.func (?:public |private )?@(\S+?)\(")
_CALL = re.compile(r"call @(\w+)\(")
_COLLECTIVE = re.compile(r"sdy\.(all_reduce|all_gather|reduce_scatter|all_to_all|collective_permute)\b")


def partitioned(name: str, solution: dict[str, Any]) -> str:
    """The step after Shardy's partitioner, as text."""
    sizes = mesh_sizes(solution)
    mesh = AbstractMesh(tuple(sizes.values()), tuple(sizes))
    step, arguments = STEPS[name]()

    def layouts(root: str, tree: Any) -> Any:
        def layout(path: Any, _: Any) -> NamedSharding:
            spec = solution["arguments"][root + jax.tree_util.keystr(path)]
            return NamedSharding(mesh, PartitionSpec(*(tuple(dim) or None for dim in spec)))

        return jax.tree_util.tree_map_with_path(layout, tree)

    given = tuple(layouts(root, tree) for root, tree in zip(ARGUMENTS, arguments, strict=True))
    left = (given[0], given[1], NamedSharding(mesh, PartitionSpec()))
    traced = jax.jit(step, in_shardings=given, out_shardings=left).trace(*arguments)
    module = traced.lower(lowering_platforms=("cpu",)).compiler_ir("stablehlo")
    with module.context:
        passmanager.PassManager.parse(PASSES).run(module.operation)
    return str(module)


def collectives(text: str, sizes: dict[str, int]) -> Counter[Sent]:
    """How often a module runs each collective on a mesh of these ``sizes``, also in functions that it calls."""
    own: dict[str, list[Sent]] = defaultdict(list)
    calls: dict[str, list[str]] = defaultdict(list)
    function = ""
    for line in text.splitlines():
        if match := _FUNCTION.search(line):
            function = match.group(1)
        calls[function] += _CALL.findall(line)
        if match := _COLLECTIVE.search(line):
            before, _, after = line.partition("out_sharding")
            axes = tuple(re.findall(r'"(\w+)"', before))
            others = set(re.findall(r'"(\w+)"', after)) - set(axes)
            own[function].append(Sent(match.group(1), axes, _bytes(line) // prod(sizes[axis] for axis in others)))

    def all_of(name: str) -> Iterator[Sent]:
        yield from own[name]
        for callee in calls[name]:
            yield from all_of(callee)

    return Counter(all_of("main"))


def summed(sent: Counter[Sent]) -> dict[tuple[str, tuple[str, ...]], tuple[int, int]]:
    """(runs, bytes) of each (kind, axes)."""
    runs: Counter[tuple[str, tuple[str, ...]]] = Counter()
    totals: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for each, count in sent.items():
        runs[each.kind, each.axes] += count
        totals[each.kind, each.axes] += count * each.size_bytes
    return {key: (runs[key], totals[key]) for key in runs}


def mesh_sizes(solution: dict[str, Any]) -> dict[str, int]:
    """The devices along each axis of a solution's mesh."""
    pairs = (axis.split("=") for axis in solution["mesh"].split(","))
    return {axis: int(size) for axis, size in pairs}


def _bytes(line: str) -> int:
    *dims, dtype = re.findall(r"tensor<([^>]*)>", line)[-1].split("x")
    size = BYTES[dtype]
    for dim in dims:
        size *= int(dim)
    return size


def main(name: str, path: Path) -> None:
    """Print both."""
    result = json.loads(path.read_text())
    found = collectives(partitioned(name, result["solution"]), mesh_sizes(result["solution"]))
    for (kind, axes), (runs, size) in sorted(summed(found).items()):
        print(f"Shardy  {kind:15} {'+'.join(axes):12} {runs:6,} {size:18,}")
    for each in result["metrics"]["collectives"]:
        print(f"dse     {each['kind']:15} {each['axes']:12} {each['runs']:6,} {each['bytes']:18,}  {each['cause']}")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
