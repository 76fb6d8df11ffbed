"""A plan of ``dse parallel`` run by JAX on CPU devices, beside the step on one device.

``python -m benchmarks.hlo.run_plan NAME DIR`` takes ``plan_jax.py`` and ``result.json`` from DIR, a run directory of a
plan for the step NAME of :mod:`benchmarks.hlo.steps`, and prints the largest difference of any result, relative to the
largest number in it, the bytes of arguments on a device as XLA counts them beside those of the plan, and collectives in
the compiled program.
"""

import importlib.util
import json
import os
import re
import sys
from collections import Counter
from math import prod
from pathlib import Path
from typing import Any

BYTES = {"f32": 4, "s32": 4, "u32": 4, "pred": 1, "bf16": 2, "f16": 2}
_COLLECTIVE = re.compile(r"= (.*?) (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(?:-start)?\(")


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


def collectives(text: str) -> Counter[str]:
    """Bytes of the results of collectives in compiled HLO, by kind."""
    found: Counter[str] = Counter()
    for line in text.splitlines():
        if match := _COLLECTIVE.search(line):
            for dtype, sizes in re.findall(r"(\w+)\[([\d,]*)\]", match.group(1)):
                found[match.group(2)] += BYTES[dtype] * prod(int(size) for size in sizes.split(",") if size)
    return found


def main(name: str, folder: Path) -> int:
    """Run both and print."""
    result = json.loads((folder / "result.json").read_text())
    sizes = [int(axis.split("=")[1]) for axis in result["solution"]["mesh"].split(",")]
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={prod(sizes)}"
    import jax
    import numpy as np

    from benchmarks.hlo.steps import STEPS

    spec = importlib.util.spec_from_file_location("plan_jax", folder / "plan_jax.py")
    plan = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plan)
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
    state = compiled.memory_analysis().argument_size_in_bytes
    print(f"largest relative difference {worst:.2e}; loss {float(alone[-1]):.6f} and {float(together[-1]):.6f}")
    print(f"argument bytes on a device: XLA {state:,}, plan {result['metrics']['state_bytes']:,}")
    for kind, size in sorted(collectives(compiled.as_text()).items()):
        print(f"compiled  {kind:20} {size:14,}")
    for each in result["metrics"]["collectives"]:
        print(f"plan      {each['kind']:20} {each['bytes']:14,}  {each['axes']}, {each['cause']}")
    return 0 if worst <= 1e-5 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
