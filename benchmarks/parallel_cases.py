"""What ``benchmarks.parallel`` measures, each in a process of its own: ``python -m benchmarks.parallel_cases WHAT``."""

import gzip
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.process import peak_gb

LIMIT_S = 120.0
"""After so long a search ends at the next of its steps."""

PLANS = {"data": "8", "operator": "8", "data × operator": "data=2,model=4"}
"""The meshes of the plans that are compared with Shardy's."""


def problem_of(path: str, mesh: str, fraction: int | None = None) -> Any:
    """The step in a file as a problem on A100s, with memory for one part in ``fraction`` of its arguments."""
    from dse.parallel.contract import ParallelType
    from dse.parallel.options import ParallelOptions

    posed = ParallelType().pose(ParallelOptions(path, mesh=mesh)).problem
    values = posed.graph.values
    whole = sum(values[each.value].size_bytes for each in posed.graph.arguments)
    return posed if fraction is None else replace(posed, state_bytes=whole // fraction)


_LOADED_LATE = ("dse.algorithms.pairwise.solve", "dse.parallel.choice_graph", "dse.parallel.contract")
"""Modules that the search imports where it needs them."""


def planned(path: str, mesh: str, method: str, fraction: str) -> dict[str, Any]:
    """One plan, from text; its value and bound in seconds."""
    for module in _LOADED_LATE:  # imports are not counted
        import_module(module)
    from dse.parallel.baselines import data_parallel
    from dse.parallel.linkage_plans import linkage_plan
    from dse.parallel.plan import picoseconds_of
    from dse.parallel.prices import Prices
    from dse.parallel.resharding import PICO
    from dse.parallel.solve import solve

    begun = time.process_time()
    problem = problem_of(path, mesh, int(fraction) or None)
    prices = Prices(problem)

    def stop() -> str | None:
        return "time limit" if time.process_time() - begun > LIMIT_S else None

    found = solve(problem, prices, method, stop=stop)
    cpu_s, peak = time.process_time() - begun, peak_gb()
    other = data_parallel(problem, prices) if method == "linkage" else linkage_plan(problem, prices).plan
    return {
        "cpu_s": cpu_s,
        "peak_gb": peak,
        "value_s": None if found.value is None else found.value * PICO,
        "gap": None if found.value is None or found.bound is None else 1 - found.bound / found.value,
        "other_s": None if other is None else picoseconds_of(problem, prices, other) * PICO,
    }


def chosen(case: str, memory: str) -> dict[str, Any]:
    """One pairwise problem solved: the one in a file, or the random one of a seed."""
    import dse.algorithms.pairwise.solve as pairwise
    from benchmarks.sharding_cases import sharding_case
    from dse.algorithms.pairwise.iopddl import problem_of as read

    if case.isdigit():
        problem = sharding_case(int(case), memory=float(memory))
    else:
        problem = read(json.loads(gzip.decompress(Path(case).read_bytes())), "G")
    begun = time.process_time()
    found = pairwise.solve(problem)
    return {
        "cpu_s": time.process_time() - begun,
        "peak_gb": peak_gb(),
        "value": found.value,
        "gap": None if not found.value or found.bound is None else 1 - found.bound / found.value,
        "greedy": sum(int(costs.min()) for costs in problem.costs),
    }


def beside_shardy(name: str, path: str, plan: str) -> dict[str, Any]:
    """Collectives that differ from Shardy's for a plan without resharding: (kind, axes, bytes) → runs of both."""
    from benchmarks.hlo.shardy import Sent, collectives, mesh_sizes, partitioned
    from dse.parallel.baselines import data_parallel
    from dse.parallel.formats import plan_document
    from dse.parallel.linkage_plans import linkage_plan
    from dse.parallel.plan import sent_by
    from dse.parallel.prices import Prices

    problem = problem_of(path, PLANS[plan], None if plan == "data" else 3)
    if plan == "operator":
        inputs = {place: problem.mesh.whole for place, e in enumerate(problem.graph.arguments) if e.role == "input"}
        problem = replace(problem, pins=inputs)
    prices = Prices(problem)
    found = data_parallel(problem, prices) if plan == "data" else linkage_plan(problem, prices).plan
    if found is None:
        raise SystemExit(f"{name}: no {plan} plan")
    axes, values = [axis.name for axis in problem.mesh.axes], problem.graph.values
    ours, names = Counter[Sent](), dict[Sent, set[str]]()
    for each in sent_by(problem, prices, found):
        key = Sent(each.collective.kind, tuple(axes[axis] for axis in each.collective.axes), each.collective.size_bytes)
        ours[key] += each.times
        names.setdefault(key, set()).add(values[each.value].name)
    solution = plan_document(problem, prices, found)
    shardys = collectives(partitioned(name, solution), mesh_sizes(solution))
    different = [
        f"{key.kind} {'+'.join(key.axes)} of {key.size_bytes:,} bytes: {ours[key]} here"
        f" ({', '.join(sorted(names.get(key, set()))[:3])}), {shardys[key]} by Shardy"
        for key in sorted(ours.keys() | shardys.keys())
        if ours[key] != shardys[key]
    ]
    return {
        "runs": ours.total(),
        "bytes": sum(key.size_bytes * count for key, count in ours.items()),
        "shardy_bytes": sum(key.size_bytes * count for key, count in shardys.items()),
        "different": different,
    }


def on_devices(name: str, folder: str) -> dict[str, Any]:
    """A run directory's plan on CPU devices."""
    from benchmarks.hlo.run_plan import compared

    return asdict(compared(name, Path(folder)))


def agreeing(name: str) -> dict[str, Any]:
    """Linkage groups next to Shardy's propagation."""
    from benchmarks.hlo.classes import agreement

    found = agreement(name)
    return {"compared": found.compared, "different": [asdict(each) for each in found.differences]}


def lower(name: str, folder: str) -> dict[str, Any]:
    """The dump of a step by the JAX at hand."""
    from benchmarks.hlo.steps import write

    write(name, Path(folder), optimised=False)
    return {}


CHILDREN: dict[str, Callable[..., dict[str, Any]]] = {
    each.__name__: each for each in (planned, chosen, beside_shardy, on_devices, agreeing, lower)
}


if __name__ == "__main__":
    print(json.dumps(CHILDREN[sys.argv[1]](*sys.argv[2:])))
