"""The least memory that a device needs for any hybrid plan: why nothing fits."""

from dataclasses import replace

import numpy as np

from dse.parallel.hybrid.chain import ChainSearch, Point
from dse.parallel.hybrid.pieces import Pieces
from dse.parallel.hybrid.problem import HybridProblem
from dse.parallel.hybrid.stage_problem import min_bytes as min_bytes_of_stage
from dse.parallel.pipeline.memory import min_memory_bytes as min_bytes_of_pipelines
from dse.parallel.prices import Prices
from dse.run.progress import never_stop


def min_memory_bytes(problem: HybridProblem) -> int:
    """Fewer bytes than this on a device are not enough for any plan: bisection over what stages keep at least."""
    pipelines = problem.pipelines()
    min_bytes = _min_bytes_of_chains(problem)
    if pipelines is None:
        return min_bytes
    return min(min_bytes, min_bytes_of_pipelines(problem.base, pipelines.device_cuts()))


def _min_bytes_of_chains(problem: HybridProblem) -> int:
    unlimited = replace(problem, base=replace(problem.base, memory_bytes=None))
    chains, pieces = ChainSearch(unlimited, never_stop), Pieces(unlimited, 0, never_stop)
    ends = (0, *problem.cuts, problem.steps.points)
    base = problem.base

    def least(begin: int, end: int, width: int, behind: int) -> float:
        in_flight = min(base.microbatches, behind + 1)
        points = range(ends[begin], ends[end])
        stash = int(base.profile.stash_bytes[points.start : points.stop].sum())
        entering = in_flight * int(base.profile.cut_bytes[points.start]) if base.recompute else 0
        stash *= 1 if base.recompute else in_flight
        equal = base.profile.stage_weight_bytes(points) * base.state_factor
        equal += (stash + entering) / (base.microbatches * width)
        meshes = problem.meshes(width)[1:]
        if problem.shards_whole_steps and width == base.devices:
            step = problem.steps.stage(points)
            whole = [problem.stage_problem(step, width, mesh, 1) for mesh in meshes]
            return min([equal, *(min_bytes_of_stage(each, Prices(each)) for each in whole)])
        return min([equal, *(pieces.min_bytes(width, mesh, begin, end, in_flight) for mesh in meshes)])

    known: dict[tuple[int, int, int, int], float] = {}

    def fits(limit_bytes: int) -> bool:
        def points_of(begin: int, end: int, width: int, behind: int, limit_s: float) -> list[Point]:
            del limit_s
            key = (begin, end, width, behind)
            if key not in known:
                known[key] = least(*key)
            return [Point(0.0, 0.0, 0.0, None)] if known[key] <= limit_bytes else []

        return bool(chains.shortest(points_of, np.inf).links)

    low, high = 0, 1
    while not fits(high):
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        if fits(middle):
            high = middle
        else:
            low = middle + 1
    return low
