"""A plan of ``dse parallel`` run by JAX on CPU devices, next to the step on one device.

``python -m benchmarks.hlo.run_plan NAME DIR`` takes ``plan_jax.py`` and ``result.json`` from DIR, a run directory of a
plan for the step NAME of :mod:`benchmarks.hlo.steps`, and prints the largest difference of any result, relative to the
largest number in it, the bytes of arguments on a device as XLA counts them next to those of the plan, and collectives
in the compiled program, by kind and by the axes of the mesh along which they run.
"""

import importlib.util
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

BYTES = {"f32": 4, "s32": 4, "u32": 4, "pred": 1, "bf16": 2, "f16": 2}
_COLLECTIVE = re.compile(r"= (.*?) (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(?:-start)?\(")
_LISTED = re.compile(r"replica_groups=\{\{([\d,]+)\}")
_IOTA = re.compile(r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_MESH = re.compile(r"replica_groups=mesh\[(.*?)\](?:, device_ids=\(\[([\d,]+)\](?:T\(([\d,]+)\))?\))? \{(.*?)\}")
_IN_PARTS = ("reduce-scatter", "all-to-all")
"""Kinds whose result is one device's part of what its group holds together."""


@dataclass(frozen=True)
class Comparison:
    """A plan on devices next to the step on one device.

    Attributes:
        difference: the largest of any result, relative to the largest number in it.
        losses: on one device, and by the plan.
        argument_bytes: on a device, as XLA counts them.
        collectives: of the compiled program, by kind and axes, the bytes that groups of devices hold together.
    """

    difference: float
    losses: tuple[float, float]
    argument_bytes: int
    collectives: dict[str, int]


def values_of(shapes: Any) -> Any:
    """Numbers for arguments of these shapes: small ones; whole ones from 0 to 1."""
    import jax
    import jax.numpy as jnp

    leaves, tree = jax.tree_util.tree_flatten(shapes)
    keys = jax.random.split(jax.random.key(0), len(leaves))
    made = [
        jax.random.randint(key, leaf.shape, 0, 2, leaf.dtype)
        if jnp.issubdtype(leaf.dtype, jnp.integer)
        else 0.1 * jax.random.normal(key, leaf.shape, leaf.dtype)
        for key, leaf in zip(keys, leaves, strict=True)
    ]
    parameters, moments, batch = jax.tree_util.tree_unflatten(tree, made)
    # Squares of gradients are not negative.
    return parameters, jax.tree_util.tree_map(abs, moments), batch


def collectives(text: str, sizes: dict[str, int]) -> Counter[tuple[str, str]]:
    """Bytes that groups of devices hold together in collectives of compiled HLO, by (kind, axes)."""
    found: Counter[tuple[str, str]] = Counter()
    for kind, axes, size in collectives_of(text, sizes):
        found[kind, axes] += size
    return found


def collectives_of(text: str, sizes: dict[str, int]) -> Iterator[tuple[str, str, int]]:
    """Every collective of compiled HLO: kind, axes, and the bytes that a group of devices holds together."""
    for line in text.splitlines():
        if match := _COLLECTIVE.search(line):
            axes, kind = axes_of(line, sizes), match.group(2)
            parts = prod(sizes[axis] for axis in axes) if kind in _IN_PARTS else 1
            size = sum(
                BYTES[dtype] * prod(int(each) for each in dims.split(",") if each)
                for dtype, dims in re.findall(r"(\w+)\[([\d,]*)\]", match.group(1))
            )
            yield kind.replace("-", "_"), "+".join(axes), parts * size


def axes_of(line: str, sizes: dict[str, int]) -> tuple[str, ...]:
    """The axes of a mesh along which a collective of compiled HLO runs, from its replica groups in any notation."""
    places = np.unravel_index(_group(line, prod(sizes.values())), tuple(sizes.values()))
    return tuple(name for name, place in zip(sizes, places, strict=True) if len(set(place.tolist())) > 1)


def _group(line: str, devices: int) -> Any:
    """The devices of the first replica group: listed, cut from a numbered grid, or along axes of XLA's own mesh."""
    if match := _LISTED.search(line):
        return np.array(_numbers(match.group(1)))
    if match := _IOTA.search(line):
        groups, grid, order = map(_numbers, match.groups())
        return _grid(grid, order).reshape(groups)[0]
    if match := _MESH.search(line):
        axes = re.findall(r"'?(\w+)'?=(\d+)", match.group(1))
        along = re.findall(r"\w+", match.group(4))
        ids = _grid(_numbers(match.group(2)) or [devices], _numbers(match.group(3)))
        whole = tuple(slice(None) if name in along else 0 for name, _ in axes)
        return ids.reshape([int(size) for _, size in axes])[whole].ravel()
    return np.arange(devices)


def _grid(sizes: list[int], order: list[int]) -> Any:
    return np.arange(prod(sizes)).reshape(sizes).transpose(order or range(len(sizes)))


def _numbers(text: str | None) -> list[int]:
    return [int(each) for each in (text or "").split(",") if each]


def loaded_plan(folder: Path) -> tuple[Any, dict[str, int]]:
    """``plan_jax.py`` of a run directory, and the sizes of its axes; before JAX is imported, which gets its devices."""
    result = json.loads((folder / "result.json").read_text())
    sizes = {axis: int(size) for axis, size in (each.split("=") for each in result["solution"]["mesh"].split(","))}
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={prod(sizes.values())}"
    spec = importlib.util.spec_from_file_location("plan_jax", folder / "plan_jax.py")
    plan = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plan)
    return plan, sizes


def compared(name: str, folder: Path) -> Comparison:
    """The plan in a run directory next to the step on one device; before JAX is imported."""
    plan, sizes = loaded_plan(folder)
    import jax

    from benchmarks.hlo.steps import STEPS

    step, shapes = STEPS[name]()
    arguments = values_of(shapes)
    alone = jax.jit(step)(*arguments)
    planned = plan.apply(step, *arguments)
    spread = jax.device_put(arguments, plan.shardings(step, *arguments))
    together = planned(*spread)
    worst = 0.0
    for one, other in zip(jax.tree_util.tree_leaves(alone), jax.tree_util.tree_leaves(together), strict=True):
        scale = max(float(np.abs(one).max(initial=0.0)), 1e-30)
        worst = max(worst, float(np.abs(np.asarray(one) - np.asarray(other)).max(initial=0.0)) / scale)
    compiled = planned.lower(*spread).compile()
    sent = collectives(compiled.as_text(), sizes)
    return Comparison(
        worst,
        (float(alone[-1]), float(together[-1])),
        int(compiled.memory_analysis().argument_size_in_bytes),
        {f"{kind} {axes}": size for (kind, axes), size in sorted(sent.items())},
    )


def main(name: str, folder: Path) -> int:
    """Run both and print."""
    metrics = json.loads((folder / "result.json").read_text())["metrics"]
    found = compared(name, folder)
    one, other = found.losses
    print(f"largest relative difference {found.difference:.2e}; loss {one:.6f} and {other:.6f}")
    print(f"argument bytes on a device: XLA {found.argument_bytes:,}, plan {metrics['state_bytes']:,}")
    for key, size in found.collectives.items():
        kind, _, axes = key.partition(" ")
        print(f"compiled  {kind:20} {size:14,}  {axes}")
    for each in metrics["collectives"]:
        print(f"plan      {each['kind']:20} {each['bytes']:14,}  {each['axes']}, {each['cause']}")
    return 0 if found.difference <= 1e-5 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
