"""Why an argument is split as it is: what every other layout of it would cost, or what forbids it.

Each layout that the argument can have is pinned in turn and the problem solved again. Where that leaves no plan
without resharding, the reason is found in the linkage group of the dimension: an operation in which it must be whole, a
dimension of another size that it is tied to, or a second dimension of the same array. A dimension that an axis does not
divide is named with the next size that it would divide.
"""

from collections.abc import Iterator
from math import inf
from typing import NamedTuple

from dse.parallel.mesh import WHOLE, Layout
from dse.parallel.plan import picoseconds_of
from dse.parallel.prices import Prices
from dse.parallel.problem import ParallelProblem
from dse.parallel.solve import solve
from dse.run.progress import StopSignal, never_stop
from dse.sharding.propagation import obstacle_text
from hardware.inputs import InputError


class Alternative(NamedTuple):
    """A layout of the argument.

    Attributes:
        layout: the layout.
        picoseconds: the time of a step in the best plan that has it; None where there is none.
        reason: why there is none; empty where there is one.
    """

    layout: Layout
    picoseconds: int | None
    reason: str = ""


def alternatives(
    problem: ParallelProblem, prices: Prices, number: int, method: str, seed: int = 0, stop: StopSignal = never_stop
) -> list[Alternative]:
    """All layouts of the argument of this number, the cheapest first, then those that are forbidden.

    ``prices`` are those of the problem, which pins do not change. Costs as many solutions of the problem as the
    argument has layouts.
    """
    value = problem.graph.arguments[number].value
    alternatives = []
    for layout in problem.mesh.layouts(problem.graph.values[value].dims):
        if stop() is not None:
            break
        pinned = problem.pinned({**problem.pins, number: layout})
        try:
            plan = solve(pinned, prices, method, seed, stop).plan
        except InputError:
            plan = None
        if plan is None:
            obstacles = _obstacles(problem, value, layout) if method == "linkage" else ()
            alternatives.append(Alternative(layout, None, "; ".join(obstacles) or _NO_PLAN))
        else:
            alternatives.append(Alternative(layout, picoseconds_of(pinned, prices, plan)))
    alternatives.sort(key=lambda each: inf if each.picoseconds is None else each.picoseconds)
    return alternatives + list(_undivided(problem, value))


_NO_PLAN = "no plan with it satisfies the memory limit and the other pins"


def _undivided(problem: ParallelProblem, value: int) -> Iterator[Alternative]:
    """Dimensions that one axis alone does not divide."""
    for dim, size in enumerate(problem.graph.values[value].dims):
        for number, axis in enumerate(problem.mesh.axes):
            if size > 1 and size % axis.size:
                layout = tuple(dim if each == number else WHOLE for each in range(len(problem.mesh.axes)))
                padded = -(-size // axis.size) * axis.size
                rule = f"dimension {dim} of size {size:,} is not a multiple of {axis.size} (pad it to {padded:,})"
                yield Alternative(layout, None, rule)


def _obstacles(problem: ParallelProblem, value: int, layout: Layout) -> Iterator[str]:
    """What forbids a plan without resharding to split the dimensions that ``layout`` splits."""
    linkage = problem.linkage
    for dim in sorted({split for split in layout if split != WHOLE}):
        group = linkage.groups[linkage.group_of[value, dim]]
        if reason := obstacle_text(problem.graph, group, problem.mesh.parts(layout, dim)):
            yield f"dimension {dim} {reason}"
