"""One facade over the methods: the best plan, its value in whole units, and what is proven."""

from dataclasses import dataclass

from dse.parallel.plan import Plan, picoseconds_of
from dse.parallel.prices import Prices
from dse.parallel.problem import ParallelProblem
from dse.run.progress import StopSignal, never_stop
from hardware.inputs import fail


@dataclass(frozen=True)
class Solution:
    """What a method found.

    Attributes:
        plan: the best one; None where there is none.
        value, bound: of the objective, picoseconds or split dimensions; None where unknown.
        least_state_bytes: where nothing fits, what the arguments need at least on a device.
    """

    plan: Plan | None
    value: int | None
    bound: int | None
    least_state_bytes: int | None = None


def solve(
    problem: ParallelProblem, prices: Prices, method: str, seed: int = 0, stop: StopSignal = never_stop
) -> Solution:
    """The best plan by ``exact`` or ``linkage``.

    Raises:
        InputError: pins that no plan of the method keeps.
    """
    method_of = _without_resharding if method == "linkage" else _exact
    return method_of(problem, prices, seed, stop)


def _without_resharding(problem: ParallelProblem, prices: Prices, seed: int, stop: StopSignal) -> Solution:
    from dse.parallel.linkage_plans import least_state_bytes, linkage_plan

    found = linkage_plan(problem, prices, seed, stop)
    if found.plan is None and found.bound is None:
        least = least_state_bytes(problem, prices, seed)
        if least is None:
            names = ", ".join(problem.graph.arguments[number].name for number in problem.pins)
            rule = "no plan without resharding keeps these pins together (--method exact would reshard)"
            raise fail("dse parallel", "--pin", names, rule)
        return Solution(None, None, None, least)
    return Solution(found.plan, found.value, found.bound)


def _exact(problem: ParallelProblem, prices: Prices, seed: int, stop: StopSignal) -> Solution:
    from dse.algorithms.pairwise.solve import solve as solve_pairwise
    from dse.parallel.choice_graph import ChoiceGraph

    least = sum(
        min(
            problem.graph.values[argument.value].size_bytes // problem.mesh.shards(layout)
            for layout in problem.layouts_of_argument(number)
        )
        for number, argument in enumerate(problem.graph.arguments)
    )
    if problem.state_bytes is not None and least > problem.state_bytes:
        return Solution(None, None, None, least)
    choices = ChoiceGraph(problem, prices)
    found = solve_pairwise(choices.pairwise(), seed=seed, stop=stop)
    if found.choices is None:
        return Solution(None, None, found.bound)
    plan = choices.plan(found.choices)
    value = picoseconds_of(problem, prices, plan)
    return Solution(plan, value, found.bound)
